//! The tags of one cache: which lines are there, in which state, since when, and who goes next.
//!
//! Arrays of one field each, indexed by set · ways + way, so that a look-up touches one or two lines of the host's
//! memory. A tag is the whole line number. Data are not here: they are in RAM.

use serde::{Deserialize, Serialize};

use crate::class::DataClass;
use crate::replacement::{Replacement, Replacer, ReplacerState};
use crate::ways::{WAYS_MAX, WayMask};

/// No line.
const EMPTY: u32 = u32::MAX;

/// What is known of a line besides its number, in one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Flags(pub u8);

impl Flags {
    /// Readable, and so perhaps elsewhere too.
    pub const SHARED: Flags = Flags(1);
    /// Nobody else has it; unwritten.
    pub const EXCLUSIVE: Flags = Flags(2);
    /// Nobody else has it; newer than what lies below.
    pub const MODIFIED: Flags = Flags(3);
    const STATE: u8 = 3;
    /// Fetched ahead and not used yet.
    const PREFETCHED: u8 = 4;
    /// Written by a device and not used yet.
    const FRESH: u8 = 8;
    const CLASS_SHIFT: u8 = 4;

    pub const fn state(self) -> Flags {
        Flags(self.0 & Flags::STATE)
    }

    pub const fn is_writable(self) -> bool {
        self.0 & 2 != 0
    }

    pub const fn is_dirty(self) -> bool {
        self.0 & Flags::STATE == 3
    }

    pub const fn is_prefetched(self) -> bool {
        self.0 & Flags::PREFETCHED != 0
    }

    /// Written by a device, and used neither by a core nor by a device since.
    pub const fn is_fresh(self) -> bool {
        self.0 & Flags::FRESH != 0
    }

    pub const fn class(self) -> DataClass {
        DataClass::from_bits(self.0 >> Flags::CLASS_SHIFT & 7)
    }

    pub const fn with_state(self, state: Flags) -> Flags {
        Flags(self.0 & !Flags::STATE | state.0)
    }

    pub const fn with_class(self, class: DataClass) -> Flags {
        Flags(self.0 & 0xf | (class as u8) << Flags::CLASS_SHIFT)
    }

    pub const fn with_prefetched(self, yes: bool) -> Flags {
        Flags(self.0 & !Flags::PREFETCHED | (yes as u8) << 2)
    }

    pub const fn with_fresh(self, yes: bool) -> Flags {
        Flags(self.0 & !Flags::FRESH | (yes as u8) << 3)
    }

    fn is_possible(self) -> bool {
        self.0 & Flags::STATE != 0 && self.0 >> Flags::CLASS_SHIFT < DataClass::COUNT as u8
    }
}

/// A line that has left a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    pub line: u32,
    pub flags: Flags,
}

/// Bits of a line's word below the time.
const READY_SHIFT: u32 = 11;
/// Where the level from which the line comes stands in the word; below are the flags.
const LEVEL_SHIFT: u32 = 8;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Tags {
    ways: usize,
    set_mask: u32,
    /// The ways of each set that have no line.
    free: Vec<u32>,
    state: TagsState,
    replacer: Replacer,
}

/// What a snapshot keeps besides the order of replacement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TagsState {
    lines: Vec<u32>,
    /// Of each line when it is there, from which level it comes, and its flags.
    words: Vec<u64>,
}

impl Tags {
    /// An empty cache of `sets` sets, a power of two.
    pub fn new(sets: u32, ways: u32, replacement: Replacement) -> Tags {
        assert!(sets.is_power_of_two() && (1..=WAYS_MAX).contains(&ways));
        let slots = (sets * ways) as usize;
        Tags {
            ways: ways as usize,
            set_mask: sets - 1,
            free: vec![WayMask::first(ways).0; sets as usize],
            state: TagsState { lines: vec![EMPTY; slots], words: vec![0; slots] },
            replacer: Replacer::new(sets, ways, replacement),
        }
    }

    #[inline]
    fn set(&self, line: u32) -> usize {
        (line & self.set_mask) as usize
    }

    /// Where the line is.
    #[inline]
    pub fn find(&self, line: u32) -> Option<usize> {
        let set = self.set(line);
        let first = set * self.ways;
        let likely = first + self.replacer.likely(set);
        if self.state.lines[likely] == line { Some(likely) } else { self.scan(first, line) }
    }

    #[inline]
    fn scan(&self, first: usize, line: u32) -> Option<usize> {
        let (fours, rest) = self.state.lines[first..first + self.ways].as_chunks::<4>();
        for (chunk, four) in fours.iter().enumerate() {
            let way = match () {
                _ if four[0] == line => 0,
                _ if four[1] == line => 1,
                _ if four[2] == line => 2,
                _ if four[3] == line => 3,
                _ => continue,
            };
            return Some(first + 4 * chunk + way);
        }
        rest.iter().position(|tag| *tag == line).map(|way| first + 4 * fours.len() + way)
    }

