//! Transmit offloads: checksum insertion (§3.5, §3.6) and what changes from segment to segment
//! (§3.5.3 to §3.5.9). Offsets come from software and may lie outside the packet: then nothing is
//! inserted, and the caller counts it.

use super::descriptor::Context;
use crate::e82540::bits::txd;
use crate::parts::checksum::{fold, sum};

/// Which segment of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub number: u32,
    /// Payload before it.
    pub offset: u32,
    pub last: bool,
}

/// Sums from `start` to `end` (its last byte; zero stands for the packet's end), with what the field holds already, and
/// puts the complement at `at`. UDP has no checksum of zero. False if the offsets make no sense.
pub(crate) fn insert(bytes: &mut [u8], start: usize, end: usize, at: usize, udp: bool) -> bool {
    let end = if end == 0 { bytes.len() } else { bytes.len().min(end + 1) };
    if start >= end || at + 2 > bytes.len() {
        return false;
    }
    let checksum = !sum(&bytes[start..end]);
    let checksum = if udp && checksum == 0 { 0xffff } else { checksum };
    bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    true
}

/// The checksums that a data descriptor's POPTS ask for.
pub(crate) fn checksums(bytes: &mut [u8], context: &Context, options: u8) -> bool {
    let mut good = true;
    if options & txd::POPTS_TXSM != 0 {
        let (start, at) = (context.transport_start.into(), context.transport_offset.into());
        good &= insert(bytes, start, context.transport_end.into(), at, !context.tcp);
    }
    if options & txd::POPTS_IXSM != 0 {
        let (start, at) = (context.ip_start.into(), context.ip_offset.into());
        good &= insert(bytes, start, context.ip_end.into(), at, false);
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

/// Makes the packet's header that of one segment: lengths, identification, sequence number, flags, and the length that
/// the pseudo-header's sum in the checksum field lacks. False if the offsets make no sense.
pub(crate) fn segment(bytes: &mut [u8], context: &Context, part: Part) -> bool {
    rewrite(bytes, context, part).is_some()
}

fn rewrite(bytes: &mut [u8], context: &Context, part: Part) -> Option<()> {
    const IPV6_HEADER: usize = 40;
    let (ip, transport) = (usize::from(context.ip_start), usize::from(context.transport_start));
    let ip_bytes = bytes.len().checked_sub(ip)?;
    let transport_bytes = bytes.len().checked_sub(transport)?;
    if context.ipv4 {
        put(bytes, ip + 2, (ip_bytes as u16).to_be_bytes())?;
        let identification = u16::from_be_bytes(read(bytes, ip + 4)?).wrapping_add(part.number as u16);
        put(bytes, ip + 4, identification.to_be_bytes())?;
    } else {
        put(bytes, ip + 4, (ip_bytes.checked_sub(IPV6_HEADER)? as u16).to_be_bytes())?;
    }
    if context.tcp {
        const FIN_AND_PSH: u8 = 0x09;
        let sequence = u32::from_be_bytes(read(bytes, transport + 4)?).wrapping_add(part.offset);
        put(bytes, transport + 4, sequence.to_be_bytes())?;
        if !part.last {
            *bytes.get_mut(transport + 13)? &= !FIN_AND_PSH;
        }
    } else {
        put(bytes, transport + 4, (transport_bytes as u16).to_be_bytes())?;
    }
    let at = usize::from(context.transport_offset);
    let partial = u16::from_be_bytes(read(bytes, at)?);
    put(bytes, at, fold(u64::from(partial) + transport_bytes as u64).to_be_bytes())
}
