//! The NIC's parameters: what a preset or `--set nic.rx_fifo=48KiB` can change.

use std::fmt;
use std::str::FromStr;

use doorbell_sim::{BitsPerSec, Bytes, Ps};
use schemars::JsonSchema;
use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An Ethernet address, spelled "52:54:00:12:34:56".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// So many addresses further, within its maker's.
    pub fn plus(self, count: usize) -> MacAddress {
        let MacAddress([a, b, c, high, middle, low]) = self;
        let own = u32::from_be_bytes([0, high, middle, low]).wrapping_add(count as u32).to_be_bytes();
        MacAddress([a, b, c, own[1], own[2], own[3]])
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for MacAddress {
    type Err = NotUnicast;
    fn from_str(text: &str) -> Result<Self, NotUnicast> {
        let wrong = || NotUnicast(text.to_owned());
        let mut bytes = [0u8; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|part| part.len() == 2).ok_or_else(wrong)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
        }
        match parts.next() {
            None if bytes[0] & 1 == 0 => Ok(MacAddress(bytes)),
            _ => Err(wrong()),
        }
    }
}

doorbell_sim::text_schema!(MacAddress, "a unicast Ethernet address such as \"52:54:00:12:34:56\"", &[]);

impl Serialize for MacAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MacAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A text that is not a unicast Ethernet address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a unicast Ethernet address such as \"52:54:00:12:34:56\"")]
pub struct NotUnicast(String);

/// Why a configuration is refused; its text begins with the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The station address is another kind of address.
    #[error("mac {0}")]
    Mac(NotUnicast),
    /// A number, a time or a rate outside its range, each as it would be given.
    #[error("{field} is {value}; it must be from {least} to {most}")]
    Range {
        /// The field's name.
        field: &'static str,
        /// What was given.
        value: String,
        /// The least legal value.
        least: String,
        /// The greatest legal value.
        most: String,
    },
}

/// Which card it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub enum NicModel {
    /// Intel's 82540EM (e1000): a queue each way, an interrupt line.
    #[default]
    #[serde(rename = "82540em")]
    E82540em,
    /// Intel's 82576 (igb): sixteen queues each way, RSS, MSI-X.
    #[serde(rename = "82576")]
    E82576,
}

impl NicModel {
    /// Whether it is the one that every machine had before there was a choice.
    fn is_default(&self) -> bool {
        *self == NicModel::default()
    }
}

impl<'de> Deserialize<'de> for NicModel {
    /// A name may look like a number, as on the command line.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;

