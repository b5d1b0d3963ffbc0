//! One offered load: warm up, measure, drain, and account for every frame.
//!
//! The measurement window begins and ends between two frames, so that exactly the frames offered in it reach the
//! NIC while the NIC's counters are watched, one link latency later. Loss is counted frame by frame: a frame
//! of the window that has not come back when the traffic has drained is lost, and the NIC's counters say why. What
//! the NIC accepted and did not send back, the guest dropped.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use doorbell_loadgen::{Kind, Measurement, Rate, StageBook, TrafficConfig};
use doorbell_machine::{ConfigError, Limits, Machine, Mode, Outcome, WatchRequest, Watched};
use doorbell_nic::NicStats;
use doorbell_sim::stats::Stats;
use doorbell_sim::{Bytes, Frame, Ps};
use doorbell_wire::pcap::PcapFile;

use crate::config::RunConfig;
use crate::error::{RunError, describe};
use crate::observe::{Observe, Observed, TABLE_ROWS, digest};
use crate::ports::{self, Moment, PortFigures};
use crate::session::{Control, Session, run_watched};
use crate::summary::{Drops, PointSummary};
use crate::timing::{self, TimingFigures};

/// Bytes of each frame that a capture keeps: all of any frame.
pub(crate) const CAPTURE_SNAP_LEN: u32 = 65_535;
/// How often a drain looks whether everything has come back.
pub(crate) const DRAIN_STEP: Ps = Ps::from_us(100);
/// How long a generator asks for its station.
const ARP_PATIENCE: Ps = Ps::from_ms(500);
/// How many requests are on their way while keys are stored: few, so that none is lost.
const PRELOAD_OUTSTANDING: u32 = 8;

/// A measured point.
pub struct Point {
    /// Its figures.
    pub summary: PointSummary,
    /// What the figures of its ports mean.
    pub meanings: BTreeMap<String, String>,
    /// The configuration that it was measured with, its rate and frame size filled in.
    pub config: RunConfig,
    /// The machine as it was at the end, for its counters.
    pub machine: Machine,
    /// What the generators measured, all ports together.
    pub measurement: Measurement,
    /// Frames that the capture has, if one was written.
    pub captured: Option<u64>,
    /// What else was observed.
    pub observed: Observed,
}

/// What the NICs counted, all together.
pub(crate) fn nic_totals(machine: &Machine) -> NicTotals {
    machine.ports().iter().fold(NicTotals::default(), |mut sum, port| {
        let s: &NicStats = port.nic.stats();
        sum.arrived += s.rx_arrived;
        sum.dma += s.rx_drop_dma;
        sum.core += s.rx_drop_core;
        sum.tx += s.rx_drop_tx;
        sum.other +=
            s.rx_drop_address + s.rx_drop_vlan + s.rx_drop_fcs + s.rx_drop_undersize + s.rx_drop_oversize;
        sum.other +=
            s.rx_drop_disabled + s.rx_drop_link_down + s.rx_drop_loopback + s.rx_drop_reset + s.rx_control;
        // A frame damaged on its way in is the NIC's to drop; one damaged on its way back is lost.
        sum.link += port.link_in.stats().lost + port.link_out.stats().lost + port.link_out.stats().corrupted;
        sum
    })
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NicTotals {
    arrived: u64,
    dma: u64,
    core: u64,
    tx: u64,
    other: u64,
    link: u64,
}

/// Measures one rate and frame size. With `capture`, writes the wire of port 0 to that file.
pub fn run_point(
    session: &Session,
    rate: Rate,
    frame_size: Bytes,
    capture: Option<&Path>,
    control: &mut Control,
) -> Result<Point, RunError> {
    let observe = Observe { capture: capture.map(Path::to_owned), ..Observe::default() };
    run_point_observed(session, rate, frame_size, &observe, control)
}

/// The same, with whatever is to be observed.
pub fn run_point_observed(
    session: &Session,
    rate: Rate,
    frame_size: Bytes,
    observe: &Observe,
    control: &mut Control,
) -> Result<Point, RunError> {
    let started = Instant::now();
    let mut machine = session.machine()?;
    let mut config = session.config().clone();
    config.loadgen.traffic = TrafficConfig {
        frame_size,
        returned: session.workload().returned,
        ..config.loadgen.traffic.at_rate(rate)
    };
    let watch = observe.request(&machine)?;
    machine.stages.iter_mut().for_each(|book| book.keep_packets(observe.timeline.unwrap_or(0)));
    if let (Some(path), Some(port)) = (&observe.capture, machine.ports_mut().first_mut()) {
        port.capture = Some(PcapFile::create(path, CAPTURE_SNAP_LEN)?);
    }
    let booted = machine.instructions();
    let mut run = Run { machine: &mut machine, guest: session.guest(), control, watch };
    if let Some(kind) = session.workload().preload {
        run.preload(&config, kind)?;
    }
    let (window, watched) = run.measure(&config)?;
    run.drain(config.run.drain)?;
    machine.check_conservation();
    let captured = match machine.ports_mut().first_mut().and_then(|port| port.capture.take()) {
        Some(capture) => Some(capture.finish()?),
        None => None,
    };
    let host_seconds = started.elapsed().as_secs_f64();
    let executed = machine.instructions() - booted;
    let measurement = merged_measurement(&machine);
    let mut summary = summarise(session, &config, &machine, &measurement, window, (host_seconds, executed));
    let mut meanings = ports::meanings(&machine);
    meanings.extend(summary.timing.iter().flat_map(TimingFigures::meanings));
    let observed = digest(observe, session, &mut machine, watched.unwrap_or_default())?;
    summary.functions =
        observed.functions.as_ref().map(|table| table.functions.iter().take(TABLE_ROWS).cloned().collect());
    Ok(Point { summary, meanings, config, machine, measurement, captured, observed })
}

/// What changed during the window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    pub begin: NicTotals,
    pub end: NicTotals,
    pub ports: Vec<PortFigures>,
    pub instructions: u64,
    /// What the timing models had counted at both ends.
    pub timed: Option<(timing::Moment, timing::Moment)>,
}

