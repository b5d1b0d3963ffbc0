//! A search on several cores. With more than one job, trials that may be asked for next are begun ahead; the answer is built
//! only of those that are asked for, in the order in which one job would have made them. A trial that is no longer
//! wanted is stopped as soon as its core is needed.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use doorbell_sim::Ps;

use super::System;
use super::goal::Goal;
use super::judge::{Judged, Lengths, Verdict, judge, least_frames};
use super::next::{Answer, Bracket, Next, Seen, between, next, speculate};

/// How often the user's wish to stop is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// A trial that the answer is built of.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome<R> {
    /// Frames offered a second.
    pub rate: u64,
    /// What it said.
    pub judged: Judged,
    /// What else it left.
    pub remains: R,
    /// Host time.
    pub host_seconds: f64,
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Found<R> {
    /// The interval.
    pub answer: Answer,
    /// The trials, in the order in which they were asked for.
    pub trials: Vec<Outcome<R>>,
    /// What was spent on trials that were begun ahead and not asked for.
    pub ahead: Cost,
}

/// What trials cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// How many.
    pub trials: u64,
    /// Their simulated time, as far as they came to an end.
    pub simulated: Ps,
    /// Their host time, summed over cores.
    pub host_seconds: f64,
}

/// What happens on the way.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A trial was begun; perhaps ahead of the time when it is known to be needed.
    Began(u64),
    /// A trial said something; it is the nth that the answer is built of.
    Said(usize, u64, &'a Judged),
    /// So the answer is between these rates, of which the lower met the goal and the higher missed it, as far as there are such.
    Open(Option<u64>, Option<u64>),
    /// There is an answer, and no further trial.
    Found(&'a Answer),
}

type Judgement<S> = Result<Outcome<<S as System>::Remains>, <S as System>::Error>;

/// What a thread says at its end.
struct Message<S: System> {
    rate: u64,
    host_seconds: f64,
    /// An error if the thread panicked.
    judgement: std::thread::Result<Judgement<S>>,
}

/// What is sought, as a trial must know it.
struct Task<'a> {
    bracket: &'a Bracket,
    goal: &'a Goal,
    least_frames: u64,
}

