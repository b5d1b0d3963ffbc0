//! Files that are no trace, or not the one that was written, and what is said of them.

use std::io::{self, Read};

use super::super::writer::pack;
use super::files::{reader, some};
use super::*;

/// What is said of a file, and how many records came before.
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
                assert!(reader.next().is_none(), "nothing comes behind an error");
                return (good, error.to_string());
            }
        }
    }
}

fn standard(bytes: &[u8]) -> String {
    refusal(bytes.to_vec(), Variant::Standard).1
}

fn packed(compression: Compression, count: u64) -> Vec<u8> {
    pack(compression, &bytes(Variant::Standard, &some(count))).unwrap()
}

#[test]
fn a_trace_that_ends_within_a_record_is_refused_there() {
    let file = bytes(Variant::Standard, &some(5));
    let (good, said) = refusal(file[..300].to_vec(), Variant::Standard);
    assert_eq!(good, 4);
    let expected = "a.trace ends 44 bytes into record 4, and a record of the variant standard has 64; it is cut off, or of the \
                    variant cloudsuite";
    assert_eq!(said, expected);
    let (good, said) = refusal(file, Variant::CloudSuite);
    assert_eq!(good, 3);
    let expected = "a.trace ends 32 bytes into record 3, and a record of the variant cloudsuite has 96; it is cut off, or of the \
                    variant standard";
    assert_eq!(said, expected);
}

#[test]
fn a_trace_without_a_record_is_refused() {
    let expected = "a.trace has no instructions; was it made to its end? Make or fetch it again";
    for compression in Compression::ALL {
        assert_eq!(standard(&packed(compression, 0)), expected);
    }
}

#[test]
fn compressed_data_that_are_cut_off_are_refused_wherever_that_is() {
    for (compression, name) in
        [(Compression::Xz, "xz"), (Compression::Gzip, "gzip"), (Compression::Zstd, "zstd")]
    {
        let file = packed(compression, 300);
        for length in 6..file.len() {
            let (good, said) = refusal(file[..length].to_vec(), Variant::Standard);
            let expected = format!(
                "a.trace is cut off: its {name} data end too early, after {good} records; make or fetch it again"
            );
            assert_eq!(said, expected, "{length} bytes of {}", file.len());
        }
        assert_eq!(refusal(file[..file.len() - 1].to_vec(), Variant::Standard).0, 300);
    }
}

#[test]
fn what_follows_compressed_data_is_refused() {
    for (compression, name) in
        [(Compression::Xz, "xz"), (Compression::Gzip, "gzip"), (Compression::Zstd, "zstd")]
    {
        let file = packed(compression, 300);
        let other = Compression::ALL[1..].iter().find(|other| **other != compression).unwrap();
        for behind in [b"x".to_vec(), vec![9; 200_000], packed(*other, 1)] {
            let (good, said) = refusal([file.clone(), behind].concat(), Variant::Standard);
            let expected = format!(
                "a.trace goes on behind the end of its {name} data, at byte {} of the file, after 300 records; what follows is no \
                 more {name} data: cut it off, or make or fetch the file again",
                file.len()
            );
            assert_eq!((good, said), (300, expected));
        }
    }
    let uneven = [packed(Compression::Xz, 300), vec![0; 6]].concat();
    assert!(standard(&uneven).starts_with("a.trace goes on behind"), "xz is padded by fours");
}

#[test]
fn damage_is_found_before_the_end_and_said_where() {
    // From the end of the file back to the sum: xz has an index and a footer behind it, gzip a length. In zstd's frame a small
    // trace is one block, of which nothing is given that has a wrong sum.
    for (compression, back, good, near, says) in [
        (Compression::Xz, 24, 300, "byte 1", "lzma data error"),
        (Compression::Gzip, 8, 300, "byte 1", "corrupt gzip stream does not have a matching checksum"),
        (Compression::Zstd, 4, 0, "byte 0", "Restored data doesn't match checksum"),
    ] {
        let mut file = packed(compression, 300);
        let at = file.len() - back;
        file[at] ^= 1;
        let (read, said) = refusal(file, Variant::Standard);
        let name = compression.name();
        let begin = format!("a.trace is damaged: its {name} data make no sense near {near}");
        let end = format!(" of the file, after {good} records ({says}); make or fetch it again");
        assert!(said.starts_with(&begin) && said.ends_with(&end), "{said}");
        assert_eq!(read, good);
    }
}

