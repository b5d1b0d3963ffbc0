//! Unpacking numbers, and rounding exact intermediate results into a format (IEEE 754-2019, sections 4.3 and
//! 7).

use super::format::{Format, exponent_field, is_negative, magnitude, signed};
use super::{NX, OF, Rounding, UF};

/// A finite number other than zero: `significand / 2^63 * 2^exponent`, with the significand's top bit set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unpacked {
    pub negative: bool,
    pub exponent: i32,
    pub significand: u64,
}

/// An intermediate result: `significand / 2^126 * 2^exponent`, not normalised. Bit 0 is sticky: it may
/// represent any amount between zero and one unit below it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wide {
    pub negative: bool,
    pub exponent: i32,
    pub significand: u128,
}

/// Unpacks a finite number other than zero, normalising subnormals.
pub(super) fn unpack<F: Format>(bits: u64) -> Unpacked {
    let magnitude = magnitude::<F>(bits);
    debug_assert!(magnitude != 0 && magnitude < F::INFINITY);
    let field = exponent_field::<F>(bits) as i32;
    let negative = is_negative::<F>(bits);
    if field == 0 {
        let shift = magnitude.leading_zeros();
        let exponent = 1 - F::BIAS + 63 - F::FRACTION_BITS as i32 - shift as i32;
        return Unpacked { negative, exponent, significand: magnitude << shift };
    }
    let significand = (bits & F::FRACTION_MASK | F::IMPLIED_ONE) << (63 - F::FRACTION_BITS);
    Unpacked { negative, exponent: field - F::BIAS, significand }
}

impl Unpacked {
    /// The same number with extra bits for exact intermediate results.
    pub(super) fn widen(self) -> Wide {
        let significand = u128::from(self.significand) << 63;
        Wide { negative: self.negative, exponent: self.exponent, significand }
    }
}

/// Shifts right, and sets bit 0 if a one was shifted out.
pub(super) fn shift_right_sticky(value: u128, by: u32) -> u128 {
    match by {
        0 => value,
        1..=127 => value >> by | u128::from(value << (128 - by) != 0),
        _ => u128::from(value != 0),
    }
}

/// Whether the magnitude rounds up to the next integer, given the fraction (in units of 2^-64).
pub(super) fn rounds_up(rounding: Rounding, negative: bool, odd: bool, fraction: u64) -> bool {
    const HALF: u64 = 1 << 63;
    match rounding {
        Rounding::Rne => fraction > HALF || fraction == HALF && odd,
        Rounding::Rtz => false,
        Rounding::Rdn => negative && fraction != 0,
        Rounding::Rup => !negative && fraction != 0,
        Rounding::Rmm => fraction >= HALF,
    }
}

/// Rounds a nonzero intermediate result to the format and raises NX, UF and OF.
pub(super) fn round_wide<F: Format>(wide: Wide, rounding: Rounding, flags: &mut u8) -> u64 {
    let shift = wide.significand.leading_zeros();
    let normal = wide.significand << shift;
    let significand = (normal >> 64) as u64 | u64::from(normal as u64 != 0);
    let exponent = wide.exponent + 1 - shift as i32;
    round::<F>(Unpacked { negative: wide.negative, exponent, significand }, rounding, flags)
}

/// Rounds a nonzero number to the format and raises NX, UF and OF. Bit 0 of the significand may be sticky.
pub(super) fn round<F: Format>(value: Unpacked, rounding: Rounding, flags: &mut u8) -> u64 {
    let Unpacked { negative, exponent, significand } = value;
    let dropped_bits = 63 - F::FRACTION_BITS;
    let round_at = |significand: u64| {
        let kept = significand >> dropped_bits;
        let fraction = significand << (64 - dropped_bits);
        (kept + u64::from(rounds_up(rounding, negative, kept & 1 != 0, fraction)), fraction != 0)
    };
    let field = exponent + F::BIAS;
    if field < 1 {
        let shift = (1 - field) as u32;
        let (kept, inexact) = round_at(shift_right_sticky(u128::from(significand), shift) as u64);
        if inexact {
            // Tiny: smaller than the least normal number even if rounded with an unbounded exponent.
            let reaches_normal = field == 0 && round_at(significand).0 == F::IMPLIED_ONE << 1;
            *flags |= if reaches_normal { NX } else { NX | UF };
        }
        // A carry into the place of the implied one yields the least normal number.
        return signed::<F>(negative, kept);
    }
    let (kept, inexact) = round_at(significand);
    // The implied one adds one to the field, and so does a carry, which leaves a fraction of zero.
    let magnitude = (((field - 1).min(F::EXPONENT_MAX as i32) as u64) << F::FRACTION_BITS) + kept;
    if magnitude >= F::INFINITY {
        *flags |= OF | NX;
        return signed::<F>(negative, overflow_magnitude::<F>(rounding, negative));
    }
    if inexact {
        *flags |= NX;
    }
    signed::<F>(negative, magnitude)
}

/// Infinity or the greatest finite number, depending on the rounding mode, for overflow.
fn overflow_magnitude<F: Format>(rounding: Rounding, negative: bool) -> u64 {
    let to_infinity = match rounding {
        Rounding::Rne | Rounding::Rmm => true,
        Rounding::Rtz => false,
        Rounding::Rdn => negative,
        Rounding::Rup => !negative,
    };
    if to_infinity { F::INFINITY } else { F::INFINITY - 1 }
}
