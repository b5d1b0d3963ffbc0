//! Trend test of a series of equally spaced means, such as the mean latency of each batch of a window.
//!
//! A straight line is fitted by least squares. Its slope is compared with its standard error by Student's t.
//! Successive means of a queue depend on each other, so the error is that of residuals which follow a
//! first-order autoregression (von Storch and Zwiers, *Statistical Analysis in Climate Research*, 6.6.8): its
//! correlation is estimated from the residuals, corrected for the bias of short series (Kendall 1954), and
//! the number of independent means is `n (1 - r) / (1 + r)`.
//!
//! If a queue fills along a curve, the residuals are correlated over the whole window, and the slope is not
//! significant. Therefore the difference between the first and the last quarter is also compared with the
//! differences between successive means. These are small if a series moves smoothly, and large if it only
//! scatters.

use doorbell_loadgen::batches::student;

/// Minimum number of means for a test.
pub(super) const MEANS_MIN: usize = 16;
/// Normal quantile above which a slope is significant. Three series are tested per window, and the
/// correlation is only estimated; the tests below check the false alarm rate.
const QUANTILE: f64 = 4.2;
/// Difference between quarters that is significant, in standard deviations of the difference between
/// successive means.
const QUARTERS: f64 = 6.0;
/// With fewer independent means, the deviation is estimated from the median difference, which a single step
/// does not change.
const INDEPENDENT_MIN: f64 = 3.0;
/// Ratio of standard deviation to median absolute value, for normal variates.
const PER_MEDIAN: f64 = 1.4826;
/// Squared residuals below this share of the squared level are rounding errors.
const ROUNDING: f64 = 1e-18;

/// Trend of a series over the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Trend {
    /// No trend, or a change within the tolerance.
    Steady,
    /// A rise or fall from one level to another.
    Line { from: f64, to: f64 },
    /// The first and the last quarter differ, but the quarters do not rise or fall throughout.
    Slow { from: f64, to: f64 },
    /// The series is too short.
    Unknown,
}

/// Tests a series. Changes up to `tolerated`, a function of the last level, are ignored.
pub(super) fn trend(means: &[f64], tolerated: impl Fn(f64) -> f64) -> Trend {
    if means.len() < MEANS_MIN {
        return Trend::Unknown;
    }
    let n = means.len() as f64;
    let average = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let mean = average(means);
    let place = |index: usize| index as f64 - (n - 1.0) / 2.0;
    let squares = n * (n * n - 1.0) / 12.0;
    let slope = means.iter().enumerate().map(|(index, value)| place(index) * value).sum::<f64>() / squares;
    let line = |index: usize| mean + slope * place(index);
    let residuals: Vec<f64> = means.iter().enumerate().map(|(index, value)| value - line(index)).collect();
    let rest: f64 = residuals.iter().map(|residual| residual * residual).sum();
    let (from, to) = (line(0), line(means.len() - 1));
    let tolerated = tolerated(average(&means[means.len() * 3 / 4..]));
    let changes = |from: f64, to: f64| (to - from).abs() > tolerated;
    if rest <= ROUNDING * mean * mean * n {
        return if changes(from, to) { Trend::Line { from, to } } else { Trend::Steady };
    }
    let correlation = correlation(&residuals, rest);
    let independent = n * (1.0 - correlation) / (1.0 + correlation);
    let quarters: Vec<f64> = means.rchunks(means.len() / 4).take(4).map(average).collect();
    let (first, last) = (quarters[3], quarters[0]);
    let scatter = successive(means, independent < INDEPENDENT_MIN);
    if changes(first, last) && (last - first).abs() > QUARTERS * scatter {
        let monotone = quarters.is_sorted() || quarters.is_sorted_by(|a, b| a >= b);
        return if monotone { Trend::Line { from, to } } else { Trend::Slow { from: first, to: last } };
    }
    let error = (rest / (n - 2.0) / squares * (1.0 + correlation) / (1.0 - correlation)).sqrt();
    let significant = slope.abs() > student(QUANTILE, (independent - 2.0).max(3.0)) * error;
    if significant && changes(from, to) { Trend::Line { from, to } } else { Trend::Steady }
}

/// Standard deviation of the difference between successive means, estimated from the median with `by_median`.
fn successive(means: &[f64], by_median: bool) -> f64 {
    let mut differences: Vec<f64> = means.windows(2).map(|two| (two[1] - two[0]).abs()).collect();
    if !by_median {
        let squares: f64 = differences.iter().map(|difference| difference * difference).sum();
        return (squares / differences.len() as f64).sqrt();
    }
    differences.sort_by(f64::total_cmp);
    PER_MEDIAN * differences[differences.len() / 2]
}

