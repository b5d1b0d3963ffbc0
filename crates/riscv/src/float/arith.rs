//! Add, subtract, multiply, divide, square root and fused multiply-add: a fast path on the host's
//! floating-point unit where the result is certain to be exact, otherwise integer code ([`super::exact`]).
//!
//! Why the fast path is exact: hosts in [`HOST_IS_IEEE`] round these operations correctly to nearest even,
//! including subnormals, so in that mode every value other than a NaN is correct. The flags remain. A finite
//! result rules out invalid operations and overflow; a finite and nonzero one also rules out division by zero
//! and infinite operands. A result above the least normal number cannot have been tiny, and a sum is never
//! both tiny and inexact. Only NX is left: either it is already accrued and does not matter, or an exact test
//! on operands and result finds it (for fused multiply-add, the integer code).

use super::format::{Format, exponent_field, is_finite, is_zero};
use super::{NX, Rounding, exact};

/// Hosts whose float instructions round every single-precision result to its own format. (32-bit x86 does
/// not.)
const HOST_IS_IEEE: bool =
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"));

/// Whether the host's result has the correct value and, except for NX, no flags.
#[inline]
fn host_may_serve(rounding: Rounding) -> bool {
    HOST_IS_IEEE && rounding == Rounding::Rne
}

/// Whether a result is finite and large enough to be neither tiny before nor after rounding.
#[inline]
fn is_plain<F: Format>(result: u64) -> bool {
    exponent_field::<F>(result).wrapping_sub(2) < F::EXPONENT_MAX - 2
}

/// The significand of a normal number as an integer.
fn integer_significand<F: Format>(bits: u64) -> u64 {
    bits & F::FRACTION_MASK | F::IMPLIED_ONE
}

/// Whether a number is normal: not zero, subnormal, infinite or NaN.
fn is_normal<F: Format>(bits: u64) -> bool {
    exponent_field::<F>(bits).wrapping_sub(1) < F::EXPONENT_MAX - 1
}

/// `a + b`.
#[inline]
pub fn add<F: Format>(a: F::Bits, b: F::Bits, rounding: Rounding, flags: &mut u8) -> F::Bits {
    if host_may_serve(rounding) && *flags & NX != 0 {
        let sum = F::host_add(a, b);
        if is_finite::<F>(sum.into()) {
            return sum;
        }
    }
    add_carefully::<F>(a, b, rounding, flags)
}

/// `a - b`.
#[inline]
pub fn sub<F: Format>(a: F::Bits, b: F::Bits, rounding: Rounding, flags: &mut u8) -> F::Bits {
    // Flipping the sign of a NaN has no effect: NaN results are canonical.
    add::<F>(a, F::narrow(b.into() ^ F::SIGN), rounding, flags)
}

#[inline(never)]
fn add_carefully<F: Format>(a: F::Bits, b: F::Bits, rounding: Rounding, flags: &mut u8) -> F::Bits {
    if host_may_serve(rounding) {
        let sum = F::host_add(a, b);
        let error = F::host_add_error(a, b, sum).into();
        // A non-finite error comes from infinite or huge numbers: integer code handles those.
        if is_finite::<F>(error) {
            if !is_zero::<F>(error) {
                *flags |= NX;
            }
            return sum;
        }
    }
    F::narrow(exact::add::<F>(a.into(), b.into(), rounding, flags))
}

/// `a * b`.
#[inline]
pub fn mul<F: Format>(a: F::Bits, b: F::Bits, rounding: Rounding, flags: &mut u8) -> F::Bits {
    if host_may_serve(rounding) && *flags & NX != 0 {
        let product = F::host_mul(a, b);
        if is_plain::<F>(product.into()) {
            return product;
        }
    }
    mul_carefully::<F>(a, b, rounding, flags)
}

#[inline(never)]
fn mul_carefully<F: Format>(a: F::Bits, b: F::Bits, rounding: Rounding, flags: &mut u8) -> F::Bits {
    let (wide_a, wide_b) = (a.into(), b.into());
    if host_may_serve(rounding) && is_normal::<F>(wide_a) && is_normal::<F>(wide_b) {
        let product = F::host_mul(a, b);
        if is_plain::<F>(product.into()) {
            if product_is_inexact::<F>(wide_a, wide_b, product.into()) {
                *flags |= NX;
            }
            return product;
        }
    }
    F::narrow(exact::mul::<F>(wide_a, wide_b, rounding, flags))
}