struct Run<'a, 'c> {
    machine: &'a mut Machine,
    guest: &'a str,
    control: &'a mut Control<'c>,
    /// What the machine watches during the measurement.
    watch: Option<WatchRequest>,
}

impl Run<'_, '_> {
    /// Runs to a time; anything else that ends the run is an error.
    fn until(&mut self, time: Ps) -> Result<(), RunError> {
        match run_watched(self.machine, self.guest, &Limits::until(time), self.control)? {
            Outcome::Time | Outcome::Asleep => Ok(()),
            outcome => Err(RunError::Ended {
                why: describe(outcome, time),
                console: self.machine.console.last_lines(12),
            }),
        }
    }

    /// Starts the traffic; what asks by IPv4 has found its station when this returns.
    fn start(&mut self, traffic: &TrafficConfig) -> Result<(), RunError> {
        self.machine.start_traffic(traffic)?;
        let end = self.machine.now() + ARP_PATIENCE;
        while self.machine.is_resolving() {
            if self.machine.now() >= end {
                let asked = traffic.destination_ip;
                return Err(RunError::NoAnswer(format!(
                    "nobody at {asked} (and those after it, at further ports) has answered ARP for {ARP_PATIENCE}; \
                     loadgen.traffic.destination_ip must be the guest's address"
                )));
            }
            self.until(self.machine.now() + DRAIN_STEP)?;
        }
        Ok(())
    }

    /// Sends each generator's requests of this kind once, a few at a time, and waits for all answers.
    fn preload(&mut self, config: &RunConfig, kind: Kind) -> Result<(), RunError> {
        let keys = u64::from(config.loadgen.traffic.memcached.keys);
        let traffic = TrafficConfig {
            kind,
            frames: Some(keys),
            duration: None,
            start_after: Ps::ZERO,
            rate: Rate::Frames(1_000_000),
            outstanding: Some(PRELOAD_OUTSTANDING),
            ..config.loadgen.traffic.clone()
        };
        (self.control.say)(&format!("storing {keys} keys"));
        self.machine.begin_window();
        self.start(&traffic)?;
        while self.machine.ports().iter().any(|port| port.loadgen.is_sending()) {
            self.until(self.machine.now() + DRAIN_STEP)?;
        }
        self.drain(config.run.drain)?;
        for (index, port) in self.machine.ports().iter().enumerate() {
            let stored = port.loadgen.measurement().map_or(0, |window| window.volumes().1.frames);
            if stored != keys {
                return Err(RunError::NoAnswer(format!(
                    "memcached stored only {stored} of the {keys} keys that were sent at port {index}; fewer or shorter \
                     values (loadgen.traffic.memcached) may fit"
                )));
            }
        }
        Ok(())
    }

