//! Learning without time: what caches, TLBs and predictors are told of executed blocks while they warm up.

use crate::memory::{AccessKind, CoreAccess, LINE_BYTES, Walk};
use crate::op::{Op, OpClass};
use crate::ports::PhysAddr;

/// What learns. `walk` says which page-table entries a walk for an address reads; it is asked only if the translation is not known.
pub trait Learner {
    /// An instruction at `pc` is fetched from `fetch`. Those of one page and one line behind each other count once.
    fn instruction(&mut self, pc: u64, fetch: PhysAddr, walk: impl FnOnce(u64) -> Walk);

    /// An access to the virtual address `virt`, within a line.
    fn data(&mut self, access: CoreAccess, virt: u64, walk: impl FnOnce(u64) -> Walk);

    /// A software prefetch of a line that may be accessed.
    fn prefetch(&mut self, access: CoreAccess, virt: u64, walk: impl FnOnce(u64) -> Walk);

    /// A branch, with where it went.
    fn branch(&mut self, op: &Op);

    /// A block is over: so many of its instructions retired, and perhaps there was a trap. Says how many cycles that took.
    fn block_over(&mut self, instructions: u64, trapped: bool) -> u64;
}

/// Lets `learner` learn from ops.
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

/// The kind of access of an op that makes one.
#[inline]
pub fn kind_of(class: OpClass) -> AccessKind {
    if class == OpClass::Load { AccessKind::Load } else { AccessKind::Store }
}

/// Whether an access of so many bytes at `virt` lies in one line.
#[inline]
pub fn is_in_a_line(virt: u64, bytes: u8) -> bool {
    virt % LINE_BYTES + u64::from(bytes) <= LINE_BYTES
}
