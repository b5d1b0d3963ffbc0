//! One offered load: warm up, measure, drain, and account for every frame.
//!
//! Losses are counted per frame: a frame of the window that has not returned after the drain is lost. The
//! NIC's counters give the cause. A lost frame that the NIC accepted was dropped by the guest.

use std::collections::BTreeMap;
use std::time::Instant;

use doorbell_loadgen::{Measurement, Rate, StageRecorder, TrafficConfig};
use doorbell_machine::{Machine, WatchReport, WatchRequest};
use doorbell_sim::{Bytes, Frame};
use doorbell_wire::pcap::PcapFile;

use crate::error::RunError;
use crate::figures::counters::MeasuredCounters;
use crate::figures::host_cost::HostCost;
use crate::figures::nic_totals::{late_drops, nic_totals};
use crate::figures::ports;
use crate::figures::timing;
use crate::plan::config::RunConfig;
use crate::plan::counting::{Counted, Counting};
use crate::plan::workload::NO_TRAFFIC;
use crate::testbed::control::Control;
use crate::testbed::session::Session;
use crate::testbed::steady::measured;
use crate::window::machine::Window;
use crate::window::observe::{Delivered, Observe, Observed, Trace, digest};
use crate::window::phases::{Load, Run};
use doorbell_results::{Drops, PointSummary, WindowSummary};

/// Maximum bytes of a frame in a capture: more than any frame has.
const CAPTURE_SNAP_LEN: u32 = 65_535;

/// A measured point.
pub struct Point {
    /// Its figures.
    pub summary: PointSummary,
    /// Meanings of the figures of its ports.
    pub meanings: BTreeMap<String, String>,
    /// The configuration of the measurement, including rate and frame size.
    pub config: RunConfig,
    /// The machine at the end, for its counters.
    pub machine: Machine,
    /// Counters at both ends of the measurement.
    pub(crate) counters: MeasuredCounters,
    /// Measurement of the generators, merged over all ports.
    pub measurement: Measurement,
    /// Further observations.
    pub observed: Observed,
}

/// A machine that is being measured.
pub(crate) struct MachineRun<'a> {
    pub machine: Machine,
    pub config: RunConfig,
    /// Requested observations.
    pub watch: Option<WatchRequest>,
    pub trace: Option<Trace>,
    session: &'a Session,
    observe: &'a Observe,
    started: Instant,
    /// Instructions executed before.
    booted: u64,
}

impl<'a> MachineRun<'a> {
    /// Restores the machine and starts the capture and the trace, which describes the run as `what`.
    pub fn begin(
        session: &'a Session,
        config: RunConfig,
        observe: &'a Observe,
        what: &str,
    ) -> Result<MachineRun<'a>, RunError> {
        let started = Instant::now();
        let mut machine = session.machine()?;
        let watch = observe.request(&machine)?;
        machine.stages.iter_mut().for_each(|book| book.keep_packets(observe.timeline.unwrap_or(0)));
        if let (Some(path), Some(port)) = (&observe.capture, machine.ports_mut().first_mut()) {
            port.capture = Some(PcapFile::create(path, CAPTURE_SNAP_LEN)?);
        }
        let trace = observe.trace.as_deref();
        let trace = trace.map(|path| Trace::create(path, &machine, &config, what)).transpose()?;
        let booted = machine.instructions();
        Ok(MachineRun { machine, config, watch, trace, session, observe, started, booted })
    }

    /// The figures and observations of a window, after its drain.
    pub fn finish(
        self,
        window: Window,
        watched: Option<WatchReport>,
        control: &mut Control,
    ) -> Result<Point, RunError> {
        let MachineRun { mut machine, config, trace, session, observe, started, booted, .. } = self;
        let traced = trace.map(Trace::finish).transpose()?;
        machine.check_conservation();
        if let Some(capture) = machine.ports_mut().first_mut().and_then(|port| port.capture.take()) {
            capture.finish()?;
        }
        let cost = HostCost::since(started, machine.instructions() - booted);
        let measurement = merged_measurement(&machine);
        let counted = Counted::of(session, window.edges.as_ref(), control)?;
        let counters = window.counters.clone();
        let mut summary = summarise(session, &config, &machine, &measurement, window, counted, cost)?;
        let mut meanings = ports::meanings(&machine);
        meanings.extend(session.workload().counting.into_iter().flat_map(Counting::meanings));
        meanings.extend(timing::meanings(&summary));
        let watched = watched.unwrap_or_default();
        let mut observed = digest(observe, session.image(), &mut machine, watched, traced)?;
        (summary.functions, summary.kinds) = observed.profile(&Delivered::of(&summary));
        Ok(Point { summary, meanings, config, machine, counters, measurement, observed })
    }
}