    fn measure(&mut self, config: &RunConfig) -> Result<(Window, Option<Watched>), RunError> {
        let traffic = &config.loadgen.traffic;
        self.machine.set_mode(Mode::Warming);
        self.start(traffic)?;
        let start = self.machine.now();
        self.until(start + config.run.warmup)?;
        if self.machine.timing().is_some() {
            self.machine.set_mode(Mode::Detailed);
            self.until(self.machine.now() + config.run.settle)?;
        }
        self.until(self.machine.next_gap())?;
        self.machine.begin_window();
        if let Some(request) = &self.watch {
            self.machine.watch(request);
        }
        let (begun, instructions) = (self.machine.now(), self.machine.instructions());
        let timed = timing::Moment::of(self.machine);
        self.until(begun + config.link.latency)?;
        let (begin, figures) = (nic_totals(self.machine), Moment::of(self.machine));
        match config.run.frames {
            Some(frames) => self.until_offered(frames, config)?,
            None => self.until(begun + config.run.duration)?,
        }
        self.until(self.machine.next_gap())?;
        self.machine.end_window();
        self.machine.stop_traffic();
        let instructions = self.machine.instructions() - instructions;
        let timed = timed.zip(timing::Moment::of(self.machine));
        let watched = self.machine.end_watch();
        self.until(self.machine.now() + config.link.latency)?;
        let (end, ports) = (nic_totals(self.machine), figures.until_now(self.machine));
        Ok((Window { begin, end, ports, instructions, timed }, watched))
    }

    /// Runs until exactly `frames` frames have been offered by each generator in the window.
    fn until_offered(&mut self, frames: u64, config: &RunConfig) -> Result<(), RunError> {
        let offered = |machine: &Machine| {
            let measurement = machine.ports()[0].loadgen.measurement().expect("a window was begun");
            measurement.volumes().0.frames
        };
        let traffic = &config.loadgen.traffic;
        if !traffic.streams.is_empty() {
            return self.until_offered_by_streams(frames, config);
        }
        let line = config.link.frames_per_second(traffic.frame_len());
        let line = line.0 as f64 / line.1 as f64;
        let due = doorbell_loadgen::Pacing::new(Ps::ZERO, traffic.rate, traffic.frame_len(), &config.link);
        // What has waited for its turn may leave back to back.
        let per_second = if traffic.outstanding.is_some() { line } else { due.frames_per_second().min(line) };
        loop {
            let left = frames.saturating_sub(offered(self.machine));
            if left == 0 {
                return Ok(());
            }
            // Half a frame short of the last: a step never goes beyond it, and the last step is half a frame.
            let step = ((left as f64 - 0.5) / per_second * 1e12) as u64;
            self.until(self.machine.now() + Ps(step.max(1)))?;
        }
    }

    /// The same with streams, at the first generator: where arrivals are random, others may have sent some more or less.
    fn until_offered_by_streams(&mut self, frames: u64, config: &RunConfig) -> Result<(), RunError> {
        // The shortest time that a frame takes.
        let (rate, bits) = config.link.frames_per_second(Frame::MIN_BYTES_WITH_FCS - Frame::FCS_BYTES);
        let shortest = bits as f64 / rate as f64 * 1e12;
        loop {
            let generator = &self.machine.ports()[0].loadgen;
            let offered = generator.measurement().map_or(0, |window| window.volumes().0.frames);
            let left = frames.saturating_sub(offered);
            if left == 0 {
                return Ok(());
            }
            // No frame leaves before it is due, nor sooner than the line has carried those before it.
            let due = generator.stream_frame_due(left - 1).filter(|due| *due != Ps::MAX);
            let Some(due) = due.filter(|_| generator.is_sending()) else {
                let problem =
                    format!("the streams ended {left} frames short of these {frames}; let them last longer");
                return Err(ConfigError::new("run.frames", problem).into());
            };
            let carried = self.machine.now() + Ps(((left as f64 - 0.5) * shortest).max(1.0) as u64);
            self.until(due.max(carried))?;
        }
    }

    /// Waits until every frame has come back or cannot come back any more.
    fn drain(&mut self, longest: Ps) -> Result<(), RunError> {
        let end = self.machine.now() + longest;
        while self.machine.frames_outstanding() > 0 && self.machine.now() < end {
            let step = self.machine.now().saturating_add(DRAIN_STEP).min(end);
            let before = self.machine.frames_outstanding();
            self.until(step)?;
            let inside: u64 =
                self.machine.ports().iter().map(|p| p.nic.in_flight().rx + p.nic.in_flight().tx).sum();
            // Nothing moved for a step and nothing is inside a NIC: the rest was lost.
            if inside == 0 && self.machine.frames_outstanding() == before {
                break;
            }
        }
        Ok(())
    }
}

