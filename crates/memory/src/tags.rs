//! The tags of one cache: which lines are there, in which state, since when, and who goes next.
//!
//! What a look-up needs of a set stands in one block that begins with a line of the host's memory and is as short as can
//! be: one such line for up to 9 ways, two for up to 22. When lines arrive stands apart, as it is asked for only shortly after they
//! have come. A tag is the whole line number. Data are not here: they are in RAM.

mod flags;
mod quick;

use doorbell_sim::ports::PhysAddr;
use serde::{Deserialize, Serialize};

use crate::aligned::Aligned;
use crate::replacement::{ORDER_AT_FIRST, Replacement, Replacer, ReplacerState};
use crate::slices::Slices;
use crate::ways::{WAYS_MAX, WayMask};

pub(crate) use flags::Flags;
use quick::{Foremost, NOBODY, fixed, quick_use, ways_of};
pub(crate) use quick::{Quick, ways_of_many};

/// No line.
const EMPTY: u32 = u32::MAX;

/// A line that has left a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evicted {
    pub line: u32,
    pub flags: Flags,
    /// From which level it had come, as a number below 8.
    pub level: u8,
}

/// Bits of a line's word, in a snapshot, below the time.
const READY_SHIFT: u32 = 11;
/// Where the level from which the line comes stands in the word; below are the flags.
const LEVEL_SHIFT: u32 = 8;

/// Words of 32 bits at the beginning of a set's block: two for the order, the free ways, the latest arrival.
const HEADER: usize = 4;
/// Where in a block the ways stand that have no line.
const FREE: usize = 2;
/// Where the time stands from which every line of the set is there, in units of 2 to the [`LATEST_SHIFT`] cycles.
const LATEST: usize = 3;
const LATEST_SHIFT: u32 = 10;

/// Bits of a [`Slot`] that are the way.
const WAY_BITS: u32 = 5;

/// A line's place: set and way in one number, which is returned in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u64);

impl Slot {
    #[inline]
    fn new(set: u32, way: u32) -> Slot {
        Slot(u64::from(set) << WAY_BITS | u64::from(way))
    }

    #[inline]
    fn set(self) -> u32 {
        (self.0 >> WAY_BITS) as u32
    }

    /// Its way.
    #[inline]
    pub fn way(self) -> u32 {
        self.0 as u32 & (WAYS_MAX - 1)
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Tags {
    ways: usize,
    sets: u32,
    /// How sets are chosen, if not by the lowest bits of the line's number.
    slices: Option<Slices>,
    /// Words of a set's block.
    stride: usize,
    /// A block a set: header, tags, flags in a byte each.
    blocks: Aligned<u32>,
    /// Of each line when it is there, and in the lowest three bits from which level it comes.
    ready: Aligned<u64>,
    replacer: Replacer,
    /// Each set's foremost line, where [`Tags::quick_use`] is asked: a shortcut, of which nothing can be told from outside.
    foremost: Vec<Foremost>,
}

/// What a snapshot keeps besides the order of replacement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TagsState {
    lines: Vec<u32>,
    /// Of each line when it is there, from which level it comes, and its flags.
    words: Vec<u64>,
}

/// From when on a line that comes at `at` is there, in units. Beyond all units nothing counts as settled.
#[inline]
fn settled_from(at: u64) -> u32 {
    let units = (at >> LATEST_SHIFT) + 1;
    if units >> 32 == 0 { units as u32 } else { u32::MAX }
}

#[inline]
fn order_of(block: &[u32]) -> u64 {
    u64::from(block[0]) | u64::from(block[1]) << 32
}

impl Tags {
    /// An empty cache of `sets` sets, a power of two unless it is [divided](Tags::divide).
    pub fn new(sets: u32, ways: u32, replacement: Replacement) -> Tags {
        assert!((1..=WAYS_MAX).contains(&ways));
        let slots = (sets * ways) as usize;
        let words = HEADER + ways as usize + ways.div_ceil(4) as usize;
        // From half a line to half a line: a block lies across no more lines of the host than it has to.
        let stride = if words <= 16 { 16 } else { words.next_multiple_of(8) };
        // Caches of one machine differ in size.
        let place = 5 * sets.ilog2() as usize;
        let mut tags = Tags {
            ways: ways as usize,
            sets,
            slices: None,
            stride,
            blocks: Aligned::new(sets as usize * stride, 0, place),
            ready: Aligned::new(slots, 0, place + 32),
            replacer: Replacer::new(sets, ways, replacement),
            foremost: Vec::new(),
        };
        for set in 0..sets {
            let block = tags.block_mut(set);
            block[FREE] = WayMask::first(ways).0;
            block[HEADER..HEADER + ways as usize].fill(EMPTY);
            tags.set_order(set, ORDER_AT_FIRST);
        }
        tags
    }

