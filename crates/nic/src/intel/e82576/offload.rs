//! Receive offloads: checksum verification (§7.1, RXCSUM), packet checksum or RSS hash, and the length of
//! headers to split off (PSRTYPE). Not verified: fragments, and headers behind more than one VLAN tag.

use doorbell_wire::checksum::Sum;

use super::E82576;
use super::bits::{rfctl, rxcsum, rxd};
use super::regs::Reg;
use crate::intel::chip::Regs;
use crate::intel::rx::RxFields;
use crate::parts::headers::{Headers, Network, Transport};

/// PSRTYPE: headers after which a frame may be split.
mod psrtype {
    pub const TCP: u32 = 1 << 4;
    pub const UDP: u32 = 1 << 5;
    pub const IPV4: u32 = 1 << 8;
    pub const IPV6: u32 = 1 << 9;
    pub const L2: u32 = 1 << 12;
}

/// Verifies the IPv4 checksum and the TCP, UDP or SCTP checksum, as enabled by RXCSUM.
pub(super) fn check(bytes: &[u8], headers: &Headers, regs: &Regs<E82576>, notes: &mut RxFields) {
    let rxcsum = regs.get(Reg::Rxcsum);
    if rxcsum & rxcsum::IPOFL != 0
        && let Some(good) = headers.ip_sum_is_good(bytes)
    {
        notes.status |= rxd::IPCS | if good { 0 } else { rxd::IPE };
    }
    if rxcsum & rxcsum::CRCOFL != 0
        && let Some(good) = headers.sctp_sum_is_good(bytes)
    {
        notes.status |= rxd::L4CS | if good { 0 } else { rxd::L4E };
    }
    if rxcsum & rxcsum::TUOFL != 0
        && let Some(good) = headers.transport_sum_is_good(bytes)
    {
        let udp = if headers.transport == Some(Transport::Udp) { rxd::UDPCS } else { 0 };
        notes.status |= rxd::L4CS | udp | if good { 0 } else { rxd::L4E };
    }
}

/// Sets the descriptor's hash field: the RSS hash with RXCSUM.PCSD, otherwise the packet checksum and the
/// IPv4 identification.
pub(super) fn set_hash_or_checksum(
    bytes: &[u8],
    headers: &Headers,
    regs: &Regs<E82576>,
    hash: u32,
    notes: &mut RxFields,
) {
    let rxcsum = regs.get(Reg::Rxcsum);
    if rxcsum & rxcsum::PCSD != 0 {
        notes.hash = hash;
        return;
    }
    let start = (rxcsum & 0xff) as usize;
    notes.checksum = Sum::new().plus(bytes.get(start..).unwrap_or(&[])).finish();
    let has_identification =
        headers.network == Some(Network::Ipv4) && !regs.has(Reg::Rfctl, rfctl::IPFRSP_DIS);
    let identification = match bytes.get(headers.ip + 4..headers.ip + 6) {
        Some(pair) if has_identification => u32::from(u16::from_be_bytes([pair[0], pair[1]])),
        _ => 0,
    };
    notes.hash = u32::from(notes.checksum) << 16 | identification;
}

/// Length of the headers to split off; zero if none.
pub(super) fn header_to_split(headers: &Headers, psrtype: u32) -> u16 {
    let on = |bit: u32| psrtype & bit != 0;
    let end = match (headers.network, headers.transport) {
        (_, Some(Transport::Tcp)) if on(psrtype::TCP) => headers.headers_end,
        (_, Some(Transport::Udp)) if on(psrtype::UDP) => headers.headers_end,
        (Some(Network::Ipv4), _) if on(psrtype::IPV4) => headers.payload,
        (Some(Network::Ipv6), _) if on(psrtype::IPV6) => headers.payload,
        _ if on(psrtype::L2) => headers.ip,
        _ => 0,
    };
    end.try_into().unwrap_or(0)
}
