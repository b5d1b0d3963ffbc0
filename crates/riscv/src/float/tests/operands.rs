//! Operands for the comparison with SoftFloat: special values, and random ones near boundaries.

use super::super::format::{F32, F64, Format, signed};

/// SplitMix64, so that every run and host has the same operands.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Uniform enough for tests; below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Between `-reach` and `reach`.
    pub fn around(&mut self, reach: i64) -> i64 {
        self.below(2 * reach as u64 + 1) as i64 - reach
    }
}

/// Zeros, subnormal and normal extremes, ones and their neighbours, values that make ties, infinities, NaNs,
/// and the limits of the integer types.
pub fn specials<F: Format>() -> Vec<u64> {
    let power = |exponent: i32| ((exponent + F::BIAS) as u64) << F::FRACTION_BITS;
    let places = F::FRACTION_BITS as i32;
    let mut magnitudes = vec![0, 1, 2, 3, F::INFINITY, F::CANONICAL_NAN, F::INFINITY + 1];
    magnitudes.extend([F::CANONICAL_NAN - 1, F::CANONICAL_NAN + 5, F::SIGN - 1]);
    magnitudes.extend([F::QUIET, F::QUIET + 1, F::FRACTION_MASK, F::FRACTION_MASK - 1]);
    magnitudes.extend([F::INFINITY - 1, F::INFINITY - 2]);
    let exponents = [
        1 - F::BIAS,
        2 - F::BIAS,
        F::BIAS,
        F::BIAS - 1,
        -F::BIAS / 2,
        F::BIAS / 2,
        -places - 2,
        -places - 1,
        -places,
        -2,
        -1,
        0,
        1,
        2,
        places,
        places + 1,
        31,
        32,
        63,
        64,
    ];
    for exponent in exponents {
        let value = power(exponent);
        magnitudes.extend([value - 1, value, value + 1]);
    }
    magnitudes.extend([power(0) + 2, power(0) | F::QUIET, (power(0) | F::QUIET) + 1, power(1) | F::QUIET]);
    if F::WIDTH == 64 {
        let around_limits = [2147483646.5, 2147483647.0, 2147483647.5, 2147483648.5, 4294967294.5]
            .into_iter()
            .chain([4294967295.0, 4294967295.5, 4294967296.5]);
        magnitudes.extend(around_limits.map(f64::to_bits));
    }
    magnitudes.sort_unstable();
    magnitudes.dedup();
    magnitudes.iter().flat_map(|&m| [m, m | F::SIGN]).collect()
}

/// Integers around the powers of two at which integer types end or significands become too short.
pub fn special_integers() -> Vec<u64> {
    let mut integers = Vec::new();
    for shift in 0..64 {
        for offset in [-2, -1, 0, 1, 2] {
            let value = (1u64 << shift).wrapping_add_signed(offset);
            integers.extend([value, value.wrapping_neg()]);
        }
        // Ties of both formats, and their neighbours.
        for places in [24, 53] {
            if shift >= places {
                let tie = 1u64 << shift | 1 << (shift - places);
                integers.extend([tie - 1, tie, tie + 1, tie.wrapping_neg(), tie | 2 << (shift - places)]);
            }
        }
    }
    integers
}

/// A random integer of random length.
pub fn integer(random: &mut Random) -> u64 {
    let value = significand(random, 64) >> random.below(64);
    if random.below(2) == 0 { value } else { value.wrapping_neg() }
}

/// `bits` random bits: uniform, or few ones at either end, or few zeros.
fn significand(random: &mut Random, bits: u32) -> u64 {
    let mask = u64::MAX >> (64 - bits);
    let uniform = random.next() & mask;
    let cut = random.below(bits.into()) as u32;
    match random.below(6) {
        0 | 1 => uniform,
        2 => uniform >> cut << cut,
        3 => uniform >> cut,
        4 => mask & !(uniform >> cut),
        _ => mask >> cut << (uniform % (u64::from(cut) + 1)),
    }
}

/// A number with the exponent field nearest to `field` that a finite number can have.
fn number<F: Format>(random: &mut Random, field: i64) -> u64 {
    let field = field.clamp(0, i64::from(F::EXPONENT_MAX) - 1) as u64;
    let fraction = significand(random, F::FRACTION_BITS);
    signed::<F>(random.below(2) == 0, field << F::FRACTION_BITS | fraction)
}

/// Three operands whose exponents reach a boundary case.
pub fn triple<F: Format>(random: &mut Random, specials: &[u64]) -> [u64; 3] {
    let (max, bias) = (i64::from(F::EXPONENT_MAX), i64::from(F::BIAS));
    let places = i64::from(F::FRACTION_BITS);
    let mut field = random.below(max as u64) as i64;
    let second = match random.below(8) {
        // Close, or as far apart as the significand is long.
        0 => field + random.around(2),
        1 => field + random.around(places + 4),
        // A product near overflow or underflow, or of middle size.
        2 => max + bias - 1 - field + random.around(2),
        3 => bias - field + random.around(places + 4),
        4 => 2 * bias - field + random.around(8),
        // A quotient near overflow or underflow.
        5 => field + bias + random.around(places + 4),
        6 => field - bias + random.around(2),
        _ => {
            // Near the ends of the integer types.
            field = bias + random.below(68) as i64 - 2;
            random.below(max as u64) as i64
        }
    };
    let third = field + second - bias + random.around(2 * places + 6);
    let mut triple = [number::<F>(random, field), number::<F>(random, second), number::<F>(random, third)];
    let nudge = random.around(3);
    match random.below(16) {
        // Cancellation of almost all bits in a sum, and in a fused one.
        0 => triple[1] = (triple[0] ^ F::SIGN).wrapping_add_signed(nudge),
        1 => {
            let product = F::host_mul(F::narrow(triple[0]), F::narrow(triple[1])).into();
            triple[2] = (product ^ F::SIGN).wrapping_add_signed(nudge);
        }
        // A square, or an exact quotient, and their neighbours.
        2 => triple[0] = F::host_mul(F::narrow(triple[0]), F::narrow(triple[0])).into(),
        3 => {
            let product: u64 = F::host_mul(F::narrow(triple[0]), F::narrow(triple[1])).into();
            triple[0] = product.wrapping_add_signed(nudge / 2);
        }
        4 => triple[random.below(3) as usize] = specials[random.below(specials.len() as u64) as usize],
        5 => return triple.map(|_| specials[random.below(specials.len() as u64) as usize]),
        _ => {}
    }
    triple.map(|bits| F::narrow(bits).into())
}

/// A binary64 number whose exponent is in or near the range of binary32.
pub fn near_binary32(random: &mut Random) -> u64 {
    let lowest = F64::BIAS - F32::BIAS - F32::FRACTION_BITS as i32 - 4;
    let span = 2 * F32::BIAS + F32::FRACTION_BITS as i32 + 8;
    let field = i64::from(lowest) + random.below(span as u64) as i64;
    number::<F64>(random, field)
}
