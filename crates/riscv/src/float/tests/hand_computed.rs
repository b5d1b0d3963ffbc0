use super::super::*;

const MODES: [Rounding; 5] = [Rounding::Rne, Rounding::Rtz, Rounding::Rdn, Rounding::Rup, Rounding::Rmm];
const ONE: u32 = 0x3f80_0000;
const LEAST_NORMAL: u32 = 0x0080_0000;
const GREATEST: u32 = 0x7f7f_ffff;
const INFINITY: u32 = 0x7f80_0000;
const CANONICAL_NAN: u32 = 0x7fc0_0000;
const SIGNALING_NAN: u32 = 0x7f80_0001;
const MINUS: u32 = 0x8000_0000;

/// Runs an operation with no flags accrued and returns its result and the flags that it raised.
fn with_flags<T>(operation: impl FnOnce(&mut u8) -> T) -> (T, u8) {
    let mut flags = 0;
    let result = operation(&mut flags);
    (result, flags)
}

#[test]
fn ties_round_as_the_mode_specifies() {
    let half_place = 0x3380_0000; // 2^-24, half of the last place of 1.0
    let expected = [ONE, ONE, ONE, ONE + 1, ONE + 1];
    for (mode, expected) in MODES.into_iter().zip(expected) {
        assert_eq!(with_flags(|f| add::<F32>(ONE, half_place, mode, f)), (expected, NX), "{mode:?}");
    }
    let expected = [ONE, ONE, ONE + 1, ONE, ONE + 1];
    for (mode, expected) in MODES.into_iter().zip(expected) {
        let sum = with_flags(|f| add::<F32>(ONE | MINUS, half_place | MINUS, mode, f));
        assert_eq!(sum, (expected | MINUS, NX), "{mode:?}");
    }
}

#[test]
fn overflow_gives_infinity_or_the_greatest_finite_number() {
    let expected = [INFINITY, GREATEST, GREATEST, INFINITY, INFINITY];
    for (mode, expected) in MODES.into_iter().zip(expected) {
        let product = with_flags(|f| mul::<F32>(GREATEST, GREATEST, mode, f));
        assert_eq!(product, (expected, OF | NX), "{mode:?}");
    }
}

#[test]
fn tininess_is_detected_after_rounding() {
    // 2^-126 (1 - 2^-24) has 24 bits: it is tiny, and a tie at the format's last place.
    let product = with_flags(|f| mul::<F32>(LEAST_NORMAL, 0x3f7f_ffff, Rounding::Rne, f));
    assert_eq!(product, (LEAST_NORMAL, NX | UF));
    // 2^-126 (1 + 2^-13) * (1 - 2^-13) = 2^-126 (1 - 2^-26) rounds to 2^-126 in 24 bits as well: not tiny,
    let (above, below) = (0x0080_0400, 0x3f7f_f800);
    assert_eq!(with_flags(|f| mul::<F32>(above, below, Rounding::Rne, f)), (LEAST_NORMAL, NX));
    // unless it is rounded down.
    assert_eq!(with_flags(|f| mul::<F32>(above, below, Rounding::Rtz, f)), (LEAST_NORMAL - 1, NX | UF));
}

#[test]
fn an_exact_subnormal_result_raises_no_flag() {
    let half = 0x3f00_0000;
    assert_eq!(with_flags(|f| mul::<F32>(LEAST_NORMAL, half, Rounding::Rne, f)), (LEAST_NORMAL >> 1, 0));
}

#[test]
fn x_minus_x_is_plus_zero_except_when_rounding_down() {
    for mode in MODES {
        let expected = if mode == Rounding::Rdn { MINUS } else { 0 };
        assert_eq!(with_flags(|f| sub::<F32>(ONE, ONE, mode, f)), (expected, 0), "{mode:?}");
    }
}

#[test]
fn invalid_operations_give_the_canonical_nan_and_nv() {
    let rne = Rounding::Rne;
    let nan = (CANONICAL_NAN, NV);
    assert_eq!(with_flags(|f| sub::<F32>(INFINITY, INFINITY, rne, f)), nan);
    assert_eq!(with_flags(|f| mul::<F32>(0, INFINITY, rne, f)), nan);
    assert_eq!(with_flags(|f| div::<F32>(0, MINUS, rne, f)), nan);
    assert_eq!(with_flags(|f| div::<F32>(INFINITY, INFINITY, rne, f)), nan);
    assert_eq!(with_flags(|f| sqrt::<F32>(ONE | MINUS, rne, f)), nan);
    assert_eq!(with_flags(|f| fma::<F32>(INFINITY, 0, CANONICAL_NAN, rne, f)), nan);
    assert_eq!(with_flags(|f| add::<F32>(SIGNALING_NAN, ONE, rne, f)), nan);
    assert_eq!(with_flags(|f| add::<F32>(0xffff_ffff, ONE, rne, f)), (CANONICAL_NAN, 0));
    assert_eq!(with_flags(|f| add::<F64>(!0, 0, rne, f)), (0x7ff8_0000_0000_0000, 0));
}

#[test]
fn dividing_by_zero_raises_dz_not_nv() {
    assert_eq!(with_flags(|f| div::<F32>(ONE, MINUS, Rounding::Rne, f)), (INFINITY | MINUS, DZ));
    assert_eq!(with_flags(|f| div::<F32>(INFINITY, 0, Rounding::Rne, f)), (INFINITY, 0));
}

