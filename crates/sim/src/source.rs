//! Where a timed run takes its ops from: a hart that executes, or something else that yields the same, such as a recording.
//!
//! A source yields blocks of ops and, with them, what no op says: that an exception or interrupt was taken, that the addresses are of
//! another space, that software declared translations void, that it slept. When a block has been priced, the source is told
//! the cycle in which its next one begins, and so a hart that executes goes at the pace of its core. Several sources run
//! side by side, one a core, the earliest first. What devices do comes from beside: DMA is asked of the memory system, and an
//! interrupt reaches a source as an exception behind its ops, or as the end of its sleep.

use crate::learn::{Learner, learn_ops};
use crate::memory::Walk;
use crate::op::Op;
use crate::ports::PhysAddr;

/// How a block ended. `Stop` is why the source cannot go on by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockEnd<Stop> {
    /// The next block follows.
    On,
    /// An exception or interrupt was taken behind the ops: what was fetched after them is thrown away.
    Trapped,
    /// The owner has to do something, such as an access to a device.
    Stopped(Stop),
}

/// Which of the translations that a core may hold software has declared void (SFENCE.VMA; RISC-V privileged manual).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranslationFence {
    /// Those of this virtual address, or of all.
    pub address: Option<u64>,
    /// Those of this address space (ASID), or of all.
    pub space: Option<u16>,
}

/// How far a source may go on by itself: to the first block that begins in this cycle of its core or later, or behind so many
/// instructions since the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Until {
    /// The cycle.
    pub cycle: u64,
    /// The instructions.
    pub instructions: u64,
}

/// What a timed core is fed from. See the module.
pub trait OpSource {
    /// What sources have in common, such as the RAM that harts execute in.
    type World: ?Sized;
    /// Why a source stops.
    type Stop;

    /// Whether it has a block to yield: it has not ended, does not sleep and waits for no device.
    fn is_ready(&self) -> bool;

    /// The cycle of its core in which the next block begins. After a sleep that is later than the one that it was told.
    fn cycle(&self) -> u64;

    /// Its last block was priced, and the next one begins in this cycle.
    fn set_cycle(&mut self, cycle: u64);

    /// Instructions yielded since the beginning.
    fn instructions(&self) -> u64;

    /// The address space of the next block; none if its addresses are physical.
    fn address_space(&self) -> Option<u16>;

    /// Appends the ops of the next block.
    fn block(&mut self, world: &mut Self::World, ops: &mut Vec<Op>) -> BlockEnd<Self::Stop>;

    /// The last block has been priced, and what it put into `ops` is not looked at any more: a source that lent its own takes it back.
    fn take_back(&mut self, _ops: &mut Vec<Op>) {}

    /// Goes through the next block as [`block`](OpSource::block) does, but only to let `learner` learn from it, which says how long it
    /// took. Goes on with those behind it while `until` has not come, if it knows that they are in the same address space and nothing
    /// has been declared void. `ops` is empty, and may be used.
    fn learn(
        &mut self,
        world: &mut Self::World,
        ops: &mut Vec<Op>,
        _until: Until,
        learner: &mut impl Learner,
    ) -> BlockEnd<Self::Stop> {
        let (begun, before) = (self.cycle(), self.instructions());
        let end = self.block(world, ops);
        learn_ops(ops, |virt| self.walk(world, virt), learner);
        let took = learner.block_over(self.instructions() - before, matches!(end, BlockEnd::Trapped));
        self.set_cycle(begun + took);
        end
    }

    /// Which page-table entries a walk for `virt` reads behind the last block; no levels where addresses are not translated.
    fn walk(&mut self, world: &Self::World, virt: u64) -> Walk;

    /// What software has said of translations since this was asked last.
    fn take_translation_fence(&mut self) -> Option<TranslationFence>;

    /// What tells one thread of the program from another, for observers.
    fn thread(&self) -> u64;

    /// A byte of memory as it is now, for observers; none where there is no memory.
    fn byte(&self, world: &Self::World, addr: PhysAddr) -> Option<u8>;
}
