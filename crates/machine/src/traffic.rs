//! What an experimenter does with the load generators between runs of the machine.

use doorbell_loadgen::TrafficConfig;
use doorbell_sim::Ps;

use crate::config::ConfigError;
use crate::machine::Machine;

impl Machine {
    /// Sets every generator's traffic and starts it. Frames go to the station of the generator's own NIC.
    pub fn start_traffic(&mut self, traffic: &TrafficConfig) -> Result<(), ConfigError> {
        let now = self.now();
        for port in 0..self.ports.len() {
            let mac = self.config.nic.mac_of(port);
            let mut own = traffic.clone();
            own.destination.0 = mac.0;
            self.ports[port]
                .loadgen
                .set_traffic(own)
                .map_err(|error| ConfigError::new("loadgen.traffic", error))?;
            self.with_loadgen(port as u8, |generator, side| generator.start(now, side));
        }
        Ok(())
    }

    /// Stops all generators. What is on its way is still waited for.
    pub fn stop_traffic(&mut self) {
        let now = self.now();
        for port in &mut self.ports {
            port.loadgen.stop(now);
        }
    }

    /// Begins a measurement window at all generators.
    pub fn begin_window(&mut self) {
        let now = self.now();
        self.ports.iter_mut().for_each(|port| port.loadgen.begin_window(now));
    }

    /// Ends the measurement window.
    pub fn end_window(&mut self) {
        let now = self.now();
        self.ports.iter_mut().for_each(|port| port.loadgen.end_window(now));
    }

    /// The next moment at which no frame is on its way into a link from a generator, one picosecond
    /// before the links are free again: windows that begin and end there cut no frame in two.
    pub fn next_gap(&self) -> Ps {
        let free = self.ports.iter().map(|port| port.link_in.free_at()).max().unwrap_or(Ps::ZERO);
        Ps(free.0.saturating_sub(1)).max(self.now())
    }

    /// Frames that may still come back, at all generators.
    pub fn frames_outstanding(&self) -> u64 {
        self.ports.iter().map(|port| port.loadgen.outstanding()).sum()
    }

    /// Asserts that every frame is accounted for, at every generator and NIC.
    pub fn check_conservation(&self) {
        for port in &self.ports {
            port.nic.check_conservation();
            port.loadgen.assert_conservation();
        }
    }
}
