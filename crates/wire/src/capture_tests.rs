use super::*;
use proptest::prelude::*;
use std::io::Write;

const PACKETS: [&[u8]; 3] = [&[1; 60], &[2; 61], &[3; 14]];

fn pcap(big_endian: bool, magic: u32, link: u32) -> Vec<u8> {
    let word = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let half = |value: u16| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut file = word(magic).to_vec();
    file.extend([half(2), half(4)].concat());
    file.extend([word(0), word(0), word(65_535), word(link)].concat());
    for (index, packet) in (0..).zip(PACKETS) {
        let length = packet.len() as u32;
        file.extend([word(7), word(index), word(length), word(length + index)].concat());
        file.extend(packet);
    }
    file
}

/// A pcapng file with one interface.
fn pcapng(big_endian: bool, resolution: u8, offset: i64, stamps: &[u64]) -> Vec<u8> {
    let word = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let half = |value: u16| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let long = |value: i64| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let block = |kind: u32, body: &[u8]| {
        let length = word(body.len() as u32 + 12);
        [&word(kind)[..], &length, body, &length].concat()
    };
    let section = [&word(0x1a2b_3c4d)[..], &half(1), &half(0), &[0xff; 8]].concat();
    let options = [
        &half(9)[..],
        &half(1),
        &[resolution, 0, 0, 0],
        &half(14),
        &half(8),
        &long(offset),
        &half(0),
        &half(0),
    ]
    .concat();
    let interface = [&half(1)[..], &half(0), &word(0), &options].concat();
    let mut file = [block(0x0a0d_0d0a, &section), block(1, &interface)].concat();
    for stamp in stamps {
        let body = [
            &word(0)[..],
            &word((stamp >> 32) as u32),
            &word(*stamp as u32),
            &word(2),
            &word(9),
            &[5, 6, 0, 0],
        ]
        .concat();
        file.extend(block(6, &body));
    }
    // A simple packet block, which has no timestamp.
    file.extend(block(3, &[&word(4)[..], &[7; 4]].concat()));
    file
}

#[test]
fn pcap_is_read_in_both_byte_orders_and_resolutions() {
    for big_endian in [false, true] {
        for (magic, fraction) in [(0xa1b2_c3d4, 1_000_000), (0xa1b2_3c4d, 1_000)] {
            let capture = Capture::parse(&pcap(big_endian, magic, 1)).unwrap();
            for (index, (packet, bytes)) in capture.packets.iter().zip(PACKETS).enumerate() {
                assert_eq!(packet.at, 7 * PS_PER_SECOND + index as u128 * fraction);
                assert_eq!(
                    (packet.bytes.as_slice(), packet.original_len),
                    (bytes, (bytes.len() + index) as u64)
                );
            }
            assert_eq!((capture.packets.len(), capture.other_links, capture.incomplete), (3, 0, false));
        }
    }
    let other = Capture::parse(&pcap(false, 0xa1b2_c3d4, 105)).unwrap();
    assert_eq!((other.packets.len(), other.other_links), (0, 3));
}

/// A capture of one packet with these bytes and this original length.
fn pcap_of_one(link: u32, original_len: u32, bytes: &[u8]) -> Capture {
    let mut file = 0xa1b2_c3d4u32.to_le_bytes().to_vec();
    let words = [0x0004_0002, 0, 0, 65_535, link, 7, 0, bytes.len() as u32, original_len];
    file.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    file.extend(bytes);
    Capture::parse(&file).unwrap()
}

/// A pcapng file of one packet with options of its interface and of the packet.
fn pcapng_with_options(
    big_endian: bool,
    of_interface: &[(u16, &[u8])],
    of_packet: &[(u16, &[u8])],
    bytes: &[u8],
) -> Capture {
    let word = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let half = |value: u16| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let block = |kind: u32, body: &[u8]| {
        let length = word(body.len() as u32 + 12);
        [&word(kind)[..], &length, body, &length].concat()
    };
    let padded = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    };
    let options = |options: &[(u16, &[u8])]| {
        let mut all: Vec<u8> = Vec::new();
        for (code, value) in options {
            all.extend([&half(*code)[..], &half(value.len() as u16), &padded(value)].concat());
        }
        all.extend([0; 4]);
        all
    };
    let length = word(bytes.len() as u32);
    let section = [&word(0x1a2b_3c4d)[..], &half(1), &half(0), &[0xff; 8]].concat();
    let interface = [&half(1)[..], &half(0), &word(0), &options(of_interface)].concat();
    let packet = [&[0; 12][..], &length, &length, &padded(bytes), &options(of_packet)].concat();
    let file = [block(0x0a0d_0d0a, &section), block(1, &interface), block(6, &packet)].concat();
    Capture::parse(&file).unwrap()
}

