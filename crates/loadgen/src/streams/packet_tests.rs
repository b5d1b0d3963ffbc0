use super::*;
use proptest::prelude::*;

fn net(text: &str) -> Net {
    text.parse().unwrap()
}

#[test]
fn networks_round_trip_and_invalid_text_is_refused() {
    for (text, shown) in [
        ("10.1.0.0/16", "10.1.0.0/16"),
        ("10.1.2.3", "10.1.2.3/32"),
        ("2001:2::/48", "2001:2::/48"),
        ("::1", "::1/128"),
    ] {
        assert_eq!(net(text).to_string(), shown);
        assert_eq!(net(shown), net(text));
    }
    for wrong in ["", "10.0.0/8", "10.0.0.0/33", "::/129", "10.0.0.0/-1", "10.0.0.0/"] {
        assert!(wrong.parse::<Net>().unwrap_err().to_string().contains("10.1.0.0/16"), "{wrong}");
    }
    assert!(net("10.1.0.0/16").has(&[10, 1, 200, 3]) && !net("10.1.0.0/16").has(&[10, 2, 0, 3]));
    assert!(net("0.0.0.0/0").has(&[1, 2, 3, 4]) && !net("0.0.0.0/0").has(&[0; 16]));
    assert_eq!(net("192.168.5.0/24").remap(&[10, 1, 2, 3]), Some(0xc0a8_0503));
    assert_eq!(net("192.168.5.9").remap(&[10, 1, 2, 3]), Some(0xc0a8_0509));
}

/// RFC 1071 word by word; zero if a checksum among the bytes is correct.
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let sum = words.sum::<u32>();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

/// A packet with correct checksums: tags, IPv4 with options or IPv6 with an extension header, and a
/// transport.
fn packet(is_v6: bool, protocol: u8, tags: usize, data: &[u8]) -> (Vec<u8>, usize, usize) {
    let mut bytes = vec![2; 12];
    for tag in 0..tags {
        bytes.extend(if tag == 0 { [0x88, 0xa8] } else { [0x81, 0] });
        bytes.extend([0, 7]);
    }
    bytes.extend(if is_v6 { [0x86, 0xdd] } else { [8, 0] });
    let checksum_at = match protocol {
        6 => 16,
        17 => 6,
        _ => 2,
    };
    let mut transport = vec![0x33; 20];
    transport.extend(data);
    let length = transport.len() as u16;
    transport[checksum_at..checksum_at + 2].fill(0);
    let ip_at = bytes.len();
    let addresses: Vec<u8> = (1..=if is_v6 { 32 } else { 8 }).collect();
    let pseudo = [&addresses[..], &[0, protocol], &length.to_be_bytes()].concat();
    if is_v6 {
        bytes.extend([0x60, 0, 0, 0]);
        bytes.extend((length + 8).to_be_bytes());
        bytes.extend([DESTINATION_OPTIONS, 64]);
        bytes.extend(&addresses);
        bytes.extend([protocol, 0, 1, 4, 0, 0, 0, 0]);
    } else {
        let mut header = vec![0x46, 0];
        header.extend((24 + length).to_be_bytes());
        header.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
        header.extend(&addresses);
        header.extend([1, 1, 1, 0]);
        let checksum = sum(&header);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        bytes.extend(header);
    }
    let with_pseudo = [pseudo, transport.clone()].concat();
    // ICMPv4 checksums do not cover addresses.
    let covered = if protocol == 1 { &transport } else { &with_pseudo };
    let checksum = sum(covered);
    let checksum = if checksum == 0 && protocol == 17 { 0xffff } else { checksum };
    transport[checksum_at..checksum_at + 2].copy_from_slice(&checksum.to_be_bytes());
    let transport_at = bytes.len();
    bytes.extend(transport);
    (bytes, ip_at, transport_at)
}

fn checksums_are_right(bytes: &[u8], is_v6: bool, protocol: u8, ip_at: usize, transport_at: usize) -> bool {
    let addresses = if is_v6 { &bytes[ip_at + 8..ip_at + 40] } else { &bytes[ip_at + 12..ip_at + 20] };
    let transport = &bytes[transport_at..];
    let pseudo = [addresses, &[0, protocol], &(transport.len() as u16).to_be_bytes()].concat();
    let covered = if protocol == 1 { transport.to_vec() } else { [&pseudo[..], transport].concat() };
    (is_v6 || sum(&bytes[ip_at..ip_at + 24]) == 0) && sum(&covered) == 0
}