        impl Visitor<'_> for Name {
            type Value = NicModel;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"82540em\" or \"82576\"")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<NicModel, E> {
                // Manuals and pages write the first in capitals.
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

/// The parameters of one NIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NicConfig {
    /// Which card it is, of Intel's: "82540em", which Linux' e1000 and DPDK's em drive, with one queue each way, or "82576", which igb
    /// drives in both, with sixteen queues each way, RSS and MSI-X (docs/nic-82576.md). A guest sees the difference, and boots for itself.
    #[serde(skip_serializing_if = "NicModel::is_default")]
    pub model: NicModel,
    /// The station address in the EEPROM, plus the NIC's number where it is not a port's own; without one it is 52:54:00:12:34:56.
    pub mac: Option<MacAddress>,
    /// Size of the receive FIFO, 2KiB to 1GiB; without one, what PBA gives it (PBA stays readable and writable either way).
    pub rx_fifo: Option<Bytes>,
    /// Size of the transmit FIFO, 2KiB to 1GiB; without one, what PBA leaves of the 64 KiB packet buffer.
    pub tx_fifo: Option<Bytes>,
    /// What a frame occupies in the receive FIFO beside its own bytes (FCS included), before rounding up to
    /// 16: at most 1024B.
    pub rx_fifo_frame_overhead: Bytes,
    /// Receive descriptors that the chip can hold, 8 to 4096.
    pub rx_descriptor_cache: u16,
    /// Transmit descriptors that the chip can hold, 8 to 4096.
    pub tx_descriptor_cache: u16,
    /// Most descriptors that one fetch asks for, 1 to 4096.
    pub descriptor_fetch_max: u16,
    /// Fetches of descriptors in flight at once, a ring, from 1 to 256. With one, descriptors that software gives while a fetch is
    /// under way are asked for when it is done, so that they wait for up to two round trips; with more, each fetch carries fewer,
    /// which costs room on a link that is full.
    pub descriptor_fetches_in_flight: u16,
    /// Reads of frame data in flight at once, 1 to 4096. Fetches of descriptors come on top.
    pub reads_in_flight: u16,
    /// Writes of frame data in flight at once, 1 to 4096. Write-backs of descriptors come on top.
    pub writes_in_flight: u16,
    /// Bytes of frame data in those writes, 64B to 1MiB, as the posted-data credits of a PCIe link bound them. Reads queue behind
    /// the writes that are under way, so more would let received frames starve transmission.
    pub write_bytes_in_flight: Bytes,
    /// The longest read of frame data, 64B to 16KiB; longer buffers are read in pieces.
    pub tx_read_max: Bytes,
    /// Frames handed to the link ahead of time while PAUSE is not honoured, 1 to 1024: fewer events, the same times on the wire.
    pub wire_frames_ahead: u16,
    /// Bits a second that the DMA engine moves at most, descriptors included, from 1 Mbps to 100 Tbps; without it, as
    /// many as the path to memory takes. A transfer is over no sooner than its bytes have gone through the engine, and
    /// the next one begins no sooner than that.
    pub dma_rate: Option<BitsPerSec>,
    /// Whether reads and writes share `dma_rate`; otherwise each direction has it. Forwarded bytes go through twice.
    pub dma_shared: bool,
    /// Time for which the receive DMA engine is busy with each frame, beside its transfers (with `dma_rate`: after
    /// the bytes have gone through), up to 1 ms.
    pub rx_frame_time: Ps,
    /// Time for which the transmit DMA engine is busy with each buffer that it reads, likewise up to 1 ms.
    pub tx_buffer_time: Ps,
    /// Time for which either engine is busy with each descriptor that it fetches, up to 1 ms.
    pub descriptor_time: Ps,
    /// Fetches descriptors also when the chip holds at most this many unused ones (0 to 4096) and at least a line of
    /// four can be fetched, whatever PTHRESH and HTHRESH say; without it, they alone decide, and what a driver leaves
    /// at zero stalls the engine for a round trip each time that the chip has none.
    pub descriptor_prefetch: Option<u16>,
    /// Whether the last write of a received frame goes on to the end of its cache line, if the buffer does, so that the memory
    /// system need not fill in the rest of the line. What it pads with is nobody's: memory behind the frame keeps its value.
    pub full_line_writes: bool,
    /// Most descriptors that one write-back carries, from 1 to 4096.
    pub write_back_batch: u16,
    /// Whether used receive descriptors are gathered into whole cache lines, of four: a complete line is written back at once, in
    /// one packet, and what is left of one when `write_back_wait` is over. Without a wait nothing is gathered.
    pub write_back_lines: bool,
    /// How long a write-back that the thresholds call for waits for more descriptors, up to 1 ms; one that has
    /// `write_back_batch` goes at once, and so do those that RDTR, RADV, TIDV, TADV and FPD flush.
    pub write_back_wait: Ps,
    /// For how long each interrupt is put off from its first cause on, up to 1 ms, beside what the registers ask for: fixed moderation,
    /// as Binkert et al. (2005) have it with 10us.
    pub interrupt_delay: Ps,
    /// Time from the start of autonegotiation until the link is up, 1ps to 10s. Far shorter than on a real wire.
    pub autonegotiation: Ps,
    /// Duration of one access to the PHY over MDIO, at most 10ms: 64 bits at 2.5 MHz.
    pub mdio_time: Ps,
    /// Duration of one read of an EEPROM word through EERD, at most 10ms.
    pub eerd_time: Ps,
    /// Whether the link partner advertises PAUSE, and the card's NVM asks drivers to use it. Drivers then turn flow control on, and between
    /// nodes a sender waits where its partner's FIFO would drop; the load generator sends on, as testers do. Guests boot for it.
    pub pause_frames: bool,
}

