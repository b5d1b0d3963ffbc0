//! Refusal of unusable files, and the error messages.

use super::*;

fn refusal(bytes: &[u8]) -> String {
    let (folder, path) = written("some.trace", bytes);
    let out = folder.path().join("out.dbt");
    let error = convert(&path, &out).unwrap_err().to_string();
    assert!(error.contains("some.trace"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "a file is left");
    error
}

#[test]
fn other_formats_are_not_recognised() {
    let champsim = [0x40_0000_u64, 0, 0, 0, 0, 0, 0, 0].map(u64::to_le_bytes).concat();
    for other in
        [&b""[..], b"DBtrace\n\x01\0\0\0\0\0\0\0", &champsim, &zipped(&champsim, 1), &gzipped(&champsim)]
    {
        let (_folder, path) = written("some.trace", other);
        assert!(!is_of_drmemtrace(&path));
    }
    let header = Records::begin(7, X86_64).end();
    let (_folder, path) = written("some.trace", &header);
    assert!(is_of_drmemtrace(&path));
}

#[test]
fn truncated_traces_are_refused() {
    let whole = loop_records().end();
    assert!(refusal(&whole[..whole.len() - 12]).contains("its footer is missing"));
    assert!(refusal(&whole[..whole.len() - 5]).contains("it ends within a record"));
    let packed = gzipped(&whole);
    assert!(refusal(&packed[..packed.len() - 9]).contains("is cut off"));
    let archive = zipped(&whole, 9);
    assert!(refusal(&archive[..archive.len() - 30]).contains("zip archive is invalid"));
}

#[test]
fn damaged_traces_are_refused() {
    let mut archive = zipped(&loop_records().end(), 9);
    archive[60] ^= 0x10;
    assert!(refusal(&archive).contains("damaged"));
    let of = |add: &mut dyn FnMut(&mut Records)| {
        let mut records = Records::begin(7, X86_64 | ENCODINGS);
        records.code(PLAIN, CODE, &[0x90]);
        add(&mut records);
        refusal(&records.end())
    };
    assert!(of(&mut |records| _ = records.add(50, 0, 0)).contains("an unknown type"));
    assert!(of(&mut |records| _ = records.add(PLAIN, 16, CODE)).contains("no bytes, or too many"));
    assert!(of(&mut |records| _ = records.add(ENCODING, 9, 0)).contains("too long"));
    let shorter = of(&mut |records| _ = records.add(ENCODING, 2, 0).add(PLAIN, 3, CODE));
    assert!(shorter.contains("differs from its length"));
}

#[test]
fn unsupported_traces_are_refused_with_a_reason() {
    let of = |version, file_type| {
        let mut records = Records::begin(version, file_type);
        records.code(PLAIN, CODE, &[0x90]);
        refusal(&records.end())
    };
    assert!(of(9, X86_64).contains("has version 9"));
    assert!(of(7, 0x20 | ENCODINGS).contains("a 32-bit program"));
    assert!(of(7, X86_64 | ENCODINGS | 0x80).contains("was filtered"));
    assert!(of(7, X86_64 | ENCODINGS | 0x4000).contains("system call templates"));
    assert!(of(1, 0).contains("its type does not say so"));
    assert!(refusal(&Records::begin(7, X86_64).end()).contains("has no instruction"));
    let mut online = Records::begin(7, X86_64 | ENCODINGS);
    online.code(PLAIN, CODE, &[0x90]).add(17, 2, 0x0101);
    assert!(refusal(&online.end()).contains("-offline"));
}

#[test]
fn folder_must_hold_traces_of_one_instruction_set() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.dbt");
    let message = |path: &Path| convert(path, &out).unwrap_err().to_string();
    assert!(message(folder.path()).contains("is a folder without DynamoRIO traces"));
    let raw = folder.path().join("raw");
    fs::create_dir(&raw).unwrap();
    assert!(message(folder.path()).contains("-indir") && message(&raw).contains("-indir"));
    fs::write(folder.path().join("a"), loop_records().end()).unwrap();
    let mut other = Records::begin(7, AARCH64 | ENCODINGS);
    other.code(PLAIN, CODE, &0xd503_201f_u32.to_le_bytes());
    fs::write(folder.path().join("b"), other.end()).unwrap();
    assert!(message(folder.path()).contains("another instruction set"));
    assert!(!out.exists());
}
