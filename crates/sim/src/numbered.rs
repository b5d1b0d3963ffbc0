//! Encoding of repeated blocks: a block recorded before is emitted as its ID and its addresses.

/// Limits on blocks emitted by ID before the sink must be called again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// Dictionary generation. While it is unchanged, a block may be emitted by ID if it and its pages were
    /// emitted in full and the pages are mapped as before. 0 means that no block may.
    pub era: u64,
    /// Emit up to and including the block that reaches this number of instructions.
    pub instructions: u64,
    /// Emit up to and including the block that reaches this number of words.
    pub words: usize,
}

/// First word of a block: its ID and the number of addresses that follow, those of its accesses and then any
/// computed target.
#[inline]
pub const fn head(number: u32, addresses: u32) -> u64 {
    (number as u64) << 32 | addresses as u64
}

/// The block ID in a first word.
#[inline]
pub const fn number_of(head: u64) -> u32 {
    (head >> 32) as u32
}

/// Iterates over encoded blocks: ID and addresses of each.
#[derive(Clone, Copy, Debug)]
pub struct NumberedBlocks<'a>(pub &'a [u64]);

impl<'a> Iterator for NumberedBlocks<'a> {
    type Item = (u32, &'a [u64]);

    #[inline]
    fn next(&mut self) -> Option<(u32, &'a [u64])> {
        let (head, rest) = self.0.split_first()?;
        let (addresses, behind) = rest.split_at(*head as u32 as usize);
        self.0 = behind;
        Some((number_of(*head), addresses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_blocks_decode_unchanged() {
        let words = [head(u32::MAX, 2), 5, u64::MAX, head(0, 0), head(7, 1), 0];
        let blocks: Vec<(u32, &[u64])> = NumberedBlocks(&words).collect();
        assert_eq!(blocks, [(u32::MAX, &[5, u64::MAX][..]), (0, &[]), (7, &[0])]);
    }
}
