//! Round trips: a distribution's figures, the parts of a measurement, and how far both can be trusted.

use serde::{Deserialize, Serialize};

use crate::number::{or_nan, unknown};

/// A distribution's figures for a report, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// How many latencies.
    #[serde(default)]
    pub frames: u64,
    /// The mean.
    pub mean: f64,
    /// The standard deviation (of these frames, not an estimate for more).
    #[serde(deserialize_with = "or_nan")]
    pub stddev: f64,
    /// The smallest.
    pub min: f64,
    /// The median. Percentiles are nearest rank: the smallest recorded value that at least so many are at
    /// or below, to within 0.1 %, never below the true one and never above the largest.
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

/// A part of a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchSummary {
    /// When it begins, in nanoseconds from the window's beginning.
    pub begin_ns: f64,
    /// Frames whose first bit left in it.
    pub offered: u64,
    /// Of these, those that came back unharmed, whenever they did.
    pub delivered: u64,
    /// Their mean round trip in nanoseconds.
    pub latency_ns_mean: Option<f64>,
    /// 99 % of them took at most so long.
    pub latency_ns_p99: Option<f64>,
}

/// Half the widths of 95 % confidence intervals. By batch means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Confidence {
    /// From so many batches.
    pub batches: u64,
    /// Each so long.
    #[serde(default)]
    pub batch_ns: f64,
    /// Whether neighbouring batches still depend on each other, so that the intervals are too narrow.
    pub correlated: bool,
    /// Of the delivered frames a second, in millions.
    pub delivered_mpps: f64,
    /// Of the drop rate.
    pub drop_rate: f64,
    /// Of the round trips' mean and percentiles, in nanoseconds. Percentiles that batches are too short for are `null`.
    pub latency_ns: Option<LatencyConfidence>,
}

/// See [`Confidence`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyConfidence {
    /// Of the mean.
    pub mean: f64,
    /// Of the median.
    pub p50: Option<f64>,
    /// Of the 90th percentile.
    #[serde(default)]
    pub p90: Option<f64>,
    /// Of the 99th.
    pub p99: Option<f64>,
    /// Of the 99.9th.
    #[serde(default)]
    pub p99_9: Option<f64>,
}
