//! How a capture is sent, as configuration files write it, and which of its packets are.

use doorbell_sim::{Bytes, Frame};
use doorbell_wire::{EtherType, MacAddr};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::{FRAME_SIZE_MAX, Network};
use super::decimal::Decimal;
use super::packet::{Layout, Net};

/// How a capture is sent, as configuration files write it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReplayConfig {
    /// By what packets are due.
    pub timing: Timing,
    /// So many times as fast as the stamps say, 0.000001 to 1000000.
    pub speed: Decimal,
    /// How many times the capture is sent; 0 goes on until something else ends the stream.
    pub times: u64,
    /// Whose MAC addresses packets have, where the stream has none of its own.
    pub stations: Stations,
    /// Move the senders' IP addresses into this network; checksums are mended.
    pub source_net: Option<Net>,
    /// Move the receivers' IP addresses into this network.
    pub destination_net: Option<Net>,
    /// The Ethernet header of packets that were recorded without one.
    pub ethernet: EthernetHeader,
    /// What becomes of packets of which not all bytes were captured.
    pub truncated: Truncated,
    /// Leave out packets with more bytes, FCS included, 64 B to 16 KiB.
    pub largest: Bytes,
    /// Send only packets of which all that is given here is true.
    pub only: Filter,
}

impl Default for ReplayConfig {
    fn default() -> Self {
        ReplayConfig {
            timing: Timing::default(),
            speed: Decimal::ONE,
            times: 1,
            stations: Stations::default(),
            source_net: None,
            destination_net: None,
            ethernet: EthernetHeader::default(),
            truncated: Truncated::default(),
            largest: Bytes(FRAME_SIZE_MAX),
            only: Filter::default(),
        }
    }
}

/// By what packets are due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Timing {
    /// The capture's stamps.
    #[default]
    Stamps,
    /// The stream's `rate` and `arrivals`.
    Rate,
}

/// Whose MAC addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stations {
    /// The capture's.
    #[default]
    Capture,
    /// From the generator to its NIC.
    Traffic,
}

/// The Ethernet header of packets of links that have none. `source`, `destination` and `stations` of the stream go before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EthernetHeader {
    /// The sender; without it, the sender that a Linux cooked capture names, or else the generator.
    pub source: Option<MacAddr>,
    /// The receiver; without it, the generator's NIC.
    pub destination: Option<MacAddr>,
}

/// What becomes of packets of which not all bytes were captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Truncated {
    /// Zeros stand for what is missing, so that they have their size.
    #[default]
    Pad,
    /// They are sent as short as they are.
    Cut,
    /// They are left out.
    Skip,
}

/// Which packets are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// Of this version of IP.
    pub network: Option<Network>,
    /// Of this protocol behind IP.
    pub protocol: Option<Protocol>,
    /// With this port at either end, 0 to 65535.
    pub port: Option<u16>,
    /// With an address in this network at either end.
    pub net: Option<Net>,
}

/// A protocol behind IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP, of either version.
    Icmp,
}

impl Filter {
    pub(crate) fn admits(&self, layout: &Layout, bytes: &[u8]) -> bool {
        let version = |network: Network| match network {
            Network::Ipv4 => EtherType::IPV4.0,
            Network::Ipv6 => EtherType::IPV6.0,
        };
        let number = |protocol: Protocol| match protocol {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
            Protocol::Icmp if layout.address_bytes == 16 => 58,
            Protocol::Icmp => 1,
        };
        self.network.is_none_or(|network| layout.ethertype == version(network))
            && self.protocol.is_none_or(|protocol| layout.protocol == Some(number(protocol)))
            && self.port.is_none_or(|port| layout.ports(bytes).is_some_and(|ports| ports.contains(&port)))
            && self.net.is_none_or(|net| layout.ip_addresses(bytes).iter().any(|address| net.has(address)))
    }
}

impl ReplayConfig {
    /// Why a capture cannot be sent so, with the key to blame.
    pub(crate) fn problem(&self) -> Option<String> {
        if !(Decimal(1)..=Decimal(1_000_000_000_000)).contains(&self.speed) {
            return Some(format!(
                "replay.speed = {} is out of range; it must be from 0.000001 to 1000000",
                self.speed
            ));
        }
        if !(Frame::MIN_BYTES_WITH_FCS as u64..=FRAME_SIZE_MAX).contains(&self.largest.0) {
            return Some(format!(
                "replay.largest = \"{}\" is out of range; it must be from \"64B\" to \"16KiB\"",
                self.largest
            ));
        }
        if self.ethernet.source.is_some_and(MacAddr::is_group) {
            return Some(
                "replay.ethernet.source is a group address; a sender's first byte is even".to_owned(),
            );
        }
        if self.timing == Timing::Rate && self.speed != Decimal::ONE {
            return Some(
                "replay.speed is of the capture's stamps; with timing = \"rate\" set rate".to_owned(),
            );
        }
        None
    }
}
