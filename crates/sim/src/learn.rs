//! Functional warm-up: updates caches, TLBs and predictors from executed blocks without timing.

use crate::memory::{AccessKind, CoreAccess, LINE_BYTES, Walk};
use crate::op::{Op, OpClass};
use crate::ports::PhysAddr;

/// Caches, TLBs and predictors during functional warm-up. `walk` returns the page-table entries that a walk
/// for an address reads; it is called only on a TLB miss.
pub trait Learner {
    /// Records an instruction at `pc`, fetched from `fetch`. Consecutive instructions in one page and one
    /// line count once.
    fn instruction(&mut self, pc: u64, fetch: PhysAddr, walk: impl FnOnce(u64) -> Walk);

    /// Records a data access to the virtual address `virt`, within one line.
    fn data(&mut self, access: CoreAccess, virt: u64, walk: impl FnOnce(u64) -> Walk);

    /// Records a software prefetch of an accessible line.
    fn prefetch(&mut self, access: CoreAccess, virt: u64, walk: impl FnOnce(u64) -> Walk);

    /// Records a branch and its outcome.
    fn branch(&mut self, op: &Op);

    /// Ends a block with its number of retired instructions and whether it trapped. Returns the cycles the
    /// block took.
    fn end_block(&mut self, instructions: u64, trapped: bool) -> u64;
}

/// Warms `learner` with `ops`.
pub fn learn_ops(ops: &[Op], mut walk: impl FnMut(u64) -> Walk, learner: &mut impl Learner) {
    for op in ops {
        learner.instruction(op.pc, op.fetch, &mut walk);
        match op.class {
            OpClass::Load | OpClass::Store | OpClass::Atomic => {
                let access = CoreAccess { kind: kind_of(op.class), addr: op.phys, pc: op.pc };
                learner.data(access, op.virt, &mut walk);
            }
            OpClass::Prefetch => learner.prefetch(CoreAccess::of_prefetch(op), op.virt, &mut walk),
            class if class.is_branch() => learner.branch(op),
            _ => {}
        }
    }
}

/// The kind of access that a load, store or atomic makes.
#[inline]
pub fn kind_of(class: OpClass) -> AccessKind {
    if class == OpClass::Load { AccessKind::Load } else { AccessKind::Store }
}

/// Whether an access of `bytes` bytes at `virt` stays within one line.
#[inline]
pub fn is_within_line(virt: u64, bytes: u8) -> bool {
    virt % LINE_BYTES + u64::from(bytes) <= LINE_BYTES
}
