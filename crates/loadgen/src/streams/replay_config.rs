//! Configuration of a capture replay, and packet selection.

use doorbell_sim::{Bytes, config};
use doorbell_wire::MacAddr;
use etherparse::EtherType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::{FRAME_SIZE_MAX, Network};
use super::decimal::Decimal;
use super::packet::{Layout, Net};

config! {
    /// Replay settings of a capture.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct ReplayConfig {
        /// Source of the packets' due times.
        pub timing: Timing = Timing::default(),
        /// Speed relative to the timestamps, 0.000001 to 1000000.
        pub speed: Decimal [Decimal(1)..=Decimal(1_000_000_000_000)] = Decimal::ONE,
        /// Number of passes over the capture; 0 repeats it until another limit ends the stream.
        pub times: u64 = 1,
        /// Source of the MAC addresses, unless the stream sets its own.
        pub stations: Stations = Stations::default(),
        /// Maps source IP addresses into this network; checksums are updated.
        pub source_net: Option<Net> = None,
        /// Maps destination IP addresses into this network; checksums are updated.
        pub destination_net: Option<Net> = None,
        /// Ethernet header of packets that were captured without one.
        pub ethernet: EthernetHeader = EthernetHeader::default(),
        /// Handling of truncated packets.
        pub truncated: Truncated = Truncated::default(),
        /// Skips packets with more bytes, FCS included, 64 B to 16 KiB.
        pub largest: Bytes [Bytes(64)..=Bytes(FRAME_SIZE_MAX)] = Bytes(FRAME_SIZE_MAX),
        /// Sends only packets that match all conditions given here.
        pub only: Filter = Filter::default(),
    }
}

/// Source of the packets' due times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Timing {
    /// The capture's timestamps.
    #[default]
    Stamps,
    /// The stream's `rate` and `arrivals`.
    Rate,
}

/// Source of the MAC addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stations {
    /// The capture.
    #[default]
    Capture,
    /// The traffic: from the generator to its NIC.
    Traffic,
}

/// Ethernet header of packets from link types without one. `source`, `destination` and `stations` of the
/// stream take precedence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EthernetHeader {
    /// Source address; if not set, the sender recorded in a Linux cooked capture, otherwise the generator.
    pub source: Option<MacAddr>,
    /// Destination address; the generator's NIC if not set.
    pub destination: Option<MacAddr>,
}

/// Handling of truncated packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Truncated {
    /// Pad them with zeros to their original size.
    #[default]
    Pad,
    /// Send only the captured bytes.
    Cut,
    /// Skip them.
    Skip,
}

/// Selection of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// IP version.
    pub network: Option<Network>,
    /// IP protocol.
    pub protocol: Option<Protocol>,
    /// Source or destination port, 0 to 65535.
    pub port: Option<u16>,
    /// Network that contains the source or destination address.
    pub net: Option<Net>,
}

/// An IP protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP or ICMPv6.
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
    /// Checks every value.
    pub(crate) fn validate(&self) -> Result<(), String> {
        self.check_ranges().map_err(|error| format!("replay.{error}"))?;
        if self.ethernet.source.is_some_and(MacAddr::is_group) {
            return Err("replay.ethernet.source is a group address; use an address whose first byte is even"
                .to_owned());
        }
        if self.timing == Timing::Rate && self.speed != Decimal::ONE {
            return Err("replay.speed needs timing = \"stamps\"; with timing = \"rate\", set rate".to_owned());
        }
        Ok(())
    }
}
