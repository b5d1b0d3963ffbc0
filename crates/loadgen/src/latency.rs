//! A latency distribution: exact count, extremes, mean and standard deviation, and percentiles from a
//! histogram whose bucket width is at most 1/1024 of the value.

pub use doorbell_results::LatencySummary;
use doorbell_sim::Ps;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize, Serializer};

/// Recorded latencies.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "LatencyState")]
pub struct Latency {
    histogram: Histogram<u64>,
    count: u64,
    sum: u128,
    sum_of_squares: u128,
    min: Ps,
    max: Ps,
}

/// Saved form of a [`Latency`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LatencyState {
    /// A value in each non-empty bucket, and its count.
    buckets: Vec<(u64, u64)>,
    sum: u128,
    sum_of_squares: u128,
    min: Ps,
    max: Ps,
}

/// Accumulator of round trips: the full distribution or only the mean.
pub(crate) trait TripAccumulator: Clone + Default {
    fn record(&mut self, latency: Ps);
    fn merge(&mut self, other: &Self);
    fn count(&self) -> u64;
    /// The mean in nanoseconds; none if empty.
    fn mean_ns(&self) -> Option<f64>;
    /// As [`Latency::percentile`], if the distribution is kept.
    fn percentile(&self, numerator: u64, denominator: u64) -> Option<Ps>;
    /// Whether a restored accumulator is possible.
    fn is_consistent(&self) -> bool;
}

impl TripAccumulator for Latency {
    fn record(&mut self, latency: Ps) {
        self.record_many(latency, 1);
    }

    fn merge(&mut self, other: &Latency) {
        Latency::merge(self, other);
    }

    fn count(&self) -> u64 {
        self.count
    }

    fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.mean_and_stddev().0 / 1e3)
    }

    fn percentile(&self, numerator: u64, denominator: u64) -> Option<Ps> {
        Latency::percentile(self, numerator, denominator)
    }

    fn is_consistent(&self) -> bool {
        self.count == 0 || self.min <= self.max
    }
}

/// Accumulates only the mean of round trips; a distribution takes about 100 KB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mean {
    count: u64,
    sum: u128,
}

impl TripAccumulator for Mean {
    fn record(&mut self, latency: Ps) {
        self.count += 1;
        self.sum += u128::from(latency.0);
    }

    fn merge(&mut self, other: &Mean) {
        self.count += other.count;
        self.sum += other.sum;
    }

    fn count(&self) -> u64 {
        self.count
    }

    fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64 / 1e3)
    }

    fn percentile(&self, _: u64, _: u64) -> Option<Ps> {
        None
    }

    fn is_consistent(&self) -> bool {
        // Each round trip is less than 2^64 picoseconds.
        self.sum >> 64 <= u128::from(self.count)
    }
}

impl Default for Latency {
    fn default() -> Self {
        // Three digits give buckets of at most 1/1024; the histogram grows with the recorded values.
        let histogram = Histogram::new(3).expect("three digits are allowed");
        Latency { histogram, count: 0, sum: 0, sum_of_squares: 0, min: Ps::MAX, max: Ps::ZERO }
    }
}

impl Latency {
    /// Records one latency.
    pub fn record(&mut self, latency: Ps) {
        self.record_many(latency, 1);
    }

    /// Records `times` equal latencies.
    pub fn record_many(&mut self, latency: Ps, times: u64) {
        if times == 0 {
            return;
        }
        self.histogram.record_n(latency.0, times).expect("the histogram grows to any value");
        self.count += times;
        let (value, times) = (u128::from(latency.0), u128::from(times));
        self.sum = self.sum.wrapping_add(value * times);
        self.sum_of_squares = self.sum_of_squares.wrapping_add((value * value).wrapping_mul(times));
        self.min = self.min.min(latency);
        self.max = self.max.max(latency);
    }

    /// Adds another distribution.
    pub fn merge(&mut self, other: &Latency) {
        self.histogram.add(&other.histogram).expect("the histogram grows to any value");
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.sum_of_squares = self.sum_of_squares.wrapping_add(other.sum_of_squares);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Number of recorded latencies.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The smallest and the largest latency.
    pub fn extremes(&self) -> Option<(Ps, Ps)> {
        (self.count > 0).then_some((self.min, self.max))
    }

    /// The histogram in picoseconds: each bucket's largest value, and its count, in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = (Ps, u64)> {
        self.histogram.iter_recorded().map(|step| (Ps(step.value_iterated_to()), step.count_at_value()))
    }

