//! Random ChampSim traces: records of either variant, plain or compressed, in one or several parts, possibly
//! with bytes changed, truncated or appended. The file is refused with a message that names it. Otherwise
//! its records convert to the same ops one by one and as a whole.

use std::io::{Cursor, Write};

use doorbell_trace::champsim::{Compression, Error, OpStream, Reader, Record, Survey, Variant, ops};

use crate::input::Input;
use crate::watchdog::Watchdog;

const NAME: &str = "some.trace";
const RECORDS_MAX: u64 = 60;
const CHANGES_MAX: u64 = 4;
/// Special registers, and some ordinary ones.
const REGISTERS: &[u8] = &[0, 0, 0, 6, 25, 26, 26, 1, 10, 63, 64, 101, 255];

/// A typical or random record.
fn record(input: &mut Input<'_>, variant: Variant, to: &mut Vec<u8>) {
    let begin = to.len();
    // Few distinct addresses, so that calls return.
    to.extend((u64::from(input.u8() % 32) * 2 + 0x40_0000).to_le_bytes());
    let flags = input.u8();
    to.extend([flags & 1, flags >> 1 & 1]);
    to.extend((0..variant.destinations() + 4).map(|_| input.pick(REGISTERS)));
    to.resize(begin + variant.record_bytes(), 0);
    for _ in 0..flags >> 6 {
        let at = begin + 16 + usize::from(input.u8()) % (variant.record_bytes() - 16);
        to[at] = input.u8();
    }
}

fn pack(compression: Compression, bytes: &[u8]) -> Vec<u8> {
    const MEMORY: &str = "writing to memory does not fail";
    match compression {
        Compression::Plain => bytes.to_vec(),
        Compression::Xz => liblzma::encode_all(bytes, 0).expect(MEMORY),
        Compression::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).expect(MEMORY);
            encoder.finish().expect(MEMORY)
        }
        Compression::Zstd => zstd::encode_all(bytes, 1).expect(MEMORY),
    }
}

/// A file, and whether it is unchanged.
fn file(input: &mut Input<'_>, variant: Variant) -> (Vec<u8>, bool) {
    let mut plain = Vec::new();
    for _ in 0..1 + input.below(RECORDS_MAX) {
        record(input, variant, &mut plain);
    }
    let compression = input.pick(&Compression::ALL);
    let (first, second) = plain.split_at(input.below(plain.len() as u64 + 1) as usize);
    let mut file = pack(compression, if second.is_empty() { &plain } else { first });
    if !second.is_empty() {
        let padding = 4 * usize::from(input.u8() % 3);
        if matches!(compression, Compression::Xz | Compression::Gzip) {
            file.resize(file.len() + padding, 0);
        }
        file.extend(pack(compression, second));
    }
    let whole = file.clone();
    for _ in 0..input.below(CHANGES_MAX) {
        let at = input.below(file.len() as u64) as usize;
        file[at] = input.u8();
    }
    match input.u8() % 8 {
        0 => file.truncate(input.below(file.len() as u64) as usize),
        1 => file.extend((0..=input.u8()).map(|_| input.u8())),
        _ => {}
    }
    let is_whole = file == whole;
    (file, is_whole)
}

fn read(file: &[u8], variant: Variant) -> Result<Vec<Record>, Error> {
    let mut reader = Reader::new(NAME, Cursor::new(file.to_vec()), variant)?;
    let records = reader.by_ref().collect();
    assert!(reader.next().is_none(), "the reader continued after the end");
    records
}

/// Runs the case for the input bytes.
pub fn run(bytes: &[u8]) {
    let _watchdog = Watchdog::start();
    let mut input = Input::new(bytes);
    let variant = input.pick(&Variant::ALL);
    let (file, is_whole) = file(&mut input, variant);
    let as_what = if input.u8().is_multiple_of(8) { variant.other() } else { variant };
    let records = match read(&file, as_what) {
        Ok(records) => records,
        Err(error) => {
            let message = error.to_string();
            assert!(message.contains(NAME), "{message}");
            assert!(!is_whole || as_what != variant, "a valid file was refused: {message}");
            return;
        }
    };
    let again: Result<Vec<Record>, Error> = read(&file, as_what);
    assert_eq!(again.expect("the file was readable before"), records);
    for written_as in Variant::ALL {
        let mut packed = Vec::new();
        if records.iter().all(|record| record.put(written_as, &mut packed).is_ok()) {
            let read = read(&packed, written_as).expect("written records can be read");
            // Fields that the standard variant lacks may be lost when written as such.
            let is_same =
                read == records || written_as == Variant::Standard && as_what == Variant::CloudSuite;
            assert!(is_same && read.len() == records.len());
        }
    }
    let each = || records.iter().map(|record| Ok::<Record, Error>(*record));
    let survey = Survey::of(each()).expect("none of the records is an error");
    let _ = survey.doubt(as_what);
    let mut stream = OpStream::new(each(), survey);
    let mut streamed = Vec::new();
    let instructions = stream.instructions(u64::MAX, &mut streamed).expect("none of the records is an error");
    assert_eq!(instructions as usize, records.len() - 1);
    assert_eq!(streamed.iter().filter(|op| op.ends_instruction()).count() as u64, instructions);
    assert_eq!(streamed, ops(&records));
}
