//! A window divided into batches of equal length: results of the frames sent in each, for loss and latency
//! over time and for confidence intervals.
//!
//! The length of a window is unknown when it begins. Batches therefore start short; whenever there would be
//! more than [`BATCHES_MAX`], adjacent ones are merged and the batch length doubles. A window of any length
//! thus ends with 32 to 64 whole batches, or fewer if it is very short.
//!
//! *Confidence* uses the method of batch means (Law, *Simulation Modeling and Analysis*, section 9.5.3): if
//! batches are long enough, their means are nearly independent and normal, and Student's t applies. Adjacent
//! batches are merged while their lag-1 correlation is significant and enough batches remain. If it is still
//! significant then, the intervals are marked as too narrow. They express how well the window represents the
//! steady state of this run, not of other seeds.

pub use doorbell_results::{BatchSummary, Confidence, LatencyConfidence};
use doorbell_sim::Ps;
use serde::{Deserialize, Serialize};

use crate::latency::{Latency, Mean, TripAccumulator};

/// Maximum number of batches per window.
pub const BATCHES_MAX: usize = 64;
/// Minimum number of batches for a confidence interval.
const BATCHES_MIN: usize = 10;
/// Initial batch length: a few frames at 100 Gbps.
const FIRST_LENGTH: Ps = Ps(1 << 20);
/// Maximum number of merge steps: two days of simulated time.
const JOINS_MAX: u32 = 32;
/// Minimum number of frames beyond a percentile in each batch for its interval.
const BEYOND_MIN: u64 = 10;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Batch<T> {
    offered: u64,
    delivered: u64,
    /// Round trips of the delivered frames from their due times, if known.
    latency: T,
}

impl<T: TripAccumulator> Batch<T> {
    fn join(&mut self, other: &Batch<T>) {
        self.offered += other.offered;
        self.delivered += other.delivered;
        self.latency.merge(&other.latency);
    }
}

/// A window's batches, by departure time of the frames; `T` accumulates their round trips.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Batches<T = Latency> {
    /// Saved with the window.
    #[serde(skip)]
    begin: Ps,
    length: Ps,
    batches: Vec<Batch<T>>,
}

impl Batches {
    /// All round trips.
    pub fn latency(&self) -> Latency {
        let mut all = Latency::default();
        self.batches.iter().for_each(|batch| all.merge(&batch.latency));
        all
    }
}

impl Batches<Mean> {
    /// Returns the batches merged to the batch length of `other`, the whole window's batches.
    pub fn as_long_as(&self, other: &Batches) -> Batches<Mean> {
        let mut own = self.clone();
        while own.length < other.length {
            own.coarsen();
        }
        own
    }
}

impl<T: TripAccumulator> Batches<T> {
    pub fn new(begin: Ps) -> Batches<T> {
        Batches { begin, length: FIRST_LENGTH, batches: Vec::new() }
    }

    fn at(&mut self, time: Ps) -> &mut Batch<T> {
        // The length is a power of two; a division would dominate the cost.
        let mut index = (time.saturating_sub(self.begin).0 >> self.length.0.ilog2()) as usize;
        while index >= BATCHES_MAX {
            self.coarsen();
            index /= 2;
        }
        if index >= self.batches.len() {
            self.batches.resize_with(index + 1, Batch::default);
        }
        &mut self.batches[index]
    }

    fn coarsen(&mut self) {
        self.length = Ps(self.length.0 << 1);
        self.batches = merged(&self.batches, 2);
    }

    /// Counts a frame that left at `time`.
    pub fn on_sent(&mut self, time: Ps) {
        self.at(time).offered += 1;
    }

    /// Counts the return of a frame that left at `time`.
    pub fn on_returned(&mut self, time: Ps, latency: Option<Ps>) {
        let batch = self.at(time);
        batch.delivered += 1;
        latency.iter().for_each(|latency| batch.latency.record(*latency));
    }

    /// Adds another port's batches of the same window.
    pub fn merge(&mut self, other: &Batches<T>) {
        let mut other = other.clone();
        while self.length < other.length {
            self.coarsen();
        }
        while other.length < self.length {
            other.coarsen();
        }
        if self.batches.len() < other.batches.len() {
            self.batches.resize_with(other.batches.len(), Batch::default);
        }
        self.batches.iter_mut().zip(&other.batches).for_each(|(own, more)| own.join(more));
    }

    /// All batches, including those without frames.
    pub fn summaries(&self) -> Vec<BatchSummary> {
        let summary = |(index, batch): (usize, &Batch<T>)| BatchSummary {
            begin_ns: Ps(self.length.0 * index as u64).as_ns_f64(),
            offered: batch.offered,
            delivered: batch.delivered,
            latency_ns_mean: batch.latency.mean_ns(),
            latency_ns_p99: batch.latency.percentile(99, 100).map(Ps::as_ns_f64),
        };
        self.batches.iter().enumerate().map(summary).collect()
    }

