//! How a long piece of work is watched and interrupted.

use std::sync::atomic::{AtomicBool, Ordering};

use doorbell_machine::{Limits, Machine, Network, NetworkOutcome, Outcome};
use doorbell_sim::Ps;

use crate::error::RunError;
use crate::testbed::corunners;
use crate::testbed::m5::{M5Next, M5Ops};

/// Console lines quoted in an error.
pub(crate) const LINES_SHOWN: usize = 12;
/// Instructions between looks at the clock, at Ctrl-C and at the progress display.
pub(crate) const SLICE_INSTRUCTIONS: u64 = 20_000_000;
/// The same in simulated time: a guest that traps without end retires no instructions.
pub(crate) const SLICE_TIME: Ps = Ps::from_ms(20);

/// The same for a network, most of whose nodes run side by side.
const NETWORK_SLICE_TIME: Ps = Ps::from_ms(5);

/// What is under way, and how far it is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// What is being done, in a word or two.
    pub stage: &'static str,
    /// Which share of it is done, if that is known.
    pub share: Option<f64>,
    /// How many instructions have been executed since the machine's reset.
    pub instructions: u64,
    /// The simulated time.
    pub now: Ps,
}

impl Progress {
    /// What is under way and which share of it is done, if that is known.
    pub fn in_short(&self) -> String {
        match self.share {
            Some(share) => format!("{}, {:.0} %", self.stage, share * 100.0),
            None => self.stage.to_owned(),
        }
    }
}

/// A part of the work: booting, warming up, measuring.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stage {
    name: &'static str,
    /// From where to where, if the end is known: in picoseconds, or in instructions of what is played.
    span: Option<(u64, u64)>,
    /// Whether it ends elsewhere, perhaps: the end is where the last one of its kind had its own.
    is_likely: bool,
}

impl Stage {
    /// What begins at a simulated time, and takes so long if that is known.
    pub fn new(name: &'static str, now: Ps, length: Option<Ps>) -> Stage {
        let span = length.map(|length| (now.0, now.saturating_add(length).0));
        Stage { name, span, is_likely: false }
    }

    /// The same of what is likely to take as long as the last one of its kind, if there was one.
    pub fn likely(name: &'static str, now: Ps, last: Option<Ps>) -> Stage {
        Stage { is_likely: true, ..Stage::new(name, now, last) }
    }

    /// How far it is; `at` is where it is in its own measure.
    fn progress(&self, at: u64, instructions: u64, now: Ps) -> Progress {
        let done =
            |(from, to): (u64, u64)| at.saturating_sub(from) as f64 / to.saturating_sub(from).max(1) as f64;
        let share = self.span.map(done).filter(|share| *share <= 1.0 || !self.is_likely);
        Progress { stage: self.name, share: share.map(|share| share.min(1.0)), instructions, now }
    }

    /// How far it is in simulated time.
    pub fn at(&self, instructions: u64, now: Ps) -> Progress {
        self.progress(now.0, instructions, now)
    }
}

/// How a long piece of work reports and is interrupted.
pub struct Control<'a> {
    /// Set when the user wants to stop.
    pub interrupted: &'a AtomicBool,
    /// Told in a few words what is going on.
    pub say: &'a mut dyn FnMut(&str),
    /// Told how far the work is.
    pub progress: &'a mut dyn FnMut(&Progress),
    /// What is under way.
    pub stage: Stage,
    /// Does what the guest asks by m5ops; without it they are ignored.
    pub m5: Option<&'a mut M5Ops>,
}

impl Control<'_> {
    /// Does work of which nothing is told, and which this interrupts.
    pub fn quietly<R>(interrupted: &AtomicBool, work: impl FnOnce(&mut Control) -> R) -> R {
        work(&mut Control {
            interrupted,
            say: &mut |_| {},
            progress: &mut |_| {},
            stage: Stage::default(),
            m5: None,
        })
    }

    pub(crate) fn check(&self) -> Result<(), RunError> {
        if self.interrupted.load(Ordering::Relaxed) { Err(RunError::Interrupted) } else { Ok(()) }
    }

    /// Something else begins, which takes so long if that is known.
    pub(crate) fn begin(&mut self, name: &'static str, now: Ps, length: Option<Ps>) {
        self.stage = Stage::new(name, now, length);
    }

    /// The same of what is played, counted in instructions.
    pub(crate) fn begin_played(&mut self, name: &'static str, from: u64, to: u64) {
        self.stage = Stage { name, span: (to < u64::MAX).then_some((from, to)), is_likely: false };
    }

    /// Tells how far a machine is.
    pub(crate) fn show(&mut self, instructions: u64, now: Ps) {
        self.show_at(now.0, instructions, now);
    }

    /// The same; `at` is where the work is in the stage's own measure.
    pub(crate) fn show_at(&mut self, at: u64, instructions: u64, now: Ps) {
        (self.progress)(&self.stage.progress(at, instructions, now));
    }
}

/// Runs a machine to a limit in slices, so that it can be watched and interrupted. The guest's m5ops are done on the
/// way; only one that ends the guest ends the run.
pub(crate) fn run_watched(
    machine: &mut Machine,
    guest: &str,
    limits: &Limits,
    control: &mut Control,
) -> Result<Outcome, RunError> {
    run_watched_until(machine, guest, limits, None, control)
}