/// Measures this traffic, instead of the session's, at one rate.
pub fn run_point_sent(
    session: &Session,
    traffic: &TrafficConfig,
    rate: Rate,
    observe: &Observe,
    control: &mut Control,
) -> Result<Point, RunError> {
    let workload = session.workload();
    let config = loaded(session, traffic.at_rate(rate));
    let what = match workload.silent {
        true => workload.name.clone(),
        false => {
            let length = Bytes((traffic.frame_len() + Frame::FCS_BYTES) as u64);
            format!("{}, frames of {length} at {rate}", workload.name)
        }
    };
    let loads = Load::of_ports(&config, workload);
    let mut measured = MachineRun::begin(session, config, observe, &what)?;
    let MachineRun { machine, config, watch, trace, .. } = &mut measured;
    let (guest, params) = (session.guest(), &config.run);
    let mut run = Run { system: machine, guest, control, loads: &loads, params };
    run.preload()?;
    let (mut window, watched) = run.measure(config, watch.as_ref(), trace.as_ref())?;
    window.settled = run.drain()?;
    let mut point = measured.finish(window, watched, control)?;
    if workload.silent {
        point.summary.rate = NO_TRAFFIC.to_owned();
    }
    Ok(point)
}

/// The session's configuration, with this traffic.
pub(crate) fn loaded(session: &Session, traffic: TrafficConfig) -> RunConfig {
    let mut config = session.config().clone();
    config.loadgen.traffic = TrafficConfig { returned: session.workload().returned, ..traffic };
    config
}

pub(crate) fn merged_measurement(machine: &Machine) -> Measurement {
    let mut measurements = machine.ports().iter().filter_map(|port| port.loadgen.measurement());
    let mut all = measurements.next().expect("every generator has a window").clone();
    measurements.for_each(|other| all.merge(other));
    all
}

fn merged_stages(machine: &Machine) -> StageRecorder {
    let mut all = StageRecorder::default();
    machine.stages.iter().for_each(|book| all.merge(book));
    all
}

pub(crate) fn summarise(
    session: &Session,
    config: &RunConfig,
    machine: &Machine,
    measurement: &Measurement,
    window: Window,
    counted: Option<Counted>,
    cost: HostCost,
) -> Result<PointSummary, RunError> {
    let figures = figures(machine, measurement, counted.as_ref());
    let (drops, late) = drops(machine, measurement, &figures, &window)?;
    let [start, ended] = &window.span;
    let frame_size = match config.loadgen.traffic.streams.is_empty() {
        true => (config.loadgen.traffic.frame_len() + Frame::FCS_BYTES) as u64,
        false => machine.ports()[0].loadgen.mean_frame_size().0,
    };
    let summary = window.summary(config, machine, figures, frame_size, cost);
    let mut point = PointSummary {
        benchmark: session.workload().name.clone(),
        rate: config.loadgen.traffic.requested_rate().to_string(),
        drops,
        frames_late: late,
        outstanding: config.loadgen.traffic.outstanding.filter(|_| !session.workload().silent),
        latency_stages_ns: merged_stages(machine).summary(),
        latency_stages_by_queue: (0..)
            .zip(&machine.stages)
            .flat_map(|(port, book)| book.by_queue(port))
            .collect(),
        state_hash: format!("{:016x}", machine.state_hash()),
        wire_share: start.wire_share(ended),
        steady: window.steady,
        memory_over_time: window.memory,
        ..summary
    };
    if let Some(counted) = counted {
        counted.add_to(&mut point.ports);
    }
    let measured = measured(&point, &window.queues, config.run.length_text());
    point.set_measured(measured);
    Ok(point)
}

/// A window's figures. If its program counts frames, only frames that it processed count as delivered.
pub(crate) fn figures(
    machine: &Machine,
    measurement: &Measurement,
    counted: Option<&Counted>,
) -> WindowSummary {
    let figures = measurement.summary(machine.now());
    match counted {
        Some(counted) => counted.adjust(figures),
        None => figures,
    }
}

/// The window's losses by cause, and the number of frames that returned after the timeout. If more losses
/// have a cause than frames are missing, the causes are unreliable, and the result is an error.
fn drops(
    machine: &Machine,
    measurement: &Measurement,
    figures: &WindowSummary,
    window: &Window,
) -> Result<(Drops, u64), RunError> {
    let (begin, end) = (&window.begin, &window.end);
    // Counts of the incoming links and NICs were read when the window's frames had arrived.
    let mut drops = end.losses_of_arrived(begin, &late_drops(machine), measurement.lost_after_nic());
    let named = drops.dma + drops.core + drops.tx + drops.nic_other + drops.link;
    let missing = figures.frames_offered - figures.frames_delivered - figures.frames_corrupt;
    // ARP replies and other frames outside the test traffic may be lost too.
    let others = (end.sent - begin.sent).saturating_sub(figures.frames_offered);
    if named > missing + others {
        return Err(RunError::Books { missing, others, named });
    }
    // Frames inside a NIC, or that may still return because the drain was too short, were not dropped. Some
    // frames inside a NIC may have been sent before the window.
    let inside: u64 = machine.nics().map(|nic| nic.in_flight().rx + nic.in_flight().tx).sum();
    let unnamed = missing.saturating_sub(named + inside);
    // Frames that returned after the generators' timeout, even during the drain, were not lost.
    let late = (nic_totals(machine).late - begin.late).min(unnamed);
    if window.settled {
        drops.guest = unnamed - late;
    }
    drops.unknown = missing.saturating_sub(named + drops.guest + late);
    Ok((drops, late))
}
