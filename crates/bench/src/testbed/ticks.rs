//! Ticks of the guest's timer before a measurement.
//!
//! The code and data of a timer interrupt are seldom used. The first tick that finds them cold stalls a core for 10 to 20 µs, which at
//! a high load costs a backlog of hundreds of microseconds. So a warm-up whose length is `auto` goes on until each hart has taken
//! [`TICKS`] timer interrupts in it. A hart without a timer set, or whose next one is due later than [`WAIT_MAX`] (a kernel that stops
//! its tick, bare metal), is not waited for. A warm-up of a given length lasts as long as it says, and is judged all the same.

use doorbell_machine::{Machine, Mode};
use doorbell_results::{SteadyCriterion, SteadyPhase};
use doorbell_sim::Ps;

use crate::plan::length::Length;
use crate::testbed::steady::{Seen, Watch};

/// The first finds all of it cold; the second shows that it is warm.
const TICKS: u64 = 2;
/// A tick of Linux comes after 10 ms at most (CONFIG_HZ=100).
const WAIT_MAX: Ps = Ps::from_ms(10);
/// How long a tick that is due may take to be seen.
const STEP: Ps = Ps::from_us(20);
const NAME: &str = "ticks";

/// A hart's timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    /// Interrupts of it that were taken.
    ticks: u64,
    /// When it is due next.
    due: Option<Ps>,
}

/// The timers of the measured harts of those machines whose caches warm up.
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

/// What ticks have come in a warm-up.
#[derive(Debug)]
pub(crate) struct Ticks {
    begun: Ps,
    first: Vec<Timer>,
    last: Vec<Timer>,
    now: Ps,
    /// When every hart had its ticks.
    since: Option<Ps>,
}

impl Ticks {
    pub fn begin(now: Ps, timers: Vec<Timer>) -> Ticks {
        Ticks { begun: now, last: timers.clone(), first: timers, now, since: None }
    }

    /// Takes a look.
    pub fn look(&mut self, now: Ps, timers: Vec<Timer>) {
        (self.now, self.last) = (now, timers);
        if self.since.is_none() && self.counts().all(|count| count >= TICKS) {
            self.since = Some(now);
        }
    }

    /// Ticks of each hart since the begin.
    fn counts(&self) -> impl Iterator<Item = u64> {
        self.last.iter().zip(&self.first).map(|(now, begin)| now.ticks - begin.ticks)
    }

    /// Up to when the warm-up has to go on for a tick that is missing, within so much time after its begin; `None` if there is none to wait
    /// for.
    fn wait_until(&self, limit: Ps) -> Option<Ps> {
        let end = self.begun.saturating_add(limit);
        let missing = self.last.iter().zip(self.counts()).filter(|(_, count)| *count < TICKS);
        let due = missing.filter_map(|(timer, _)| timer.due).min()?;
        let at = due.max(self.now).saturating_add(STEP);
        (due <= self.now.saturating_add(WAIT_MAX) && at <= end).then_some(at)
    }

    /// Goes on until the ticks that are missing have come, within so much time after the begin.
    fn wait<E>(
        &mut self,
        limit: Ps,
        mut run_to: impl FnMut(Ps) -> Result<(Seen, Vec<Timer>), E>,
    ) -> Result<(), E> {
        while let Some(time) = self.wait_until(limit) {
            let before = self.now;
            let (seen, timers) = run_to(time)?;
            self.look(seen.now, timers);
            // It has ended before its time.
            if self.now == before {
                break;
            }
        }
        Ok(())
    }

    /// Adds to a phase whether it has had the ticks, if any hart has a timer.
    pub fn judge(&self, phase: &mut SteadyPhase) {
        let own = self.last.iter().zip(self.counts());
        let ticking = |(timer, count): (&Timer, u64)| (count > 0 || timer.due.is_some()).then_some(count);
        let Some(fewest) = own.filter_map(ticking).min() else { return };
        // A timer that is due long after is no tick.
        let stopped = |(timer, count): (&Timer, u64)| {
            count >= TICKS || timer.due.is_none_or(|due| due > self.now.saturating_add(WAIT_MAX))
        };
        let met = self.last.iter().zip(self.counts()).all(stopped);
        phase.seconds = self.now.saturating_sub(self.begun).as_secs_f64().max(phase.seconds);
        phase.criteria.push(SteadyCriterion {
            name: NAME.to_owned(),
            met: Some(met),
            seconds: self.since.filter(|_| met).map(|at| at.saturating_sub(self.begun).as_secs_f64()),
            seen: match fewest {
                1 => "1 tick of the guest's timer".to_owned(),
                fewest => format!("{fewest} ticks of the guest's timer"),
            },
        });
    }
}

