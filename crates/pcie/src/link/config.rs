//! Configuration of the link: rate, limits, and attachment point of the device.

use doorbell_sim::config::{PowersOfTwo, check};
use doorbell_sim::{BitsPerSec, Bytes, Ps, config};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Attachment point of the device, which determines its distance from the memory system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Attached {
    /// A slot of a server processor: a 64-byte read of a cached line takes 600 ns (pcie-bench, SIGCOMM 2018,
    /// Xeon E5-2637v3).
    #[default]
    Slot,
    /// Behind an I/O bridge: a register access takes 773 ns (Binkert et al. 2005, like the three below).
    Peripheral,
    /// Attached directly to the memory controller chip: 381 ns.
    OffBridge,
    /// On the memory controller chip, as an endpoint integrated in the root complex: 190 ns.
    OnBridge,
    /// On the processor die: 30 ns.
    OnDie,
}

/// One-way latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// From transaction layer to transaction layer: data link layer, physical layer and wire.
    pub link: Ps,
    /// Through the root complex.
    pub root: Ps,
    /// From a register read's arrival at the device to its response; not a one-way latency.
    pub register: Ps,
}

impl Attached {
    /// Latencies of the attachment point. The published register accesses are round trips, of which 6.6 ns
    /// are the two packets' time on a Gen3 x8 link. The slot's read is four passages of link and root
    /// complex, 15 ns of packets and 50 ns of a cache.
    pub const fn latencies(self) -> Latencies {
        let (link, root, register) = match self {
            Attached::Slot => (150_000, 117_500, 20_000),
            Attached::Peripheral => (283_180, 100_000, 0),
            Attached::OffBridge => (112_180, 75_000, 0),
            Attached::OnBridge => (16_680, 75_000, 0),
            Attached::OnDie => (0, 11_680, 0),
        };
        Latencies { link: Ps(link), root: Ps(root), register: Ps(register) }
    }
}

const PACKET_SIZES: PowersOfTwo<Bytes> = PowersOfTwo(Bytes(128)..=Bytes(4096));

config! {
    /// Parameters of the link.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct LinkConfig {
        /// PCI Express generation, 1 to 5.
        pub generation: u32 [1..=5] = 3,
        /// Lanes: 1, 2, 4, 8, 12, 16 or 32.
        pub lanes: u32 = 8,
        /// Attachment point: "slot", "peripheral", "off-bridge", "on-bridge" or "on-die".
        pub attached: Attached = Attached::default(),
        /// One-way latency of the link, instead of the attachment point's. At most 1ms.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub link_latency: Option<Ps> [..=Ps::from_ms(1)] = None,
        /// One-way latency of the root complex, instead of the attachment point's. At most 1ms.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub root_latency: Option<Ps> [..=Ps::from_ms(1)] = None,
        /// Time until the device responds to a register read, instead of the attachment point's. At most 1ms.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub register_latency: Option<Ps> [..=Ps::from_ms(1)] = None,
        /// One-way latency of each PCI bridge in front of the device (`platform.bridges`). At most 100us.
        pub bridge_latency: Ps [..=Ps::from_us(100)] = Ps::ZERO,
        /// Maximum payload of a write or completion (MPS): a power of two, 128B to 4KiB.
        pub max_payload: Bytes [PACKET_SIZES] = Bytes(256),
        /// Maximum read request size (MRRS): a power of two, 128B to 4KiB.
        pub max_read_request: Bytes [PACKET_SIZES] = Bytes(512),
        /// Read completion boundary (RCB): 64B or 128B.
        pub read_completion_boundary: Bytes = Bytes(64),
        /// Share of the encoded rate for acknowledgements, flow control and skip sets, in ten-thousandths, at
        /// most 5000. Default: 812 with up to 8 lanes, 980 with more.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub data_link_share: Option<u32> [..=5000] = None,
        /// Tags: reads that the device can have in flight, 1 to 1024.
        pub tags: u32 [1..=1024] = 32,
        /// Posted header credits: writes that the root complex buffers until they are visible, 1 to 4096.
        pub posted_headers: u32 [1..=4096] = 128,
        /// Posted data credits of 16 bytes, at least one maximum payload and at most 65536.
        pub posted_data: u32 = 2048,
        /// Non-posted header credits: read requests that the root complex queues until they go to memory, 1
        /// to 4096.
        pub non_posted_headers: u32 [1..=4096] = 128,
        /// Register writes that the device buffers, 1 to 4096.
        pub register_writes: u32 [1..=4096] = 32,
        /// Minimum interval between read requests of the device's DMA engine. At most 1us.
        pub read_issue_interval: Ps [..=Ps::from_us(1)] = Ps::from_ns(2),
        /// Minimum interval between writes of the device's DMA engine. At most 1us.
        pub write_issue_interval: Ps [..=Ps::from_us(1)] = Ps::from_ns(2),
        /// Interval at which the root complex issues a packet's lines to memory. At most 1us.
        pub line_interval: Ps [..=Ps::from_us(1)] = Ps::from_ns(1),
        /// Whether the device's reads may pass its writes.
        pub relaxed_ordering: bool = false,
    }
}

impl LinkConfig {
    /// The latencies in use.
    pub fn latencies(&self) -> Latencies {
        let preset = self.attached.latencies();
        Latencies {
            link: self.link_latency.unwrap_or(preset.link),
            root: self.root_latency.unwrap_or(preset.root),
            register: self.register_latency.unwrap_or(preset.register),
        }
    }

    /// The latencies in use behind `bridges` PCI bridges, which are part of the link's.
    pub fn latencies_behind(&self, bridges: u32) -> Latencies {
        let latencies = self.latencies();
        Latencies { link: latencies.link + Ps(u64::from(bridges) * self.bridge_latency.0), ..latencies }
    }

    /// Share of the data link layer, in ten-thousandths.
    pub fn data_link_share(&self) -> u64 {
        u64::from(self.data_link_share.unwrap_or(if self.lanes <= 8 { 812 } else { 980 }))
    }

    /// Bits per second of a direction after encoding: 8b/10b in generations 1 and 2, 128b/130b from 3 on.
    pub fn encoded_rate(&self) -> BitsPerSec {
        let lane = match self.generation {
            1 => 2_000_000_000,
            2 => 4_000_000_000,
            later => (8_000_000_000u64 << (later.min(5) - 3)) * 128 / 130,
        };
        BitsPerSec(lane * u64::from(self.lanes))
    }

    /// Bits per second of a direction available for transaction-layer packets, including headers.
    pub fn packet_rate(&self) -> BitsPerSec {
        BitsPerSec(self.encoded_rate().0 / 10_000 * (10_000 - self.data_link_share()))
    }

    /// Checks the parameters. The message names the parameter and its valid values.
    pub fn validate(&self) -> Result<(), String> {
        self.check_ranges()?;
        if ![1, 2, 4, 8, 12, 16, 32].contains(&self.lanes) {
            return Err(format!("lanes is {}; it must be 1, 2, 4, 8, 12, 16 or 32", self.lanes));
        }
        if ![64, 128].contains(&self.read_completion_boundary.0) {
            let value = self.read_completion_boundary;
            return Err(format!("read_completion_boundary is {value}; it must be 64B or 128B"));
        }
        let least = (self.max_payload.0 / 16) as u32;
        check("posted_data", &self.posted_data, least..=65536)?;
        Ok(())
    }
}
