//! A GDB stub: lets a debugger look at the guest, stop it and change it, over the remote serial protocol.
//!
//! Document: Debugging with GDB, appendix "GDB Remote Serial Protocol"; the protocol itself is spoken by the
//! `gdbstub` crate. Modelled: harts as threads; integer, floating-point and control registers and the privilege
//! level; memory at virtual addresses of the hart's present translation; breakpoints, single steps, interruption,
//! detaching, killing. Not modelled: watchpoints, reverse execution, memory by physical address, stopping some
//! harts while others go on.
//!
//! A debugger that only looks and stops changes nothing: breakpoints are kept beside guest memory (see
//! [`Hart::set_breakpoints`](doorbell_riscv::Hart::set_breakpoints)), device addresses are not read, and simulated
//! time stands still while the guest is held.

#![forbid(unsafe_code)]

mod debuggee;
mod description;
mod registers;
mod server;
mod session;

pub use debuggee::Debuggee;
pub use server::{Server, Status};
pub use session::{Session, SessionState, Wire};
