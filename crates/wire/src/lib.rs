//! The wire: header views ([`ethernet`], [`ipv4`], [`ipv6`], [`udp`], [`tcp`], [`memcached`]), the [`link`]
//! model, [`pcap`] writing, [`capture`] reading, and [`flows`] counters of observed frames.
//!
//! A header has a *view* (borrowed bytes, checked once, whose accessors cannot panic afterwards) and a *repr*
//! (an owned struct with `parse` and `emit`).

#![forbid(unsafe_code)]

pub mod capture;
pub mod checksum;
pub mod ethernet;
pub mod flows;
pub mod ipv4;
pub mod ipv6;
pub mod link;
pub mod memcached;
pub mod pcap;
pub mod tcp;
pub mod udp;

mod capture_links;
mod faults;
mod wire_hash;

pub use capture::{Capture, CaptureError, CapturedPacket, SyntheticHeader};
pub use ethernet::{EtherType, Ethernet, EthernetRepr, MacAddr, VlanTag};
pub use ipv4::{Ipv4, Ipv4Repr};
pub use ipv6::{Ipv6, Ipv6Repr};
pub use link::{Link, LinkConfig, LinkState, LinkStats, Sent};
pub use memcached::{MemcachedUdp, MemcachedUdpRepr};
pub use pcap::{PcapError, PcapFile, PcapWriter};
pub use tcp::{Tcp, TcpRepr};
pub use udp::{Udp, UdpRepr};
pub use wire_hash::WireHash;

/// Error in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Fewer bytes than the header or than its length field announces.
    #[error("the {header} header or its payload is truncated")]
    Truncated {
        /// Name of the header.
        header: &'static str,
    },
    /// A version or length field with a forbidden value.
    #[error("the {header} header is malformed")]
    Malformed {
        /// Name of the header.
        header: &'static str,
    },
}
