//! Encoding of inodes and directory blocks.

use super::layout::{BLOCK_BYTES, INODE_BYTES};

/// The type of an inode, with its code in directories and its bits in the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    Link,
}

impl Kind {
    /// Its code in directories, and its bits in the mode.
    fn codes(self) -> (u8, u16) {
        match self {
            Kind::File => (1, 0o100_000),
            Kind::Directory => (2, 0o040_000),
            Kind::Link => (7, 0o120_000),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Inode {
    mode: u16,
    /// Number of directory entries that refer to it.
    pub links: u16,
    pub bytes: u64,
    /// Its blocks, including blocks of pointers.
    pub blocks: u64,
    pub pointers: [u32; 15],
}

impl Inode {
    pub fn new(kind: Kind, mode: u16, bytes: u64) -> Inode {
        Inode { mode: kind.codes().1 | mode, links: 1, bytes, blocks: 0, pointers: [0; 15] }
    }

    /// A link whose target is stored in place of the block pointers.
    pub fn short_link(target: &[u8]) -> Inode {
        let mut inode = Inode::new(Kind::Link, 0o777, target.len() as u64);
        for (index, piece) in target.chunks(4).enumerate() {
            let mut word = [0; 4];
            word[..piece.len()].copy_from_slice(piece);
            inode.pointers[index] = u32::from_le_bytes(word);
        }
        inode
    }

    /// Encodes the inode as in the inode table; owner, group and all times are zero.
    pub fn to_bytes(&self) -> [u8; INODE_BYTES as usize] {
        let mut bytes = [0; INODE_BYTES as usize];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &self.mode.to_le_bytes());
        put(4, &(self.bytes as u32).to_le_bytes());
        put(26, &self.links.to_le_bytes());
        put(28, &((self.blocks * (BLOCK_BYTES / 512)) as u32).to_le_bytes());
        for (index, pointer) in self.pointers.iter().enumerate() {
            put(40 + 4 * index, &pointer.to_le_bytes());
        }
        put(108, &((self.bytes >> 32) as u32).to_le_bytes());
        bytes
    }
}

/// Size of a directory entry: eight bytes and the name, rounded up to a multiple of four.
fn entry_bytes(name: &str) -> usize {
    (8 + name.len()).next_multiple_of(4)
}

/// Number of blocks of a directory.
pub(super) fn directory_block_count(entries: &[(u32, Kind, &str)]) -> u64 {
    directory_blocks(entries).len() as u64
}

/// Encodes a directory's blocks. No entry crosses a block boundary; the last one in a block extends to its
/// end.
pub(super) fn directory_blocks(entries: &[(u32, Kind, &str)]) -> Vec<Vec<u8>> {
    let whole = BLOCK_BYTES as usize;
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    let mut last_at = 0;
    let end = |blocks: &mut Vec<Vec<u8>>, last_at: usize| {
        if let Some(block) = blocks.last_mut() {
            block.resize(whole, 0);
            block[last_at + 4..last_at + 6].copy_from_slice(&((whole - last_at) as u16).to_le_bytes());
        }
    };
    for (number, kind, name) in entries {
        let bytes = entry_bytes(name);
        if blocks.last().is_none_or(|block| block.len() + bytes > whole) {
            end(&mut blocks, last_at);
            blocks.push(Vec::with_capacity(whole));
        }
        let block = blocks.last_mut().expect("there is one now");
        last_at = block.len();
        block.extend_from_slice(&number.to_le_bytes());
        block.extend_from_slice(&(bytes as u16).to_le_bytes());
        block.extend_from_slice(&[name.len() as u8, kind.codes().0]);
        block.extend_from_slice(name.as_bytes());
        block.resize(last_at + bytes, 0);
    }
    end(&mut blocks, last_at);
    blocks
}