/// A phase before a measurement: until the system is steady and, where they are looked for, the ticks have come, or for as long as it is
/// said. `run_to` runs the system to a time.
pub(crate) fn until_ready<E>(
    watch: Watch,
    ticks: Option<Ticks>,
    length: (Length, Ps),
    mut run_to: impl FnMut(Ps) -> Result<(Seen, Vec<Timer>), E>,
) -> Result<Option<SteadyPhase>, E> {
    let Some(mut ticks) = ticks else { return watch.until_steady(length, |time| Ok(run_to(time)?.0)) };
    let mut look = |time: Ps| -> Result<Seen, E> {
        let (seen, timers) = run_to(time)?;
        ticks.look(seen.now, timers);
        Ok(seen)
    };
    let Some(mut phase) = watch.until_steady(length, &mut look)? else { return Ok(None) };
    if length.0 == Length::Auto {
        ticks.wait(length.1, run_to)?;
    }
    ticks.judge(&mut phase);
    Ok(Some(phase))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Ps = Ps::from_ms;

    fn timer(ticks: u64, due: u64) -> Timer {
        Timer { ticks, due: Some(MS(due)) }
    }

    fn judged(ticks: &Ticks) -> Option<(bool, String)> {
        let mut phase = SteadyPhase { asked: "auto".to_owned(), seconds: 0.0, criteria: Vec::new() };
        ticks.judge(&mut phase);
        phase.criteria.pop().map(|criterion| (criterion.met == Some(true), criterion.seen))
    }

    #[test]
    fn a_warm_up_waits_for_the_second_tick_of_every_hart_and_no_longer() {
        let mut ticks = Ticks::begin(MS(0), vec![timer(7, 3), timer(100, 1)]);
        assert_eq!(ticks.wait_until(MS(100)), Some(MS(1) + STEP));
        ticks.look(MS(5), vec![timer(8, 7), timer(102, 9)]);
        // The second hart has had its two.
        assert_eq!(ticks.wait_until(MS(100)), Some(MS(7) + STEP));
        assert_eq!(judged(&ticks), Some((false, "1 tick of the guest's timer".to_owned())));
        ticks.look(MS(7), vec![timer(9, 11), timer(102, 9)]);
        assert_eq!((ticks.wait_until(MS(100)), ticks.since), (None, Some(MS(7))));
        assert_eq!(judged(&ticks), Some((true, "2 ticks of the guest's timer".to_owned())));
    }

    #[test]
    fn it_ends_at_its_limit() {
        let ticks = Ticks::begin(MS(0), vec![timer(0, 3)]);
        assert_eq!(ticks.wait_until(MS(3)), None, "the tick would be seen after it");
        assert_eq!(ticks.wait_until(MS(4)), Some(MS(3) + STEP));
    }

    #[test]
    fn a_guest_whose_timer_is_not_set_or_stopped_is_not_waited_for() {
        let none = Ticks::begin(MS(0), vec![Timer { ticks: 5, due: None }]);
        assert_eq!((none.wait_until(MS(100)), judged(&none)), (None, None));
        let far = Ticks::begin(MS(0), vec![timer(5, 11)]);
        assert_eq!(far.wait_until(MS(100)), None);
        assert_eq!(judged(&far).map(|(met, _)| met), Some(true));
        // One that is due and is not taken, as interrupts are masked, is waited for step by step, to the limit.
        let mut masked = Ticks::begin(MS(0), vec![timer(5, 0)]);
        let mut steps = 0;
        while let Some(at) = masked.wait_until(MS(1)) {
            masked.look(at, vec![timer(5, 0)]);
            steps += 1;
        }
        assert_eq!(steps, 50);
    }
}
