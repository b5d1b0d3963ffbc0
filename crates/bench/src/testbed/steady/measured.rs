//! Whether a measurement was steady throughout: trend tests over its own parts. A window in which a queue still fills has a mean
//! that belongs to no load, however small the loss.
//!
//! *Latency*: the mean round trip of each batch. *Loss*: the share of each batch that did not come back. *Queues*: the frames in
//! FIFOs, rings and switches at regular looks, where the machine is timed. *Goodput*: what a transfer moved in each part.

use doorbell_results::{BatchSummary, PointSummary, SteadyCriterion, SteadyPhase, TransferPart};

use crate::plan::config::RunConfig;

use super::QUEUE_FRAMES;
use super::trend::{Trend, trend};

/// Latency, queues and goodput may change by this share of their last level.
const SHARE: f64 = 0.005;
/// The share of frames that are lost may change by this much.
const LOSS: f64 = 0.002;
/// A queue is long enough to be looked at if it holds more frames than come in a burst.
const FRAMES: f64 = 2.0 * QUEUE_FRAMES;
/// Series with fewer frames in each part in the mean are too noisy to be tested by parts.
const PER_PART: u64 = 4;
/// The phase of a transfer's parts that is the measurement.
pub(crate) const MEASURED: &str = "measured";

/// What a measurement was, by its own parts: `asked` says how long it was to be; `queues` are the frames at regular looks.
pub(crate) fn measured(point: &PointSummary, queues: &[u64], asked: String) -> SteadyPhase {
    let batches = whole(&point.batches, point.simulated_seconds * 1e9);
    let transfer = point.transfer.iter().flat_map(|transfer| &transfer.over_time);
    let criteria = [latency(batches), loss(batches), of_queues(queues), goodput(transfer)];
    SteadyPhase {
        asked,
        seconds: point.simulated_seconds,
        criteria: criteria.into_iter().flatten().collect(),
    }
}

/// Adds to a point whether it was steady throughout, where no queues were looked at.
pub(crate) fn judge(point: &mut PointSummary, config: &RunConfig) {
    point.set_measured(measured(point, &[], config.run.asked()));
}

/// The same while a window goes on: frames of its last batches may still come back.
pub(crate) fn so_far(batches: &[BatchSummary], queues: &[u64], asked: String) -> SteadyPhase {
    let batches = &batches[..batches.len().saturating_sub(2)];
    let criteria = [latency(batches), loss(batches), of_queues(queues)];
    SteadyPhase { asked, seconds: 0.0, criteria: criteria.into_iter().flatten().collect() }
}

/// The batches without a last one that is shorter than the others.
fn whole(batches: &[BatchSummary], length_ns: f64) -> &[BatchSummary] {
    let [first, second, ..] = batches else { return batches };
    let length = second.begin_ns - first.begin_ns;
    let whole = batches.iter().filter(|batch| batch.begin_ns + length <= length_ns * (1.0 + 1e-9)).count();
    &batches[..whole]
}

/// A criterion by what a series does; `say` writes a level with its unit behind a blank.
fn criterion(name: &str, trend: Trend, say: impl Fn(f64) -> String) -> Option<SteadyCriterion> {
    let both = |from: f64, to: f64| {
        let (from, to) = (say(from), say(to));
        match from.split_once(' ').zip(to.split_once(' ')) {
            Some(((from, unit), (_, same))) if unit == same => format!("{from} \u{2192} {to}"),
            _ => format!("{from} \u{2192} {to}"),
        }
    };
    let (met, seen) = match trend {
        Trend::Unknown => (None, format!("{name}: too few frames to tell")),
        Trend::Steady => (Some(true), String::new()),
        Trend::Line { from, to } => {
            let verb = if to > from { "rises" } else { "falls" };
            (Some(false), format!("{name} {verb} {}", both(from, to)))
        }
        Trend::Slow { from, to } => (Some(false), format!("{name} goes {} or swings slowly", both(from, to))),
    };
    Some(SteadyCriterion { name: name.to_owned(), met, seconds: None, seen })
}

fn latency(batches: &[BatchSummary]) -> Option<SteadyCriterion> {
    let means: Vec<f64> = batches.iter().filter_map(|batch| batch.latency_ns_mean).collect();
    let delivered: u64 = batches.iter().map(|batch| batch.delivered).sum();
    if delivered == 0 {
        return None;
    }
    let found = match delivered < PER_PART * batches.len() as u64 {
        true => Trend::Unknown,
        false => trend(&means, |level| SHARE * level),
    };
    criterion("latency", found, duration)
}

