//! Configuration of a stream.

use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;

use doorbell_sim::config::check;
use doorbell_sim::{Bytes, Ps, config};
use doorbell_wire::MacAddr;
use etherparse::{Ipv4Header, Ipv6Header, TcpHeader, UdpHeader};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arrivals::Arrivals;
use super::replay_config::{ReplayConfig, Timing};
use super::sizes::{SizeOrder, Sizes};
use super::sweep::{Field, SweepConfig};
use crate::config::{Returned, TrafficConfig};
use crate::frame::{ETHERNET_BYTES, FCS_BYTES, Signature};
use crate::rate::Rate;

config! {
    /// One of several streams of test frames. Settings left out are taken from the traffic.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct StreamConfig {
        /// Name in results; "stream0" for the first, and so on, if not set.
        pub name: Option<String> = None,
        /// Transmit rate. Percent and bits per second refer to the mean frame size of the stream.
        pub rate: Rate = Rate::Frames(1_000_000),
        /// Linear change from `rate` to another rate, which then stays.
        pub ramp: Option<Ramp> = None,
        /// Arrival process; the traffic's if not set.
        pub arrivals: Option<Arrivals> = None,
        /// Bytes of the frames with FCS: from the size of headers and signature up to 16 KiB.
        pub size: Sizes = Sizes::default(),
        /// Order of the sizes.
        pub size_order: SizeOrder = SizeOrder::default(),
        /// VLAN tags, at most two, outer first; the outer of two is a service tag (802.1ad).
        pub vlans: Vec<Vlan> = Vec::new(),
        /// Network layer; determined by the addresses if not set.
        pub network: Option<Network> = None,
        /// Transport layer.
        pub transport: Transport = Transport::default(),
        /// Differentiated services code point, 0 to 63.
        pub dscp: u8 [..=63] = 0,
        /// Time to live or hop limit, 2 to 255.
        pub ttl: u8 [2..] = 64,
        /// Source MAC address; the generator's if not set.
        pub source: Option<MacAddr> = None,
        /// Destination MAC address; that of the generator's NIC if not set.
        pub destination: Option<MacAddr> = None,
        /// Source IP address; if not set, the traffic's, or for IPv6 2001:2::1 from the benchmarking range
        /// (RFC 5180, section 8).
        pub source_ip: Option<IpAddr> = None,
        /// Destination IP address; if not set, the traffic's, or for IPv6 2001:2:0:1::1.
        pub destination_ip: Option<IpAddr> = None,
        /// Source port, 0 to 65535; the traffic's if not set.
        pub source_port: Option<u16> = None,
        /// Destination port, 0 to 65535; the traffic's if not set.
        pub destination_port: Option<u16> = None,
        /// Fields that vary from frame to frame; they define the stream's flows.
        pub sweeps: Vec<SweepConfig> = Vec::new(),
        /// Time from the start of the traffic to the start of the stream.
        pub start_after: Ps = Ps::ZERO,
        /// Time after the stream's start from which no frame is sent.
        pub duration: Option<Ps> = None,
        /// Maximum number of frames, at least 1.
        pub frames: Option<u64> = None,
        /// Expected change of returned frames; the traffic's if not set.
        pub returned: Option<Returned> = None,
        /// Capture file (pcap or pcapng, plain, .gz or .zst) whose packets are sent instead of generated
        /// frames.
        pub capture: Option<PathBuf> = None,
        /// Replay settings of the capture.
        pub replay: Option<ReplayConfig> = None,
    }
}

/// A linear rate change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ramp {
    /// Final rate.
    pub to: Rate,
    /// Duration from the stream's start, 1ns to 1000s.
    pub over: Ps,
}

/// A VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vlan {
    /// VLAN ID, 0 to 4094.
    pub id: u16,
    /// Priority, 0 to 7.
    #[serde(default)]
    pub priority: u8,
}

/// Network layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// IPv4 without options, with DF set.
    #[default]
    Ipv4,
    /// IPv6 without extension headers.
    Ipv6,
}

/// Transport layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// UDP.
    #[default]
    Udp,
    /// TCP segments with ACK set and the frame's index as sequence number. There is no connection.
    Tcp,
}

