//! Access log of a hart that runs for timing models or a recorder: the addresses accessed by the running
//! block, preceded by deferred blocks ([`block_dictionary`](super::block_dictionary)) in emitted form, each a
//! head word and its addresses. A deferred block's addresses therefore stay where they were logged.

use doorbell_sim::memory::LINE_BYTES;

use super::BLOCK_OPS;

/// Approximate maximum of deferred words.
pub(super) const DEFERRED_WORDS: usize = 1 << 9;
/// Maximum words per block: a head, an address per op, and the target.
const BLOCK_WORDS: usize = BLOCK_OPS + 2;
/// The last deferred block starts within the first [`DEFERRED_WORDS`], and the running block follows it.
const WORDS: usize = DEFERRED_WORDS + 2 * BLOCK_WORDS;

/// The era in which nothing was recorded.
pub(super) const NO_ERA: u64 = u64::MAX;

/// The access log.
pub(crate) struct AccessLog {
    /// Deferred blocks, a free word for the head of the running block, and its addresses.
    words: [u64; WORDS],
    /// Index of the running block's first address: 1 to `DEFERRED_WORDS + BLOCK_WORDS`.
    first: usize,
    /// Index of the next address: `first` to `first + BLOCK_OPS`.
    count: usize,
    /// The era in which pages must have been recorded for a block to be deferred.
    era: u64,
    /// OR of all bits in which the eras of the accessed pages differ from `era`; 0 if all pages were recorded
    /// in it.
    era_mismatch: u64,
    /// An access crossed a line since the last [`take_crossed`](AccessLog::take_crossed).
    crossed: bool,
}

impl Default for AccessLog {
    fn default() -> AccessLog {
        AccessLog { words: [0; WORDS], first: 1, count: 1, era: NO_ERA, era_mismatch: 0, crossed: false }
    }
}

impl AccessLog {
    /// Starts the next block with an empty log.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.count = self.first;
        self.era_mismatch = 0;
    }

    /// Sets the required era; [`NO_ERA`] if no block may be deferred.
    pub fn set_era(&mut self, era: u64) {
        self.era = era;
    }

    /// The required era.
    #[inline(always)]
    pub fn era(&self) -> u64 {
        self.era
    }

    /// Logs an address of the running block, and the era of its page according to the TLB.
    ///
    /// # Safety
    /// A block logs at most as many addresses as it has ops.
    #[inline(always)]
    pub unsafe fn log(&mut self, address: u64, era: u64) {
        // SAFETY: the block's addresses start at `DEFERRED_WORDS + BLOCK_WORDS` at most, and one word per op
        // of a block follows.
        unsafe { *self.words.get_unchecked_mut(self.count) = address };
        self.count += 1;
        self.era_mismatch |= era ^ self.era;
    }

    /// Whether all pages that the running block accessed were recorded in the required era.
    #[inline(always)]
    pub fn all_recorded(&self) -> bool {
        self.era_mismatch == 0
    }

    /// Marks all pages of the running block as recorded in the required era.
    pub fn mark_recorded(&mut self) {
        self.era_mismatch = 0;
    }

    /// The running block's addresses.
    pub fn addresses(&self) -> &[u64] {
        &self.words[self.first..self.count]
    }

    /// The `nth` address of the running block.
    #[inline]
    pub fn address(&self, nth: usize) -> u64 {
        self.words[self.first + nth]
    }

    /// Logs whether an access crosses a line.
    pub fn log_crossing(&mut self, virt: u64, bytes: u64) {
        self.crossed |= virt % LINE_BYTES + bytes > LINE_BYTES;
    }

    /// Returns whether an access has crossed a line since the last call.
    pub fn take_crossed(&mut self) -> bool {
        std::mem::take(&mut self.crossed)
    }

    /// Defers the running block, with its target if it has one, and starts the next block. The caller emits
    /// the deferred blocks before they exceed [`DEFERRED_WORDS`].
    #[inline(always)]
    pub fn defer(&mut self, head: u64, target: u64, has_target: bool) {
        let AccessLog { first, count, .. } = *self;
        assert!(first <= DEFERRED_WORDS, "deferred blocks must be emitted before the log is full");
        // SAFETY: `first` is at least 1, and `count` follows it within the limits given at the fields.
        unsafe {
            *self.words.get_unchecked_mut(first - 1) = head;
            *self.words.get_unchecked_mut(count) = target;
        }
        self.first = count + usize::from(has_target) + 1;
        self.count = self.first;
    }

    /// Number of deferred words.
    #[inline(always)]
    pub fn deferred_words(&self) -> usize {
        self.first - 1
    }

    /// The deferred words.
    pub fn deferred(&self) -> &[u64] {
        &self.words[..self.first - 1]
    }

    /// Drops the deferred words after they were emitted; the running block's addresses move to the front.
    pub fn clear_deferred(&mut self) {
        self.words.copy_within(self.first..self.count, 1);
        self.count -= self.first - 1;
        self.first = 1;
    }
}
