//! Traces in files: what is written comes back, in any variant and compression, whatever put the file together.

use std::io::{self, Read};
use std::path::Path;

use super::super::writer::pack;
use super::*;

/// Reads a trace that is in memory.
pub(super) fn reader(bytes: Vec<u8>, variant: Variant) -> Result<Reader, Error> {
    Reader::new("a.trace", io::Cursor::new(bytes), variant)
}

pub(super) fn read(bytes: Vec<u8>, variant: Variant) -> Result<Vec<Record>, Error> {
    reader(bytes, variant)?.collect()
}

/// A trace of so many instructions, in a loop that walks through memory.
pub(super) fn some(count: u64) -> Vec<Record> {
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
fn a_trace_of_many_blocks_comes_back_whatever_its_compression_and_name() {
    let folder = tempfile::tempdir().unwrap();
    let records = some(40_000);
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
fn streams_one_behind_the_other_are_one_trace_wherever_they_were_cut_with_padding_where_it_may_be() {
    let records = some(100);
    let bytes = bytes(Variant::Standard, &records);
    for compression in [Compression::Xz, Compression::Gzip, Compression::Zstd] {
        let pack = |bytes: &[u8]| pack(compression, bytes).unwrap();
        // Cut within records, and one with nothing in it.
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
fn frames_that_zstd_is_to_skip_are_skipped_wherever_they_stand() {
    let records = some(100);
    let packed = pack(Compression::Zstd, &bytes(Variant::Standard, &records)).unwrap();
    // A magic number, a length, and so many bytes: RFC 8878, 3.1.2.
    let skipped = [0x5c, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 7, 8, 9];
    let file = [&skipped[..], &packed, &skipped].concat();
    assert_eq!(read(file, Variant::Standard).unwrap(), records);
}

#[test]
fn the_checks_and_headers_that_other_tools_write_are_taken() {
    use std::io::Write as _;

    use liblzma::stream::{Check, Stream};

    let records = some(10_000);
    let bytes = bytes(Variant::Standard, &records);
    for check in [Check::None, Check::Crc32, Check::Crc64, Check::Sha256] {
        let stream = Stream::new_easy_encoder(0, check).unwrap();
        let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
        // Several blocks, as threads make them.
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

/// Gives bytes as slowly as a pipe may.
struct Drops(Vec<u8>, usize);

impl Read for Drops {
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
fn a_pipe_that_gives_a_few_bytes_at_a_time_is_read_as_a_file_is() {
    let records = some(500);
    for compression in Compression::ALL {
        let packed = pack(compression, &bytes(Variant::CloudSuite, &records)).unwrap();
        let reader = Reader::new("a pipe", Drops(packed, 0), Variant::CloudSuite).unwrap();
        assert_eq!(reader.map(Result::unwrap).collect::<Vec<_>>(), records);
    }
}

#[test]
fn input_without_end_is_read_as_far_as_wanted_and_then_left_alone() {
    let endless = io::repeat(0);
    let mut reader = Reader::new("zeros", endless, Variant::Standard).unwrap();
    assert!(reader.by_ref().take(100_000).all(|record| record.unwrap() == Record::default()));
    assert_eq!(reader.records(), 100_000);
    // A frame that repeats a block for ever, as a small file that becomes a large one does.
    let packed = pack(Compression::Zstd, &bytes(Variant::Standard, &some(64))).unwrap();
    let mut at = 0;
    let endless = std::iter::repeat_with(move || {
        at = (at + 1) % packed.len();
        packed[(at + packed.len() - 1) % packed.len()]
    });
    let reader = Reader::new("frames", Bytes(endless), Variant::Standard).unwrap();
    assert!(reader.take(64 * 1000).map(Result::unwrap).eq(some(64).repeat(1000)));
}

struct Bytes<I>(I);

impl<I: Iterator<Item = u8>> Read for Bytes<I> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        Ok(to.iter_mut().zip(&mut self.0).map(|(place, byte)| *place = byte).count())
    }
}

#[test]
fn a_trace_in_a_file_has_the_ops_of_the_same_trace_in_memory_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.xz");
    let records = some(20_000);
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
    // Who needs no more than some, waits for nobody.
    assert!(trace.blocks().unwrap().next(&mut block).unwrap());
}

#[test]
fn a_trace_appears_when_it_is_finished_and_what_was_there_stays_until_then() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zst");
    std::fs::write(&path, "before").unwrap();
    let mut writer = Writer::create(&path, Variant::Standard).unwrap();
    some(10_000).iter().for_each(|record| writer.write_record(record).unwrap());
    assert_eq!(std::fs::read(&path).unwrap(), b"before");
    assert_eq!(names_in(folder.path()).len(), 2);
    drop(writer);
    assert_eq!((std::fs::read(&path).unwrap(), names_in(folder.path()).len()), (b"before".to_vec(), 1));
    write(&path, Variant::Standard, &some(10)).unwrap();
    assert_eq!(Reader::open(&path, Variant::Standard).unwrap().count(), 10);
    assert_eq!(names_in(folder.path()), ["a.zst"]);
}

#[cfg(unix)]
#[test]
fn a_link_stays_one_and_who_may_read_a_trace_is_as_with_any_file() {
    use std::os::unix::fs::{MetadataExt, symlink};

    let folder = tempfile::tempdir().unwrap();
    let [target, link, plain] = ["real.gz", "link.gz", "plain"].map(|name| folder.path().join(name));
    std::fs::write(&target, "before").unwrap();
    symlink(&target, &link).unwrap();
    write(&link, Variant::Standard, &some(10)).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(Reader::open(&target, Variant::Standard).unwrap().compression(), Compression::Gzip);
    std::fs::write(&plain, "").unwrap();
    assert_eq!(std::fs::metadata(&target).unwrap().mode(), std::fs::metadata(&plain).unwrap().mode());
}

#[test]
fn ops_are_written_as_their_records_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let load = Op { phys: PhysAddr(64), destination: 5, ..super::op(OpClass::Load, 0) };
    let first = Op { length: 0, ..load };
    let begun = Op { length: 0, ..super::op(OpClass::Int, 2) };
    let mut writer = Writer::create(&path, Variant::Standard).unwrap();
    let written = [first, load, super::op(OpClass::Store, 1), begun];
    written.iter().for_each(|op| writer.write(std::slice::from_ref(op)).unwrap());
    assert_eq!(writer.written(), 2, "one has not ended");
    writer.finish().unwrap();
    let read: Result<Vec<Record>, Error> = Reader::open(&path, Variant::Standard).unwrap().collect();
    assert_eq!(read.unwrap(), records(&written, Numbers::Own));
}

proptest! {
    #[test]
    fn any_trace_comes_back_from_a_file_of_any_kind(
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
