//! Compares every operation with Berkeley SoftFloat, specialised for RISC-V: results and flags, in all
//! rounding modes, with and without previously accrued flags, so that the fast path is covered.
//!
//! `DOORBELL_FLOAT_TESTS` sets the number of random operands per operation.

use softfloat_wrapper::{ExceptionFlags, Float, RoundingMode};

use super::super::*;
use super::operands::{Random, integer, near_binary32, special_integers, specials, triple};

const MODES: [(Rounding, RoundingMode); 5] = [
    (Rounding::Rne, RoundingMode::TiesToEven),
    (Rounding::Rtz, RoundingMode::TowardZero),
    (Rounding::Rdn, RoundingMode::TowardNegative),
    (Rounding::Rup, RoundingMode::TowardPositive),
    (Rounding::Rmm, RoundingMode::TiesToAway),
];

type Ours = fn([u64; 3], Rounding, &mut u8) -> u64;
type Theirs = fn([u64; 3], RoundingMode) -> u64;

/// An operation in both implementations.
struct Operation {
    name: &'static str,
    operands: usize,
    ours: Ours,
    theirs: Theirs,
}

/// SoftFloat's type for a format.
trait Reference: Format {
    type Soft: Float<Payload = Self::Bits>;
}

impl Reference for F32 {
    type Soft = softfloat_wrapper::F32;
}

impl Reference for F64 {
    type Soft = softfloat_wrapper::F64;
}

/// Converts one of our bit patterns to a SoftFloat number.
fn soft<F: Reference>(bits: u64) -> F::Soft {
    F::Soft::from_bits(F::narrow(bits))
}

/// Converts a SoftFloat number to its bit pattern.
fn bits<F: Reference>(number: F::Soft) -> u64 {
    number.to_bits().into()
}

fn operation(name: &'static str, operands: usize, ours: Ours, theirs: Theirs) -> Operation {
    Operation { name, operands, ours, theirs }
}

/// The operations that have a fast path, with and without it.
fn arithmetic<F: Reference>() -> Vec<Operation> {
    fn n<F: Format>(bits: u64) -> F::Bits {
        F::narrow(bits)
    }
    let their_add: Theirs = |[a, b, _], m| bits::<F>(soft::<F>(a).add(soft::<F>(b), m));
    let their_sub: Theirs = |[a, b, _], m| bits::<F>(soft::<F>(a).sub(soft::<F>(b), m));
    let their_mul: Theirs = |[a, b, _], m| bits::<F>(soft::<F>(a).mul(soft::<F>(b), m));
    let their_div: Theirs = |[a, b, _], m| bits::<F>(soft::<F>(a).div(soft::<F>(b), m));
    let their_sqrt: Theirs = |[a, ..], m| bits::<F>(soft::<F>(a).sqrt(m));
    let their_fma: Theirs =
        |[a, b, c], m| bits::<F>(soft::<F>(a).fused_mul_add(soft::<F>(b), soft::<F>(c), m));
    vec![
        operation("add", 2, |[a, b, _], m, f| add::<F>(n::<F>(a), n::<F>(b), m, f).into(), their_add),
        operation("sub", 2, |[a, b, _], m, f| sub::<F>(n::<F>(a), n::<F>(b), m, f).into(), their_sub),
        operation("mul", 2, |[a, b, _], m, f| mul::<F>(n::<F>(a), n::<F>(b), m, f).into(), their_mul),
        operation("div", 2, |[a, b, _], m, f| div::<F>(n::<F>(a), n::<F>(b), m, f).into(), their_div),
        operation("sqrt", 1, |[a, ..], m, f| sqrt::<F>(n::<F>(a), m, f).into(), their_sqrt),
        operation(
            "fma",
            3,
            |[a, b, c], m, f| fma::<F>(n::<F>(a), n::<F>(b), n::<F>(c), m, f).into(),
            their_fma,
        ),
        operation("add in integers", 2, |[a, b, _], m, f| exact::add::<F>(a, b, m, f), their_add),
        operation("mul in integers", 2, |[a, b, _], m, f| exact::mul::<F>(a, b, m, f), their_mul),
        operation("div in integers", 2, |[a, b, _], m, f| exact::div::<F>(a, b, m, f), their_div),
        operation("sqrt in integers", 1, |[a, ..], m, f| exact::sqrt::<F>(a, m, f), their_sqrt),
        operation("fma in integers", 3, |[a, b, c], m, f| exact::fma::<F>(a, b, c, m, f), their_fma),
    ]
}

