//! A user's search: one search per frame size, and their summary in `summary.json`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use doorbell_bench::{Benchmark, RunConfig, RunError, Session};
use doorbell_loadgen::{Rate, TrafficConfig};
use doorbell_machine::ConfigError;
use doorbell_results::{PointSummary, SearchCost, SearchSummary, SizeSummary, TrialSummary, limit};
use doorbell_sim::{Bytes, Frame, Ps};

use super::goal::{Goal, Precision};
use super::judge::Verdict;
use super::machine::{MachineSystem, frames_per_second, line_rate};
use super::next::{Answer, Bracket, Ended};
use super::run::{Event, Outcome, SearchResult, search};

/// Limit of trials per search; more do not improve the answer.
const TRIALS_MAX: usize = 40;
/// Default lowest rate, as a fraction of the highest: one thousandth.
const MIN_SHARE: u64 = 1000;
/// Limit of outstanding frames from which the load counts as open. It exceeds a ring's capacity, so an
/// overload loses frames before the limit applies.
const OPEN_FROM: u32 = 4096;

/// Parameters of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchRequest {
    /// The goal.
    pub goal: Goal,
    /// Width of the resulting interval.
    pub precision: Precision,
    /// Lowest rate to try; default: a thousandth of the highest.
    pub min: Option<Rate>,
    /// Highest rate to try; default: the line rate.
    pub max: Option<Rate>,
    /// Minimum number of frames per window; default: derived from the goal.
    pub frames: Option<u64>,
}

impl SearchRequest {
    /// Range of rates for one frame size.
    fn bracket(&self, config: &RunConfig, frame_size: Bytes) -> Result<Bracket, ConfigError> {
        let pps = |rate| frames_per_second(rate, config, frame_size);
        let line = line_rate(config, frame_size);
        let max = self.max.map_or(line, pps).min(line);
        let min = self.min.map_or(max / MIN_SHARE, pps).max(1);
        if min >= max {
            let problem = format!(
                "{min} frames per second is not below the highest rate, {max} (max, or the line rate); lower it"
            );
            return Err(ConfigError::new("min", problem));
        }
        Ok(Bracket { min, max, precision: self.precision, trials_max: TRIALS_MAX })
    }

    /// Warning if the highest rate exceeds the line rate.
    pub fn line_rate_warning(&self, config: &RunConfig, sizes: &[Bytes]) -> Option<String> {
        let max = self.max?;
        let over =
            sizes.iter().filter(|size| frames_per_second(max, config, **size) > line_rate(config, **size));
        let lines =
            over.map(|size| format!("{} Mpps of {size} frames", line_rate(config, *size) as f64 / 1e6));
        let lines: Vec<String> = lines.collect();
        (!lines.is_empty()).then(|| {
            let lines = lines.join(", ");
            format!("{max} is above the line rate, which is used instead: {lines}")
        })
    }

    /// Checks that the traffic has a single rate, and that the range of rates is not empty for any frame
    /// size.
    pub fn validate(&self, config: &RunConfig, sizes: &[Bytes]) -> Result<(), ConfigError> {
        has_a_rate(&config.loadgen.traffic)?;
        sizes.iter().try_for_each(|size| self.bracket(config, *size).map(drop))
    }
}

/// Rejects traffic that has no single rate: a closed loop, a stream that ends before the trial, or a stream
/// with a ramp.
fn has_a_rate(traffic: &TrafficConfig) -> Result<(), ConfigError> {
    let wrong =
        |key: String, problem: String| Err(ConfigError::new(format!("loadgen.traffic.{key}"), problem));
    if let Some(most) = traffic.outstanding.filter(|most| *most < OPEN_FROM) {
        let problem = format!(
            "with at most {most} frames outstanding the load is a closed loop: replies determine its rate, so there is no \
             rate to search for. Measure it with `doorbell run`, several limits with a sweep over loadgen.traffic.outstanding; or search \
             with a limit that is not reached, such as loadgen.traffic.outstanding=65536"
        );
        return wrong("outstanding".to_owned(), problem);
    }
    let ends = |frames: Option<u64>, duration: Option<Ps>| {
        let frames = frames.map(|frames| ("frames", format!("{frames} frames")));
        frames.or(duration.map(|duration| ("duration", duration.to_string())))
    };
    let until_decided = "a trial runs until it is decided whether its rate meets the goal";
    if let Some((key, after)) = ends(traffic.frames, traffic.duration) {
        let problem =
            format!("{until_decided}, and this traffic ends after {after}; leave it out in a search");
        return wrong(key.to_owned(), problem);
    }
    for (place, stream) in traffic.streams.iter().enumerate() {
        let (name, key) = (stream.name(place), |key: &str| format!("streams[{place}].{key}"));
        if stream.ramp.is_some() {
            let problem = format!(
                "the rate of stream \"{name}\" changes, so there is no single rate to search for; leave the ramp out in a search, or \
                 measure it with `doorbell run`"
            );
            return wrong(key("ramp"), problem);
        }
        if let Some((which, after)) = ends(stream.frames, stream.duration) {
            let problem = format!(
                "{until_decided}, and stream \"{name}\" ends after {after}; leave it out in a search"
            );
            return wrong(key(which), problem);
        }
    }
    Ok(())
}