    /// Puts an empty cache of RAM from `base` on into so many slices, over which pages are scattered or not.
    pub fn divide(&mut self, slices: u32, scatter: bool, base: PhysAddr) {
        self.slices = (slices > 1 || scatter).then(|| Slices::new(slices, scatter, self.sets, base));
    }

    #[inline]
    fn set(&self, line: u32) -> u32 {
        match &self.slices {
            None => line & (self.sets - 1),
            Some(slices) => slices.set(line),
        }
    }

    /// The slice of a line.
    #[inline]
    pub fn slice(&self, line: u32) -> usize {
        self.slices.as_ref().map_or(0, |slices| slices.slice(line) as usize)
    }

    #[inline]
    fn block(&self, set: u32) -> &[u32] {
        self.blocks.part(set as usize * self.stride, self.stride)
    }

    #[inline]
    fn block_mut(&mut self, set: u32) -> &mut [u32] {
        self.changed(set);
        self.blocks.part_mut(set as usize * self.stride, self.stride)
    }

    #[inline]
    fn set_order(&mut self, set: u32, order: u64) {
        let block = self.block_mut(set);
        (block[0], block[1]) = (order as u32, (order >> 32) as u32);
    }

    /// The lines of a set, way by way.
    #[inline]
    fn tags(&self, set: u32) -> &[u32] {
        &self.block(set)[HEADER..HEADER + self.ways]
    }

    fn line(&self, slot: Slot) -> u32 {
        self.tags(slot.set())[slot.way() as usize]
    }

    /// Where the line is.
    #[inline]
    pub fn find(&self, line: u32) -> Option<Slot> {
        let set = self.set(line);
        let first = set as usize * self.stride;
        let found = match self.ways {
            8 => ways_of::<8>(fixed(&self.blocks.chunk::<16>(first)[HEADER..]), line),
            16 => ways_of::<16>(fixed(&self.blocks.chunk::<24>(first)[HEADER..]), line),
            4 => ways_of::<4>(fixed(&self.blocks.chunk::<16>(first)[HEADER..]), line),
            ways => ways_of_many(self.blocks.part(first + HEADER, ways), line),
        };
        if found == 0 { None } else { Some(Slot::new(set, found.trailing_zeros())) }
    }

    /// From now on [`Tags::quick_use`] may be tried, if it can be.
    pub fn be_quick(&mut self) -> bool {
        let can = self.replacer.is_order() && matches!(self.ways, 4 | 8) && self.slices.is_none();
        self.foremost = vec![NOBODY; if can { self.sets as usize } else { 0 }];
        can
    }

    /// A set has changed.
    #[inline]
    fn changed(&mut self, set: u32) {
        if let Some(foremost) = self.foremost.get_mut(set as usize) {
            foremost.line = EMPTY;
        }
    }

    /// The most frequent access in as few steps as can be: the line is there and was at `t`, it need not change its state
    /// for a reader or, if it is `own`ed, for a writer, and only its use is noted. Otherwise nothing happens.
    #[inline(always)]
    pub fn quick_use(&mut self, line: u32, t: u64, own: bool) -> Quick {
        let set = (line & (self.sets - 1)) as usize;
        let foremost = &mut self.foremost[set];
        if foremost.line == line && foremost.is_settled(t) && (!own || foremost.flags.takes_stores()) {
            return Quick::Used(foremost.flags);
        }
        let (first, four) = (set * self.stride, self.ways == 4);
        let block: &mut [u32; 16] = self.blocks.chunk_mut(first);
        let quick =
            if four { quick_use::<4>(block, line, t, own) } else { quick_use::<8>(block, line, t, own) };
        if let Quick::Used(flags) = quick {
            *foremost = Foremost { line, settled: block[LATEST], flags };
        }
        quick
    }

