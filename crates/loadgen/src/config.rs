//! User configuration of the generator and its traffic.

use std::net::Ipv4Addr;

use doorbell_sim::config::OutOfRange;
use doorbell_sim::{Bytes, Frame, Ps, config};
use doorbell_wire::MacAddr;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frame::ADDRESS_BYTES;
use crate::rate::Rate;
use crate::requests::{self, MemcachedConfig, Operation};
use crate::responder::ResponderConfig;
use crate::streams::{Arrivals, STREAMS_MAX, StreamConfig};

config! {
    /// A load generator, as written in configuration files.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct LoadGenConfig {
        /// Number of most recently sent frames that are tracked until they return, 1024 to 16777216: rounded
        /// up to a power of two, 16 bytes of memory each. A frame that returns after it is no longer tracked
        /// counts as late and has no latency. The default, 262144, exceeds the 64-byte frames in flight at
        /// 100 Gbps with a 200 µs link, a 4 MiB FIFO and a ring of 4096.
        pub tracked_frames: u32 [1 << 10..=1 << 24] = 1 << 18,
        /// Whether round trips are split into stages (`latency_stages_ns` in the summary). Does not affect
        /// the simulation.
        pub stages: bool = true,
        /// Transmitted traffic.
        pub traffic: TrafficConfig = TrafficConfig::default(),
        /// Replies to received requests.
        pub responder: ResponderConfig = ResponderConfig::default(),
    }
}

config! {
    /// Traffic that a generator sends, and the expected returns.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct TrafficConfig {
        /// Kind of traffic.
        pub kind: Kind = Kind::Frames,
        /// Transmit rate.
        pub rate: Rate = Rate::Frames(1_000_000),
        /// Bytes of each frame with its FCS, 64 B to 16 KiB. Ignored by memcached requests, whose length
        /// follows from their text.
        pub frame_size: Bytes [Bytes(64)..=Bytes(16 << 10)] = Bytes(64),
        /// Arrival process of frames or requests. Jitter prevents synchronisation with polling loops; RFC
        /// 2544 uses `constant`.
        pub arrivals: Arrivals = Arrivals::Jitter,
        /// Time from the start of the traffic to the first frame.
        pub start_after: Ps = Ps::ZERO,
        /// Stop after this number of frames, at least 1.
        pub frames: Option<u64> = None,
        /// Stop after this time, counted from when the first frame was due. Without `duration` and `frames`,
        /// traffic continues until it is stopped.
        pub duration: Option<Ps> = None,
        /// Destination MAC address of the frames.
        pub destination: MacAddr = MacAddr([0x52, 0x54, 0x00, 0x12, 0x34, 0x56]),
        /// MAC address of the generator.
        pub source: MacAddr = MacAddr([0x02, 0x00, 0x00, 0x00, 0x00, 0x01]),
        /// Destination address of IPv4 packets. The defaults are in the range that RFC 2544 (appendix C.2.2)
        /// reserves for such tests.
        pub destination_ip: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 1),
        /// Source address of IPv4 packets.
        pub source_ip: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1),
        /// Destination port of UDP datagrams, 0 to 65535.
        pub destination_port: u16 = 50_000,
        /// Source port of UDP datagrams, 0 to 65535.
        pub source_port: u16 = 50_001,
        /// Expected change of returned frames. Replies to requests are checked separately.
        pub returned: Returned = Returned::Any,
        /// Maximum number of frames or requests in flight, at least 1. Frames that are due wait, and their
        /// latency still counts from the due time. Unlimited if not set.
        pub outstanding: Option<u32> [1..] = None,
        /// Age, at least 1ps, after which a frame in flight is given up if others wait because of
        /// `outstanding`.
        pub timeout: Ps [Ps(1)..] = Ps::from_ms(10),
        /// Requests to memcached.
        #[serde(with = "crate::requests::keyspace::saved")]
        #[schemars(with = "MemcachedConfig")]
        pub memcached: MemcachedConfig = MemcachedConfig::default(),
        /// Total rate of all streams: each stream's rate is scaled in proportion. `2x` doubles them; without
        /// it, rates are as configured.
        pub total: Option<Rate> = None,
        /// Streams of test frames, instead of one size and rate. `rate` and `frame_size` above are then
        /// ignored; the other settings are defaults of the streams, and `frames` and `duration` limit all of
        /// them together.
        pub streams: Vec<StreamConfig> = Vec::new(),
    }
}

