//! How a long piece of work is watched and interrupted.

use std::sync::atomic::{AtomicBool, Ordering};

use doorbell_machine::{Limits, Machine, Network, NetworkOutcome, Outcome};
use doorbell_sim::Ps;

use crate::error::RunError;
use crate::m5::{M5Next, M5Ops};

/// Console lines quoted in an error.
pub(crate) const LINES_SHOWN: usize = 12;
/// Instructions between looks at the clock, at Ctrl-C and at the progress display.
pub(crate) const SLICE_INSTRUCTIONS: u64 = 20_000_000;
/// The same in simulated time: a guest that traps without end retires no instructions.
pub(crate) const SLICE_TIME: Ps = Ps::from_ms(20);

/// The same for a network, most of whose nodes run side by side.
const NETWORK_SLICE_TIME: Ps = Ps::from_ms(5);

/// How a long piece of work reports and is interrupted.
pub struct Control<'a> {
    /// Set when the user wants to stop.
    pub interrupted: &'a AtomicBool,
    /// Told in a few words what is going on.
    pub say: &'a mut dyn FnMut(&str),
    /// Told how far the machine is: instructions and simulated time.
    pub progress: &'a mut dyn FnMut(u64, Ps),
    /// Does what the guest asks by m5ops; without it they are ignored.
    pub m5: Option<&'a mut M5Ops>,
}

impl Control<'_> {
    pub(crate) fn check(&self) -> Result<(), RunError> {
        if self.interrupted.load(Ordering::Relaxed) { Err(RunError::Interrupted) } else { Ok(()) }
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
        (control.progress)(machine.instructions(), machine.now());
        match outcome {
            Outcome::Instructions if slice < limits.instructions => {}
            Outcome::Time if time < limits.time => {}
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
        (control.progress)(network.instructions(), network.now());
        if outcome != NetworkOutcome::Time || slice >= time {
            return Ok(outcome);
        }
    }
}
