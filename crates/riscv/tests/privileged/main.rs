//! The privileged architecture, tested as firmware would speak to it: with instructions from an assembler of the
//! tests' own, and against rules said naively.

mod aia;
#[path = "../common/asm.rs"]
mod asm;
mod bench;
mod code;
mod csr;
mod devices;
mod events;
mod noted;
mod paging;
mod pmp;
#[path = "../common/random.rs"]
mod random;
mod recorded;
mod saving;
mod several;
mod traps;
