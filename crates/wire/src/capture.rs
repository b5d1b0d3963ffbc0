//! Reader of captures: pcap (draft-ietf-opsawg-pcap; both byte orders, microseconds or nanoseconds,
//! Kuznetzov's modified records) and pcapng (draft-ietf-opsawg-pcapng; several sections and interfaces, any
//! resolution), plain or compressed with gzip or Zstandard. `pcap-parser` splits blocks; timestamps are
//! computed here, exactly, in picoseconds.
//!
//! A capture is read whole, up to 1 GiB. Everything after a damaged or truncated block is skipped, and the
//! capture is marked incomplete. A packet's FCS is removed if the file gives its length: in the link type
//! field of pcap, or in `if_fcslen` and bits 5 to 8 of `epb_flags` of pcapng. Packets of link types that
//! carry IP without Ethernet get an Ethernet header ([`SyntheticHeader`]); those of other link types are
//! counted and skipped.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{
    Block, EnhancedPacketBlock, InterfaceDescriptionBlock, OptionCode, PcapBlockOwned,
    PcapError as ParseError, PcapNGOption, create_reader,
};

pub use crate::capture_links::SyntheticHeader;
use crate::capture_links::{LinkType, Payload};

/// Maximum size of a capture, uncompressed.
const BYTES_MAX: u64 = 1 << 30;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const PS_PER_SECOND: u128 = 1_000_000_000_000;
/// pcap, section 4, "File Header": bit that marks the FCS length as valid, its position, its unit of 16 bits,
/// and the mask of the link type.
const FCS_LENGTH_IS_VALID: u32 = 1 << 26;
const FCS_LENGTH_SHIFT: u32 = 28;
const FCS_LENGTH_UNIT: u64 = 2;
const LINK_TYPE_BITS: u32 = 0xffff;
/// pcapng, section 4.2: FCS length of an interface's packets. The text says bits, but its example is 4, and
/// both occur in files. No FCS has 16 bytes or 8 bits.
const IF_FCSLEN: OptionCode = OptionCode(13);
const FCS_BITS_MIN: u8 = 16;
/// pcapng, section 4.3: packet flags; bits 5 to 8 are the FCS length, zero if unavailable.
const EPB_FLAGS: OptionCode = OptionCode(2);
const EPB_FLAGS_FCS_SHIFT: u32 = 5;
const EPB_FLAGS_FCS_BITS: u32 = 0xf;

/// A captured packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedPacket {
    /// Picoseconds since 1970; a packet without a timestamp has that of the previous one.
    pub at: u128,
    /// The captured bytes, from the Ethernet header on, without FCS.
    pub bytes: Vec<u8>,
    /// Original length, without FCS.
    pub original_len: u64,
    /// Set if the link has no Ethernet header: the addresses in `bytes` are zero and must be filled in.
    pub synthetic_header: Option<SyntheticHeader>,
}

/// A capture's packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// Packets of Ethernet links, and of links that carry IP without Ethernet, in file order.
    pub packets: Vec<CapturedPacket>,
    /// Packets of other link types, or shorter than their link's header.
    pub other_links: u64,
    /// Packets whose FCS was removed.
    pub fcs_removed: u64,
    /// Packets with more captured bytes than their length, truncated to that length.
    pub clipped: u64,
    /// The file ended within a packet, or its remainder could not be read.
    pub incomplete: bool,
}

/// Error in reading a capture.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// Error of the host.
    #[error("cannot read {}: {error}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the host.
        error: io::Error,
    },
    /// Not a capture.
    #[error("{} is not a capture; expected pcap or pcapng, plain, .gz or .zst", .0.display())]
    NoCapture(PathBuf),
    /// Too large.
    #[error("{} exceeds 1 GiB uncompressed; split it with editcap -c", .0.display())]
    TooLarge(PathBuf),
}

/// Properties of an interface's packets: one per pcapng interface, or a single one for pcap.
struct Interface {
    link: LinkType,
    /// FCS bytes of each packet, unless the packet overrides it.
    fcs: u64,
    /// Maximum captured bytes per packet; 0 for no limit.
    snap_len: u32,
    /// Timestamp resolution as encoded in the option.
    resolution: u8,
    offset_seconds: i64,
}

/// A packet as stored in a file.
struct Recorded<'a> {
    at: Option<u128>,
    bytes: &'a [u8],
    original_len: u32,
    fcs: u64,
}

