//! A trial: one offered load on a machine of its own that can be looked at while it goes on, for whoever decides by what is
//! seen how long it lasts (the searches of room `study`).
//!
//! While it goes on, frames are known to have come back, to have been dropped by a NIC or a link, or not to be accounted
//! for yet: those are inside, in FIFOs, rings, links and the guest's hands, or the guest has dropped them. Once the
//! trial has ended and drained, every frame of the window has come back or is lost.

use std::time::Instant;

use doorbell_loadgen::{Rate, TrafficConfig};
use doorbell_machine::Machine;
use doorbell_sim::{Bytes, Ps};

use crate::error::RunError;
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
    /// How it came to be warm.
    steady: Steady,
    window: Option<OpenWindow>,
    /// What the counters stood at when the load began.
    base: Standing,
    started: Instant,
    booted: u64,
    begun: Ps,
}

/// What has become of all frames since the load began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Sent.
    pub offered: u64,
    /// Come back.
    pub returned: u64,
    /// Known to be lost: dropped by a NIC or a link, or come back damaged.
    pub dropped: u64,
}

/// What became of the window's frames.
pub struct TrialResult {
    /// Frames whose first bit left in the window.
    pub offered: u64,
    /// Of these, those that never came back unharmed.
    pub lost: u64,
    /// Frames that came back in the window, whenever they were sent.
    pub arrived: u64,
    /// Length of the window.
    pub window: Ps,
    /// Simulated time of the whole trial.
    pub simulated: Ps,
    /// All figures of the window.
    pub summary: PointSummary,
}

impl<'a> Trial<'a> {
    /// Loads a machine of its own, and returns when it is warm.
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
        let (booted, begun) = (machine.instructions(), machine.now());
        let loads = Load::of_ports(&config, session.workload());
        let (guest, params) = (session.guest(), &config.run);
        let mut run = Run { system: &mut machine, guest, control, loads: &loads, params };
        run.preload()?;
        let base = counted(run.system);
        let steady = run.approach_trial()?;
        Ok(Trial { session, config, loads, machine, steady, window: None, base, started, booted, begun })
    }

    fn run<'r, 'c>(&'r mut self, control: &'r mut Control<'c>) -> Run<'r, 'c, Machine> {
        let Trial { session, config, loads, machine, .. } = self;
        Run { system: machine, guest: session.guest(), control, loads, params: &config.run }
    }

    /// Goes on for this long.
    pub fn go_on(&mut self, time: Ps, control: &mut Control) -> Result<Standing, RunError> {
        self.run(control).go_on(time)?;
        let now = counted(&self.machine);
        Ok(Standing {
            offered: now.offered - self.base.offered,
            returned: now.returned - self.base.returned,
            dropped: now.dropped - self.base.dropped,
        })
    }

    /// Begins the window; one that has begun already is forgotten.
    pub fn open_window(&mut self, control: &mut Control) -> Result<(), RunError> {
        let mut run = self.run(control);
        let mut open = run.open_window(None, None)?;
        run.arrive_in(&mut open)?;
        self.window = Some(open);
        Ok(())
    }

    /// The round trip of this percentile (as a fraction) of the window's frames that are back, with two ranks beside it: the
    /// percentile of as many independent round trips lies between their values 19 times in 20. Nothing without a window, or
    /// before a frame is back.
    pub fn latency(&self, percentile: (u64, u64)) -> Option<(Ps, Ps)> {
        self.window.as_ref()?;
        let measurement = merged_measurement(&self.machine);
        let latency = measurement.latency();
        let count = latency.count();
        let share = percentile.0 as f64 / percentile.1 as f64;
        let middle = count as f64 * share;
        let beside = 2.0 * (middle * (1.0 - share)).sqrt();
        let rank = |rank: f64| latency.percentile((rank.ceil() as u64).clamp(1, count.max(1)), count.max(1));
        Some((rank(middle - beside)?, rank(middle + beside)?))
    }

    /// Ends the window and the load, waits for what is on its way, and accounts for every frame.
    pub fn close(mut self, control: &mut Control) -> Result<TrialResult, RunError> {
        let config = self.config.clone();
        let open = self.window.take().expect("a window was opened");
        let mut run = self.run(control);
        let (mut window, _) = run.close_window(open)?;
        let simulated = run.system.now();
        window.settled = run.drain()?;
        let counted = Counted::of(self.session, window.edges.as_ref(), control)?;
        let Trial { session, machine, steady, started, booted, begun, .. } = self;
        machine.check_conservation();
        let measurement = merged_measurement(&machine);
        let cost = (started.elapsed().as_secs_f64(), machine.instructions() - booted);
        window.steady = Some(steady);
        let figures = figures(&machine, &measurement, counted.as_ref());
        let summary = summarise(session, &config, &machine, &measurement, (window, counted), cost)?;
        let (first, last) = measurement.span();
        // Whose frames came back too late to be remembered is not known; then the counters of drops must do.
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
            simulated: simulated.saturating_sub(begun),
            summary,
        })
    }
}

fn counted(machine: &Machine) -> Standing {
    let totals = nic_totals(machine);
    let at_nics = totals.dma + totals.core + totals.tx + totals.other + totals.link_in + totals.link_out;
    let empty = Standing { dropped: at_nics, ..Standing::default() };
    machine.ports().iter().map(|port| port.loadgen.stats()).fold(empty, |sum, s| Standing {
        offered: sum.offered + s.sent,
        // Late ones were forgotten (`tracked_frames`), but are back.
        returned: sum.returned + s.returned + s.late,
        dropped: sum.dropped + s.corrupt,
    })
}