proptest! {
    #[test]
    fn rewriting_keeps_host_parts_and_checksum_correctness(
        is_v6: bool, protocol in prop::sample::select(vec![6u8, 17, 1]), tags in 0usize..3,
        data in prop::collection::vec(any::<u8>(), 0..50), bits in 0u8..=32, address: u32, wrong: bool,
    ) {
        let protocol = if is_v6 && protocol == 1 { ICMP_V6 } else { protocol };
        let (mut bytes, ip_at, transport_at) = packet(is_v6, protocol, tags, &data);
        prop_assert!(checksums_are_right(&bytes, is_v6, protocol, ip_at, transport_at));
        if wrong {
            *bytes.last_mut().unwrap() ^= 1;
        }
        let before = bytes.clone();
        let text = if is_v6 { format!("2001:db8:{:x}:{:x}::/{}", address >> 16, address & 0xffff, bits + 32) } else {
            format!("{}/{bits}", std::net::Ipv4Addr::from_bits(address))
        };
        let layout = Layout::parse(&bytes);
        prop_assert_eq!((layout.network_at, layout.transport_at), (ip_at, Some(transport_at)));
        layout.rewrite([Some(net(&text)), None], &mut bytes);
        prop_assert_eq!(checksums_are_right(&bytes, is_v6, protocol, ip_at, transport_at), !wrong);
        let [source, destination] = layout.ip_addresses(&bytes);
        prop_assert!(net(&text).has(source));
        prop_assert_eq!(destination, layout.ip_addresses(&before)[1]);
        let host = |address: &[u8]| number(address) & !net(&text).mask();
        prop_assert_eq!(host(source), host(layout.ip_addresses(&before)[0]));
        // And back again.
        let old = layout.ip_addresses(&before)[0];
        let old: IpAddr = if is_v6 { <[u8; 16]>::try_from(old).unwrap().into() } else { <[u8; 4]>::try_from(old).unwrap().into() };
        layout.rewrite([Some(net(&old.to_string())), None], &mut bytes);
        prop_assert_eq!(bytes, before);
    }

    #[test]
    fn any_bytes_are_handled_without_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..120), kind in 0usize..5, at in 0usize..3) {
        let kinds: [&[u8]; 5] = [&[8, 0, 0x45], &[0x86, 0xdd, 0x60], &[8, 6, 0, 1, 8, 0, 6, 4], &[0x81, 0], &[]];
        let at = 12 + 4 * at;
        if bytes.len() > at + 8 {
            bytes[12..at].chunks_mut(4).for_each(|tag| tag[..2].copy_from_slice(&[0x81, 0]));
            bytes[at..at + kinds[kind].len()].copy_from_slice(kinds[kind]);
        }
        let layout = Layout::parse(&bytes);
        let ports = layout.ports(&bytes);
        router_invariant_bytes(&bytes);
        layout.rewrite([Some(net("10.0.0.0/8")), Some(net("2001::/16"))], &mut bytes);
        // Addresses differ, ports do not.
        prop_assert_eq!(layout.ports(&bytes), ports);
    }
}

#[test]
fn zero_udp_checksum_is_kept_and_fragments_have_no_transport() {
    let (mut bytes, ip_at, transport_at) = packet(false, 17, 0, &[1, 2, 3]);
    bytes[transport_at + 6..transport_at + 8].fill(0);
    Layout::parse(&bytes).rewrite([Some(net("10.0.0.0/8")); 2], &mut bytes);
    assert_eq!(bytes[transport_at + 6..transport_at + 8], [0, 0]);
    assert_eq!(sum(&bytes[ip_at..ip_at + 24]), 0);
    // A later fragment has no transport header.
    bytes[ip_at + 7] = 9;
    let before = bytes.clone();
    assert_eq!(Layout::parse(&bytes).ports(&bytes), None);
    Layout::parse(&bytes).rewrite([Some(net("11.0.0.0/8")); 2], &mut bytes);
    assert_eq!(bytes[transport_at..], before[transport_at..]);
}

#[test]
fn arp_addresses_are_rewritten() {
    let mut bytes = vec![2; 12];
    bytes.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    bytes.extend([[2; 6].as_slice(), &[10, 0, 0, 1], &[0; 6], &[10, 0, 0, 2]].concat());
    let layout = Layout::parse(&bytes);
    layout.rewrite([Some(net("192.168.0.0/16")), Some(net("10.9.9.9"))], &mut bytes);
    assert_eq!(layout.ip_addresses(&bytes), [[192, 168, 0, 1].as_slice(), &[10, 9, 9, 9]]);
}
