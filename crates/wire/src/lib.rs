//! The wire: the [`link`] model, [`pcap`] writing, [`capture`] reading, [`flows`] counters of observed
//! frames, checksums, and the header of [`memcached`]. The crate [`etherparse`] parses and builds other
//! headers.

#![forbid(unsafe_code)]

pub mod capture;
pub mod checksum;
pub mod flows;
pub mod headers;
pub mod link;
pub mod memcached;
pub mod pcap;

mod capture_links;
mod faults;
mod mac;
mod wire_hash;

pub use capture::{Capture, CaptureError, CapturedPacket, SyntheticHeader};
pub use headers::{ipv4, ipv6, tcp, udp};
pub use link::{Link, LinkConfig, LinkState, LinkStats, Sent};
pub use mac::MacAddr;
pub use memcached::MemcachedUdp;
pub use pcap::{PcapError, PcapFile, PcapWriter};
pub use wire_hash::WireHash;
