//! ChampSim traces: one record per instruction, little-endian, plain or compressed.
//!
//! | Standard | CloudSuite | Field |
//! |---|---|---|
//! | 0..8 | 0..8 | address of the instruction |
//! | 8, 9 | 8, 9 | whether it is a branch; whether it was taken: 0 or 1 |
//! | 10..12 | 10..14 | registers written; 0 is none |
//! | 12..16 | 14..18 | registers read |
//! | | 18..24 | padding (C struct layout) |
//! | 16..32 | 24..56 | two (four) addresses written; 0 is none |
//! | 32..64 | 56..88 | four addresses read; 0 is none |
//! | | 88, 89 | address space |
//! | | 90..96 | padding |
//!
//! (ChampSim's `inc/trace_instruction.h`: `input_instr` and `cloudsuite_instr`.) A file has no header, so the
//! reader must be given its [`Variant`].
//!
//! ChampSim derives the type of a branch from three special registers: 6 (stack pointer), 25 (flags) and 26
//! (instruction pointer). A conditional branch reads and writes the instruction pointer and reads another
//! register; a call reads and writes both pointers; a return reads the stack pointer and writes both; and so
//! on. Doorbell's registers are numbered from 64, to avoid the special ones. The format cannot express access
//! sizes, functional units (a division is a plain operation), fences, the link register of a call, privilege
//! and device accesses (a device access becomes an operation without memory). Nor does it have address
//! translation: addresses are the *physical* ones, which the caches use.
//!
//! Traces of other programs may use any register numbers; [`ops`](fn@ops) has the rules.
//!
//! | Task | Use |
//! |---|---|
//! | read the records of a file or stream once | [`Reader`] |
//! | read the ops of a file, any number of times and of any length | [`Trace`]; its [`Blocks`] are decoded ahead |
//! | convert records from elsewhere to ops | [`Survey`] and [`OpStream`]; [`ops`](fn@ops) for records in memory |
//! | write ops or records | [`Writer`]; [`records`] for ops in memory |

/// ChampSim's special registers.
const STACK_POINTER: u8 = 6;
const FLAGS: u8 = 25;
const INSTRUCTION_POINTER: u8 = 26;
/// Doorbell's register 1 has the number after this one.
const FIRST_REGISTER: u8 = 64;

/// Instruction set in the description of a converted ChampSim trace.
pub const ISA: &str = "ChampSim records";

mod blocks;
mod error;
mod foreign;
mod merged;
mod names;
mod ops;
mod pages;
mod reader;
mod record;
mod survey;
#[cfg(test)]
mod tests;
mod trace;
mod writer;

pub use crate::container::Compression;
pub use blocks::Blocks;
pub use error::Error;
pub use merged::{RegisterNumbers, records};
pub use ops::{OpStream, ops};
pub use pages::PageTables;
pub use reader::Reader;
pub use record::{NoRoom, Record, Variant};
pub use survey::Survey;
pub use trace::{CheckedRecords, Trace};
pub use writer::Writer;
