//! Transmit descriptor formats in memory: legacy (§3.3.3), TCP/IP context (§3.3.6) and TCP/IP data (§3.3.7).

use serde::{Deserialize, Serialize};

use super::bits::txd;
use crate::intel::tx::{self, Descriptor, SEGMENTATION};
use crate::parts::offload::Offsets;

/// Index of the context for packets without segmentation; [`SEGMENTATION`] is that for segmented packets.
const PLAIN: usize = 0;

/// Offsets for checksums and segmentation, from a context descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    ip_start: u8,
    ip_offset: u8,
    /// Last byte of the IP checksum's range; zero means the end of the packet.
    ip_end: u16,
    transport_start: u8,
    transport_offset: u8,
    /// Last byte of the TCP or UDP checksum's range; zero means the end of the packet.
    transport_end: u16,
    tcp: bool,
    ipv4: bool,
    header_len: u8,
    mss: u16,
}

impl tx::Context for Context {
    fn offsets(&self) -> Offsets {
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

    fn header_len(&self) -> usize {
        self.header_len.into()
    }

    fn mss(&self) -> usize {
        self.mss.into()
    }
}

/// Decodes a descriptor.
pub(super) fn parse([first, second]: [u64; 2]) -> Descriptor<Context> {
    let byte = |word: u64, shift: u32| (word >> shift) as u8;
    let command = byte(second, 24);
    if command & txd::DEXT == 0 {
        return Descriptor::legacy([first, second]);
    }
    let segments = command & txd::TSE != 0;
    let index = if segments { SEGMENTATION } else { PLAIN };
    match second >> 20 & 0xf {
        0 => Descriptor::Context {
            command,
            index,
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
        1 => {
            let (len, options) = ((second & 0xf_ffff) as u32, byte(second, 40));
            Descriptor::Data { command, len, options, segments, index, vlan: Some((second >> 48) as u16) }
        }
        _ => Descriptor::Unknown { command },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptor_types_and_buffer_lengths_match_the_manual() {
        let legacy = 0x1234_0500_8932_0040u64 & !(1 << 29);
        let expected = Descriptor::Legacy {
            command: 0x89,
            len: 0x40,
            checksum_offset: 0x32,
            checksum_start: 5,
            vlan: 0x1234,
        };
        assert_eq!(parse([0, legacy]), expected);
        assert_eq!(parse([0, 0xfff0 | 0xb << 24]).buffer_len(), 0xfff0);
        let data = 1u64 << 20 | 0x3_4567 | 0x25 << 24 | 3 << 40 | 7 << 48;
        let expected = Descriptor::Data {
            command: 0x25,
            len: 0x3_4567,
            options: 3,
            segments: true,
            index: SEGMENTATION,
            vlan: Some(7),
        };
        assert_eq!(parse([0, data]), expected);
        assert_eq!(parse([0, 2 << 20 | 0x20 << 24]), Descriptor::Unknown { command: 0x20 });
    }

    #[test]
    fn context_fields_match_the_manual() {
        let first = 14 | 24 << 8 | 33 << 16 | 34u64 << 32 | 50u64 << 40;
        let second = 3000 | 0x27 << 24 | 54u64 << 40 | 1460u64 << 48;
        let Descriptor::Context { context, index, .. } = parse([first, second]) else { panic!() };
        assert_eq!((context.ip_start, context.ip_offset, context.ip_end), (14, 24, 33));
        assert_eq!((context.transport_start, context.transport_offset, context.transport_end), (34, 50, 0));
        assert!(context.tcp && context.ipv4 && index == SEGMENTATION);
        assert_eq!((context.header_len, context.mss), (54, 1460));
    }
}
