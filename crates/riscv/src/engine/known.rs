//! Blocks that were told before, of a hart that is listened to: most are executed again and again, and differ in nothing but where they
//! access memory and where a computed jump goes. So their ops are put together once, and told again with a number. Whoever is told says for
//! how long ([`Allowance`]) that number and the addresses are enough, where all of these lie on pages that were told, too. Such blocks are held
//! back and told together.

use std::collections::HashMap;

use doorbell_sim::memory::LINE_BYTES;
use doorbell_sim::numbered::{head, number_of};
use doorbell_sim::ram::PAGE_BYTES;
use doorbell_sim::{Allowance, Op as TimedOp, OpClass, OpSource, Ram};

use super::key::{Key, PLACES};
use super::notes::{HELD_WORDS, NEVER, Notes};
use super::{Block, BlockOps};
use crate::hart::Hart;
use crate::mmu::PAGE_MASK;
use crate::tlb::UNTOLD;

/// Numbers that are given; what comes later is told without one.
const NUMBERS: usize = 1 << 16;
/// Pages that were told, by the low bits of theirs: more than the TLB has, as a page that comes back to it is not told again.
const PAGES: usize = 1 << 13;

/// A block that is known. Its ops, which are looked at less often, stand elsewhere.
struct Known {
    /// When it was told in full.
    era: u64,
    /// The first of its accesses, and how many there are.
    first: u32,
    accesses: u32,
}

/// What is asked of a known block each time that it is executed.
#[derive(Clone, Copy, Default)]
struct Lately {
    key: Key,
    /// When it was told in full.
    era: u64,
    /// Its word before its addresses.
    head: u64,
}

/// Where it is looked for what a block is known as: its key, and a place for that.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub key: Key,
    pub place: usize,
}

impl At {
    /// Of a block that was executed whole, or in part.
    #[inline(always)]
    pub fn new(key: Key, whole: bool) -> At {
        At { key, place: key.place(whole) }
    }
}

/// What a hart executes in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Within {
    pub space: Option<u16>,
    pub privileged: bool,
}

/// A page that was told: where the TLB finds it, and when it was told to lie there.
#[derive(Clone, Copy, Default, PartialEq)]
struct ToldPage {
    page: u64,
    addend: u64,
    era: u64,
}

/// The era of what is executed privileged, or not, of a recorder's era.
fn era_within(era: u64, privileged: bool) -> u64 {
    era << 1 | u64::from(privileged)
}

fn place(virt: u64) -> usize {
    (virt / PAGE_BYTES) as usize % PAGES
}

/// See the module.
pub struct KnownBlocks {
    blocks: Vec<Known>,
    /// Each one's ops, as they were told in full last.
    ops: Vec<Vec<TimedOp>>,
    /// Which ops access memory: all blocks', one behind the other.
    accesses: Vec<u16>,
    /// By its key, and whether it was executed privileged.
    numbers: HashMap<(Key, bool), u32>,
    /// Blocks that were told in full lately, by their keys' places.
    lately: Box<[Lately; PLACES]>,
    /// The ops of one that is not known.
    pub(super) scratch: Vec<TimedOp>,
    allowance: Allowance,
    /// The hart's while it runs, so that what is held back is there where it notes.
    pub(super) notes: Box<Notes>,
    /// The instructions that are held back, and the thread that executed them.
    held_instructions: u64,
    held_thread: u64,
    /// The address space that the allowance is of, once a block of it was told in full.
    space: Option<Option<u16>>,
    /// What the hart executes in.
    executing: Within,
    /// Of the blocks that keys are of: how often the cache of blocks has begun afresh.
    generation: u32,
    /// So many words are held back at most.
    words_max: usize,
    /// Pages that were told. Most are found to be by [what the TLB says](crate::tlb::TlbEntry::told).
    pages: Box<[ToldPage; PAGES]>,
    /// No hart has run yet, so that no TLB may say anything.
    pub(super) is_new: bool,
}

impl Default for KnownBlocks {
    fn default() -> KnownBlocks {
        let lately = vec![Lately::default(); PLACES].into_boxed_slice();
        KnownBlocks {
            blocks: Vec::new(),
            ops: Vec::new(),
            accesses: Vec::new(),
            numbers: HashMap::new(),
            lately: lately.try_into().unwrap_or_else(|_| unreachable!("so many were made")),
            scratch: Vec::new(),
            allowance: Allowance::default(),
            notes: Box::default(),
            held_instructions: 0,
            held_thread: 0,
            space: None,
            executing: Within::default(),
            generation: 0,
            words_max: 0,
            pages: Box::new([ToldPage::default(); PAGES]),
            is_new: true,
        }
    }
}

