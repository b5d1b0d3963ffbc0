//! Conversions between the formats and to and from integers (FCVT).

use super::format::{F32, F64, Format, is_infinite, is_nan, is_negative, is_signaling_nan, is_zero, signed};
use super::round::{Unpacked, round, rounds_up, shift_right_sticky, unpack};
use super::{NV, NX, Rounding};

/// Rounds to an integer between `min` and `max`. A value out of range raises only NV and gives the nearer
/// limit; a NaN gives `max`, whatever its sign.
#[inline]
fn to_integer<F: Format>(a: u64, min: i128, max: i128, rounding: Rounding, flags: &mut u8) -> i128 {
    if is_zero::<F>(a) {
        return 0;
    }
    let negative = is_negative::<F>(a);
    let mut clamp = |to_min: bool| {
        *flags |= NV;
        if to_min { min } else { max }
    };
    if is_nan::<F>(a) {
        return clamp(false);
    }
    if is_infinite::<F>(a) {
        return clamp(negative);
    }
    let Unpacked { exponent, significand, .. } = unpack::<F>(a);
    if exponent > 63 {
        return clamp(negative);
    }
    // Fixed point, 64 bits on each side of the binary point.
    let fixed = if exponent >= -1 {
        u128::from(significand) << (exponent + 1)
    } else {
        shift_right_sticky(u128::from(significand), (-1 - exponent) as u32)
    };
    let whole = (fixed >> 64) as u64;
    let fraction = fixed as u64;
    let rounded = i128::from(whole) + i128::from(rounds_up(rounding, negative, whole & 1 != 0, fraction));
    let value = if negative { -rounded } else { rounded };
    if value < min || value > max {
        return clamp(negative);
    }
    if fraction != 0 {
        *flags |= NX;
    }
    value
}

/// To a signed 32-bit integer, sign-extended (FCVT.W).
pub fn to_i32<F: Format>(a: F::Bits, rounding: Rounding, flags: &mut u8) -> u64 {
    to_integer::<F>(a.into(), i32::MIN.into(), i32::MAX.into(), rounding, flags) as u64
}

/// To an unsigned 32-bit integer, its bit 31 extended to 64 bits (FCVT.WU).
pub fn to_u32<F: Format>(a: F::Bits, rounding: Rounding, flags: &mut u8) -> u64 {
    to_integer::<F>(a.into(), 0, u32::MAX.into(), rounding, flags) as i32 as u64
}

/// To a signed 64-bit integer (FCVT.L).
pub fn to_i64<F: Format>(a: F::Bits, rounding: Rounding, flags: &mut u8) -> u64 {
    to_integer::<F>(a.into(), i64::MIN.into(), i64::MAX.into(), rounding, flags) as u64
}

/// To an unsigned 64-bit integer (FCVT.LU).
pub fn to_u64<F: Format>(a: F::Bits, rounding: Rounding, flags: &mut u8) -> u64 {
    to_integer::<F>(a.into(), 0, u64::MAX.into(), rounding, flags) as u64
}

/// Rounds an integer given by sign and magnitude.
fn from_integer<F: Format>(negative: bool, magnitude: u64, rounding: Rounding, flags: &mut u8) -> F::Bits {
    if magnitude == 0 {
        return F::narrow(0);
    }
    let shift = magnitude.leading_zeros();
    let value = Unpacked { negative, exponent: 63 - shift as i32, significand: magnitude << shift };
    F::narrow(round::<F>(value, rounding, flags))
}

/// From the signed 32-bit integer in the low half of `value` (FCVT from W).
#[inline]
pub fn from_i32<F: Format>(value: u64, rounding: Rounding, flags: &mut u8) -> F::Bits {
    from_i64::<F>(value as i32 as u64, rounding, flags)
}

/// From the unsigned 32-bit integer in the low half of `value` (FCVT from WU).
#[inline]
pub fn from_u32<F: Format>(value: u64, rounding: Rounding, flags: &mut u8) -> F::Bits {
    from_i64::<F>(u64::from(value as u32), rounding, flags)
}

/// From a signed 64-bit integer (FCVT from L).
#[inline]
pub fn from_i64<F: Format>(value: u64, rounding: Rounding, flags: &mut u8) -> F::Bits {
    let magnitude = (value as i64).unsigned_abs();
    if magnitude >> (F::FRACTION_BITS + 1) == 0 {
        // It fits in the significand, so the host does not round.
        return F::host_from_i64(value as i64);
    }
    from_integer::<F>((value as i64) < 0, magnitude, rounding, flags)
}

/// From an unsigned 64-bit integer (FCVT from LU).
#[inline]
pub fn from_u64<F: Format>(value: u64, rounding: Rounding, flags: &mut u8) -> F::Bits {
    if value >> (F::FRACTION_BITS + 1) == 0 {
        return F::host_from_u64(value);
    }
    from_integer::<F>(false, value, rounding, flags)
}

/// Widens; always exact (FCVT.D.S).
#[inline]
pub fn f32_to_f64(a: u32, flags: &mut u8) -> u64 {
    let wide = u64::from(a);
    if is_nan::<F32>(wide) {
        if is_signaling_nan::<F32>(wide) {
            *flags |= NV;
        }
        return F64::CANONICAL_NAN;
    }
    f64::from(f32::from_bits(a)).to_bits()
}

/// Narrows (FCVT.S.D).
pub fn f64_to_f32(a: u64, rounding: Rounding, flags: &mut u8) -> u32 {
    let negative = is_negative::<F64>(a);
    if is_nan::<F64>(a) {
        if is_signaling_nan::<F64>(a) {
            *flags |= NV;
        }
        return F32::narrow(F32::CANONICAL_NAN);
    }
    if is_infinite::<F64>(a) {
        return F32::narrow(signed::<F32>(negative, F32::INFINITY));
    }
    if is_zero::<F64>(a) {
        return F32::narrow(signed::<F32>(negative, 0));
    }
    F32::narrow(round::<F32>(unpack::<F64>(a), rounding, flags))
}
