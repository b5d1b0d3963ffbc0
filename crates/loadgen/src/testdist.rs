//! Test statistics: goodness of fit of samples to a distribution.

/// The maximum distance between the samples' distribution and a closed form (Kolmogorov-Smirnov).
pub(crate) fn ks_distance(samples: &mut [f64], cdf: &dyn Fn(f64) -> f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    let count = samples.len() as f64;
    let distance = |(rank, sample): (usize, &f64)| {
        let expected = cdf(*sample);
        (expected - rank as f64 / count).max((rank + 1) as f64 / count - expected)
    };
    samples.iter().enumerate().map(distance).fold(0.0, f64::max)
}

/// Critical distance, exceeded with probability 1/10000 if the distribution is correct.
pub(crate) fn ks_critical(samples: u64) -> f64 {
    (-0.5 * (0.000_05f64).ln()).sqrt() / (samples as f64).sqrt()
}

/// Chi-square of the counts minus its mean, in standard deviations.
pub(crate) fn chi_square_excess(counts: &[u64], expected: &[f64]) -> f64 {
    let terms = counts.iter().zip(expected).map(|(count, mean)| (*count as f64 - mean).powi(2) / mean);
    let freedom = (counts.len() - 1) as f64;
    (terms.sum::<f64>() - freedom) / (2.0 * freedom).sqrt()
}
