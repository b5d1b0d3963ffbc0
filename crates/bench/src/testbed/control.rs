//! Progress display and interruption of a long run.

use std::sync::atomic::{AtomicBool, Ordering};

use doorbell_machine::{Limits, Machine, Network, NetworkOutcome, Outcome};
use doorbell_sim::Ps;

use crate::error::RunError;
use crate::testbed::corunners;
use crate::testbed::m5::{M5Next, M5Ops};

/// Console lines quoted in an error.
pub(crate) const LINES_SHOWN: usize = 12;
/// Maximum instructions between checks for Ctrl-C and updates of the progress display.
pub(crate) const SLICE_INSTRUCTIONS: u64 = 20_000_000;
/// Maximum simulated time between them, since a guest in an endless trap loop retires no instructions.
pub(crate) const SLICE_TIME: Ps = Ps::from_ms(20);

/// Maximum simulated time between them for a network: shorter, as it simulates several nodes in the same
/// time.
const NETWORK_SLICE_TIME: Ps = Ps::from_ms(5);

/// Progress of the current stage of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Name of the stage.
    pub stage: &'static str,
    /// Completed fraction, if the end is known.
    pub share: Option<f64>,
    /// Instructions executed since the machine's reset.
    pub instructions: u64,
    /// The simulated time.
    pub now: Ps,
}

impl Progress {
    /// The stage and its percentage, if the end is known.
    pub fn in_short(&self) -> String {
        match self.share {
            Some(share) => format!("{}, {:.0} %", self.stage, share * 100.0),
            None => self.stage.to_owned(),
        }
    }
}

/// A stage of a run, such as booting, warming up or measuring.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stage {
    name: &'static str,
    /// Begin and end, if the end is known: in picoseconds, or in instructions if a trace is played.
    span: Option<(u64, u64)>,
    /// Whether the end is only an estimate from the last stage of this kind.
    is_likely: bool,
}

impl Stage {
    /// A stage from `now` on; `length` is its duration, if known.
    pub fn new(name: &'static str, now: Ps, length: Option<Ps>) -> Stage {
        let span = length.map(|length| (now.0, now.saturating_add(length).0));
        Stage { name, span, is_likely: false }
    }

    /// A stage that probably takes as long as the last one of its kind, if there was one.
    pub fn likely(name: &'static str, now: Ps, last: Option<Ps>) -> Stage {
        Stage { is_likely: true, ..Stage::new(name, now, last) }
    }

    /// The progress at position `at`, in the unit of its span.
    fn progress(&self, at: u64, instructions: u64, now: Ps) -> Progress {
        let done =
            |(from, to): (u64, u64)| at.saturating_sub(from) as f64 / to.saturating_sub(from).max(1) as f64;
        let share = self.span.map(done).filter(|share| *share <= 1.0 || !self.is_likely);
        Progress { stage: self.name, share: share.map(|share| share.min(1.0)), instructions, now }
    }

    /// The progress at a simulated time.
    pub fn at(&self, instructions: u64, now: Ps) -> Progress {
        self.progress(now.0, instructions, now)
    }
}

/// Output of a long run, and its interruption.
pub struct Control<'a> {
    /// Set when the user interrupts the run.
    pub interrupted: &'a AtomicBool,
    /// Prints a message.
    pub say: &'a mut dyn FnMut(&str),
    /// Displays the progress.
    pub progress: &'a mut dyn FnMut(&Progress),
    /// The current stage.
    pub stage: Stage,
    /// Executes the guest's m5ops; without it they are ignored.
    pub m5: Option<&'a mut M5Ops>,
}

impl Control<'_> {
    /// Runs `work` without messages and progress display. Setting `interrupted` interrupts it.
    pub fn quietly<R>(interrupted: &AtomicBool, work: impl FnOnce(&mut Control) -> R) -> R {
        work(&mut Control {
            interrupted,
            say: &mut |_| {},
            progress: &mut |_| {},
            stage: Stage::default(),
            m5: None,
        })
    }

    /// Returns an error if the run was interrupted.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        if self.interrupted.load(Ordering::Relaxed) { Err(RunError::Interrupted) } else { Ok(()) }
    }

    /// Starts the next stage; `length` is its duration, if known.
    pub(crate) fn begin(&mut self, name: &'static str, now: Ps, length: Option<Ps>) {
        self.stage = Stage::new(name, now, length);
    }

    /// Starts the next stage of a played trace, measured in instructions. With `to` = `u64::MAX` its end is
    /// unknown.
    pub(crate) fn begin_played(&mut self, name: &'static str, from: u64, to: u64) {
        self.stage = Stage { name, span: (to < u64::MAX).then_some((from, to)), is_likely: false };
    }

    /// Displays the progress of a system at a simulated time.
    pub(crate) fn show(&mut self, instructions: u64, now: Ps) {
        self.show_at(now.0, instructions, now);
    }

    /// Displays the progress at position `at`, in the unit of the stage's span.
    pub(crate) fn show_at(&mut self, at: u64, instructions: u64, now: Ps) {
        (self.progress)(&self.stage.progress(at, instructions, now));
    }
}

