//! Cores' accesses to the device's registers over the link.

use doorbell_sim::Ps;

use super::PcieLink;
use crate::path::{COMPLETION_OVERHEAD_BYTES, REQUEST_OVERHEAD_BYTES};

/// Times of a register write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterWrite {
    /// The root complex has accepted it: the core's store buffer entry is free.
    pub accepted: Ps,
    /// The acknowledgement reaches the core: the round trip to the root complex takes as long as one way
    /// through it.
    pub acknowledged: Ps,
    /// It arrives at the device.
    pub arrives: Ps,
}

impl PcieLink {
    /// A core's posted write of `bytes` (at most 64) to a register, which leaves the core's uncore at `now`.
    /// Register accesses reach the device in call order.
    pub fn register_write(&mut self, now: Ps, bytes: u64) -> RegisterWrite {
        self.stats.register_writes += 1;
        // The device's credits for register writes return over the link.
        let accepted = self.register_writes.take(now, 1);
        let arrives = self.send_request(now, accepted, REQUEST_OVERHEAD_BYTES + dwords(bytes));
        self.register_writes.release(arrives + self.latencies.link, 1);
        RegisterWrite { accepted, acknowledged: accepted + self.latencies.root, arrives }
    }

    /// Returns when a core's register read, which leaves the core's uncore at `now`, is at the device. It
    /// does not overtake writes.
    pub fn register_read(&mut self, now: Ps) -> Ps {
        self.stats.register_reads += 1;
        self.send_request(now, now, REQUEST_OVERHEAD_BYTES)
    }

    /// Returns when the response of `bytes` to a register read that reached the device at `at_device` is back
    /// at the core. It does not overtake writes that the device sent before the call, so call this at that
    /// time.
    pub fn register_answer(&mut self, at_device: Ps, bytes: u64) -> Ps {
        let pushed = self.order.sent.writes_visible;
        let ready = at_device + self.latencies.register;
        let (_, sent) = self.send_up(at_device, ready, COMPLETION_OVERHEAD_BYTES + dwords(bytes));
        (sent + self.latencies.link + self.latencies.root).max(pushed)
    }

    fn send_request(&mut self, now: Ps, accepted: Ps, packet: u64) -> Ps {
        let sent = self.send_down(now, accepted + self.latencies.root, packet);
        let arrives = (sent + self.latencies.link).max(self.order.sent.registers_at);
        self.order.sent.registers_at = arrives;
        arrives
    }
}

/// Payloads are whole doublewords.
fn dwords(bytes: u64) -> u64 {
    bytes.next_multiple_of(4)
}
