//! A trial: one offered load on a separate machine, sampled while it runs. The caller (a search in the crate
//! `study`) decides from the samples how long it lasts.
//!
//! During the trial a frame has returned, was dropped by a NIC or a link, or is unaccounted for. An
//! unaccounted frame is in a FIFO, a ring, a link or the guest, or was dropped by the guest. After the trial
//! has ended and drained, every frame of the window has returned or is lost.

use std::time::Instant;

use doorbell_loadgen::{Rate, TrafficConfig};
use doorbell_machine::Machine;
use doorbell_sim::{Bytes, Ps};

use crate::error::RunError;
use crate::figures::host_cost::HostCost;
use crate::figures::nic_totals::nic_totals;
use crate::measure::point::{figures, loaded, merged_measurement, summarise};
use crate::plan::config::RunConfig;
use crate::plan::counting::Counted;
use crate::testbed::control::Control;
use crate::testbed::session::Session;
use crate::window::machine::OpenWindow;
use crate::window::phases::{Load, Run};
use doorbell_results::{PointSummary, Steady};

/// A load on a machine.
pub struct Trial<'a> {
    session: &'a Session,
    config: RunConfig,
    loads: Vec<Load>,
    machine: Machine,
    /// Warm-up and settling.
    steady: Steady,
    window: Option<OpenWindow>,
    /// Counts before the load began.
    base: TrialCounts,
    started: Instant,
    /// Instructions before the load began.
    booted: u64,
    start: Ps,
}

/// Frame counts since the load began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrialCounts {
    /// Sent frames.
    pub offered: u64,
    /// Returned frames.
    pub returned: u64,
    /// Frames dropped by a NIC or a link, or returned damaged.
    pub dropped: u64,
}

/// Result of a trial's window.
pub struct TrialResult {
    /// Frames whose first bit was sent in the window.
    pub offered: u64,
    /// Offered frames that did not return undamaged.
    pub lost: u64,
    /// Frames that returned in the window, regardless of when they were sent.
    pub arrived: u64,
    /// Length of the window.
    pub window: Ps,
    /// Simulated time of the whole trial.
    pub simulated: Ps,
    /// All figures of the window.
    pub summary: PointSummary,
}

impl<'a> Trial<'a> {
    /// Starts the load on a new machine and warms it up.
    pub fn begin(
        session: &'a Session,
        rate: Rate,
        frame_size: Bytes,
        control: &mut Control,
    ) -> Result<Trial<'a>, RunError> {
        let started = Instant::now();
        let mut machine = session.machine()?;
        let own = &session.config().loadgen.traffic;
        let config = loaded(session, TrafficConfig { frame_size, ..own.at_rate(rate) });
        let (booted, start) = (machine.instructions(), machine.now());
        let loads = Load::of_ports(&config, session.workload());
        let (guest, params) = (session.guest(), &config.run);
        let mut run = Run { system: &mut machine, guest, control, loads: &loads, params };
        run.preload()?;
        let base = counted(run.system);
        let steady = run.approach_trial()?;
        Ok(Trial { session, config, loads, machine, steady, window: None, base, started, booted, start })
    }

    fn run<'r, 'c>(&'r mut self, control: &'r mut Control<'c>) -> Run<'r, 'c, Machine> {
        let Trial { session, config, loads, machine, .. } = self;
        Run { system: machine, guest: session.guest(), control, loads, params: &config.run }
    }

    /// Runs for the given time and returns the counts.
    pub fn run_for(&mut self, time: Ps, control: &mut Control) -> Result<TrialCounts, RunError> {
        self.run(control).run_for(time)?;
        let now = counted(&self.machine);
        Ok(TrialCounts {
            offered: now.offered - self.base.offered,
            returned: now.returned - self.base.returned,
            dropped: now.dropped - self.base.dropped,
        })
    }

    /// Starts the window, and discards an earlier one.
    pub fn open_window(&mut self, control: &mut Control) -> Result<(), RunError> {
        let mut run = self.run(control);
        let mut open = run.open_window(None, None)?;
        run.arrive_in(&mut open)?;
        self.window = Some(open);
        Ok(())
    }

    /// The 95 % confidence interval of a percentile (given as a fraction) of the round-trip time of the
    /// window's returned frames, if round trips are independent. `None` without a window or returned frames.
    pub fn latency(&self, percentile: (u64, u64)) -> Option<(Ps, Ps)> {
        self.window.as_ref()?;
        let measurement = merged_measurement(&self.machine);
        let latency = measurement.latency();
        let count = latency.count();
        let share = percentile.0 as f64 / percentile.1 as f64;
        let middle = count as f64 * share;
        let margin = 2.0 * (middle * (1.0 - share)).sqrt();
        let rank = |rank: f64| latency.percentile((rank.ceil() as u64).clamp(1, count.max(1)), count.max(1));
        Some((rank(middle - margin)?, rank(middle + margin)?))
    }

    /// Ends the window and the load, drains frames in flight, and accounts for every frame.
    pub fn close(mut self, control: &mut Control) -> Result<TrialResult, RunError> {
        let config = self.config.clone();
        let open = self.window.take().expect("a window was opened");
        let mut run = self.run(control);
        let (mut window, _) = run.close_window(open)?;
        let simulated = run.system.now();
        window.settled = run.drain()?;
        let counted = Counted::of(self.session, window.edges.as_ref(), control)?;
        let Trial { session, machine, steady, started, booted, start, .. } = self;
        machine.check_conservation();
        let measurement = merged_measurement(&machine);
        let cost = HostCost::since(started, machine.instructions() - booted);
        window.steady = Some(steady);
        let figures = figures(&machine, &measurement, counted.as_ref());
        let summary = summarise(session, &config, &machine, &measurement, window, counted, cost)?;
        let (first, last) = measurement.span();
        // Late frames cannot be attributed to the window. If there are any, the losses are those with a known
        // cause.
        let (late, drops) = (figures.frames_late, &summary.drops);
        let lost = match late {
            0 => figures.frames_offered - figures.frames_delivered,
            _ => drops.dma + drops.core + drops.tx + drops.nic_other + drops.link,
        };
        Ok(TrialResult {
            offered: figures.frames_offered,
            lost: lost.min(figures.frames_offered),
            arrived: figures.frames_arrived + late,
            window: last.unwrap_or(first).saturating_sub(first),
            simulated: simulated.saturating_sub(start),
            summary,
        })
    }
}

fn counted(machine: &Machine) -> TrialCounts {
    let totals = nic_totals(machine);
    let at_nics = totals.dma + totals.core + totals.tx + totals.other + totals.link_in + totals.link_out;
    let empty = TrialCounts { dropped: at_nics, ..TrialCounts::default() };
    machine.ports().iter().map(|port| port.loadgen.stats()).fold(empty, |sum, s| TrialCounts {
        offered: sum.offered + s.sent,
        // Late frames are no longer tracked (`tracked_frames`), but have returned.
        returned: sum.returned + s.returned + s.late,
        dropped: sum.dropped + s.corrupt,
    })
}