#[test]
fn fcs_announced_by_a_pcap_file_is_removed() {
    let bytes = [5; 68];
    let read = |link, original, bytes: &[u8]| {
        let capture = pcap_of_one(link, original, bytes);
        let packet = &capture.packets[0];
        (packet.bytes.len(), packet.original_len, capture.fcs_removed)
    };
    assert_eq!(read(1, 68, &bytes), (68, 68, 0));
    assert_eq!(read(0x2400_0001, 68, &bytes), (64, 64, 1), "two words of 16 bits");
    assert_eq!(read(0x1400_0001, 68, &bytes), (66, 66, 1));
    assert_eq!(read(0x2000_0001, 68, &bytes), (68, 68, 0), "the length is not valid");
    assert_eq!(read(0x0400_0001, 68, &bytes), (68, 68, 0), "FCS length of zero");
    // The snap length may have truncated the FCS, completely or in part.
    assert_eq!(read(0x2400_0001, 100, &bytes), (68, 96, 1));
    assert_eq!(read(0x2400_0001, 70, &bytes), (66, 66, 1));
    assert_eq!(read(0x2400_0001, 3, &bytes[..3]), (0, 0, 1));
}

#[test]
fn pcapng_fcs_length_comes_from_packet_or_interface() {
    let bytes = [5; 68];
    let flags = |fcs: u32, big_endian| {
        // All other bits are set, to check the mask.
        let flags = 0xffff_fe1f | fcs << 5;
        if big_endian { flags.to_be_bytes() } else { flags.to_le_bytes() }
    };
    for big_endian in [false, true] {
        for (of_interface, of_packet, removed) in [
            (None, None, 0),
            (Some(4), None, 4),
            (Some(32), None, 4),
            (Some(16), None, 2),
            (Some(4), Some(0), 4),
            (Some(4), Some(2), 2),
            (None, Some(4), 4),
            (None, Some(0), 0),
        ] {
            let (length, flags) =
                (of_interface.map(|length| [length]), of_packet.map(|fcs| flags(fcs, big_endian)));
            let of_interface: Vec<(u16, &[u8])> = length.iter().map(|value| (13, &value[..])).collect();
            let of_packet: Vec<(u16, &[u8])> = flags.iter().map(|value| (2, &value[..])).collect();
            let capture = pcapng_with_options(big_endian, &of_interface, &of_packet, &bytes);
            let case = format!("{of_interface:?} {of_packet:?}");
            assert_eq!(capture.packets[0].bytes.len(), 68 - removed, "{case}");
            assert_eq!(capture.fcs_removed, u64::from(removed > 0), "{case}");
        }
    }
}

#[test]
fn packet_bytes_are_limited_to_its_length() {
    let capture = pcap_of_one(1, 100, &[5; 116]);
    assert_eq!((capture.packets[0].bytes.len(), capture.packets[0].original_len), (100, 100));
    assert_eq!(capture.clipped, 1);
    let capture = pcap_of_one(1, 0, &[5; 116]);
    assert_eq!((capture.packets[0].bytes.len(), capture.clipped), (116, 0), "the length is unknown");
    let capture = pcap_of_one(1, 116, &[5; 116]);
    assert_eq!((capture.packets[0].bytes.len(), capture.clipped), (116, 0));
}

#[test]
fn packets_of_other_links_get_a_synthetic_header() {
    let capture = pcap_of_one(101, 34, &[0x45; 30]);
    let packet = &capture.packets[0];
    assert_eq!((packet.bytes.len(), packet.original_len), (44, 48));
    assert_eq!((packet.synthetic_header, capture.other_links), (Some(SyntheticHeader { sender: None }), 0));
    assert_eq!(pcap_of_one(1, 34, &[0x45; 34]).packets[0].synthetic_header, None);
}