fn value<'a>(options: &'a [PcapNGOption<'_>], code: OptionCode) -> Option<&'a [u8]> {
    options.iter().find(|option| option.code == code).and_then(|option| option.as_bytes().ok())
}

impl Interface {
    fn new(block: &InterfaceDescriptionBlock<'_>, big_endian: bool) -> Interface {
        let offset = value(&block.options, OptionCode::IfTsoffset);
        let offset = offset.and_then(|value| value.first_chunk::<8>().copied()).unwrap_or_default();
        let offset_seconds = if big_endian { i64::from_be_bytes(offset) } else { i64::from_le_bytes(offset) };
        Interface {
            link: LinkType(block.linktype.0 as u32 & LINK_TYPE_BITS),
            fcs: value(&block.options, IF_FCSLEN).and_then(|value| value.first()).map_or(
                0,
                |len| match *len {
                    bits @ FCS_BITS_MIN.. => u64::from(bits / 8),
                    bytes => u64::from(bytes),
                },
            ),
            snap_len: block.snaplen,
            resolution: block.if_tsresol,
            offset_seconds,
        }
    }

    /// The interface described by a pcap file's link type field.
    fn from_pcap_header(field: u32) -> Interface {
        let fcs = match field & FCS_LENGTH_IS_VALID {
            0 => 0,
            _ => u64::from(field >> FCS_LENGTH_SHIFT) * FCS_LENGTH_UNIT,
        };
        Interface {
            link: LinkType(field & LINK_TYPE_BITS),
            fcs,
            snap_len: 0,
            resolution: 0,
            offset_seconds: 0,
        }
    }

    /// FCS bytes of a packet of this interface.
    fn fcs_of(&self, packet: &EnhancedPacketBlock<'_>, big_endian: bool) -> u64 {
        let flags = value(&packet.options, EPB_FLAGS).and_then(|value| value.first_chunk::<4>().copied());
        let flags =
            flags.map(|flags| if big_endian { u32::from_be_bytes(flags) } else { u32::from_le_bytes(flags) });
        match flags.unwrap_or(0) >> EPB_FLAGS_FCS_SHIFT & EPB_FLAGS_FCS_BITS {
            0 => self.fcs,
            packet_fcs => u64::from(packet_fcs),
        }
    }

    /// Converts a timestamp to picoseconds since 1970.
    fn time(&self, stamp: u64) -> u128 {
        let (stamp, exponent) = (u128::from(stamp), u32::from(self.resolution & 0x7f));
        let since = match self.resolution >> 7 {
            1 => (stamp * PS_PER_SECOND) >> exponent,
            _ if exponent <= 12 => stamp * 10u128.pow(12 - exponent),
            _ => 10u128.checked_pow(exponent - 12).map_or(0, |divisor| stamp / divisor),
        };
        let offset = i128::from(self.offset_seconds) * PS_PER_SECOND as i128;
        u128::try_from((since as i128).saturating_add(offset)).unwrap_or(0)
    }
}

/// State while reading a file.
#[derive(Default)]
struct Reading {
    capture: Capture,
    interfaces: Vec<Interface>,
    big_endian: bool,
    /// Picoseconds per unit of a pcap file's fractions of a second.
    fraction: u128,
    last: u128,
}

impl Reading {
    fn packet<'a>(&mut self, interface: u32, of: impl FnOnce(&Interface) -> Recorded<'a>) {
        // Without an interface description, the link type is unknown.
        let Some(interface) = self.interfaces.get(interface as usize) else {
            self.capture.other_links += 1;
            return;
        };
        let Recorded { at, bytes, original_len, fcs } = of(interface);
        self.last = at.unwrap_or(self.last);
        // A length of zero means unknown.
        let recorded = bytes.len() as u64;
        let original_len = if original_len == 0 { recorded } else { u64::from(original_len) };
        let without_fcs = original_len.saturating_sub(fcs);
        let Some(payload) =
            Payload::from_packet(interface.link, &bytes[..recorded.min(without_fcs) as usize], without_fcs)
        else {
            self.capture.other_links += 1;
            return;
        };
        self.capture.fcs_removed += u64::from(fcs > 0);
        self.capture.clipped += u64::from(recorded > original_len);
        let Payload { bytes, original_len, synthetic_header } = payload;
        self.capture.packets.push(CapturedPacket { at: self.last, bytes, original_len, synthetic_header });
    }

    fn block(&mut self, block: &PcapBlockOwned<'_>) {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                self.fraction = if header.is_nanosecond_precision() { 1_000 } else { 1_000_000 };
                self.interfaces = vec![Interface::from_pcap_header(header.network.0 as u32)];
            }
            PcapBlockOwned::Legacy(record) => {
                let at =
                    u128::from(record.ts_sec) * PS_PER_SECOND + u128::from(record.ts_usec) * self.fraction;
                self.packet(0, |interface| Recorded {
                    at: Some(at),
                    bytes: record.data,
                    original_len: record.origlen,
                    fcs: interface.fcs,
                });
            }
            PcapBlockOwned::NG(Block::SectionHeader(section)) => {
                self.interfaces.clear();
                self.big_endian = section.big_endian();
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(block)) => {
                self.interfaces.push(Interface::new(block, self.big_endian));
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let stamp = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                let big_endian = self.big_endian;
                self.packet(packet.if_id, |interface| Recorded {
                    at: Some(interface.time(stamp)),
                    bytes: packet.packet_data(),
                    original_len: packet.origlen,
                    fcs: interface.fcs_of(packet, big_endian),
                });
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => self.packet(0, |interface| {
                // Bytes beyond the snap length are padding.
                let all = packet.packet_data();
                let kept = if interface.snap_len == 0 {
                    all.len()
                } else {
                    all.len().min(interface.snap_len as usize)
                };
                Recorded { at: None, bytes: &all[..kept], original_len: packet.origlen, fcs: interface.fcs }
            }),
            PcapBlockOwned::NG(_) => {}
        }
    }
}

