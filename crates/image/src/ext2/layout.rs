//! Positions of the file system's parts: groups of blocks, each with bitmaps and a part of the inode table,
//! some with a copy of the superblock and the group descriptors.

/// Bytes of a block.
pub(super) const BLOCK_BYTES: u64 = 4096;
/// Bytes of an inode.
pub(super) const INODE_BYTES: u64 = 256;
/// Pointers in a block.
pub(super) const POINTERS: u64 = BLOCK_BYTES / 4;
/// Free bytes per spare inode, for files that the guest creates.
pub(super) const BYTES_PER_FREE_INODE: u64 = 16 << 10;

/// The number of bits in a bitmap of one block.
const BLOCKS_PER_GROUP: u64 = 8 * BLOCK_BYTES;
const INODES_PER_BLOCK: u64 = BLOCK_BYTES / INODE_BYTES;
const DESCRIPTOR_BYTES: u64 = 32;
const SUPERBLOCK_AT: u64 = 1024;
const SUPERBLOCK_BYTES: usize = 1024;
/// 1 TiB; far below what 32-bit block numbers hold.
const GROUPS_MAX: u64 = 8192;
/// Least number of data blocks in the last group, so that its tables are worthwhile.
const LAST_GROUP_DATA_MIN: u64 = 64;

const MAGIC: u16 = 0xef53;
const FIRST_FREE_INODE: u32 = 11;
const INCOMPAT_FILE_TYPES: u32 = 2;
const RO_COMPAT_SPARSE_COPIES: u32 = 1;
const RO_COMPAT_LARGE_FILES: u32 = 2;

/// Positions of a file system's parts.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    groups: u64,
    blocks: u64,
    inodes_per_group: u64,
}

/// Groups 0 and 1, and those whose number is a power of 3, 5 or 7, have copies of the superblock.
fn has_superblock(group: u64) -> bool {
    let is_power_of = |base: u64| {
        let mut power = base;
        while power < group {
            power *= base;
        }
        power == group
    };
    group <= 1 || [3, 5, 7].into_iter().any(is_power_of)
}

impl Layout {
    /// The smallest layout with the given numbers of data blocks and inodes.
    pub fn plan(data_blocks: u64, inodes: u64) -> Result<Layout, String> {
        for groups in 1..=GROUPS_MAX {
            let per_group = inodes.div_ceil(groups).next_multiple_of(INODES_PER_BLOCK);
            if per_group > BLOCKS_PER_GROUP {
                continue;
            }
            let mut layout =
                Layout { groups, blocks: groups * BLOCKS_PER_GROUP, inodes_per_group: per_group };
            if layout.tables_blocks(0) + LAST_GROUP_DATA_MIN > BLOCKS_PER_GROUP {
                continue;
            }
            let before: u64 = (0..groups - 1).map(|group| layout.group_data(group)).sum();
            let last = data_blocks.saturating_sub(before).max(LAST_GROUP_DATA_MIN);
            if last <= layout.group_data(groups - 1) {
                layout.blocks -= layout.group_data(groups - 1) - last;
                return Ok(layout);
            }
        }
        Err(format!("{data_blocks} blocks of 4 KiB and {inodes} inodes are too much for one disk"))
    }

    /// Total number of blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Number of groups.
    pub fn groups(&self) -> u64 {
        self.groups
    }

    fn descriptor_blocks(&self) -> u64 {
        (self.groups * DESCRIPTOR_BYTES).div_ceil(BLOCK_BYTES)
    }

    /// Blocks of the superblock and group descriptors, where a group has them.
    fn copies_blocks(&self, group: u64) -> u64 {
        if has_superblock(group) { 1 + self.descriptor_blocks() } else { 0 }
    }

    fn inode_table_blocks(&self) -> u64 {
        self.inodes_per_group / INODES_PER_BLOCK
    }

    /// Blocks before a group's data blocks.
    fn tables_blocks(&self, group: u64) -> u64 {
        self.copies_blocks(group) + 2 + self.inode_table_blocks()
    }

    fn group_blocks(&self, group: u64) -> u64 {
        BLOCKS_PER_GROUP.min(self.blocks - group * BLOCKS_PER_GROUP)
    }

    fn group_data(&self, group: u64) -> u64 {
        self.group_blocks(group) - self.tables_blocks(group)
    }

    fn block_bitmap(&self, group: u64) -> u64 {
        group * BLOCKS_PER_GROUP + self.copies_blocks(group)
    }