#[test]
fn pcapng_is_read_at_any_resolution_with_offsets() {
    let stamp = 3_000_000_123u64;
    for big_endian in [false, true] {
        for (resolution, offset, expected) in [
            (6, 0, 3_000_000_123_000_000u128),
            (9, 5, 8_000_000_123_000),
            (0, 0, 3_000_000_123 * PS_PER_SECOND),
            (12, 0, 3_000_000_123),
            (15, 0, 3_000_000),
            (127, 0, 0),
            // Powers of two: 2^-30 seconds, and 2^-63.
            (0x80 | 30, 0, (3_000_000_123 * PS_PER_SECOND) >> 30),
            (0x80 | 63, 1, PS_PER_SECOND + ((3_000_000_123 * PS_PER_SECOND) >> 63)),
            (6, -4_000_000, 0),
            (6, i64::MIN, 0),
        ] {
            let capture = Capture::parse(&pcapng(big_endian, resolution, offset, &[stamp])).unwrap();
            let [first, simple] = capture.packets.as_slice() else { panic!("{capture:?}") };
            assert_eq!((first.at, first.bytes.as_slice(), first.original_len), (expected, &[5u8, 6][..], 9));
            assert_eq!(
                (simple.at, simple.bytes.as_slice()),
                (expected, &[7u8; 4][..]),
                "without a timestamp"
            );
        }
    }
}

#[test]
fn truncated_file_yields_earlier_packets_and_is_marked_incomplete() {
    for file in [pcap(true, 0xa1b2_c3d4, 1), pcapng(false, 6, 0, &[1, 2, 3])] {
        let whole = Capture::parse(&file).unwrap();
        for end in 0..file.len() {
            let Some(cut) = Capture::parse(&file[..end]) else { continue };
            assert!(
                whole.packets.starts_with(&cut.packets) && cut.packets.len() < whole.packets.len(),
                "{end}"
            );
        }
        let mid_packet = Capture::parse(&file[..file.len() - 3]).unwrap();
        assert!(mid_packet.incomplete && mid_packet.packets.len() + 1 == whole.packets.len());
    }
}

#[test]
fn compressed_files_are_read_and_other_files_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = pcap(false, 0xa1b2_3c4d, 1);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&file).unwrap();
    let (gzip, zstd) = (gzip.finish().unwrap(), zstd::encode_all(file.as_slice(), 1).unwrap());
    let mut hashes = Vec::new();
    for (name, bytes) in [("plain", &file), ("a.gz", &gzip), ("a.zst", &zstd)] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let (capture, hash) = Capture::read(&path).unwrap();
        assert_eq!(capture, Capture::parse(&file).unwrap(), "{name}");
        hashes.push(hash);
    }
    assert!(hashes.iter().all(|hash| *hash == hashes[0]));
    for (name, bytes, part) in [
        ("text", b"no capture at all, but some text".as_slice(), "is not a capture"),
        ("empty", b"", "is not a capture"),
        ("cut.gz", &gzip[..20], "cannot read"),
        ("cut.zst", &zstd[..20], "cannot read"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let error = Capture::read(&path).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains(name), "{error}");
    }
    let error = Capture::read(&folder.path().join("none")).unwrap_err().to_string();
    assert!(error.starts_with("cannot read ") && error.contains("none"), "{error}");
}

proptest! {
    #[test]
    fn any_bytes_are_handled_without_panic(
        mut file in prop_oneof![Just(pcap(false, 0xa1b2_c3d4, 1)), Just(pcapng(true, 9, 0, &[1, 2])), Just(pcapng(false, 6, 0, &[8]))],
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        rest in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        for (at, value) in changes {
            let at = at.index(file.len());
            file[at] = value;
        }
        file.extend(rest);
        if let Some(capture) = Capture::parse(&file) {
            prop_assert!(capture.packets.iter().map(|packet| packet.bytes.len()).sum::<usize>() <= file.len());
        }
    }
}