impl Default for NicConfig {
    fn default() -> Self {
        NicConfig {
            model: NicModel::default(),
            mac: None,
            rx_fifo: None,
            tx_fifo: None,
            rx_fifo_frame_overhead: Bytes(0),
            rx_descriptor_cache: 64,
            tx_descriptor_cache: 64,
            descriptor_fetch_max: 64,
            descriptor_fetches_in_flight: 1,
            reads_in_flight: 32,
            writes_in_flight: 64,
            write_bytes_in_flight: Bytes(8 << 10),
            tx_read_max: Bytes(4096),
            wire_frames_ahead: 16,
            dma_rate: None,
            dma_shared: false,
            rx_frame_time: Ps::ZERO,
            tx_buffer_time: Ps::ZERO,
            descriptor_time: Ps::ZERO,
            descriptor_prefetch: None,
            full_line_writes: false,
            write_back_batch: 4096,
            write_back_lines: false,
            write_back_wait: Ps::ZERO,
            interrupt_delay: Ps::ZERO,
            autonegotiation: Ps::from_us(20),
            mdio_time: Ps::from_ns(25_600),
            eerd_time: Ps::from_us(30),
            pause_frames: false,
        }
    }
}

impl NicConfig {
    /// Whether all parameters are within their ranges.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let numbers: [(_, u32, _, _); 9] = [
            ("rx_descriptor_cache", self.rx_descriptor_cache.into(), 8, 4096),
            ("tx_descriptor_cache", self.tx_descriptor_cache.into(), 8, 4096),
            ("descriptor_fetch_max", self.descriptor_fetch_max.into(), 1, 4096),
            ("descriptor_fetches_in_flight", self.descriptor_fetches_in_flight.into(), 1, 256),
            ("reads_in_flight", self.reads_in_flight.into(), 1, 4096),
            ("writes_in_flight", self.writes_in_flight.into(), 1, 4096),
            ("wire_frames_ahead", self.wire_frames_ahead.into(), 1, 1024),
            ("descriptor_prefetch", self.descriptor_prefetch.unwrap_or(0).into(), 0, 4096),
            ("write_back_batch", self.write_back_batch.into(), 1, 4096),
        ];
        for (field, value, least, most) in numbers {
            within(field, value, least, most)?;
        }
        let fifo = |size: Option<Bytes>| size.unwrap_or(Bytes(64 << 10));
        let sizes = [
            ("rx_fifo", fifo(self.rx_fifo), Bytes(2 << 10), Bytes(1 << 30)),
            ("tx_fifo", fifo(self.tx_fifo), Bytes(2 << 10), Bytes(1 << 30)),
            ("rx_fifo_frame_overhead", self.rx_fifo_frame_overhead, Bytes(0), Bytes(1024)),
            ("write_bytes_in_flight", self.write_bytes_in_flight, Bytes(64), Bytes(1 << 20)),
            ("tx_read_max", self.tx_read_max, Bytes(64), Bytes(16 << 10)),
        ];
        for (field, value, least, most) in sizes {
            within(field, value, least, most)?;
        }
        let times = [
            ("write_back_wait", self.write_back_wait, Ps(0), Ps::from_ms(1)),
            ("rx_frame_time", self.rx_frame_time, Ps(0), Ps::from_ms(1)),
            ("tx_buffer_time", self.tx_buffer_time, Ps(0), Ps::from_ms(1)),
            ("descriptor_time", self.descriptor_time, Ps(0), Ps::from_ms(1)),
            ("interrupt_delay", self.interrupt_delay, Ps(0), Ps::from_ms(1)),
            ("autonegotiation", self.autonegotiation, Ps(1), Ps::from_ms(10_000)),
            ("mdio_time", self.mdio_time, Ps(0), Ps::from_ms(10)),
            ("eerd_time", self.eerd_time, Ps(0), Ps::from_ms(10)),
        ];
        for (field, value, least, most) in times {
            within(field, value, least, most)?;
        }
        if let Some(rate) = self.dma_rate {
            within("dma_rate", rate, BitsPerSec(1_000_000), BitsPerSec(100_000_000_000_000))?;
        }
        match self.mac {
            Some(mac) if mac.0[0] & 1 != 0 => Err(ConfigError::Mac(NotUnicast(mac.to_string()))),
            _ => Ok(()),
        }
    }

    /// The station address of NIC number `index`.
    pub fn mac_of(&self, index: usize) -> MacAddress {
        self.mac.unwrap_or_else(|| MacAddress([0x52, 0x54, 0x00, 0x12, 0x34, 0x56]).plus(index))
    }
}

