//! What a recording is made of, once decoded: ops and, between them, what no op says.

use doorbell_sim::{Op, Ps};
use doorbell_trace::system::{Happening, TraceError};

use crate::stream::TableWalk;

/// Why an instruction is followed by another than the one that stands behind it or that it jumps to. QEMU 10.0 tells that nobody:
/// it is inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trap {
    /// From a device or a timer. The instruction before it was executed.
    Interrupt,
    /// An instruction that was not executed, and is none of the ops, caused it, such as by an access to a page that was not there.
    Exception,
    /// The instruction before it goes to the operating system, or back from it.
    System,
}

/// What happens between two instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// From here on: whether privileged, and the address space, by the physical address of its page table's root.
    Space(bool, u64),
    /// The next instruction is a handler's, or what a handler returns to.
    Trap(Trap),
    /// The processor has waited for an interrupt, for so long.
    Waited(Ps),
    /// A page is used for the first time in this address space, or again after others, and this is how it is translated.
    Page(u64, TableWalk),
    /// A device did something, or something was done to it. From which instruction on a write is seen is not filled in: from the next one.
    Device(Happening),
}

/// Some ops that were executed one behind the other.
#[derive(Clone, Copy, Debug)]
pub struct Executed<'a> {
    /// They; an instruction's last one has its length.
    pub ops: &'a [Op],
    /// How many instructions end in them.
    pub instructions: u64,
    /// If this is a whole block without accesses to devices: a number that only such ones have that differ from it by nothing but the
    /// addresses of accesses and computed targets.
    pub shape: Option<u32>,
    /// An exception or interrupt is taken behind them.
    pub trapped: bool,
}

/// Who takes a decoded recording.
pub trait Recorder {
    /// These are next.
    fn executed(&mut self, executed: &Executed<'_>) -> Result<(), TraceError>;
    /// Something happens behind the ops so far.
    fn event(&mut self, event: Event) -> Result<(), TraceError>;
}
