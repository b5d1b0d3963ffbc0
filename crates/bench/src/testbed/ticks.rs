//! Ticks of the guest's timer before a measurement.
//!
//! The code and data of the timer interrupt are rarely used. The first tick with cold caches stalls a core
//! for 10 to 20 µs, which at a high load causes a backlog of hundreds of microseconds. A warm-up of length
//! `auto` therefore lasts until each hart has taken [`TICKS`] timer interrupts during it. Harts without a
//! pending timer, or whose timer is due later than [`WAIT_MAX`] (tickless kernel, bare metal), are not waited
//! for. A warm-up of fixed length is not extended, but the criterion is evaluated too.

use doorbell_machine::{Machine, Mode};
use doorbell_results::{SteadyCriterion, SteadyPhase};
use doorbell_sim::Ps;

use crate::plan::length::Length;
use crate::testbed::steady::{Sample, Watch};

/// Timer interrupts per hart: the first has cold caches, the second shows that they are warm.
const TICKS: u64 = 2;
/// Maximum time to the next tick: 10 ms with CONFIG_HZ=100, the longest tick of Linux.
const WAIT_MAX: Ps = Ps::from_ms(10);
/// Time between a timer's deadline and the check that its interrupt was taken.
const STEP: Ps = Ps::from_us(20);
const NAME: &str = "ticks";

/// A hart's timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    /// Timer interrupts taken so far.
    ticks: u64,
    /// The next deadline, if one is set.
    due: Option<Ps>,
}

/// Timers of the measured harts of all machines that do not run functionally.
pub(crate) fn timers<'a>(machines: impl IntoIterator<Item = &'a Machine>) -> Vec<Timer> {
    let warming = machines.into_iter().filter(|machine| machine.mode() != Mode::Functional);
    let of_machine = |machine: &'a Machine| {
        (0..machine.measured_harts).map(|hart| Timer {
            ticks: machine.harts()[hart].stats().timer_interrupts,
            due: machine.timer_due_at(hart),
        })
    };
    warming.flat_map(of_machine).collect()
}

/// Timer ticks during a warm-up.
#[derive(Debug)]
pub(crate) struct Ticks {
    start: Ps,
    first: Vec<Timer>,
    last: Vec<Timer>,
    now: Ps,
    /// Time at which every hart had its ticks.
    since: Option<Ps>,
}

impl Ticks {
    pub fn begin(now: Ps, timers: Vec<Timer>) -> Ticks {
        Ticks { start: now, last: timers.clone(), first: timers, now, since: None }
    }

    /// Adds a sample.
    pub fn add_sample(&mut self, now: Ps, timers: Vec<Timer>) {
        (self.now, self.last) = (now, timers);
        if self.since.is_none() && self.counts().all(|count| count >= TICKS) {
            self.since = Some(now);
        }
    }

    /// Ticks of each hart since the warm-up began.
    fn counts(&self) -> impl Iterator<Item = u64> {
        self.last.iter().zip(&self.first).map(|(now, begin)| now.ticks - begin.ticks)
    }

    /// Time to which the warm-up must run for the next missing tick; `None` if there is no tick to wait for.
    /// The whole warm-up takes at most `limit`.
    fn wait_until(&self, limit: Ps) -> Option<Ps> {
        let end = self.start.saturating_add(limit);
        let missing = self.last.iter().zip(self.counts()).filter(|(_, count)| *count < TICKS);
        let due = missing.filter_map(|(timer, _)| timer.due).min()?;
        let at = due.max(self.now).saturating_add(STEP);
        (due <= self.now.saturating_add(WAIT_MAX) && at <= end).then_some(at)
    }

    /// Runs until the missing ticks have occurred. The whole warm-up takes at most `limit`.
    fn wait<E>(
        &mut self,
        limit: Ps,
        mut run_to: impl FnMut(Ps) -> Result<(Sample, Vec<Timer>), E>,
    ) -> Result<(), E> {
        while let Some(time) = self.wait_until(limit) {
            let before = self.now;
            let (sample, timers) = run_to(time)?;
            self.add_sample(sample.now, timers);
            // The system has ended early.
            if self.now == before {
                break;
            }
        }
        Ok(())
    }

