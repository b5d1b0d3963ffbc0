//! The wire: what travels on it ([`ethernet`], [`ipv4`], [`ipv6`], [`udp`], [`tcp`], [`memcached`] header views), the [`link`] that
//! carries it, the [`pcap`] captures that record it, [`capture`] files of any program's that are read, and the [`flows`] that
//! somebody sees who looks at its frames.
//!
//! A header has a *view* (borrowed bytes, checked once, whose accessors cannot panic afterwards) and
//! a *repr* (an owned struct with `parse` and `emit`).

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
mod heard;

pub use capture::{Capture, CaptureError, CapturedPacket, SyntheticHeader};
pub use ethernet::{EtherType, Ethernet, EthernetRepr, MacAddr, VlanTag};
pub use heard::Heard;
pub use ipv4::{Ipv4, Ipv4Repr};
pub use ipv6::{Ipv6, Ipv6Repr};
pub use link::{Link, LinkConfig, LinkState, LinkStats, Sent};
pub use memcached::{MemcachedUdp, MemcachedUdpRepr};
pub use pcap::{PcapError, PcapFile, PcapWriter};
pub use tcp::{Tcp, TcpRepr};
pub use udp::{Udp, UdpRepr};

/// Why bytes are not the header that was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Fewer bytes than the header, or than its length field says.
    #[error("the {header} header or what it announces is truncated")]
    Truncated {
        /// Which header.
        header: &'static str,
    },
    /// A version or length field with a value that the format forbids.
    #[error("the {header} header is malformed")]
    Malformed {
        /// Which header.
        header: &'static str,
    },
}
