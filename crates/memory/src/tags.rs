//! The tags of one cache: which lines are there, in which state, since when, and who goes next.
//!
//! Arrays of one field each, indexed by set · ways + way, so that a look-up touches one or two lines of the host's
//! memory. A tag is the whole line number. Data are not here: they are in RAM.

use serde::{Deserialize, Serialize};

use crate::class::DataClass;
use crate::replacement::{Replacement, Replacer, ReplacerState};

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

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Tags {
    ways: usize,
    set_mask: u32,
    state: TagsState,
    replacer: Replacer,
}

/// What a snapshot keeps besides the order of replacement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TagsState {
    lines: Vec<u32>,
    /// When each line is there, and what [`Tags::set_ready`] says with it.
    ready: Vec<u64>,
    flags: Vec<Flags>,
    /// The way of each set that was used last, where a look-up begins.
    last: Vec<u8>,
}

impl Tags {
    /// An empty cache of `sets` sets, a power of two.
    pub fn new(sets: u32, ways: u32, replacement: Replacement) -> Tags {
        assert!(sets.is_power_of_two() && (1..=crate::ways::WAYS_MAX).contains(&ways));
        let slots = (sets * ways) as usize;
        let state = TagsState {
            lines: vec![EMPTY; slots],
            ready: vec![0; slots],
            flags: vec![Flags(0); slots],
            last: vec![0; sets as usize],
        };
        Tags {
            ways: ways as usize,
            set_mask: sets - 1,
            state,
            replacer: Replacer::new(sets, ways, replacement),
        }
    }

    fn set(&self, line: u32) -> usize {
        (line & self.set_mask) as usize
    }

    /// Where the line is.
    #[inline]
    pub fn find(&self, line: u32) -> Option<usize> {
        let set = self.set(line);
        let first = set * self.ways;
        let likely = first + self.state.last[set] as usize;
        if self.state.lines[likely] == line {
            return Some(likely);
        }
        let lines = &self.state.lines[first..first + self.ways];
        lines.iter().position(|tag| *tag == line).map(|way| first + way)
    }

    #[inline]
    pub fn flags(&self, slot: usize) -> Flags {
        self.state.flags[slot]
    }

    #[inline]
    pub fn set_flags(&mut self, slot: usize, flags: Flags) {
        self.state.flags[slot] = flags;
    }

    /// When the line is there, and from which level it comes, as a number below 8.
    #[inline]
    pub fn ready(&self, slot: usize) -> (u64, u8) {
        let word = self.state.ready[slot];
        (word >> 3, (word & 7) as u8)
    }

    pub fn set_ready(&mut self, slot: usize, at: u64, level: u8) {
        self.state.ready[slot] = at << 3 | u64::from(level);
    }

    /// A use of the line, as replacement sees it.
    #[inline]
    pub fn touch(&mut self, slot: usize, line: u32) {
        let set = self.set(line);
        let way = slot - set * self.ways;
        if self.replacer.wants_touch(slot, self.state.last[set] as usize == way) {
            self.replacer.touch(slot);
            self.state.last[set] = way as u8;
        }
    }

    /// Puts a line in, which must not be there, into one of the ways of `mask`; what was there leaves.
    pub fn insert(&mut self, line: u32, flags: Flags, mask: u32) -> (usize, Option<Gone>) {
        let set = self.set(line);
        let first = set * self.ways;
        let lines = &self.state.lines[first..first + self.ways];
        let free = lines.iter().enumerate().position(|(way, tag)| *tag == EMPTY && mask >> way & 1 != 0);
        let way = free.unwrap_or_else(|| self.replacer.victim(set, mask));
        let slot = first + way;
        let gone = match self.state.lines[slot] {
            EMPTY => None,
            line => Some(Gone { line, flags: self.state.flags[slot] }),
        };
        self.state.lines[slot] = line;
        self.state.flags[slot] = flags;
        self.state.ready[slot] = 0;
        self.state.last[set] = way as u8;
        self.replacer.insert(set, slot);
        (slot, gone)
    }

    /// Takes a line out.
    pub fn remove(&mut self, slot: usize) -> Flags {
        self.state.lines[slot] = EMPTY;
        std::mem::replace(&mut self.state.flags[slot], Flags(0))
    }

    /// Every line that is there, with its place.
    pub fn iter(&self) -> impl Iterator<Item = (usize, u32)> {
        let lines = self.state.lines.iter().copied().enumerate();
        lines.filter(|(_, line)| *line != EMPTY)
    }

    /// A set's lines, the one used last first, by the order of replacement. For tests: only LRU has an order.
    #[cfg(test)]
    pub fn in_order(&self, set: u32) -> Vec<(u32, Flags)> {
        let first = set as usize * self.ways;
        let mut slots: Vec<usize> = (first..first + self.ways).collect();
        slots.retain(|slot| self.state.lines[*slot] != EMPTY);
        slots.sort_by_key(|slot| std::cmp::Reverse(self.replacer.rank(*slot)));
        slots.iter().map(|slot| (self.state.lines[*slot], self.state.flags[*slot])).collect()
    }

    pub fn save(&self) -> (TagsState, ReplacerState) {
        (self.state.clone(), self.replacer.save())
    }

    /// Says what is impossible about a saved state for a memory of `lines` lines.
    pub fn check(&self, (state, replacer): &(TagsState, ReplacerState), lines: u32) -> Result<(), String> {
        let slots = self.state.lines.len();
        if [state.lines.len(), state.ready.len(), state.flags.len()] != [slots; 3]
            || state.last.len() != self.state.last.len()
        {
            return Err(format!("tags of {} lines for {slots}", state.lines.len()));
        }
        if state.last.iter().any(|way| usize::from(*way) >= self.ways) {
            return Err("a way that does not exist".to_owned());
        }
        for (set, tags) in state.lines.chunks_exact(self.ways).enumerate() {
            for (way, line) in tags.iter().enumerate().filter(|(_, line)| **line != EMPTY) {
                let slot = set * self.ways + way;
                if *line >= lines || self.set(*line) != set || tags[..way].contains(line) {
                    return Err(format!("line {line} cannot be in set {set}"));
                }
                if !state.flags[slot].is_possible() || state.ready[slot] >> 3 > 1 << 47 {
                    return Err(format!("line {line} has an impossible state"));
                }
            }
        }
        self.replacer.check(replacer)
    }

    pub fn restore(&mut self, (state, replacer): (TagsState, ReplacerState)) {
        self.state = state;
        self.replacer.restore(replacer);
    }
}
