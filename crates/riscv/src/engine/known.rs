//! Blocks that were told before, of a hart that is listened to: most are executed again and again, and differ in nothing but where they
//! access memory and where a computed jump goes. So their ops are put together once, and told again with a number.

use std::collections::HashMap;

use doorbell_sim::memory::LINE_BYTES;
use doorbell_sim::{Op as TimedOp, OpClass, Ram};

use super::Exit;
use super::block::BlockId;
use crate::hart::Hart;

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

/// A block's ops, as it was executed last.
struct Known {
    ops: Vec<TimedOp>,
    /// Those that access memory.
    accesses: Vec<u16>,
}

/// See the module.
#[derive(Default)]
pub struct KnownBlocks {
    blocks: Vec<Known>,
    numbers: HashMap<Key, u32>,
    lately: Vec<Option<(Key, u32)>>,
    /// The ops of one that is not known.
    pub(super) scratch: Vec<TimedOp>,
}

impl KnownBlocks {
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
        let Known { ops, accesses } = &mut self.blocks[number as usize];
        for (nth, at) in accesses.iter().enumerate() {
            let op = &mut ops[usize::from(*at)];
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
        let accesses = all.filter(|(_, op)| op.class.is_memory()).map(|(at, _)| at as u16).collect();
        self.blocks.push(Known { ops: self.scratch.clone(), accesses });
        self.numbers.insert(key, number);
        self.lately.resize(LATELY, None);
        self.lately[key.place()] = Some((key, number));
        Some(number)
    }
}
