//! A writer of ext2 file systems, which Linux's ext4 driver mounts. The same entries always give the same
//! bytes: everything belongs to root, time stamps are zero, and block numbers follow from the order of paths.
//! The tests check it with e2fsck and debugfs.
//!
//! Document: "The Second Extended File System" (Dave Poirier), and the kernel's
//! Documentation/filesystems/ext4 for the fields that both share. Revision 1 with blocks of 4 KiB, inodes of
//! 256 bytes, file types in directories and sparse copies of the superblock. There is no journal, because the
//! simulator's disks are always consistent. Hard links and devices are not written.
//!
//! [`layout`] computes block positions, [`inode`] encodes inodes and directories, and this file writes them
//! to disk.

mod inode;
mod layout;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use inode::{Inode, Kind, directory_block_count, directory_blocks};
use layout::{BLOCK_BYTES, Layout, POINTERS};

/// The first inode that is not reserved. It is lost+found's, which e2fsck expects to exist.
const LOST_FOUND: u32 = 11;
const LOST_FOUND_NAME: &str = "lost+found";
const ROOT: u32 = 2;
const DIRECT: u64 = 12;
/// A larger file would need a triply indirect block.
const FILE_BLOCKS_MAX: u64 = DIRECT + POINTERS + POINTERS * POINTERS;
/// A link target shorter than this is stored in the inode itself.
const SHORT_LINK: usize = 60;

/// Source of a file's contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Bytes(Vec<u8>),
    Host { path: PathBuf, bytes: u64 },
}

/// A directory, file or link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Directory { mode: u16 },
    File { mode: u16, source: Source },
    Link { target: String },
}

/// A file system to be written. Parent directories are created with their first entry.
#[derive(Clone, Debug)]
pub(crate) struct FileSystem {
    entries: BTreeMap<String, Entry>,
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

impl Source {
    fn bytes(&self) -> u64 {
        match self {
            Source::Bytes(bytes) => bytes.len() as u64,
            Source::Host { bytes, .. } => *bytes,
        }
    }
}

impl Entry {
    /// Blocks of its contents, and blocks of pointers to them.
    fn blocks(&self, directory_blocks: u64) -> (u64, u64) {
        let data = match self {
            Entry::Directory { .. } => directory_blocks,
            Entry::File { source, .. } => source.bytes().div_ceil(BLOCK_BYTES),
            Entry::Link { target } if target.len() < SHORT_LINK => 0,
            Entry::Link { .. } => 1,
        };
        (data, pointer_blocks(data))
    }
}

fn pointer_blocks(data: u64) -> u64 {
    let beyond = data.saturating_sub(DIRECT);
    let doubly = beyond.saturating_sub(POINTERS);
    u64::from(beyond > 0) + if doubly > 0 { 1 + doubly.div_ceil(POINTERS) } else { 0 }
}

impl FileSystem {
    pub(crate) fn new() -> Self {
        let lost_found = (LOST_FOUND_NAME.to_owned(), Entry::Directory { mode: 0o700 });
        Self { entries: BTreeMap::from([(String::new(), Entry::Directory { mode: 0o755 }), lost_found]) }
    }

    /// Puts an entry at a relative path, or replaces one of the same kind. A directory cannot replace
    /// anything else, nor the reverse.
    pub(crate) fn put(&mut self, path: &str, entry: Entry) -> Result<(), String> {
        for (slash, _) in path.match_indices('/') {
            let above = &path[..slash];
            match self.entries.entry(above.to_owned()).or_insert(Entry::Directory { mode: 0o755 }) {
                Entry::Directory { .. } => {}
                _ => {
                    return Err(format!(
                        "\"{path}\" cannot be put below \"{above}\", which is not a directory"
                    ));
                }
            }
        }
        if name(path).len() > 255 {
            return Err(format!("the name of \"{path}\" is longer than 255 bytes"));
        }
        let is_directory = |entry: &Entry| matches!(entry, Entry::Directory { .. });
        match self.entries.get(path) {
            Some(present) if is_directory(present) != is_directory(&entry) => {
                Err(format!("both a directory and something else at \"{path}\""))
            }
            // A package's directory keeps its mode when the recipe names it as well.
            Some(present) if is_directory(present) => Ok(()),
            _ => {
                self.entries.insert(path.to_owned(), entry);
                Ok(())
            }
        }
    }

