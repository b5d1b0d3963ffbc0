//! Blocks that were told before, of a hart that is listened to: most are executed again and again, and differ in nothing but where they
//! access memory and where a computed jump goes. So their ops are put together once, and told again with a number. Whoever is told says for
//! how long ([`Allowance`]) that number and the addresses are enough, where all of these lie on pages that were told, too. Such blocks are held
//! back and told together.

use std::collections::HashMap;

use doorbell_sim::memory::LINE_BYTES;
use doorbell_sim::numbered::head;
use doorbell_sim::ram::PAGE_BYTES;
use doorbell_sim::{Allowance, Op as TimedOp, OpClass, Ram};

use super::block::BlockId;
use super::{Block, BlockOps, Exit};
use crate::hart::Hart;
use crate::mmu::PAGE_MASK;

/// Numbers that are given; what comes later is told without one.
const NUMBERS: usize = 1 << 16;
/// Numbers found lately, by the low bits of their blocks.
const LATELY: usize = 1 << 16;
const NO_NUMBER: u32 = u32::MAX;
/// Pages that were told, by the low bits of theirs: more than the TLB has, as a page that comes back to it is not told again.
const PAGES: usize = 1 << 13;

/// What makes a block's ops the same but for addresses and a computed target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// Its virtual address.
    pub pc: u64,
    /// Which one it is, of those that were decoded since the cache of blocks began afresh for the last time.
    pub block: BlockId,
    pub generation: u32,
    /// Instructions that retired.
    pub count: u32,
    pub exit: Exit,
    pub privileged: bool,
}

impl Key {
    /// Where its number is kept. Blocks that are executed together were decoded together, and share lines of the host's caches.
    fn place(&self) -> usize {
        (self.block as usize * 4 + self.exit as usize) % LATELY
    }

    /// Where it is kept if there is another part of the same block: the first instructions alone, as far as a hart's turn went.
    fn other_place(&self) -> usize {
        (self.place() + self.count as usize * 0x1001) % LATELY
    }
}

/// A block that is known. Its ops, which are looked at less often, stand elsewhere.
struct Known {
    key: Key,
    /// When it was told in full.
    era: u64,
    /// The first of its accesses, and how many there are.
    first: u32,
    accesses: u32,
    /// Whether it ends with a jump to a computed address.
    computes: bool,
}

/// An op that accesses memory.
#[derive(Clone, Copy)]
struct Access {
    op: u16,
    size: u8,
    /// When it was told in full, it was to a physical address.
    physical: bool,
}

/// A page that was told: where the TLB finds it, and when it was told to lie there.
#[derive(Clone, Copy, Default, PartialEq)]
struct ToldPage {
    /// The virtual page, and one more if addresses in it are physical.
    tag: u64,
    addend: u64,
    era: u64,
}

fn tag(virt: u64, physical: bool) -> u64 {
    virt & PAGE_MASK | u64::from(physical)
}

fn place(virt: u64) -> usize {
    (virt / PAGE_BYTES) as usize % PAGES
}

/// No era.
const NEVER: u64 = u64::MAX;

/// See the module.
pub struct KnownBlocks {
    blocks: Vec<Known>,
    /// Each one's ops, as they were told in full last.
    ops: Vec<Vec<TimedOp>>,
    /// All blocks', one behind the other.
    accesses: Vec<Access>,
    numbers: HashMap<Key, u32>,
    /// Empty before the first.
    lately: Vec<u32>,
    /// The ops of one that is not known.
    pub(super) scratch: Vec<TimedOp>,
    allowance: Allowance,
    /// Blocks that are held back, as they are told: a head for each, and its addresses.
    held: Vec<u64>,
    /// Their instructions, and the thread that executed them.
    held_instructions: u64,
    held_thread: u64,
    /// The address space that it is of, once a block of it was told in full.
    space: Option<Option<u16>>,
    pages: Box<[ToldPage; PAGES]>,
}

impl Default for KnownBlocks {
    fn default() -> KnownBlocks {
        KnownBlocks {
            blocks: Vec::new(),
            ops: Vec::new(),
            accesses: Vec::new(),
            numbers: HashMap::new(),
            lately: Vec::new(),
            scratch: Vec::new(),
            allowance: Allowance::default(),
            held: Vec::new(),
            held_instructions: 0,
            held_thread: 0,
            space: None,
            pages: Box::new([ToldPage::default(); PAGES]),
        }
    }
}

impl KnownBlocks {
    /// What may be told by numbers from now on.
    pub fn goes_on(&mut self, allowance: Allowance) {
        if allowance.era != self.allowance.era {
            self.space = None;
        }
        self.allowance = allowance;
    }

    /// Holds back a known block that was executed again, if its number and addresses are all that is to be told of it.
    #[inline]
    pub(super) fn hold(&mut self, number: u32, hart: &Hart, space: Option<u16>, instructions: u64) -> bool {
        let (known, era) = (&self.blocks[number as usize], self.allowance.era);
        if known.era != era || self.space != Some(space) {
            return false;
        }
        let before = self.held.len();
        let (count, computes) = (known.accesses, known.computes);
        self.held.push(head(number, count + u32::from(computes)));
        for (nth, access) in self.accesses[known.first as usize..][..count as usize].iter().enumerate() {
            let virt = hart.noted_address(nth);
            let entry = hart.tlb_entry(virt);
            let told = ToldPage { tag: tag(virt, access.physical), addend: entry.addend, era };
            let is_told = (entry.load_tag == virt & PAGE_MASK) & (self.pages[place(virt)] == told);
            if !is_told || virt % LINE_BYTES + u64::from(access.size) > LINE_BYTES {
                self.held.truncate(before);
                return false;
            }
            self.held.push(virt);
        }
        if computes {
            self.held.push(hart.pc);
        }
        self.held_instructions += instructions;
        true
    }

