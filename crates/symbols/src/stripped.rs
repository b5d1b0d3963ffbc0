//! Stripped programs and libraries, as in distributions: their function names are in a separate file, which
//! is found by the build ID.

use crate::archive::members;
use crate::elf;

/// A stripped file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stripped {
    /// Its path in the image.
    pub path: String,
    /// Its build ID, in hexadecimal.
    pub build_id: String,
}

/// The stripped programs and libraries of an initramfs. Files without a build ID are omitted, because their
/// names cannot be found.
pub fn stripped(initramfs: &[u8]) -> Vec<Stripped> {
    let nameless = members(initramfs)
        .into_iter()
        .filter(|file| !elf::texts(file.bytes).is_empty() && !elf::has_names(file.bytes));
    let mut found: Vec<Stripped> = nameless
        .filter_map(|file| {
            let (first, rest) = elf::build_id(file.bytes)?;
            Some(Stripped { path: file.path.to_owned(), build_id: first + &rest })
        })
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program with an executable and a note segment, and without sections.
    fn program(build_id: &[u8]) -> Vec<u8> {
        const HEADERS: u64 = 64 + 2 * 56;
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        let word = |value: u32| value.to_le_bytes();
        // ELF type 3 for machine 243, with its program headers at 64.
        file.extend([[3, 0, 243, 0], word(1)].concat());
        file.extend([0u64, 64, 0].map(u64::to_le_bytes).concat());
        file.extend([word(0), [64, 0, 56, 0], [2, 0, 64, 0], [0; 4]].concat());
        let note = [&word(4)[..], &word(build_id.len() as u32), &word(3), b"GNU\0", build_id].concat();
        let bytes = note.len() as u64;
        for (kind, flags, offset, size) in [(1, 5, 0, HEADERS), (4, 4, HEADERS, bytes)] {
            file.extend([word(kind), word(flags)].concat());
            file.extend([offset, offset, offset, size, size, 4].map(u64::to_le_bytes).concat());
        }
        [file, note].concat()
    }

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for (path, bytes) in files {
            let fields = [1, 0o100_755, 0, 0, 1, 0, bytes.len(), 0, 0, 0, 0, path.len() + 1, 0];
            let fields: String = fields.iter().map(|field| format!("{field:08x}")).collect();
            out.extend(format!("070701{fields}{path}\0").into_bytes());
            out.resize(out.len().next_multiple_of(4), 0);
            out.extend_from_slice(bytes);
            out.resize(out.len().next_multiple_of(4), 0);
        }
        out
    }

    #[test]
    fn stripped_programs_with_build_ids_are_found_and_other_files_are_not() {
        let (whole, without) = (program(&[0xab, 0xcd, 1]), program(&[]));
        let mut data = whole.clone();
        // Make its segment non-executable.
        data[68] = 4;
        let files: [(&str, &[u8]); 4] = [
            ("usr/bin/tool", &whole),
            ("usr/bin/other", &without),
            ("usr/lib/data.so", &data),
            ("init", b"#!/bin/sh"),
        ];
        let tool = Stripped { path: "usr/bin/tool".into(), build_id: "abcd01".into() };
        assert_eq!(stripped(&archive(&files)), [tool]);
    }
}