/// A kind of traffic. Request kinds first resolve the station's MAC address by ARP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// UDP test frames, which should return.
    #[default]
    Frames,
    /// ICMP echo requests.
    Ping,
    /// memcached over UDP: stores keys in sequence.
    MemcachedSet,
    /// memcached over UDP: gets stored keys.
    MemcachedGet,
}

impl Kind {
    /// Whether it sends requests over IPv4, for which the station is resolved by ARP.
    pub fn sends_requests(self) -> bool {
        self != Kind::Frames
    }
}

/// Expected addresses of a returned frame. All later bytes must be as sent, except for fields that a router
/// changes, and except with `any`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Returned {
    /// Source and destination MAC addresses are swapped (testpmd's macswap).
    #[serde(rename = "macswap")]
    MacSwap,
    /// Unchanged (testpmd's io).
    #[serde(rename = "io")]
    AsSent,
    /// Destination is the receiving generator, source differs, and TTL is one less (a router).
    #[serde(rename = "routed")]
    Routed,
    /// Any headers with correct checksums: only the payload must be as sent, as with a socket echo. Packets
    /// of captures, which have no signature, may differ only in MAC addresses.
    #[serde(rename = "any")]
    Any,
    /// Nothing returns: a frame counts as delivered when it is in the receiver's memory, as sent.
    #[serde(rename = "sink")]
    Sink,
}

impl Returned {
    /// Whether the MAC addresses of a frame that arrived at `station` are as expected for the frame `sent`.
    pub(crate) fn addresses_are_right(self, sent: &[u8], bytes: &[u8], station: MacAddr) -> bool {
        let (destination, source) = (&sent[..6], &sent[6..ADDRESS_BYTES]);
        match self {
            Returned::MacSwap => bytes[..6] == *source && bytes[6..ADDRESS_BYTES] == *destination,
            Returned::AsSent | Returned::Sink => bytes[..ADDRESS_BYTES] == sent[..ADDRESS_BYTES],
            Returned::Routed => bytes[..6] == station.0 && bytes[6..ADDRESS_BYTES] != *source,
            Returned::Any => true,
        }
    }
}

/// An error in a generator's configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Value out of range.
    #[error(transparent)]
    Range(#[from] OutOfRange),
    /// A limit of zero frames or zero time.
    #[error("{0} is zero, so nothing would be sent; remove it to send until stopped")]
    Nothing(&'static str),
    /// Group address as source.
    #[error("source = \"{0}\" is a group address; use an address whose first byte is even")]
    GroupSource(MacAddr),
    /// Invalid arrival process.
    #[error("arrivals: {0}")]
    Arrivals(String),
    /// Invalid memcached requests.
    #[error("memcached.{0}")]
    Memcached(String),
    /// Invalid stream.
    #[error("streams[{0}].{1}")]
    Stream(usize, String),
    /// Settings that conflict with streams.
    #[error("{0}")]
    Streams(String),
    /// Responder and mirror have the same address.
    #[error("responder.ip and responder.mirror are both {0}; they must differ")]
    MirrorIsIp(Ipv4Addr),
}

impl LoadGenConfig {
    /// Checks every field's range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.check_ranges()?;
        if self.responder.ip == self.responder.mirror {
            return Err(ConfigError::MirrorIsIp(self.responder.ip));
        }
        self.traffic.validate()
    }
}

