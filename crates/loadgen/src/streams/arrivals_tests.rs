use super::*;
use crate::rate::{Pacing, Rate};
use crate::streams::clock::{Clock, RateProfile};
use crate::testdist::{ks_critical, ks_distance};
use doorbell_wire::LinkConfig;

const SAMPLES: u64 = 200_000;
const KEY: u64 = 0x0123_4567_89ab_cdef;

fn gaps(spacing: Spacing) -> Vec<f64> {
    (0..SAMPLES).map(|n| spacing.gap(hash(n ^ KEY)) as f64 / ONE as f64).collect()
}

/// The normal distribution function, by Abramowitz and Stegun 7.1.26; error below 1.5e-7.
fn normal_cdf(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let poly = [0.254_829_592, -0.284_496_736, 1.421_413_741, -1.453_152_027, 1.061_405_429];
    let sum = poly.iter().rev().fold(0.0, |sum, c| (sum + c) * t);
    let erf = 1.0 - sum * (-x * x).exp();
    if z < 0.0 { (1.0 - erf) / 2.0 } else { (1.0 + erf) / 2.0 }
}

type Cdf = Box<dyn Fn(f64) -> f64>;

/// Each spacing with the closed form of its distribution.
fn closed_forms() -> Vec<(Spacing, Cdf)> {
    let (half, sigma, shape) = (Decimal(500_000), Decimal(1_200_000), Decimal(2_500_000));
    vec![
        (Spacing::Poisson, Box::new(|x: f64| 1.0 - (-x).exp())),
        (Spacing::Uniform { spread: half }, Box::new(|x: f64| (x - 0.5).clamp(0.0, 1.0))),
        (Spacing::Uniform { spread: Decimal::ONE }, Box::new(|x: f64| (x / 2.0).clamp(0.0, 1.0))),
        (Spacing::Lognormal { sigma }, Box::new(|x: f64| normal_cdf((x.ln() + 0.72) / 1.2))),
        (Spacing::Pareto { shape }, Box::new(|x: f64| 1.0 - (0.6 / x).min(1.0).powf(2.5))),
    ]
}

#[test]
fn gaps_match_the_closed_forms_of_their_distributions() {
    for (spacing, cdf) in closed_forms() {
        let distance = ks_distance(&mut gaps(spacing), &cdf);
        assert!(distance < ks_critical(SAMPLES), "{spacing:?}: {distance}");
        // The test is sharp: a distribution scaled by 2 % is rejected.
        let wrong = ks_distance(&mut gaps(spacing), &|x: f64| cdf(x * 0.98));
        assert!(wrong > ks_critical(SAMPLES), "{spacing:?}: {wrong}");
    }
}

#[test]
fn every_spacing_has_mean_one() {
    for (spacing, deviation) in [
        (Spacing::Constant, 0.0),
        (Spacing::Poisson, 1.0),
        (Spacing::Uniform { spread: Decimal::ONE }, 1.0 / 3f64.sqrt()),
        (Spacing::Lognormal { sigma: Decimal(1_000_000) }, (1f64.exp() - 1.0).sqrt()),
        (Spacing::Pareto { shape: Decimal(3_000_000) }, 1.0 / 3f64.sqrt()),
    ] {
        let gaps = gaps(spacing);
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1.0).abs() <= 4.0 * deviation / (SAMPLES as f64).sqrt(), "{spacing:?}: {mean}");
        let variance = gaps.iter().map(|gap| (gap - 1.0) * (gap - 1.0)).sum::<f64>() / gaps.len() as f64;
        // The variance of a heavy-tailed Pareto sample does not converge.
        if !matches!(spacing, Spacing::Pareto { .. }) && deviation < 1.1 {
            assert!((variance.sqrt() - deviation).abs() < 0.02, "{spacing:?}: {}", variance.sqrt());
        }
    }
}

#[test]
fn consecutive_gaps_are_uncorrelated() {
    let gaps = gaps(Spacing::Poisson);
    let product: f64 = gaps.windows(2).map(|pair| (pair[0] - 1.0) * (pair[1] - 1.0)).sum();
    assert!((product / SAMPLES as f64).abs() < 4.0 / (SAMPLES as f64).sqrt(), "{product}");
}

#[test]
fn gaps_match_golden_values() {
    let first = |spacing: Spacing| [1u64, 2, u64::MAX].map(|n| spacing.gap(hash(n)));
    let golden = [
        (Spacing::Constant, [1099511627776; 3]),
        (Spacing::Poisson, GOLDEN[0]),
        (Spacing::Uniform { spread: Decimal(250_000) }, GOLDEN[1]),
        (Spacing::Lognormal { sigma: Decimal(1_500_000) }, GOLDEN[2]),
        (Spacing::Pareto { shape: Decimal(1_200_000) }, GOLDEN[3]),
    ];
    for (spacing, gaps) in golden {
        assert_eq!(first(spacing), gaps, "{spacing:?}");
    }
}

/// Computed in Python by the formulas of each distribution.
const GOLDEN: [[u128; 3]; 4] = [
    [1192108760667, 167524961604, 382310754034],
    [1010542775944, 1296696101789, 1212928425593],
    [461418333082, 350259669908, 270836496604],
    [452313602920, 208060964861, 244843668855],
];

#[test]
fn every_random_number_yields_a_finite_gap() {
    for (spacing, _) in closed_forms() {
        for random in [0, 1, (1 << 11) - 1, 1 << 11, u64::MAX - 1, u64::MAX] {
            let gap = spacing.gap(random);
            assert!(gap < ONE << 64, "{spacing:?}: {gap}");
        }
    }
}

#[test]
fn jittered_frames_are_uniform_within_their_slots() {
    let link = LinkConfig::default();
    let pacing = Pacing::new(Ps::ZERO, Rate::Frames(1_000_000), 60, &link);
    let profile = RateProfile { begin: pacing, ramp: None, stamps: None };
    let mut clock = Clock::new(profile, Arrivals::Jitter, KEY, None, None, link.rate.0);
    clock.begin(Ps::ZERO);
    let mut places = Vec::new();
    for number in 0..100_000 {
        let place = clock.state.due.0 - number * 1_000_000;
        assert!(place < 1_000_000, "frame {number} is due {} ps after the start of its slot", place);
        places.push(place as f64 / 1e6);
        clock.advance(84);
    }
    // Uniform: mean 1/2, variance 1/12; and consecutive offsets are uncorrelated.
    let mean = places.iter().sum::<f64>() / 1e5;
    let of = |pairs: &mut dyn Iterator<Item = (f64, f64)>| {
        pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / 1e5
    };
    let variance = of(&mut places.iter().map(|place| (*place, *place)));
    let neighbours = of(&mut places.iter().copied().zip(places[1..].iter().copied()));
    assert!((mean - 0.5).abs() < 0.005 && (variance - 1.0 / 12.0).abs() < 0.001, "{mean} {variance}");
    assert!(neighbours.abs() < 0.001, "{neighbours}");
}
