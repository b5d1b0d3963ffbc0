//! The two formats: field widths, constants, and the host's operations on them.

use std::fmt::Debug;

mod sealed {
    /// Seals [`super::Format`]: the arithmetic is proved only for binary32 and binary64.
    pub trait Sealed {}
    impl Sealed for super::F32 {}
    impl Sealed for super::F64 {}
}

/// An IEEE 754 binary format that a hart computes in.
///
/// The inner functions handle both formats as the low bits of a `u64`; callers use `Bits`. The `host_*`
/// functions are the host's operations in round to nearest even. Their results are not meaningful for NaNs,
/// because NaN payloads differ between hosts.
pub trait Format: sealed::Sealed + Copy {
    /// The bit pattern of a number.
    type Bits: Copy + Eq + Debug + Into<u64>;
    /// Stored significand bits, without the implied one.
    const FRACTION_BITS: u32;
    /// Bits of the exponent field.
    const EXPONENT_BITS: u32;

    /// Bits of the whole pattern.
    const WIDTH: u32 = 1 + Self::EXPONENT_BITS + Self::FRACTION_BITS;
    /// The exponent field of infinities and NaNs.
    const EXPONENT_MAX: u32 = (1 << Self::EXPONENT_BITS) - 1;
    /// The exponent bias.
    const BIAS: i32 = (1 << (Self::EXPONENT_BITS - 1)) - 1;
    /// Mask of the stored significand.
    const FRACTION_MASK: u64 = (1 << Self::FRACTION_BITS) - 1;
    /// The implied leading one of a normal number.
    const IMPLIED_ONE: u64 = 1 << Self::FRACTION_BITS;
    /// The sign bit.
    const SIGN: u64 = 1 << (Self::WIDTH - 1);
    /// Plus infinity.
    const INFINITY: u64 = (Self::EXPONENT_MAX as u64) << Self::FRACTION_BITS;
    /// The bit that distinguishes a quiet NaN from a signalling one.
    const QUIET: u64 = Self::IMPLIED_ONE >> 1;
    /// The canonical NaN: positive, quiet, payload zero.
    const CANONICAL_NAN: u64 = Self::INFINITY | Self::QUIET;

    /// The pattern in the low bits of `bits`; higher bits are dropped.
    fn narrow(bits: u64) -> Self::Bits;
    /// `a + b`.
    fn host_add(a: Self::Bits, b: Self::Bits) -> Self::Bits;
    /// `a * b`.
    fn host_mul(a: Self::Bits, b: Self::Bits) -> Self::Bits;
    /// `a / b`.
    fn host_div(a: Self::Bits, b: Self::Bits) -> Self::Bits;
    /// The square root of `a`.
    fn host_sqrt(a: Self::Bits) -> Self::Bits;
    /// `a * b + c`, rounded once.
    fn host_fma(a: Self::Bits, b: Self::Bits, c: Self::Bits) -> Self::Bits;
    /// The rounding error of `sum`, the host's `a + b`. Exact if finite; not finite if an intermediate step
    /// overflowed.
    fn host_add_error(a: Self::Bits, b: Self::Bits, sum: Self::Bits) -> Self::Bits;
    /// The nearest number to an unsigned integer.
    fn host_from_u64(value: u64) -> Self::Bits;
    /// The nearest number to a signed integer.
    fn host_from_i64(value: i64) -> Self::Bits;
}

/// binary32, the F extension's format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct F32;

/// binary64, the D extension's format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct F64;

macro_rules! implement_format {
    ($name:ident, $host:ty, $bits:ty, $fraction_bits:expr, $exponent_bits:expr) => {
        impl Format for $name {
            type Bits = $bits;
            const FRACTION_BITS: u32 = $fraction_bits;
            const EXPONENT_BITS: u32 = $exponent_bits;

            #[inline]
            fn narrow(bits: u64) -> $bits {
                bits as $bits
            }
            #[inline]
            fn host_add(a: $bits, b: $bits) -> $bits {
                (<$host>::from_bits(a) + <$host>::from_bits(b)).to_bits()
            }
            #[inline]
            fn host_mul(a: $bits, b: $bits) -> $bits {
                (<$host>::from_bits(a) * <$host>::from_bits(b)).to_bits()
            }
            #[inline]
            fn host_div(a: $bits, b: $bits) -> $bits {
                (<$host>::from_bits(a) / <$host>::from_bits(b)).to_bits()
            }
            #[inline]
            fn host_sqrt(a: $bits) -> $bits {
                <$host>::from_bits(a).sqrt().to_bits()
            }
            #[inline]
            fn host_fma(a: $bits, b: $bits, c: $bits) -> $bits {
                <$host>::from_bits(a).mul_add(<$host>::from_bits(b), <$host>::from_bits(c)).to_bits()
            }
            #[inline]
            fn host_add_error(a: $bits, b: $bits, sum: $bits) -> $bits {
                // Knuth's two-sum, which does not depend on the order of the operands.
                let (a, b, sum) = (<$host>::from_bits(a), <$host>::from_bits(b), <$host>::from_bits(sum));
                let b_part = sum - a;
                let a_part = sum - b_part;
                ((a - a_part) + (b - b_part)).to_bits()
            }
            #[inline]
            fn host_from_u64(value: u64) -> $bits {
                (value as $host).to_bits()
            }
            #[inline]
            fn host_from_i64(value: i64) -> $bits {
                (value as $host).to_bits()
            }
        }
    };
}

implement_format!(F32, f32, u32, 23, 8);
implement_format!(F64, f64, u64, 52, 11);

/// The exponent field.
#[inline]
pub(super) fn exponent_field<F: Format>(bits: u64) -> u32 {
    (bits >> F::FRACTION_BITS) as u32 & F::EXPONENT_MAX
}

/// The pattern without its sign; magnitudes have the same order as these integers.
#[inline]
pub(super) fn magnitude<F: Format>(bits: u64) -> u64 {
    bits & (F::SIGN - 1)
}

#[inline]
pub(super) fn is_negative<F: Format>(bits: u64) -> bool {
    bits & F::SIGN != 0
}

#[inline]
pub(super) fn is_nan<F: Format>(bits: u64) -> bool {
    magnitude::<F>(bits) > F::INFINITY
}

#[inline]
pub(super) fn is_signaling_nan<F: Format>(bits: u64) -> bool {
    is_nan::<F>(bits) && bits & F::QUIET == 0
}

#[inline]
pub(super) fn is_infinite<F: Format>(bits: u64) -> bool {
    magnitude::<F>(bits) == F::INFINITY
}

#[inline]
pub(super) fn is_finite<F: Format>(bits: u64) -> bool {
    magnitude::<F>(bits) < F::INFINITY
}

#[inline]
pub(super) fn is_zero<F: Format>(bits: u64) -> bool {
    magnitude::<F>(bits) == 0
}

/// `magnitude` with a sign.
#[inline]
pub(super) fn signed<F: Format>(negative: bool, magnitude: u64) -> u64 {
    if negative { F::SIGN | magnitude } else { magnitude }
}
