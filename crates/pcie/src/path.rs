//! The path between a device and memory: one link with a bandwidth in each direction and a latency.
//!
//! Document: PCI Express Base Specification, chapter 2 (transaction layer); the byte counts a packet are
//! those that are public from measurements of real hosts: 8 bytes of framing, sequence number and LCRC a
//! packet, and a header of 16 bytes for requests with a 64-bit address and 12 for completions.
//! Modelled: serialisation of every packet on its direction, in the order of requests; splitting by
//! maximum payload and maximum read request; a fixed latency each way. Not modelled: tags, credits,
//! acknowledgements, alignment of completions, memory's own time.
//!
//! *Up* is from the device to memory, *down* from memory to the device.

use doorbell_sim::ports::DmaKind;
use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::{BitsPerSec, Bytes, Ps};
use serde::{Deserialize, Serialize};

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

/// The parameters, as a configuration file spells them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
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
}

impl Default for PathConfig {
    /// About a Gen3 x8 slot of a server.
    fn default() -> PathConfig {
        PathConfig {
            latency: Ps::from_ns(300),
            up_bandwidth: BitsPerSec(57_900_000_000),
            down_bandwidth: BitsPerSec(57_900_000_000),
            mmio_latency: Ps::from_ns(300),
            max_payload: Bytes(256),
            max_read_request: Bytes(512),
        }
    }
}

impl PathConfig {
    /// Says what is wrong with the parameters, naming the one and what it can be.
    pub fn validate(&self) -> Result<(), String> {
        for (name, value) in [("max_payload", self.max_payload), ("max_read_request", self.max_read_request)]
        {
            if !(128..=4096).contains(&value.0) || !value.0.is_power_of_two() {
                return Err(format!("{name} is {value}; PCI Express has 128B, 256B, 512B … 4KiB"));
            }
        }
        for (name, value) in [("up_bandwidth", self.up_bandwidth), ("down_bandwidth", self.down_bandwidth)] {
            if value.0 < 1_000_000 {
                return Err(format!("{name} is {value}; it must be at least 1Mbps"));
            }
        }
        for (name, value) in [("latency", self.latency), ("mmio_latency", self.mmio_latency)] {
            if value > Ps::from_ms(1) {
                return Err(format!("{name} is {value}; it must be at most 1ms"));
            }
        }
        Ok(())
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

/// Where a kind stands in [`KINDS`].
pub(crate) fn slot(kind: DmaKind) -> usize {
    match kind {
        DmaKind::RxDescriptorFetch => 0,
        DmaKind::RxDescriptorWriteback => 1,
        DmaKind::RxData => 2,
        DmaKind::TxDescriptorFetch => 3,
        DmaKind::TxDescriptorWriteback => 4,
        DmaKind::TxData => 5,
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
    /// An idle path. The configuration has to be valid.
    pub fn new(config: PathConfig) -> Path {
        if let Err(problem) = config.validate() {
            panic!("a PCIe path was made without validating it: {problem}");
        }
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
        let up_bytes = requests * REQUEST_OVERHEAD_BYTES;
        let down_bytes = completions * COMPLETION_OVERHEAD_BYTES + len;
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
        let up_bytes = packets * REQUEST_OVERHEAD_BYTES + len;
        self.count(kind, len, (packets, up_bytes), (0, 0));
        let done = serialise(&mut self.state.up_free, now, up_bytes, self.config.up_bandwidth)
            .saturating_add(self.config.latency);
        self.state.last_write_done = done;
        done
    }

    fn count(&mut self, kind: DmaKind, len: u64, up: (u64, u64), down: (u64, u64)) {
        let stats = &mut self.state.stats[slot(kind)];
        stats.requests += 1;
        stats.payload_bytes += len;
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