/// A stream's IP addresses, both of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addresses {
    V4(std::net::Ipv4Addr, std::net::Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

const SOURCE_IPV6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1);
const DESTINATION_IPV6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 1);
const TAG_BYTES: usize = 4;
const VLANS_MAX: usize = 2;
const VLAN_ID_MAX: u64 = 4094;
pub(crate) const FRAME_SIZE_MAX: u64 = 16 << 10;
const RAMP_MAX: Ps = Ps(1_000 * Ps::PER_SECOND);

impl StreamConfig {
    /// The single stream of traffic without configured streams.
    pub fn from_traffic(traffic: &TrafficConfig) -> StreamConfig {
        StreamConfig { rate: traffic.rate, size: Sizes::one(traffic.frame_size), ..StreamConfig::default() }
    }

    /// Its name as stream number `place`.
    pub fn name(&self, place: usize) -> String {
        self.name.clone().unwrap_or_else(|| format!("stream{place}"))
    }

    pub(crate) fn network(&self) -> Network {
        let given = [self.source_ip, self.destination_ip].into_iter().flatten().next();
        let by_address = given.map(|address| if address.is_ipv6() { Network::Ipv6 } else { Network::Ipv4 });
        self.network.or(by_address).unwrap_or_default()
    }

    fn addresses_are_of(&self, network: Network) -> bool {
        let fits = |address: &IpAddr| address.is_ipv6() == (network == Network::Ipv6);
        [self.source_ip, self.destination_ip].iter().flatten().all(fits)
    }

    pub(crate) fn addresses(&self, traffic: &TrafficConfig) -> Addresses {
        match self.network() {
            Network::Ipv4 => {
                let or = |given: Option<IpAddr>, other| match given {
                    Some(IpAddr::V4(address)) => address,
                    _ => other,
                };
                Addresses::V4(
                    or(self.source_ip, traffic.source_ip),
                    or(self.destination_ip, traffic.destination_ip),
                )
            }
            Network::Ipv6 => {
                let or = |given: Option<IpAddr>, other| match given {
                    Some(IpAddr::V6(address)) => address,
                    _ => other,
                };
                Addresses::V6(or(self.source_ip, SOURCE_IPV6), or(self.destination_ip, DESTINATION_IPV6))
            }
        }
    }

    /// Offsets of the IP header, the transport header and the payload.
    pub(crate) fn header_offsets(&self) -> [usize; 3] {
        let ip = ETHERNET_BYTES + TAG_BYTES * self.vlans.len();
        let transport = ip
            + match self.network() {
                Network::Ipv4 => Ipv4Header::MIN_LEN,
                Network::Ipv6 => Ipv6Header::LEN,
            };
        let payload = transport
            + match self.transport {
                Transport::Udp => UdpHeader::LEN,
                Transport::Tcp => TcpHeader::MIN_LEN,
            };
        [ip, transport, payload]
    }

    /// The smallest frame size with these headers and a signature.
    pub fn size_min(&self) -> Bytes {
        let [.., payload] = self.header_offsets();
        Bytes((payload + Signature::BYTES + FCS_BYTES).max(doorbell_sim::Frame::MIN_BYTES_WITH_FCS) as u64)
    }

    /// Number of flows that the sweeps define.
    pub fn flows(&self) -> u64 {
        self.sweeps.iter().fold(1, |flows, sweep| flows.saturating_mul(sweep.count))
    }

    /// Checks every value.
    pub(crate) fn validate(&self) -> Result<(), String> {
        self.check_ranges()?;
        match self.capture {
            Some(_) => self.check_replay()?,
            None if self.replay.is_some() => return Err("replay needs a capture file; set capture".into()),
            None => {
                self.check_headers()?;
                self.check_sizes()?;
            }
        }
        self.check_rate()
    }

