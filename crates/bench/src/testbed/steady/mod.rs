//! Whether a system under load has reached a steady state. Caches settle while they are warmed, queues while everything is timed:
//! the one phase lasts until the first three of these are met, the other until the last two are, each to its limit at most. A phase
//! whose length is given is judged all the same.
//!
//! *Rings*: every ring of descriptors that is in use has gone round once. *Buffers*: of the frames of the last stretches hardly any
//! used a packet buffer that no frame had used (a pool may hold more buffers than a ring has descriptors: a forwarder's receive
//! ring meets new ones in its second round, too). *Caches*: misses a frame, by level and by what they were of, are the same in
//! successive stretches; so is what devices' writes and reads find. *Queues*: what stands in FIFOs, rings and
//! switches is the same in successive stretches. *Pace*: so is the number of frames, where programs decide it and no generator does.
//!
//! The same is what differs by less than a tolerance, or by no more than chance moves it. Where stretches go on to differ, they become
//! longer. All of this follows from simulated state alone.

mod measured;
mod seen;
mod series;
mod stretch;
mod trend;

use std::collections::VecDeque;

use doorbell_results::{SteadyCriterion, SteadyPhase};
use doorbell_sim::Ps;

use crate::plan::length::Length;

pub(crate) use measured::{MEASURED, judge, measured, so_far};
pub use seen::Seen;
use stretch::{Stretch, misses_change, pace_change, queues_change};

/// So many successive stretches have to be the same.
const STRETCHES: usize = 4;
/// What is said of fewer.
const TOO_SHORT: &str = "too short to tell";
/// A stretch in which queues are looked at is no shorter, so that four are a millisecond.
const STRETCH_MIN: Ps = Ps::from_us(250);
/// No system is known to be steady before.
pub(crate) const SETTLED_MIN: Ps = Ps(STRETCH_MIN.0 * STRETCHES as u64);
/// One in which caches are looked at, or the pace of programs: five of them (the first is not over when rings have gone round) are
/// longer than the time between two ticks of the guest's kernel, 4 ms. The first tick in cold caches costs a polling core 19 µs
/// (testpmd under `server`), all others 1 µs.
const STRETCH_OF_CACHES: Ps = Ps::from_ms(1);
/// However few frames it has, a stretch is no longer, unless shorter ones differed.
const STRETCH_MAX: Ps = Ps::from_ms(10);
/// From look to look.
const LOOK: Ps = Ps(STRETCH_MIN.0 / 16);
/// A stretch in which caches are looked at has as many frames, at least, or thousands of instructions where no frames are.
const FRAMES_MIN: u64 = 256;
/// And each ring goes on by this part of a round in it, so that all stretches together are a round.
const OF_A_ROUND: f64 = 1.0 / STRETCHES as f64;
/// Misses a frame may change by this share,
const SHARE: f64 = 0.02;
/// or by so many at a level, frames in and out being counted alike: what costs some tenths of a nanosecond a frame,
const MISSES: [(&str, f64); 2] = [("L1", 0.1), ("L2", 0.03)];
/// and elsewhere, where lines come from memory.
const MISSES_OF_MEMORY: f64 = 0.01;
/// Of the frames so many may use a new buffer.
const NEW_BUFFERS: f64 = 0.02;
/// Queues may change by this share of a stretch's frames, in and out: throughput is off by one percent at most,
const QUEUE_SHARE: f64 = 0.005;
/// or by so many frames: packets come and go in bursts.
const QUEUE_FRAMES: f64 = 4.0;
/// Where programs decide the pace, it may change by [`SHARE`], or by so many frames a microsecond: one in a millisecond.
const PACE: f64 = 0.001;

/// What makes a state steady.
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

/// What decides how many frames come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Load generators.
    Generators,
    /// Programs in nodes.
    Programs,
    /// There are none.
    Silent,
}

