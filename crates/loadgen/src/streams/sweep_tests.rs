use super::*;
use crate::testdist::chi_square_excess;

fn sweep(order: Order, count: u64) -> Sweep {
    Sweep::new(SweepConfig { order, ..SweepConfig::upwards(Field::SourcePort, count) }, 0x0123_4567_89ab_cdef)
}

fn counts(sweep: &Sweep, frames: u64) -> Vec<u64> {
    let mut counts = vec![0; sweep.config.count as usize];
    (0..frames).for_each(|index| counts[sweep.choice(index) as usize] += 1);
    counts
}

#[test]
fn increments_and_decrements_wrap_around() {
    let upwards = sweep(Order::Increment, 3);
    assert_eq!([0, 1, 2, 3, 4].map(|index| upwards.choice(index)), [0, 1, 2, 0, 1]);
    let config = SweepConfig { step: 10, every: 2, ..SweepConfig::upwards(Field::SourceIp, 3) };
    let slow = Sweep::new(SweepConfig { order: Order::Decrement, ..config }, 1);
    let values = [0, 1, 2, 3, 4, 5, 6].map(|index| slow.distance(slow.choice(index)) as i64);
    assert_eq!(values, [0, 0, -10, -10, -20, -20, 0]);
}

#[test]
fn random_values_are_equally_likely() {
    let random = sweep(Order::Random, 100);
    let excess = chi_square_excess(&counts(&random, 200_000), &[2_000.0; 100]);
    assert!(excess.abs() < 4.0, "{excess}");
}

#[test]
fn zipf_values_follow_zipfs_law() {
    for (skew, count) in [(0u64, 50u64), (500_000, 91), (1_000_000, 1_000), (2_000_000, 40)] {
        let zipf = sweep(Order::Zipf { skew: Decimal(skew) }, count);
        let weights: Vec<f64> = (1..=count).map(|k| (k as f64).powf(-(skew as f64) / 1e6)).collect();
        let sum: f64 = weights.iter().sum();
        let expected: Vec<f64> = weights.iter().map(|weight| weight / sum * 1e6).collect();
        let excess = chi_square_excess(&counts(&zipf, 1_000_000), &expected);
        assert!(excess.abs() < 4.0, "skew {skew}: {excess}");
        // The test is sharp: a skew that is 2 % off is detected.
        if skew > 0 {
            let weights: Vec<f64> =
                (1..=count).map(|k| (k as f64).powf(-(skew as f64) * 1.02 / 1e6)).collect();
            let sum: f64 = weights.iter().sum();
            let wrong: Vec<f64> = weights.iter().map(|weight| weight / sum * 1e6).collect();
            assert!(chi_square_excess(&counts(&zipf, 1_000_000), &wrong) > 4.0, "skew {skew}");
        }
    }
}

#[test]
fn choices_match_golden_values() {
    let choices = |sweep: Sweep| [0, 1, 2, 3, 4, 5, 6, 7].map(|index| sweep.choice(index));
    assert_eq!(choices(sweep(Order::Random, 1000)), RANDOM);
    assert_eq!(choices(sweep(Order::Zipf { skew: Decimal::ONE }, 1000)), ZIPF);
}

/// Computed in Python from the description at the top of the module.
const RANDOM: [u64; 8] = [698, 282, 25, 158, 338, 70, 157, 830];
const ZIPF: [u64; 8] = [7, 0, 25, 158, 0, 69, 0, 18];

#[test]
fn sweep_that_exceeds_its_field_is_refused() {
    let upwards = |field, count, step| SweepConfig { step, ..SweepConfig::upwards(field, count) };
    for (config, part) in [
        (upwards(Field::SourcePort, 0, 1), "count is 0"),
        (upwards(Field::SourcePort, 5, 0), "step is 0"),
        (upwards(Field::SourcePort, 65_537, 1), "65536 values"),
        (upwards(Field::DestinationPort, 2, 65_536), "65536 values"),
        (upwards(Field::SourceIp, u64::MAX, u64::MAX), "4294967296 values"),
        (SweepConfig { every: 0, ..upwards(Field::SourceMac, 2, 1) }, "every is 0"),
        (
            SweepConfig { order: Order::Zipf { skew: Decimal(10_000_001) }, ..upwards(Field::Vlan, 2, 1) },
            "skew",
        ),
        (
            SweepConfig {
                order: Order::Zipf { skew: Decimal::ONE },
                ..upwards(Field::SourceMac, 1 << 21, 1)
            },
            "1048576",
        ),
    ] {
        let problem = config.validate(false).unwrap_err();
        assert!(problem.contains(part), "{problem}");
    }
    assert_eq!(upwards(Field::SourcePort, 65_536, 1).validate(false), Ok(()));
    assert_eq!(upwards(Field::SourceIp, 1 << 32, 1).validate(false), Ok(()));
}
