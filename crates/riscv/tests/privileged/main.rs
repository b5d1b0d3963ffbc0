//! Tests of the privileged architecture, from the view of firmware: instructions come from the tests' own
//! assembler, and results are compared with simple restatements of the manual's rules.

mod aia;
#[path = "../common/asm.rs"]
mod asm;
mod bench;
mod code;
mod csr;
mod devices;
mod events;
mod paging;
mod pmp;
#[path = "../common/random.rs"]
mod random;
mod recorded;
mod saving;
mod several;
mod timed;
mod traps;