/// Configuration stored with a search's results: which frames the trials expect back depends on the workload.
pub fn search_config(config: &RunConfig, benchmark: &Benchmark) -> RunConfig {
    let mut config = config.clone();
    config.loadgen.traffic.returned = benchmark.workload(&config).returned;
    config
}

/// Callback for the progress of a search with one frame size.
pub type Progress<'a> = &'a (dyn Fn(Bytes, &Event) + Sync);

/// Summary of the searches and their parameters.
pub fn search_summary(
    session: &Session,
    preset: &str,
    command: String,
    request: &SearchRequest,
    jobs: usize,
    host_seconds: f64,
    searches: Vec<SizeSummary>,
) -> SearchSummary {
    SearchSummary {
        benchmark: session.workload().name.clone(),
        preset: preset.to_owned(),
        doorbell_version: env!("CARGO_PKG_VERSION").to_owned(),
        ran: session.ran(),
        command,
        goal: request.goal.to_string(),
        loss_goal: request.goal.loss,
        precision: request.precision.0,
        min: request.min.map(|rate| rate.to_string()),
        max: request.max.map(|rate| rate.to_string()),
        frames: request.frames,
        jobs,
        host_seconds,
        incomplete: None,
        searches,
    }
}

/// Results of searches with several frame sizes.
pub struct SizeResults {
    /// The finished sizes, in order.
    pub done: Vec<SizeSummary>,
    /// Error that ended the remaining searches, if any.
    pub error: Option<RunError>,
}

impl SizeResults {
    /// Returns all sizes, or the error.
    pub fn all(self) -> Result<Vec<SizeSummary>, RunError> {
        self.error.map_or(Ok(self.done), Err)
    }
}

/// Searches for each frame size; several at once if there are several sizes and jobs. Except for host times,
/// the results do not depend on the number of jobs.
pub fn search_sizes(
    session: &Session,
    sizes: &[Bytes],
    request: &SearchRequest,
    jobs: usize,
    interrupted: &AtomicBool,
    progress: Progress,
) -> SizeResults {
    if let Err(error) = request.validate(session.config(), sizes) {
        return SizeResults { done: Vec::new(), error: Some(error.into()) };
    }
    let at_once = jobs.min(sizes.len()).max(1);
    let each = (jobs / at_once).max(1);
    let results: Mutex<Vec<Option<Result<SizeSummary, RunError>>>> =
        Mutex::new(sizes.iter().map(|_| None).collect());
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(size) = sizes.get(index).filter(|_| !failed.load(Ordering::Relaxed)) else {
                        return;
                    };
                    let result = search_size(session, *size, request, each, interrupted, progress);
                    failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    results.lock().expect("no other thread panicked")[index] = Some(result);
                }
            });
        }
    });
    let results = results.into_inner().expect("no thread panicked");
    // After a failure, the remaining searches were not started; the failure itself is among the results.
    let (done, failures): (Vec<_>, Vec<_>) = results.into_iter().flatten().partition(Result::is_ok);
    SizeResults {
        done: done.into_iter().flatten().collect(),
        error: failures.into_iter().find_map(Result::err),
    }
}

fn search_size(
    session: &Session,
    size: Bytes,
    request: &SearchRequest,
    jobs: usize,
    interrupted: &AtomicBool,
    progress: Progress,
) -> Result<SizeSummary, RunError> {
    let started = Instant::now();
    let system = MachineSystem::new(session, size, &request.goal);
    let bracket = request.bracket(session.config(), size)?;
    let mut tell = |event: Event| progress(size, &event);
    let found = search(&system, &bracket, &request.goal, request.frames, jobs, interrupted, &mut tell)?;
    let found = found.ok_or(RunError::Interrupted)?;
    Ok(size_summary(session.config(), size, found, started.elapsed().as_secs_f64()))
}

