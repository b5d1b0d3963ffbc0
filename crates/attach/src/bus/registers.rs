//! Cores' accesses to the device's registers, over the same buses. From memory's end to the device is *down*.

use doorbell_pcie::link::RegisterWrite;
use doorbell_sim::Ps;

use super::stage::{Asked, Stage, Way};
use super::{Bus, LATEST};
use crate::config::STAGES_MAX;

impl Bus {
    /// A core's posted write of `bytes` to a register, which leaves the core's uncore at `now`: when the first bridge has
    /// taken it, so that the core's store buffer is free, and when it is at the device. Register accesses reach the device in the
    /// order of calls.
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

    /// When a core's read of a register of `bytes`, which leaves the core's uncore at `now`, is at the device. It does not overtake
    /// writes. A bus without split transactions is held until the answer has crossed it, if that does not have to wait for one with.
    pub(crate) fn register_read(&mut self, now: Ps, bytes: u64) -> Ps {
        self.stats.register_reads += 1;
        let (mut at, mut asked) = (now, [Asked::default(); STAGES_MAX]);
        for (stage, asked) in self.stages.iter_mut().zip(&mut asked).rev() {
            *asked = stage.ask(Way::Down, at + stage.config.bridge_latency);
            at = asked.ends + stage.config.latency;
        }
        let arrives = at.max(self.sent.registers_at);
        self.sent.registers_at = arrives;
        let mut at = arrives + self.chain.register_latency;
        for (stage, asked) in self.stages.iter_mut().zip(asked) {
            let ends = stage.answer_ends(at, bytes);
            if !stage.config.split {
                stage.hold(Way::Down, asked, ends);
            }
            at = ends + stage.beyond();
        }
        arrives
    }

    /// When the answer of `bytes` to a register read that has been at the device since `at_device` is back at the core: not
    /// before the writes that the device has sent by then are visible (so ask at that time).
    pub(crate) fn register_answer(&mut self, at_device: Ps, bytes: u64) -> Ps {
        let mut at = at_device.min(LATEST) + self.chain.register_latency;
        for stage in &mut self.stages {
            at = answer_over(stage, at, bytes) + stage.beyond();
        }
        at.max(self.sent.writes_visible)
    }
}

/// When an answer has crossed a bus, which is held for it already if it has no split transactions.
fn answer_over(stage: &mut Stage, ready: Ps, bytes: u64) -> Ps {
    match stage.config.split {
        true => stage.transfer(Way::Up, ready, bytes),
        false => {
            stage.stats.up_bytes += bytes;
            stage.answer_ends(ready, bytes)
        }
    }
}
