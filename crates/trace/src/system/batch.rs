//! Batches of recorded blocks and events, in program order, on their way to the encoder thread.
//!
//! A batch fits into a core's caches; it is returned after encoding and reused.

use doorbell_sim::Op;
use doorbell_sim::memory::Walk;

use super::device::DeviceEvent;
use super::encoder::BlockHint;
use super::hart::Step;

/// A batch is full at this number of words, ops or events.
const WORDS: usize = 1 << 15;
const OPS: usize = 1 << 12;
const EVENTS: usize = 1 << 11;

/// Record kinds, in the lowest bits of the first word.
const REPEAT: u64 = 0;
const STEP: u64 = 1;
const BLOCK: u64 = 2;
const EVENT: u64 = 3;
const KIND_BITS: u32 = 2;
/// Other fields of the first word: the hart above the kind, whether a block has a number, and that number or
/// the count of words that follow.
const NUMBERED_SHIFT: u32 = 18;
const NUMBER_SHIFT: u32 = 32;

/// Encoding progress of a hart's stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Current chunk number.
    pub chunk: u64,
    /// Bytes encoded in it.
    pub bytes: usize,
}

/// See the module.
#[derive(Default)]
pub(super) struct Batch {
    words: Vec<u64>,
    steps: Vec<Step>,
    ops: Vec<Op>,
    /// Pages with their walks.
    walks: Vec<(u64, Walk)>,
    events: Vec<DeviceEvent>,
    /// The writer's upper bound of each hart's bytes, when the batch was sent.
    pub bytes_max: Vec<usize>,
    /// Each hart's progress after the batch was encoded.
    pub progress: Vec<Progress>,
    /// Last batch of the trace.
    pub is_last: bool,
}

/// A record of a batch.
pub(super) enum Record<'a> {
    /// Repeated blocks, recorded in full earlier in this chunk: numbers, and the addresses that differ.
    Repeat { hart: u16, blocks: &'a [u64] },
    /// Step of the hart's next numbered block. Space and thread also hold for the blocks after it.
    Step { hart: u16, step: &'a Step },
    /// A block. `walks` has the walks that the chunk does not have yet.
    Block { hart: u16, step: &'a Step, hint: Option<BlockHint>, ops: &'a [Op], walks: &'a [(u64, Walk)] },
    /// A device event.
    Event(&'a DeviceEvent),
}

impl Batch {
    /// Returns whether the batch is full.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.words.len() >= WORDS || self.ops.len() >= OPS || self.events.len() >= EVENTS
    }

    /// Empties the batch, except for the bounds.
    pub fn clear(&mut self) {
        self.words.clear();
        self.steps.clear();
        self.ops.clear();
        self.walks.clear();
        self.events.clear();
        self.progress.clear();
    }

    /// Appends repeated blocks, which differ from the recorded ones only in addresses.
    #[inline]
    pub fn repeat(&mut self, hart: u16, blocks: &[u64]) {
        self.words.push(REPEAT | u64::from(hart) << KIND_BITS | (blocks.len() as u64) << NUMBER_SHIFT);
        self.words.extend_from_slice(blocks);
    }

    /// Appends the step of the next numbered block.
    pub fn step(&mut self, hart: u16, step: &Step) {
        self.words.push(STEP | u64::from(hart) << KIND_BITS);
        self.steps.push(*step);
    }

    /// Appends a block.
    pub fn block(
        &mut self,
        hart: u16,
        step: &Step,
        hint: Option<BlockHint>,
        ops: &[Op],
        walks: impl Iterator<Item = (u64, Walk)>,
    ) {
        let before = self.walks.len();
        self.walks.extend(walks);
        let walks = (self.walks.len() - before) as u64;
        let (number, instructions) = hint.map_or((0, 0), |hint| (hint.shape, hint.instructions));
        let is_numbered = u64::from(hint.is_some()) << NUMBERED_SHIFT;
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

    /// Returns the records in order.
    pub fn records(&self) -> Records<'_> {
        let Batch { words, steps, ops, walks, events, .. } = self;
        Records { words, steps, ops, walks, events }
    }
}

/// Remaining records of a batch.
pub(super) struct Records<'a> {
    words: &'a [u64],
    steps: &'a [Step],
    ops: &'a [Op],
    walks: &'a [(u64, Walk)],
    events: &'a [DeviceEvent],
}

/// Splits off the first `count` items.
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
            REPEAT => Record::Repeat { hart, blocks: first(&mut self.words, number as usize) },
            STEP => Record::Step { hart, step: &first(&mut self.steps, 1)[0] },
            BLOCK => {
                let [counts, instructions] = *first(&mut self.words, 2) else { unreachable!("two words") };
                let hint = is_numbered.then_some(BlockHint { shape: number, instructions });
                Record::Block {
                    hart,
                    step: &first(&mut self.steps, 1)[0],
                    hint,
                    ops: first(&mut self.ops, counts as u32 as usize),
                    walks: first(&mut self.walks, (counts >> NUMBER_SHIFT) as usize),
                }
            }
            _ => Record::Event(&first(&mut self.events, 1)[0]),
        })
    }
}
