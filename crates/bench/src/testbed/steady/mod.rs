//! Detects the steady state of a system under load. Caches settle during warm-up, queues during the detailed
//! phase. Warm-up ends when the criteria for rings, buffers and caches are met, settling when the one for
//! queues is. Programs that control their own rate add the pace to warm-up, and settle by it alone. Each
//! phase has a time limit. The criteria are evaluated for a phase of fixed length too.
//!
//! *Rings*: every descriptor ring in use has wrapped around once. *Buffers*: hardly any frame of the last
//! stretches used a packet buffer for the first time. (A pool may have more buffers than a ring has
//! descriptors, so a forwarder's receive ring still gets new ones on its second pass.) *Caches*: misses per
//! frame, by level and class, agree between successive stretches, as do the misses of device reads and
//! writes. *Queues*: the frames in FIFOs, rings and switches agree between successive stretches. *Pace*: the
//! frame rate does, if programs rather than generators control it.
//!
//! Stretches agree if they differ by less than a tolerance, or not significantly. If they keep differing,
//! stretches become longer. All criteria use simulated state only.

mod measured;
mod sample;
mod series;
mod stretch;
mod trend;

use std::collections::VecDeque;

use doorbell_results::{SteadyCriterion, SteadyPhase};
use doorbell_sim::Ps;

use crate::plan::length::Length;

pub(crate) use measured::{MEASURED, add_measured_phase, measured, so_far};
pub use sample::Sample;
use stretch::{Stretch, misses_change, pace_change, queues_change};

/// Number of successive stretches that must agree.
const STRETCHES: usize = 4;
/// Status of a criterion with fewer stretches.
const TOO_SHORT: &str = "too short to tell";
/// Minimum length of a stretch for the queue criterion: four are a millisecond.
const STRETCH_MIN: Ps = Ps::from_us(250);
/// Minimum time in which a system can be found steady.
pub(crate) const SETTLED_MIN: Ps = Ps(STRETCH_MIN.0 * STRETCHES as u64);
/// Minimum length of a stretch for the cache and pace criteria. Five stretches (rings wrap around during the
/// first) are longer than the 4 ms between two ticks of the guest's kernel. The first tick with cold caches
/// costs a polling core 19 µs (testpmd under `server`), later ones 1 µs.
const STRETCH_OF_CACHES: Ps = Ps::from_ms(1);
/// Maximum length of a stretch with few frames, unless shorter stretches differed.
const STRETCH_MAX: Ps = Ps::from_ms(10);
/// Sampling interval.
const SAMPLE_INTERVAL: Ps = Ps(STRETCH_MIN.0 / 16);
/// Minimum frames in a stretch for the cache criterion, or thousands of instructions if there are no frames.
const FRAMES_MIN: u64 = 256;
/// Part of its descriptors that each ring must process per stretch, so that all stretches together wrap
/// around.
const OF_A_ROUND: f64 = 1.0 / STRETCHES as f64;
/// Tolerated relative change of the misses per frame.
const SHARE: f64 = 0.02;
/// Tolerated absolute change of the misses per frame at a level, with received and sent frames both counted.
/// It costs some tenths of a nanosecond per frame.
const MISSES: [(&str, f64); 2] = [("L1", 0.1), ("L2", 0.03)];
/// The same for other levels, whose misses go to memory.
const MISSES_OF_MEMORY: f64 = 0.01;
/// Tolerated share of frames that use a new buffer.
const NEW_BUFFERS: f64 = 0.02;
/// Tolerated change of queues relative to the received and sent frames of a stretch: the throughput error is
/// at most one percent.
const QUEUE_SHARE: f64 = 0.005;
/// Tolerated absolute change of queues in frames, since packets arrive and leave in bursts.
const QUEUE_FRAMES: f64 = 4.0;
/// Tolerated absolute change of the pace in frames per microsecond: one frame per millisecond. The relative
/// one is [`SHARE`].
const PACE: f64 = 0.001;

/// Criteria of a steady state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Criterion {
    Rings,
    Buffers,
    Caches,
    Queues,
    Pace,
}

impl Criterion {
    const fn name(self) -> &'static str {
        match self {
            Criterion::Rings => "rings",
            Criterion::Buffers => "buffers",
            Criterion::Caches => "caches",
            Criterion::Queues => "queues",
            Criterion::Pace => "pace",
        }
    }
}

