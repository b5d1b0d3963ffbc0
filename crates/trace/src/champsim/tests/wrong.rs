//! Refusal of files that are no traces, or damaged, and the error messages.

use std::io::{self, Read};

use super::super::writer::pack;
use super::files::{loop_trace, reader};
use super::*;

/// Number of good records, and the error message.
fn refusal(bytes: Vec<u8>, variant: Variant) -> (usize, String) {
    let mut reader = match reader(bytes, variant) {
        Ok(reader) => reader,
        Err(error) => return (0, error.to_string()),
    };
    let mut good = 0;
    loop {
        match reader.next().expect("it is refused") {
            Ok(_) => good += 1,
            Err(error) => {
                assert_eq!(good as u64, reader.records());
                assert!(reader.next().is_none(), "no records after an error");
                return (good, error.to_string());
            }
        }
    }
}

fn standard(bytes: &[u8]) -> String {
    refusal(bytes.to_vec(), Variant::Standard).1
}

fn packed(compression: Compression, count: u64) -> Vec<u8> {
    pack(compression, &bytes(Variant::Standard, &loop_trace(count))).unwrap()
}

#[test]
fn trace_ending_inside_a_record_is_refused() {
    let file = bytes(Variant::Standard, &loop_trace(5));
    let (good, message) = refusal(file[..300].to_vec(), Variant::Standard);
    assert_eq!(good, 4);
    let expected = "a.trace ends 44 bytes into record 4, but a record of variant standard has 64 bytes; the file is truncated, or of \
                    variant cloudsuite";
    assert_eq!(message, expected);
    let (good, message) = refusal(file, Variant::CloudSuite);
    assert_eq!(good, 3);
    let expected = "a.trace ends 32 bytes into record 3, but a record of variant cloudsuite has 96 bytes; the file is truncated, or of \
                    variant standard";
    assert_eq!(message, expected);
}

#[test]
fn empty_trace_is_refused() {
    let expected = "a.trace has no instructions; make or fetch it again";
    for compression in Compression::ALL {
        assert_eq!(standard(&packed(compression, 0)), expected);
    }
}

#[test]
fn truncated_compressed_data_are_refused() {
    for (compression, name) in
        [(Compression::Xz, "xz"), (Compression::Gzip, "gzip"), (Compression::Zstd, "zstd")]
    {
        let file = packed(compression, 300);
        for length in 6..file.len() {
            let (good, message) = refusal(file[..length].to_vec(), Variant::Standard);
            let expected = format!(
                "a.trace is cut off: its {name} data end too early, after {good} records; make or fetch it again"
            );
            assert_eq!(message, expected, "{length} bytes of {}", file.len());
        }
        assert_eq!(refusal(file[..file.len() - 1].to_vec(), Variant::Standard).0, 300);
    }
}

#[test]
fn trailing_data_are_refused() {
    for (compression, name) in
        [(Compression::Xz, "xz"), (Compression::Gzip, "gzip"), (Compression::Zstd, "zstd")]
    {
        let file = packed(compression, 300);
        let other = Compression::ALL[1..].iter().find(|other| **other != compression).unwrap();
        for trailing in [b"x".to_vec(), vec![9; 200_000], packed(*other, 1)] {
            let (good, message) = refusal([file.clone(), trailing].concat(), Variant::Standard);
            let expected = format!(
                "a.trace has other data after the end of its {name} data, at byte {} of the file, after 300 records; \
                 remove them, or make or fetch the file again",
                file.len()
            );
            assert_eq!((good, message), (300, expected));
        }
    }
    let uneven = [packed(Compression::Xz, 300), vec![0; 6]].concat();
    assert!(
        standard(&uneven).starts_with("a.trace has other data after"),
        "xz padding comes in units of four bytes"
    );
}