    /// Adds the criterion to a phase, if any hart has a timer.
    pub fn add_criterion(&self, phase: &mut SteadyPhase) {
        let own = self.last.iter().zip(self.counts());
        let ticking = |(timer, count): (&Timer, u64)| (count > 0 || timer.due.is_some()).then_some(count);
        let Some(fewest) = own.filter_map(ticking).min() else { return };
        // A timer with a far deadline is not the periodic tick.
        let stopped = |(timer, count): (&Timer, u64)| {
            count >= TICKS || timer.due.is_none_or(|due| due > self.now.saturating_add(WAIT_MAX))
        };
        let met = self.last.iter().zip(self.counts()).all(stopped);
        phase.seconds = self.now.saturating_sub(self.start).as_secs_f64().max(phase.seconds);
        phase.criteria.push(SteadyCriterion {
            name: NAME.to_owned(),
            met: Some(met),
            seconds: self.since.filter(|_| met).map(|at| at.saturating_sub(self.start).as_secs_f64()),
            seen: match fewest {
                1 => "1 tick of the guest's timer".to_owned(),
                fewest => format!("{fewest} ticks of the guest's timer"),
            },
        });
    }
}

/// Runs a phase before a measurement: for a fixed length, or until the system is steady and the ticks (if any
/// are given) have occurred. `run_to` runs the system to a time and returns samples.
pub(crate) fn until_ready<E>(
    watch: Watch,
    ticks: Option<Ticks>,
    length: Length,
    limit: Ps,
    mut run_to: impl FnMut(Ps) -> Result<(Sample, Vec<Timer>), E>,
) -> Result<Option<SteadyPhase>, E> {
    let Some(mut ticks) = ticks else { return watch.until_steady(length, limit, |time| Ok(run_to(time)?.0)) };
    let mut run_and_sample = |time: Ps| -> Result<Sample, E> {
        let (sample, timers) = run_to(time)?;
        ticks.add_sample(sample.now, timers);
        Ok(sample)
    };
    let Some(mut phase) = watch.until_steady(length, limit, &mut run_and_sample)? else { return Ok(None) };
    if length == Length::Auto {
        ticks.wait(limit, run_to)?;
    }
    ticks.add_criterion(&mut phase);
    Ok(Some(phase))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Ps = Ps::from_ms;

    fn timer(ticks: u64, due: u64) -> Timer {
        Timer { ticks, due: Some(MS(due)) }
    }

    fn criterion(ticks: &Ticks) -> Option<(bool, String)> {
        let mut phase = SteadyPhase { asked: "auto".to_owned(), seconds: 0.0, criteria: Vec::new() };
        ticks.add_criterion(&mut phase);
        phase.criteria.pop().map(|criterion| (criterion.met == Some(true), criterion.seen))
    }

    #[test]
    fn warm_up_ends_at_the_second_tick_of_every_hart() {
        let mut ticks = Ticks::begin(MS(0), vec![timer(7, 3), timer(100, 1)]);
        assert_eq!(ticks.wait_until(MS(100)), Some(MS(1) + STEP));
        ticks.add_sample(MS(5), vec![timer(8, 7), timer(102, 9)]);
        // The second hart has had both ticks.
        assert_eq!(ticks.wait_until(MS(100)), Some(MS(7) + STEP));
        assert_eq!(criterion(&ticks), Some((false, "1 tick of the guest's timer".to_owned())));
        ticks.add_sample(MS(7), vec![timer(9, 11), timer(102, 9)]);
        assert_eq!((ticks.wait_until(MS(100)), ticks.since), (None, Some(MS(7))));
        assert_eq!(criterion(&ticks), Some((true, "2 ticks of the guest's timer".to_owned())));
    }

    #[test]
    fn wait_ends_at_the_limit() {
        let ticks = Ticks::begin(MS(0), vec![timer(0, 3)]);
        assert_eq!(ticks.wait_until(MS(3)), None, "the check of the tick is after the limit");
        assert_eq!(ticks.wait_until(MS(4)), Some(MS(3) + STEP));
    }

    #[test]
    fn harts_without_a_near_timer_deadline_are_not_waited_for() {
        let none = Ticks::begin(MS(0), vec![Timer { ticks: 5, due: None }]);
        assert_eq!((none.wait_until(MS(100)), criterion(&none)), (None, None));
        let far = Ticks::begin(MS(0), vec![timer(5, 11)]);
        assert_eq!(far.wait_until(MS(100)), None);
        assert_eq!(criterion(&far).map(|(met, _)| met), Some(true));
        // A due interrupt that is not taken, because interrupts are masked, is checked every step up to the
        // limit.
        let mut masked = Ticks::begin(MS(0), vec![timer(5, 0)]);
        let mut steps = 0;
        while let Some(at) = masked.wait_until(MS(1)) {
            masked.add_sample(at, vec![timer(5, 0)]);
            steps += 1;
        }
        assert_eq!(steps, 50);
    }
}
