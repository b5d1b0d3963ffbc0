//! Transmit descriptors as they lie in memory: legacy (§3.3.3), TCP/IP context (§3.3.6) and TCP/IP
//! data (§3.3.7).

use serde::{Deserialize, Serialize};

use crate::e82540::bits::txd;
use crate::parts::offload::{Offsets, Sums};

/// Offsets for checksums and segmentation, from a context descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Context {
    pub ip_start: u8,
    pub ip_offset: u8,
    /// Last byte of the IP checksum's range; zero stands for the packet's end.
    pub ip_end: u16,
    pub transport_start: u8,
    pub transport_offset: u8,
    /// Last byte of the TCP or UDP checksum's range; zero stands for the packet's end.
    pub transport_end: u16,
    pub tcp: bool,
    pub ipv4: bool,
    pub header_len: u8,
    pub mss: u16,
}

impl Context {
    /// As the offloads take it.
    pub fn offsets(&self) -> Offsets {
        Offsets {
            ip_start: self.ip_start.into(),
            ip_offset: self.ip_offset.into(),
            ip_end: self.ip_end.into(),
            transport_start: self.transport_start.into(),
            transport_offset: self.transport_offset.into(),
            transport_end: self.transport_end.into(),
            tcp: self.tcp,
            ipv4: self.ipv4,
        }
    }
}

/// The checksums that a data descriptor's POPTS ask for.
pub(crate) fn sums(options: u8) -> Sums {
    Sums { ip: options & txd::POPTS_IXSM != 0, transport: options & txd::POPTS_TXSM != 0 }
}

/// What a descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Descriptor {
    /// A buffer, perhaps with one checksum to insert: where, and from where on.
    Legacy { command: u8, checksum_offset: u8, checksum_start: u8, special: u16 },
    /// New offsets, for segmented packets or for the others.
    Context { command: u8, context: Context },
    /// A buffer with options that refer to the context.
    Data { command: u8, options: u8, special: u16 },
    /// A type that does not exist.
    Unknown { command: u8 },
}

impl Descriptor {
    pub fn parse([first, second]: [u64; 2]) -> Descriptor {
        let byte = |word: u64, shift: u32| (word >> shift) as u8;
        let command = byte(second, 24);
        let special = (second >> 48) as u16;
        if command & txd::DEXT == 0 {
            let (checksum_offset, checksum_start) = (byte(second, 16), byte(second, 40));
            return Descriptor::Legacy { command, checksum_offset, checksum_start, special };
        }
        match second >> 20 & 0xf {
            0 => Descriptor::Context {
                command,
                context: Context {
                    ip_start: byte(first, 0),
                    ip_offset: byte(first, 8),
                    ip_end: (first >> 16) as u16,
                    transport_start: byte(first, 32),
                    transport_offset: byte(first, 40),
                    transport_end: (first >> 48) as u16,
                    tcp: command & txd::TUCMD_TCP != 0,
                    ipv4: command & txd::TUCMD_IP != 0,
                    header_len: byte(second, 40),
                    mss: (second >> 48) as u16,
                },
            },
            1 => Descriptor::Data { command, options: byte(second, 40), special },
            _ => Descriptor::Unknown { command },
        }
    }

    /// Bytes of a descriptor's buffer, from its second word.
    pub fn buffer_len([_, second]: [u64; 2]) -> u32 {
        match Descriptor::parse([0, second]) {
            Descriptor::Legacy { .. } => (second & 0xffff) as u32,
            Descriptor::Data { .. } => (second & 0xf_ffff) as u32,
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

    /// The command byte; RS, DEXT and IDE stand at the same place in every type.
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
    fn the_three_types_are_told_apart() {
        let legacy = 0x1234_0500_8932_0040u64;
        assert_eq!(
            Descriptor::parse([0, legacy & !(1 << 29)]),
            Descriptor::Legacy { command: 0x89, checksum_offset: 0x32, checksum_start: 5, special: 0x1234 }
        );
        assert_eq!(Descriptor::buffer_len([0, 0xfff0 | 0xb << 24]), 0xfff0);
        let data = 1u64 << 20 | 0x3_4567 | 0x25 << 24 | 3 << 40 | 7 << 48;
        assert_eq!(Descriptor::parse([0, data]), Descriptor::Data { command: 0x25, options: 3, special: 7 });
        assert_eq!(Descriptor::buffer_len([0, data]), 0x3_4567);
        assert_eq!(Descriptor::parse([0, 2 << 20 | 0x20 << 24]), Descriptor::Unknown { command: 0x20 });
    }

    #[test]
    fn a_context_has_its_fields_where_the_manual_puts_them() {
        let first = 14 | 24 << 8 | 33 << 16 | 34u64 << 32 | 50u64 << 40;
        let second = 3000 | 0x27 << 24 | 54u64 << 40 | 1460u64 << 48;
        let Descriptor::Context { context, .. } = Descriptor::parse([first, second]) else { panic!() };
        assert_eq!((context.ip_start, context.ip_offset, context.ip_end), (14, 24, 33));
        assert_eq!((context.transport_start, context.transport_offset, context.transport_end), (34, 50, 0));
        assert!(context.tcp && context.ipv4);
        assert_eq!((context.header_len, context.mss), (54, 1460));
    }
}