/// Finds the highest rate that meets a goal. `frames` is the least number of a window, if it is not to follow from the goal.
/// There is no answer if the search was `interrupted`.
pub fn search<S: System>(
    system: &S,
    bracket: &Bracket,
    goal: &Goal,
    frames: Option<u64>,
    jobs: usize,
    interrupted: &AtomicBool,
    tell: &mut dyn FnMut(Event),
) -> Result<Option<Found<S::Remains>>, S::Error> {
    let task = Task { bracket, goal, least_frames: frames.unwrap_or_else(|| least_frames(goal)) };
    let (sender, receiver) = mpsc::channel();
    let mut pool = Pool { done: BTreeMap::new(), running: BTreeMap::new(), ahead: Cost::default() };
    let (mut seen, mut trials) = (Vec::new(), Vec::new());
    let answer = std::thread::scope(|scope| {
        let answer = loop {
            let rate = match next(bracket, goal, &seen) {
                Next::Done(answer) => {
                    tell(Event::Found(&answer));
                    break Ok(Some(answer));
                }
                Next::Try(rate) => rate,
            };
            if let Some(judgement) = pool.done.remove(&rate) {
                let outcome = match judgement {
                    Ok(outcome) => outcome,
                    Err(error) => break Err(error),
                };
                tell(Event::Said(trials.len() + 1, rate, &outcome.judged));
                seen.push(outcome.seen(goal, system.due(rate)));
                let (low, high) = between(&seen);
                tell(Event::Open(low, high.map(|high| high.rate)));
                trials.push(outcome);
                continue;
            }
            let wanted = speculate(bracket, goal, &seen, jobs.max(1));
            if let Some(stop) = pool.make_room(&wanted, jobs.max(1)) {
                stop.store(true, Ordering::Relaxed);
            }
            for rate in pool.to_begin(&wanted, jobs.max(1)) {
                tell(Event::Began(rate));
                let stop = Arc::new(AtomicBool::new(false));
                pool.running.insert(rate, Arc::clone(&stop));
                let (sender, task) = (sender.clone(), &task);
                scope.spawn(move || {
                    let since = Instant::now();
                    let one = || one_trial(system, task, rate, &stop);
                    let judgement = std::panic::catch_unwind(AssertUnwindSafe(one));
                    let host_seconds = since.elapsed().as_secs_f64();
                    // Nobody listens any more once the answer is known.
                    let _ = sender.send(Message::<S> { rate, host_seconds, judgement });
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
    Ok(answer.map(|answer| Found { answer, trials, ahead: pool.all_ahead() }))
}

fn one_trial<S: System>(system: &S, task: &Task, rate: u64, stop: &AtomicBool) -> Judgement<S> {
    let since = Instant::now();
    let precision = task.bracket.precision;
    let queues = system.queues(rate);
    let lengths = Lengths::new(rate, task.least_frames, queues.before_loss, precision);
    let lengths = Lengths { due: system.due(rate), ..lengths };
    let trial = system.begin(rate, stop)?;
    let (judged, remains) = judge(trial, task.goal, precision, &lengths, queues.at_most)?;
    Ok(Outcome { rate, judged, remains, host_seconds: since.elapsed().as_secs_f64() })
}

impl<R> Outcome<R> {
    /// As the search sees it. Of so many frames that were `due`, the rate is a part where there are several ports: so is what was delivered.
    fn seen(&self, goal: &Goal, due: u64) -> Seen {
        let part = self.rate as f64 / due.max(1) as f64;
        let (account, verdict) = (&self.judged.account, self.judged.verdict);
        let late = verdict == Verdict::Above && self.judged.loss <= goal.loss;
        let seconds = account.window.as_secs_f64();
        let delivered = if seconds > 0.0 { account.arrived as f64 / seconds * part } else { 0.0 };
        Seen { rate: self.rate, verdict, delivered, late }
    }
}

/// The trials that run, and those that have said something and were not asked for yet.
struct Pool<S: System> {
    done: BTreeMap<u64, Judgement<S>>,
    /// By rate, the flag that stops it.
    running: BTreeMap<u64, Arc<AtomicBool>>,
    ahead: Cost,
}

impl<S: System> Pool<S> {
    fn is_there(&self, rate: u64) -> bool {
        self.done.contains_key(&rate) || self.running.contains_key(&rate)
    }

    /// If the trial that is wanted first has no room, one that nobody wants must make it.
    fn make_room(&mut self, wanted: &[u64], jobs: usize) -> Option<Arc<AtomicBool>> {
        let first = wanted.first()?;
        if self.is_there(*first) || self.running.len() < jobs {
            return None;
        }
        let unwanted = self.running.keys().copied().find(|rate| !wanted.contains(rate));
        let last =
            unwanted.or_else(|| wanted.iter().rev().copied().find(|rate| self.running.contains_key(rate)))?;
        self.running.remove(&last)
    }

    fn to_begin(&self, wanted: &[u64], jobs: usize) -> Vec<u64> {
        let room = jobs.saturating_sub(self.running.len());
        wanted.iter().copied().filter(|rate| !self.is_there(*rate)).take(room).collect()
    }

    fn ended(&mut self, message: Message<S>) {
        let judgement = match message.judgement {
            Ok(judgement) => judgement,
            Err(panic) => {
                self.running.values().for_each(|stop| stop.store(true, Ordering::Relaxed));
                std::panic::resume_unwind(panic);
            }
        };
        if self.running.remove(&message.rate).is_some() {
            self.done.insert(message.rate, judgement);
        } else {
            // It was stopped.
            self.ahead.trials += 1;
            self.ahead.host_seconds += message.host_seconds;
        }
    }

    fn all_ahead(self) -> Cost {
        let mut ahead = self.ahead;
        for outcome in self.done.into_values().flatten() {
            ahead.trials += 1;
            ahead.simulated += outcome.judged.account.simulated;
            ahead.host_seconds += outcome.host_seconds;
        }
        ahead
    }
}
