//! Transmit offloads: checksum insertion, and header changes per segment (RFC 791, RFC 8200, RFC 9293).
//! Offsets come from software and may be outside the packet. Then nothing is inserted, and the caller counts
//! the packet.

use doorbell_wire::checksum::Sum;
use doorbell_wire::udp::checksum_field;

/// Positions of headers and checksums in a packet, and the types of its headers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offsets {
    pub ip_start: usize,
    /// Position of the IP checksum.
    pub ip_offset: usize,
    /// Last byte covered by the IP checksum; zero means the end of the packet.
    pub ip_end: usize,
    pub transport_start: usize,
    /// Position of the TCP or UDP checksum.
    pub transport_offset: usize,
    /// Last byte covered by the TCP or UDP checksum; zero means the end of the packet.
    pub transport_end: usize,
    pub tcp: bool,
    pub ipv4: bool,
}

/// Checksums to insert.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    pub ip: bool,
    pub transport: bool,
}

/// A segment's position in its packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub number: u32,
    /// Payload bytes before it.
    pub offset: u32,
    pub last: bool,
}

/// Inserts a checksum at `at`: the complement of the sum from `start` to `end` (its last byte; zero means the
/// end of the packet), which includes the field's old contents. For UDP, zero becomes 0xffff. Returns false
/// if the offsets are invalid.
pub(crate) fn insert(bytes: &mut [u8], start: usize, end: usize, at: usize, udp: bool) -> bool {
    let end = if end == 0 { bytes.len() } else { bytes.len().min(end + 1) };
    if start >= end || at + 2 > bytes.len() {
        return false;
    }
    let sum = Sum::new().plus(&bytes[start..end]);
    let checksum = if udp { checksum_field(sum) } else { sum.finish() };
    bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    true
}

/// Inserts the requested checksums. Returns false if the offsets are invalid.
pub(crate) fn checksums(bytes: &mut [u8], at: &Offsets, sums: Sums) -> bool {
    let mut good = true;
    if sums.transport {
        good &= insert(bytes, at.transport_start, at.transport_end, at.transport_offset, !at.tcp);
    }
    if sums.ip {
        good &= insert(bytes, at.ip_start, at.ip_end, at.ip_offset, false);
    }
    good
}

fn read<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) -> Option<()> {
    bytes.get_mut(at..at + N)?.copy_from_slice(&value);
    Some(())
}

/// Turns the packet's headers into those of one segment: lengths, identification, sequence number and flags.
/// Also adds the length to the pseudo-header sum in the checksum field, which software provides without it.
/// Returns false if the offsets are invalid.
pub(crate) fn segment(bytes: &mut [u8], headers: &Offsets, part: Part) -> bool {
    rewrite(bytes, headers, part).is_some()
}

fn rewrite(bytes: &mut [u8], headers: &Offsets, part: Part) -> Option<()> {
    const IPV6_HEADER: usize = 40;
    let (ip, transport) = (headers.ip_start, headers.transport_start);
    let ip_bytes = bytes.len().checked_sub(ip)?;
    let transport_bytes = bytes.len().checked_sub(transport)?;
    if headers.ipv4 {
        put(bytes, ip + 2, (ip_bytes as u16).to_be_bytes())?;
        let identification = u16::from_be_bytes(read(bytes, ip + 4)?).wrapping_add(part.number as u16);
        put(bytes, ip + 4, identification.to_be_bytes())?;
    } else {
        put(bytes, ip + 4, (ip_bytes.checked_sub(IPV6_HEADER)? as u16).to_be_bytes())?;
    }
    if headers.tcp {
        const FIN_AND_PSH: u8 = 0x09;
        let sequence = u32::from_be_bytes(read(bytes, transport + 4)?).wrapping_add(part.offset);
        put(bytes, transport + 4, sequence.to_be_bytes())?;
        if !part.last {
            *bytes.get_mut(transport + 13)? &= !FIN_AND_PSH;
        }
    } else {
        put(bytes, transport + 4, (transport_bytes as u16).to_be_bytes())?;
    }
    let at = headers.transport_offset;
    let sum = Sum::new().plus(&read::<2>(bytes, at)?).plus_u16(transport_bytes as u16);
    put(bytes, at, (!sum.finish()).to_be_bytes())
}