/// What is known of a criterion.
#[derive(Debug)]
struct Status {
    criterion: Criterion,
    met: Option<bool>,
    /// Since when it is met.
    since: Option<Ps>,
    seen: String,
}

impl Status {
    fn update(&mut self, now: Ps, met: Option<bool>, seen: String) {
        self.since = self.since.or(Some(now)).filter(|_| met == Some(true));
        (self.met, self.seen) = (met, seen);
    }
}

/// Looks at a system in a phase, and says whether it is steady.
#[derive(Debug)]
pub(crate) struct Watch {
    statuses: Vec<Status>,
    stretch_min: Ps,
    /// Whether stretches that differ become longer; queues that fill up are watched as closely to the end.
    grows: bool,
    /// How often the last stretches have differed since they are as long as they are.
    differed: usize,
    /// Whether misses are counted a frame; otherwise a thousand instructions.
    of_frames: bool,
    first: Seen,
    last: Seen,
    rings_round: bool,
    stretch: Stretch,
    /// At which look it began.
    stretch_began: u64,
    looks: u64,
    /// The last stretches, oldest first.
    done: VecDeque<Stretch>,
}

impl Watch {
    /// From this moment on: whether caches are steady, or queues. A stretch is longer than frames take over any link.
    pub fn begin(caches: bool, pace: Pace, longest_link: Ps, seen: Seen) -> Watch {
        let criteria: &[Criterion] = match (caches, pace) {
            (true, Pace::Silent) => &[Criterion::Caches],
            (true, Pace::Generators) => &[Criterion::Rings, Criterion::Buffers, Criterion::Caches],
            (true, Pace::Programs) => {
                &[Criterion::Rings, Criterion::Buffers, Criterion::Caches, Criterion::Pace]
            }
            // What then stands in queues is what programs let stand there.
            (false, Pace::Programs) => &[Criterion::Pace],
            (false, _) => &[Criterion::Queues],
        };
        let least = if caches || pace == Pace::Programs { STRETCH_OF_CACHES } else { STRETCH_MIN };
        let status = |criterion: &Criterion| Status {
            criterion: *criterion,
            met: None,
            since: None,
            seen: TOO_SHORT.to_owned(),
        };
        Watch {
            statuses: criteria.iter().map(status).collect(),
            stretch_min: Ps(longest_link.0.saturating_mul(4)).max(least),
            grows: caches || pace == Pace::Programs,
            differed: 0,
            of_frames: pace != Pace::Silent,
            rings_round: false,
            stretch: Stretch::begin(&seen, false),
            stretch_began: 0,
            looks: 0,
            done: VecDeque::new(),
            first: seen.clone(),
            last: seen,
        }
    }

    /// Looks until the system is steady or the limit has passed, or for so long as is said; none if that is no time. `run_to`
    /// runs the system to a time, and shows it.
    pub fn until_steady<E>(
        mut self,
        (length, limit): (Length, Ps),
        mut run_to: impl FnMut(Ps) -> Result<Seen, E>,
    ) -> Result<Option<SteadyPhase>, E> {
        let end = self.first.now.saturating_add(length.at_most(limit));
        while self.last.now < end && !(length == Length::Auto && self.is_steady()) {
            let before = self.last.now;
            self.look(run_to(self.next_look().min(end))?);
            // It has ended before its time.
            if self.last.now == before {
                break;
            }
        }
        Ok(length.is_some().then(|| self.end(length.to_string())))
    }

    /// Looks come at times of their own: a system may stop a little later.
    fn next_look(&self) -> Ps {
        self.first.now + Ps((self.looks + 1) * LOOK.0)
    }

