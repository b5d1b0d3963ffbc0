//! Check of a frame returned under [`Returned::Any`](crate::Returned::Any): signature and payload must be as
//! sent, with any headers before them that a receiver would accept.

use doorbell_sim::Frame;
use doorbell_wire::checksum::Sum;
use doorbell_wire::{ipv4, udp};
use etherparse::{EtherType, IpNumber, Ipv4HeaderSlice, Ipv6HeaderSlice, UdpHeader};

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
    while [EtherType::VLAN_TAGGED_FRAME, EtherType::PROVIDER_BRIDGING].contains(&kind(at)?) {
        at += 4;
    }
    let (is_ipv6, packet) = (kind(at)? == EtherType::IPV6, frame.get(at + 2..end)?);
    let (addresses, protocol, header, length) = match kind(at)? {
        EtherType::IPV4 => {
            let ip = Ipv4HeaderSlice::from_slice(packet).ok().filter(ipv4::checksum_is_right)?;
            let addresses = Sum::new().plus(&ip.source()).plus(&ip.destination());
            (addresses, ip.protocol(), ip.slice().len(), ip.payload_len().ok()?)
        }
        EtherType::IPV6 => {
            let ip = Ipv6HeaderSlice::from_slice(packet).ok()?;
            let addresses = Sum::new().plus(&ip.source()).plus(&ip.destination());
            (addresses, ip.next_header(), ip.slice().len(), ip.payload_length())
        }
        _ => return None,
    };
    // The packet's length field must match the end of the payload.
    if header + usize::from(length) != packet.len() {
        return None;
    }
    let segment = &packet[header..];
    let sum = addresses.plus_u16(protocol.0.into()).plus_u16(length).plus(segment).finish();
    let unsummed = || !is_ipv6 && segment.get(udp::CHECKSUM_AT..UdpHeader::LEN) == Some(&[0, 0]);
    let right = match protocol {
        IpNumber::UDP => sum == 0 || unsummed(),
        IpNumber::TCP => sum == 0,
        _ => false,
    };
    right.then_some(end - usize::from(length))
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
    fn socket_echo(mut frame: Vec<u8>, at: usize, ip: usize, width: usize) -> Vec<u8> {
        frame[..ADDRESS_BYTES].rotate_left(6);
        frame[at + ip..][..2 * width].rotate_left(width);
        frame[at + ip + 2 * width..][..4].rotate_left(2);
        frame
    }

    #[test]
    fn socket_echo_is_accepted() {
        let mut udp = maker("size = \"200B\"");
        let mut frame = socket_echo(frame_of(&udp), IP_AT, 12, 4);
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
        let mut frame = socket_echo(frame_of(&tcp), IP_AT, 8, 16);
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
