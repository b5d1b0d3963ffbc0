//! A search on several cores. With more than one job, trials that may be needed next are started
//! speculatively. The answer uses only the trials that are actually requested, in the order in which one job
//! would run them. A trial that is no longer needed is stopped as soon as its core is needed.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use doorbell_sim::Ps;

use super::System;
use super::goal::Goal;
use super::judge::{Judgment, Lengths, Verdict, judge, least_frames};
use super::next::{Answer, Bracket, Next, TrialResult, between, next, speculate};

/// Interval between checks of the user's interrupt.
const LOOK: Duration = Duration::from_millis(50);

/// A trial that contributes to the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome<R> {
    /// Frames offered per second.
    pub rate: u64,
    /// Its result.
    pub judgment: Judgment,
    /// Data returned in addition to the result.
    pub summary: R,
    /// Host time.
    pub host_seconds: f64,
}

/// Result of a search.
#[derive(Clone, Debug)]
pub struct SearchResult<R> {
    /// The interval.
    pub answer: Answer,
    /// The trials, in the order in which they were requested.
    pub trials: Vec<Outcome<R>>,
    /// Cost of trials that were started speculatively and not requested.
    pub ahead: Cost,
}

/// Cost of trials.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Number of trials.
    pub trials: u64,
    /// Their simulated time; stopped trials are not included.
    pub simulated: Ps,
    /// Their host time, summed over cores.
    pub host_seconds: f64,
}

/// Progress of a search.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A trial at this rate was started, possibly speculatively.
    Started(u64),
    /// A trial was decided: its number among those that contribute to the answer, its rate and its result.
    Judged(usize, u64, &'a Judgment),
    /// The interval after a trial: the highest rate that met the goal and the lowest that missed it, if there
    /// are any.
    Interval(Option<u64>, Option<u64>),
    /// The search is finished.
    Finished,
}

type TrialOutcome<S> = Result<Outcome<<S as System>::Summary>, <S as System>::Error>;

/// Result that a trial's thread sends when it ends.
struct Message<S: System> {
    rate: u64,
    host_seconds: f64,
    /// An error if the thread panicked.
    outcome: std::thread::Result<TrialOutcome<S>>,
}

/// Parameters of a search that each trial needs.
struct Task<'a> {
    bracket: &'a Bracket,
    goal: &'a Goal,
    least_frames: u64,
}