    /// Confidence intervals of a window of length `span`, if there are enough batches.
    pub fn confidence(&self, span: Ps) -> Option<Confidence> {
        let whole = ((span.0 / self.length.0) as usize).min(self.batches.len());
        let mut batches = self.batches[..whole].to_vec();
        let mut length = self.length;
        while batches.len() >= 2 * BATCHES_MIN && are_correlated(&batches) {
            batches = merged(&batches, 2);
            // Drop a last batch that is not full length.
            batches.truncate(whole * self.length.0 as usize / (2 * length.0 as usize));
            length = Ps(2 * length.0);
        }
        if batches.len() < BATCHES_MIN {
            return None;
        }
        let rates = batches.iter().map(|batch| batch.delivered as f64 * 1e6 / length.0 as f64);
        let drops = batches.iter().map(|batch| match batch.offered {
            0 => 0.0,
            // A manipulated checkpoint may have more delivered than offered frames.
            offered => offered.saturating_sub(batch.delivered) as f64 / offered as f64,
        });
        Some(Confidence {
            batches: batches.len() as u64,
            batch_ns: length.as_ns_f64(),
            correlated: are_correlated(&batches),
            delivered_mpps: half_width(rates),
            drop_rate: half_width(drops),
            latency_ns: latency_confidence(&batches),
        })
    }

    /// Continues restored batches of a window that began at `begin` with these counts of offered and delivered
    /// frames. Returns whether they are consistent.
    pub fn resume(&mut self, begin: Ps, counted: (u64, u64)) -> bool {
        self.begin = begin;
        let joins = (self.length.0 / FIRST_LENGTH.0).checked_ilog2().filter(|joins| *joins <= JOINS_MAX);
        let sum = |count: fn(&Batch<T>) -> u64| {
            self.batches.iter().try_fold(0u64, |sum, batch| sum.checked_add(count(batch)))
        };
        let is_possible = |batch: &Batch<T>| {
            batch.delivered <= batch.offered
                && batch.latency.count() <= batch.delivered
                && batch.latency.is_consistent()
        };
        joins.is_some_and(|joins| self.length.0 == FIRST_LENGTH.0 << joins)
            && self.batches.len() <= BATCHES_MAX
            && self.batches.iter().all(is_possible)
            && sum(|batch| batch.offered) == Some(counted.0)
            && sum(|batch| batch.delivered) == Some(counted.1)
    }
}

fn merged<T: TripAccumulator>(batches: &[Batch<T>], by: usize) -> Vec<Batch<T>> {
    let join = |group: &[Batch<T>]| {
        let mut all = group[0].clone();
        group[1..].iter().for_each(|batch| all.join(batch));
        all
    };
    batches.chunks(by).map(join).collect()
}

fn means<T: TripAccumulator>(batches: &[Batch<T>]) -> Vec<f64> {
    batches.iter().filter_map(|batch| batch.latency.mean_ns()).collect()
}

fn are_correlated<T: TripAccumulator>(batches: &[Batch<T>]) -> bool {
    let delivered: Vec<f64> = batches.iter().map(|batch| batch.delivered as f64).collect();
    [delivered, means(batches)].iter().any(|values| {
        // For independent values, its standard deviation is nearly 1/√n.
        correlation(values) > 2.0 / (values.len() as f64).sqrt()
    })
}

/// The lag-1 correlation; zero if all values are equal.
fn correlation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let products: f64 = values.windows(2).map(|two| (two[0] - mean) * (two[1] - mean)).sum();
    if squares > 1e-18 * mean * mean { products / squares } else { 0.0 }
}

fn latency_confidence<T: TripAccumulator>(batches: &[Batch<T>]) -> Option<LatencyConfidence> {
    let fewest = batches.iter().map(|batch| batch.latency.count()).min().filter(|fewest| *fewest > 0)?;
    let percentile = |per_mille: u64| {
        let beyond = fewest * (1000 - per_mille) / 1000;
        let values: Option<Vec<Ps>> =
            batches.iter().map(|batch| batch.latency.percentile(per_mille, 1000)).collect();
        values
            .filter(|_| beyond >= BEYOND_MIN)
            .map(|values| half_width(values.into_iter().map(Ps::as_ns_f64)))
    };
    Some(LatencyConfidence {
        mean: half_width(means(batches).into_iter()),
        p50: percentile(500),
        p90: percentile(900),
        p99: percentile(990),
        p99_9: percentile(999),
    })
}

/// Half the width of the 95 % confidence interval of the mean of at least [`BATCHES_MIN`] values.
fn half_width(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    student(NORMAL_97_5, n - 1.0) * (variance / n).sqrt()
}

/// The normal quantile of 97.5 %.
const NORMAL_97_5: f64 = 1.959_963_984_540_054;

/// Student's t with this number of degrees of freedom for a normal quantile, by the expansion of Abramowitz
/// and Stegun 26.7.5. For 97.5 % it is accurate to three digits from nine degrees on.
pub fn student(z: f64, degrees: f64) -> f64 {
    let [z3, z5, z7] = [3, 5, 7].map(|power| z.powi(power));
    let terms = [
        (z3 + z) / 4.0,
        (5.0 * z5 + 16.0 * z3 + 3.0 * z) / 96.0,
        (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / 384.0,
    ];
    terms.iter().rev().fold(0.0, |sum, term| (sum + term) / degrees) + z
}

#[cfg(test)]
#[path = "batches_tests.rs"]
mod tests;
