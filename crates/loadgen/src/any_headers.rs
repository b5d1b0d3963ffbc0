//! Check of a frame returned under [`Returned::Any`](crate::Returned::Any): signature and payload must be as
//! sent, with any headers before them that a receiver would accept.

use doorbell_sim::Frame;
use doorbell_wire::checksum::Sum;
use doorbell_wire::{EtherType, Ipv4, Ipv4Repr, Ipv6, Ipv6Repr, TcpRepr, UdpRepr};

use crate::frame::{ADDRESS_BYTES, FCS_BYTES, Mismatch, Signature};

/// Compares a frame with the sent payload, which includes the signature.
pub(crate) fn compare(payload: &[u8], bytes: &[u8]) -> Result<(), Mismatch> {
    let Some(at) = Signature::offset(bytes) else { return Err(Mismatch::Payload) };
    let rest = &bytes[at..];
    // A frame that lost a tag may have been padded.
    let padded = bytes.len() == Frame::MIN_BYTES_WITH_FCS - FCS_BYTES;
    if rest.len() < payload.len() || rest.len() > payload.len() && !padded {
        return Err(Mismatch::Length);
    }
    if rest[..payload.len()] != *payload {
        return Err(Mismatch::Payload);
    }
    let transport_at = segment(bytes, at + payload.len());
    if transport_at.is_some_and(|from| from < at) { Ok(()) } else { Err(Mismatch::Headers) }
}

/// Offset of the UDP or TCP segment that ends at `end`; none if a length or checksum of the segment or its
/// packet is wrong.
fn segment(frame: &[u8], end: usize) -> Option<usize> {
    let mut at = ADDRESS_BYTES;
    let kind = |at: usize| Some(EtherType(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?)));
    while [EtherType::VLAN, EtherType::SERVICE_VLAN].contains(&kind(at)?) {
        at += 4;
    }
    let (is_ipv6, packet) = (kind(at)? == EtherType::IPV6, frame.get(at + 2..end)?);
    let (addresses, protocol, header, length) = match kind(at)? {
        EtherType::IPV4 => {
            let ip = Ipv4::new_checked(packet).ok().filter(Ipv4::checksum_is_right)?;
            let addresses = Sum::new().plus(&ip.source().octets()).plus(&ip.destination().octets());
            (addresses, ip.protocol(), ip.header_len(), ip.payload().len())
        }
        EtherType::IPV6 => {
            let ip = Ipv6::new_checked(packet).ok()?;
            let addresses = Sum::new().plus(&ip.source().octets()).plus(&ip.destination().octets());
            (addresses, ip.next_header(), Ipv6Repr::HEADER_BYTES, ip.payload().len())
        }
        _ => return None,
    };
    // The packet's length field must match the end of the payload.
    if header + length != packet.len() {
        return None;
    }
    let segment = &packet[header..];
    let sum = addresses.plus_u16(u16::from(protocol)).plus_u16(length as u16).plus(segment).finish();
    let unsummed = || !is_ipv6 && segment.get(UdpRepr::CHECKSUM_AT..UdpRepr::HEADER_BYTES) == Some(&[0, 0]);
    let right = match protocol {
        Ipv4Repr::UDP => sum == 0 || unsummed(),
        TcpRepr::PROTOCOL => sum == 0,
        _ => false,
    };
    right.then_some(end - length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Returned, TrafficConfig};
    use crate::frame::FrameMaker;
    use crate::responder::put_checksum;
    use crate::streams::StreamConfig;
    use doorbell_wire::MacAddr;

    const IP_AT: usize = 14;

    fn maker(stream: &str) -> FrameMaker {
        let traffic = TrafficConfig { returned: Returned::Any, ..TrafficConfig::default() };
        let stream: StreamConfig = toml::from_str(stream).unwrap();
        FrameMaker::of_stream(&traffic, &stream, 0, 7, 8)
    }

    fn frame_of(maker: &FrameMaker) -> Vec<u8> {
        let mut bytes = Vec::new();
        maker.make(9, 0, &mut bytes);
        bytes
    }

    fn check(maker: &mut FrameMaker, bytes: &[u8]) -> Result<(), Mismatch> {
        maker.check(9, 0, bytes, MacAddr([2; 6]))
    }

    /// A socket's reply: another packet with addresses and ports swapped, which changes no checksum.
    fn socket_echo(mut frame: Vec<u8>, (at, ip, width): (usize, usize, usize)) -> Vec<u8> {
        frame[..ADDRESS_BYTES].rotate_left(6);
        frame[at + ip..][..2 * width].rotate_left(width);
        frame[at + ip + 2 * width..][..4].rotate_left(2);
        frame
    }

    #[test]
    fn socket_echo_is_accepted() {
        let mut udp = maker("size = \"200B\"");
        let mut frame = socket_echo(frame_of(&udp), (IP_AT, 12, 4));
        // Another identification and a lower TTL.
        (frame[IP_AT + 5], frame[IP_AT + 8]) = (77, 63);
        assert_eq!(check(&mut udp, &frame), Err(Mismatch::Headers), "its IPv4 checksum is wrong");
        put_checksum(&mut frame[IP_AT..IP_AT + 20], 10);
        assert_eq!(check(&mut udp, &frame), Ok(()));
        frame[40..42].fill(0);
        assert_eq!(check(&mut udp, &frame), Ok(()), "UDP over IPv4 may have no checksum");
        frame[41] = 1;
        assert_eq!(check(&mut udp, &frame), Err(Mismatch::Headers));
        let mut tcp = maker("size = \"200B\"\nnetwork = \"ipv6\"\ntransport = \"tcp\"");
        let mut frame = socket_echo(frame_of(&tcp), (IP_AT, 8, 16));
        assert_eq!(check(&mut tcp, &frame), Ok(()));
        frame[IP_AT + 40] ^= 1;
        assert_eq!(check(&mut tcp, &frame), Err(Mismatch::Headers), "a changed port without a new checksum");
    }

    #[test]
    fn vlan_tags_may_be_added_or_removed() {
        let mut tagged = maker("size = \"66B\"\nvlans = [{ id = 7 }]");
        let mut frame = frame_of(&tagged);
        frame.drain(12..16);
        frame.resize(60, 0);
        assert_eq!(check(&mut tagged, &frame), Ok(()), "padding after the payload");
        frame.push(0);
        assert_eq!(check(&mut tagged, &frame), Err(Mismatch::Length));
        frame.splice(12..12, [0x88, 0xa8, 0, 1, 0x81, 0, 0, 2]);
        frame.truncate(62 + 8 - 4);
        assert_eq!(check(&mut tagged, &frame), Ok(()), "two tags instead of one");
    }

    #[test]
    fn changed_or_truncated_payload_is_detected() {
        let mut maker = maker("size = \"128B\"");
        let mut frame = frame_of(&maker);
        *frame.last_mut().unwrap() ^= 1;
        assert_eq!(check(&mut maker, &frame), Err(Mismatch::Payload));
        frame.pop();
        assert_eq!(check(&mut maker, &frame), Err(Mismatch::Length));
        frame.truncate(20);
        assert_eq!(check(&mut maker, &frame), Err(Mismatch::Payload));
    }
}
