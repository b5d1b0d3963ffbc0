//! What a user can set about the generator and its traffic.

use std::net::Ipv4Addr;

use doorbell_sim::{Bytes, Frame, Ps};
use doorbell_wire::MacAddr;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frame::ADDRESS_BYTES;
use crate::rate::Rate;
use crate::requests::{self, MemcachedConfig, Operation};
use crate::responder::ResponderConfig;
use crate::streams::{Arrivals, STREAMS_MAX, StreamConfig};

/// A load generator, as configuration files write it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoadGenConfig {
    /// How many of the frames sent last are remembered until they return, 1024 to 16777216: rounded up to a power of
    /// two, 16 bytes of memory each. A frame that comes back after so many others were sent is counted as late, and
    /// has no latency. The default, 262144, is more than 100 Gbps of 64-byte frames have in flight
    /// behind a 200 µs link, a 4 MiB FIFO and a ring of 4096.
    pub tracked_frames: u32,
    /// Whether round trips are split by where they were spent (`latency_stages_ns` in the summary). Changes nothing else.
    pub stages: bool,
    /// What it sends.
    pub traffic: TrafficConfig,
    /// What it answers to.
    pub responder: ResponderConfig,
}

impl Default for LoadGenConfig {
    fn default() -> Self {
        LoadGenConfig {
            tracked_frames: 1 << 18,
            stages: true,
            traffic: TrafficConfig::default(),
            responder: ResponderConfig::default(),
        }
    }
}

/// What a generator sends and what it expects back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TrafficConfig {
    /// What is sent.
    pub kind: Kind,
    /// How fast.
    pub rate: Rate,
    /// Bytes of each frame with its FCS, 64 B to 16 KiB. Requests to memcached are as long as their text.
    pub frame_size: Bytes,
    /// How frames or requests are spread over time. Jitter keeps programs from falling into step with them; RFC 2544 has `constant`.
    pub arrivals: Arrivals,
    /// From the start of the traffic to the first frame.
    pub start_after: Ps,
    /// Stop after so many frames, at least 1.
    pub frames: Option<u64>,
    /// Stop after this time: no frame leaves so long after the first was due, or later. Without this and
    /// without `frames` traffic goes on until it is stopped.
    pub duration: Option<Ps>,
    /// The station that the frames are for.
    pub destination: MacAddr,
    /// The generator's own address.
    pub source: MacAddr,
    /// The IPv4 packets' receiver. The defaults are in the range that RFC 2544 (appendix C.2.2) reserves
    /// for such tests.
    pub destination_ip: Ipv4Addr,
    /// The IPv4 packets' sender.
    pub source_ip: Ipv4Addr,
    /// The UDP datagrams' destination port, 0 to 65535.
    pub destination_port: u16,
    /// The UDP datagrams' source port, 0 to 65535.
    pub source_port: u16,
    /// What the machine is expected to do to the frames. Answers to requests are checked by themselves.
    pub returned: Returned,
    /// So many frames or requests are on their way at a time, at least 1; those that are due wait for their turn, and their time
    /// from when they were due goes on. Without it, any number.
    pub outstanding: Option<u32>,
    /// What is on its way for so long, at least 1ps, is given up when others wait for their turn.
    pub timeout: Ps,
    /// What memcached is asked.
    #[serde(with = "crate::requests::keyspace::saved")]
    #[schemars(with = "MemcachedConfig")]
    pub memcached: MemcachedConfig,
    /// The rate of all streams together: each one's is changed in proportion. `2x` doubles them all; without it, they are as
    /// they stand.
    pub total: Option<Rate>,
    /// Streams of test frames instead of those of one size and rate. `rate` and `frame_size` above mean nothing then; the
    /// rest is the streams' where they do not say otherwise, and ends them all (`frames`, `duration`).
    pub streams: Vec<StreamConfig>,
}

/// A kind of traffic. What asks by IPv4 asks for the station by ARP first, until it is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// UDP test frames, which are to come back.
    #[default]
    Frames,
    /// ICMP echo requests.
    Ping,
    /// memcached over UDP: stores one key after the other.
    MemcachedSet,
    /// memcached over UDP: asks for keys that were stored.
    MemcachedGet,
}

impl Kind {
    /// Whether the station is found by ARP.
    pub fn asks_by_ipv4(self) -> bool {
        self != Kind::Frames
    }
}

