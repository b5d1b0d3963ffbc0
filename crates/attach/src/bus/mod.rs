//! Timed chain of buses with store-and-forward bridges between a device and memory; for on-die devices, one
//! bus without bridges.
//!
//! After Binkert et al., "Analyzing NIC Overheads in Network-Intensive Workloads" (2005), whose machines are
//! made of "buses of a width and a clock" with split transactions of at most 64 bytes and bridges with a
//! latency each, and after gem5's crossbars and `Bridge`, which the ISPASS 2024 paper has between NIC and
//! memory. Modelled: transfers of whole bus cycles, with shared or separate wires per direction; arbitration
//! in request order, each request taking the first gap that is long enough; split transactions, or reads that
//! hold the bus for the round trip; bridges that receive a whole transaction before they forward it and
//! buffer a limited number of writes; a limited number of reads in flight per bus. Posted writes stay in
//! order and become visible in order, requests do not overtake each other, register responses push writes.
//! **Each line goes through [`HostMemory`] when its transaction has arrived**; a write's entry in the last
//! bridge is held until the write is visible. Not modelled: other devices on the same buses, retries, parity,
//! wait states of the device (a register read has one latency), core accesses between transfers that the
//! device has already booked.
//!
//! *Up* is from the device to memory. A device issues requests in time order; cores may be some microseconds
//! earlier or later.

mod registers;
mod stage;
mod state;
mod stats;

use doorbell_pcie::Sent;
use doorbell_pcie::path::{KINDS, PathStats, slot};
use doorbell_sim::memory::{DmaAccess, HostMemory, LINE_BYTES, each_line};
use doorbell_sim::ports::{DmaDirection, DmaPurpose};
use doorbell_sim::{PhysAddr, Pool, Ps};
use serde::{Deserialize, Serialize};

use crate::config::{Chain, STAGES_MAX};
use stage::{BusRequest, LATEST, Stage, Way};

pub use stats::{BusStats, StageStats};

/// A chain of buses; see the module.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Bus {
    #[serde(skip)]
    chain: Chain,
    /// From the device to memory.
    stages: Vec<Stage>,
    /// Times that no later access overtakes.
    sent: Sent,
    /// Cores' writes in flight to the device.
    register_writes: Pool,
    kinds: [PathStats; KINDS.len()],
    stats: BusStats,
    /// Current time of the machine, if the machine provides it. Bookings that ended before it are dropped.
    present: Option<Ps>,
}

impl Bus {
    /// An idle chain.
    pub(crate) fn new(chain: &Chain) -> Bus {
        let last = chain.stages.last().expect("a chain has a stage");
        Bus {
            stages: chain.stages.iter().map(Stage::new).collect(),
            register_writes: Pool::new(last.buffer),
            chain: chain.clone(),
            ..Bus::default()
        }
    }

    /// Sets the machine's current time; devices may request later times.
    pub(crate) fn advance_to(&mut self, present: Ps) {
        self.present = Some(present);
    }

    /// Drops bookings that ended before `now` and before the current time.
    fn forget_ended(&mut self, now: Ps) {
        let past = self.present.map_or(now, |present| present.min(now));
        self.stages.iter_mut().for_each(|stage| stage.advance_to(past));
    }

    /// Counters of one kind of DMA: only requests and bytes, since a bus has no packets.
    pub(crate) fn kind_stats(&self, purpose: DmaPurpose, direction: DmaDirection) -> &PathStats {
        &self.kinds[slot(purpose, direction)]
    }

    /// Counters of the whole chain.
    pub fn stats(&self) -> &BusStats {
        &self.stats
    }

    /// Counters of each stage, from the device to memory.
    pub fn stages(&self) -> impl Iterator<Item = &StageStats> {
        self.stages.iter().map(|stage| &stage.stats)
    }

    /// The same up to `at`.
    pub fn stages_until(&self, at: Ps) -> impl Iterator<Item = StageStats> {
        self.stages.iter().map(move |stage| stage.stats_until(at))
    }

    /// Ordering limits, so that another model of the same path can take over.
    pub(crate) fn sent(&self) -> Sent {
        self.sent
    }

    /// Orders later accesses after those of another model of the same path.
    pub(crate) fn follow(&mut self, sent: Sent) {
        self.sent.follow(sent);
    }