/// Component that controls the frame rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Load generators.
    Generators,
    /// Programs in nodes.
    Programs,
    /// There are no frames.
    Silent,
}

/// Status of a criterion.
#[derive(Debug)]
struct Status {
    criterion: Criterion,
    met: Option<bool>,
    /// Time since which it has been met.
    since: Option<Ps>,
    /// The measured values, for messages.
    finding: String,
}

impl Status {
    fn update(&mut self, now: Ps, met: Option<bool>, finding: String) {
        self.since = self.since.or(Some(now)).filter(|_| met == Some(true));
        (self.met, self.finding) = (met, finding);
    }
}

/// Samples a system during a phase and evaluates the criteria.
#[derive(Debug)]
pub(crate) struct Watch {
    statuses: Vec<Status>,
    stretch_min: Ps,
    /// Whether stretches become longer if they differ. For the queue criterion they do not.
    grows: bool,
    /// Consecutive stretches of the present length after which the criteria were not met.
    differed: usize,
    /// Whether misses are counted per frame, rather than per thousand instructions.
    of_frames: bool,
    first: Sample,
    last: Sample,
    rings_round: bool,
    stretch: Stretch,
    /// Number of the sample at which it began.
    stretch_began: u64,
    samples: u64,
    /// The last stretches, oldest first.
    done: VecDeque<Stretch>,
}

impl Watch {
    /// Starts a phase that waits for caches (`caches`) or for queues. A stretch is at least four times as
    /// long as the longest link latency.
    pub fn begin(caches: bool, pace: Pace, longest_link: Ps, sample: Sample) -> Watch {
        let criteria: &[Criterion] = match (caches, pace) {
            (true, Pace::Silent) => &[Criterion::Caches],
            (true, Pace::Generators) => &[Criterion::Rings, Criterion::Buffers, Criterion::Caches],
            (true, Pace::Programs) => {
                &[Criterion::Rings, Criterion::Buffers, Criterion::Caches, Criterion::Pace]
            }
            // The programs' own flow control determines the queues.
            (false, Pace::Programs) => &[Criterion::Pace],
            (false, _) => &[Criterion::Queues],
        };
        let least = if caches || pace == Pace::Programs { STRETCH_OF_CACHES } else { STRETCH_MIN };
        let status = |criterion: &Criterion| Status {
            criterion: *criterion,
            met: None,
            since: None,
            finding: TOO_SHORT.to_owned(),
        };
        Watch {
            statuses: criteria.iter().map(status).collect(),
            stretch_min: Ps(longest_link.0.saturating_mul(4)).max(least),
            grows: caches || pace == Pace::Programs,
            differed: 0,
            of_frames: pace != Pace::Silent,
            rings_round: false,
            stretch: Stretch::begin(&sample, false),
            stretch_began: 0,
            samples: 0,
            done: VecDeque::new(),
            first: sample.clone(),
            last: sample,
        }
    }

    /// Runs until the system is steady, up to the limit, or for a given length. Returns `None` if that length
    /// is zero. `run_to` runs the system to a time and returns a sample.
    pub fn until_steady<E>(
        mut self,
        length: Length,
        limit: Ps,
        mut run_to: impl FnMut(Ps) -> Result<Sample, E>,
    ) -> Result<Option<SteadyPhase>, E> {
        let end = self.first.now.saturating_add(length.at_most(limit));
        while self.last.now < end && !(length == Length::Auto && self.is_steady()) {
            let before = self.last.now;
            self.add_sample(run_to(self.next_sample().min(end))?);
            // The system has ended early.
            if self.last.now == before {
                break;
            }
        }
        Ok(length.is_some().then(|| self.end(length.to_string())))
    }

    /// Time of the next sample. Samples have a fixed schedule, although a system may stop slightly later.
    fn next_sample(&self) -> Ps {
        self.first.now + Ps((self.samples + 1) * SAMPLE_INTERVAL.0)
    }

    /// Adds a sample.
    fn add_sample(&mut self, sample: Sample) {
        self.update_rings(&sample);
        self.stretch.add(&self.last, &sample, self.of_frames);
        self.samples = sample.now.saturating_sub(self.first.now).0 / SAMPLE_INTERVAL.0;
        self.last = sample;
        if self.stretch_is_over() {
            let next = Stretch::begin(&self.last, self.rings_round);
            self.stretch_began = self.samples;
            self.done.push_back(std::mem::replace(&mut self.stretch, next));
            if self.done.len() > STRETCHES {
                self.done.pop_front();
            }
            self.evaluate();
        }
    }