    fn check_headers(&self) -> Result<(), String> {
        if self.vlans.len() > VLANS_MAX {
            return Err(format!("vlans has {} tags; a frame has at most {VLANS_MAX}", self.vlans.len()));
        }
        for Vlan { id, priority } in &self.vlans {
            if u64::from(*id) > VLAN_ID_MAX || *priority > 7 {
                return Err(format!(
                    "vlans: id = {id} and priority = {priority} must be from 0 to 4094 and from 0 to 7"
                ));
            }
        }
        if !self.addresses_are_of(self.network()) {
            return Err(
                "source_ip and destination_ip must be of one version, that of network if it is given".into(),
            );
        }
        if self.source.is_some_and(MacAddr::is_group) {
            return Err("source is a group address; use an address whose first byte is even".into());
        }
        let is_ipv6 = self.network() == Network::Ipv6;
        for (place, sweep) in self.sweeps.iter().enumerate() {
            let at = |problem: &str| format!("sweeps[{place}]: {problem}");
            sweep.validate(is_ipv6).map_err(|problem| at(&problem))?;
            if self.sweeps[..place].iter().any(|other| other.field == sweep.field) {
                return Err(at("field has another sweep; remove one"));
            }
            if sweep.field == Field::Vlan {
                let tag = self.vlans.last().ok_or_else(|| at("field = \"vlan\" needs a tag in vlans"))?;
                if u64::from(tag.id) + (sweep.count - 1) * sweep.step > VLAN_ID_MAX
                    || sweep.order == super::sweep::Order::Decrement
                {
                    return Err(at("VLAN IDs must increment from the tag's own ID up to at most 4094"));
                }
            }
        }
        Ok(())
    }

    /// The timing of a capture; none without a capture.
    pub(crate) fn timing(&self) -> Option<Timing> {
        self.capture
            .as_ref()
            .map(|_| self.replay.as_ref().map_or_else(Timing::default, |replay| replay.timing))
    }

    /// Settings of generated frames do not apply to a capture.
    fn check_replay(&self) -> Result<(), String> {
        let frames = StreamConfig::default();
        let frame_keys = [
            ("size", self.size != frames.size || self.size_order != frames.size_order),
            ("vlans", !self.vlans.is_empty()),
            ("network", self.network.is_some()),
            ("transport", self.transport != frames.transport),
            ("dscp", self.dscp != frames.dscp),
            ("ttl", self.ttl != frames.ttl),
            ("source_ip or destination_ip", self.source_ip.is_some() || self.destination_ip.is_some()),
            (
                "source_port or destination_port",
                self.source_port.is_some() || self.destination_port.is_some(),
            ),
            ("sweeps", !self.sweeps.is_empty()),
        ];
        if let Some((key, _)) = frame_keys.into_iter().find(|(_, given)| *given) {
            return Err(format!(
                "{key} applies to generated frames only; remove it, or see replay for captures"
            ));
        }
        if self.timing() == Some(Timing::Stamps) && (self.ramp.is_some() || self.arrivals.is_some()) {
            return Err(
                "arrivals and ramp need replay = { timing = \"rate\" }; with timing = \"stamps\" the capture determines them"
                    .into(),
            );
        }
        if self.source.is_some_and(MacAddr::is_group) {
            return Err("source is a group address; use an address whose first byte is even".into());
        }
        self.replay.as_ref().map_or(Ok(()), ReplayConfig::validate)
    }

    fn check_sizes(&self) -> Result<(), String> {
        let least = self.size_min();
        let sizes = || self.size.parts().iter().map(|(_, size)| *size);
        if let Some(size) = sizes().find(|size| *size < least) {
            return Err(format!(
                "size: \"{size}\" is too small; headers, signature and FCS of this stream take \"{least}\""
            ));
        }
        match sizes().find(|size| size.0 > FRAME_SIZE_MAX) {
            Some(size) => {
                Err(format!("size: \"{size}\" is too large; a frame has at most \"16KiB\" (with FCS)"))
            }
            None => Ok(()),
        }
    }

    fn check_rate(&self) -> Result<(), String> {
        if let Some(ramp) = &self.ramp {
            check("ramp.over", &ramp.over, Ps(1_000)..=RAMP_MAX)?;
            if matches!(ramp.to, Rate::Times(_)) {
                return Err(format!(
                    "ramp.to = \"{}\" needs a base rate; give an absolute rate such as \"5Mpps\"",
                    ramp.to
                ));
            }
        }
        if matches!(self.rate, Rate::Times(_)) {
            return Err(format!(
                "rate = \"{}\" needs a base rate; give an absolute rate such as \"5Mpps\"",
                self.rate
            ));
        }
        if self.frames == Some(0) || self.duration == Some(Ps::ZERO) {
            return Err("frames or duration is zero, so nothing would be sent; remove it".into());
        }
        let arrivals = self.arrivals.map_or(Ok(()), Arrivals::validate);
        arrivals.map_err(|problem| format!("arrivals: {problem}"))
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
