//! Contents of a decoded recording: ops, and the events between them.

use doorbell_sim::{Op, Ps};
use doorbell_trace::system::{EventKind, TraceError};

use crate::stream::TableWalk;

/// Reason why an instruction is not followed by the next one or its branch target. QEMU 10.0 does not report
/// traps to plugins, so they are inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trap {
    /// Interrupt of a device or timer, after the preceding instruction.
    Interrupt,
    /// Exception of an instruction that was not executed and has no ops, such as a page fault.
    Exception,
    /// The preceding instruction enters or leaves the operating system.
    System,
}

/// Event between two instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// New privilege (`true` if privileged) and address space, given by the physical address of its root page
    /// table.
    Space(bool, u64),
    /// The next instruction is that of a handler, or the one that a handler returns to.
    Trap(Trap),
    /// The processor waited this long for an interrupt.
    Waited(Ps),
    /// Translation of a page that is used for the first time in this address space, or again after others.
    Page(u64, TableWalk),
    /// A device event. `visible` of DMA writes is not filled in; writes are visible from the next instruction
    /// on.
    Device(EventKind),
}

/// Consecutively executed ops.
#[derive(Clone, Copy, Debug)]
pub struct ExecutedOps<'a> {
    /// The ops; the last of each instruction has its length.
    pub ops: &'a [Op],
    /// Number of instructions that end in the ops.
    pub instructions: u64,
    /// Shape number, if the ops are a whole block without device accesses. Blocks with equal numbers differ
    /// only in access addresses and computed targets.
    pub shape: Option<u32>,
    /// An exception or interrupt is taken after the ops.
    pub trapped: bool,
}

/// Consumer of a decoded recording.
pub trait Recorder {
    /// Takes the next ops.
    fn executed(&mut self, executed: &ExecutedOps<'_>) -> Result<(), TraceError>;
    /// Takes an event after the ops so far.
    fn event(&mut self, event: Event) -> Result<(), TraceError>;
}
