//! What was executed and what happened, in the order in which it was told, on its way to the thread that encodes it.
//!
//! A batch is as large as stays in a core's caches; it comes back when it is encoded, and is filled again.

use doorbell_sim::Op;
use doorbell_sim::memory::Walk;

use super::device::DeviceEvent;
use super::encoder::Again;
use super::hart::Step;

/// A batch is full when it has so many words, ops or events.
const WORDS: usize = 1 << 15;
const OPS: usize = 1 << 12;
const EVENTS: usize = 1 << 11;

/// Kinds of records, in the lowest bits of their first words.
const AGAIN: u64 = 0;
const STEP: u64 = 1;
const BLOCK: u64 = 2;
const EVENT: u64 = 3;
const KIND_BITS: u32 = 2;
/// Where else in a first word something is: the hart is above the kind; whether a block has a number; and that, or how many words follow.
const NUMBERED_SHIFT: u32 = 18;
const NUMBER_SHIFT: u32 = 32;

/// How far a hart's stream is encoded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// Which chunk is under way.
    pub chunk: u64,
    /// Its bytes so far.
    pub bytes: usize,
}

/// See the module.
#[derive(Default)]
pub(super) struct Batch {
    words: Vec<u64>,
    steps: Vec<Step>,
    ops: Vec<Op>,
    /// By page.
    walks: Vec<(u64, Walk)>,
    events: Vec<DeviceEvent>,
    /// The writer's tally of each hart when the batch was sent.
    pub most: Vec<usize>,
    /// How far each hart's stream was when it was encoded.
    pub places: Vec<Place>,
    /// The trace ends with it.
    pub is_last: bool,
}

/// A record.
pub(super) enum Record<'a> {
    /// Blocks that were told in full in this chunk, but for what differs each time: numbers and addresses.
    Again { hart: u16, blocks: &'a [u64] },
    /// What is told of the hart's next block, which is told by its number. Space and thread hold for those behind it, too.
    Step { hart: u16, step: &'a Step },
    /// A block. The walks are those that were not told in this chunk.
    Block { hart: u16, step: &'a Step, again: Option<Again>, ops: &'a [Op], walks: &'a [(u64, Walk)] },
    /// A device's event.
    Event(&'a DeviceEvent),
}

impl Batch {
    /// Whether it is to be sent.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.words.len() >= WORDS || self.ops.len() >= OPS || self.events.len() >= EVENTS
    }

    /// Empties it, but for the tally.
    pub fn clear(&mut self) {
        self.words.clear();
        self.steps.clear();
        self.ops.clear();
        self.walks.clear();
        self.events.clear();
        self.places.clear();
    }

    /// Appends blocks that differ from what was told of their numbers in nothing but addresses.
    #[inline]
    pub fn again(&mut self, hart: u16, blocks: &[u64]) {
        self.words.push(AGAIN | u64::from(hart) << KIND_BITS | (blocks.len() as u64) << NUMBER_SHIFT);
        self.words.extend_from_slice(blocks);
    }

    /// Appends what is told of the next block.
    pub fn step(&mut self, hart: u16, step: &Step) {
        self.words.push(STEP | u64::from(hart) << KIND_BITS);
        self.steps.push(*step);
    }

    /// Appends a block.
    pub fn block(
        &mut self,
        hart: u16,
        step: &Step,
        again: Option<Again>,
        ops: &[Op],
        walks: impl Iterator<Item = (u64, Walk)>,
    ) {
        let before = self.walks.len();
        self.walks.extend(walks);
        let walks = (self.walks.len() - before) as u64;
        let (number, instructions) = again.map_or((0, 0), |again| (again.shape, again.instructions));
        let is_numbered = u64::from(again.is_some()) << NUMBERED_SHIFT;
        self.words.extend([
            BLOCK | u64::from(hart) << KIND_BITS | is_numbered | u64::from(number) << NUMBER_SHIFT,
            ops.len() as u64 | walks << NUMBER_SHIFT,
            instructions,
        ]);
        self.steps.push(*step);
        self.ops.extend_from_slice(ops);
    }

    /// Appends an event.
    pub fn event(&mut self, event: &DeviceEvent) {
        self.words.push(EVENT);
        self.events.push(*event);
    }

    /// What is in it, in order.
    pub fn records(&self) -> Records<'_> {
        let Batch { words, steps, ops, walks, events, .. } = self;
        Records { words, steps, ops, walks, events }
    }
}

/// What is left of a batch.
pub(super) struct Records<'a> {
    words: &'a [u64],
    steps: &'a [Step],
    ops: &'a [Op],
    walks: &'a [(u64, Walk)],
    events: &'a [DeviceEvent],
}

/// The first so many, which are taken off.
fn first<'a, T>(from: &mut &'a [T], count: usize) -> &'a [T] {
    let (first, rest) = from.split_at(count);
    *from = rest;
    first
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        let (word, rest) = self.words.split_first()?;
        self.words = rest;
        let (hart, number) = ((word >> KIND_BITS) as u16, (word >> NUMBER_SHIFT) as u32);
        let is_numbered = word >> NUMBERED_SHIFT & 1 != 0;
        Some(match word & ((1 << KIND_BITS) - 1) {
            AGAIN => Record::Again { hart, blocks: first(&mut self.words, number as usize) },
            STEP => Record::Step { hart, step: &first(&mut self.steps, 1)[0] },
            BLOCK => {
                let [counts, instructions] = *first(&mut self.words, 2) else { unreachable!("two words") };
                let again = is_numbered.then_some(Again { shape: number, instructions });
                Record::Block {
                    hart,
                    step: &first(&mut self.steps, 1)[0],
                    again,
                    ops: first(&mut self.ops, counts as u32 as usize),
                    walks: first(&mut self.walks, (counts >> NUMBER_SHIFT) as usize),
                }
            }
            _ => Record::Event(&first(&mut self.events, 1)[0]),
        })
    }
}