    /// Whether all criteria are met.
    fn is_steady(&self) -> bool {
        self.statuses.iter().all(|status| status.met == Some(true))
    }

    /// Result of the phase; `asked` is its requested length.
    fn end(self, asked: String) -> SteadyPhase {
        let since = |at: Ps| at.saturating_sub(self.first.now).as_secs_f64();
        let criterion = |status: Status| SteadyCriterion {
            name: status.criterion.name().to_owned(),
            met: status.met,
            seconds: status.since.map(since),
            seen: status.finding,
        };
        SteadyPhase {
            asked,
            seconds: since(self.last.now),
            criteria: self.statuses.into_iter().map(criterion).collect(),
        }
    }

    fn status(&mut self, criterion: Criterion) -> Option<&mut Status> {
        self.statuses.iter_mut().find(|status| status.criterion == criterion)
    }

    fn update_rings(&mut self, sample: &Sample) {
        let rounds = sample.rounds_since(&self.first).reduce(f64::min);
        self.rings_round |= rounds.is_some_and(|rounds| rounds >= 1.0);
        let (round, now) = (self.rings_round, sample.now);
        let Some(status) = self.status(Criterion::Rings) else { return };
        let words = rounds
            .map_or_else(|| "no descriptor was used".to_owned(), |rounds| format!("{rounds:.2} rounds"));
        status.update(now, Some(round), words);
    }

    fn stretch_is_over(&self) -> bool {
        let length = Ps((self.samples - self.stretch_began) * SAMPLE_INTERVAL.0);
        let has_caches = self.statuses.iter().any(|status| status.criterion == Criterion::Caches);
        let enough = !has_caches
            || self.stretch.base(self.of_frames) >= FRAMES_MIN
                && self.last.rounds_since(&self.stretch.begin).all(|rounds| rounds >= OF_A_ROUND);
        length >= self.stretch_min && enough || length >= STRETCH_MAX.max(self.stretch_min)
    }

    /// Evaluates the criteria over the last stretches.
    fn evaluate(&mut self) {
        let now = self.last.now;
        let new = self.done.iter().map(Stretch::new_buffers).fold(0.0, f64::max);
        let judgements = [
            (
                Criterion::Buffers,
                new <= NEW_BUFFERS,
                format!("{:.0} % of frames in new buffers", new * 100.0),
            ),
            self.change_of(Criterion::Caches, misses_change),
            self.change_of(Criterion::Queues, queues_change),
            self.change_of(Criterion::Pace, pace_change),
        ];
        let enough = self.done.len() == STRETCHES;
        for (criterion, met, words) in judgements {
            // Fewer stretches may agree by chance.
            let words = if enough { words } else { TOO_SHORT.to_owned() };
            if let Some(status) = self.status(criterion) {
                status.update(now, enough.then_some(met), words);
            }
        }
        self.differed = if enough && !self.is_steady() { self.differed + 1 } else { 0 };
        if self.differed > STRETCHES && self.grows {
            self.grow();
        }
    }

    /// Doubles the length of stretches. Infrequent guest activity may make short ones differ; longer ones
    /// have the same share of it.
    fn grow(&mut self) {
        self.differed = 0;
        self.stretch_min = Ps(self.stretch_min.0.saturating_mul(2));
        let mut pairs = VecDeque::new();
        while let (Some(first), Some(second)) = (self.done.pop_front(), self.done.pop_front()) {
            pairs.push_back(first.plus(second));
        }
        self.done = pairs;
    }

    /// Whether the values of a criterion agree over the last stretches.
    fn change_of(
        &self,
        criterion: Criterion,
        change: fn(&[&Stretch]) -> (f64, String),
    ) -> (Criterion, bool, String) {
        let done: Vec<&Stretch> = self.done.iter().collect();
        if self.of_frames && criterion != Criterion::Queues && done.iter().any(|stretch| stretch.frames == 0)
        {
            return (criterion, false, "no frames arrived".to_owned());
        }
        let (excess, words) = change(&done);
        let turns = self.statuses.iter().any(|status| status.criterion == Criterion::Rings);
        let cold = turns && criterion == Criterion::Caches && done.iter().any(|stretch| !stretch.rings_round);
        (criterion, excess <= 1.0 && !cold, words)
    }
}

#[cfg(test)]
mod tests;