    /// Calls `each` for every transaction of a request; a zero-length request has one, too.
    fn transactions(&mut self, addr: PhysAddr, len: u32, mut each: impl FnMut(&mut Bus, u64, u64, u64)) {
        let (len, burst) = (u64::from(len), self.chain.burst.0);
        let mut done = 0;
        loop {
            let at = addr.0.wrapping_add(done);
            let bytes = (len - done).min(burst - at % burst);
            each(self, at, bytes, done);
            done += bytes;
            if done == len {
                return;
            }
        }
    }

    /// Times a posted write of `len` bytes that the device issues at `now`; returns when all of it is
    /// visible.
    pub(crate) fn write(
        &mut self,
        now: Ps,
        addr: PhysAddr,
        len: u32,
        access: DmaAccess,
        memory: &mut impl HostMemory,
    ) -> Ps {
        self.kinds[slot(access.purpose, DmaDirection::Write)].request(u64::from(len));
        self.transactions(addr, len, |bus, at, bytes, done| {
            let access = access.advanced_by(done as u32);
            bus.write_transaction(now, at, bytes, access, memory);
        });
        self.sent.writes_visible
    }

    fn write_transaction(
        &mut self,
        now: Ps,
        addr: u64,
        bytes: u64,
        access: DmaAccess,
        memory: &mut impl HostMemory,
    ) {
        self.forget_ended(now);
        let (mut at, mut first) = (now, None);
        for index in 0..self.stages.len() {
            let stage = &mut self.stages[index];
            let granted = stage.take_buffer(at);
            let (begins, ends) = stage.write(Way::Up, granted, bytes);
            at = ends + stage.beyond();
            first.get_or_insert(begins);
            // The previous bridge has forwarded it.
            if index > 0 {
                self.stages[index - 1].release_buffer(ends);
            }
        }
        // Posted writes do not overtake each other: they become visible in order.
        let mut visible = self.sent.writes_visible.max(at);
        each_line(PhysAddr(addr), bytes, |line, part, offset| {
            let whole = u64::from(part) == LINE_BYTES;
            self.stats.full_line_writes += u64::from(whole);
            self.stats.partial_line_writes += u64::from(!whole);
            let access = access.advanced_by(offset);
            visible = visible.max(memory.device_write(at, line, part, access));
        });
        let last = self.stages.last_mut().expect("a chain has a stage");
        last.release_buffer(visible);
        self.sent.writes_visible = visible;
        self.stats.writes += 1;
        self.stats.write_visible_ps += visible.saturating_sub(first.unwrap_or(now)).0;
    }

    /// Times a read of `len` bytes that the device issues at `now`; returns when the last byte is at the
    /// device.
    pub(crate) fn read(
        &mut self,
        now: Ps,
        addr: PhysAddr,
        len: u32,
        access: DmaAccess,
        memory: &mut impl HostMemory,
    ) -> Ps {
        self.kinds[slot(access.purpose, DmaDirection::Read)].request(u64::from(len));
        self.transactions(addr, len, |bus, at, bytes, done| {
            let access = access.advanced_by(done as u32);
            bus.read_transaction(now, at, bytes, access, memory);
        });
        self.sent.reads_done
    }

    fn read_transaction(
        &mut self,
        now: Ps,
        addr: u64,
        bytes: u64,
        access: DmaAccess,
        memory: &mut impl HostMemory,
    ) {
        self.forget_ended(now);
        let (mut at, mut request) = (now, [BusRequest::default(); STAGES_MAX]);
        for (stage, request) in self.stages.iter_mut().zip(&mut request) {
            let granted = stage.take_read(at);
            *request = stage.request(Way::Up, granted);
            at = request.ends + stage.beyond();
        }
        if self.chain.reads_push_writes {
            self.stats.ordering_stall_ps += self.sent.writes_visible.saturating_sub(at).0;
            at = at.max(self.sent.writes_visible);
        }
        let mut ready = at;
        each_line(PhysAddr(addr), bytes, |line, part, offset| {
            self.stats.line_reads += 1;
            let access = access.advanced_by(offset);
            ready = ready.max(memory.device_read(at, line, part, access));
        });
        for (stage, request) in self.stages.iter_mut().zip(request).rev() {
            let ends = stage.respond(Way::Up, request, ready + stage.config.bridge_latency, bytes);
            stage.release_read(ends);
            ready = ends + stage.config.latency;
        }
        self.stats.reads += 1;
        self.stats.round_trip_ps += ready.saturating_sub(request[0].begins).0;
        self.sent.reads_done = self.sent.reads_done.max(ready);
    }
}

#[cfg(test)]
mod tests;
