//! Path between a device and memory with a bandwidth in each direction and a fixed latency: the functional
//! model.
//!
//! Document: PCI Express Base Specification, chapter 2 (transaction layer). Overheads per packet are those
//! published from measurements of real hosts: 8 bytes of framing, sequence number and LCRC, and a header of
//! 16 bytes for requests with 64-bit addresses and 12 for completions. The parameters follow from the link's
//! ([`LinkConfig`](crate::LinkConfig)), so that one set configures both models; the crate `attach` derives
//! those of other attachments. Modelled: serialisation of every packet on its direction, in the order of
//! requests; splitting by maximum payload and maximum read request; a fixed latency each way. Not modelled:
//! tags, credits, acknowledgements, alignment of completions, memory latency.
//!
//! *Up* is from the device to memory, *down* from memory to the device.

use doorbell_sim::ports::{DmaDirection, DmaPurpose};
use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::{BitsPerSec, Bytes, Ps};
use serde::{Deserialize, Serialize};

use crate::link::LinkConfig;

/// Link bytes of a request packet in addition to its payload.
pub const REQUEST_OVERHEAD_BYTES: u64 = 24;
/// Link bytes of a completion packet in addition to its payload.
pub const COMPLETION_OVERHEAD_BYTES: u64 = 20;
/// Kinds of DMA: purpose, direction, and name in statistics, in the order of listings. Data of frames and
/// interrupt messages have one direction.
pub const KINDS: [(DmaPurpose, DmaDirection, &str); 11] = [
    (DmaPurpose::RxDescriptor, DmaDirection::Read, "rx_descriptor_fetch"),
    (DmaPurpose::RxDescriptor, DmaDirection::Write, "rx_descriptor_writeback"),
    (DmaPurpose::RxData, DmaDirection::Write, "rx_data"),
    (DmaPurpose::TxDescriptor, DmaDirection::Read, "tx_descriptor_fetch"),
    (DmaPurpose::TxDescriptor, DmaDirection::Write, "tx_descriptor_writeback"),
    (DmaPurpose::TxData, DmaDirection::Read, "tx_data"),
    (DmaPurpose::Ring, DmaDirection::Read, "ring_read"),
    (DmaPurpose::Ring, DmaDirection::Write, "ring_write"),
    (DmaPurpose::Data, DmaDirection::Read, "data_read"),
    (DmaPurpose::Data, DmaDirection::Write, "data_write"),
    (DmaPurpose::Interrupt, DmaDirection::Write, "interrupt"),
];

/// Parameters of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathConfig {
    /// Latency from the device to memory, and the same back.
    pub latency: Ps,
    /// Bandwidth from the device to memory, after encoding, before packet headers.
    pub up_bandwidth: BitsPerSec,
    /// Bandwidth from memory to the device, after encoding, before packet headers.
    pub down_bandwidth: BitsPerSec,
    /// Latency from a core to the device's registers, and the same back.
    pub mmio_latency: Ps,
    /// Maximum payload of a write or completion.
    pub max_payload: Bytes,
    /// Maximum size of a read request.
    pub max_read_request: Bytes,
    /// Bytes of a request packet in addition to its payload.
    pub request_overhead: Bytes,
    /// Bytes of a completion packet in addition to its payload.
    pub completion_overhead: Bytes,
}

impl PathConfig {
    /// The parameters of a link behind `bridges` bridges, without limits by tags, credits and memory. The
    /// device's register latency is split between the two directions.
    pub fn of_link(link: &LinkConfig, bridges: u32) -> PathConfig {
        let latencies = link.latencies_behind(bridges);
        let latency = latencies.link + latencies.root;
        PathConfig {
            latency,
            up_bandwidth: link.packet_rate(),
            down_bandwidth: link.packet_rate(),
            mmio_latency: latency + Ps(latencies.register.0 / 2),
            max_payload: link.max_payload,
            max_read_request: link.max_read_request,
            request_overhead: Bytes(REQUEST_OVERHEAD_BYTES),
            completion_overhead: Bytes(COMPLETION_OVERHEAD_BYTES),
        }
    }
}

doorbell_sim::stats! {
    /// Counters of one kind of DMA.
    pub struct PathStats {
        /// Requests made by the device.
        requests,
        /// Payload bytes, both directions.
        payload_bytes,
        /// Packets from the device to memory.
        up_packets,
        /// Link bytes from the device to memory, packet headers included.
        up_bytes,
        /// Packets from memory to the device.
        down_packets,
        /// Link bytes from memory to the device, packet headers included.
        down_bytes,
    }
}

impl PathStats {
    /// Counts a request of `bytes` bytes.
    pub fn request(&mut self, bytes: u64) {
        self.requests += 1;
        self.payload_bytes += bytes;
    }
}

/// Index in [`KINDS`]. The direction distinguishes only purposes that have both.
pub fn slot(purpose: DmaPurpose, direction: DmaDirection) -> usize {
    let first = match purpose {
        DmaPurpose::RxDescriptor => 0,
        DmaPurpose::RxData => return 2,
        DmaPurpose::TxDescriptor => 3,
        DmaPurpose::TxData => return 5,
        DmaPurpose::Ring => 6,
        DmaPurpose::Data => 8,
        DmaPurpose::Interrupt => return 10,
    };
    first + direction as usize
}

/// Ordering limits of a path: later accesses complete no earlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// All writes of the device so far are visible.
    pub writes_visible: Ps,
    /// All reads of the device so far are done.
    pub reads_done: Ps,
    /// All register accesses so far have reached the device.
    pub registers_at: Ps,
}

