//! Trials on simulated machines: each runs on its own machine, restored from a shared checkpoint.

use std::sync::atomic::AtomicBool;

use doorbell_bench::{Control, PointSummary, RunConfig, RunError, Session};
use doorbell_loadgen::{Pacing, Rate};
use doorbell_machine::PortConfig;
use doorbell_sim::{Bytes, Ps};

use super::goal::{Goal, LatencyBound};
use super::{Account, Queues, System, Trial, TrialStatus};

/// Upper bound on frames that a guest holds per port outside its rings: bursts in processing, kernel queues
/// and socket queues.
const IN_GUEST: u64 = 4096;
/// Maximum number of descriptors in a ring.
const RING_MAX: u64 = 4096;
/// NIC packet buffer. Drivers give each direction a part of it; used if the configuration has no FIFO size.
const PACKET_BUFFER: u64 = 64 << 10;

/// A benchmark's machine, loaded with frames of one size.
pub struct MachineSystem<'a> {
    session: &'a Session,
    frame_size: Bytes,
    latency: Option<LatencyBound>,
}

/// The highest rate that every port's link carries, in whole frames per second.
pub fn line_rate(config: &RunConfig, frame_size: Bytes) -> u64 {
    frames_per_second(Rate::Line(100_000_000), config, frame_size)
}

/// Converts a rate to whole frames per second at each port; with different links, at the slowest one.
pub fn frames_per_second(rate: Rate, config: &RunConfig, frame_size: Bytes) -> u64 {
    let mut traffic = config.loadgen.traffic.clone();
    traffic.frame_size = frame_size;
    let pace = |port: PortConfig| {
        Pacing::new(Ps::ZERO, rate, traffic.frame_len(), &port.link).frames_per_second() as u64
    };
    config.all_ports().map(pace).min().expect("a run has at least one NIC")
}

impl<'a> MachineSystem<'a> {
    /// Creates the system for frames of this size.
    pub fn new(session: &'a Session, frame_size: Bytes, goal: &Goal) -> MachineSystem<'a> {
        MachineSystem { session, frame_size, latency: goal.latency }
    }
}

impl System for MachineSystem<'_> {
    type Error = RunError;
    type Summary = PointSummary;
    type Trial<'t>
        = Load<'t>
    where
        Self: 't;

    fn begin<'t>(&'t self, rate: u64, stop: &'t AtomicBool) -> Result<Load<'t>, RunError> {
        let trial = Control::quietly(stop, |control| {
            doorbell_bench::Trial::begin(self.session, Rate::Frames(rate), self.frame_size, control)
        })?;
        Ok(Load { trial, stop, latency: self.latency })
    }

    fn queues(&self, rate: u64) -> Queues {
        let config = self.session.config();
        let rings = self.session.workload().rings;
        let [receive, transmit] = rings.map_or([RING_MAX; 2], |rings| rings.map(u64::from));
        let frame = self.frame_size.0.max(64);
        let fifo = |set: Option<Bytes>, frame: u64| set.map_or(PACKET_BUFFER, |fifo| fifo.0) / frame;
        let mut queues = Queues { before_loss: 0, at_most: 0 };
        for PortConfig { nic, link, .. } in config.all_ports() {
            let in_fifo = (frame + nic.rx_fifo_frame_overhead.0).next_multiple_of(16);
            let before_loss = fifo(nic.rx_fifo, in_fifo) + receive;
            let on_links = rate as f64 * 2.0 * link.latency.as_secs_f64();
            let beyond = fifo(nic.tx_fifo, frame) + transmit + on_links as u64 + IN_GUEST;
            queues.before_loss += before_loss;
            queues.at_most += before_loss + beyond;
        }
        queues
    }

    /// Rates are per port.
    fn due(&self, rate: u64) -> u64 {
        rate * self.session.config().all_ports().count() as u64
    }
}

/// A running trial.
pub struct Load<'t> {
    trial: doorbell_bench::Trial<'t>,
    stop: &'t AtomicBool,
    latency: Option<LatencyBound>,
}

impl Load<'_> {
    fn latency(&self) -> Option<(Ps, Ps)> {
        self.latency.and_then(|bound| self.trial.latency(bound.percentile))
    }
}

impl Trial for Load<'_> {
    type Error = RunError;
    type Summary = PointSummary;

    fn advance(&mut self, time: Ps) -> Result<TrialStatus, RunError> {
        let now = Control::quietly(self.stop, |control| self.trial.run_for(time, control))?;
        let (offered, returned, dropped) = (now.offered, now.returned, now.dropped);
        Ok(TrialStatus { offered, returned, dropped, latency: self.latency() })
    }

    fn open_window(&mut self) -> Result<(), RunError> {
        Control::quietly(self.stop, |control| self.trial.open_window(control))
    }

    fn close(self) -> Result<(Account, PointSummary), RunError> {
        let latency = self.latency();
        let result = Control::quietly(self.stop, |control| self.trial.close(control))?;
        let account = Account {
            offered: result.offered,
            lost: result.lost,
            arrived: result.arrived,
            latency,
            window: result.window,
            simulated: result.simulated,
        };
        Ok((account, result.summary))
    }
}
