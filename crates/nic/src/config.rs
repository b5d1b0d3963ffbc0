//! Parameters of a NIC, set by a preset or by `--set nic.rx_fifo=48KiB`.

use std::fmt;

use doorbell_sim::config::{OutOfRange, is_default};
use doorbell_sim::{BitsPerSec, Bytes, Ps, config};
use doorbell_wire::MacAddr;
use schemars::JsonSchema;
use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// Reason for rejecting a configuration. The message begins with the field's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The station address is not a unicast address.
    #[error("mac \"{0}\" is not a unicast Ethernet address such as \"52:54:00:12:34:56\"")]
    Mac(MacAddr),
    /// A value outside its range.
    #[error(transparent)]
    Range(#[from] OutOfRange),
}

/// Model of a NIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub enum NicModel {
    /// Intel 82540EM (e1000): one queue in each direction, interrupt line.
    #[default]
    #[serde(rename = "82540em")]
    E82540em,
    /// Intel 82576 (igb): sixteen queues in each direction, RSS, MSI-X.
    #[serde(rename = "82576")]
    E82576,
}

impl<'de> Deserialize<'de> for NicModel {
    /// Accepts the name as a string or as a number: the command line passes `82576` as a number.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;

        impl Visitor<'_> for Name {
            type Value = NicModel;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"82540em\" or \"82576\"")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<NicModel, E> {
                // Manuals write "82540EM" with capital letters.
                match name.to_ascii_lowercase().as_str() {
                    "82540em" => Ok(NicModel::E82540em),
                    "82576" => Ok(NicModel::E82576),
                    _ => Err(E::invalid_value(Unexpected::Str(name), &self)),
                }
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<NicModel, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<NicModel, E> {
                self.visit_str(&number.to_string())
            }
        }

        deserializer.deserialize_any(Name)
    }
}

