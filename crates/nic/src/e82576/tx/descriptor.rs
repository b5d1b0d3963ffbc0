//! Transmit descriptors as they lie in memory: legacy, advanced context and advanced data (§7.2).

use serde::{Deserialize, Serialize};

use crate::e82576::bits::txd;
use crate::parts::offload::{Offsets, Sums};

/// From the beginning of a header to its checksum.
const IPV4_CHECKSUM: usize = 10;
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;

/// What a context descriptor says of packets to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Context {
    /// Bytes of the Ethernet header, of IP's and of the transport's.
    pub mac_len: u16,
    pub ip_len: u16,
    pub transport_len: u16,
    /// The tag to insert.
    pub vlan: u16,
    pub ipv4: bool,
    /// The transport by number: 0 is UDP, 1 TCP, 2 SCTP.
    pub transport: u8,
    pub mss: u16,
}

impl Context {
    pub fn is_tcp(&self) -> bool {
        u64::from(self.transport) == txd::L4T_TCP
    }

    /// Its checksum is another one, at another place.
    pub fn is_sctp(&self) -> bool {
        u64::from(self.transport) == txd::L4T_SCTP
    }

    /// Bytes of all headers.
    pub fn header_len(&self) -> usize {
        usize::from(self.mac_len) + usize::from(self.ip_len) + usize::from(self.transport_len)
    }

    /// As the offloads take it.
    pub fn offsets(&self) -> Offsets {
        let (ip, transport) =
            (usize::from(self.mac_len), usize::from(self.mac_len) + usize::from(self.ip_len));
        let checksum = if self.is_tcp() { TCP_CHECKSUM } else { UDP_CHECKSUM };
        Offsets {
            ip_start: ip,
            ip_offset: ip + IPV4_CHECKSUM,
            ip_end: transport.saturating_sub(1),
            transport_start: transport,
            transport_offset: transport + checksum,
            transport_end: 0,
            tcp: self.is_tcp(),
            ipv4: self.ipv4,
        }
    }
}

/// The checksums that a data descriptor's POPTS ask for.
pub(super) fn sums(options: u8) -> Sums {
    Sums { ip: options & txd::POPTS_IXSM != 0, transport: options & txd::POPTS_TXSM != 0 }
}

/// What a descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Descriptor {
    /// A buffer, perhaps with one checksum to insert: where, and from where on.
    Legacy { command: u8, checksum_offset: u8, checksum_start: u8, special: u16 },
    /// A queue's context of this number.
    Context { command: u8, index: usize, context: Context },
    /// A buffer with options that refer to a context.
    Data { command: u8, options: u8, index: usize },
    /// A type that does not exist.
    Unknown { command: u8 },
}

impl Descriptor {
    pub fn parse([first, second]: [u64; 2]) -> Descriptor {
        let byte = |word: u64, shift: u32| (word >> shift) as u8;
        let command = byte(second, 24);
        if command & txd::DEXT == 0 {
            let (checksum_offset, checksum_start) = (byte(second, 16), byte(second, 40));
            let special = (second >> 48) as u16;
            return Descriptor::Legacy { command, checksum_offset, checksum_start, special };
        }
        let index = (second >> 36 & 1) as usize;
        match second >> 20 & 0xf {
            2 => Descriptor::Context {
                command,
                index,
                context: Context {
                    mac_len: (first >> 9 & 0x7f) as u16,
                    ip_len: (first & 0x1ff) as u16,
                    transport_len: byte(second, 40).into(),
                    vlan: (first >> 16) as u16,
                    ipv4: second & txd::TUCMD_IPV4 != 0,
                    transport: (second >> txd::TUCMD_L4T_SHIFT & 0b11) as u8,
                    mss: (second >> 48) as u16,
                },
            },
            3 => Descriptor::Data { command, options: byte(second, 40) & 0x3f, index },
            _ => Descriptor::Unknown { command },
        }
    }

    /// Bytes of a descriptor's buffer, from its second word.
    pub fn buffer_len([_, second]: [u64; 2]) -> u32 {
        match Descriptor::parse([0, second]) {
            Descriptor::Legacy { .. } | Descriptor::Data { .. } => (second & 0xffff) as u32,
            Descriptor::Context { .. } | Descriptor::Unknown { .. } => 0,
        }
    }

    /// Whether it is the last of its packet.
    pub fn ends_packet(&self) -> bool {
        match *self {
            Descriptor::Legacy { command, .. } | Descriptor::Data { command, .. } => command & txd::EOP != 0,
            Descriptor::Context { .. } | Descriptor::Unknown { .. } => false,
        }
    }

    /// The command byte; RS and DEXT stand at the same place in every type. A context is never reported.
    pub fn command(&self) -> u8 {
        match *self {
            Descriptor::Legacy { command, .. }
            | Descriptor::Context { command, .. }
            | Descriptor::Data { command, .. }
            | Descriptor::Unknown { command } => command,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_types_are_told_apart() {
        let legacy = Descriptor::parse([0, 0x1234_0500_0932_0040]);
        let parts = (legacy.command(), Descriptor::buffer_len([0, 0x1234_0500_0932_0040]));
        assert_eq!(parts, (0x09, 0x40));
        let data = 1500 | 3 << 20 | 0xab << 24 | 1u64 << 36 | 3 << 40 | 1500 << 46;
        assert_eq!(Descriptor::parse([0, data]), Descriptor::Data { command: 0xab, options: 3, index: 1 });
        assert_eq!(
            (Descriptor::buffer_len([0, data]), Descriptor::parse([0, data]).ends_packet()),
            (1500, true)
        );
        assert_eq!(Descriptor::parse([0, 7 << 20 | 0x20 << 24]), Descriptor::Unknown { command: 0x20 });
    }

    #[test]
    fn a_context_has_its_fields_where_the_manual_puts_them() {
        let first = 20 | 14 << 9 | 0x5u64 << 16;
        let second = 1 << 10 | 1 << 11 | 2 << 20 | 0x20 << 24 | 1u64 << 36 | 32u64 << 40 | 1448u64 << 48;
        let Descriptor::Context { context, index, .. } = Descriptor::parse([first, second]) else { panic!() };
        assert_eq!((context.mac_len, context.ip_len, context.transport_len, index), (14, 20, 32, 1));
        assert!(context.is_tcp() && context.ipv4);
        assert_eq!((context.vlan, context.mss, context.header_len()), (5, 1448, 66));
        let offsets = context.offsets();
        assert_eq!((offsets.ip_offset, offsets.ip_end, offsets.transport_offset), (24, 33, 50));
    }
}