    /// The number of the n-th data block.
    pub fn data_block(&self, mut index: u64) -> u64 {
        for group in 0..self.groups {
            let here = self.group_data(group);
            if index < here {
                return group * BLOCKS_PER_GROUP + self.tables_blocks(group) + index;
            }
            index -= here;
        }
        unreachable!("the layout was planned for all data blocks")
    }

    /// The group whose table contains an inode.
    pub fn group_of_inode(&self, number: u32) -> u64 {
        (u64::from(number) - 1) / self.inodes_per_group
    }

    /// Byte offset of an inode.
    pub fn inode_at(&self, number: u32) -> u64 {
        let table = self.block_bitmap(self.group_of_inode(number)) + 2;
        table * BLOCK_BYTES + (u64::from(number) - 1) % self.inodes_per_group * INODE_BYTES
    }

    /// Superblocks, group descriptors and bitmaps, each with its byte offset, when the first `taken` data
    /// blocks and the inodes up to `last_inode` are in use.
    pub fn metadata(
        &self,
        taken: u64,
        last_inode: u32,
        directories: &[u16],
        id: [u8; 16],
    ) -> Vec<(u64, Vec<u8>)> {
        let mut pieces = Vec::new();
        let mut descriptors = Vec::new();
        let (mut blocks_left, mut inodes_left) = (taken, u64::from(last_inode));
        for group in 0..self.groups {
            let (blocks, inodes) =
                (blocks_left.min(self.group_data(group)), inodes_left.min(self.inodes_per_group));
            (blocks_left, inodes_left) = (blocks_left - blocks, inodes_left - inodes);
            let bitmap = self.block_bitmap(group);
            let used = self.tables_blocks(group) + blocks;
            pieces.push((bitmap * BLOCK_BYTES, map_of(used, self.group_blocks(group))));
            pieces.push(((bitmap + 1) * BLOCK_BYTES, map_of(inodes, self.inodes_per_group)));
            for block in [bitmap, bitmap + 1, bitmap + 2] {
                descriptors.extend((block as u32).to_le_bytes());
            }
            let free = [self.group_data(group) - blocks, self.inodes_per_group - inodes];
            for count in [free[0] as u16, free[1] as u16, directories[group as usize]] {
                descriptors.extend(count.to_le_bytes());
            }
            descriptors.resize(((group + 1) * DESCRIPTOR_BYTES) as usize, 0);
        }
        for group in (0..self.groups).filter(|group| has_superblock(*group)) {
            let start = group * BLOCKS_PER_GROUP * BLOCK_BYTES;
            let at = if group == 0 { SUPERBLOCK_AT } else { start };
            pieces.push((at, self.superblock(group, taken, last_inode, id)));
            pieces.push((start + BLOCK_BYTES, descriptors.clone()));
        }
        pieces
    }

    fn superblock(&self, group: u64, taken: u64, last_inode: u32, id: [u8; 16]) -> Vec<u8> {
        let data: u64 = (0..self.groups).map(|group| self.group_data(group)).sum();
        let inodes = self.inodes_per_group * self.groups;
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        let words = [
            (0, inodes as u32),
            (4, self.blocks as u32),
            (12, (data - taken) as u32),
            (16, (inodes - u64::from(last_inode)) as u32),
            (24, BLOCK_BYTES.trailing_zeros() - 10),
            (28, BLOCK_BYTES.trailing_zeros() - 10),
            (32, BLOCKS_PER_GROUP as u32),
            (36, BLOCKS_PER_GROUP as u32),
            (40, self.inodes_per_group as u32),
            (76, 1), // revision 1, which has the fields from here on
            (84, FIRST_FREE_INODE),
            (96, INCOMPAT_FILE_TYPES),
            (100, RO_COMPAT_SPARSE_COPIES | RO_COMPAT_LARGE_FILES),
        ];
        for (at, word) in words {
            put(at, &u32::to_le_bytes(word));
        }
        // No check after a number of mounts; state: clean; on errors: continue.
        for (at, half) in
            [(54, 0xffff), (56, MAGIC), (58, 1), (60, 1), (88, INODE_BYTES as u16), (90, group as u16)]
        {
            put(at, &u16::to_le_bytes(half));
        }
        put(104, &id);
        put(120, b"doorbell");
        bytes
    }
}

/// A bitmap with the first `used` bits set, and those from `count` on, which are beyond the end.
fn map_of(used: u64, count: u64) -> Vec<u8> {
    let mut map = vec![0u8; BLOCK_BYTES as usize];
    for bit in (0..used).chain(count..8 * BLOCK_BYTES) {
        map[(bit / 8) as usize] |= 1 << (bit % 8);
    }
    map
}