#[test]
fn no_changed_byte_of_a_compressed_trace_goes_unnoticed() {
    let records = some(300);
    for compression in [Compression::Xz, Compression::Gzip, Compression::Zstd] {
        let file = packed(compression, 300);
        // gzip's time, flags of speed and system are of no account.
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
fn a_byte_that_should_say_yes_or_no_and_does_not_is_refused() {
    let mut file = bytes(Variant::Standard, &some(5));
    file[3 * 64 + 9] = 0x42;
    let expected = "record 3 of a.trace has 0x42 at its byte 9, where 0 or 1 says whether it was taken: it is damaged, no trace of \
                    ChampSim's, or of the variant cloudsuite";
    assert_eq!(refusal(file.clone(), Variant::Standard), (3, expected.to_owned()));
    file[8] = 2;
    let expected = "record 0 of a.trace has 0x02 at its byte 8, where 0 or 1 says whether it is a branch: it is damaged, no trace of \
                    ChampSim's, or of the variant cloudsuite";
    assert_eq!(refusal(file, Variant::Standard), (0, expected.to_owned()));
}

#[test]
fn files_of_other_kinds_are_called_by_their_names() {
    let filled = |begin: &[u8]| {
        let mut file = begin.to_vec();
        file.resize(640, 0);
        file
    };
    let elf = filled(b"\x7fELF\x02\x01\x01\x00");
    let said = "a.trace is a program (ELF); record it with one of ChampSim's tracers, and name the trace";
    assert_eq!(standard(&elf), said);
    for magic in [b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00", b"\xa1\xb2\x3c\x4d\x00\x02\x00\x04"] {
        let said = "a.trace is a capture of packets (pcap); name a trace of instructions";
        assert_eq!(standard(&filled(magic)), said);
        for compression in Compression::ALL {
            assert_eq!(standard(&pack(compression, &filled(magic)).unwrap()), said);
        }
    }
    let pcapng = filled(b"\x0a\x0d\x0d\x0a\x1c\x00\x00\x00\x4d\x3c\x2b\x1a");
    assert_eq!(standard(&pcapng), "a.trace is a capture of packets (pcapng); name a trace of instructions");
    let mut tar = filled(b"a/b/c");
    tar[257..262].copy_from_slice(b"ustar");
    assert_eq!(
        standard(&pack(Compression::Gzip, &tar).unwrap()),
        "a.trace is a tar archive; unpack it, and name what is in it"
    );
    let said = "a.trace is compressed by bzip2; compress it by xz, gzip or zstd instead";
    assert_eq!(standard(&filled(b"BZh91AY&SY")), said);
    let said = "a.trace is compressed by lz4; compress it by xz, gzip or zstd instead";
    assert_eq!(standard(&filled(b"\x04\x22\x4d\x18\x60\x40\x82")), said);
    let twice = pack(Compression::Gzip, &packed(Compression::Xz, 5)).unwrap();
    assert_eq!(standard(&twice), "a.trace is compressed by xz twice; unpack it, and name what is in it");
    let text = "Nothing that is written in a language says no at the right places, and so it is told from any trace.";
    let said = "record 0 of a.trace has 0x74 at its byte 8, where 0 or 1 says whether it is a branch: it is damaged, no trace of \
                ChampSim's, or of the variant cloudsuite";
    assert_eq!(standard(text.as_bytes()), said);
}

#[test]
fn a_trace_read_as_the_other_variant_gives_reason_for_doubt() {
    let records = some(600);
    let doubt = |of: Variant, as_what: Variant| {
        let bytes = bytes(of, &records);
        let read = reader(bytes, as_what).unwrap();
        Survey::of(read).unwrap().doubt(as_what)
    };
    assert_eq!(doubt(Variant::Standard, Variant::Standard), None);
    assert_eq!(doubt(Variant::CloudSuite, Variant::CloudSuite), None);
    let said = doubt(Variant::CloudSuite, Variant::Standard).unwrap();
    assert_eq!(
        said,
        "600 of 900 instructions are at address 0: is the trace of the variant cloudsuite instead of standard?"
    );
    assert!(doubt(Variant::Standard, Variant::CloudSuite).is_some());
}

#[test]
fn more_memory_than_there_may_be_is_not_taken() {
    use std::io::Write as _;

    let bytes = bytes(Variant::Standard, &some(300));
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.long_distance_matching(true).unwrap();
    encoder.window_log(28).unwrap();
    encoder.write_all(&bytes).unwrap();
    let said = standard(&encoder.finish().unwrap());
    let expected = "a.trace needs more than 256 MiB of memory to be decompressed; compress it again with less, such as by zstd \
                    without any options";
    assert_eq!(said, expected);
}

/// Gives some bytes, and then the host's answer that there is something wrong with the disk.
struct Broken(Vec<u8>);

impl Read for Broken {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() {
            return Err(io::Error::other("the disk is gone"));
        }
        let count = to.len().min(self.0.len());
        to[..count].copy_from_slice(&self.0[..count]);
        self.0.drain(..count);
        Ok(count)
    }
}

#[test]
fn what_the_host_says_of_a_file_is_handed_on() {
    for compression in Compression::ALL {
        let mut file = packed(compression, 20_000);
        file.truncate(file.len() - 1);
        let mut reader = Reader::new("a.trace", Broken(file), Variant::Standard).unwrap();
        let error = reader.find_map(Result::err).expect("it cannot be read");
        let expected = format!("cannot read a.trace after {} records: the disk is gone", reader.records());
        assert_eq!(error.to_string(), expected, "{compression:?}");
    }
    let error = Reader::new("a.trace", Broken(Vec::new()), Variant::Standard).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "cannot read a.trace after 0 records: the disk is gone");
}

