//! The most frequent access, in as few steps of the host as can be.

use super::{EMPTY, Flags, HEADER, LATEST, LATEST_SHIFT, order_of};
use crate::replacement::to_front;

/// What came of [`super::Tags::quick_use`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quick {
    /// The line is there, with these flags, and its use is noted.
    Used(Flags),
    /// The line is there, but more has to be looked at.
    Unsure,
    /// The line is not there.
    Absent,
}

/// The line of a set that was used last, while using it again changes nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Foremost {
    pub line: u32,
    /// As a block has it at [`LATEST`].
    pub settled: u32,
    pub flags: Flags,
}

/// None is known.
pub(super) const NOBODY: Foremost = Foremost { line: EMPTY, settled: 0, flags: Flags(0) };

impl Foremost {
    /// Whether every line of the set is there at `t`.
    #[inline(always)]
    pub fn is_settled(&self, t: u64) -> bool {
        t >> LATEST_SHIFT >= u64::from(self.settled)
    }
}

/// In which ways a line is, a bit a way: one at most. Nothing is decided on the way, so that the host compares many at a time.
#[inline(always)]
pub(super) fn ways_of<const WAYS: usize>(tags: &[u32; WAYS], line: u32) -> u32 {
    let mut bits = [0; WAYS];
    for (way, bit) in bits.iter_mut().enumerate() {
        *bit = if tags[way] == line { 1 << way } else { 0 };
    }
    bits.into_iter().fold(0, |found, bit| found | bit)
}

/// In which of any number of ways this word is, eight at a time.
#[inline]
pub(crate) fn ways_of_many(words: &[u32], word: u32) -> u32 {
    let (eights, rest) = words.as_chunks::<8>();
    let found = rest.iter().rev().fold(0, |found, one| found << 1 | u32::from(*one == word));
    eights.iter().rev().fold(found, |found, eight| found << 8 | ways_of(eight, word))
}

/// A part of a block whose length is known.
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