#[test]
fn corrupt_data_are_reported_with_their_offset() {
    // Flips a bit in the checksum: xz has an index and a footer after it, gzip a length. With zstd, a small
    // trace is one block, which is not delivered if its checksum is wrong.
    for (compression, back, good, near, says) in [
        (Compression::Xz, 24, 300, "byte 1", "lzma data error"),
        (Compression::Gzip, 8, 300, "byte 1", "corrupt gzip stream does not have a matching checksum"),
        (Compression::Zstd, 4, 0, "byte 0", "Restored data doesn't match checksum"),
    ] {
        let mut file = packed(compression, 300);
        let at = file.len() - back;
        file[at] ^= 1;
        let (read, message) = refusal(file, Variant::Standard);
        let name = compression.name();
        let begin = format!("a.trace is damaged: its {name} data are invalid near {near}");
        let end = format!(" of the file, after {good} records ({says}); make or fetch it again");
        assert!(message.starts_with(&begin) && message.ends_with(&end), "{message}");
        assert_eq!(read, good);
    }
}

#[test]
fn every_changed_byte_of_a_compressed_trace_is_detected() {
    let records = loop_trace(300);
    for compression in [Compression::Xz, Compression::Gzip, Compression::Zstd] {
        let file = packed(compression, 300);
        // gzip's time, compression flags and operating system are not checked.
        let ignored = if compression == Compression::Gzip { 4..10 } else { 0..0 };
        for at in (0..file.len()).filter(|at| !ignored.contains(at)) {
            let mut file = file.clone();
            file[at] ^= 0x10;
            let read: Result<Vec<Record>, Error> =
                reader(file, Variant::Standard).and_then(Iterator::collect);
            assert!(read.is_err() || read.unwrap() == records, "{compression:?}, byte {at}");
        }
    }
}

#[test]
fn invalid_flag_byte_is_refused() {
    let mut file = bytes(Variant::Standard, &loop_trace(5));
    file[3 * 64 + 9] = 0x42;
    let expected = "record 3 of a.trace has 0x42 at its byte 9, the taken flag, which must be 0 or 1: the file is damaged, no \
                    ChampSim trace, or of variant cloudsuite";
    assert_eq!(refusal(file.clone(), Variant::Standard), (3, expected.to_owned()));
    file[8] = 2;
    let expected = "record 0 of a.trace has 0x02 at its byte 8, the branch flag, which must be 0 or 1: the file is damaged, no \
                    ChampSim trace, or of variant cloudsuite";
    assert_eq!(refusal(file, Variant::Standard), (0, expected.to_owned()));
}

#[test]
fn other_file_types_are_named() {
    let filled = |begin: &[u8]| {
        let mut file = begin.to_vec();
        file.resize(640, 0);
        file
    };
    let elf = filled(b"\x7fELF\x02\x01\x01\x00");
    let message = "a.trace is a program (ELF); record it with a ChampSim tracer, and name the trace";
    assert_eq!(standard(&elf), message);
    for magic in [b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00", b"\xa1\xb2\x3c\x4d\x00\x02\x00\x04"] {
        let message = "a.trace is a packet capture (pcap); name an instruction trace";
        assert_eq!(standard(&filled(magic)), message);
        for compression in Compression::ALL {
            assert_eq!(standard(&pack(compression, &filled(magic)).unwrap()), message);
        }
    }
    let pcapng = filled(b"\x0a\x0d\x0d\x0a\x1c\x00\x00\x00\x4d\x3c\x2b\x1a");
    assert_eq!(standard(&pcapng), "a.trace is a packet capture (pcapng); name an instruction trace");
    let mut tar = filled(b"a/b/c");
    tar[257..262].copy_from_slice(b"ustar");
    assert_eq!(
        standard(&pack(Compression::Gzip, &tar).unwrap()),
        "a.trace is a tar archive; unpack it, and name the trace in it"
    );
    let message = "a.trace is compressed by bzip2; compress it by xz, gzip or zstd instead";
    assert_eq!(standard(&filled(b"BZh91AY&SY")), message);
    let message = "a.trace is compressed by lz4; compress it by xz, gzip or zstd instead";
    assert_eq!(standard(&filled(b"\x04\x22\x4d\x18\x60\x40\x82")), message);
    let twice = pack(Compression::Gzip, &packed(Compression::Xz, 5)).unwrap();
    assert_eq!(standard(&twice), "a.trace is compressed by xz twice; unpack it, and name the trace in it");
    let text =
        "Text in a natural language has other bytes in place of the flags, so it is not taken for a trace.";
    let message = "record 0 of a.trace has 0x61 at its byte 8, the branch flag, which must be 0 or 1: the file is damaged, no \
                ChampSim trace, or of variant cloudsuite";
    assert_eq!(standard(text.as_bytes()), message);
}

