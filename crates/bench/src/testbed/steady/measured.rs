//! Trend tests over the parts of a measurement, which show whether it was steady throughout. If a queue still
//! fills during the window, the mean latency is not that of the offered load, however small the loss.
//!
//! *Latency*: mean round-trip time of each batch. *Loss*: loss rate of each batch. *Queues*: frames in FIFOs,
//! rings and switches, sampled regularly if the machine is timed. *Goodput*: rate of a transfer in each part.

use doorbell_results::{BatchSummary, PointSummary, SteadyCriterion, SteadyPhase, TransferPart};

use crate::plan::config::RunConfig;

use super::QUEUE_FRAMES;
use super::trend::{Trend, trend};

/// Tolerated change of latency, queues and goodput, relative to their last level.
const SHARE: f64 = 0.005;
/// Tolerated absolute change of the loss rate.
const LOSS: f64 = 0.002;
/// Tolerated change of a queue in frames: more than a burst.
const FRAMES: f64 = 2.0 * QUEUE_FRAMES;
/// Minimum mean number of frames per part; series with fewer are too noisy.
const PER_PART: u64 = 4;
/// Phase name of the parts of a transfer that belong to the measurement.
pub(crate) const MEASURED: &str = "measured";

/// Tests the parts of a measurement. `asked` is the requested length; `queues` are samples of the queued
/// frames.
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

/// Tests the parts of a measurement without queue samples, and adds the result to its point.
pub(crate) fn add_measured_phase(point: &mut PointSummary, config: &RunConfig) {
    point.set_measured(measured(point, &[], config.run.length_text()));
}

/// Tests an unfinished window. The last two batches are excluded, since some of their frames may still
/// return.
pub(crate) fn so_far(batches: &[BatchSummary], queues: &[u64], asked: String) -> SteadyPhase {
    let batches = &batches[..batches.len().saturating_sub(2)];
    let criteria = [latency(batches), loss(batches), of_queues(queues)];
    SteadyPhase { asked, seconds: 0.0, criteria: criteria.into_iter().flatten().collect() }
}

/// The batches of full length: the last one may be shorter.
fn whole(batches: &[BatchSummary], length_ns: f64) -> &[BatchSummary] {
    let [first, second, ..] = batches else { return batches };
    let length = second.begin_ns - first.begin_ns;
    let whole = batches.iter().filter(|batch| batch.begin_ns + length <= length_ns * (1.0 + 1e-9)).count();
    &batches[..whole]
}

/// The criterion for a series' trend; `format` prints a level, a space and its unit.
fn criterion(name: &str, trend: Trend, format: impl Fn(f64) -> String) -> Option<SteadyCriterion> {
    let both = |from: f64, to: f64| {
        let (from, to) = (format(from), format(to));
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
        Trend::Slow { from, to } => {
            (Some(false), format!("{name} drifts {} or oscillates slowly", both(from, to)))
        }
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

/// A time in nanoseconds, printed with three digits.
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

    /// `filling` has the latencies of a window at 28 Mpps that was once reported as lossless.
    #[test]
    fn trend_is_reported_with_its_first_and_last_level() {
        let filling = point(|index| 7_111.0 + 744.0 * index as f64, |_| 0);
        assert_eq!(unmet(&filling, &[]), ["latency rises 7.11 \u{2192} 35.4 µs"]);
        let still = point(|index| 2_810.0 + (index % 3) as f64, |index| 100 + index % 2);
        assert_eq!(unmet(&still, &[17; 32]), Vec::<String>::new());
        let levels: Vec<u64> = (0..32).map(|index| 100 + 20 * index).collect();
        assert_eq!(unmet(&still, &levels), ["queue rises 100 \u{2192} 720 frames"]);
        let losing = point(|_| 60_000.0, |index| 2 * index);
        assert_eq!(unmet(&losing, &[]), ["loss rises 0.00 \u{2192} 7.60 %"]);
    }

    #[test]
    fn shorter_last_batch_is_ignored() {
        let mut cut = point(|_| 2_810.0, |_| 0);
        cut.batches[39].latency_ns_mean = Some(1e9);
        assert_eq!(unmet(&cut, &[]), Vec::<String>::new());
    }

    #[test]
    fn few_frames_leave_the_criterion_open_and_no_frames_give_no_criterion() {
        let mut few = point(|_| 2_810.0, |_| 0);
        few.batches.iter_mut().for_each(|batch| (batch.offered, batch.delivered) = (1, 1));
        let phase = measured(&few, &[], "10ms".to_owned());
        assert_eq!((phase.criteria.len(), phase.criteria[0].met), (1, None));
        let none = PointSummary::default();
        assert!(measured(&none, &[], "10ms".to_owned()).criteria.is_empty());
    }
}
