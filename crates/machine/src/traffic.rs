//! Control of the load generators between runs of the machine.

use doorbell_loadgen::{Arrival, LoadGenStats, StageRecorder, TrafficConfig};
use doorbell_pcie::NetworkFunction;
use doorbell_sim::{Frame, Ps};

use crate::config::ConfigError;
use crate::functions::PluggedFunction;
use crate::machine::Machine;

impl Machine {
    /// Sets every generator's traffic and starts it, see [`Machine::start_traffic_at`].
    pub fn start_traffic(&mut self, traffic: &TrafficConfig) -> Result<(), ConfigError> {
        (0..self.ports.len()).try_for_each(|port| self.start_traffic_at(port, traffic))
    }

    /// Sets one generator's traffic and starts it. Test frames are addressed to the NIC of the generator's
    /// port.
    pub fn start_traffic_at(&mut self, port: usize, traffic: &TrafficConfig) -> Result<(), ConfigError> {
        let now = self.now();
        let mut own = traffic.for_port(port as u32);
        own.destination = self.config.mac_of(port);
        self.ports[port]
            .loadgen
            .set_traffic(own)
            .map_err(|error| ConfigError::new("loadgen.traffic", error))?;
        self.with_loadgen(port as u8, |generator, side| generator.start(now, side));
        Ok(())
    }

    /// Sends a given frame from a generator as soon as its link is free. The frame is not part of the
    /// traffic.
    pub fn inject(&mut self, port: usize, frame: Frame) {
        let now = self.now();
        self.with_loadgen(port as u8, |generator, side| generator.inject(now, frame, side));
    }

    /// Unplugs a NIC's cable or plugs it in. Frames in flight still arrive, and the NIC drops them.
    pub fn set_cable(&mut self, port: usize, plugged: bool) {
        let now = self.now();
        self.with_network(port, |nic, side| nic.set_cable(now, plugged, side));
    }

    /// Handles a frame whose last bit reaches a generator. If another generator sent it, that one accounts
    /// for it.
    pub(crate) fn frame_at_loadgen(&mut self, now: Ps, port: u8, frame: Frame) {
        let station = self.ports[usize::from(port)].loadgen.station();
        let arrival = self.with_loadgen(port, |generator, side| generator.frame_arrived(now, &frame, side));
        if let Arrival::OtherGenerator(stream) = arrival
            && (stream as usize) < self.ports.len()
        {
            self.with_loadgen(stream as u8, |generator, side| {
                generator.frame_arrived_at_other_port(now, &frame, station, side)
            });
        }
        self.ports[usize::from(port)].loadgen.recycle(frame);
    }

    /// Handles a frame that was lost or damaged on its way to a generator. The generator that sent it counts
    /// it.
    pub(crate) fn frame_lost_after_nic(&mut self, port: u8, frame: &Frame) {
        let at = usize::from(port);
        if let Some(stream) = self.ports[at].loadgen.frame_lost_after_nic(frame)
            && let Some(sender) = self.ports.get_mut(stream as usize)
        {
            sender.loadgen.frame_lost_after_nic(frame);
        }
    }

    /// Whether a generator still waits for an ARP reply.
    pub fn is_resolving(&self) -> bool {
        self.ports.iter().any(|port| port.loadgen.is_resolving())
    }

    /// Stops all generators. Frames in flight are still received.
    pub fn stop_traffic(&mut self) {
        let now = self.now();
        for port in &mut self.ports {
            port.loadgen.stop(now);
        }
    }

    /// Begins a measurement window at all generators, at the time
    /// [`complete_until`](Machine::complete_until). In timed machines the schedule of direct cache access
    /// begins with it.
    pub fn begin_window(&mut self) {
        let now = self.complete_until();
        self.begin_dca_schedule(now);
        self.ports.iter_mut().for_each(|port| port.loadgen.begin_window(now));
        self.stages.iter_mut().for_each(StageRecorder::begin_window);
        self.for_each_nic(|nic, sent_arrives_by| nic.begin_measurement(sent_arrives_by));
    }

    /// Ends the measurement window, at the time [`complete_until`](Machine::complete_until).
    pub fn end_window(&mut self) {
        let now = self.complete_until();
        self.ports.iter_mut().for_each(|port| port.loadgen.end_window(now));
        self.for_each_nic(|nic, sent_arrives_by| nic.end_measurement(sent_arrives_by));
    }

    /// Calls a function for each port's NIC, with the time by which all frames sent to it have arrived.
    fn for_each_nic(&mut self, call: impl Fn(&mut dyn NetworkFunction, Ps)) {
        for port in 0..self.ports.len() {
            let (function, by) = (self.ports[port].function, self.sent_arrives_by(port));
            if let Some(nic) = self.functions[usize::from(function)].function.network_mut() {
                call(nic, by);
            }
        }
    }

    /// Next time at which no generator is sending a frame, one picosecond before the links are free again.
    /// Windows that begin and end there split no frame.
    pub fn next_gap(&self) -> Ps {
        let free = self.ports.iter().map(|port| port.link_in.free_at()).max().unwrap_or(Ps::ZERO);
        Ps(free.0.saturating_sub(1)).max(self.complete_until())
    }

    /// Time up to which, inclusive, all frames that a generator has sent so far reach its NIC, and no later
    /// ones. A later frame begins no earlier than the last bit of the previous one leaves, and so arrives
    /// after that time.
    pub fn sent_arrives_by(&self, port: usize) -> Ps {
        let link = &self.ports[port].link_in;
        link.free_at().max(self.complete_until()) + link.config().latency
    }

    /// Frames that may still return, over all generators.
    pub fn frames_outstanding(&self) -> u64 {
        self.ports.iter().map(|port| port.loadgen.outstanding()).sum()
    }

    /// Asserts that every frame is accounted for, at every generator and NIC, and between them.
    pub fn check_conservation(&self) {
        let total = |count: fn(&LoadGenStats) -> u64| -> u64 {
            self.ports.iter().map(|port| count(port.loadgen.stats())).sum()
        };
        // The counts differ only if a damaged frame names a generator that does not exist.
        assert!(
            total(|stats| stats.of_others) >= total(|stats| stats.elsewhere),
            "a frame that reached another generator was not counted"
        );
        self.functions.iter().filter_map(PluggedFunction::network).for_each(|nic| nic.check_conservation());
        self.ports.iter().for_each(|port| port.loadgen.assert_conservation());
    }
}