fn loss(batches: &[BatchSummary]) -> Option<SteadyCriterion> {
    let offered: u64 = batches.iter().map(|batch| batch.offered).sum();
    let delivered: u64 = batches.iter().map(|batch| batch.delivered).sum();
    if delivered == 0 || delivered == offered || offered < PER_PART * batches.len() as u64 {
        return None;
    }
    let of = |batch: &BatchSummary| 1.0 - batch.delivered as f64 / batch.offered.max(1) as f64;
    let shares: Vec<f64> = batches.iter().map(of).collect();
    criterion("loss", trend(&shares, |_| LOSS), |share| format!("{:.2} %", share.max(0.0) * 100.0))
}

fn of_queues(queues: &[u64]) -> Option<SteadyCriterion> {
    let levels: Vec<f64> = queues.iter().map(|frames| *frames as f64).collect();
    let found = trend(&levels, |level| (SHARE * level).max(FRAMES));
    if found == Trend::Unknown {
        return None;
    }
    criterion("queue", found, |frames| format!("{:.0} frames", frames.max(0.0)))
}

fn goodput<'a>(parts: impl Iterator<Item = &'a TransferPart>) -> Option<SteadyCriterion> {
    let measured = parts.filter(|part| part.phase == MEASURED);
    let (rates, counted): (Vec<f64>, Vec<bool>) = measured
        .map(|part| {
            (part.transactions_per_second.unwrap_or(part.gbps), part.transactions_per_second.is_some())
        })
        .unzip();
    let counted = counted.first().copied().unwrap_or(false);
    let found = trend(&rates, |level| SHARE * level);
    if found == Trend::Unknown {
        return None;
    }
    match counted {
        true => criterion("rate", found, |rate| format!("{rate:.0} transactions/s")),
        false => criterion("goodput", found, |rate| format!("{rate:.2} Gbps")),
    }
}

/// Nanoseconds with three digits.
fn duration(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns >= 1e6 => (ns / 1e6, "ms"),
        ns if ns >= 1e3 => (ns / 1e3, "µs"),
        ns => (ns, "ns"),
    };
    let decimals = if value >= 100.0 { 0 } else { 1 + usize::from(value < 10.0) };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(mean: impl Fn(u64) -> f64, lost: impl Fn(u64) -> u64) -> PointSummary {
        let batch = |index: u64| BatchSummary {
            begin_ns: index as f64 * 1e6,
            offered: 1000,
            delivered: 1000 - lost(index),
            latency_ns_mean: Some(mean(index)),
            latency_ns_p99: None,
        };
        PointSummary {
            batches: (0..40).map(batch).collect(),
            simulated_seconds: 0.0395,
            ..PointSummary::default()
        }
    }

    fn unmet(point: &PointSummary, queues: &[u64]) -> Vec<String> {
        let phase = measured(point, queues, "auto".to_owned());
        phase.unmet().map(|criterion| criterion.seen.clone()).collect()
    }

    /// The window that was called lossless at 28 Mpps.
    #[test]
    fn a_queue_that_fills_in_the_window_is_named_with_both_its_ends() {
        let filling = point(|index| 7_111.0 + 744.0 * index as f64, |_| 0);
        assert_eq!(unmet(&filling, &[]), ["latency rises 7.11 \u{2192} 35.4 µs"]);
        let still = point(|index| 2_810.0 + (index % 3) as f64, |index| 100 + index % 2);
        assert_eq!(unmet(&still, &[17; 32]), Vec::<String>::new());
        let levels: Vec<u64> = (0..32).map(|look| 100 + 20 * look).collect();
        assert_eq!(unmet(&still, &levels), ["queue rises 100 \u{2192} 720 frames"]);
        let losing = point(|_| 60_000.0, |index| 2 * index);
        assert_eq!(unmet(&losing, &[]), ["loss rises 0.00 \u{2192} 7.60 %"]);
    }

    #[test]
    fn a_last_batch_that_is_shorter_than_the_others_does_not_count() {
        let mut cut = point(|_| 2_810.0, |_| 0);
        cut.batches[39].latency_ns_mean = Some(1e9);
        assert_eq!(unmet(&cut, &[]), Vec::<String>::new());
    }

    #[test]
    fn few_frames_prove_nothing_and_none_are_not_looked_at() {
        let mut few = point(|_| 2_810.0, |_| 0);
        few.batches.iter_mut().for_each(|batch| (batch.offered, batch.delivered) = (1, 1));
        let phase = measured(&few, &[], "10ms".to_owned());
        assert_eq!((phase.criteria.len(), phase.criteria[0].met), (1, None));
        let none = PointSummary::default();
        assert!(measured(&none, &[], "10ms".to_owned()).criteria.is_empty());
    }
}