impl KnownBlocks {
    /// What may be told by numbers from the next run on.
    pub fn goes_on(&mut self, allowance: Allowance) {
        if allowance.era != self.allowance.era {
            self.space = None;
        }
        self.allowance = allowance;
    }

    /// The hart whose notes these are executes in this from now on.
    pub(super) fn executes_in(&mut self, within: Within, notes: &mut Notes) {
        self.executing = within;
        self.look(notes);
    }

    /// What the hart executes in.
    pub(super) fn executes(&self) -> Within {
        self.executing
    }

    /// Notes when what the hart executes next must have been told: in the allowance's era, if that is of its space.
    fn look(&mut self, notes: &mut Notes) {
        let Within { space, privileged } = self.executing;
        let is_of = self.space == Some(space) && self.allowance.era != UNTOLD;
        notes.expect(if is_of { era_within(self.allowance.era, privileged) } else { NEVER });
        self.words_max = self.allowance.words.min(HELD_WORDS);
    }

    /// Whether keys are of blocks of this generation.
    #[inline(always)]
    pub(super) fn is_of(&self, generation: u32) -> bool {
        self.generation == generation
    }

    /// They are from now on.
    pub(super) fn are_of(&mut self, generation: u32) {
        if self.generation != generation {
            self.numbers.clear();
            self.lately.fill(Lately::default());
            self.generation = generation;
        }
    }

    /// Holds back a block that was executed again, if it is known that its number and addresses are all that is to be told of it: it has
    /// been told in full, and so have the pages that it accessed.
    #[inline(always)]
    pub(super) fn hold(&mut self, hart: &mut Hart, at: At) -> bool {
        let (lately, notes) = (&self.lately[at.place % PLACES], &hart.notes);
        let is_known = (lately.key == at.key) & (lately.era == notes.now()) & notes.are_told();
        if !is_known || self.held_thread != hart.thread() {
            return false;
        }
        let target = hart.pc;
        hart.notes.hold(lately.head, target, at.key.computes());
        self.held_instructions += at.key.count();
        true
    }

    /// Finds out whether a known block may be held back: if it may, it is known from now on where [`hold`](KnownBlocks::hold) looks.
    pub(super) fn recall(&mut self, number: u32, hart: &mut Hart, at: At) -> bool {
        let now = hart.notes.now();
        if self.blocks[number as usize].era != now {
            return false;
        }
        for nth in 0..hart.notes.addresses().len() {
            let virt = hart.notes.address(nth);
            let entry = hart.tlb_entry_mut(virt);
            let told = ToldPage { page: virt & PAGE_MASK, addend: entry.addend, era: now };
            if entry.load_tag != told.page || self.pages[place(virt)] != told {
                return false;
            }
            entry.told = now;
        }
        hart.notes.were_told();
        self.found(number, at);
        true
    }

    /// Whether another thread executed what is held back.
    #[inline]
    pub(super) fn holds_of_another(&self, thread: u64) -> bool {
        self.held_thread != thread
    }

    /// Whether no more may be held back in `notes`.
    #[inline(always)]
    pub(super) fn holds_all(&self, notes: &Notes) -> bool {
        self.held_instructions >= self.allowance.instructions || notes.holds() >= self.words_max
    }