fn size_summary(
    config: &RunConfig,
    size: Bytes,
    found: SearchResult<PointSummary>,
    elapsed: f64,
) -> SizeSummary {
    let mut traffic = config.loadgen.traffic.clone();
    traffic.frame_size = size;
    let bytes = (traffic.frame_len() + Frame::FCS_BYTES) as u64;
    let mpps = |rate: u64| rate as f64 / 1e6;
    let gbps = |rate: u64| rate as f64 * (8 * bytes) as f64 / 1e9;
    let Answer { low, high, ended } = found.answer;
    let met_above = found.trials.iter().filter(|trial| {
        trial.judgment.verdict == Verdict::Below && high.is_some_and(|high| trial.rate > high)
    });
    let at_low = found.trials.iter().find(|trial| Some(trial.rate) == low);
    let cost = SearchCost {
        trials: found.trials.len() as u64,
        simulated_seconds: found.trials.iter().map(|t| t.judgment.account.simulated.as_secs_f64()).sum(),
        host_seconds: found.trials.iter().map(|trial| trial.host_seconds).sum(),
        trials_ahead: found.ahead.trials,
        host_seconds_ahead: found.ahead.host_seconds,
        host_seconds_elapsed: elapsed,
    };
    let mut summary = SizeSummary {
        frame_size: bytes,
        low_mpps: low.map(mpps),
        high_mpps: high.map(mpps),
        low_gbps: low.map(gbps),
        high_gbps: high.map(gbps),
        ended: match ended {
            Ended::Precise => "precise",
            Ended::AtHighest => "at_highest",
            Ended::BelowLowest => "below_lowest",
            Ended::Undecided => "undecided",
            Ended::TooMany => "too_many",
        }
        .to_owned(),
        inversions_mpps: met_above.map(|trial| mpps(trial.rate)).collect(),
        at_low: at_low.map(|trial| trial.summary.clone().with_limit()),
        trials: found.trials.iter().map(trial_summary).collect(),
        cost,
        limit: None,
    };
    summary.limit = limit::of_search(&summary);
    summary
}

fn trial_summary(trial: &Outcome<PointSummary>) -> TrialSummary {
    let (judgment, point) = (&trial.judgment, &trial.summary);
    TrialSummary {
        rate_mpps: trial.rate as f64 / 1e6,
        verdict: match judgment.verdict {
            Verdict::Below => "below",
            Verdict::Above => "above",
            Verdict::Undecided => "undecided",
        }
        .to_owned(),
        frames_offered: judgment.account.offered,
        frames_lost: judgment.account.lost,
        drops: Some(point.drops.clone()),
        loss: judgment.loss,
        loss_error: judgment.loss_error,
        occupancy_correction: judgment.occupancy_change,
        window_seconds: judgment.account.window.as_secs_f64(),
        simulated_seconds: judgment.account.simulated.as_secs_f64(),
        delivered_mpps: point.delivered_mpps,
        latency_p50_ns: point.latency_ns.as_ref().map(|latency| latency.p50),
        latency_p99_ns: point.latency_ns.as_ref().map(|latency| latency.p99),
        latency_bounded_ns: judgment.account.latency.map(|(low, high)| [low.as_ns_f64(), high.as_ns_f64()]),
        steady: point.steady.clone(),
        state_hash: point.state_hash.clone(),
        host_seconds: trial.host_seconds,
    }
}

#[cfg(test)]
mod tests {
    use doorbell_bench::resolve;

    use super::*;

    #[test]
    fn a_highest_rate_above_the_line_rate_causes_a_warning() {
        let config = resolve("fast", &[] as &[String]).unwrap();
        let warning = |max: &str| {
            let max = Some(max.parse().unwrap());
            let request = SearchRequest {
                goal: "msb".parse().unwrap(),
                precision: Precision(0.02),
                min: None,
                max,
                frames: None,
            };
            request.line_rate_warning(&config, &[Bytes(64), Bytes(1518)])
        };
        assert_eq!(warning("8Mpps"), None);
        assert_eq!(
            warning("100Mpps").unwrap(),
            "100Mpps is above the line rate, which is used instead: 8.127438 Mpps of 1518B frames"
        );
    }

    #[test]
    fn traffic_without_a_single_rate_is_rejected_with_a_remedy() {
        let request = SearchRequest {
            goal: "msb".parse().unwrap(),
            precision: Precision(0.02),
            min: None,
            max: None,
            frames: None,
        };
        let of = |set: &[&str]| {
            let set: Vec<String> = set.iter().map(|text| format!("loadgen.traffic.{text}")).collect();
            let config = resolve("fast", &set).unwrap();
            request.validate(&config, &[Bytes(64)]).map_err(|error| error.to_string())
        };
        for (set, parts) in [
            ("outstanding=2", ["loadgen.traffic.outstanding", "doorbell run"]),
            ("frames=10000", ["loadgen.traffic.frames", "ends after 10000 frames"]),
            ("duration=2ms", ["loadgen.traffic.duration", "ends after 2ms"]),
            (
                "streams=[{}, {name=\"more\", ramp={to=\"9Mpps\", over=\"1ms\"}}]",
                ["loadgen.traffic.streams[1].ramp", "stream \"more\""],
            ),
            ("streams=[{frames=100}]", ["loadgen.traffic.streams[0].frames", "stream \"stream0\""]),
            ("streams=[{duration=\"1ms\"}]", ["loadgen.traffic.streams[0].duration", "ends after 1ms"]),
        ] {
            let error = of(&[set]).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{set}: {error}");
        }
        assert_eq!(of(&[]), Ok(()));
        assert_eq!(of(&["outstanding=65536"]), Ok(()), "it is never reached");
        assert_eq!(of(&["streams=[{arrivals=\"poisson\"}, {start_after=\"1us\"}]"]), Ok(()));
    }
}
