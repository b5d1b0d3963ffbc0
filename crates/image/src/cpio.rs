//! A writer of the cpio "newc" archives that Linux unpacks into its root file system (kernel documentation,
//! driver-api/early-userspace/buffer-format). The same entries give the same bytes: entries are sorted by path, inode
//! numbers count up from 1, time stamps are zero and everything belongs to root. Hard links are not written.

use std::collections::BTreeMap;

/// A directory, file, link or device node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Directory,
    File { mode: u32, content: Vec<u8> },
    Link { target: String },
    CharDevice { major: u32, minor: u32 },
}

/// A file system to be packed. Parent directories are created with their first entry.
#[derive(Clone, Debug)]
pub(crate) struct Archive {
    nodes: BTreeMap<String, Node>,
}

const S_IFCHR: u32 = 0o020_000;
const S_IFDIR: u32 = 0o040_000;
const S_IFREG: u32 = 0o100_000;
const S_IFLNK: u32 = 0o120_000;

impl Archive {
    /// An archive with a root directory. Without this entry the root of a tmpfs is world-writable, which DPDK
    /// refuses.
    pub(crate) fn new() -> Self {
        Self { nodes: BTreeMap::from([(".".to_owned(), Node::Directory)]) }
    }

    /// Puts a node at a relative path. Two different nodes at one path are an error in the recipe.
    pub(crate) fn put(&mut self, path: &str, node: Node) -> Result<(), String> {
        for (slash, _) in path.match_indices('/') {
            let parent = &path[..slash];
            match self.nodes.entry(parent.to_owned()).or_insert(Node::Directory) {
                Node::Directory => {}
                _ => {
                    return Err(format!(
                        "\"{path}\" cannot be put below \"{parent}\", which is not a directory"
                    ));
                }
            }
        }
        match self.nodes.get(path) {
            Some(present) if *present != node => Err(format!("two different entries at \"{path}\"")),
            _ => {
                self.nodes.insert(path.to_owned(), node);
                Ok(())
            }
        }
    }

    /// Whether the path has an entry.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.nodes.contains_key(path)
    }

    /// The archive without its directory entries.
    pub(crate) fn without_directories(mut self) -> Self {
        self.nodes.retain(|_, node| *node != Node::Directory);
        self
    }

    /// The archive's bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (inode, (path, node)) in (1..).zip(&self.nodes) {
            match node {
                Node::Directory => entry(&mut out, inode, path, S_IFDIR | 0o755, (0, 0), &[]),
                Node::File { mode, content } => {
                    entry(&mut out, inode, path, S_IFREG | mode, (0, 0), content);
                }
                Node::Link { target } => {
                    entry(&mut out, inode, path, S_IFLNK | 0o777, (0, 0), target.as_bytes())
                }
                Node::CharDevice { major, minor } => {
                    entry(&mut out, inode, path, S_IFCHR | 0o600, (*major, *minor), &[]);
                }
            }
        }
        entry(&mut out, 0, "TRAILER!!!", 0, (0, 0), &[]);
        out
    }
}

/// Writes an entry: a header of 13 eight-digit hexadecimal numbers after the magic, the name with its final
/// zero, and the content, the last two padded to a multiple of four bytes in the archive.
fn entry(out: &mut Vec<u8>, inode: u32, path: &str, mode: u32, device: (u32, u32), content: &[u8]) {
    let size = u32::try_from(content.len()).expect("newc files are under 4 GiB");
    let name_size = u32::try_from(path.len() + 1).expect("paths are short");
    let links = if mode & S_IFDIR == S_IFDIR { 2 } else { 1 };
    // inode, mode, uid, gid, links, mtime, size, device of the file system (2), device node (2), name size, checksum
    let fields = [inode, mode, 0, 0, links, 0, size, 0, 0, device.0, device.1, name_size, 0];
    out.extend_from_slice(b"070701");
    for field in fields {
        out.extend_from_slice(format!("{field:08X}").as_bytes());
    }
    out.extend_from_slice(path.as_bytes());
    out.push(0);
    pad(out);
    out.extend_from_slice(content);
    pad(out);
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Archive {
        let mut archive = Archive::new();
        archive.put("etc/motd", Node::File { mode: 0o644, content: b"hello".to_vec() }).unwrap();
        archive.put("bin/run", Node::File { mode: 0o755, content: b"#!/bin/sh\n".to_vec() }).unwrap();
        archive.put("sbin", Node::Link { target: "bin".into() }).unwrap();
        archive.put("dev/console", Node::CharDevice { major: 5, minor: 1 }).unwrap();
        archive
    }

    #[test]
    fn the_order_of_insertion_does_not_matter() {
        let mut other = Archive::new();
        other.put("dev/console", Node::CharDevice { major: 5, minor: 1 }).unwrap();
        other.put("sbin", Node::Link { target: "bin".into() }).unwrap();
        other.put("bin/run", Node::File { mode: 0o755, content: b"#!/bin/sh\n".to_vec() }).unwrap();
        other.put("etc/motd", Node::File { mode: 0o644, content: b"hello".to_vec() }).unwrap();
        assert_eq!(other.to_bytes(), sample().to_bytes());
    }

    #[test]
    fn a_parent_comes_before_its_children() {
        let bytes = sample().to_bytes();
        let at = |name: &str| bytes.windows(name.len()).position(|window| window == name.as_bytes()).unwrap();
        assert!(at("etc\0") < at("etc/motd\0") && at(".\0") < at("bin\0"));
    }

    #[test]
    fn a_file_and_a_directory_cannot_share_a_path() {
        let mut archive = sample();
        assert!(archive.put("etc/motd/more", Node::Directory).is_err());
        assert!(archive.put("sbin", Node::Link { target: "elsewhere".into() }).is_err());
        assert!(archive.put("sbin/x", Node::Directory).is_err(), "a link is not followed");
        assert!(
            archive.put("sbin", Node::Link { target: "bin".into() }).is_ok(),
            "the same again is no conflict"
        );
    }

    /// Parses an archive independently, from the format's description.
    fn parse(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut at = 0;
        let mut entries = Vec::new();
        loop {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let field = |n: usize| {
                let digits = &bytes[at + 6 + 8 * n..at + 14 + 8 * n];
                u32::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap()
            };
            let (name_at, name_size, size, mode) =
                (at + 110, field(11) as usize, field(6) as usize, field(1));
            let name = String::from_utf8(bytes[name_at..name_at + name_size - 1].to_vec()).unwrap();
            let data_at = (name_at + name_size).div_ceil(4) * 4;
            let data = bytes[data_at..data_at + size].to_vec();
            at = (data_at + size).div_ceil(4) * 4;
            if name == "TRAILER!!!" {
                assert_eq!(at, bytes.len());
                return entries;
            }
            entries.push((name, mode, data));
        }
    }

    #[test]
    fn an_independent_reader_finds_every_entry() {
        let entries = parse(&sample().to_bytes());
        let names: Vec<&str> = entries.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, [".", "bin", "bin/run", "dev", "dev/console", "etc", "etc/motd", "sbin"]);
        assert_eq!(entries[2].1, 0o100_755);
        assert_eq!(entries[6], ("etc/motd".into(), 0o100_644, b"hello".to_vec()));
        assert_eq!(entries[7], ("sbin".into(), 0o120_777, b"bin".to_vec()));
    }
}
