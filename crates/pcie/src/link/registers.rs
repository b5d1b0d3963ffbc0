//! Cores' accesses to the device's registers, over the same link.

use doorbell_sim::Ps;

use super::PcieLink;
use crate::path::{COMPLETION_OVERHEAD_BYTES, REQUEST_OVERHEAD_BYTES};

/// A register write on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterWrite {
    /// The root complex has taken it: the core's store buffer is free.
    pub accepted: Ps,
    /// The core is told so: to the root complex and back takes as long as a way through it.
    pub acknowledged: Ps,
    /// It is at the device.
    pub arrives: Ps,
}

impl PcieLink {
    /// A core's posted write of `bytes` (at most 64) to a register, which leaves the core's uncore at `now`. Register
    /// accesses reach the device in the order of calls.
    pub fn register_write(&mut self, now: Ps, bytes: u64) -> RegisterWrite {
        self.stats.register_writes += 1;
        // The device grants credits for so many; they come back over the link.
        let accepted = self.register_writes.take(now, 1);
        let arrives = self.send_request(now, accepted, REQUEST_OVERHEAD_BYTES + dwords(bytes));
        self.register_writes.release(arrives + self.latencies.link, 1);
        RegisterWrite { accepted, acknowledged: accepted + self.latencies.root, arrives }
    }

    /// When a core's read of a register, which leaves the core's uncore at `now`, is at the device. It does not overtake
    /// writes.
    pub fn register_read(&mut self, now: Ps) -> Ps {
        self.stats.register_reads += 1;
        self.send_request(now, now, REQUEST_OVERHEAD_BYTES)
    }

    /// When the answer of `bytes` to a register read that has been at the device since `at_device` is back at the core: not
    /// before the writes that the device has sent by then are visible (so ask at that time).
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

/// Payloads are whole double words.
fn dwords(bytes: u64) -> u64 {
    bytes.next_multiple_of(4)
}
