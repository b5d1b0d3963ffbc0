//! Minimum and maximum, comparisons, and classification.

use super::NV;
use super::format::{
    Format, exponent_field, is_infinite, is_nan, is_negative, is_signaling_nan, is_zero, magnitude,
};

/// Maps numbers other than NaN to integers of the same order, with -0 below +0.
#[inline]
fn order_key<F: Format>(bits: u64) -> i64 {
    let magnitude = magnitude::<F>(bits) as i64;
    if is_negative::<F>(bits) { -1 - magnitude } else { magnitude }
}

/// The lesser number (FMIN, IEEE 754-2019 minimumNumber): -0 is less than +0; a number takes precedence over
/// a NaN.
#[inline]
pub fn min<F: Format>(a: F::Bits, b: F::Bits, flags: &mut u8) -> F::Bits {
    select::<F>(a, b, flags, order_key::<F>(a.into()) <= order_key::<F>(b.into()))
}

/// The greater number (FMAX, IEEE 754-2019 maximumNumber): +0 is greater than -0; a number takes precedence
/// over a NaN.
#[inline]
pub fn max<F: Format>(a: F::Bits, b: F::Bits, flags: &mut u8) -> F::Bits {
    select::<F>(a, b, flags, order_key::<F>(a.into()) >= order_key::<F>(b.into()))
}

/// `a` if `take_a`, otherwise `b`, unless there are NaNs.
#[inline]
fn select<F: Format>(a: F::Bits, b: F::Bits, flags: &mut u8, take_a: bool) -> F::Bits {
    let (wide_a, wide_b) = (a.into(), b.into());
    if is_signaling_nan::<F>(wide_a) || is_signaling_nan::<F>(wide_b) {
        *flags |= NV;
    }
    match (is_nan::<F>(wide_a), is_nan::<F>(wide_b)) {
        (true, true) => F::narrow(F::CANONICAL_NAN),
        (true, false) => b,
        (false, true) => a,
        (false, false) if take_a => a,
        (false, false) => b,
    }
}

/// Whether `a == b` (FEQ). Quiet: only a signalling NaN raises NV.
#[inline]
pub fn eq<F: Format>(a: F::Bits, b: F::Bits, flags: &mut u8) -> bool {
    let (a, b) = (a.into(), b.into());
    if is_nan::<F>(a) || is_nan::<F>(b) {
        if is_signaling_nan::<F>(a) || is_signaling_nan::<F>(b) {
            *flags |= NV;
        }
        return false;
    }
    a == b || is_zero::<F>(a) && is_zero::<F>(b)
}

/// Whether `a < b` (FLT). Signalling: any NaN raises NV.
#[inline]
pub fn lt<F: Format>(a: F::Bits, b: F::Bits, flags: &mut u8) -> bool {
    let (a, b) = (a.into(), b.into());
    if is_nan::<F>(a) || is_nan::<F>(b) {
        *flags |= NV;
        return false;
    }
    order_key::<F>(a) < order_key::<F>(b) && !(is_zero::<F>(a) && is_zero::<F>(b))
}

/// Whether `a <= b` (FLE). Signalling: any NaN raises NV.
#[inline]
pub fn le<F: Format>(a: F::Bits, b: F::Bits, flags: &mut u8) -> bool {
    let (a, b) = (a.into(), b.into());
    if is_nan::<F>(a) || is_nan::<F>(b) {
        *flags |= NV;
        return false;
    }
    order_key::<F>(a) <= order_key::<F>(b) || is_zero::<F>(a) && is_zero::<F>(b)
}

/// The class of a number (FCLASS) as a mask with one bit set. From bit 0: negative infinity, negative normal,
/// negative subnormal, -0, +0, positive subnormal, positive normal, positive infinity, signalling NaN, quiet
/// NaN.
pub fn classify<F: Format>(a: F::Bits) -> u64 {
    let a = a.into();
    if is_nan::<F>(a) {
        return if is_signaling_nan::<F>(a) { 1 << 8 } else { 1 << 9 };
    }
    let distance_from_zero = if is_infinite::<F>(a) {
        3
    } else if exponent_field::<F>(a) != 0 {
        2
    } else {
        u32::from(!is_zero::<F>(a))
    };
    if is_negative::<F>(a) { 1 << (3 - distance_from_zero) } else { 1 << (4 + distance_from_zero) }
}