/// Whether a value is in its range.
fn within<T: PartialOrd + std::fmt::Display>(
    field: &'static str,
    value: T,
    least: T,
    most: T,
) -> Result<(), ConfigError> {
    match value < least || value > most {
        true => {
            let [value, least, most] = [value, least, most].map(|value| value.to_string());
            Err(ConfigError::Range { field, value, least, most })
        }
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_is_said_in_the_units_that_it_is_given_in() {
        let said = |config: NicConfig| config.validate().unwrap_err().to_string();
        let late = NicConfig { interrupt_delay: Ps::from_ms(2000), ..NicConfig::default() };
        assert_eq!(said(late), "interrupt_delay is 2s; it must be from 0ps to 1ms");
        let slow = NicConfig { dma_rate: Some(BitsPerSec(1000)), ..NicConfig::default() };
        assert_eq!(said(slow), "dma_rate is 1kbps; it must be from 1Mbps to 100Tbps");
        let few = NicConfig { reads_in_flight: 0, ..NicConfig::default() };
        assert_eq!(said(few), "reads_in_flight is 0; it must be from 1 to 4096");
    }

    #[test]
    fn a_configuration_is_read_with_units_and_unknown_keys_are_refused() {
        let config: NicConfig =
            toml::from_str("rx_fifo = \"48KiB\"\nmac = \"02:00:00:00:00:07\"\nrx_frame_time = \"6ns\"")
                .unwrap();
        assert_eq!(config.rx_fifo, Some(Bytes(48 << 10)));
        assert_eq!(config.mac_of(3).0, [2, 0, 0, 0, 0, 7]);
        assert_eq!(config.rx_frame_time, Ps::from_ns(6));
        config.validate().unwrap();
        assert!(toml::from_str::<NicConfig>("rx_fifoo = \"48KiB\"").is_err());
        for mac in ["01:00:00:00:00:00", "02:00:00:00:00", "02:00:00:00:00:00:00", "2:0:0:0:0:0", "x"] {
            assert!(mac.parse::<MacAddress>().is_err(), "{mac}");
        }
    }

    #[test]
    fn a_model_is_named_by_a_word_or_a_number() {
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
    fn a_number_outside_its_range_is_named() {
        let config = NicConfig { reads_in_flight: 0, ..NicConfig::default() };
        assert!(config.validate().unwrap_err().to_string().contains("reads_in_flight is 0"));
    }

    #[test]
    fn the_engine_s_parameters_have_ranges_too() {
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
    fn every_nic_has_its_own_default_address() {
        assert_eq!(NicConfig::default().mac_of(1).to_string(), "52:54:00:12:34:57");
    }
}