config! {
    /// Parameters of one NIC.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct NicConfig {
        /// Intel model: "82540em" (drivers: e1000 in Linux, em in DPDK; one queue in each direction) or
        /// "82576" (igb in both; sixteen queues in each direction, RSS, MSI-X; docs/nic-82576.md). Each model
        /// needs its own guest boot.
        #[serde(skip_serializing_if = "is_default")]
        pub model: NicModel = NicModel::default(),
        /// Unicast station address of NIC 0 in its EEPROM, by default 52:54:00:12:34:56. NIC n gets this
        /// address plus n, unless a port sets its own `nic.mac`.
        pub mac: Option<MacAddr> = None,
        /// Size of the receive FIFO, 2KiB to 1GiB. By default the register PBA sets it. PBA is always
        /// readable and writable.
        pub rx_fifo: Option<Bytes> [Bytes(2 << 10)..=Bytes(1 << 30)] = None,
        /// Size of the transmit FIFO, 2KiB to 1GiB. By default it is the part of the 64 KiB packet buffer
        /// that PBA leaves.
        pub tx_fifo: Option<Bytes> [Bytes(2 << 10)..=Bytes(1 << 30)] = None,
        /// Overhead of each frame in the receive FIFO, at most 1024B, added to its length (FCS included)
        /// before rounding up to a multiple of 16.
        pub rx_fifo_frame_overhead: Bytes [Bytes(0)..=Bytes(1024)] = Bytes(0),
        /// Capacity of the chip for receive descriptors, 8 to 4096.
        pub rx_descriptor_cache: u16 [8..=4096] = 64,
        /// Capacity of the chip for transmit descriptors, 8 to 4096.
        pub tx_descriptor_cache: u16 [8..=4096] = 64,
        /// Maximum number of descriptors per fetch, 1 to 4096.
        pub descriptor_fetch_max: u16 [1..=4096] = 64,
        /// Maximum number of descriptor fetches in flight per ring, from 1 to 256. With one, descriptors that
        /// software adds during a fetch are fetched after it, so they wait for up to two round trips. With
        /// more, each fetch carries fewer descriptors, which costs bandwidth on a saturated link.
        pub descriptor_fetches_in_flight: u16 [1..=256] = 1,
        /// Maximum number of frame data reads in flight, 1 to 4096. Descriptor fetches are not counted.
        pub reads_in_flight: u16 [1..=4096] = 32,
        /// Maximum number of frame data writes in flight, 1 to 4096. Descriptor write-backs are not counted.
        pub writes_in_flight: u16 [1..=4096] = 64,
        /// Maximum bytes of frame data in those writes, 64B to 1MiB, like the posted-data credits of a PCIe
        /// link. Reads queue behind the writes in flight, so a larger limit would let received frames starve
        /// transmission.
        pub write_bytes_in_flight: Bytes [Bytes(64)..=Bytes(1 << 20)] = Bytes(8 << 10),
        /// Maximum length of one frame data read, 64B to 16KiB. Longer buffers are read in pieces.
        pub tx_read_max: Bytes [Bytes(64)..=Bytes(16 << 10)] = Bytes(4096),
        /// Frames handed to the link ahead of time while the transmitter does not obey PAUSE (CTRL.RFCE is
        /// off), 1 to 1024. More frames need fewer events; the times on the wire do not change.
        pub wire_frames_ahead: u16 [1..=1024] = 16,
        /// Maximum rate of the DMA engine, descriptors included, from 1 Mbps to 100 Tbps. By default only the
        /// path to memory limits it. A transfer completes after its bytes have passed the engine at the
        /// earliest; the next one starts then.
        pub dma_rate: Option<BitsPerSec> [BitsPerSec(1_000_000)..=BitsPerSec(100_000_000_000_000)] = None,
        /// Whether reads and writes share `dma_rate`; otherwise each direction has this rate. Forwarded bytes
        /// pass the engine twice.
        pub dma_shared: bool = false,
        /// Time for which each frame occupies the receive DMA engine in addition to its transfers, up to 1
        /// ms. With `dma_rate` the time starts when the frame's bytes have passed the engine.
        pub rx_frame_time: Ps [Ps::ZERO..=Ps::from_ms(1)] = Ps::ZERO,
        /// Time for which each read of a buffer, or of a piece of one, occupies the transmit DMA engine in
        /// addition to its transfer, up to 1 ms.
        pub tx_buffer_time: Ps [Ps::ZERO..=Ps::from_ms(1)] = Ps::ZERO,
        /// Time for which each fetched descriptor occupies the DMA engine of its direction, up to 1 ms.
        pub descriptor_time: Ps [Ps::ZERO..=Ps::from_ms(1)] = Ps::ZERO,
        /// Prefetch level: while the chip holds at most this many unused descriptors (0 to 4096), it fetches
        /// as soon as a cache line of four is available, regardless of PTHRESH and HTHRESH. By default only
        /// these thresholds apply; if the driver leaves them at zero, the engine stalls for a round trip
        /// whenever the chip has no descriptors left.
        pub descriptor_prefetch: Option<u16> [0..=4096] = None,
        /// Whether the last write of a received frame is padded to the end of its cache line, if the buffer
        /// has room. The memory system then need not read the rest of the line. Padding only affects timing:
        /// memory behind the frame keeps its contents.
        pub full_line_writes: bool = false,
        /// Maximum number of descriptors per write-back, from 1 to 4096.
        pub write_back_batch: u16 [1..=4096] = 4096,
        /// Whether used receive descriptors are gathered into cache lines of four. A complete line is written
        /// back at once, in one packet; an incomplete line when `write_back_wait` expires. Without
        /// `write_back_wait` descriptors are not gathered.
        pub write_back_lines: bool = false,
        /// Time for which a write-back requested by the thresholds waits for more descriptors, up to 1 ms. It
        /// does not wait once it has `write_back_batch` descriptors, or when RDTR, RADV, TIDV, TADV or FPD
        /// flushes it.
        pub write_back_wait: Ps [Ps::ZERO..=Ps::from_ms(1)] = Ps::ZERO,
        /// Minimum time from an interrupt's first cause to the interrupt, up to 1 ms. Moderation by registers
        /// applies too; the longer delay counts. This is the fixed moderation of Binkert et al. (2005), who
        /// use 10us.
        pub interrupt_delay: Ps [Ps::ZERO..=Ps::from_ms(1)] = Ps::ZERO,
        /// Duration of autonegotiation until the link is up, 1ps to 10s. The default is far shorter than on
        /// real hardware.
        pub autonegotiation: Ps [Ps(1)..=Ps::from_ms(10_000)] = Ps::from_us(20),
        /// Duration of one access to the PHY over MDIO, at most 10ms. The default is that of 64 bits at 2.5
        /// MHz.
        pub mdio_time: Ps [Ps::ZERO..=Ps::from_ms(10)] = Ps::from_ns(25_600),
        /// Duration of one read of an EEPROM word through EERD, at most 10ms.
        pub eerd_time: Ps [Ps::ZERO..=Ps::from_ms(10)] = Ps::from_us(30),
        /// Whether the link partner advertises PAUSE and the NIC's NVM enables it as the drivers' default.
        /// Drivers then turn flow control on. Between nodes, a sender pauses where its partner's FIFO would
        /// drop frames. The load generator ignores PAUSE, as testers do. Each setting needs its own guest
        /// boot.
        pub pause_frames: bool = false,
    }
}