#[test]
fn wrong_variant_raises_doubt() {
    let records = loop_trace(600);
    let doubt = |of: Variant, as_what: Variant| {
        let bytes = bytes(of, &records);
        let read = reader(bytes, as_what).unwrap();
        Survey::of(read).unwrap().doubt(as_what)
    };
    assert_eq!(doubt(Variant::Standard, Variant::Standard), None);
    assert_eq!(doubt(Variant::CloudSuite, Variant::CloudSuite), None);
    let message = doubt(Variant::CloudSuite, Variant::Standard).unwrap();
    assert_eq!(
        message,
        "600 of 900 instructions are at address 0: is the trace of variant cloudsuite instead of standard?"
    );
    assert!(doubt(Variant::Standard, Variant::CloudSuite).is_some());
}

#[test]
fn memory_limit_of_decompression_is_enforced() {
    use std::io::Write as _;

    let bytes = bytes(Variant::Standard, &loop_trace(300));
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.long_distance_matching(true).unwrap();
    encoder.window_log(28).unwrap();
    encoder.write_all(&bytes).unwrap();
    let message = standard(&encoder.finish().unwrap());
    let expected = "a.trace needs more than 256 MiB of memory for decompression; compress it again with a smaller window, such as by zstd \
                    without any options";
    assert_eq!(message, expected);
}

/// Reader that fails after some bytes, like a broken disk.
struct Broken(Vec<u8>);

impl Read for Broken {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() {
            return Err(io::Error::other("disk failure"));
        }
        let count = to.len().min(self.0.len());
        to[..count].copy_from_slice(&self.0[..count]);
        self.0.drain(..count);
        Ok(count)
    }
}

#[test]
fn host_errors_are_reported() {
    for compression in Compression::ALL {
        let mut file = packed(compression, 20_000);
        file.truncate(file.len() - 1);
        let mut reader = Reader::new("a.trace", Broken(file), Variant::Standard).unwrap();
        let error = reader.find_map(Result::err).expect("it cannot be read");
        let expected = format!("cannot read a.trace after {} records: disk failure", reader.records());
        assert_eq!(error.to_string(), expected, "{compression:?}");
    }
    let error = Reader::new("a.trace", Broken(Vec::new()), Variant::Standard).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "cannot read a.trace after 0 records: disk failure");
}

