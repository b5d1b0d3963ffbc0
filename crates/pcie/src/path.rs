//! The path between a device and memory: one link with a bandwidth in each direction and a latency.
//!
//! Document: PCI Express Base Specification, chapter 2 (transaction layer); the byte counts a packet are
//! those that are public from measurements of real hosts: 8 bytes of framing, sequence number and LCRC a
//! packet, and a header of 16 bytes for requests with a 64-bit address and 12 for completions.
//! The parameters follow from the link's ([`LinkConfig`](crate::LinkConfig)), so that one set describes both models; the room
//! `attach` derives those of other attachments.
//! Modelled: serialisation of every packet on its direction, in the order of requests; splitting by
//! maximum payload and maximum read request; a fixed latency each way. Not modelled: tags, credits,
//! acknowledgements, alignment of completions, memory's own time.
//!
//! *Up* is from the device to memory, *down* from memory to the device.

use doorbell_sim::ports::DmaKind;
use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::{BitsPerSec, Bytes, Ps};
use serde::{Deserialize, Serialize};

use crate::link::LinkConfig;

/// Link bytes of a request's packet besides its payload.
pub const REQUEST_OVERHEAD_BYTES: u64 = 24;
/// Link bytes of a completion's packet besides its payload.
pub const COMPLETION_OVERHEAD_BYTES: u64 = 20;
/// The kinds of DMA that are told apart, with their names in statistics, in the order of listings.
pub const KINDS: [(DmaKind, &str); 6] = [
    (DmaKind::RxDescriptorFetch, "rx_descriptor_fetch"),
    (DmaKind::RxDescriptorWriteback, "rx_descriptor_writeback"),
    (DmaKind::RxData, "rx_data"),
    (DmaKind::TxDescriptorFetch, "tx_descriptor_fetch"),
    (DmaKind::TxDescriptorWriteback, "tx_descriptor_writeback"),
    (DmaKind::TxData, "tx_data"),
];

/// The parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathConfig {
    /// From the device to memory, and as long back.
    pub latency: Ps,
    /// Bandwidth from the device to memory, after encoding, before packet headers.
    pub up_bandwidth: BitsPerSec,
    /// Bandwidth from memory to the device, after encoding, before packet headers.
    pub down_bandwidth: BitsPerSec,
    /// From a core to the device's registers, and as long back.
    pub mmio_latency: Ps,
    /// The largest payload of a write or completion.
    pub max_payload: Bytes,
    /// The most that one read request asks for.
    pub max_read_request: Bytes,
    /// Bytes of a request's packet besides its payload.
    pub request_overhead: Bytes,
    /// Bytes of a completion's packet besides its payload.
    pub completion_overhead: Bytes,
}

impl PathConfig {
    /// What of a link behind so many bridges is left when tags, credits and memory cost nothing. The device's time to answer a
    /// register is shared by the two ways.
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
    /// What one kind of DMA has moved.
    pub struct PathStats {
        /// Requests made by the device.
        requests,
        /// Bytes of payload, either way.
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
    /// Another request, of so many bytes.
    pub fn request(&mut self, bytes: u64) {
        self.requests += 1;
        self.payload_bytes += bytes;
    }
}

/// Where a kind stands in [`KINDS`].
pub fn slot(kind: DmaKind) -> usize {
    match kind {
        DmaKind::RxDescriptorFetch => 0,
        DmaKind::RxDescriptorWriteback => 1,
        DmaKind::RxData => 2,
        DmaKind::TxDescriptorFetch => 3,
        DmaKind::TxDescriptorWriteback => 4,
        DmaKind::TxData => 5,
    }
}

/// How far a way has come: nothing that is asked for later may overtake it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// All the device's writes so far are visible.
    pub writes_visible: Ps,
    /// All its reads so far are done.
    pub reads_done: Ps,
    /// All register accesses so far are at the device.
    pub registers_at: Ps,
}

impl Sent {
    /// Goes on behind what another model of the same way has sent, too.
    pub fn follow(&mut self, other: Sent) {
        self.writes_visible = self.writes_visible.max(other.writes_visible);
        self.reads_done = self.reads_done.max(other.reads_done);
        self.registers_at = self.registers_at.max(other.registers_at);
    }

    /// The latest of its times, for the checks of saved states.
    pub fn latest(&self) -> Ps {
        self.writes_visible.max(self.reads_done).max(self.registers_at)
    }
}

/// The live path.
#[derive(Clone, Debug)]
pub struct Path {
    config: PathConfig,
    state: PathState,
}