#[test]
fn a_fused_product_is_not_rounded_before_the_addition() {
    // (1 + 2^-23)^2 - (1 + 2^-22) = 2^-46, which would be lost by two roundings.
    let result = with_flags(|f| fma::<F32>(ONE + 1, ONE + 1, (ONE + 2) | MINUS, Rounding::Rne, f));
    assert_eq!(result, (0x2880_0000, 0));
}

#[test]
fn minimum_prefers_numbers_to_nans_and_minus_zero_to_plus_zero() {
    assert_eq!(with_flags(|f| min::<F32>(0, MINUS, f)), (MINUS, 0));
    assert_eq!(with_flags(|f| max::<F32>(MINUS, 0, f)), (0, 0));
    assert_eq!(with_flags(|f| min::<F32>(CANONICAL_NAN, ONE, f)), (ONE, 0));
    assert_eq!(with_flags(|f| max::<F32>(ONE, SIGNALING_NAN, f)), (ONE, NV));
    assert_eq!(with_flags(|f| max::<F32>(0xffff_ffff, SIGNALING_NAN, f)), (CANONICAL_NAN, NV));
}

#[test]
fn only_feq_is_quiet() {
    assert_eq!(with_flags(|f| eq::<F32>(CANONICAL_NAN, ONE, f)), (false, 0));
    assert_eq!(with_flags(|f| lt::<F32>(CANONICAL_NAN, ONE, f)), (false, NV));
    assert_eq!(with_flags(|f| le::<F32>(CANONICAL_NAN, CANONICAL_NAN, f)), (false, NV));
    assert_eq!(with_flags(|f| eq::<F32>(SIGNALING_NAN, ONE, f)), (false, NV));
    assert_eq!(with_flags(|f| eq::<F32>(0, MINUS, f)), (true, 0));
    assert_eq!(with_flags(|f| lt::<F32>(MINUS, 0, f)), (false, 0));
    assert_eq!(with_flags(|f| le::<F32>(0, MINUS, f)), (true, 0));
}

#[test]
fn classes_are_numbered_as_in_the_manual() {
    let numbers = [
        INFINITY | MINUS,
        ONE | MINUS,
        1 | MINUS,
        MINUS,
        0,
        LEAST_NORMAL - 1,
        LEAST_NORMAL,
        INFINITY,
        SIGNALING_NAN,
        CANONICAL_NAN,
    ];
    for (class, number) in numbers.into_iter().enumerate() {
        assert_eq!(classify::<F32>(number), 1 << class);
    }
}

#[test]
fn conversions_to_integers_saturate_and_raise_only_nv() {
    let (rtz, minus_one) = (Rounding::Rtz, ONE | MINUS);
    let two_to_31 = 0x4f00_0000;
    assert_eq!(with_flags(|f| to_i32::<F32>(two_to_31, rtz, f)), (0x7fff_ffff, NV));
    assert_eq!(with_flags(|f| to_i32::<F32>(two_to_31 | MINUS, rtz, f)), (0xffff_ffff_8000_0000, 0));
    assert_eq!(with_flags(|f| to_u32::<F32>(two_to_31, rtz, f)), (0xffff_ffff_8000_0000, 0));
    assert_eq!(with_flags(|f| to_u32::<F32>(INFINITY, rtz, f)), (u64::MAX, NV));
    assert_eq!(with_flags(|f| to_u32::<F32>(CANONICAL_NAN | MINUS, rtz, f)), (u64::MAX, NV));
    assert_eq!(with_flags(|f| to_i64::<F32>(CANONICAL_NAN, rtz, f)), (i64::MAX as u64, NV));
    assert_eq!(with_flags(|f| to_i64::<F32>(INFINITY | MINUS, rtz, f)), (i64::MIN as u64, NV));
    assert_eq!(with_flags(|f| to_u64::<F32>(minus_one, rtz, f)), (0, NV));
    // -0.5 becomes zero without an invalid flag, unless rounded down.
    let minus_half = 0xbf00_0000;
    assert_eq!(with_flags(|f| to_u64::<F32>(minus_half, rtz, f)), (0, NX));
    assert_eq!(with_flags(|f| to_u64::<F32>(minus_half, Rounding::Rdn, f)), (0, NV));
}

#[test]
fn conversions_from_32_bit_integers_ignore_the_upper_half() {
    let rne = Rounding::Rne;
    assert_eq!(with_flags(|f| from_i32::<F32>(0x1234_5678_ffff_ffff, rne, f)), (ONE | MINUS, 0));
    assert_eq!(with_flags(|f| from_u32::<F32>(0xffff_ffff_0000_0001, rne, f)), (ONE, 0));
    assert_eq!(with_flags(|f| from_u32::<F32>(0xffff_ffff, rne, f)), (0x4f80_0000, NX));
    assert_eq!(with_flags(|f| from_i64::<F64>(1 << 63, rne, f)), (0xc3e0_0000_0000_0000, 0));
}

#[test]
fn accrued_flags_are_kept() {
    let mut flags = DZ | OF;
    assert_eq!(add::<F32>(ONE, ONE, Rounding::Rne, &mut flags), 0x4000_0000);
    assert_eq!(flags, DZ | OF);
    assert_eq!(div::<F32>(ONE, 0x4040_0000, Rounding::Rne, &mut flags), 0x3eaa_aaab);
    assert_eq!(flags, DZ | OF | NX);
}
