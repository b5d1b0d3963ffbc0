//! Op sources of a timed run: an executing hart or an equivalent, such as a recording.
//!
//! A source yields blocks of ops, plus state that ops do not carry: exceptions and interrupts, address-space
//! changes, translation fences and sleep. After the timing of a block is computed, the source receives the
//! cycle in which its next block begins, so an executing hart runs at the pace of its core.
//!
//! Several sources run in parallel, one per core, the earliest first. Device activity comes from outside: DMA
//! goes to the memory system, and an interrupt reaches a source as an exception after its ops or as the end
//! of its sleep.

use crate::clock::cycle::CoreCycle;
use crate::learn::{Learner, learn_ops};
use crate::memory::Walk;
use crate::op::Op;
use crate::ports::PhysAddr;

/// How a block ended. `Stop` is the reason why the source needs its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockEnd<Stop> {
    /// The next block follows.
    Continue,
    /// An exception or interrupt was taken after the ops; younger fetched instructions are squashed.
    Trapped,
    /// The owner must act first, for example access a device.
    Stopped(Stop),
}

/// The cached translations that software invalidated (SFENCE.VMA; RISC-V privileged manual).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranslationFence {
    /// Only translations of this virtual address; none means all.
    pub address: Option<u64>,
    /// Only translations of this address space (ASID); none means all.
    pub space: Option<u16>,
}

/// Limit of a run without the owner: stop at the first block that begins in this cycle or later, or after
/// this number of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Until {
    /// Cycle of the source's core.
    pub cycle: CoreCycle,
    /// Instructions since the start.
    pub instructions: u64,
}

/// Op source of a timed core. See the module.
pub trait OpSource {
    /// State shared by all sources, such as the RAM that harts execute in.
    type World: ?Sized;
    /// Reason for a stop.
    type Stop;

    /// Whether it can yield a block: it has not ended, is not asleep and does not wait for a device.
    fn is_ready(&self) -> bool;

    /// The core cycle in which the next block begins; after a sleep, later than the cycle set last.
    fn cycle(&self) -> CoreCycle;

    /// Sets the cycle in which the next block begins, after the timing of the last block was computed.
    fn set_cycle(&mut self, cycle: CoreCycle);

    /// Instructions yielded since the start.
    fn instructions(&self) -> u64;

    /// The address space of the next block; none for physical addresses.
    fn address_space(&self) -> Option<u16>;

    /// Appends the ops of the next block.
    fn block(&mut self, world: &mut Self::World, ops: &mut Vec<Op>) -> BlockEnd<Self::Stop>;

    /// Returns the ops buffer after the timing of the last block was computed; a source that lent its own
    /// buffer takes it back.
    fn take_back(&mut self, _ops: &mut Vec<Op>) {}

    /// Runs the next block for functional warm-up only; `learner` returns the block's cycles. May continue
    /// with further blocks up to `until` if they are in the same address space and no translation fence
    /// occurred. `ops` is an empty scratch buffer.
    fn learn(
        &mut self,
        world: &mut Self::World,
        ops: &mut Vec<Op>,
        _until: Until,
        learner: &mut impl Learner,
    ) -> BlockEnd<Self::Stop> {
        let (start, before) = (self.cycle(), self.instructions());
        let end = self.block(world, ops);
        learn_ops(ops, |virt| self.walk(world, virt), learner);
        let took = learner.end_block(self.instructions() - before, matches!(end, BlockEnd::Trapped));
        self.set_cycle(start + took);
        end
    }

    /// The entries that a walk for `virt` reads after the last block; no levels without translation.
    fn walk(&mut self, world: &Self::World, virt: u64) -> Walk;

    /// Takes the translation fence executed since the last call, if any.
    fn take_translation_fence(&mut self) -> Option<TranslationFence>;

    /// Identifies the program's thread, for observers.
    fn thread(&self) -> u64;

    /// The current value of a byte of memory, for observers; none if there is no memory.
    fn byte(&self, world: &Self::World, addr: PhysAddr) -> Option<u8>;
}