/// What a snapshot keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathState {
    up_free: Ps,
    down_free: Ps,
    /// When the last posted write of the device is in memory: a read's answer does not overtake it.
    last_write_done: Ps,
    stats: [PathStats; KINDS.len()],
}

impl PathState {
    /// The version of this layout.
    pub const VERSION: u32 = 1;
}

/// Occupies a direction for `bytes` from `now` on or as soon after as it is free; returns when the
/// last byte has gone.
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

    /// What has been moved for one kind of DMA.
    pub fn stats(&self, kind: DmaKind) -> &PathStats {
        &self.state.stats[slot(kind)]
    }

    /// Books a read of `len` bytes that the device asks for at `now`: requests go up, data come back.
    /// Returns when the last byte is at the device.
    pub fn read(&mut self, now: Ps, len: u32, kind: DmaKind) -> Ps {
        let len = u64::from(len);
        // A read of nothing is still a request and an answer.
        let requests = len.div_ceil(self.config.max_read_request.0).max(1);
        let completions = len.div_ceil(self.config.max_payload.0).max(1);
        let up_bytes = requests * self.config.request_overhead.0;
        let down_bytes = completions * self.config.completion_overhead.0 + len;
        self.count(kind, len, (requests, up_bytes), (completions, down_bytes));
        let asked = serialise(&mut self.state.up_free, now, up_bytes, self.config.up_bandwidth)
            .saturating_add(self.config.latency);
        serialise(&mut self.state.down_free, asked, down_bytes, self.config.down_bandwidth)
            .saturating_add(self.config.latency)
    }

    /// Books a posted write of `len` bytes that the device sends at `now`. Returns when it is in memory.
    pub fn write(&mut self, now: Ps, len: u32, kind: DmaKind) -> Ps {
        let len = u64::from(len);
        let packets = len.div_ceil(self.config.max_payload.0).max(1);
        let up_bytes = packets * self.config.request_overhead.0 + len;
        self.count(kind, len, (packets, up_bytes), (0, 0));
        let done = serialise(&mut self.state.up_free, now, up_bytes, self.config.up_bandwidth)
            .saturating_add(self.config.latency);
        self.state.last_write_done = done;
        done
    }

    fn count(&mut self, kind: DmaKind, len: u64, up: (u64, u64), down: (u64, u64)) {
        let stats = &mut self.state.stats[slot(kind)];
        stats.request(len);
        stats.up_packets += up.0;
        stats.up_bytes += up.1;
        stats.down_packets += down.0;
        stats.down_bytes += down.1;
    }

    /// When a register access that a core starts at `now` reaches the device. Accesses stay in order.
    pub fn mmio_arrival(&self, now: Ps) -> Ps {
        now.saturating_add(self.config.mmio_latency)
    }

    /// When the answer to a register read, which the device gives at `at_device`, is back at the core: not
    /// before the writes that the device has booked by then are in memory (ask at that time).
    pub fn mmio_answer(&self, at_device: Ps) -> Ps {
        at_device.saturating_add(self.config.mmio_latency).max(self.state.last_write_done)
    }

    /// What has been sent, so that another model of the same link can go on behind it.
    pub fn sent(&self) -> Sent {
        let latency = self.config.latency;
        Sent {
            writes_visible: self.state.last_write_done,
            reads_done: self.state.down_free.saturating_add(latency),
            registers_at: Ps::ZERO,
        }
    }

    /// Goes on behind what another model of the same link has sent.
    pub fn follow(&mut self, sent: Sent) {
        let latency = self.config.latency;
        let state = &mut self.state;
        state.last_write_done = state.last_write_done.max(sent.writes_visible);
        state.up_free = state.up_free.max(sent.writes_visible.saturating_sub(latency));
        state.down_free = state.down_free.max(sent.reads_done.saturating_sub(latency));
    }

    /// The state to keep.
    pub fn save(&self) -> PathState {
        self.state.clone()
    }

    /// Takes a saved state over.
    pub fn restore(&mut self, state: PathState) -> Result<(), SnapshotError> {
        let latest = Ps(u64::MAX / 4);
        if [state.up_free, state.down_free, state.last_write_done].iter().any(|time| *time > latest) {
            let problem = "a time is impossibly late".to_owned();
            return Err(SnapshotError::Inconsistent { name: "path".to_owned(), problem });
        }
        self.state = state;
        Ok(())
    }
}

#[cfg(test)]
#[path = "path_tests.rs"]
mod tests;