/// As [`run_watched`], and the m5op with this function number ends the run instead of being done.
pub(crate) fn run_watched_until(
    machine: &mut Machine,
    guest: &str,
    limits: &Limits,
    last: Option<u8>,
    control: &mut Control,
) -> Result<Outcome, RunError> {
    loop {
        let slice = machine.instructions().saturating_add(SLICE_INSTRUCTIONS).min(limits.instructions);
        let time = machine.now().saturating_add(SLICE_TIME).min(limits.time);
        let outcome = machine.run(&Limits { instructions: slice, time, ..limits.clone() });
        control.check()?;
        corunners::went_on(machine)?;
        control.show(machine.instructions(), machine.now());
        match outcome {
            Outcome::Instructions if slice < limits.instructions => {}
            Outcome::Time if time < limits.time => {}
            // Time passes for one that sleeps, too: up to the limit, if there is one, and not to a slice's end.
            Outcome::Asleep if time < limits.time && limits.time < Ps::MAX => {}
            Outcome::M5Op { function, .. } if Some(function) == last => return Ok(outcome),
            Outcome::M5Op { hart, function, args } => {
                let next = match &mut control.m5 {
                    Some(m5) => m5.perform(machine, guest, hart, function, args, control.say)?,
                    None => M5Next::Continue,
                };
                if next != M5Next::Continue {
                    return Ok(outcome);
                }
            }
            _ => return Ok(outcome),
        }
    }
}

/// Runs a network to a time in slices, so that it can be watched and interrupted. m5ops are ignored.
pub(crate) fn run_network_watched(
    network: &mut Network,
    time: Ps,
    on_marker: bool,
    control: &mut Control,
) -> Result<NetworkOutcome, RunError> {
    loop {
        let slice = network.now().saturating_add(NETWORK_SLICE_TIME).min(time);
        let outcome = network.run(&Limits { on_marker, on_m5op: false, ..Limits::until(slice) });
        control.check()?;
        if network.nodes().len() > 0 {
            corunners::went_on(network.node_mut(0))?;
        }
        control.show(network.instructions(), network.now());
        let goes_on = match outcome {
            NetworkOutcome::Time => slice < time,
            // Time passes for those that sleep, too: up to the limit, if there is one, and not to a slice's end.
            NetworkOutcome::Asleep => slice < time && time < Ps::MAX,
            NetworkOutcome::Nodes(_) => false,
        };
        if !goes_on {
            return Ok(outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_machine::{MachineConfig, NetworkConfig};

    /// `wfi`, and back to it.
    const SLEEPS: [u8; 8] = [0x73, 0, 0x50, 0x10, 0x6f, 0xf0, 0xdf, 0xff];

    fn watched<R>(call: impl FnOnce(&mut Control) -> R) -> R {
        Control::quietly(&AtomicBool::new(false), call)
    }

    #[test]
    fn how_much_of_a_stage_is_done_is_told_where_its_end_is_known() {
        let (interrupted, mut told) = (AtomicBool::new(false), Vec::new());
        let mut progress = |at: &Progress| told.push((at.stage, at.share));
        let mut control = Control {
            interrupted: &interrupted,
            say: &mut |_| {},
            progress: &mut progress,
            stage: Stage::default(),
            m5: None,
        };
        control.begin("booting", Ps::ZERO, None);
        control.show(5, Ps(50));
        control.begin("measuring", Ps(100), Some(Ps(100)));
        control.show(6, Ps(150));
        control.show(7, Ps(300));
        control.begin_played("measuring", 10, 20);
        control.show_at(15, 15, Ps(1));
        control.stage = Stage::likely("booting", Ps::ZERO, Some(Ps(100)));
        control.show(8, Ps(50));
        control.show(9, Ps(101));
        let shares = [None, Some(0.5), Some(1.0), Some(0.5), Some(0.5), None];
        let stages = ["booting", "measuring", "measuring", "measuring", "booting", "booting"];
        assert_eq!(
            told,
            stages.into_iter().zip(shares).collect::<Vec<_>>(),
            "what takes longer has no share"
        );
    }

    #[test]
    fn time_passes_for_a_machine_that_sleeps_up_to_the_limit_and_not_to_a_slices_end() {
        let mut machine = Machine::new(MachineConfig::default(), 1).unwrap();
        assert!(machine.load_bare(&SLEEPS));
        let limit = SLICE_TIME + SLICE_TIME + Ps::from_ms(3);
        let outcome =
            watched(|control| run_watched(&mut machine, "", &Limits::until(limit), control)).unwrap();
        assert_eq!((outcome, machine.now()), (Outcome::Asleep, limit));
        let outcome =
            watched(|control| run_watched(&mut machine, "", &Limits::until(Ps::MAX), control)).unwrap();
        assert_eq!(outcome, Outcome::Asleep, "who sleeps for ever is not waited for");
    }

    #[test]
    fn time_passes_for_a_network_that_sleeps_up_to_the_limit_and_not_to_a_slices_end() {
        let config = NetworkConfig::two_nodes([MachineConfig::default(), MachineConfig::default()]).unwrap();
        let mut network = Network::new(config, 1).unwrap();
        for node in 0..2 {
            assert!(network.node_mut(node).load_bare(&SLEEPS));
        }
        let limit = NETWORK_SLICE_TIME + Ps::from_ms(3);
        let outcome = watched(|control| run_network_watched(&mut network, limit, false, control)).unwrap();
        assert_eq!((outcome, network.now()), (NetworkOutcome::Asleep, limit));
        let outcome = watched(|control| run_network_watched(&mut network, Ps::MAX, false, control)).unwrap();
        assert_eq!(outcome, NetworkOutcome::Asleep, "who sleeps for ever is not waited for");
    }
}
