//! RV64GC and Zicbop with the M, S and U privilege levels. Functional execution only, without timing.
//!
//! Documents: The RISC-V Instruction Set Manual, Volume I (unprivileged: I 2.1, M 2.0, A 2.1, F and D 2.2,
//! C 2.0, Zicsr 2.0, Zifencei 2.0, Zicbop 1.0) and Volume II (privileged 1.12 with Sstc).
//! Modelled: Sv39 and Sv48 with hardware-updated A and D bits, 16 PMP entries, all traps, misaligned loads and
//! stores, LR/SC with reservations of 64 bytes, 16 event counters (Zihpm), optionally interrupt files (Smaia,
//! Ssaia). Not modelled: the H, V, B and Zc* extensions, Svnapot, Svpbmt, debug triggers.

mod aia;
mod compressed;
mod csr;
pub mod decode;
mod engine;
mod event_counters;
pub mod float;
mod hart;
mod inspect;
pub mod inst;
mod interrupt_file;
mod mmu;
mod pmp;
mod state;
mod tlb;
mod trap;
mod trap_names;

pub use aia::{AiaState, FileLevel, IDENTITIES};
pub use compressed::decode_compressed;
pub use engine::template::op_of;
pub use engine::timed_exec::Turn;
pub use engine::{Block, BlockDictionary, BlockOps};
pub use event_counters::{EVENT_COUNTERS, EventCount};
pub use hart::{Hart, HartConfig, HartStats, Interrupt, MmioRequest, Privilege, Stop};
pub use inspect::SHOWN_CSRS;
pub use state::{HART_STATE_VERSION, HartState};
pub use trap::Exception;