impl Sent {
    /// Includes the accesses that another model of the same path has made.
    pub fn follow(&mut self, other: Sent) {
        self.writes_visible = self.writes_visible.max(other.writes_visible);
        self.reads_done = self.reads_done.max(other.reads_done);
        self.registers_at = self.registers_at.max(other.registers_at);
    }

    /// The latest of the times, for checks of saved states.
    pub fn latest(&self) -> Ps {
        self.writes_visible.max(self.reads_done).max(self.registers_at)
    }
}

/// The path between a device and memory.
#[derive(Clone, Debug)]
pub struct Path {
    config: PathConfig,
    state: PathState,
}

/// Saved state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathState {
    up_free: Ps,
    down_free: Ps,
    /// Time at which the device's last posted write is in memory; the response to a register read does not
    /// overtake it.
    last_write_done: Ps,
    stats: [PathStats; KINDS.len()],
}

impl PathState {
    /// Version of this layout.
    pub const VERSION: u32 = 2;
}

/// Occupies a direction for `bytes`, from `now` or as soon as it is free; returns when the last byte has
/// left.
fn serialise(free: &mut Ps, now: Ps, bytes: u64, rate: BitsPerSec) -> Ps {
    *free = now.max(*free).saturating_add(rate.time_for_bits(8 * bytes));
    *free
}

impl Path {
    /// An idle path.
    pub fn new(config: PathConfig) -> Path {
        Path { config, state: PathState::default() }
    }

    /// The parameters.
    pub fn config(&self) -> &PathConfig {
        &self.config
    }

    /// Counters of one kind of DMA.
    pub fn stats(&self, purpose: DmaPurpose, direction: DmaDirection) -> &PathStats {
        &self.state.stats[slot(purpose, direction)]
    }

    /// Books a read of `len` bytes issued by the device at `now`: requests go up, data come back. Returns
    /// when the last byte arrives at the device.
    pub fn read(&mut self, now: Ps, len: u32, purpose: DmaPurpose) -> Ps {
        let len = u64::from(len);
        // A zero-length read is still a request and a completion.
        let requests = len.div_ceil(self.config.max_read_request.0).max(1);
        let completions = len.div_ceil(self.config.max_payload.0).max(1);
        let up_bytes = requests * self.config.request_overhead.0;
        let down_bytes = completions * self.config.completion_overhead.0 + len;
        self.count(slot(purpose, DmaDirection::Read), len, (requests, up_bytes), (completions, down_bytes));
        let arrived = serialise(&mut self.state.up_free, now, up_bytes, self.config.up_bandwidth)
            .saturating_add(self.config.latency);
        serialise(&mut self.state.down_free, arrived, down_bytes, self.config.down_bandwidth)
            .saturating_add(self.config.latency)
    }

    /// Books a posted write of `len` bytes issued by the device at `now`. Returns when it is in memory.
    pub fn write(&mut self, now: Ps, len: u32, purpose: DmaPurpose) -> Ps {
        let len = u64::from(len);
        let packets = len.div_ceil(self.config.max_payload.0).max(1);
        let up_bytes = packets * self.config.request_overhead.0 + len;
        self.count(slot(purpose, DmaDirection::Write), len, (packets, up_bytes), (0, 0));
        let done = serialise(&mut self.state.up_free, now, up_bytes, self.config.up_bandwidth)
            .saturating_add(self.config.latency);
        self.state.last_write_done = done;
        done
    }

    fn count(&mut self, kind: usize, len: u64, up: (u64, u64), down: (u64, u64)) {
        let stats = &mut self.state.stats[kind];
        stats.request(len);
        stats.up_packets += up.0;
        stats.up_bytes += up.1;
        stats.down_packets += down.0;
        stats.down_bytes += down.1;
    }

    /// Returns when a register access that a core starts at `now` reaches the device. Accesses stay in order.
    pub fn mmio_arrival(&self, now: Ps) -> Ps {
        now.saturating_add(self.config.mmio_latency)
    }

    /// Returns when the response to a register read, given by the device at `at_device`, is back at the core.
    /// It does not overtake writes booked before the call, so call this at that time.
    pub fn mmio_answer(&self, at_device: Ps) -> Ps {
        at_device.saturating_add(self.config.mmio_latency).max(self.state.last_write_done)
    }

    /// Ordering limits, so that another model of the same link can take over.
    pub fn sent(&self) -> Sent {
        let latency = self.config.latency;
        Sent {
            writes_visible: self.state.last_write_done,
            reads_done: self.state.down_free.saturating_add(latency),
            registers_at: Ps::ZERO,
        }
    }

    /// Orders later accesses after those of another model of the same link.
    pub fn follow(&mut self, sent: Sent) {
        let latency = self.config.latency;
        let state = &mut self.state;
        state.last_write_done = state.last_write_done.max(sent.writes_visible);
        state.up_free = state.up_free.max(sent.writes_visible.saturating_sub(latency));
        state.down_free = state.down_free.max(sent.reads_done.saturating_sub(latency));
    }

    /// Returns the state to save.
    pub fn save(&self) -> PathState {
        self.state.clone()
    }

    /// Restores a saved state.
    pub fn restore(&mut self, state: PathState) -> Result<(), SnapshotError> {
        let latest = Ps(u64::MAX / 4);
        if [state.up_free, state.down_free, state.last_write_done].iter().any(|time| *time > latest) {
            let problem = "a time is out of range".to_owned();
            return Err(SnapshotError::Inconsistent { name: "path".to_owned(), problem });
        }
        self.state = state;
        Ok(())
    }
}

#[cfg(test)]
#[path = "path_tests.rs"]
mod tests;