    /// Where in its block a line's flags stand: the word and the shift.
    #[inline]
    fn flags_at(&self, way: u32) -> (usize, u32) {
        (HEADER + self.ways + way as usize / 4, way % 4 * 8)
    }

    #[inline]
    pub fn flags(&self, slot: Slot) -> Flags {
        let (word, shift) = self.flags_at(slot.way());
        Flags((self.block(slot.set())[word] >> shift) as u8)
    }

    #[inline]
    pub fn set_flags(&mut self, slot: Slot, flags: Flags) {
        let (word, shift) = self.flags_at(slot.way());
        let word = &mut self.block_mut(slot.set())[word];
        *word = *word & !(0xff << shift) | u32::from(flags.0) << shift;
    }

    #[inline]
    fn ready_at(&self, slot: Slot) -> usize {
        slot.set() as usize * self.ways + slot.way() as usize
    }

    /// Whether the line is certainly there at `t`: a quick look at its set.
    #[inline]
    pub fn is_settled(&self, slot: Slot, t: u64) -> bool {
        t >> LATEST_SHIFT >= u64::from(self.block(slot.set())[LATEST])
    }

    /// When the line is there, and from which level it comes, as a number below 8.
    #[inline]
    pub fn ready(&self, slot: Slot) -> (u64, u8) {
        let word = *self.ready.one(self.ready_at(slot));
        (word >> 3, (word & 7) as u8)
    }

    #[inline]
    pub fn set_ready(&mut self, slot: Slot, at: u64, level: u8) {
        let place = self.ready_at(slot);
        *self.ready.one_mut(place) = at << 3 | u64::from(level);
        if at > 0 {
            let latest = &mut self.block_mut(slot.set())[LATEST];
            *latest = settled_from(at).max(*latest);
        }
    }

    /// A use of the line, as replacement sees it.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        self.changed(slot.set());
        let block = self.blocks.chunk_mut::<2>(slot.set() as usize * self.stride);
        let mut order = order_of(block);
        self.replacer.touch(&mut order, slot.set() as usize, slot.way() as usize);
        (block[0], block[1]) = (order as u32, (order >> 32) as u32);
    }

    /// A look-up on demand has not found the line.
    #[inline]
    pub fn missed(&mut self, line: u32) {
        if self.replacer.duels() {
            let set = self.set(line) as usize;
            self.replacer.missed(set);
        }
    }

    /// Puts a line in, which must not be there, into one of the ways of `mask`; what was there leaves. The line comes at
    /// `at` from a level with this number. `reused`: it was used here before.
    #[inline]
    pub fn insert(
        &mut self,
        line: u32,
        flags: Flags,
        mask: u32,
        (at, level): (u64, u8),
        reused: bool,
    ) -> (Slot, Option<Evicted>) {
        let (set, ways) = (self.set(line), self.ways);
        self.changed(set);
        let block = self.blocks.part_mut(set as usize * self.stride, self.stride);
        let mut order = order_of(block);
        let free = block[FREE] & mask;
        let way = match free {
            0 => self.replacer.victim(order, set as usize, mask),
            _ => free.trailing_zeros() as usize,
        };
        self.replacer.insert(&mut order, set as usize, way, reused);
        (block[0], block[1]) = (order as u32, (order >> 32) as u32);
        block[FREE] &= !(1 << way);
        if at > 0 {
            block[LATEST] = block[LATEST].max(settled_from(at));
        }
        let old_line = std::mem::replace(&mut block[HEADER + way], line);
        let (word, shift) = (HEADER + ways + way / 4, way % 4 * 8);
        let old_flags = Flags((block[word] >> shift) as u8);
        block[word] = block[word] & !(0xff << shift) | u32::from(flags.0) << shift;
        let ready = self.ready.one_mut(set as usize * ways + way);
        let old_level = (std::mem::replace(ready, at << 3 | u64::from(level)) & 7) as u8;
        let old = Evicted { line: old_line, flags: old_flags, level: old_level };
        let gone = if free == 0 { Some(old) } else { None };
        (Slot::new(set, way as u32), gone)
    }

