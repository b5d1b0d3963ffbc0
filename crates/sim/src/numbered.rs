//! Blocks that were executed before and are told again by their numbers, with nothing but their addresses: how they lie in words, and how much
//! may be told so.

/// What may be told by numbers, before whoever is told is asked again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// As long as it is the same, a block is known that was told in full by a number, if its pages were told as well and lie where they
    /// did. 0 if none is.
    pub era: u64,
    /// No more than the block with which so many instructions are reached.
    pub instructions: u64,
    /// No more than the block with which so many words are reached.
    pub words: usize,
}

/// A block's first word: its number, and how many addresses follow, which are those of its accesses, and behind them a computed target.
#[inline]
pub const fn head(number: u32, addresses: u32) -> u64 {
    (number as u64) << 32 | addresses as u64
}

/// The number that a first word tells.
#[inline]
pub const fn number_of(head: u64) -> u32 {
    (head >> 32) as u32
}

/// Blocks one behind the other: the number of each, and its addresses.
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
    fn blocks_are_read_as_they_were_put() {
        let words = [head(u32::MAX, 2), 5, u64::MAX, head(0, 0), head(7, 1), 0];
        let blocks: Vec<(u32, &[u64])> = NumberedBlocks(&words).collect();
        assert_eq!(blocks, [(u32::MAX, &[5, u64::MAX][..]), (0, &[]), (7, &[0])]);
    }
}
