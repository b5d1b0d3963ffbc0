//! Random traces in DynamoRIO's format: records of any type with any values, including valid ones, in one of
//! three encodings, possibly with changed bytes or truncated. A trace that is not refused must convert to a
//! valid Doorbell trace.

use std::fs;
use std::io::{Cursor, Write};
use std::path::Path;

use doorbell_trace::system::TraceFile;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::input::Input;
use crate::watchdog::Watchdog;

const RECORDS_MAX: u64 = 60;
const CHANGES_MAX: u64 = 3;
const MEMORY: &str = "writing to memory does not fail";
/// File types for several instruction sets, and none.
const TYPES: [u64; 6] = [0x240, 0x240, 0x208, 0x200, 0x2_0200, 0];
/// Record types; those of programs come first.
const KINDS: [u16; 20] = [47, 10, 0, 1, 28, 48, 49, 29, 16, 12, 13, 22, 24, 15, 14, 9, 46, 23, 27, 255];

fn record(kind: u16, size: u16, value: u64, to: &mut Vec<u8>) {
    to.extend(kind.to_le_bytes());
    to.extend(size.to_le_bytes());
    to.extend(value.to_le_bytes());
}

/// Builds records from the input.
fn records(input: &mut Input<'_>) -> Vec<u8> {
    let mut all = Vec::new();
    record(25, 0, 1 + u64::from(input.u8() % 8), &mut all);
    record(28, 9, input.pick(&TYPES), &mut all);
    record(22, 4, 7, &mut all);
    for _ in 0..input.below(RECORDS_MAX) {
        let kind = input.pick(&KINDS);
        match kind {
            47 => record(kind, 1 + u16::from(input.u8() % 8), input.value(), &mut all),
            28 => record(kind, u16::from(input.u8() % 48), input.value(), &mut all),
            22 | 24 => record(kind, 4, u64::from(input.u8() % 4), &mut all),
            0 | 1 => record(kind, input.u16() >> (input.u8() % 16), input.value(), &mut all),
            _ => record(kind, 1 + u16::from(input.u8() % 16), 0x1000 + u64::from(input.u8()), &mut all),
        }
    }
    if input.u8() != 0xff {
        record(26, 0, 0, &mut all);
    }
    all
}

fn encode(input: &mut Input<'_>, plain: &[u8]) -> Vec<u8> {
    match input.u8() % 3 {
        0 => plain.to_vec(),
        1 => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(plain).expect(MEMORY);
            encoder.finish().expect(MEMORY)
        }
        _ => {
            let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
            let at = input.below(plain.len() as u64) as usize;
            for (name, part) in [("chunk.0000", &plain[..at]), ("chunk.0001", &plain[at..])] {
                archive.start_file(name, zip::write::SimpleFileOptions::default()).expect(MEMORY);
                archive.write_all(part).expect(MEMORY);
            }
            archive.finish().expect(MEMORY).into_inner()
        }
    }
}

/// Runs the case for the input bytes.
pub fn run(bytes: &[u8]) {
    let _watchdog = Watchdog::start();
    let folder = tempfile::tempdir().expect("the host can create a folder");
    convert(&mut Input::new(bytes), folder.path());
}

/// Converts a random trace to a Doorbell trace in this folder.
pub(super) fn convert(input: &mut Input<'_>, folder: &Path) {
    let plain = records(input);
    let mut file = encode(input, &plain);
    for _ in 0..input.below(CHANGES_MAX) {
        let at = input.below(file.len() as u64) as usize;
        file[at] = input.u8();
    }
    if input.u8().is_multiple_of(8) {
        file.truncate(input.below(file.len() as u64 + 1) as usize);
    }
    let (from, to) = (folder.join("other.trace"), folder.join("made.dbt"));
    fs::write(&from, file).expect("the host writes a small file");
    let _ = doorbell_drmemtrace::is_of_drmemtrace(&from);
    match doorbell_drmemtrace::convert(&from, &to) {
        Ok(converted) => {
            let opened = TraceFile::open(&to).expect("a converted trace can be opened");
            assert_eq!(opened.check().expect("a converted trace is valid"), converted.counts);
        }
        Err(error) => {
            assert!(error.to_string().contains("other.trace"), "{error}");
            assert!(!to.exists(), "a partial file was left");
        }
    }
}