impl TrafficConfig {
    /// Checks every field's range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.check_ranges()?;
        if self.frames == Some(0) {
            return Err(ConfigError::Nothing("frames"));
        }
        if self.duration == Some(Ps::ZERO) {
            return Err(ConfigError::Nothing("duration"));
        }
        if self.source.is_group() {
            return Err(ConfigError::GroupSource(self.source));
        }
        self.arrivals.validate().map_err(ConfigError::Arrivals)?;
        self.memcached.validate().map_err(ConfigError::Memcached)?;
        self.validate_streams()
    }

    fn validate_streams(&self) -> Result<(), ConfigError> {
        let fail = |problem: String| Err(ConfigError::Streams(problem));
        if let Rate::Times(_) = self.rate {
            return fail(format!(
                "rate = \"{}\" needs a base rate; give an absolute rate such as \"5Mpps\"",
                self.rate
            ));
        }
        if self.streams.is_empty() {
            return match self.total {
                Some(total) => {
                    fail(format!("total = \"{total}\" needs streams, and none are configured; set rate"))
                }
                None => Ok(()),
            };
        }
        if self.kind != Kind::Frames {
            return fail("streams need kind = \"frames\"".to_owned());
        }
        if self.streams.len() > STREAMS_MAX {
            return fail(format!("streams: {} configured; the maximum is {STREAMS_MAX}", self.streams.len()));
        }
        for (place, stream) in self.streams.iter().enumerate() {
            stream.validate().map_err(|problem| ConfigError::Stream(place, problem))?;
            let name = stream.name(place);
            if self.streams[..place].iter().zip(0..).any(|(other, place)| other.name(place) == name) {
                return Err(ConfigError::Stream(
                    place,
                    format!("name = \"{name}\" is used by another stream"),
                ));
            }
        }
        Ok(())
    }

    /// Returns the same traffic at this rate: the frame rate, or the total of all streams.
    pub fn at_rate(&self, rate: Rate) -> TrafficConfig {
        match self.streams.is_empty() {
            true => TrafficConfig { rate, ..self.clone() },
            false => TrafficConfig { total: Some(rate), ..self.clone() },
        }
    }

    /// The configured rate; `1x` for streams without a total.
    pub fn requested_rate(&self) -> Rate {
        match self.streams.is_empty() {
            true => self.rate,
            false => self.total.unwrap_or(Rate::Times(Rate::ONCE)),
        }
    }

    /// Whether all frames are sent at constant intervals.
    pub fn is_constant(&self) -> bool {
        let own = |stream: &StreamConfig| stream.arrivals.unwrap_or(self.arrivals);
        match &self.streams[..] {
            [] => self.arrivals == Arrivals::Constant,
            streams => streams.iter().all(|stream| own(stream) == Arrivals::Constant),
        }
    }

    /// Bytes of each frame without its FCS. Not used for streams; the mean for memcached requests.
    pub fn frame_len(&self) -> usize {
        match self.kind {
            Kind::Frames | Kind::Ping => self.frame_size.0 as usize - Frame::FCS_BYTES,
            Kind::MemcachedSet => requests::request_len(&self.memcached, Operation::Set),
            Kind::MemcachedGet => requests::request_len(&self.memcached, Operation::Get),
        }
    }

    /// Bytes of the longest frame with FCS, ignoring packets of captures, which are read later.
    pub fn frame_size_max(&self) -> Bytes {
        let made = self.streams.iter().filter(|stream| stream.capture.is_none());
        let sizes = made.flat_map(|stream| stream.size.parts()).map(|(_, size)| *size);
        match self.streams.is_empty() {
            true => Bytes((self.frame_len() + Frame::FCS_BYTES) as u64),
            false => sizes.max().unwrap_or(Bytes(0)),
        }
    }

    /// Returns the traffic for another port: the source MAC address is incremented, and for requests the
    /// third byte of both IPv4 addresses, as in the responder.
    pub fn for_port(&self, port: u32) -> TrafficConfig {
        let mut own = self.clone();
        let [.., a, b, c] = &mut own.source.0;
        let low = u32::from_be_bytes([0, *a, *b, *c]).wrapping_add(port).to_be_bytes();
        [*a, *b, *c] = [low[1], low[2], low[3]];
        if self.kind.sends_requests() {
            own.source_ip = address_at_port(self.source_ip, port);
            own.destination_ip = address_at_port(self.destination_ip, port);
        }
        own
    }
}

