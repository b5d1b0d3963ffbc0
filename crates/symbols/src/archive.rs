//! Regular files of a cpio archive in the "newc" format, as used for an initramfs.

const HEADER_BYTES: usize = 110;

/// A regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// Its path.
    pub path: &'a str,
    /// Its contents.
    pub bytes: &'a [u8],
}

/// All regular files up to the archive's end or first corrupt member.
pub fn members(archive: &[u8]) -> Vec<Member<'_>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some((member, regular, next)) = member(archive, at) {
        if member.path == "TRAILER!!!" {
            break;
        }
        if regular {
            found.push(member);
        }
        at = next;
    }
    found
}

/// The member at an offset, whether it is a regular file, and the offset of the next one.
fn member(archive: &[u8], at: usize) -> Option<(Member<'_>, bool, usize)> {
    let header = archive.get(at..at + HEADER_BYTES)?;
    if !header.starts_with(b"070701") {
        return None;
    }
    // Thirteen fields of eight hexadecimal digits each.
    let field = |number: usize| {
        let digits = std::str::from_utf8(&header[6 + 8 * number..14 + 8 * number]).ok()?;
        usize::from_str_radix(digits, 16).ok()
    };
    let (mode, size, name_size) = (field(1)?, field(6)?, field(11)?);
    let name = archive.get(at + HEADER_BYTES..at + HEADER_BYTES + name_size.checked_sub(1)?)?;
    let begin = (at + HEADER_BYTES + name_size).next_multiple_of(4);
    let bytes = archive.get(begin..begin + size)?;
    let path = std::str::from_utf8(name).ok()?;
    Some((Member { path, bytes }, mode >> 12 == 8, (begin + size).next_multiple_of(4)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, mode: u32, bytes: &[u8]) -> Vec<u8> {
        let mut out = format!("070701{:08x}{mode:08x}", 1);
        for field in [0, 0, 1, 0, bytes.len(), 0, 0, 0, 0, path.len() + 1, 0] {
            out += &format!("{field:08x}");
        }
        out += path;
        out.push('\0');
        let mut out = out.into_bytes();
        out.resize(out.len().next_multiple_of(4), 0);
        out.extend_from_slice(bytes);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    #[test]
    fn regular_files_are_found_and_a_corrupt_archive_ends_early() {
        let mut archive = entry("usr", 0o040_755, b"");
        archive.extend(entry("usr/a", 0o100_755, b"hello"));
        archive.extend(entry("usr/link", 0o120_777, b"a"));
        archive.extend(entry("b", 0o100_644, b""));
        let whole = archive.len();
        archive.extend(entry("TRAILER!!!", 0, b""));
        archive.extend(entry("after", 0o100_644, b"x"));
        let paths = |bytes| members(bytes).iter().map(|file| file.path.to_owned()).collect::<Vec<_>>();
        assert_eq!(paths(&archive), ["usr/a", "b"]);
        assert_eq!(members(&archive)[0].bytes, b"hello");
        for end in 0..whole {
            assert!(paths(&archive[..end]).len() <= 2);
        }
        assert_eq!(paths(b"not an archive"), [""; 0]);
    }
}
