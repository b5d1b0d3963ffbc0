//! ChampSim's traces: a record an instruction, little-endian, plain or compressed.
//!
//! | Standard | CloudSuite | What |
//! |---|---|---|
//! | 0..8 | 0..8 | address of the instruction |
//! | 8, 9 | 8, 9 | whether it is a branch; whether it was taken: 0 or 1 |
//! | 10..12 | 10..14 | registers written; 0 is none |
//! | 12..16 | 14..18 | registers read |
//! | | 18..24 | nothing: a C compiler's padding |
//! | 16..32 | 24..56 | two, or four, addresses written; 0 is none |
//! | 32..64 | 56..88 | four addresses read |
//! | | 88, 89 | address space |
//! | | 90..96 | nothing |
//!
//! (ChampSim's `inc/trace_instruction.h`: `input_instr` and `cloudsuite_instr`.) A file has no header, and which variant it is nothing says:
//! who reads it has to know ([`Variant`]).
//!
//! What kind of branch an instruction is, ChampSim concludes from three special registers: 6 (stack pointer), 25 (flags) and
//! 26 (instruction pointer). So a conditional branch reads and writes the instruction pointer and reads something else, a call
//! reads and writes both pointers, a return reads the stack pointer and writes both, and so on. Ours are numbered from 64 on
//! there, beside the special ones. What the format has no room for: sizes of accesses, units (a division is as any
//! operation), fences, the link register of a call, privilege, translations (addresses are the *physical* ones, which tell
//! what caches see), devices (an access to one is an operation without memory).
//!
//! What is read may be anybody's trace, in which each number is a register ([`ops`](fn@ops) has the rules).
//!
//! | To | Use |
//! |---|---|
//! | read records, once | [`Reader`] |
//! | have a file's ops, any number of times, whatever its length | [`Trace`]; its [`Blocks`] are made ahead |
//! | have the ops of records from elsewhere | [`Survey`] and [`OpStream`]; [`ops`](fn@ops) for those in memory |
//! | write ops or records | [`Writer`]; [`records`] for ops in memory |

/// ChampSim's special registers.
const STACK_POINTER: u8 = 6;
const FLAGS: u8 = 25;
const INSTRUCTION_POINTER: u8 = 26;
/// Our register 1 is the one after this.
const FIRST_REGISTER: u8 = 64;

/// What a trace that is made of one of ChampSim's says of its instructions.
pub const ISA: &str = "as ChampSim knows it";

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
pub use merged::{Numbers, records};
pub use ops::{OpStream, ops};
pub use pages::PageTables;
pub use reader::Reader;
pub use record::{NoRoom, Record, Variant};
pub use survey::Survey;
pub use trace::{Again, Trace};
pub use writer::Writer;