/// Runs a machine to a limit in slices, with progress display and interruption. Executes the guest's m5ops;
/// only an exit or fail ends the run.
pub(crate) fn run_watched(
    machine: &mut Machine,
    guest: &str,
    limits: &Limits,
    control: &mut Control,
) -> Result<Outcome, RunError> {
    run_watched_until(machine, guest, limits, None, control)
}

/// As [`run_watched`], but the m5op with function number `last` ends the run and is not executed.
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
        corunners::check_failure(machine)?;
        control.show(machine.instructions(), machine.now());
        match outcome {
            Outcome::Instructions if slice < limits.instructions => {}
            Outcome::Time if time < limits.time => {}
            // A sleeping machine also runs to the limit, if there is one, rather than to the end of the
            // slice.
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

/// Runs a network to a time in slices, with progress display and interruption. m5ops are ignored.
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
            corunners::check_failure(network.node_mut(0))?;
        }
        control.show(network.instructions(), network.now());
        let continues = match outcome {
            NetworkOutcome::Time => slice < time,
            // Sleeping nodes also run to the limit, if there is one, rather than to the end of the slice.
            NetworkOutcome::Asleep => slice < time && time < Ps::MAX,
            NetworkOutcome::Nodes(_) => false,
        };
        if !continues {
            return Ok(outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_machine::{MachineConfig, NetworkConfig};

    /// An endless loop of `wfi`.
    const SLEEPS: [u8; 8] = [0x73, 0, 0x50, 0x10, 0x6f, 0xf0, 0xdf, 0xff];

    fn watched<R>(call: impl FnOnce(&mut Control) -> R) -> R {
        Control::quietly(&AtomicBool::new(false), call)
    }

    #[test]
    fn progress_has_a_share_if_the_end_of_the_stage_is_known() {
        let (interrupted, mut shown) = (AtomicBool::new(false), Vec::new());
        let mut progress = |at: &Progress| shown.push((at.stage, at.share));
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
            shown,
            stages.into_iter().zip(shares).collect::<Vec<_>>(),
            "a stage beyond its estimated end has no share"
        );
    }

    #[test]
    fn sleeping_machine_runs_to_the_limit_across_slices() {
        let mut machine = Machine::new(MachineConfig::default(), 1).unwrap();
        assert!(machine.load_bare(&SLEEPS));
        let limit = SLICE_TIME + SLICE_TIME + Ps::from_ms(3);
        let outcome =
            watched(|control| run_watched(&mut machine, "", &Limits::until(limit), control)).unwrap();
        assert_eq!((outcome, machine.now()), (Outcome::Asleep, limit));
        let outcome =
            watched(|control| run_watched(&mut machine, "", &Limits::until(Ps::MAX), control)).unwrap();
        assert_eq!(outcome, Outcome::Asleep, "an endless sleep ends the run");
    }

    #[test]
    fn sleeping_network_runs_to_the_limit_across_slices() {
        let config = NetworkConfig::two_nodes([MachineConfig::default(), MachineConfig::default()]).unwrap();
        let mut network = Network::new(config, 1).unwrap();
        for node in 0..2 {
            assert!(network.node_mut(node).load_bare(&SLEEPS));
        }
        let limit = NETWORK_SLICE_TIME + Ps::from_ms(3);
        let outcome = watched(|control| run_network_watched(&mut network, limit, false, control)).unwrap();
        assert_eq!((outcome, network.now()), (NetworkOutcome::Asleep, limit));
        let outcome = watched(|control| run_network_watched(&mut network, Ps::MAX, false, control)).unwrap();
        assert_eq!(outcome, NetworkOutcome::Asleep, "an endless sleep ends the run");
    }
}
