//! Trace files: round trips in every variant and compression, and files of other tools.

use std::io::{self, Read};
use std::path::Path;

use super::super::writer::pack;
use super::*;

/// Reads a trace in memory.
pub(super) fn reader(bytes: Vec<u8>, variant: Variant) -> Result<Reader, Error> {
    Reader::new("a.trace", io::Cursor::new(bytes), variant)
}

pub(super) fn read(bytes: Vec<u8>, variant: Variant) -> Result<Vec<Record>, Error> {
    reader(bytes, variant)?.collect()
}

/// A trace of `count` instructions: a loop that strides through memory.
pub(super) fn loop_trace(count: u64) -> Vec<Record> {
    let one = |place: u64| Record {
        ip: BASE + place % 100 * 4,
        destinations: [(place % 7) as u8, 0, 0, 0],
        sources: [(place % 11) as u8, 0, 0, 0],
        read: [u64::from(place % 5 < 2) * (0x1000 + place * 8), 0, 0, 0],
        ..Record::default()
    };
    (0..count).map(one).collect()
}

fn name(compression: Compression) -> String {
    compression.ending().map_or("a.champsim".to_owned(), |ending| format!("a.champsim.{ending}"))
}

fn write(path: &Path, variant: Variant, records: &[Record]) -> Result<(), Error> {
    let mut writer = Writer::create(path, variant)?;
    records.iter().try_for_each(|record| writer.write_record(record))?;
    assert_eq!(writer.written(), records.len() as u64);
    writer.finish()
}

fn names_in(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn traces_of_many_blocks_round_trip_in_every_compression() {
    let folder = tempfile::tempdir().unwrap();
    let records = loop_trace(40_000);
    for compression in Compression::ALL {
        for variant in Variant::ALL {
            let path = folder.path().join(name(compression));
            write(&path, variant, &records).unwrap();
            let other = folder.path().join("named_after_nothing.gz");
            std::fs::rename(path, &other).unwrap();
            let mut reader = Reader::open(&other, variant).unwrap();
            assert_eq!(reader.compression(), compression);
            assert!(reader.by_ref().map(Result::unwrap).eq(records.iter().copied()));
            assert_eq!(reader.records(), 40_000);
            assert!(reader.next().is_none());
        }
    }
}

#[test]
fn concatenated_and_padded_streams_are_one_trace() {
    let records = loop_trace(100);
    let bytes = bytes(Variant::Standard, &records);
    for compression in [Compression::Xz, Compression::Gzip, Compression::Zstd] {
        let pack = |bytes: &[u8]| pack(compression, bytes).unwrap();
        // Split within records, and one empty part.
        let parts = [pack(&bytes[..1000]), pack(&[]), pack(&bytes[1000..1001]), pack(&bytes[1001..])];
        assert_eq!(read(parts.concat(), Variant::Standard).unwrap(), records);
        if compression != Compression::Zstd {
            let padding = vec![0; 300_000];
            let padded = [&parts[0], &padding, &parts[1], &parts[2], &padding, &parts[3], &padding];
            let padded: Vec<u8> = padded.into_iter().flatten().copied().collect();
            assert_eq!(read(padded, Variant::Standard).unwrap(), records, "{compression:?}");
        }
    }
}

#[test]
fn skippable_zstd_frames_are_skipped() {
    let records = loop_trace(100);
    let packed = pack(Compression::Zstd, &bytes(Variant::Standard, &records)).unwrap();
    // Magic number, length, and content of a skippable frame: RFC 8878, 3.1.2.
    let skipped = [0x5c, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 7, 8, 9];
    let file = [&skipped[..], &packed, &skipped].concat();
    assert_eq!(read(file, Variant::Standard).unwrap(), records);
}

#[test]
fn checks_and_headers_of_other_tools_are_accepted() {
    use std::io::Write as _;

    use liblzma::stream::{Check, Stream};

    let records = loop_trace(10_000);
    let bytes = bytes(Variant::Standard, &records);
    for check in [Check::None, Check::Crc32, Check::Crc64, Check::Sha256] {
        let stream = Stream::new_easy_encoder(0, check).unwrap();
        let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
        // Several blocks, as from a multithreaded encoder.
        for part in bytes.chunks(100_000) {
            encoder.write_all(part).unwrap();
            encoder.flush().unwrap();
        }
        assert_eq!(read(encoder.finish().unwrap(), Variant::Standard).unwrap(), records, "{check:?}");
    }
    let gzip = flate2::GzBuilder::new().filename("a").comment("b").extra("c").mtime(1);
    let mut encoder = gzip.write(Vec::new(), flate2::Compression::none());
    encoder.write_all(&bytes).unwrap();
    assert_eq!(read(encoder.finish().unwrap(), Variant::Standard).unwrap(), records);
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.long_distance_matching(true).unwrap();
    encoder.window_log(27).unwrap();
    encoder.write_all(&bytes).unwrap();
    assert_eq!(read(encoder.finish().unwrap(), Variant::Standard).unwrap(), records);
}

/// Reader that returns few bytes per call, like a pipe.
struct SlowReader(Vec<u8>, usize);

impl Read for SlowReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.1 += 1;
        if self.1.is_multiple_of(3) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let count = to.len().min(self.0.len()).min(1 + self.1 % 5);
        to[..count].copy_from_slice(&self.0[..count]);
        self.0.drain(..count);
        Ok(count)
    }
}

#[test]
fn short_reads_from_a_pipe_yield_the_same_trace() {
    let records = loop_trace(500);
    for compression in Compression::ALL {
        let packed = pack(compression, &bytes(Variant::CloudSuite, &records)).unwrap();
        let reader = Reader::new("a pipe", SlowReader(packed, 0), Variant::CloudSuite).unwrap();
        assert_eq!(reader.map(Result::unwrap).collect::<Vec<_>>(), records);
    }
}