/// Correlation of successive residuals of a fitted line, corrected for the bias of a short series: on average
/// the plain estimate is too low by `(2 + 4 r) / n`.
fn correlation(residuals: &[f64], squares: f64) -> f64 {
    let n = residuals.len() as f64;
    let products: f64 = residuals.windows(2).map(|two| two[0] * two[1]).sum();
    ((products / squares + 2.0 / n) / (1.0 - 4.0 / n)).clamp(0.0, 0.99)
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_sim::rng::Rng;

    /// Half a percent of the last level.
    fn tolerated(level: f64) -> f64 {
        0.005 * level
    }

    /// An approximately normal variate: the sum of twelve uniform ones.
    fn normal(rng: &mut Rng) -> f64 {
        (0..12).map(|_| rng.below(1 << 30) as f64 / f64::from(1 << 30)).sum::<f64>() - 6.0
    }

    /// A level of 100 with first-order autoregressive noise; `keeps` is its correlation.
    fn steady(rng: &mut Rng, n: usize, keeps: f64, noise: f64) -> Vec<f64> {
        let mut value = 0.0;
        let mut next = || {
            value = keeps * value + noise * normal(rng);
            100.0 + value
        };
        let all: Vec<f64> = (0..100 + n).map(|_| next()).collect();
        all[100..].to_vec()
    }

    #[test]
    fn false_alarm_rate_is_at_most_one_percent() {
        let mut rng = Rng::stream(1, "trend");
        for (n, keeps) in
            [(32, 0.0), (32, 0.3), (32, 0.5), (48, 0.5), (64, 0.0), (32, 0.7), (64, 0.5), (64, 0.7)]
        {
            for noise in [0.3, 2.0] {
                let windows = 2000;
                let alarms = (0..windows)
                    .filter(|_| {
                        // A window has three series.
                        (0..3).any(|_| trend(&steady(&mut rng, n, keeps, noise), tolerated) != Trend::Steady)
                    })
                    .count();
                assert!(alarms <= windows / 100, "{alarms} of {windows}: {n} means, {keeps}, noise {noise}");
            }
        }
    }

    #[test]
    fn a_rise_of_one_percent_of_the_final_level_per_window_is_found() {
        let mut rng = Rng::stream(2, "trend");
        for (n, noise) in [(32, 0.0), (32, 0.1), (64, 0.0), (64, 0.2)] {
            let found = (0..500).filter(|_| {
                let ramp = |(index, value): (usize, f64)| value - 1.0 + index as f64 / (n - 1) as f64;
                let means: Vec<f64> =
                    steady(&mut rng, n, 0.0, noise).into_iter().enumerate().map(ramp).collect();
                matches!(trend(&means, tolerated), Trend::Line { from, to } if from < to)
            });
            let found = found.count();
            assert!(found >= 490, "{found} of 500: {n} means, noise {noise}");
        }
    }

    #[test]
    fn filling_queues_are_detected_for_several_shapes() {
        let mut rng = Rng::stream(3, "trend");
        let n = 40;
        let shapes: [fn(f64) -> f64; 5] = [
            |t| 7.0 + 29.0 * t,
            |t| 36.0 - 29.0 * t,
            |t| 10.0 + 100.0 * (1.0 - (-4.0 * t).exp()),
            |t| if t < 0.3 { 10.0 } else { 100.0 },
            |t| 10.0 + 60.0 * t.sqrt(),
        ];
        for (number, shape) in shapes.iter().enumerate() {
            let noise = steady(&mut rng, n, 0.5, 0.3);
            let at = |(index, value): (usize, f64)| shape(index as f64 / n as f64) + value - 100.0;
            let means: Vec<f64> = noise.into_iter().enumerate().map(at).collect();
            let found = trend(&means, tolerated);
            assert!(matches!(found, Trend::Line { .. } | Trend::Slow { .. }), "shape {number}: {found:?}");
        }
    }

    #[test]
    fn short_series_is_unknown_and_constant_level_is_steady() {
        assert_eq!(trend(&[1.0; MEANS_MIN - 1], tolerated), Trend::Unknown);
        assert_eq!(trend(&[2.8; 40], tolerated), Trend::Steady);
        assert_eq!(trend(&[0.0; 40], tolerated), Trend::Steady);
        let little: Vec<f64> = (0..40).map(|index| 100.0 + f64::from(index) * 0.01).collect();
        assert_eq!(trend(&little, tolerated), Trend::Steady, "0.39 % per window is tolerated");
        let more: Vec<f64> = (0..40).map(|index| 100.0 + f64::from(index) * 0.02).collect();
        assert!(matches!(trend(&more, tolerated), Trend::Line { .. }));
    }
}
