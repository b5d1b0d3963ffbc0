//! Cores' accesses to the device's registers, over the same buses. *Down* is from memory to the device.

use doorbell_pcie::link::RegisterWrite;
use doorbell_sim::Ps;

use super::stage::{BusRequest, Stage, Way};
use super::{Bus, LATEST};
use crate::config::STAGES_MAX;

impl Bus {
    /// A core's posted write of `bytes` to a register, which leaves the core's uncore at `now`. Returns when
    /// the first bridge has accepted it, so that the core's store buffer entry is free, and when it is at the
    /// device. Register accesses reach the device in call order.
    pub(crate) fn register_write(&mut self, now: Ps, bytes: u64) -> RegisterWrite {
        self.stats.register_writes += 1;
        let accepted = self.register_writes.take(now, 1);
        let mut at = accepted;
        for stage in self.stages.iter_mut().rev() {
            let (_, ends) = stage.write(Way::Down, at + stage.config.bridge_latency, bytes);
            at = ends + stage.config.latency;
        }
        let arrives = at.max(self.sent.registers_at);
        self.sent.registers_at = arrives;
        self.register_writes.release(arrives, 1);
        RegisterWrite { accepted, acknowledged: accepted, arrives }
    }

    /// Returns when a core's register read of `bytes`, which leaves the core's uncore at `now`, is at the
    /// device. It does not overtake writes. A bus without split transactions is held until the response has
    /// crossed it, assuming that the response does not wait on a split bus.
    pub(crate) fn register_read(&mut self, now: Ps, bytes: u64) -> Ps {
        self.stats.register_reads += 1;
        let (mut at, mut request) = (now, [BusRequest::default(); STAGES_MAX]);
        for (stage, request) in self.stages.iter_mut().zip(&mut request).rev() {
            *request = stage.request(Way::Down, at + stage.config.bridge_latency);
            at = request.ends + stage.config.latency;
        }
        let arrives = at.max(self.sent.registers_at);
        self.sent.registers_at = arrives;
        let mut at = arrives + self.chain.register_latency;
        for (stage, request) in self.stages.iter_mut().zip(request) {
            let ends = stage.response_end(at, bytes);
            if !stage.config.split {
                stage.hold(Way::Down, request, ends);
            }
            at = ends + stage.beyond();
        }
        arrives
    }

    /// Returns when the response of `bytes` to a register read that reached the device at `at_device` is back
    /// at the core. It does not overtake writes that the device sent before the call, so call this at that
    /// time.
    pub(crate) fn register_answer(&mut self, at_device: Ps, bytes: u64) -> Ps {
        let mut at = at_device.min(LATEST) + self.chain.register_latency;
        for stage in &mut self.stages {
            at = transfer_response(stage, at, bytes) + stage.beyond();
        }
        at.max(self.sent.writes_visible)
    }
}

/// Returns when a response has crossed a bus; a bus without split transactions is already held for it.
fn transfer_response(stage: &mut Stage, ready: Ps, bytes: u64) -> Ps {
    match stage.config.split {
        true => stage.transfer(Way::Up, ready, bytes),
        false => {
            stage.stats.up_bytes += bytes;
            stage.response_end(ready, bytes)
        }
    }
}