#[test]
fn names_that_no_trace_can_have_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (here, there) = (folder.path(), folder.path().join("there/is/nothing"));
    let said = |error: Result<(), Error>| error.unwrap_err().to_string();
    let open = |path: &std::path::Path| said(Reader::open(path, Variant::Standard).map(|_| ()));
    let create = |path: &std::path::Path| said(Writer::create(path, Variant::Standard).map(|_| ()));
    let trace = |path: &std::path::Path| said(Trace::open(path, Variant::Standard, None).map(|_| ()));
    let no_file = "No such file or directory (os error 2)";
    assert_eq!(open(&there), format!("cannot open {}: {no_file}", there.display()));
    assert_eq!(trace(&there), format!("cannot open {}: {no_file}", there.display()));
    let is_folder = format!("{} is a folder; name the trace that is in it", here.display());
    assert_eq!((open(here), trace(here)), (is_folder.clone(), is_folder));
    let begin = format!("cannot write {}: ", there.display());
    assert!(create(&there).starts_with(&begin), "{}", create(&there));
    let other = here.join("a.BZ2");
    let expected = format!(
        "cannot write {}: nothing here makes .bz2; name it .xz, .gz, .zst, or without such an ending",
        other.display()
    );
    assert_eq!(create(&other), expected);
    let expected =
        format!("cannot write {}: it is there and no ordinary file; choose another name", here.display());
    assert_eq!(create(here), expected);
    assert_eq!(create("/dev/null".as_ref()), expected.replace(&here.display().to_string(), "/dev/null"));
    let expected =
        "/dev/null is no ordinary file, and a trace is read twice; write it into a file, and name that";
    assert_eq!(trace("/dev/null".as_ref()), expected);
    assert_eq!(std::fs::read_dir(here).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn a_trace_that_cannot_be_written_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.xz");
    let said = |error: Result<(), Error>| error.unwrap_err().to_string();
    let empty = said(Writer::create(&path, Variant::Standard).unwrap().finish());
    assert_eq!(empty, format!("cannot write {}: a trace has one instruction at least", path.display()));

    let mut writer = Writer::create(&path, Variant::Standard).unwrap();
    writer.write_record(&Record::default()).unwrap();
    let too_many = Record { destinations: [1, 2, 3, 4], ..Record::default() };
    let expected = format!(
        "instruction 1 for {} writes more than two registers or addresses, which the variant standard has no room for; write the \
         variant cloudsuite",
        path.display()
    );
    assert_eq!(said(writer.write_record(&too_many)), expected);
    // Meanwhile somebody makes a folder of that name.
    std::fs::create_dir(&path).unwrap();
    let refused = said(writer.finish());
    assert!(refused.starts_with(&format!("cannot write {}: ", path.display())), "{refused}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [path]);
}

#[test]
fn a_trace_that_changes_between_the_passes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let write = |records: &[Record]| std::fs::write(&path, bytes(Variant::Standard, records)).unwrap();
    let records = some(50);
    write(&records);
    let trace = Trace::open(&path, Variant::Standard, None).unwrap();
    let said = || {
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
    assert_eq!(said(), Ok(49));
    let expected =
        Err(format!("{} has changed while it was read; start again when it is whole", path.display()));
    write(&records[..20]);
    assert_eq!(said(), expected);
    write(&some(51));
    assert_eq!(said(), expected);
    let mut other = records;
    other[40].sources[3] = 200;
    write(&other);
    assert_eq!(said(), expected);
}

proptest! {
    #[test]
    fn any_bytes_are_refused_by_name_or_are_records(
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