#[test]
fn endless_input_can_be_abandoned() {
    let endless = io::repeat(0);
    let mut reader = Reader::new("zeros", endless, Variant::Standard).unwrap();
    assert!(reader.by_ref().take(100_000).all(|record| record.unwrap() == Record::default()));
    assert_eq!(reader.records(), 100_000);
    // A frame repeated forever, as a small file may decompress to a huge one.
    let packed = pack(Compression::Zstd, &bytes(Variant::Standard, &loop_trace(64))).unwrap();
    let mut at = 0;
    let endless = std::iter::repeat_with(move || {
        at = (at + 1) % packed.len();
        packed[(at + packed.len() - 1) % packed.len()]
    });
    let reader = Reader::new("frames", Bytes(endless), Variant::Standard).unwrap();
    assert!(reader.take(64 * 1000).map(Result::unwrap).eq(loop_trace(64).repeat(1000)));
}

struct Bytes<I>(I);

impl<I: Iterator<Item = u8>> Read for Bytes<I> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        Ok(to.iter_mut().zip(&mut self.0).map(|(place, byte)| *place = byte).count())
    }
}

#[test]
fn trace_file_yields_the_ops_of_the_trace_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.xz");
    let records = loop_trace(20_000);
    write(&path, Variant::CloudSuite, &records).unwrap();
    let trace = Trace::open(&path, Variant::CloudSuite, None).unwrap();
    assert_eq!((trace.instructions(), trace.survey().records()), (19_999, 20_000));
    for _ in 0..2 {
        let mut all = Vec::new();
        assert_eq!(trace.ops().unwrap().instructions(u64::MAX, &mut all).unwrap(), 19_999);
        assert!(all == ops(&records));
    }
    let part = Trace::open(&path, Variant::CloudSuite, Some(5000)).unwrap();
    let mut all = Vec::new();
    assert_eq!((part.instructions(), part.survey().records()), (5000, 5001));
    assert_eq!(part.ops().unwrap().instructions(u64::MAX, &mut all).unwrap(), 5000);
    assert!(all == ops(&records[..5001]));

    let (mut blocks, mut block, mut all) = (trace.blocks().unwrap(), Vec::new(), Vec::new());
    while blocks.next(&mut block).unwrap() {
        let branches = block.iter().filter(|op| op.class.is_branch()).count();
        assert!(branches == 0 && block.len() >= 64 || branches == 1 || blocks.position() == 19_999);
        all.append(&mut block);
    }
    assert!(all == ops(&records) && blocks.position() == 19_999);
    assert!(!blocks.next(&mut block).unwrap(), "it stays at its end");
    // A reader that is dropped early does not wait for the rest.
    assert!(trace.blocks().unwrap().next(&mut block).unwrap());
}

#[test]
fn writer_replaces_the_file_on_finish_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zst");
    std::fs::write(&path, "before").unwrap();
    let mut writer = Writer::create(&path, Variant::Standard).unwrap();
    loop_trace(10_000).iter().for_each(|record| writer.write_record(record).unwrap());
    assert_eq!(std::fs::read(&path).unwrap(), b"before");
    assert_eq!(names_in(folder.path()).len(), 2);
    drop(writer);
    assert_eq!((std::fs::read(&path).unwrap(), names_in(folder.path()).len()), (b"before".to_vec(), 1));
    write(&path, Variant::Standard, &loop_trace(10)).unwrap();
    assert_eq!(Reader::open(&path, Variant::Standard).unwrap().count(), 10);
    assert_eq!(names_in(folder.path()), ["a.zst"]);
}

#[cfg(unix)]
#[test]
fn writer_keeps_links_and_default_permissions() {
    use std::os::unix::fs::{MetadataExt, symlink};

    let folder = tempfile::tempdir().unwrap();
    let [target, link, plain] = ["real.gz", "link.gz", "plain"].map(|name| folder.path().join(name));
    std::fs::write(&target, "before").unwrap();
    symlink(&target, &link).unwrap();
    write(&link, Variant::Standard, &loop_trace(10)).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(Reader::open(&target, Variant::Standard).unwrap().compression(), Compression::Gzip);
    std::fs::write(&plain, "").unwrap();
    assert_eq!(std::fs::metadata(&target).unwrap().mode(), std::fs::metadata(&plain).unwrap().mode());
}

#[test]
fn writer_converts_ops_to_their_records() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let load = Op { phys: PhysAddr(64), destination: 5, ..super::op(OpClass::Load, 0) };
    let first = Op { length: 0, ..load };
    let pending = Op { length: 0, ..super::op(OpClass::Int, 2) };
    let mut writer = Writer::create(&path, Variant::Standard).unwrap();
    let written = [first, load, super::op(OpClass::Store, 1), pending];
    written.iter().for_each(|op| writer.write(std::slice::from_ref(op)).unwrap());
    assert_eq!(writer.written(), 2, "one instruction has not ended");
    writer.finish().unwrap();
    let read: Result<Vec<Record>, Error> = Reader::open(&path, Variant::Standard).unwrap().collect();
    assert_eq!(read.unwrap(), records(&written, RegisterNumbers::Own));
}

proptest! {
    #[test]
    fn any_trace_round_trips_through_any_file(
        (variant, records) in any_variant().prop_flat_map(|variant| (Just(variant), any_records(variant))),
        compression in proptest::sample::select(Compression::ALL.to_vec()),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name(compression));
        write(&path, variant, &records).unwrap();
        let reader = Reader::open(&path, variant).unwrap();
        prop_assert_eq!(reader.compression(), compression);
        prop_assert_eq!(reader.collect::<Result<Vec<_>, _>>().unwrap(), records);
    }
}
