//! The fast path of the most frequent access, a hit without side effects.

use super::{EMPTY, Flags, HEADER, LATEST, LATEST_SHIFT, order_of};
use crate::replacement::to_front;

/// Result of [`super::Tags::quick_use`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quick {
    /// The line is present with these flags, and the replacement order is updated.
    Used(Flags),
    /// The line is present, but needs the full look-up.
    Unsure,
    /// The line is not present.
    Absent,
}

/// The most recently used line of a set, kept while using it again changes nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct MruEntry {
    pub line: u32,
    /// The block's word [`LATEST`].
    pub settled: u32,
    pub flags: Flags,
}

/// No line.
pub(super) const NO_MRU: MruEntry = MruEntry { line: EMPTY, settled: 0, flags: Flags(0) };

impl MruEntry {
    /// Whether every line of the set has arrived by `t`.
    #[inline(always)]
    pub fn is_settled(&self, t: u64) -> bool {
        t >> LATEST_SHIFT >= u64::from(self.settled)
    }
}

/// Bit mask of the ways that hold a line: at most one bit. Branch-free, so that the host compares several
/// ways at a time.
#[inline(always)]
pub(super) fn ways_of<const WAYS: usize>(tags: &[u32; WAYS], line: u32) -> u32 {
    let mut bits = [0; WAYS];
    for (way, bit) in bits.iter_mut().enumerate() {
        *bit = if tags[way] == line { 1 << way } else { 0 };
    }
    bits.into_iter().fold(0, |found, bit| found | bit)
}

/// The same for any number of ways, eight at a time.
#[inline]
pub(crate) fn ways_of_many(words: &[u32], word: u32) -> u32 {
    let (eights, rest) = words.as_chunks::<8>();
    let found = rest.iter().rev().fold(0, |found, one| found << 1 | u32::from(*one == word));
    eights.iter().rev().fold(found, |found, eight| found << 8 | ways_of(eight, word))
}

/// A part of a block, with constant length.
#[inline(always)]
pub(super) fn fixed<const WAYS: usize>(words: &[u32]) -> &[u32; WAYS] {
    words.first_chunk().expect("a block has room for its ways")
}

#[inline(always)]
pub(super) fn quick_use<const WAYS: usize>(block: &mut [u32; 16], line: u32, t: u64, own: bool) -> Quick {
    let found = ways_of::<WAYS>(fixed(&block[HEADER..]), line);
    if found == 0 {
        return Quick::Absent;
    }
    let way = found.trailing_zeros();
    let flags = Flags((block[(HEADER + WAYS + way as usize / 4) & 15] >> (way % 4 * 8)) as u8);
    let settled = t >> LATEST_SHIFT >= u64::from(block[LATEST]);
    if !settled || flags.is_prefetched() || own && !flags.takes_stores() {
        return Quick::Unsure;
    }
    if block[0] & 0xf != way {
        let order = to_front(order_of(block), u64::from(way));
        (block[0], block[1]) = (order as u32, (order >> 32) as u32);
    }
    Quick::Used(flags)
}