impl Capture {
    /// Reads a file; also returns a hash of its uncompressed contents.
    pub fn read(path: &Path) -> Result<(Capture, u64), CaptureError> {
        let io = |error| CaptureError::Io { path: path.to_owned(), error };
        let mut file = open(path).map_err(io)?;
        let mut packed = Vec::new();
        file.by_ref().take(BYTES_MAX + 1).read_to_end(&mut packed).map_err(io)?;
        let bytes = unpack(packed).map_err(io)?;
        if bytes.len() as u64 > BYTES_MAX {
            return Err(CaptureError::TooLarge(path.to_owned()));
        }
        let capture = Capture::parse(&bytes).ok_or_else(|| CaptureError::NoCapture(path.to_owned()))?;
        Ok((capture, xxhash_rust::xxh3::xxh3_64(&bytes)))
    }

    /// Parses the uncompressed bytes of a capture; none if they are not a capture.
    pub fn parse(bytes: &[u8]) -> Option<Capture> {
        // A buffer for all of it, so that no block is too large.
        let mut reader = create_reader(bytes.len().max(1 << 16), bytes).ok()?;
        let (mut reading, mut refilled) = (Reading::default(), false);
        loop {
            let needs_more = match reader.next() {
                Ok((consumed, block)) => {
                    reading.block(&block);
                    drop(block);
                    reader.consume(consumed);
                    refilled = false;
                    continue;
                }
                Err(ParseError::Eof) => break,
                Err(error) => matches!(error, ParseError::Incomplete(_)),
            };
            // A second refill without progress means that the remainder is missing.
            if !needs_more || refilled || reader.refill().is_err() {
                reading.capture.incomplete = true;
                break;
            }
            refilled = true;
        }
        Some(reading.capture)
    }
}

/// Opens a regular file; opening a named pipe would wait for its writer.
fn open(path: &Path) -> io::Result<File> {
    let found = std::fs::metadata(path)?;
    if !found.is_file() && !found.is_dir() {
        return Err(io::Error::other("it is a device, pipe or socket; use a regular file"));
    }
    File::open(path)
}

/// Decompresses, to at most one byte more than the limit.
fn unpack(packed: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if packed.starts_with(&GZIP) {
        flate2::read::MultiGzDecoder::new(packed.as_slice()).take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    } else if packed.starts_with(&ZSTD) {
        zstd::stream::read::Decoder::new(packed.as_slice())?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    } else {
        return Ok(packed);
    }
    Ok(bytes)
}

#[cfg(test)]
#[path = "capture_tests.rs"]
mod tests;