/// Whether the product of normal numbers was rounded: whether the integer product of the significands has a
/// one below the result's last place. The growth of the exponent gives that place. (If rounding itself caused
/// the growth, the product is inexact with either place.)
fn product_is_inexact<F: Format>(a: u64, b: u64, product: u64) -> bool {
    let low = integer_significand::<F>(a).wrapping_mul(integer_significand::<F>(b));
    let grown = exponent_field::<F>(product) as i32 + F::BIAS
        - exponent_field::<F>(a) as i32
        - exponent_field::<F>(b) as i32;
    low.trailing_zeros() < F::FRACTION_BITS + grown as u32
}

/// `a / b`.
#[inline]
pub fn div<F: Format>(a: F::Bits, b: F::Bits, rounding: Rounding, flags: &mut u8) -> F::Bits {
    if host_may_serve(rounding) && *flags & NX != 0 {
        let quotient = F::host_div(a, b);
        if is_plain::<F>(quotient.into()) {
            return quotient;
        }
    }
    div_carefully::<F>(a, b, rounding, flags)
}

#[inline(never)]
fn div_carefully<F: Format>(a: F::Bits, b: F::Bits, rounding: Rounding, flags: &mut u8) -> F::Bits {
    let (wide_a, wide_b) = (a.into(), b.into());
    if host_may_serve(rounding) && is_normal::<F>(wide_a) && is_normal::<F>(wide_b) {
        let quotient = F::host_div(a, b);
        if is_plain::<F>(quotient.into()) {
            if !is_exact_product::<F>(quotient.into(), wide_b, wide_a) {
                *flags |= NX;
            }
            return quotient;
        }
    }
    F::narrow(exact::div::<F>(wide_a, wide_b, rounding, flags))
}

/// Whether `a * b == target`, for normal numbers where `a` is the rounded quotient `target / b`, or both
/// factors are the rounded root of `target`. The integers on both sides then differ by less than 2^55, so it
/// is enough to compare them modulo 2^64.
fn is_exact_product<F: Format>(a: u64, b: u64, target: u64) -> bool {
    let product = integer_significand::<F>(a).wrapping_mul(integer_significand::<F>(b));
    let places = exponent_field::<F>(target) as i32 + F::BIAS + F::FRACTION_BITS as i32
        - exponent_field::<F>(a) as i32
        - exponent_field::<F>(b) as i32;
    product == integer_significand::<F>(target) << places
}

/// The square root of `a`.
#[inline]
pub fn sqrt<F: Format>(a: F::Bits, rounding: Rounding, flags: &mut u8) -> F::Bits {
    if host_may_serve(rounding) && *flags & NX != 0 {
        let root = F::host_sqrt(a);
        if is_plain::<F>(root.into()) {
            return root;
        }
    }
    sqrt_carefully::<F>(a, rounding, flags)
}

#[inline(never)]
fn sqrt_carefully<F: Format>(a: F::Bits, rounding: Rounding, flags: &mut u8) -> F::Bits {
    let wide_a = a.into();
    if host_may_serve(rounding) && is_normal::<F>(wide_a) {
        let root = F::host_sqrt(a);
        if is_plain::<F>(root.into()) {
            if !is_exact_product::<F>(root.into(), root.into(), wide_a) {
                *flags |= NX;
            }
            return root;
        }
    }
    F::narrow(exact::sqrt::<F>(wide_a, rounding, flags))
}

/// `a * b + c`, rounded once.
#[inline]
pub fn fma<F: Format>(a: F::Bits, b: F::Bits, c: F::Bits, rounding: Rounding, flags: &mut u8) -> F::Bits {
    if host_may_serve(rounding) && *flags & NX != 0 {
        let result = F::host_fma(a, b, c);
        if is_plain::<F>(result.into()) {
            return result;
        }
    }
    fma_carefully::<F>(a, b, c, rounding, flags)
}

#[inline(never)]
fn fma_carefully<F: Format>(
    a: F::Bits,
    b: F::Bits,
    c: F::Bits,
    rounding: Rounding,
    flags: &mut u8,
) -> F::Bits {
    F::narrow(exact::fma::<F>(a.into(), b.into(), c.into(), rounding, flags))
}