/// Address for a port: 10.0.0.1, 10.0.1.1, 10.0.2.1 etc.
pub(crate) fn address_at_port(address: Ipv4Addr, port: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(address.to_bits().wrapping_add(port.wrapping_shl(8)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_with_units_round_trips() {
        let text = "tracked_frames = 4096\n[traffic]\nrate = \"40%\"\nframe_size = \"1518B\"\n\
                    duration = \"2ms\"\nreturned = \"macswap\"\ndestination = \"52:54:00:00:00:01\"\n";
        let config: LoadGenConfig = toml::from_str(text).unwrap();
        assert_eq!(config.traffic.frame_len(), 1514);
        assert_eq!(config.traffic.duration, Some(Ps::from_ms(2)));
        assert_eq!(config.traffic.frames, None);
        assert_eq!(config.traffic.source_port, 50_001);
        assert_eq!(config.validate(), Ok(()));
        assert_eq!(toml::from_str::<LoadGenConfig>(&toml::to_string(&config).unwrap()).unwrap(), config);
    }

    #[test]
    fn frame_size_max_is_the_maximum_over_streams() {
        let of = |text: &str| toml::from_str::<TrafficConfig>(text).unwrap().frame_size_max();
        assert_eq!(of("frame_size = \"9018B\""), Bytes(9018));
        assert_eq!(of("streams = [{size = \"128B\"}, {size = \"1x64B,2x4096B\"}]"), Bytes(4096));
        assert_eq!(of("frame_size = \"9018B\"\nstreams = [{capture = \"a.pcap\"}]"), Bytes(0));
    }

    #[test]
    fn ports_increment_mac_addresses_and_ip_addresses_of_requests_only() {
        let traffic = TrafficConfig {
            source: MacAddr([2, 0, 0, 0, 0, 0xff]),
            source_ip: Ipv4Addr::new(10, 0, 0, 1),
            destination_ip: Ipv4Addr::new(10, 0, 0, 2),
            ..TrafficConfig::default()
        };
        let frames = traffic.for_port(2);
        assert_eq!(frames.source, MacAddr([2, 0, 0, 0, 1, 1]));
        assert_eq!((frames.source_ip, frames.destination_ip), (traffic.source_ip, traffic.destination_ip));
        let pings = TrafficConfig { kind: Kind::Ping, ..traffic.clone() }.for_port(2);
        assert_eq!(pings.source_ip, Ipv4Addr::new(10, 0, 2, 1));
        assert_eq!(pings.destination_ip, Ipv4Addr::new(10, 0, 2, 2));
        assert_eq!(traffic.for_port(0), traffic);
    }

    #[test]
    fn errors_name_unknown_keys_and_values() {
        for (text, part) in [
            ("[traffic]\nframe_length = \"64B\"", "frame_length"),
            ("[traffic]\nrate = \"10\"", "no unit"),
            ("[traffic]\nreturned = \"swap\"", "macswap"),
            ("[traffic]\nsource = \"1:2\"", "MAC address"),
        ] {
            let error = toml::from_str::<LoadGenConfig>(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn errors_name_out_of_range_values() {
        let traffic = TrafficConfig::default;
        let memcached = |keys| MemcachedConfig { keys, ..MemcachedConfig::default() };
        for (config, part) in [
            (TrafficConfig { frame_size: Bytes(63), ..traffic() }, "frame_size"),
            (TrafficConfig { frame_size: Bytes(16_385), ..traffic() }, "frame_size"),
            (TrafficConfig { frames: Some(0), ..traffic() }, "frames"),
            (TrafficConfig { duration: Some(Ps::ZERO), ..traffic() }, "duration"),
            (TrafficConfig { source: MacAddr::BROADCAST, ..traffic() }, "source"),
            (TrafficConfig { outstanding: Some(0), ..traffic() }, "outstanding"),
            (TrafficConfig { timeout: Ps::ZERO, ..traffic() }, "timeout"),
            (TrafficConfig { memcached: memcached(0), ..traffic() }, "memcached.keys"),
        ] {
            assert!(config.validate().unwrap_err().to_string().contains(part));
        }
        for tracked_frames in [0, 1023, u32::MAX] {
            let config = LoadGenConfig { tracked_frames, ..LoadGenConfig::default() };
            assert!(config.validate().unwrap_err().to_string().contains("tracked_frames"));
        }
        let responder = ResponderConfig { mirror: ResponderConfig::default().ip, ..Default::default() };
        let config = LoadGenConfig { responder, ..LoadGenConfig::default() };
        assert!(config.validate().unwrap_err().to_string().contains("responder.mirror"));
        let largest = TrafficConfig { frame_size: Bytes(16_384), ..traffic() };
        assert_eq!(largest.validate(), Ok(()));
    }
}