    /// Whether another thread executed what is held back.
    #[inline]
    pub(super) fn holds_of_another(&self, thread: u64) -> bool {
        self.held_thread != thread
    }

    /// Whether no more may be held back.
    #[inline]
    pub(super) fn holds_all(&self) -> bool {
        self.held_instructions >= self.allowance.instructions || self.held.len() >= self.allowance.words
    }

    /// What is held back.
    pub(super) fn held(&self) -> Option<Block<'_>> {
        (!self.held.is_empty()).then_some(Block {
            ops: BlockOps::Known(&self.held),
            instructions: self.held_instructions,
            trapped: false,
            space: self.space.flatten(),
            thread: self.held_thread,
            number: None,
            fence: None,
        })
    }

    /// What was held back has been told.
    pub(super) fn told_held(&mut self, allowance: Allowance) {
        self.held.clear();
        self.held_instructions = 0;
        self.goes_on(allowance);
    }

    /// From now on, what is held back is this thread's.
    pub(super) fn holds_for(&mut self, thread: u64) {
        self.held_thread = thread;
    }

    /// The block that was executed last was told in full, and the next one is of this era. If that is another one, then what was told may
    /// be forgotten again.
    pub(super) fn told(
        &mut self,
        number: Option<u32>,
        hart: &Hart,
        space: Option<u16>,
        allowance: Allowance,
    ) {
        let era = allowance.era;
        let goes_on = era == self.allowance.era && era != 0;
        (self.allowance, self.space) = (allowance, Some(space));
        let Some(number) = number.filter(|_| goes_on) else { return };
        let known = &mut self.blocks[number as usize];
        known.era = NEVER;
        for access in &mut self.accesses[known.first as usize..][..known.accesses as usize] {
            let TimedOp { virt, phys, .. } = self.ops[number as usize][usize::from(access.op)];
            if (virt, phys.0) == (0, 0) {
                return;
            }
            access.physical = virt == phys.0;
            let entry = hart.tlb_entry(virt);
            if entry.load_tag == virt & PAGE_MASK {
                let tag = tag(virt, access.physical);
                self.pages[place(virt)] = ToldPage { tag, addend: entry.addend, era };
            }
        }
        known.era = era;
    }

    /// The number of a block that has one.
    #[inline]
    pub(super) fn find(&mut self, key: &Key) -> Option<u32> {
        for place in [key.place(), key.other_place()] {
            let number = *self.lately.get(place)?;
            if self.blocks.get(number as usize).is_some_and(|known| known.key == *key) {
                return Some(number);
            }
        }
        let number = *self.numbers.get(key)?;
        self.found(key, number);
        Some(number)
    }

    /// Its number will be looked for again soon.
    #[cold]
    fn found(&mut self, key: &Key, number: u32) {
        let there = self.blocks.get(self.lately[key.place()] as usize);
        let is_taken = there.is_some_and(|known| known.key.block == key.block);
        self.lately[if is_taken { key.other_place() } else { key.place() }] = number;
    }

    /// A known block was executed again: its ops. None if an access crosses a line, which makes other ops of it.
    #[inline]
    pub(super) fn again(&mut self, number: u32, hart: &Hart, ram: &Ram) -> Option<&[TimedOp]> {
        let (known, ops) = (&self.blocks[number as usize], &mut self.ops[number as usize]);
        let accesses = &self.accesses[known.first as usize..][..known.accesses as usize];
        for (nth, access) in accesses.iter().enumerate() {
            let op = &mut ops[usize::from(access.op)];
            op.virt = hart.noted_address(nth);
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

    /// What is in `scratch` was executed as this: it gets a number, if it can be known by one.
    #[cold]
    pub(super) fn learn(&mut self, key: Key) -> Option<u32> {
        // Prefetches may be something else next time; an access of which nothing is known is told apart from others.
        let is_odd = |op: &TimedOp| {
            op.class == OpClass::Prefetch
                || op.length == 0
                || op.class.is_memory() && (op.virt, op.phys.0) == (0, 0)
        };
        let is_simple = !self.scratch.iter().any(is_odd);
        if self.blocks.len() == NUMBERS || !is_simple || self.scratch.len() != key.count as usize {
            return None;
        }
        let number = self.blocks.len() as u32;
        let all = self.scratch.iter().enumerate();
        let access = |(at, op): (usize, &TimedOp)| Access { op: at as u16, size: op.size, physical: false };
        let first = self.accesses.len();
        self.accesses.extend(all.filter(|(_, op)| op.class.is_memory()).map(access));
        let (first, accesses) = (first as u32, (self.accesses.len() - first) as u32);
        let computes = self.scratch.last().is_some_and(|op| op.class.has_computed_target());
        self.blocks.push(Known { key, era: NEVER, first, accesses, computes });
        self.ops.push(self.scratch.clone());
        self.numbers.insert(key, number);
        self.lately.resize(LATELY, NO_NUMBER);
        self.found(&key, number);
        Some(number)
    }
}