/// FMIN and FMAX built from SoftFloat, which has no such operation: `a` if selected, with NaNs as in the
/// manual. The quiet comparison raises NV only for signalling NaNs, as FMIN and FMAX do.
fn their_extreme<F: Reference>(a: u64, b: u64, greater: bool) -> u64 {
    let (x, y) = (soft::<F>(a), soft::<F>(b));
    let a_wins = if x.is_zero() && y.is_zero() {
        x.is_negative() != greater
    } else if greater {
        y.lt_quiet(&x)
    } else {
        x.lt_quiet(&y)
    };
    match (x.is_nan(), y.is_nan()) {
        (true, true) => F::CANONICAL_NAN,
        (true, false) => b,
        (false, true) => a,
        (false, false) if a_wins => a,
        (false, false) => b,
    }
}

fn their_class<F: Reference>(a: u64) -> u64 {
    let x = soft::<F>(a);
    let classes = [
        x.is_negative_infinity(),
        x.is_negative_normal(),
        x.is_negative_subnormal(),
        x.is_negative_zero(),
        x.is_positive_zero(),
        x.is_positive_subnormal(),
        x.is_positive_normal(),
        x.is_positive_infinity(),
        x.is_nan() && x.is_signaling_nan(),
        x.is_nan() && !x.is_signaling_nan(),
    ];
    classes.iter().enumerate().map(|(class, &is)| u64::from(is) << class).sum()
}

fn comparisons<F: Reference>() -> Vec<Operation> {
    vec![
        operation(
            "min",
            2,
            |[a, b, _], _, f| min::<F>(F::narrow(a), F::narrow(b), f).into(),
            |[a, b, _], _| their_extreme::<F>(a, b, false),
        ),
        operation(
            "max",
            2,
            |[a, b, _], _, f| max::<F>(F::narrow(a), F::narrow(b), f).into(),
            |[a, b, _], _| their_extreme::<F>(a, b, true),
        ),
        operation(
            "eq",
            2,
            |[a, b, _], _, f| eq::<F>(F::narrow(a), F::narrow(b), f).into(),
            |[a, b, _], _| soft::<F>(a).eq(soft::<F>(b)).into(),
        ),
        operation(
            "lt",
            2,
            |[a, b, _], _, f| lt::<F>(F::narrow(a), F::narrow(b), f).into(),
            |[a, b, _], _| soft::<F>(a).lt(soft::<F>(b)).into(),
        ),
        operation(
            "le",
            2,
            |[a, b, _], _, f| le::<F>(F::narrow(a), F::narrow(b), f).into(),
            |[a, b, _], _| soft::<F>(a).le(soft::<F>(b)).into(),
        ),
        operation(
            "classify",
            1,
            |[a, ..], _, _| classify::<F>(F::narrow(a)),
            |[a, ..], _| their_class::<F>(a),
        ),
    ]
}

fn to_integers<F: Reference>() -> Vec<Operation> {
    vec![
        operation(
            "to_i32",
            1,
            |[a, ..], m, f| to_i32::<F>(F::narrow(a), m, f),
            |[a, ..], m| i64::from(soft::<F>(a).to_i32(m, true)) as u64,
        ),
        operation(
            "to_u32",
            1,
            |[a, ..], m, f| to_u32::<F>(F::narrow(a), m, f),
            |[a, ..], m| i64::from(soft::<F>(a).to_u32(m, true).cast_signed()) as u64,
        ),
        operation(
            "to_i64",
            1,
            |[a, ..], m, f| to_i64::<F>(F::narrow(a), m, f),
            |[a, ..], m| soft::<F>(a).to_i64(m, true) as u64,
        ),
        operation(
            "to_u64",
            1,
            |[a, ..], m, f| to_u64::<F>(F::narrow(a), m, f),
            |[a, ..], m| soft::<F>(a).to_u64(m, true),
        ),
    ]
}

