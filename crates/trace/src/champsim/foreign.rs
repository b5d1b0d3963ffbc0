//! Recognises other file types by their first bytes. As addresses of a first instruction, these bytes would
//! be far outside every address space, or match too many bits by chance.

const FROM_CAPTURE: &str = "name an instruction trace";
const UNPACK: &str = "unpack it, and name the trace in it";

/// Magic number, file type, and advice.
const KINDS: &[(&[u8], &str, &str)] = &[
    (b"\x7fELF\x01\x01\x01", "a program (ELF)", "record it with a ChampSim tracer, and name the trace"),
    (b"\x7fELF\x02\x01\x01", "a program (ELF)", "record it with a ChampSim tracer, and name the trace"),
    (b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00", "a packet capture (pcap)", FROM_CAPTURE),
    (b"\x4d\x3c\xb2\xa1\x02\x00\x04\x00", "a packet capture (pcap)", FROM_CAPTURE),
    (b"\xa1\xb2\xc3\xd4\x00\x02\x00\x04", "a packet capture (pcap)", FROM_CAPTURE),
    (b"\xa1\xb2\x3c\x4d\x00\x02\x00\x04", "a packet capture (pcap)", FROM_CAPTURE),
    (b"BZh91AY&SY", "compressed by bzip2", "compress it by xz, gzip or zstd instead"),
    (b"\x04\x22\x4d\x18", "compressed by lz4", "compress it by xz, gzip or zstd instead"),
    (b"\xff\x06\x00\x00sNaPpY", "compressed by snappy", "compress it by xz, gzip or zstd instead"),
    (b"PK\x03\x04\x14\x00", "a zip archive", UNPACK),
    (b"\xfd7zXZ\x00", "compressed by xz twice", UNPACK),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd twice", UNPACK),
];

/// Offset and magic number in a tar archive's first header.
const TAR: (usize, &[u8]) = (257, b"ustar");
/// Type of a pcapng file's first block, and both forms of its byte-order magic.
const PCAPNG: [&[u8]; 3] = [b"\x0a\x0d\x0d\x0a", b"\x1a\x2b\x3c\x4d", b"\x4d\x3c\x2b\x1a"];

/// File type and advice, if the bytes begin a recognised file that is no trace.
pub(super) fn kind(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    let known = KINDS.iter().find(|(magic, ..)| bytes.starts_with(magic));
    if let Some((_, what, advice)) = known {
        return Some((what, advice));
    }
    let at = |place: usize, magic: &[u8]| bytes.get(place..).is_some_and(|rest| rest.starts_with(magic));
    if at(TAR.0, TAR.1) {
        return Some(("a tar archive", UNPACK));
    }
    let is_pcapng = at(0, PCAPNG[0]) && (at(8, PCAPNG[1]) || at(8, PCAPNG[2]));
    is_pcapng.then_some(("a packet capture (pcapng)", FROM_CAPTURE))
}