    /// Values, cumulative shares and cumulative counts, at shares that approach one.
    pub(crate) fn quantiles(&self, ticks_per_halving: u32) -> impl Iterator<Item = (Ps, f64, u64)> {
        let mut counted = 0;
        self.histogram.iter_quantiles(ticks_per_halving).map(move |step| {
            counted += step.count_since_last_iteration();
            let value = Ps(step.value_iterated_to()).clamp(self.min, self.max);
            (value, step.quantile_iterated_to(), counted)
        })
    }

    /// Histogram layout: number of doubling ranges, and sub-buckets per range.
    pub(crate) fn layout(&self) -> (u8, u32) {
        (self.histogram.buckets(), 2048)
    }

    /// The percentile `numerator / denominator` by nearest rank: the smallest value that at least this share
    /// of all samples does not exceed. The result is the upper end of the value's bucket, clamped to the
    /// exact extremes.
    pub fn percentile(&self, numerator: u64, denominator: u64) -> Option<Ps> {
        let rank = (u128::from(self.count) * u128::from(numerator)).div_ceil(u128::from(denominator)).max(1);
        let mut counted = 0u128;
        for (value, count) in self.buckets() {
            counted += u128::from(count);
            if counted >= rank {
                return Some(value.clamp(self.min, self.max));
            }
        }
        None
    }

    /// Mean and standard deviation in picoseconds. Sums are exact; only the last steps round.
    fn mean_and_stddev(&self) -> (f64, f64) {
        let count = u128::from(self.count);
        let (mean, rest) = (self.sum / count, self.sum % count);
        // Σ(x − m)² with the integer part m of the mean, for which Σx = m·n + r. The terms may exceed 2^128,
        // but the result does not, so it is correct modulo 2^128.
        let squares = mean.wrapping_mul(mean).wrapping_mul(count).wrapping_add(self.sum_of_squares);
        let squares = squares.wrapping_sub(mean.wrapping_mul(self.sum).wrapping_mul(2));
        let offset = rest as f64 / count as f64;
        let variance = squares as f64 / count as f64 - offset * offset;
        (mean as f64 + offset, variance.max(0.0).sqrt())
    }

    /// The results for a report; `None` if nothing was recorded.
    pub fn summary(&self) -> Option<LatencySummary> {
        let (min, max) = self.extremes()?;
        let (mean, stddev) = self.mean_and_stddev();
        let percentile = |numerator| self.percentile(numerator, 10_000).map(Ps::as_ns_f64);
        Some(LatencySummary {
            frames: self.count,
            mean: mean / 1e3,
            stddev: stddev / 1e3,
            min: min.as_ns_f64(),
            p50: percentile(5_000)?,
            p90: percentile(9_000)?,
            p99: percentile(9_900)?,
            p99_9: percentile(9_990)?,
            p99_99: percentile(9_999)?,
            max: max.as_ns_f64(),
        })
    }
}

impl Serialize for Latency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Latency { sum, sum_of_squares, min, max, .. } = *self;
        let buckets = self.buckets().map(|(value, count)| (value.0, count)).collect();
        LatencyState { buckets, sum, sum_of_squares, min, max }.serialize(serializer)
    }
}

impl TryFrom<LatencyState> for Latency {
    type Error = &'static str;

