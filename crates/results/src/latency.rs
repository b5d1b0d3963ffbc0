//! Round trips: statistics of a distribution, parts of a measurement, and confidence intervals.

use serde::{Deserialize, Serialize};

use crate::number::{or_nan, unknown};

/// Statistics of a distribution, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Number of latencies.
    #[serde(default)]
    pub frames: u64,
    /// The mean.
    pub mean: f64,
    /// The standard deviation of these frames (population, not sample).
    #[serde(deserialize_with = "or_nan")]
    pub stddev: f64,
    /// The smallest.
    pub min: f64,
    /// The median. Percentiles are nearest rank: the smallest recorded value such that at least the given
    /// share of the values is at or below it. They are accurate to 0.1 %, never below the true value and
    /// never above the largest.
    pub p50: f64,
    /// 90 % are at or below.
    pub p90: f64,
    /// 99 % are at or below.
    pub p99: f64,
    /// 99.9 % are at or below.
    pub p99_9: f64,
    /// 99.99 % are at or below.
    #[serde(default = "unknown", deserialize_with = "or_nan")]
    pub p99_99: f64,
    /// The largest.
    pub max: f64,
}

/// A part of a measurement window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchSummary {
    /// Start of the part, in nanoseconds from the start of the window.
    pub begin_ns: f64,
    /// Frames whose first bit was sent in the part.
    pub offered: u64,
    /// Offered frames of the part that came back intact, at any time.
    pub delivered: u64,
    /// Their mean round trip in nanoseconds.
    pub latency_ns_mean: Option<f64>,
    /// Their 99th percentile in nanoseconds.
    pub latency_ns_p99: Option<f64>,
}

/// Half-widths of 95 % confidence intervals, by the method of batch means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Confidence {
    /// Number of batches.
    pub batches: u64,
    /// Length of each batch in nanoseconds.
    #[serde(default)]
    pub batch_ns: f64,
    /// Whether consecutive batches are still correlated, so that the intervals are too narrow.
    pub correlated: bool,
    /// For the delivered frames per second, in millions.
    pub delivered_mpps: f64,
    /// For the drop rate.
    pub drop_rate: f64,
    /// For the round trips' mean and percentiles, in nanoseconds. Percentiles for which batches are too short
    /// are `null`.
    pub latency_ns: Option<LatencyConfidence>,
}

/// See [`Confidence`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyConfidence {
    /// For the mean.
    pub mean: f64,
    /// For the median.
    pub p50: Option<f64>,
    /// For the 90th percentile.
    #[serde(default)]
    pub p90: Option<f64>,
    /// For the 99th percentile.
    pub p99: Option<f64>,
    /// For the 99.9th percentile.
    #[serde(default)]
    pub p99_9: Option<f64>,
}