    /// Writes the file system, with `free_bytes` of free space and `id` as its UUID.
    pub(crate) fn write(&self, out: &Path, free_bytes: u64, id: [u8; 16]) -> Result<(), String> {
        let numbers = self.numbers();
        let children = self.children(&numbers);
        let directory_sizes: BTreeMap<&str, u64> =
            children.iter().map(|(path, list)| (*path, directory_block_count(list))).collect();
        let mut blocks = free_bytes.div_ceil(BLOCK_BYTES);
        for (path, entry) in &self.entries {
            let (data, pointers) = entry.blocks(directory_sizes.get(path.as_str()).copied().unwrap_or(0));
            if data > FILE_BLOCKS_MAX {
                return Err(format!(
                    "\"{path}\" is larger than {} GiB",
                    (FILE_BLOCKS_MAX * BLOCK_BYTES) >> 30
                ));
            }
            blocks += data + pointers;
        }
        let inodes =
            LOST_FOUND as u64 + self.entries.len() as u64 + free_bytes / layout::BYTES_PER_FREE_INODE;
        let layout = Layout::plan(blocks, inodes)?;
        let fail = |error: io::Error| format!("cannot write {}: {error}", out.display());
        let file = File::create(out).map_err(fail)?;
        file.set_len(layout.blocks() * BLOCK_BYTES).map_err(fail)?;
        let mut writer = Writer { file: &file, layout: &layout, taken: 0 };
        let mut directories = vec![0; layout.groups() as usize];
        for (path, entry) in &self.entries {
            let number = numbers[path.as_str()];
            let list = children.get(path.as_str());
            let inode = writer.entry(path, entry, list.map_or(&[], Vec::as_slice))?;
            file.write_all_at(&inode.to_bytes(), layout.inode_at(number)).map_err(fail)?;
            if matches!(entry, Entry::Directory { .. }) {
                directories[layout.group_of_inode(number) as usize] += 1;
            }
        }
        let last_inode = LOST_FOUND + self.entries.len() as u32 - 2;
        for (at, bytes) in layout.metadata(writer.taken, last_inode, &directories, id) {
            file.write_all_at(&bytes, at).map_err(fail)?;
        }
        Ok(())
    }

    /// Assigns an inode to each path: the root's and lost+found's are fixed, the others follow in the order
    /// of paths.
    fn numbers(&self) -> BTreeMap<&str, u32> {
        let mut next = LOST_FOUND + 1;
        let number = |path: &str| match path {
            "" => ROOT,
            LOST_FOUND_NAME => LOST_FOUND,
            _ => {
                next += 1;
                next - 1
            }
        };
        let paths: Vec<&str> = self.entries.keys().map(String::as_str).collect();
        let numbers: Vec<u32> = paths.iter().copied().map(number).collect();
        paths.into_iter().zip(numbers).collect()
    }

    /// The entries of each directory; the first two are itself and its parent.
    fn children<'a>(
        &'a self,
        numbers: &BTreeMap<&'a str, u32>,
    ) -> BTreeMap<&'a str, Vec<(u32, Kind, &'a str)>> {
        let mut children: BTreeMap<&str, Vec<(u32, Kind, &str)>> = BTreeMap::new();
        for (path, entry) in &self.entries {
            if let Entry::Directory { .. } = entry {
                let own = (numbers[path.as_str()], Kind::Directory, ".");
                let above = (numbers[parent(path)], Kind::Directory, "..");
                children.insert(path, vec![own, above]);
            }
            if !path.is_empty() {
                let kind = match entry {
                    Entry::Directory { .. } => Kind::Directory,
                    Entry::File { .. } => Kind::File,
                    Entry::Link { .. } => Kind::Link,
                };
                let list = children.get_mut(parent(path)).expect("a parent sorts before its children");
                list.push((numbers[path.as_str()], kind, name(path)));
            }
        }
        children
    }
}