impl Default for TrafficConfig {
    fn default() -> Self {
        TrafficConfig {
            kind: Kind::Frames,
            rate: Rate::Frames(1_000_000),
            frame_size: Bytes(64),
            arrivals: Arrivals::Jitter,
            start_after: Ps::ZERO,
            frames: None,
            duration: None,
            destination: MacAddr([0x52, 0x54, 0x00, 0x12, 0x34, 0x56]),
            source: MacAddr([0x02, 0x00, 0x00, 0x00, 0x00, 0x01]),
            destination_ip: Ipv4Addr::new(198, 18, 1, 1),
            source_ip: Ipv4Addr::new(198, 18, 0, 1),
            destination_port: 50_000,
            source_port: 50_001,
            returned: Returned::Any,
            outstanding: None,
            timeout: Ps::from_ms(10),
            memcached: MemcachedConfig::default(),
            total: None,
            streams: Vec::new(),
        }
    }
}

/// What a returned frame's addresses must be. Everything behind them must be as it was sent, but for what a router
/// changes, and for `any`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Returned {
    /// Source and destination are exchanged (testpmd's macswap).
    #[serde(rename = "macswap")]
    MacSwap,
    /// As sent (testpmd's io).
    #[serde(rename = "io")]
    AsSent,
    /// To the station where it arrives, from another, with one hop less (a router).
    #[serde(rename = "routed")]
    Routed,
    /// Anything, with any headers that have right checksums: the payload must be as it was sent, which is what an echo of a socket
    /// does. Packets of captures, which have no signature, may have other MAC addresses only.
    #[serde(rename = "any")]
    Any,
    /// Nothing comes back: a frame is delivered when it is in the receiver's memory, as it was sent.
    #[serde(rename = "sink")]
    Sink,
}

impl Returned {
    /// Whether a frame that arrived at `station` has the MAC addresses that it must have, as it was `sent`.
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

/// What is wrong with a generator's configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A frame that Ethernet or the generator does not know.
    #[error("frame_size = \"{0}\" is out of range; it must be from \"64B\" to \"16KiB\" (with FCS)")]
    FrameSize(Bytes),
    /// Too few or too many frames to remember.
    #[error("tracked_frames = {0} is out of range; it must be from 1024 to 16777216")]
    TrackedFrames(u32),
    /// Nothing would be sent.
    #[error("{0} is zero, so that nothing would be sent; leave it out to send until stopped")]
    Nothing(&'static str),
    /// A group address as sender.
    #[error("source = \"{0}\" is a group address; a sender's first byte is even")]
    GroupSource(MacAddr),
    /// No request could be sent, or it would never be given up.
    #[error("{0} is zero; it must be at least {1}")]
    Zero(&'static str, &'static str),
    /// An arrival process that cannot be.
    #[error("arrivals: {0}")]
    Arrivals(String),
    /// What memcached cannot be asked.
    #[error("memcached.{0}")]
    Memcached(String),
    /// A stream that cannot be.
    #[error("streams[{0}].{1}")]
    Stream(usize, String),
    /// Streams and what does not go with them.
    #[error("{0}")]
    Streams(String),
    /// One address for two purposes.
    #[error("responder.ip and responder.mirror are both {0}; they must differ")]
    MirrorIsIp(Ipv4Addr),
}

impl LoadGenConfig {
    /// Checks every field's range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !(1 << 10..=1 << 24).contains(&self.tracked_frames) {
            return Err(ConfigError::TrackedFrames(self.tracked_frames));
        }
        if self.responder.ip == self.responder.mirror {
            return Err(ConfigError::MirrorIsIp(self.responder.ip));
        }
        self.traffic.validate()
    }
}

