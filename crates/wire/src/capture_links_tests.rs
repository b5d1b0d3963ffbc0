use super::*;

const IPV4: [u8; 4] = [0x45, 1, 2, 3];
const IPV6: [u8; 4] = [0x60, 4, 5, 6];

/// The resulting frame after the addresses, its original length, and the sender.
fn frame_of(link: u32, head: &[u8], packet: &[u8]) -> Option<(Vec<u8>, u64, Option<MacAddr>)> {
    let bytes = [head, packet].concat();
    // Ten bytes were not captured.
    let payload = Payload::from_packet(LinkType(link), &bytes, bytes.len() as u64 + 10)?;
    assert_eq!(payload.bytes[..12], [0; 12]);
    Some((payload.bytes[12..].to_vec(), payload.original_len, payload.synthetic_header?.sender))
}

fn expected(
    kind: [u8; 2],
    packet: &[u8],
    sender: Option<MacAddr>,
) -> Option<(Vec<u8>, u64, Option<MacAddr>)> {
    Some(([&kind, packet].concat(), 14 + packet.len() as u64 + 10, sender))
}

#[test]
fn ethernet_frames_are_unchanged() {
    let payload = Payload::from_packet(LinkType::ETHERNET, &[7; 20], 30).unwrap();
    assert_eq!((payload.bytes, payload.original_len, payload.synthetic_header), (vec![7; 20], 30, None));
}

#[test]
fn raw_ip_gets_a_header_of_its_version() {
    for link in [12, 14, 101] {
        assert_eq!(frame_of(link, &[], &IPV4), expected([8, 0], &IPV4, None));
        assert_eq!(frame_of(link, &[], &IPV6), expected([0x86, 0xdd], &IPV6, None));
        assert_eq!(frame_of(link, &[], &[0x50; 4]), None, "not an IP version");
        assert_eq!(frame_of(link, &[], &[]), None);
    }
    assert_eq!(frame_of(228, &[], &IPV4), expected([8, 0], &IPV4, None));
    assert_eq!(frame_of(229, &[], &IPV6), expected([0x86, 0xdd], &IPV6, None));
    assert_eq!(frame_of(105, &[], &IPV4), None, "IEEE 802.11");
}

#[test]
fn bsd_loopback_family_may_have_either_byte_order() {
    for family in [24u32, 28, 30] {
        assert_eq!(frame_of(0, &family.to_le_bytes(), &IPV6), expected([0x86, 0xdd], &IPV6, None));
        assert_eq!(frame_of(0, &family.to_be_bytes(), &IPV6), expected([0x86, 0xdd], &IPV6, None));
        assert_eq!(frame_of(108, &family.to_be_bytes(), &IPV6), expected([0x86, 0xdd], &IPV6, None));
        assert_eq!(frame_of(108, &family.to_le_bytes(), &IPV6), None, "network byte order only");
    }
    assert_eq!(frame_of(0, &2u32.to_le_bytes(), &IPV4), expected([8, 0], &IPV4, None));
    assert_eq!(frame_of(108, &2u32.to_be_bytes(), &IPV4), expected([8, 0], &IPV4, None));
    assert_eq!(frame_of(0, &7u32.to_le_bytes(), &IPV4), None, "OSI");
    assert_eq!(frame_of(0, &[2, 0, 0], &[]), None, "less than the header");
}

#[test]
fn cooked_captures_keep_type_and_sender() {
    let mac = [2, 0, 0, 0, 0, 9];
    let sll = |hardware: u16, len: u16, address: [u8; 6], kind: u16| {
        let half = |value: u16| value.to_be_bytes();
        [&half(0)[..], &half(hardware), &half(len), &address, &[0, 0], &half(kind)].concat()
    };
    let sll2 = |hardware: u16, len: u8, address: [u8; 6], kind: u16| {
        let half = |value: u16| value.to_be_bytes();
        [&half(kind)[..], &[0, 0], &[0, 0, 0, 3], &half(hardware), &[4, len], &address, &[0, 0]].concat()
    };
    for (hardware, len, address, sender) in [
        (1, 6, mac, Some(MacAddr(mac))),
        (772, 6, mac, None),
        (1, 4, mac, None),
        (1, 6, [0; 6], None),
        (1, 6, [0xff; 6], None),
    ] {
        let head = sll(hardware, len, address, 0x0800);
        assert_eq!(frame_of(113, &head, &IPV4), expected([8, 0], &IPV4, sender));
        assert_eq!(frame_of(113, &head[..15], &[]), None, "less than the header");
        let head = sll2(hardware, len as u8, address, 0x86dd);
        assert_eq!(frame_of(276, &head, &IPV6), expected([0x86, 0xdd], &IPV6, sender));
        assert_eq!(frame_of(276, &head[..19], &[]), None);
    }
    // ARP and tagged packets are converted too. Linux numbers for length fields become the length; others are
    // refused.
    assert_eq!(frame_of(113, &sll(1, 6, mac, 0x8100), &[0, 7, 8, 0]).unwrap().0, [0x81, 0, 0, 7, 8, 0]);
    assert_eq!(frame_of(113, &sll(1, 6, mac, 4), &[0x42, 0x42, 3]).unwrap().0, [0, 13, 0x42, 0x42, 3]);
    assert_eq!(frame_of(276, &sll2(1, 6, mac, 12), &IPV4), None, "CAN");
}
