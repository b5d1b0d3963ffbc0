//! Integer arithmetic: correct for all operands and rounding modes, and the reference for the fast path.

use super::format::{Format, is_infinite, is_nan, is_negative, is_signaling_nan, is_zero, signed};
use super::round::{Wide, round_wide, shift_right_sticky, unpack};
use super::{DZ, NV, Rounding};

/// The canonical NaN for an operation with a NaN among its operands.
fn propagate_nan<F: Format>(operands: &[u64], flags: &mut u8) -> u64 {
    if operands.iter().any(|&operand| is_signaling_nan::<F>(operand)) {
        *flags |= NV;
    }
    F::CANONICAL_NAN
}

/// The canonical NaN for an operation without a meaningful result.
fn invalid<F: Format>(flags: &mut u8) -> u64 {
    *flags |= NV;
    F::CANONICAL_NAN
}

/// The sign of an exactly zero sum of terms with these signs.
fn zero_sum_is_negative(a_negative: bool, b_negative: bool, rounding: Rounding) -> bool {
    if a_negative == b_negative { a_negative } else { rounding == Rounding::Rdn }
}

/// Adds two finite nonzero terms with significands below 2^127 that end in at least 20 zeros.
///
/// If the exponents differ by more than 20, some bits become sticky. Then at most two leading bits cancel,
/// and the sticky bit stays far below the place where a format rounds. Otherwise no bit is lost.
fn add_wide<F: Format>(a: Wide, b: Wide, rounding: Rounding, flags: &mut u8) -> u64 {
    let (big, small) = if a.exponent >= b.exponent { (a, b) } else { (b, a) };
    let aligned = shift_right_sticky(small.significand, (big.exponent - small.exponent) as u32);
    let (negative, significand) = if big.negative == small.negative {
        (big.negative, big.significand + aligned)
    } else if big.significand >= aligned {
        (big.negative, big.significand - aligned)
    } else {
        (small.negative, aligned - big.significand)
    };
    if significand == 0 {
        return signed::<F>(rounding == Rounding::Rdn, 0);
    }
    round_wide::<F>(Wide { negative, exponent: big.exponent, significand }, rounding, flags)
}

/// `a + b`.
pub(super) fn add<F: Format>(a: u64, b: u64, rounding: Rounding, flags: &mut u8) -> u64 {
    if is_nan::<F>(a) || is_nan::<F>(b) {
        return propagate_nan::<F>(&[a, b], flags);
    }
    match (is_infinite::<F>(a), is_infinite::<F>(b)) {
        (true, true) if a != b => return invalid::<F>(flags),
        (true, _) => return a,
        (_, true) => return b,
        _ => {}
    }
    match (is_zero::<F>(a), is_zero::<F>(b)) {
        (true, true) => {
            let negative = zero_sum_is_negative(is_negative::<F>(a), is_negative::<F>(b), rounding);
            signed::<F>(negative, 0)
        }
        (true, false) => b,
        (false, true) => a,
        (false, false) => add_wide::<F>(unpack::<F>(a).widen(), unpack::<F>(b).widen(), rounding, flags),
    }
}

/// The exact product of two finite nonzero numbers, as an operand of [`add_wide`].
fn multiply<F: Format>(a: u64, b: u64) -> Wide {
    let (a, b) = (unpack::<F>(a), unpack::<F>(b));
    // Each factor ends in at least 11 zeros, so the shift drops no set bit.
    let significand = (u128::from(a.significand) * u128::from(b.significand)) >> 1;
    Wide { negative: a.negative != b.negative, exponent: a.exponent + b.exponent + 1, significand }
}

/// `a * b`.
pub(super) fn mul<F: Format>(a: u64, b: u64, rounding: Rounding, flags: &mut u8) -> u64 {
    if is_nan::<F>(a) || is_nan::<F>(b) {
        return propagate_nan::<F>(&[a, b], flags);
    }
    let negative = is_negative::<F>(a) != is_negative::<F>(b);
    let zero = is_zero::<F>(a) || is_zero::<F>(b);
    if is_infinite::<F>(a) || is_infinite::<F>(b) {
        return if zero { invalid::<F>(flags) } else { signed::<F>(negative, F::INFINITY) };
    }
    if zero {
        return signed::<F>(negative, 0);
    }
    round_wide::<F>(multiply::<F>(a, b), rounding, flags)
}