impl TrafficConfig {
    /// Checks every field's range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !(Frame::MIN_BYTES_WITH_FCS as u64..=16 << 10).contains(&self.frame_size.0) {
            return Err(ConfigError::FrameSize(self.frame_size));
        }
        if self.frames == Some(0) {
            return Err(ConfigError::Nothing("frames"));
        }
        if self.duration == Some(Ps::ZERO) {
            return Err(ConfigError::Nothing("duration"));
        }
        if self.source.is_group() {
            return Err(ConfigError::GroupSource(self.source));
        }
        if self.outstanding == Some(0) {
            return Err(ConfigError::Zero("outstanding", "1"));
        }
        if self.timeout == Ps::ZERO {
            return Err(ConfigError::Zero("timeout", "\"1ps\""));
        }
        if let Some(problem) = self.arrivals.problem() {
            return Err(ConfigError::Arrivals(problem));
        }
        if let Some(problem) = self.memcached.problem() {
            return Err(ConfigError::Memcached(problem));
        }
        self.validate_streams()
    }

    fn validate_streams(&self) -> Result<(), ConfigError> {
        let fail = |problem: String| Err(ConfigError::Streams(problem));
        if let Rate::Times(_) = self.rate {
            return fail(format!("rate = \"{}\" is no rate of its own; give it as \"5Mpps\"", self.rate));
        }
        if self.streams.is_empty() {
            return match self.total {
                Some(total) => {
                    fail(format!("total = \"{total}\" is for streams, and there are none; set rate"))
                }
                None => Ok(()),
            };
        }
        if self.kind != Kind::Frames {
            return fail("streams are of test frames; kind must be \"frames\" with them".to_owned());
        }
        if self.streams.len() > STREAMS_MAX {
            return fail(format!(
                "streams: there are {}; there can be at most {STREAMS_MAX}",
                self.streams.len()
            ));
        }
        for (place, stream) in self.streams.iter().enumerate() {
            if let Some(problem) = stream.problem() {
                return Err(ConfigError::Stream(place, problem));
            }
            let name = stream.name(place);
            if self.streams[..place].iter().zip(0..).any(|(other, place)| other.name(place) == name) {
                return Err(ConfigError::Stream(
                    place,
                    format!("name = \"{name}\" is another stream's already"),
                ));
            }
        }
        Ok(())
    }

    /// The same traffic at this rate: its own, or that of all its streams together.
    pub fn at_rate(&self, rate: Rate) -> TrafficConfig {
        match self.streams.is_empty() {
            true => TrafficConfig { rate, ..self.clone() },
            false => TrafficConfig { total: Some(rate), ..self.clone() },
        }
    }

    /// The rate as it was asked for: `1x` of streams that are as they stand.
    pub fn rate_asked(&self) -> Rate {
        match self.streams.is_empty() {
            true => self.rate,
            false => self.total.unwrap_or(Rate::Times(Rate::ONCE)),
        }
    }

    /// Whether all frames are due at equal distances.
    pub fn is_constant(&self) -> bool {
        let own = |stream: &StreamConfig| stream.arrivals.unwrap_or(self.arrivals);
        match &self.streams[..] {
            [] => self.arrivals == Arrivals::Constant,
            streams => streams.iter().all(|stream| own(stream) == Arrivals::Constant),
        }
    }

    /// Bytes of each frame without its FCS. Frames of streams have sizes of their own; requests to memcached have this
    /// length in the mean.
    pub fn frame_len(&self) -> usize {
        match self.kind {
            Kind::Frames | Kind::Ping => self.frame_size.0 as usize - Frame::FCS_BYTES,
            Kind::MemcachedSet => requests::request_len(&self.memcached, Operation::Set),
            Kind::MemcachedGet => requests::request_len(&self.memcached, Operation::Get),
        }
    }

    /// Bytes of the longest frame with FCS. Packets of captures, which are read later, do not count.
    pub fn frame_size_max(&self) -> Bytes {
        let made = self.streams.iter().filter(|stream| stream.capture.is_none());
        let sizes = made.flat_map(|stream| stream.size.parts()).map(|(_, size)| *size);
        match self.streams.is_empty() {
            true => Bytes((self.frame_len() + Frame::FCS_BYTES) as u64),
            false => sizes.max().unwrap_or(Bytes(0)),
        }
    }

    /// The same traffic at a further port: the station's own address counts up, and so do those of requests and their
    /// receivers in the third byte, as the responder's do.
    pub fn for_port(&self, port: u32) -> TrafficConfig {
        let mut own = self.clone();
        let [.., a, b, c] = &mut own.source.0;
        let low = u32::from_be_bytes([0, *a, *b, *c]).wrapping_add(port).to_be_bytes();
        [*a, *b, *c] = [low[1], low[2], low[3]];
        if self.kind.asks_by_ipv4() {
            own.source_ip = address_at_port(self.source_ip, port);
            own.destination_ip = address_at_port(self.destination_ip, port);
        }
        own
    }
}

/// What an address becomes at a further port: 10.0.0.1, 10.0.1.1, 10.0.2.1 and so on.
pub(crate) fn address_at_port(address: Ipv4Addr, port: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(address.to_bits().wrapping_add(port.wrapping_shl(8)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_reads_units_and_prints_as_it_reads() {
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
    fn the_longest_frame_is_the_largest_of_all_streams() {
        let of = |text: &str| toml::from_str::<TrafficConfig>(text).unwrap().frame_size_max();
        assert_eq!(of("frame_size = \"9018B\""), Bytes(9018));
        assert_eq!(of("streams = [{size = \"128B\"}, {size = \"1x64B,2x4096B\"}]"), Bytes(4096));
        assert_eq!(of("frame_size = \"9018B\"\nstreams = [{capture = \"a.pcap\"}]"), Bytes(0));
    }

    #[test]
    fn at_further_ports_stations_count_up_and_so_do_the_addresses_of_requests_only() {
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
    fn unknown_keys_and_values_are_named() {
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
    fn values_out_of_range_are_refused_by_name() {
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
