//! Blocks that were told before, of a hart that is listened to: most are executed again and again, and differ in nothing but where they
//! access memory and where a computed jump goes. So their ops are put together once, and told again with a number. Whoever is told says for
//! how long ([`KnownBlocks::goes_on`]) that number and the addresses are enough, where all of these lie on pages that were told, too.

use std::collections::HashMap;

use doorbell_sim::memory::LINE_BYTES;
use doorbell_sim::{Op as TimedOp, OpClass, Ram};

use super::Exit;
use super::block::BlockId;
use crate::hart::Hart;
use crate::mmu::PAGE_MASK;
use crate::tlb::{ENTRIES, slot};

/// Numbers that are given; what comes later is told without one.
const NUMBERS: usize = 1 << 16;
/// Blocks found lately, by a hash of their keys.
const LATELY: usize = 1 << 14;

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
    fn place(&self) -> usize {
        let mixed =
            u64::from(self.block) ^ u64::from(self.count) << 32 ^ (self.exit as u64) << 48 ^ self.pc << 1;
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - LATELY.ilog2())) as usize
    }
}

/// A block's ops, as it was told in full last.
struct Known {
    ops: Vec<TimedOp>,
    accesses: Vec<Access>,
    /// Whether it ends with a jump to a computed address.
    computes: bool,
    /// When it was told in full.
    era: u64,
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

/// No era.
const NEVER: u64 = u64::MAX;

/// See the module.
pub struct KnownBlocks {
    blocks: Vec<Known>,
    numbers: HashMap<Key, u32>,
    lately: Vec<Option<(Key, u32)>>,
    /// The ops of one that is not known.
    pub(super) scratch: Vec<TimedOp>,
    /// While it is the same, what was told in full need not be told so again; 0 if all must be.
    era: u64,
    /// The address space that was told last.
    space: Option<u16>,
    /// Pages that were told, by their places in the TLB.
    pages: Box<[ToldPage; ENTRIES]>,
}

impl Default for KnownBlocks {
    fn default() -> KnownBlocks {
        KnownBlocks {
            blocks: Vec::new(),
            numbers: HashMap::new(),
            lately: Vec::new(),
            scratch: Vec::new(),
            era: 0,
            space: None,
            pages: Box::new([ToldPage::default(); ENTRIES]),
        }
    }
}

impl KnownBlocks {
    /// What is told from now on is of this era, by which whoever is told says what it still knows: a block that it was told in full, by a
    /// number, and pages that it was told of with it. Of era 0 it knows nothing.
    pub fn goes_on(&mut self, era: u64) {
        self.era = era;
    }

    /// How many noted addresses are all that is to be told of a known block that was executed again, besides its number: those of its
    /// accesses, and behind them a computed target. None if more must be told.
    #[inline]
    pub(super) fn addresses(&self, number: u32, hart: &mut Hart, space: Option<u16>) -> Option<usize> {
        let known = &self.blocks[number as usize];
        if known.era != self.era || space != self.space {
            return None;
        }
        for (nth, access) in known.accesses.iter().enumerate() {
            let virt = hart.noted_address(nth);
            let entry = hart.tlb_entry(virt);
            let told = ToldPage { tag: tag(virt, access.physical), addend: entry.addend, era: self.era };
            let is_told = (entry.load_tag == virt & PAGE_MASK) & (self.pages[slot(virt)] == told);
            if !is_told || virt % LINE_BYTES + u64::from(access.size) > LINE_BYTES {
                return None;
            }
        }
        if known.computes {
            hart.note_target(known.accesses.len());
        }
        Some(known.accesses.len() + usize::from(known.computes))
    }

    /// The block that was executed last was told in full, and the next one is of this era. If that is another one, then what was told may
    /// be forgotten again.
    pub(super) fn told(&mut self, number: Option<u32>, hart: &Hart, space: Option<u16>, era: u64) {
        let goes_on = era == self.era && era != 0;
        (self.era, self.space) = (era, space);
        let Some(number) = number.filter(|_| goes_on) else { return };
        let Known { ops, accesses, era: told, .. } = &mut self.blocks[number as usize];
        *told = NEVER;
        for access in accesses {
            let TimedOp { virt, phys, .. } = ops[usize::from(access.op)];
            if (virt, phys.0) == (0, 0) {
                return;
            }
            access.physical = virt == phys.0;
            let entry = hart.tlb_entry(virt);
            if entry.load_tag == virt & PAGE_MASK {
                let tag = tag(virt, access.physical);
                self.pages[slot(virt)] = ToldPage { tag, addend: entry.addend, era };
            }
        }
        *told = era;
    }

    /// The number of a block that has one.
    #[inline]
    pub(super) fn find(&mut self, key: &Key) -> Option<u32> {
        let place = key.place();
        if let Some((known, number)) = self.lately.get(place)?
            && known == key
        {
            return Some(*number);
        }
        let number = *self.numbers.get(key)?;
        self.lately[place] = Some((*key, number));
        Some(number)
    }

    /// A known block was executed again: its ops. None if an access crosses a line, which makes other ops of it.
    #[inline]
    pub(super) fn again(&mut self, number: u32, hart: &Hart, ram: &Ram) -> Option<&[TimedOp]> {
        let Known { ops, accesses, .. } = &mut self.blocks[number as usize];
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
        let accesses = all.filter(|(_, op)| op.class.is_memory()).map(access).collect();
        let jumps = [OpClass::IndirectJump, OpClass::IndirectCall, OpClass::Return];
        let computes = self.scratch.last().is_some_and(|op| jumps.contains(&op.class));
        self.blocks.push(Known { ops: self.scratch.clone(), accesses, computes, era: NEVER });
        self.numbers.insert(key, number);
        self.lately.resize(LATELY, None);
        self.lately[key.place()] = Some((key, number));
        Some(number)
    }
}
