//! Transmit descriptor formats in memory: legacy, advanced context and advanced data (§7.2).

use serde::{Deserialize, Serialize};

use super::bits::txd;
use crate::intel::tx::{self, Descriptor};
use crate::parts::offload::Offsets;

/// Offset of the checksum in each header, in bytes.
const IPV4_CHECKSUM: usize = 10;
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;

/// Header lengths and offload options, from a context descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// Lengths of the Ethernet, IP and transport headers in bytes.
    mac_len: u16,
    ip_len: u16,
    transport_len: u16,
    /// VLAN tag to insert.
    vlan: u16,
    ipv4: bool,
    /// Transport (L4T): 0 is UDP, 1 TCP, 2 SCTP.
    transport: u8,
    mss: u16,
}

impl Context {
    fn is_tcp(&self) -> bool {
        u64::from(self.transport) == txd::L4T_TCP
    }
}

impl tx::Context for Context {
    fn offsets(&self) -> Offsets {
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

    fn header_len(&self) -> usize {
        usize::from(self.mac_len) + usize::from(self.ip_len) + usize::from(self.transport_len)
    }

    fn mss(&self) -> usize {
        self.mss.into()
    }

    fn vlan(&self) -> u16 {
        self.vlan
    }

    fn is_sctp(&self) -> bool {
        u64::from(self.transport) == txd::L4T_SCTP
    }
}

/// Decodes a descriptor.
pub(super) fn parse([first, second]: [u64; 2]) -> Descriptor<Context> {
    let byte = |word: u64, shift: u32| (word >> shift) as u8;
    let command = byte(second, 24);
    if command & txd::DEXT == 0 {
        return Descriptor::legacy([first, second]);
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
        3 => Descriptor::Data {
            command,
            len: (second & 0xffff) as u32,
            options: byte(second, 40) & 0x3f,
            segments: command & txd::TSE != 0,
            index,
            vlan: None,
        },
        _ => Descriptor::Unknown { command },
    }
}

#[cfg(test)]
mod tests {
    use tx::Context as _;

    use super::*;

    #[test]
    fn descriptor_types_and_buffer_lengths_match_the_manual() {
        let legacy = parse([0, 0x1234_0500_0932_0040]);
        assert_eq!((legacy.command(), legacy.buffer_len()), (0x09, 0x40));
        let data = 1500 | 3 << 20 | 0xab << 24 | 1u64 << 36 | 3 << 40 | 1500 << 46;
        let expected =
            Descriptor::Data { command: 0xab, len: 1500, options: 3, segments: true, index: 1, vlan: None };
        assert_eq!(parse([0, data]), expected);
        assert!(parse([0, data]).ends_packet());
        assert_eq!(parse([0, 7 << 20 | 0x20 << 24]), Descriptor::Unknown { command: 0x20 });
    }

    #[test]
    fn context_fields_match_the_manual() {
        let first = 20 | 14 << 9 | 0x5u64 << 16;
        let second = 1 << 10 | 1 << 11 | 2 << 20 | 0x20 << 24 | 1u64 << 36 | 32u64 << 40 | 1448u64 << 48;
        let Descriptor::Context { context, index, .. } = parse([first, second]) else { panic!() };
        assert_eq!((context.mac_len, context.ip_len, context.transport_len, index), (14, 20, 32, 1));
        assert!(context.is_tcp() && context.ipv4);
        assert_eq!((context.vlan, context.mss, context.header_len()), (5, 1448, 66));
        let offsets = context.offsets();
        assert_eq!((offsets.ip_offset, offsets.ip_end, offsets.transport_offset), (24, 33, 50));
    }
}
