//! Reading captures: pcap (draft-ietf-opsawg-pcap; either byte order, microseconds or nanoseconds, Kuznetzov's modified
//! records) and pcapng (draft-ietf-opsawg-pcapng; several sections and interfaces, any resolution), plain or compressed by gzip
//! or Zstandard. `pcap-parser` takes blocks apart; stamps are worked out here, exactly, in picoseconds.
//!
//! A capture is read whole: up to a gigabyte of it. What follows a damaged or cut block is lost, and said to be. Packets of other
//! links than Ethernet are counted and left out. An FCS, where an interface says that packets have one, is not cut off.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{
    Block, InterfaceDescriptionBlock, Linktype, OptionCode, PcapBlockOwned, PcapError as ParseError,
    create_reader,
};

/// The largest capture that is read, unpacked.
const BYTES_MAX: u64 = 1 << 30;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const PS_PER_SECOND: u128 = 1_000_000_000_000;

/// A packet as it was captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedPacket {
    /// Picoseconds since 1970; a packet without a stamp has that of the one before.
    pub at: u128,
    /// Its bytes, as many as were kept.
    pub bytes: Vec<u8>,
    /// How many it had.
    pub original_len: u64,
}

/// A capture's packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// Those of Ethernet, in the order of the file.
    pub packets: Vec<CapturedPacket>,
    /// How many there were of other links.
    pub other_links: u64,
    /// The file ended in the middle of a packet, or what followed could not be read.
    pub incomplete: bool,
}

/// Why a capture cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The host's answer.
    #[error("cannot read {}: {error}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the host said.
        error: io::Error,
    },
    /// Something else.
    #[error("{} is no capture; pcap and pcapng are read, plain or as .gz or .zst", .0.display())]
    NoCapture(PathBuf),
    /// More than is read.
    #[error("{} has more than 1 GiB unpacked; cut it with editcap -c", .0.display())]
    TooLarge(PathBuf),
}

/// An interface of a pcapng section.
struct Interface {
    is_ethernet: bool,
    /// The stamps' resolution as its option writes it.
    resolution: u8,
    offset_seconds: i64,
}

impl Interface {
    fn new(block: &InterfaceDescriptionBlock<'_>, big_endian: bool) -> Interface {
        let offset = block.options.iter().find(|option| option.code == OptionCode::IfTsoffset);
        let offset = offset.and_then(|option| option.value().first_chunk::<8>().copied()).unwrap_or_default();
        let offset_seconds = if big_endian { i64::from_be_bytes(offset) } else { i64::from_le_bytes(offset) };
        Interface {
            is_ethernet: block.linktype == Linktype::ETHERNET,
            resolution: block.if_tsresol,
            offset_seconds,
        }
    }

    /// Picoseconds since 1970.
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

/// What is known of the file while it is read.
#[derive(Default)]
struct Reading {
    capture: Capture,
    interfaces: Vec<Interface>,
    big_endian: bool,
    /// Of a pcap file: whether it is of Ethernet, and picoseconds of its stamps' fractions.
    legacy: Option<(bool, u128)>,
    last: u128,
}

impl Reading {
    fn packet(&mut self, is_ethernet: bool, at: Option<u128>, bytes: &[u8], original_len: u32) {
        self.last = at.unwrap_or(self.last);
        if !is_ethernet {
            self.capture.other_links += 1;
            return;
        }
        let original_len = u64::from(original_len).max(bytes.len() as u64);
        self.capture.packets.push(CapturedPacket { at: self.last, bytes: bytes.to_vec(), original_len });
    }

    fn of_interface(&mut self, interface: u32, stamp: Option<u64>, bytes: &[u8], original_len: u32) {
        // A packet of an interface that is not described is as damaged as its link is unknown.
        let found = self.interfaces.get(interface as usize);
        let (is_ethernet, at) =
            found.map_or((false, None), |found| (found.is_ethernet, stamp.map(|stamp| found.time(stamp))));
        self.packet(is_ethernet, at, bytes, original_len);
    }

    fn block(&mut self, block: &PcapBlockOwned<'_>) {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let fraction = if header.is_nanosecond_precision() { 1_000 } else { 1_000_000 };
                // The upper bits tell of an FCS.
                self.legacy = Some((header.network.0 & 0xffff == Linktype::ETHERNET.0, fraction));
            }
            PcapBlockOwned::Legacy(record) => {
                let (is_ethernet, fraction) = self.legacy.unwrap_or((false, 0));
                let at = u128::from(record.ts_sec) * PS_PER_SECOND + u128::from(record.ts_usec) * fraction;
                self.packet(is_ethernet, Some(at), record.data, record.origlen);
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
                self.of_interface(packet.if_id, Some(stamp), packet.packet_data(), packet.origlen);
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                self.of_interface(0, None, packet.packet_data(), packet.origlen);
            }
            PcapBlockOwned::NG(_) => {}
        }
    }
}

impl Capture {
    /// Reads a file, and a hash of what it holds unpacked.
    pub fn read(path: &Path) -> Result<(Capture, u64), CaptureError> {
        let io = |error| CaptureError::Io { path: path.to_owned(), error };
        let mut file = File::open(path).map_err(io)?;
        let mut packed = Vec::new();
        file.by_ref().take(BYTES_MAX + 1).read_to_end(&mut packed).map_err(io)?;
        let bytes = unpack(packed).map_err(io)?;
        if bytes.len() as u64 > BYTES_MAX {
            return Err(CaptureError::TooLarge(path.to_owned()));
        }
        let capture = Capture::parse(&bytes).ok_or_else(|| CaptureError::NoCapture(path.to_owned()))?;
        Ok((capture, xxhash_rust::xxh3::xxh3_64(&bytes)))
    }

    /// Reads the bytes of a capture, unpacked; none if they are no capture.
    pub fn parse(bytes: &[u8]) -> Option<Capture> {
        // Room for all of it, so that no block is too large.
        let mut reader = create_reader(bytes.len().max(1 << 16), bytes).ok()?;
        let (mut reading, mut refilled) = (Reading::default(), false);
        loop {
            let wants_more = match reader.next() {
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
            // A second time in vain means that the rest of it is not there.
            if !wants_more || refilled || reader.refill().is_err() {
                reading.capture.incomplete = true;
                break;
            }
            refilled = true;
        }
        Some(reading.capture)
    }
}

/// Undoes compression; one byte more than is read at most.
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