    #[inline]
    pub fn flags(&self, slot: usize) -> Flags {
        Flags(self.state.words[slot] as u8)
    }

    #[inline]
    pub fn set_flags(&mut self, slot: usize, flags: Flags) {
        let word = &mut self.state.words[slot];
        *word = *word & !0xff | u64::from(flags.0);
    }

    /// When the line is there, and from which level it comes, as a number below 8.
    #[inline]
    pub fn ready(&self, slot: usize) -> (u64, u8) {
        let word = self.state.words[slot];
        (word >> READY_SHIFT, (word >> LEVEL_SHIFT & 7) as u8)
    }

    #[inline]
    pub fn set_ready(&mut self, slot: usize, at: u64, level: u8) {
        let word = &mut self.state.words[slot];
        *word = at << READY_SHIFT | u64::from(level) << LEVEL_SHIFT | *word & 0xff;
    }

    /// A use of the line, as replacement sees it.
    #[inline]
    pub fn touch(&mut self, slot: usize, line: u32) {
        let set = self.set(line);
        self.replacer.touch(set, slot - set * self.ways);
    }

    /// Puts a line in, which must not be there, into one of the ways of `mask`; what was there leaves.
    pub fn insert(&mut self, line: u32, flags: Flags, mask: u32) -> (usize, Option<Gone>) {
        let set = self.set(line);
        let free = self.free[set] & mask;
        let (way, taken) = match free {
            0 => (self.replacer.victim(set, mask), true),
            _ => (free.trailing_zeros() as usize, false),
        };
        self.free[set] &= !(1 << way);
        let slot = set * self.ways + way;
        let (old_line, old_word) = (&mut self.state.lines[slot], &mut self.state.words[slot]);
        let gone = Gone { line: *old_line, flags: Flags(*old_word as u8) };
        (*old_line, *old_word) = (line, u64::from(flags.0));
        self.replacer.insert(set, way);
        (slot, taken.then_some(gone))
    }

    /// Takes a line out.
    pub fn remove(&mut self, slot: usize) -> Flags {
        let line = std::mem::replace(&mut self.state.lines[slot], EMPTY);
        let set = self.set(line);
        self.free[set] |= 1 << (slot - set * self.ways);
        Flags(std::mem::replace(&mut self.state.words[slot], 0) as u8)
    }

    /// Every line that is there, with its place.
    pub fn iter(&self) -> impl Iterator<Item = (usize, u32)> {
        let lines = self.state.lines.iter().copied().enumerate();
        lines.filter(|(_, line)| *line != EMPTY)
    }

    /// A set's lines, the one used last first. For tests: only LRU has an order.
    #[cfg(test)]
    pub fn in_order(&self, set: u32) -> Vec<(u32, Flags)> {
        let first = set as usize * self.ways;
        let mut ways: Vec<usize> = (0..self.ways).collect();
        ways.retain(|way| self.state.lines[first + way] != EMPTY);
        ways.sort_by_key(|way| std::cmp::Reverse(self.replacer.rank(set as usize, *way)));
        ways.iter().map(|way| (self.state.lines[first + way], self.flags(first + way))).collect()
    }

    /// Bytes that the tags take on the host.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        let state = 4 * self.state.lines.len() + 8 * self.state.words.len() + 4 * self.free.len();
        state + self.replacer.bytes()
    }

    pub fn save(&self) -> (TagsState, ReplacerState) {
        (self.state.clone(), self.replacer.save())
    }

    /// Says what is impossible about a saved state, for a memory of `lines` lines and with nothing after `latest`.
    pub fn check(
        &self,
        (state, replacer): &(TagsState, ReplacerState),
        lines: u32,
        latest: u64,
    ) -> Result<(), String> {
        let slots = self.state.lines.len();
        if [state.lines.len(), state.words.len()] != [slots; 2] {
            return Err(format!("tags of {} lines for {slots}", state.lines.len()));
        }
        for (set, tags) in state.lines.chunks_exact(self.ways).enumerate() {
            for (way, line) in tags.iter().enumerate().filter(|(_, line)| **line != EMPTY) {
                let word = state.words[set * self.ways + way];
                if *line >= lines || self.set(*line) != set || tags[..way].contains(line) {
                    return Err(format!("line {line} cannot be in set {set}"));
                }
                if !Flags(word as u8).is_possible() || word >> READY_SHIFT > latest {
                    return Err(format!("line {line} has an impossible state"));
                }
            }
        }
        self.replacer.check(replacer)
    }

    pub fn restore(&mut self, (state, replacer): (TagsState, ReplacerState)) {
        self.state = state;
        self.replacer.restore(replacer);
        for (free, set) in self.free.iter_mut().zip(self.state.lines.chunks_exact(self.ways)) {
            let empty = set.iter().enumerate().filter(|(_, line)| **line == EMPTY);
            *free = empty.fold(0, |free, (way, _)| free | 1 << way);
        }
    }
}