#[test]
fn unusable_file_names_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (here, there) = (folder.path(), folder.path().join("there/is/nothing"));
    let message = |error: Result<(), Error>| error.unwrap_err().to_string();
    let open = |path: &std::path::Path| message(Reader::open(path, Variant::Standard).map(|_| ()));
    let create = |path: &std::path::Path| message(Writer::create(path, Variant::Standard).map(|_| ()));
    let trace = |path: &std::path::Path| message(Trace::open(path, Variant::Standard, None).map(|_| ()));
    let no_file = "No such file or directory (os error 2)";
    assert_eq!(open(&there), format!("cannot open {}: {no_file}", there.display()));
    assert_eq!(trace(&there), format!("cannot open {}: {no_file}", there.display()));
    let is_folder = format!("{} is a folder; name the trace that is in it", here.display());
    assert_eq!((open(here), trace(here)), (is_folder.clone(), is_folder));
    let begin = format!("cannot write {}: ", there.display());
    assert!(create(&there).starts_with(&begin), "{}", create(&there));
    let other = here.join("a.BZ2");
    let expected = format!(
        "cannot write {}: compression .bz2 is not supported; name it .xz, .gz or .zst, or without such an ending",
        other.display()
    );
    assert_eq!(create(&other), expected);
    let expected =
        format!("cannot write {}: it exists and is not a regular file; choose another name", here.display());
    assert_eq!(create(here), expected);
    assert_eq!(create("/dev/null".as_ref()), expected.replace(&here.display().to_string(), "/dev/null"));
    let expected =
        "/dev/null is not a regular file, but the trace is read twice; write it to a file, and name that";
    assert_eq!(trace("/dev/null".as_ref()), expected);
    assert_eq!(std::fs::read_dir(here).unwrap().count(), 0, "no files are left");
}

#[test]
fn failed_writer_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.xz");
    let message = |error: Result<(), Error>| error.unwrap_err().to_string();
    let empty = message(Writer::create(&path, Variant::Standard).unwrap().finish());
    assert_eq!(empty, format!("cannot write {}: a trace needs at least one instruction", path.display()));

    let mut writer = Writer::create(&path, Variant::Standard).unwrap();
    writer.write_record(&Record::default()).unwrap();
    let too_many = Record { destinations: [1, 2, 3, 4], ..Record::default() };
    let expected = format!(
        "instruction 1 for {} writes more than two registers or addresses, the limit of variant standard; write \
         variant cloudsuite",
        path.display()
    );
    assert_eq!(message(writer.write_record(&too_many)), expected);
    // Meanwhile, a folder of that name is created.
    std::fs::create_dir(&path).unwrap();
    let refused = message(writer.finish());
    assert!(refused.starts_with(&format!("cannot write {}: ", path.display())), "{refused}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [path]);
}

#[test]
fn trace_changed_between_passes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let write = |records: &[Record]| std::fs::write(&path, bytes(Variant::Standard, records)).unwrap();
    let records = loop_trace(50);
    write(&records);
    let trace = Trace::open(&path, Variant::Standard, None).unwrap();
    let message = || {
        let mut stream = trace.ops().unwrap();
        let streamed = stream.instructions(u64::MAX, &mut Vec::new()).map_err(|error| error.to_string());
        let (mut blocks, mut ops) = (trace.blocks().unwrap(), Vec::new());
        let ahead = loop {
            match blocks.next(&mut ops) {
                Ok(true) => {}
                Ok(false) => break Ok(blocks.position()),
                Err(error) => break Err(error.to_string()),
            }
        };
        assert_eq!(ahead, streamed);
        streamed
    };
    assert_eq!(message(), Ok(49));
    let expected =
        Err(format!("{} changed while it was read; start again when it is complete", path.display()));
    write(&records[..20]);
    assert_eq!(message(), expected);
    write(&loop_trace(51));
    assert_eq!(message(), expected);
    let mut other = records;
    other[40].sources[3] = 200;
    write(&other);
    assert_eq!(message(), expected);
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_refused_or_parsed(
        begin in proptest::sample::select(vec![
            &b""[..], b"\xfd7zXZ\x00", b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18",
        ]),
        rest in proptest::collection::vec(any::<u8>(), 0..400),
        variant in any_variant(),
    ) {
        let file = [begin.to_vec(), rest].concat();
        match reader(file.clone(), variant).and_then(Iterator::collect::<Result<Vec<_>, _>>) {
            Ok(records) if begin.is_empty() => prop_assert_eq!(records, parsed(variant, &file)),
            Ok(_) => {}
            Err(error) => prop_assert!(error.to_string().contains("a.trace"), "{}", error),
        }
    }
}