    /// Takes a look.
    fn look(&mut self, seen: Seen) {
        self.look_at_rings(&seen);
        self.stretch.add(&self.last, &seen, self.of_frames);
        self.looks = seen.now.saturating_sub(self.first.now).0 / LOOK.0;
        self.last = seen;
        if self.stretch_is_over() {
            let next = Stretch::begin(&self.last, self.rings_round);
            self.stretch_began = self.looks;
            self.done.push_back(std::mem::replace(&mut self.stretch, next));
            if self.done.len() > STRETCHES {
                self.done.pop_front();
            }
            self.judge();
        }
    }

    /// Whether all criteria are met.
    fn is_steady(&self) -> bool {
        self.statuses.iter().all(|status| status.met == Some(true))
    }

    /// What came of a phase whose length was asked for in these words.
    fn end(self, asked: String) -> SteadyPhase {
        let since = |at: Ps| at.saturating_sub(self.first.now).as_secs_f64();
        let criterion = |status: Status| SteadyCriterion {
            name: status.criterion.name().to_owned(),
            met: status.met,
            seconds: status.since.map(since),
            seen: status.seen,
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

    fn look_at_rings(&mut self, seen: &Seen) {
        let rounds = seen.rounds_since(&self.first).reduce(f64::min);
        self.rings_round |= rounds.is_some_and(|rounds| rounds >= 1.0);
        let (round, now) = (self.rings_round, seen.now);
        let Some(status) = self.status(Criterion::Rings) else { return };
        let words = rounds
            .map_or_else(|| "no descriptor was used".to_owned(), |rounds| format!("{rounds:.2} rounds"));
        status.update(now, Some(round), words);
    }

    fn stretch_is_over(&self) -> bool {
        let length = Ps((self.looks - self.stretch_began) * LOOK.0);
        let looks_at_caches = self.statuses.iter().any(|status| status.criterion == Criterion::Caches);
        let enough = !looks_at_caches
            || self.stretch.base(self.of_frames) >= FRAMES_MIN
                && self.last.rounds_since(&self.stretch.begin).all(|rounds| rounds >= OF_A_ROUND);
        length >= self.stretch_min && enough || length >= STRETCH_MAX.max(self.stretch_min)
    }

    /// Looks at the last stretches.
    fn judge(&mut self) {
        let now = self.last.now;
        let new = self.done.iter().map(Stretch::new_buffers).fold(0.0, f64::max);
        let judgements = [
            (Criterion::Buffers, new <= NEW_BUFFERS, format!("{:.0} % of frames in new ones", new * 100.0)),
            self.judged(Criterion::Caches, misses_change),
            self.judged(Criterion::Queues, queues_change),
            self.judged(Criterion::Pace, pace_change),
        ];
        let enough = self.done.len() == STRETCHES;
        for (criterion, met, words) in judgements {
            // Fewer than all may be alike, and say nothing yet.
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

    /// Stretches that go on to differ may be too short for what the guest does now and then: longer ones have the same share of it.
    fn grow(&mut self) {
        self.differed = 0;
        self.stretch_min = Ps(self.stretch_min.0.saturating_mul(2));
        let mut pairs = VecDeque::new();
        while let (Some(first), Some(second)) = (self.done.pop_front(), self.done.pop_front()) {
            pairs.push_back(first.plus(second));
        }
        self.done = pairs;
    }

    /// Whether what is looked at is the same over the last stretches.
    fn judged(
        &self,
        criterion: Criterion,
        change: fn(&[&Stretch]) -> (f64, String),
    ) -> (Criterion, bool, String) {
        let done: Vec<&Stretch> = self.done.iter().collect();
        if self.of_frames && criterion != Criterion::Queues && done.iter().any(|stretch| stretch.frames == 0)
        {
            return (criterion, false, "no frames came".to_owned());
        }
        let (excess, words) = change(&done);
        let turns = self.statuses.iter().any(|status| status.criterion == Criterion::Rings);
        let cold = turns && criterion == Criterion::Caches && done.iter().any(|stretch| !stretch.rings_round);
        (criterion, excess <= 1.0 && !cold, words)
    }
}

#[cfg(test)]
mod tests;