struct Writer<'a> {
    file: &'a File,
    layout: &'a Layout,
    /// Number of data blocks in use; they are allocated in order.
    taken: u64,
}

impl Writer<'_> {
    fn take(&mut self) -> u64 {
        self.taken += 1;
        self.layout.data_block(self.taken - 1)
    }

    fn put(&self, block: u64, bytes: &[u8]) -> Result<(), String> {
        let written = self.file.write_all_at(bytes, block * BLOCK_BYTES);
        written.map_err(|error| format!("cannot write the disk: {error}"))
    }

    /// Writes an entry's contents and returns its inode.
    fn entry(&mut self, path: &str, entry: &Entry, children: &[(u32, Kind, &str)]) -> Result<Inode, String> {
        match entry {
            Entry::Directory { mode } => {
                let bytes = directory_blocks(children).concat();
                let below = children[2..].iter().filter(|(_, kind, _)| *kind == Kind::Directory).count();
                let mut inode = Inode::new(Kind::Directory, *mode, bytes.len() as u64);
                inode.links = below as u16 + 2;
                self.contents(inode, path, bytes.as_slice())
            }
            Entry::Link { target } if target.len() < SHORT_LINK => Ok(Inode::short_link(target.as_bytes())),
            Entry::Link { target } => {
                let inode = Inode::new(Kind::Link, 0o777, target.len() as u64);
                self.contents(inode, path, target.as_bytes())
            }
            Entry::File { mode, source } => {
                let inode = Inode::new(Kind::File, *mode, source.bytes());
                match source {
                    Source::Bytes(bytes) => self.contents(inode, path, bytes.as_slice()),
                    Source::Host { path: host, .. } => {
                        self.contents(inode, path, File::open(host).map_err(cannot_read(path))?)
                    }
                }
            }
        }
    }

    /// Writes the inode's data blocks and the blocks of pointers to them; returns the complete inode.
    fn contents(&mut self, mut inode: Inode, path: &str, mut from: impl Read) -> Result<Inode, String> {
        let count = inode.bytes.div_ceil(BLOCK_BYTES);
        let mut buffer = vec![0; BLOCK_BYTES as usize];
        let mut singly = Pointers::default();
        let mut doubly = Pointers::default();
        for index in 0..count {
            let filled = (inode.bytes - index * BLOCK_BYTES).min(BLOCK_BYTES) as usize;
            from.read_exact(&mut buffer[..filled]).map_err(cannot_read(path))?;
            let beyond = index.saturating_sub(DIRECT);
            if index >= DIRECT && beyond.is_multiple_of(POINTERS) {
                if beyond == POINTERS {
                    doubly.block = self.take();
                }
                singly.flush(self)?;
                singly.block = self.take();
                match beyond {
                    0 => inode.pointers[12] = singly.block as u32,
                    _ => doubly.list.push(singly.block as u32),
                }
            }
            let block = self.take();
            self.put(block, &buffer[..filled])?;
            match index {
                0..DIRECT => inode.pointers[index as usize] = block as u32,
                _ => singly.list.push(block as u32),
            }
        }
        singly.flush(self)?;
        inode.pointers[13] = doubly.block as u32;
        doubly.flush(self)?;
        inode.blocks = count + pointer_blocks(count);
        Ok(inode)
    }
}

fn cannot_read(path: &str) -> impl Fn(io::Error) -> String + '_ {
    move |error| format!("cannot read {path}: {error}")
}

/// A block of pointers that is being filled.
#[derive(Default)]
struct Pointers {
    block: u64,
    list: Vec<u32>,
}

impl Pointers {
    fn flush(&mut self, writer: &Writer<'_>) -> Result<(), String> {
        if self.list.is_empty() {
            return Ok(());
        }
        let bytes: Vec<u8> = self.list.drain(..).flat_map(u32::to_le_bytes).collect();
        writer.put(self.block, &bytes)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
