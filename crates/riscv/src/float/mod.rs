//! IEEE 754 binary32 and binary64 arithmetic as the RISC-V F and D extensions define it.
//!
//! Hardware: the floating-point unit of an RV64GC hart. Document: The RISC-V Instruction Set Manual, Volume I
//! (unprivileged), chapters "F" and "D" for single and double precision, version 2.2.
//!
//! Modelled: results and accrued exception flags of every arithmetic, comparison, classification and
//! conversion instruction, in the five rounding modes. Every NaN result is the canonical one; tininess is
//! detected after rounding. Handled by the engine instead: sign injection, moves, NaN boxing, the choice of
//! the rounding mode by the instruction or by `frm`, and the trap on reserved rounding modes.
//!
//! All functions work on bit patterns. `flags` is the accrued `fflags`: a function ORs into it. It also reads
//! it to decide whether the fast path on the host's floating-point unit is allowed (`arith.rs` shows why that
//! is exact). Otherwise integer code computes the result, so results are the same on every host.

mod arith;
mod compare;
mod convert;
mod exact;
mod format;
mod round;
#[cfg(test)]
mod tests;

pub use arith::{add, div, fma, mul, sqrt, sub};
pub use compare::{classify, eq, le, lt, max, min};
pub use convert::{
    f32_to_f64, f64_to_f32, from_i32, from_i64, from_u32, from_u64, to_i32, to_i64, to_u32, to_u64,
};
pub use format::{F32, F64, Format};

/// Accrued flag: the result was inexact.
pub const NX: u8 = 1;
/// Accrued flag: underflow, the result was tiny and inexact.
pub const UF: u8 = 2;
/// Accrued flag: overflow.
pub const OF: u8 = 4;
/// Accrued flag: a finite number was divided by zero.
pub const DZ: u8 = 8;
/// Accrued flag: invalid operation.
pub const NV: u8 = 16;

/// A rounding mode, numbered as in the `rm` field and in `frm`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Rounding {
    /// To nearest, ties to even.
    Rne = 0,
    /// Towards zero.
    Rtz = 1,
    /// Down, towards minus infinity.
    Rdn = 2,
    /// Up, towards plus infinity.
    Rup = 3,
    /// To nearest, ties away from zero.
    Rmm = 4,
}
