//! Chains against closed forms. A cycle of the plain bus is 10 ns and moves 8 bytes.

mod chains;
mod ordering;
mod states;

use doorbell_sim::memory::{DmaAccess, HostMemory};
use doorbell_sim::ports::{DmaDirection, DmaPurpose};
use doorbell_sim::{Bytes, Hertz, PhysAddr, Ps};

use super::Bus;
use crate::config::{Chain, StageConfig};

/// Memory with the same latency for every line, which records its requests.
#[derive(Default)]
pub(super) struct Memory {
    pub read: Ps,
    pub write: Ps,
    pub lines: Vec<(Ps, u64, u32)>,
}

impl HostMemory for Memory {
    fn device_read(&mut self, now: Ps, addr: PhysAddr, bytes: u32, _: DmaAccess) -> Ps {
        self.lines.push((now, addr.0, bytes));
        now + self.read
    }

    fn device_write(&mut self, now: Ps, addr: PhysAddr, bytes: u32, _: DmaAccess) -> Ps {
        self.lines.push((now, addr.0, bytes));
        now + self.write
    }
}

pub(super) fn memory(ns_each: u64) -> Memory {
    Memory { read: ns(ns_each), write: ns(ns_each), lines: Vec::new() }
}

pub(super) fn ns(ns: u64) -> Ps {
    Ps::from_ns(ns)
}

pub(super) const DATA: DmaAccess = DmaAccess::plain(0, DmaPurpose::RxData, 0);

/// 8 bytes at 100 MHz, 100 ns to the other end; no other limits.
pub(super) fn stage() -> StageConfig {
    StageConfig {
        width: Bytes(8),
        clock: Hertz(100_000_000),
        latency: ns(100),
        split: true,
        full_duplex: false,
        address_cycles: 0,
        outstanding: 1024,
        bridge_latency: Ps::ZERO,
        buffer: 4096,
    }
}

pub(super) fn chain(stages: &[StageConfig]) -> Chain {
    Chain { stages: stages.to_vec(), burst: Bytes(64), register_latency: ns(20), reads_push_writes: true }
}

pub(super) fn bus(stages: &[StageConfig]) -> Bus {
    Bus::new(&chain(stages))
}

/// Completion time of the last of `count` lines that are requested at once.
pub(super) fn many(bus: &mut Bus, memory: &mut Memory, count: u64, write: bool) -> Ps {
    let len = (64 * count) as u32;
    match write {
        true => bus.write(Ps::ZERO, PhysAddr(0), len, DATA, memory),
        false => bus.read(Ps::ZERO, PhysAddr(0), len, DATA, memory),
    }
}