    /// What is held back.
    pub fn held(&self) -> Option<Block<'_>> {
        self.held_in(&self.notes)
    }

    /// The same, of the running hart.
    pub(super) fn held_in<'a>(&self, notes: &'a Notes) -> Option<Block<'a>> {
        (notes.holds() > 0).then_some(Block {
            ops: BlockOps::Known(notes.held()),
            instructions: self.held_instructions,
            trapped: false,
            space: self.space.flatten(),
            thread: self.held_thread,
            number: None,
            fence: None,
        })
    }

    /// What was held back has been told.
    pub fn told_held(&mut self, allowance: Allowance) {
        self.notes.let_go();
        self.held_instructions = 0;
        self.goes_on(allowance);
    }

    /// The same, of the running hart, whose notes these are.
    pub(super) fn let_go(&mut self, notes: &mut Notes, allowance: Allowance) {
        notes.let_go();
        self.held_instructions = 0;
        self.goes_on(allowance);
        self.look(notes);
    }

    /// From now on, what is held back is this thread's.
    pub(super) fn holds_for(&mut self, thread: u64) {
        self.held_thread = thread;
    }

    /// The block that was executed last was told in full, in this space, and the next one is of this era. If that is another one, then what
    /// was told may be forgotten again. `known` is its number, and where it is looked for.
    pub(super) fn told(
        &mut self,
        known: Option<(u32, At)>,
        hart: &mut Hart,
        space: Option<u16>,
        allowance: Allowance,
    ) {
        let goes_on = allowance.era == self.allowance.era && allowance.era != UNTOLD;
        (self.allowance, self.space) = (allowance, Some(space));
        self.look(&mut hart.notes);
        let Some((number, at)) = known.filter(|_| goes_on) else { return };
        let (known, era) = (&mut self.blocks[number as usize], hart.notes.now());
        known.era = UNTOLD;
        for access in &self.accesses[known.first as usize..][..known.accesses as usize] {
            let TimedOp { virt, phys, .. } = self.ops[number as usize][usize::from(*access)];
            // Of which nothing is known, or whose address is of another kind than those of its space.
            if (virt, phys.0) == (0, 0) || (virt == phys.0) != space.is_none() {
                return;
            }
            let entry = hart.tlb_entry_mut(virt);
            if entry.load_tag == virt & PAGE_MASK {
                entry.told = era;
                self.pages[place(virt)] = ToldPage { page: entry.load_tag, addend: entry.addend, era };
            }
        }
        known.era = era;
        self.found(number, at);
    }

    /// The number of a block that has one, if it is executed `now`.
    pub(super) fn find(&self, at: At, now: u64) -> Option<u32> {
        let lately = &self.lately[at.place % PLACES];
        if lately.key == at.key && lately.era == now {
            return Some(number_of(lately.head));
        }
        self.numbers.get(&(at.key, self.executing.privileged)).copied()
    }

    /// It will be looked for again soon.
    fn found(&mut self, number: u32, At { key, place }: At) {
        let Known { era, accesses, .. } = self.blocks[number as usize];
        let head = head(number, accesses + u32::from(key.computes()));
        self.lately[place % PLACES] = Lately { key, era, head };
    }

    /// A known block was executed again: its ops. None if an access crosses a line, which makes other ops of it.
    #[inline]
    pub(super) fn again(&mut self, number: u32, hart: &Hart, ram: &Ram) -> Option<&[TimedOp]> {
        let (known, ops) = (&self.blocks[number as usize], &mut self.ops[number as usize]);
        let accesses = &self.accesses[known.first as usize..][..known.accesses as usize];
        for (nth, access) in accesses.iter().enumerate() {
            let op = &mut ops[usize::from(*access)];
            op.virt = hart.notes.address(nth);
            if op.virt % LINE_BYTES + u64::from(op.size) > LINE_BYTES {
                return None;
            }
            op.phys = hart.physical(ram, op.virt);
        }
        if let Some(last) = ops.last_mut().filter(|op| op.class.is_branch()) {
            last.virt = hart.pc;
        }
        Some(ops)
    }

    /// What is in `scratch` was executed as this and noted so many addresses: it gets a number, if it can be known by one.
    #[cold]
    pub(super) fn learn(&mut self, key: Key, noted: usize) -> Option<u32> {
        // Prefetches may be something else next time; an access of which nothing is known is told apart from others.
        let is_odd = |op: &TimedOp| {
            op.class == OpClass::Prefetch
                || op.length == 0
                || op.class.is_memory() && (op.virt, op.phys.0) == (0, 0)
        };
        // One that may access nothing is something else already: an address was noted that no op has.
        let accesses = (0..).zip(&self.scratch).filter(|(_, op)| op.class.is_memory()).map(|(at, _)| at);
        let is_simple = accesses.clone().count() == noted && !self.scratch.iter().any(is_odd);
        if self.blocks.len() == NUMBERS || !is_simple || self.scratch.len() as u64 != key.count() {
            return None;
        }
        let computes = self.scratch.last().is_some_and(|op| op.class.has_computed_target());
        assert_eq!(computes, key.computes(), "a block that ends with a computed jump is left by it");
        let number = self.blocks.len() as u32;
        let first = self.accesses.len();
        self.accesses.extend(accesses);
        let (first, accesses) = (first as u32, noted as u32);
        self.blocks.push(Known { era: UNTOLD, first, accesses });
        self.ops.push(self.scratch.clone());
        self.numbers.insert((key, self.executing.privileged), number);
        Some(number)
    }
}
