//! Profile of executed code, per block: cycles from the last commit of the previous block to the last commit
//! of this one, retired instructions, and cache misses. Every cycle of a hart is charged to exactly one block
//! or to idle time (WFI). Observer: it only reads results and counters of the core and the caches.

use std::collections::HashMap;

use doorbell_memory::Misses;
use doorbell_sim::{Op, PhysAddr};

use super::calls::{CallNode, Calls, Domain, Thread};

/// Slots of the lookup cache in front of the block index.
const RECENT: usize = 1 << 13;

/// Execution cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Core cycles.
    pub cycles: u64,
    /// Instructions retired.
    pub instructions: u64,
    /// Fetches that missed the first level.
    pub l1i_misses: u64,
    /// Loads, stores and page walks that missed the first level.
    pub l1d_misses: u64,
    /// Accesses that missed the second level.
    pub l2_misses: u64,
    /// Accesses that missed the last level.
    pub llc_misses: u64,
}

impl Cost {
    /// Adds another cost.
    pub fn add(&mut self, other: &Cost) {
        self.cycles += other.cycles;
        self.instructions += other.instructions;
        self.l1i_misses += other.l1i_misses;
        self.l1d_misses += other.l1d_misses;
        self.l2_misses += other.l2_misses;
        self.llc_misses += other.llc_misses;
    }
}

/// Cost of a block of instructions, per call path and hart.
#[derive(Clone, Copy, Debug)]
pub struct BlockCost {
    /// Its hart.
    pub hart: u32,
    /// Its function's node in the call tree.
    pub node: u32,
    /// Virtual address of its first instruction.
    pub pc: u64,
    /// Physical address of its first instruction.
    pub fetch: PhysAddr,
    /// Its total cost.
    pub cost: Cost,
}

/// Profile of all harts.
#[derive(Debug, Default)]
pub struct Profile {
    /// The call tree.
    pub nodes: Vec<CallNode>,
    /// All executed blocks, in the order of their first execution.
    pub blocks: Vec<BlockCost>,
    /// The cycles of each hart.
    pub harts: Vec<HartCycles>,
}

/// Cycles of one hart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HartCycles {
    /// Cycles in WFI.
    pub idle: u64,
    /// All cycles of the observation: the sum of block cycles and idle cycles.
    pub watched: u64,
}

impl Profile {
    /// All harts' cycles.
    pub fn watched_cycles(&self) -> u64 {
        self.harts.iter().map(|hart| hart.watched).sum()
    }

    /// Virtual and physical addresses of blocks executed by user programs.
    pub fn user_code(&self) -> impl Iterator<Item = (u64, PhysAddr)> {
        let is_user = |block: &&BlockCost| matches!(self.nodes[block.node as usize].domain, Domain::User(_));
        self.blocks.iter().filter(is_user).map(|block| (block.pc, block.fetch))
    }

    /// Returns a call node and its callers up to, but without, the root, with their numbers.
    pub fn ancestors(&self, node: u32) -> impl Iterator<Item = (u32, CallNode)> {
        let all = std::iter::successors(Some(node), |at| Some(self.nodes[*at as usize].parent));
        all.map(|at| (at, self.nodes[at as usize])).take_while(|(at, node)| node.parent != *at)
    }
}

/// Collects a profile.
pub(crate) struct Profiler {
    calls: Calls,
    blocks: Vec<BlockCost>,
    index: HashMap<(u32, u64, u32), u32>,
    /// Lookup cache: in each slot the number of the last block, plus one.
    recent: Box<[u32; RECENT]>,
    harts: Vec<HartCycles>,
    threads: Vec<Option<Thread>>,
}

impl Profiler {
    pub(crate) fn new(harts: usize) -> Profiler {
        Profiler {
            calls: Calls::default(),
            blocks: Vec::new(),
            index: HashMap::new(),
            recent: vec![0; RECENT].into_boxed_slice().try_into().expect("the vector has RECENT entries"),
            harts: vec![HartCycles::default(); harts],
            threads: vec![None; harts],
        }
    }

    pub(crate) fn idle(&mut self, hart: usize, cycles: u64) {
        self.harts[hart].idle += cycles;
    }

    /// Adds a block executed in an address space, with the thread pointer `tp`.
    #[inline]
    pub(crate) fn block(&mut self, hart: usize, ops: &[Op], space: Option<u16>, tp: u64, cost: &Cost) {
        let (Some(first), Some(last)) = (ops.first(), ops.last()) else { return };
        let mut thread = self.calls.thread(self.threads[hart], Domain::of(first, space), tp);
        let node = self.calls.node(thread, first);
        self.entry(node, first, hart as u32).cost.add(cost);
        if last.class.is_branch() {
            self.calls.block_ended(&mut thread, last);
        }
        self.threads[hart] = Some(thread);
    }

    #[inline]
    fn entry(&mut self, node: u32, first: &Op, hart: u32) -> &mut BlockCost {
        let hash = u64::from(node).wrapping_mul(0x9e37_79b1) ^ u64::from(hart).wrapping_mul(0x85eb_ca6b);
        let slot = (first.fetch.0 >> 1 ^ hash) as usize % RECENT;
        let cached = self.recent[slot] as usize;
        if let Some(block) = self.blocks.get(cached.wrapping_sub(1))
            && block.node == node
            && block.fetch == first.fetch
            && block.hart == hart
        {
            return &mut self.blocks[cached - 1];
        }
        let blocks = &mut self.blocks;
        let number = *self.index.entry((node, first.fetch.0, hart)).or_insert_with(|| {
            blocks.push(BlockCost { hart, node, pc: first.pc, fetch: first.fetch, cost: Cost::default() });
            blocks.len() as u32 - 1
        });
        self.recent[slot] = number + 1;
        &mut self.blocks[number as usize]
    }

    /// Finishes the profile; `watched` has the number of observed cycles of each hart.
    pub(crate) fn finish(self, watched: impl Iterator<Item = u64>) -> Profile {
        let Profiler { calls, blocks, mut harts, .. } = self;
        harts.iter_mut().zip(watched).for_each(|(hart, watched)| hart.watched = watched);
        Profile { nodes: calls.nodes, blocks, harts }
    }
}

/// Returns the cost between two readings of the miss counters.
#[inline]
pub(crate) fn cost(cycles: u64, instructions: u64, before: Misses, after: Misses) -> Cost {
    Cost {
        cycles,
        instructions,
        l1i_misses: after.l1i - before.l1i,
        l1d_misses: after.l1d - before.l1d,
        l2_misses: after.l2 - before.l2,
        llc_misses: after.llc - before.llc,
    }
}
