//! A GDB stub: a debugger can inspect, stop and modify the guest over the remote serial protocol.
//!
//! Document: Debugging with GDB, appendix "GDB Remote Serial Protocol"; the `gdbstub` crate implements the
//! protocol itself. Modelled: harts as threads; integer, floating-point and control registers and the
//! privilege level; memory at virtual addresses of the hart's current translation; breakpoints, single steps,
//! interruption, detaching, killing. Not modelled: watchpoints, reverse execution, memory by physical
//! address, stopping some harts while others run.
//!
//! A debugger that only inspects and stops does not change the run. Breakpoints are kept outside guest memory
//! (see [`Hart::set_breakpoints`](doorbell_riscv::Hart::set_breakpoints)), device addresses are not read, and
//! simulated time does not advance while the guest is halted.

#![forbid(unsafe_code)]

mod debuggee;
mod riscv;
mod server;
mod session;

pub use debuggee::Debuggee;
pub use server::{Server, Status};
pub use session::{Session, SessionState, Wire};