/// Finds the highest rate that meets a goal. `frames` overrides the minimum number of frames per window that
/// the goal needs. Returns `None` if the search was `interrupted`.
pub fn search<S: System>(
    system: &S,
    bracket: &Bracket,
    goal: &Goal,
    frames: Option<u64>,
    jobs: usize,
    interrupted: &AtomicBool,
    tell: &mut dyn FnMut(Event),
) -> Result<Option<SearchResult<S::Summary>>, S::Error> {
    let task = Task { bracket, goal, least_frames: frames.unwrap_or_else(|| least_frames(goal)) };
    let (sender, receiver) = mpsc::channel();
    let mut pool = Pool { done: BTreeMap::new(), running: BTreeMap::new(), ahead: Cost::default() };
    let (mut results, mut trials) = (Vec::new(), Vec::new());
    let answer = std::thread::scope(|scope| {
        let answer = loop {
            let rate = match next(bracket, goal, &results) {
                Next::Done(answer) => {
                    tell(Event::Finished);
                    break Ok(Some(answer));
                }
                Next::Try(rate) => rate,
            };
            if let Some(outcome) = pool.done.remove(&rate) {
                let outcome = match outcome {
                    Ok(outcome) => outcome,
                    Err(error) => break Err(error),
                };
                tell(Event::Judged(trials.len() + 1, rate, &outcome.judgment));
                results.push(outcome.result(goal, system.due(rate)));
                let (low, high) = between(&results);
                tell(Event::Interval(low, high.map(|high| high.rate)));
                trials.push(outcome);
                continue;
            }
            let wanted = speculate(bracket, goal, &results, jobs.max(1));
            if let Some(stop) = pool.make_room(&wanted, jobs.max(1)) {
                stop.store(true, Ordering::Relaxed);
            }
            for rate in pool.to_start(&wanted, jobs.max(1)) {
                tell(Event::Started(rate));
                let stop = Arc::new(AtomicBool::new(false));
                pool.running.insert(rate, Arc::clone(&stop));
                let (sender, task) = (sender.clone(), &task);
                scope.spawn(move || {
                    let since = Instant::now();
                    let one = || one_trial(system, task, rate, &stop);
                    let outcome = std::panic::catch_unwind(AssertUnwindSafe(one));
                    let host_seconds = since.elapsed().as_secs_f64();
                    // The receiver no longer reads once the answer is complete.
                    let _ = sender.send(Message::<S> { rate, host_seconds, outcome });
                });
            }
            match receiver.recv_timeout(LOOK) {
                Ok(message) => pool.ended(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("this thread holds a sender"),
            }
            if interrupted.load(Ordering::Relaxed) {
                break Ok(None);
            }
        };
        pool.running.values().for_each(|stop| stop.store(true, Ordering::Relaxed));
        answer
    })?;
    receiver.try_iter().for_each(|message| pool.ended(message));
    Ok(answer.map(|answer| SearchResult { answer, trials, ahead: pool.speculative_cost() }))
}

fn one_trial<S: System>(system: &S, task: &Task, rate: u64, stop: &AtomicBool) -> TrialOutcome<S> {
    let since = Instant::now();
    let precision = task.bracket.precision;
    let queues = system.queues(rate);
    let lengths = Lengths::new(rate, task.least_frames, queues.before_loss, precision);
    let lengths = Lengths { due: system.due(rate), ..lengths };
    let trial = system.begin(rate, stop)?;
    let (judgment, summary) = judge(trial, task.goal, precision, &lengths, queues.at_most)?;
    Ok(Outcome { rate, judgment, summary, host_seconds: since.elapsed().as_secs_f64() })
}

impl<R> Outcome<R> {
    /// The trial as the search uses it. With several ports, `due` is the total of all ports; the delivered
    /// rate is scaled to the rate of one port.
    fn result(&self, goal: &Goal, due: u64) -> TrialResult {
        let part = self.rate as f64 / due.max(1) as f64;
        let (account, verdict) = (&self.judgment.account, self.judgment.verdict);
        let late = verdict == Verdict::Above && self.judgment.loss <= goal.loss;
        let seconds = account.window.as_secs_f64();
        let delivered = if seconds > 0.0 { account.arrived as f64 / seconds * part } else { 0.0 };
        TrialResult { rate: self.rate, verdict, delivered, late }
    }
}

/// The running trials, and the finished ones that were not requested yet.
struct Pool<S: System> {
    done: BTreeMap<u64, TrialOutcome<S>>,
    /// The stop flag of each trial, by rate.
    running: BTreeMap<u64, Arc<AtomicBool>>,
    ahead: Cost,
}

impl<S: System> Pool<S> {
    fn contains(&self, rate: u64) -> bool {
        self.done.contains_key(&rate) || self.running.contains_key(&rate)
    }

    /// If there is no free core for the trial that is needed first, selects a trial to stop, preferably one
    /// that is not needed.
    fn make_room(&mut self, wanted: &[u64], jobs: usize) -> Option<Arc<AtomicBool>> {
        let first = wanted.first()?;
        if self.contains(*first) || self.running.len() < jobs {
            return None;
        }
        let unwanted = self.running.keys().copied().find(|rate| !wanted.contains(rate));
        let last =
            unwanted.or_else(|| wanted.iter().rev().copied().find(|rate| self.running.contains_key(rate)))?;
        self.running.remove(&last)
    }

    fn to_start(&self, wanted: &[u64], jobs: usize) -> Vec<u64> {
        let room = jobs.saturating_sub(self.running.len());
        wanted.iter().copied().filter(|rate| !self.contains(*rate)).take(room).collect()
    }

    fn ended(&mut self, message: Message<S>) {
        let outcome = match message.outcome {
            Ok(outcome) => outcome,
            Err(panic) => {
                self.running.values().for_each(|stop| stop.store(true, Ordering::Relaxed));
                std::panic::resume_unwind(panic);
            }
        };
        if self.running.remove(&message.rate).is_some() {
            self.done.insert(message.rate, outcome);
        } else {
            // It was stopped.
            self.ahead.trials += 1;
            self.ahead.host_seconds += message.host_seconds;
        }
    }

    fn speculative_cost(self) -> Cost {
        let mut ahead = self.ahead;
        for outcome in self.done.into_values().flatten() {
            ahead.trials += 1;
            ahead.simulated += outcome.judgment.account.simulated;
            ahead.host_seconds += outcome.host_seconds;
        }
        ahead
    }
}