    /// Takes a line out.
    pub fn remove(&mut self, slot: Slot) -> Flags {
        let flags = self.flags(slot);
        self.set_flags(slot, Flags(0));
        let place = self.ready_at(slot);
        *self.ready.one_mut(place) = 0;
        let block = self.block_mut(slot.set());
        block[HEADER + slot.way() as usize] = EMPTY;
        block[FREE] |= 1 << slot.way();
        flags
    }

    /// Every place, empty ones too.
    fn slots(&self) -> impl Iterator<Item = Slot> + use<> {
        let ways = self.ways as u32;
        (0..self.sets).flat_map(move |set| (0..ways).map(move |way| Slot::new(set, way)))
    }

    /// Every line that is there, with its place.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, u32)> {
        self.slots().map(|slot| (slot, self.line(slot))).filter(|(_, line)| *line != EMPTY)
    }

    /// A set's lines, the one used last first. For tests: only LRU has an order.
    #[cfg(test)]
    pub fn in_order(&self, set: u32) -> Vec<(u32, Flags)> {
        let mut slots: Vec<Slot> = self.slots().filter(|slot| slot.set() == set).collect();
        slots.retain(|slot| self.line(*slot) != EMPTY);
        let order = order_of(self.block(set));
        slots.sort_by_key(|slot| {
            std::cmp::Reverse(self.replacer.rank(order, set as usize, slot.way() as usize))
        });
        slots.iter().map(|slot| (self.line(*slot), self.flags(*slot))).collect()
    }

    /// The selector of DRRIP's duel.
    #[cfg(test)]
    pub fn selector(&self) -> u16 {
        self.replacer.selector()
    }

    /// Bytes that the tags take on the host.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.blocks.bytes() + self.ready.bytes() + self.replacer.bytes()
    }

    pub fn save(&self) -> (TagsState, ReplacerState) {
        let word = |slot| {
            let (at, level) = self.ready(slot);
            at << READY_SHIFT | u64::from(level) << LEVEL_SHIFT | u64::from(self.flags(slot).0)
        };
        let lines = self.slots().map(|slot| self.line(slot)).collect();
        let state = TagsState { lines, words: self.slots().map(word).collect() };
        let orders = (0..self.sets).map(|set| order_of(self.block(set)));
        (state, self.replacer.save(orders))
    }

    /// Says what is impossible about a saved state, for a memory of `lines` lines and with nothing after `latest`.
    pub fn check(
        &self,
        (state, replacer): &(TagsState, ReplacerState),
        lines: u32,
        latest: u64,
    ) -> Result<(), String> {
        let slots = self.slots().count();
        if [state.lines.len(), state.words.len()] != [slots; 2] {
            return Err(format!("tags of {} lines for {slots}", state.lines.len()));
        }
        for (set, tags) in state.lines.chunks_exact(self.ways).enumerate() {
            for (way, line) in tags.iter().enumerate().filter(|(_, line)| **line != EMPTY) {
                let word = state.words[set * self.ways + way];
                if *line >= lines || self.set(*line) as usize != set || tags[..way].contains(line) {
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
        let orders = self.replacer.restore(replacer);
        for (set, order) in (0..).zip(orders) {
            self.set_order(set, order);
        }
        for set in 0..self.sets {
            (self.block_mut(set)[FREE], self.block_mut(set)[LATEST]) = (0, 0);
        }
        for (slot, (line, word)) in self.slots().zip(state.lines.into_iter().zip(state.words)) {
            self.set_flags(slot, Flags(word as u8));
            self.set_ready(slot, word >> READY_SHIFT, (word >> LEVEL_SHIFT & 7) as u8);
            let block = self.block_mut(slot.set());
            block[HEADER + slot.way() as usize] = line;
            block[FREE] |= u32::from(line == EMPTY) << slot.way();
        }
    }
}