pub(crate) fn merged_measurement(machine: &Machine) -> Measurement {
    let mut measurements = machine.ports().iter().filter_map(|port| port.loadgen.measurement());
    let mut all = measurements.next().expect("a window was begun at every generator").clone();
    measurements.for_each(|other| all.merge(other));
    all
}

fn merged_stages(machine: &Machine) -> StageBook {
    let mut all = StageBook::default();
    machine.stages.iter().for_each(|book| all.merge(book));
    all
}

pub(crate) fn summarise(
    session: &Session,
    config: &RunConfig,
    machine: &Machine,
    measurement: &Measurement,
    window: Window,
    (host_seconds, executed): (f64, u64),
) -> PointSummary {
    let figures = measurement.summary(machine.now());
    let (begin, end) = (window.begin, window.end);
    let mut drops = Drops {
        dma: end.dma - begin.dma,
        core: end.core - begin.core,
        tx: end.tx - begin.tx,
        nic_other: end.other - begin.other,
        link: end.link - begin.link,
        guest: 0,
    };
    let named = drops.dma + drops.core + drops.tx + drops.nic_other + drops.link;
    drops.guest =
        (figures.frames_offered - figures.frames_delivered - figures.frames_corrupt).saturating_sub(named);
    let cycles = figures.seconds * config.core.frequency.0 as f64 * machine.harts().len() as f64;
    let timing = window.timed.map(|(begin, end)| {
        let frames = figures.frames_delivered;
        let span = timing::Window { begin, end, frames, instructions: window.instructions, config };
        timing::figures(&span, machine)
    });
    let per = |amount: f64, over: f64| if over == 0.0 { 0.0 } else { amount / over };
    PointSummary {
        benchmark: session.workload().name.clone(),
        config_hash: config.hash(),
        rate: config.loadgen.traffic.rate_asked().to_string(),
        frame_size: match config.loadgen.traffic.streams.is_empty() {
            true => (config.loadgen.traffic.frame_len() + Frame::FCS_BYTES) as u64,
            false => machine.ports()[0].loadgen.mean_frame_size().0,
        },
        frames_offered: figures.frames_offered,
        frames_delivered: figures.frames_delivered,
        frames_corrupt: figures.frames_corrupt,
        drop_rate: figures.drop_rate,
        drops,
        offered_gbps: figures.offered.gbps_l2,
        delivered_gbps: figures.delivered.gbps_l2,
        offered_mpps: figures.offered.mpps,
        delivered_mpps: figures.delivered.mpps,
        latency_ns: figures.latency_ns,
        latency_stages_ns: merged_stages(machine).summary(),
        streams: figures.streams,
        simulated_seconds: figures.seconds,
        instructions: window.instructions,
        ipc: per(window.instructions as f64, cycles),
        instructions_per_frame: per(window.instructions as f64, figures.frames_delivered as f64),
        host_seconds,
        host_mips: per(executed as f64 / 1e6, host_seconds),
        state_hash: format!("{:016x}", machine.state_hash()),
        timing,
        functions: None,
        ports: window.ports,
        exit_status: None,
    }
}

/// All counters of a machine by hierarchical name, with their descriptions, for `stats.json`.
pub(crate) fn all_counters(machine: &Machine) -> Vec<(String, doorbell_sim::stats::Counter)> {
    let mut all = Vec::new();
    let mut add = |path: &str, counters: Vec<doorbell_sim::stats::Counter>| {
        all.extend(counters.into_iter().map(|counter| (format!("{path}.{}", counter.name), counter)));
    };
    add("machine", machine.stats().counters());
    for (index, disk) in machine.disk_stats().iter().enumerate() {
        add(&format!("disk{index}"), disk.counters());
    }
    for (index, hart) in machine.harts().iter().enumerate() {
        add(&format!("hart{index}"), hart.stats().counters());
    }
    for (index, port) in machine.ports().iter().enumerate() {
        add(&format!("port{index}.nic"), port.nic.stats().counters());
        add(&format!("port{index}.dma"), machine.dma_stats(index).counters());
        for (kind, name) in doorbell_machine::PATH_KINDS {
            add(&format!("port{index}.pcie.{name}"), port.pcie.stats(kind).counters());
        }
        add(&format!("port{index}.link_in"), port.link_in.stats().counters());
        add(&format!("port{index}.link_out"), port.link_out.stats().counters());
        add(&format!("port{index}.loadgen"), port.loadgen.stats().counters());
        add(&format!("port{index}.stages"), machine.stages[index].stats().counters());
    }
    all.extend(timing::counters(machine));
    all
}
