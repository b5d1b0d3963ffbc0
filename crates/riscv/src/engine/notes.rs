//! What a hart that notes has noted: the addresses that the running block has accessed, and before them blocks that are held back to be
//! told together ([`known`](super::known)), each as it is told: a head, and its addresses. So the addresses of a block that is held back stay
//! where they were noted.

use doorbell_sim::memory::LINE_BYTES;

use super::BLOCK_OPS;

/// Words that are held back, give or take a block.
pub(super) const HELD_WORDS: usize = 1 << 9;
/// Words of a block at most: a head, an address for each of its ops, and where it went.
const BLOCK_WORDS: usize = BLOCK_OPS + 2;
/// The last block that is held back begins within the first so many, and the running one is behind it.
const WORDS: usize = HELD_WORDS + 2 * BLOCK_WORDS;

/// When nothing was told.
pub(super) const NEVER: u64 = u64::MAX;

/// See the module.
pub(crate) struct Notes {
    /// What is held back; a place for the head of the running block; its addresses.
    words: [u64; WORDS],
    /// Where the running block's addresses begin: from 1 to `HELD_WORDS + BLOCK_WORDS`.
    first: usize,
    /// Where the next one goes: from `first` to `BLOCK_OPS` behind it.
    count: usize,
    /// When pages must have been told, of what may be held back.
    now: u64,
    /// Not 0 if a page that the running block has accessed may have been told at another time, or never: all bits in which these differ.
    untold: u64,
    /// An access has crossed a line since this was asked last.
    crossed: bool,
}

impl Default for Notes {
    fn default() -> Notes {
        Notes { words: [0; WORDS], first: 1, count: 1, now: NEVER, untold: 0, crossed: false }
    }
}

impl Notes {
    /// Nothing is noted yet of the block that runs next.
    #[inline(always)]
    pub fn forget(&mut self) {
        self.count = self.first;
        self.untold = 0;
    }

    /// When pages must have been told from now on, of which nothing was asked yet; [`NEVER`] if nothing may be held back.
    pub fn expect(&mut self, now: u64) {
        self.now = now;
    }

    /// The same, as it is.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Notes an address of the running block, and when its page was told as far as the TLB knows.
    ///
    /// # Safety
    /// No more are noted of a block than it has ops.
    #[inline(always)]
    pub unsafe fn note(&mut self, address: u64, told: u64) {
        // SAFETY: the block's addresses begin at `HELD_WORDS + BLOCK_WORDS` at most, and as many places are behind as a block has ops.
        unsafe { *self.words.get_unchecked_mut(self.count) = address };
        self.count += 1;
        self.untold |= told ^ self.now;
    }

    /// Whether all pages that the running block has accessed were told when they must have been.
    #[inline(always)]
    pub fn are_told(&self) -> bool {
        self.untold == 0
    }

    /// It was found out that they were.
    pub fn were_told(&mut self) {
        self.untold = 0;
    }

    /// The running block's addresses.
    pub fn addresses(&self) -> &[u64] {
        &self.words[self.first..self.count]
    }

    /// The `nth` of them.
    #[inline]
    pub fn address(&self, nth: usize) -> u64 {
        self.words[self.first + nth]
    }

    /// Notes that an access may cross a line.
    pub fn crosses(&mut self, virt: u64, bytes: u64) {
        self.crossed |= virt % LINE_BYTES + bytes > LINE_BYTES;
    }

    /// Whether an access has crossed a line since this was asked last.
    pub fn take_crossed(&mut self) -> bool {
        std::mem::take(&mut self.crossed)
    }

    /// Holds the running block back, whose pages were told, with where it went if that is told, and nothing is noted of the next one. Whoever holds more than
    /// [`HELD_WORDS`] lets them go before that.
    #[inline(always)]
    pub fn hold(&mut self, head: u64, target: u64, has_target: bool) {
        let Notes { first, count, .. } = *self;
        assert!(first <= HELD_WORDS, "what is held back is told before it is too much");
        // SAFETY: `first` is 1 at least and `count` is behind it, at most as far as is said of them.
        unsafe {
            *self.words.get_unchecked_mut(first - 1) = head;
            *self.words.get_unchecked_mut(count) = target;
        }
        self.first = count + usize::from(has_target) + 1;
        self.count = self.first;
    }

    /// How many words are held back.
    #[inline(always)]
    pub fn holds(&self) -> usize {
        self.first - 1
    }

    /// What is held back.
    pub fn held(&self) -> &[u64] {
        &self.words[..self.first - 1]
    }

    /// It has been told: the running block's addresses move to the front.
    pub fn let_go(&mut self) {
        self.words.copy_within(self.first..self.count, 1);
        self.count -= self.first - 1;
        self.first = 1;
    }
}