    fn try_from(state: LatencyState) -> Result<Latency, &'static str> {
        let LatencyState { buckets, sum, sum_of_squares, min, max } = state;
        let mut latency = Latency { sum, sum_of_squares, min, max, ..Latency::default() };
        for (value, count) in buckets {
            let is_recorded = latency.histogram.record_n(value, count).is_ok();
            let total = latency.count.checked_add(count).filter(|_| is_recorded);
            latency.count = total.ok_or("a histogram is inconsistent")?;
        }
        Ok(latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn recorded(samples: &[u64]) -> Latency {
        let mut latency = Latency::default();
        samples.iter().for_each(|sample| latency.record(Ps(*sample)));
        latency
    }

    /// Nearest rank by definition, on the sorted samples.
    fn naive(samples: &[u64], per_mille: usize) -> u64 {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable();
        sorted[(samples.len() * per_mille).div_ceil(1000).max(1) - 1]
    }

    #[test]
    fn percentiles_are_nearest_rank() {
        let latency = recorded(&[15, 20, 35, 40, 50]);
        let at = |percent| latency.percentile(percent, 100).unwrap().0;
        assert_eq!([5, 30, 40, 50, 100].map(at), [15, 20, 20, 35, 50]);
        assert_eq!(Latency::default().summary(), None);
    }

    #[test]
    fn record_many_equals_repeated_record() {
        let mut at_once = recorded(&[7]);
        at_once.record_many(Ps(3), 4);
        at_once.record_many(Ps(9), 0);
        assert_eq!(at_once, recorded(&[3, 3, 7, 3, 3]));
    }

    #[test]
    fn mean_and_deviation_are_exact_beyond_float_precision() {
        // A deviation of 1 ps around a second: the squares agree in their first 24 digits.
        let second = Ps::PER_SECOND;
        let summary = recorded(&[second - 1, second + 1, second - 1, second + 1]).summary().unwrap();
        assert_eq!((summary.mean, summary.stddev), (1e9, 0.001));
        let summary = recorded(&[2_000, 4_000, 4_000, 4_000, 5_000, 5_000, 7_000, 9_000]).summary().unwrap();
        assert_eq!((summary.mean, summary.stddev, summary.min, summary.max), (5.0, 2.0, 2.0, 9.0));
    }

    #[test]
    fn invalid_state_is_refused() {
        let state = LatencyState {
            buckets: vec![(5, 1), (6, 1)],
            sum: 11,
            sum_of_squares: 61,
            min: Ps(5),
            max: Ps(6),
        };
        assert_eq!(Latency::try_from(state.clone()), Ok(recorded(&[5, 6])));
        let twice = LatencyState { buckets: vec![(5, u64::MAX), (6, 1)], ..state.clone() };
        assert!(Latency::try_from(twice).is_err());
        let crossed = Latency::try_from(LatencyState { min: Ps(7), ..state }).unwrap();
        assert!(!crossed.is_consistent());
    }

    proptest! {
        #[test]
        fn small_values_have_exact_percentiles(samples in prop::collection::vec(0u64..2048, 1..400)) {
            let latency = recorded(&samples);
            for per_mille in [1usize, 10, 250, 500, 900, 990, 999, 1000] {
                let found = latency.percentile(per_mille as u64, 1000).unwrap().0;
                prop_assert_eq!(found, naive(&samples, per_mille));
            }
        }

        #[test]
        fn large_value_percentiles_are_within_one_thousandth(
            samples in prop::collection::vec((0u32..50, any::<u64>()), 1..400),
        ) {
            let samples: Vec<u64> = samples.into_iter().map(|(bits, x)| x & ((1 << bits) - 1)).collect();
            let latency = recorded(&samples);
            for per_mille in [1usize, 10, 250, 500, 900, 990, 999, 1000] {
                let (exact, found) = (naive(&samples, per_mille), latency.percentile(per_mille as u64, 1000).unwrap().0);
                prop_assert!(exact <= found && found - exact <= exact / 1024, "{} for {}", found, exact);
            }
            prop_assert_eq!(latency.extremes().unwrap().1.0, naive(&samples, 1000));
        }

        #[test]
        fn mean_and_deviation_match_their_definition(samples in prop::collection::vec(0u64..1 << 40, 1..200)) {
            let summary = recorded(&samples).summary().unwrap();
            let n = samples.len() as f64;
            let mean = samples.iter().map(|s| *s as f64).sum::<f64>() / n;
            let stddev = (samples.iter().map(|s| (*s as f64 - mean).powi(2)).sum::<f64>() / n).sqrt();
            prop_assert!((summary.mean * 1e3 - mean).abs() <= 1e-9 * mean + 1e-3);
            prop_assert!((summary.stddev * 1e3 - stddev).abs() <= 1e-6 * mean + 1e-3);
        }

        #[test]
        fn merged_and_restored_parts_equal_the_whole(samples in prop::collection::vec(any::<u64>().prop_map(|x| x >> 14), 2..200), cut: prop::sample::Index) {
            let (front, back) = samples.split_at(cut.index(samples.len()));
            let bytes = postcard::to_stdvec(&recorded(front)).unwrap();
            let mut latency: Latency = postcard::from_bytes(&bytes).unwrap();
            latency.merge(&recorded(back));
            prop_assert_eq!(&latency, &recorded(&samples));
            prop_assert_eq!(latency.summary(), recorded(&samples).summary());
        }
    }
}