/// `a * b + c`, rounded once.
pub(super) fn fma<F: Format>(a: u64, b: u64, c: u64, rounding: Rounding, flags: &mut u8) -> u64 {
    let zero = is_zero::<F>(a) || is_zero::<F>(b);
    let infinite = is_infinite::<F>(a) || is_infinite::<F>(b);
    if zero && infinite {
        // Invalid even if the addend is a quiet NaN; IEEE 754 leaves this open, RISC-V specifies it.
        return invalid::<F>(flags);
    }
    if is_nan::<F>(a) || is_nan::<F>(b) || is_nan::<F>(c) {
        return propagate_nan::<F>(&[a, b, c], flags);
    }
    let product_negative = is_negative::<F>(a) != is_negative::<F>(b);
    if infinite {
        if is_infinite::<F>(c) && is_negative::<F>(c) != product_negative {
            return invalid::<F>(flags);
        }
        return signed::<F>(product_negative, F::INFINITY);
    }
    if is_infinite::<F>(c) {
        return c;
    }
    match (zero, is_zero::<F>(c)) {
        (true, true) => {
            let negative = zero_sum_is_negative(product_negative, is_negative::<F>(c), rounding);
            signed::<F>(negative, 0)
        }
        (true, false) => c,
        (false, true) => round_wide::<F>(multiply::<F>(a, b), rounding, flags),
        (false, false) => add_wide::<F>(multiply::<F>(a, b), unpack::<F>(c).widen(), rounding, flags),
    }
}

/// `a / b`.
pub(super) fn div<F: Format>(a: u64, b: u64, rounding: Rounding, flags: &mut u8) -> u64 {
    if is_nan::<F>(a) || is_nan::<F>(b) {
        return propagate_nan::<F>(&[a, b], flags);
    }
    let negative = is_negative::<F>(a) != is_negative::<F>(b);
    match (is_infinite::<F>(a), is_infinite::<F>(b)) {
        (true, true) => return invalid::<F>(flags),
        (true, false) => return signed::<F>(negative, F::INFINITY),
        (false, true) => return signed::<F>(negative, 0),
        (false, false) => {}
    }
    match (is_zero::<F>(a), is_zero::<F>(b)) {
        (true, true) => return invalid::<F>(flags),
        (true, false) => return signed::<F>(negative, 0),
        (false, true) => {
            *flags |= DZ;
            return signed::<F>(negative, F::INFINITY);
        }
        (false, false) => {}
    }
    let (a, b) = (unpack::<F>(a), unpack::<F>(b));
    let dividend = u128::from(a.significand) << 63;
    let divisor = u128::from(b.significand);
    // Between 2^62 and 2^64: more bits than any format keeps.
    let quotient = dividend / divisor;
    let sticky = u128::from(quotient * divisor != dividend);
    let significand = quotient << 63 | sticky;
    round_wide::<F>(Wide { negative, exponent: a.exponent - b.exponent, significand }, rounding, flags)
}

/// The square root of `a`.
pub(super) fn sqrt<F: Format>(a: u64, rounding: Rounding, flags: &mut u8) -> u64 {
    if is_nan::<F>(a) {
        return propagate_nan::<F>(&[a], flags);
    }
    if is_zero::<F>(a) {
        return a;
    }
    if is_negative::<F>(a) {
        return invalid::<F>(flags);
    }
    if is_infinite::<F>(a) {
        return a;
    }
    let a = unpack::<F>(a);
    // Half of the exponent goes before the root, an odd remainder into the radicand.
    let odd = (a.exponent & 1) as u32;
    let radicand = u128::from(a.significand) << (63 + odd);
    let root = radicand.isqrt();
    let sticky = u128::from(root * root != radicand);
    let significand = root << 63 | sticky;
    round_wide::<F>(Wide { negative: false, exponent: a.exponent >> 1, significand }, rounding, flags)
}