impl NicConfig {
    /// Checks that all parameters are in their ranges.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.check_ranges()?;
        match self.mac {
            Some(mac) if mac.is_group() => Err(ConfigError::Mac(mac)),
            _ => Ok(()),
        }
    }

    /// Station address of NIC `index`: the configured one, or the default address plus `index`.
    pub fn mac_of(&self, index: usize) -> MacAddr {
        self.mac.unwrap_or_else(|| MacAddr([0x52, 0x54, 0x00, 0x12, 0x34, 0x56]).plus(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_errors_use_the_units_of_the_configuration() {
        let message = |config: NicConfig| config.validate().unwrap_err().to_string();
        let late = NicConfig { interrupt_delay: Ps::from_ms(2000), ..NicConfig::default() };
        assert_eq!(message(late), "interrupt_delay is 2s; it must be from 0ps to 1ms");
        let slow = NicConfig { dma_rate: Some(BitsPerSec(1000)), ..NicConfig::default() };
        assert_eq!(message(slow), "dma_rate is 1kbps; it must be from 1Mbps to 100Tbps");
        let few = NicConfig { reads_in_flight: 0, ..NicConfig::default() };
        assert_eq!(message(few), "reads_in_flight is 0; it must be from 1 to 4096");
    }

    #[test]
    fn values_have_units_and_unknown_keys_are_rejected() {
        let config: NicConfig =
            toml::from_str("rx_fifo = \"48KiB\"\nmac = \"02:00:00:00:00:07\"\nrx_frame_time = \"6ns\"")
                .unwrap();
        assert_eq!(config.rx_fifo, Some(Bytes(48 << 10)));
        assert_eq!(config.mac_of(3).0, [2, 0, 0, 0, 0, 7]);
        assert_eq!(config.rx_frame_time, Ps::from_ns(6));
        config.validate().unwrap();
        assert!(toml::from_str::<NicConfig>("rx_fifoo = \"48KiB\"").is_err());
        let group = NicConfig { mac: Some(MacAddr([1, 0, 0, 0, 0, 0])), ..NicConfig::default() };
        assert!(group.validate().unwrap_err().to_string().contains("not a unicast Ethernet address"));
    }

    #[test]
    fn the_model_is_a_string_or_a_number() {
        for text in ["model = \"82576\"", "model = 82576"] {
            assert_eq!(toml::from_str::<NicConfig>(text).unwrap().model, NicModel::E82576);
        }
        assert_eq!(NicConfig::default().model, NicModel::E82540em);
        let capitals = toml::from_str::<NicConfig>("model = \"82540EM\"").unwrap();
        assert_eq!(capitals.model, NicModel::E82540em);
        for text in ["model = 82575", "model = \"e1000\"", "model = -1"] {
            let error = toml::from_str::<NicConfig>(text).unwrap_err().to_string();
            assert!(error.contains("\"82540em\" or \"82576\""), "{error}");
        }
    }

    #[test]
    fn the_range_error_names_the_field() {
        let config = NicConfig { reads_in_flight: 0, ..NicConfig::default() };
        assert!(config.validate().unwrap_err().to_string().contains("reads_in_flight is 0"));
    }

    #[test]
    fn dma_engine_parameters_are_range_checked() {
        let config: NicConfig = toml::from_str(
            "dma_rate = \"57.7Gbps\"\ndma_shared = true\ndescriptor_prefetch = 32\nwrite_back_wait = \"10ns\"",
        )
        .unwrap();
        assert_eq!(config.dma_rate, Some(BitsPerSec(57_700_000_000)));
        config.validate().unwrap();
        let good = NicConfig::default();
        for (wrong, name) in [
            (NicConfig { dma_rate: Some(BitsPerSec(999_999)), ..good.clone() }, "dma_rate is 999999bps"),
            (NicConfig { descriptor_prefetch: Some(4097), ..good.clone() }, "descriptor_prefetch is 4097"),
            (
                NicConfig { descriptor_fetches_in_flight: 0, ..good.clone() },
                "descriptor_fetches_in_flight is 0; it must be from 1 to 256",
            ),
            (
                NicConfig { write_back_batch: 0, ..good.clone() },
                "write_back_batch is 0; it must be from 1 to 4096",
            ),
            (NicConfig { write_back_wait: Ps::from_ms(2), ..good }, "write_back_wait"),
        ] {
            let error = wrong.validate().unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn the_default_address_differs_per_nic() {
        assert_eq!(NicConfig::default().mac_of(1).to_string(), "52:54:00:12:34:57");
    }
}