fn from_integers<F: Reference>() -> Vec<Operation> {
    vec![
        operation(
            "from_i32",
            1,
            |[a, ..], m, f| from_i32::<F>(a, m, f).into(),
            |[a, ..], m| bits::<F>(F::Soft::from_i32(a as i32, m)),
        ),
        operation(
            "from_u32",
            1,
            |[a, ..], m, f| from_u32::<F>(a, m, f).into(),
            |[a, ..], m| bits::<F>(F::Soft::from_u32(a as u32, m)),
        ),
        operation(
            "from_i64",
            1,
            |[a, ..], m, f| from_i64::<F>(a, m, f).into(),
            |[a, ..], m| bits::<F>(F::Soft::from_i64(a as i64, m)),
        ),
        operation(
            "from_u64",
            1,
            |[a, ..], m, f| from_u64::<F>(a, m, f).into(),
            |[a, ..], m| bits::<F>(F::Soft::from_u64(a, m)),
        ),
    ]
}

fn random_count() -> u64 {
    let set = std::env::var("DOORBELL_FLOAT_TESTS").ok();
    set.map_or(100_000, |count| count.parse().expect("DOORBELL_FLOAT_TESTS is a number"))
}

/// SoftFloat's result and flags. Its flags are a thread-local variable.
fn reference(operation: &Operation, operands: [u64; 3], mode: RoundingMode) -> (u64, u8) {
    let mut flags = ExceptionFlags::from_bits(0);
    flags.set();
    let result = (operation.theirs)(operands, mode);
    flags.get();
    (result, flags.to_bits())
}

fn compare(operation: &Operation, operands: [u64; 3]) {
    for (mode, their_mode) in MODES {
        let (expected, raised) = reference(operation, operands, their_mode);
        for accrued in [0, NX, NV | DZ | OF | UF] {
            let mut flags = accrued;
            let result = (operation.ours)(operands, mode, &mut flags);
            assert!(
                result == expected && flags == accrued | raised,
                "{} {:x?} {mode:?} after flags {accrued:#x}: {result:#x} and {flags:#x}, not {expected:#x} and {:#x}",
                operation.name,
                &operands[..operation.operands],
                accrued | raised,
            );
        }
    }
}

/// Compares the cross product of the special values, then random operands.
fn compare_all(
    operations: &[Operation],
    specials: &[u64],
    random_operands: impl Fn(&mut Random) -> [u64; 3],
) {
    for operation in operations {
        for &a in specials {
            for &b in if operation.operands > 1 { specials } else { &[0] } {
                for &c in if operation.operands > 2 { specials } else { &[0] } {
                    compare(operation, [a, b, c]);
                }
            }
        }
        let mut random = Random(0);
        for _ in 0..random_count() {
            compare(operation, random_operands(&mut random));
        }
    }
}

fn compare_format<F: Reference>(operations: &[Operation]) {
    let specials = specials::<F>();
    compare_all(operations, &specials, |random| triple::<F>(random, &specials));
}

#[test]
fn binary32_arithmetic_equals_softfloat() {
    compare_format::<F32>(&arithmetic::<F32>());
}

#[test]
fn binary64_arithmetic_equals_softfloat() {
    compare_format::<F64>(&arithmetic::<F64>());
}

#[test]
fn comparisons_equal_softfloat() {
    compare_format::<F32>(&comparisons::<F32>());
    compare_format::<F64>(&comparisons::<F64>());
}

#[test]
fn conversions_to_integers_equal_softfloat() {
    compare_format::<F32>(&to_integers::<F32>());
    compare_format::<F64>(&to_integers::<F64>());
}

#[test]
fn conversions_from_integers_equal_softfloat() {
    let operations: Vec<_> = from_integers::<F32>().into_iter().chain(from_integers::<F64>()).collect();
    compare_all(&operations, &special_integers(), |random| [integer(random), 0, 0]);
}

#[test]
fn conversions_between_formats_equal_softfloat() {
    let widen = operation(
        "f32_to_f64",
        1,
        |[a, ..], _, f| f32_to_f64(a as u32, f),
        |[a, ..], m| soft::<F32>(a).to_f64(m).to_bits(),
    );
    let narrow = operation(
        "f64_to_f32",
        1,
        |[a, ..], m, f| f64_to_f32(a, m, f).into(),
        |[a, ..], m| soft::<F64>(a).to_f32(m).to_bits().into(),
    );
    compare_format::<F32>(&[widen]);
    // Every special value of binary32, and values next to it or halfway to its neighbour.
    let mut wide = specials::<F64>();
    for bits in specials::<F32>() {
        let value = f32_to_f64(bits as u32, &mut 0);
        let half_way = value | 1 << 28;
        wide.extend([value, value.wrapping_sub(1), value + 1, half_way - 1, half_way, half_way + 1]);
    }
    compare_all(&[narrow], &wide, |random| [near_binary32(random), 0, 0]);
}
