//! The tags of one cache: lines, their states, arrival times and replacement order.
//!
//! The words that a look-up of a set needs form one block, which starts at a host cache line and is as short
//! as possible: one host line for up to 9 ways, two for up to 22. Arrival times are separate, since they are
//! needed only shortly after a line's arrival. A tag is the whole line number. Data are in RAM, not here.

mod flags;
mod quick;

use std::marker::PhantomData;

use doorbell_sim::{Cycle, Domain, PhysAddr};
use serde::{Deserialize, Serialize};

use crate::aligned::Aligned;
use crate::replacement::{INITIAL_ORDER, Replacement, Replacer, ReplacerState};
use crate::slices::Slices;
use crate::ways::{WAYS_MAX, WayMask};

pub(crate) use flags::Flags;
use quick::{MruEntry, NO_MRU, fixed, quick_use, ways_of};
pub(crate) use quick::{Quick, ways_of_many};

/// Tag of an empty way.
const EMPTY: u32 = u32::MAX;

/// A line that was evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evicted {
    pub line: u32,
    pub flags: Flags,
    /// Level that it had come from, a number below 8.
    pub level: u8,
}

/// Position of the time in a saved line's word.
const READY_SHIFT: u32 = 11;
/// Position of the level that the line came from; the flags are below it.
const LEVEL_SHIFT: u32 = 8;

/// 32-bit words at the start of a set's block: two for the order, the free ways, the latest arrival.
const HEADER: usize = 4;
/// Word of the mask of free ways.
const FREE: usize = 2;
/// Word of the time by which every line of the set has arrived, in units of 2 to the [`LATEST_SHIFT`] cycles.
const LATEST: usize = 3;
const LATEST_SHIFT: u32 = 10;

/// Number of bits of a [`Slot`] for the way.
const WAY_BITS: u32 = 5;

/// Set and way of a line in one number, so that it is returned in a register.
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

    /// The way.
    #[inline]
    pub fn way(self) -> u32 {
        self.0 as u32 & (WAYS_MAX - 1)
    }
}

/// Tags of one cache in clock domain `D`; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Tags<D> {
    ways: usize,
    sets: u32,
    /// Index function of the sets, if not the lowest bits of the line number.
    slices: Option<Slices>,
    /// Words per set block.
    stride: usize,
    /// A block per set: header, tags, and a byte of flags per way.
    blocks: Aligned<u32>,
    /// Per line, its arrival time, and in the lowest three bits the level that it comes from.
    ready: Aligned<u64>,
    replacer: Replacer,
    /// Most recently used line of each set, if [`Tags::quick_use`] is enabled: a host-side shortcut without
    /// visible effect.
    mru: Vec<MruEntry>,
    clock: PhantomData<D>,
}

/// Saved state with the replacement order.
pub(crate) type SavedTags = (TagsState, ReplacerState);

/// Saved state, except the replacement order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TagsState {
    lines: Vec<u32>,
    /// Per line: arrival time, level that it comes from, and flags.
    words: Vec<u64>,
}

/// Time unit from which a line that arrives at `at` counts as arrived. Times beyond 32 bits never do.
#[inline]
fn settled_from<D>(at: Cycle<D>) -> u32 {
    let units = (at.number() >> LATEST_SHIFT) + 1;
    if units >> 32 == 0 { units as u32 } else { u32::MAX }
}

#[inline]
fn order_of(block: &[u32]) -> u64 {
    u64::from(block[0]) | u64::from(block[1]) << 32
}

impl<D: Domain> Tags<D> {
    /// An empty cache of `sets` sets, a power of two unless it is [divided](Tags::divide) into slices.
    pub fn new(sets: u32, ways: u32, replacement: Replacement) -> Tags<D> {
        assert!((1..=WAYS_MAX).contains(&ways));
        let slots = (sets * ways) as usize;
        let words = HEADER + ways as usize + ways.div_ceil(4) as usize;
        // Multiples of half a host line: a block spans no more host lines than necessary.
        let stride = if words <= 16 { 16 } else { words.next_multiple_of(8) };
        // Caches of different sizes get different places; see [`Aligned::new`].
        let place = 5 * sets.ilog2() as usize;
        let mut tags = Tags {
            ways: ways as usize,
            sets,
            slices: None,
            stride,
            blocks: Aligned::new(sets as usize * stride, 0, place),
            ready: Aligned::new(slots, 0, place + 32),
            replacer: Replacer::new(sets, ways, replacement),
            mru: Vec::new(),
            clock: PhantomData,
        };
        for set in 0..sets {
            let block = tags.block_mut(set);
            block[FREE] = WayMask::first(ways).0;
            block[HEADER..HEADER + ways as usize].fill(EMPTY);
            tags.set_order(set, INITIAL_ORDER);
        }
        tags
    }

    /// Divides the empty cache into `slices` slices, with pages scattered over the sets or not; RAM starts at
    /// `base`.
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

    /// Slice of a line.
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
        self.invalidate_mru(set);
        self.blocks.part_mut(set as usize * self.stride, self.stride)
    }

    #[inline]
    fn set_order(&mut self, set: u32, order: u64) {
        let block = self.block_mut(set);
        (block[0], block[1]) = (order as u32, (order >> 32) as u32);
    }

    /// Tags of a set, by way.
    #[inline]
    fn tags(&self, set: u32) -> &[u32] {
        &self.block(set)[HEADER..HEADER + self.ways]
    }

    fn line(&self, slot: Slot) -> u32 {
        self.tags(slot.set())[slot.way() as usize]
    }

    /// Slot of a line, if it is present.
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

    /// Enables [`Tags::quick_use`] if the cache's form allows it; returns whether it does.
    pub fn enable_quick(&mut self) -> bool {
        let can = self.replacer.is_order() && matches!(self.ways, 4 | 8) && self.slices.is_none();
        self.mru = vec![NO_MRU; if can { self.sets as usize } else { 0 }];
        can
    }

    /// Invalidates the shortcut of a set that changes.
    #[inline]
    fn invalidate_mru(&mut self, set: u32) {
        if let Some(mru) = self.mru.get_mut(set as usize) {
            mru.line = EMPTY;
        }
    }

    /// The fast path of the most frequent access. It applies if the line is present, had arrived by `t`, and
    /// needs no change of state for a read or, with `own`, a write. It then updates only the replacement
    /// order; otherwise it does nothing.
    #[inline(always)]
    pub fn quick_use(&mut self, line: u32, t: Cycle<D>, own: bool) -> Quick {
        let (set, t) = ((line & (self.sets - 1)) as usize, t.number());
        let mru = &mut self.mru[set];
        if mru.line == line && mru.is_settled(t) && (!own || mru.flags.takes_stores()) {
            return Quick::Used(mru.flags);
        }
        let (first, four) = (set * self.stride, self.ways == 4);
        let block: &mut [u32; 16] = self.blocks.chunk_mut(first);
        let quick =
            if four { quick_use::<4>(block, line, t, own) } else { quick_use::<8>(block, line, t, own) };
        if let Quick::Used(flags) = quick {
            *mru = MruEntry { line, settled: block[LATEST], flags };
        }
        quick
    }

    /// Word and shift of a way's flags in its block.
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

    /// Whether the line has certainly arrived by `t`: a quick check of its set.
    #[inline]
    pub fn is_settled(&self, slot: Slot, t: Cycle<D>) -> bool {
        t.number() >> LATEST_SHIFT >= u64::from(self.block(slot.set())[LATEST])
    }

    /// Arrival time of the line, and the level that it comes from, a number below 8.
    #[inline]
    pub fn ready(&self, slot: Slot) -> (Cycle<D>, u8) {
        let word = *self.ready.one(self.ready_at(slot));
        (Cycle::new(word >> 3), (word & 7) as u8)
    }

    #[inline]
    pub fn set_ready(&mut self, slot: Slot, at: Cycle<D>, level: u8) {
        let place = self.ready_at(slot);
        *self.ready.one_mut(place) = at.number() << 3 | u64::from(level);
        if at > Cycle::ZERO {
            let latest = &mut self.block_mut(slot.set())[LATEST];
            *latest = settled_from(at).max(*latest);
        }
    }

    /// Updates the replacement order for a use of the line.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        self.invalidate_mru(slot.set());
        let block = self.blocks.chunk_mut::<2>(slot.set() as usize * self.stride);
        let mut order = order_of(block);
        self.replacer.touch(&mut order, slot.set() as usize, slot.way() as usize);
        (block[0], block[1]) = (order as u32, (order >> 32) as u32);
    }

    /// Records a demand miss of the line for replacement.
    #[inline]
    pub fn missed(&mut self, line: u32) {
        if self.replacer.duels() {
            let set = self.set(line) as usize;
            self.replacer.missed(set);
        }
    }

    /// Fills a line, which must not be present, into one of the ways of `mask`, and returns the victim. The
    /// line arrives at `at` from the given level. `reused`: it was used here before.
    #[inline]
    pub fn insert(
        &mut self,
        line: u32,
        flags: Flags,
        mask: u32,
        at: Cycle<D>,
        level: u8,
        reused: bool,
    ) -> (Slot, Option<Evicted>) {
        let (set, ways) = (self.set(line), self.ways);
        self.invalidate_mru(set);
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
        if at > Cycle::ZERO {
            block[LATEST] = block[LATEST].max(settled_from(at));
        }
        let old_line = std::mem::replace(&mut block[HEADER + way], line);
        let (word, shift) = (HEADER + ways + way / 4, way % 4 * 8);
        let old_flags = Flags((block[word] >> shift) as u8);
        block[word] = block[word] & !(0xff << shift) | u32::from(flags.0) << shift;
        let ready = self.ready.one_mut(set as usize * ways + way);
        let old_level = (std::mem::replace(ready, at.number() << 3 | u64::from(level)) & 7) as u8;
        let old = Evicted { line: old_line, flags: old_flags, level: old_level };
        let gone = if free == 0 { Some(old) } else { None };
        (Slot::new(set, way as u32), gone)
    }

    /// Removes a line.
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

    /// Every slot, including empty ones.
    fn slots(&self) -> impl Iterator<Item = Slot> + use<D> {
        let ways = self.ways as u32;
        (0..self.sets).flat_map(move |set| (0..ways).map(move |way| Slot::new(set, way)))
    }

    /// Every line that is present, with its slot.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, u32)> {
        self.slots().map(|slot| (slot, self.line(slot))).filter(|(_, line)| *line != EMPTY)
    }

    /// Lines of a set, most recently used first. For tests: only LRU has an order.
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

    /// DRRIP's policy selector.
    #[cfg(test)]
    pub fn selector(&self) -> u16 {
        self.replacer.selector()
    }

    /// Bytes allocated on the host.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.blocks.bytes() + self.ready.bytes() + self.replacer.bytes()
    }

    pub fn save(&self) -> SavedTags {
        let word = |slot| {
            let (at, level) = self.ready(slot);
            at.number() << READY_SHIFT | u64::from(level) << LEVEL_SHIFT | u64::from(self.flags(slot).0)
        };
        let lines = self.slots().map(|slot| self.line(slot)).collect();
        let state = TagsState { lines, words: self.slots().map(word).collect() };
        let orders = (0..self.sets).map(|set| order_of(self.block(set)));
        (state, self.replacer.save(orders))
    }

    /// Checks a saved state for a memory of `lines` lines; no time may be after `latest`.
    pub fn check(&self, (state, replacer): &SavedTags, lines: u32, latest: Cycle<D>) -> Result<(), String> {
        let slots = self.slots().count();
        if [state.lines.len(), state.words.len()] != [slots; 2] {
            return Err(format!(
                "the saved state has tags of {} lines, the cache has {slots}",
                state.lines.len()
            ));
        }
        for (set, tags) in state.lines.chunks_exact(self.ways).enumerate() {
            for (way, line) in tags.iter().enumerate().filter(|(_, line)| **line != EMPTY) {
                let word = state.words[set * self.ways + way];
                if *line >= lines || self.set(*line) as usize != set || tags[..way].contains(line) {
                    return Err(format!("line {line} cannot be in set {set}"));
                }
                if !Flags(word as u8).is_possible() || word >> READY_SHIFT > latest.number() {
                    return Err(format!("line {line} has an impossible state"));
                }
            }
        }
        self.replacer.check(replacer)
    }

    pub fn restore(&mut self, (state, replacer): SavedTags) {
        let orders = self.replacer.restore(replacer);
        for (set, order) in (0..).zip(orders) {
            self.set_order(set, order);
        }
        for set in 0..self.sets {
            (self.block_mut(set)[FREE], self.block_mut(set)[LATEST]) = (0, 0);
        }
        for (slot, (line, word)) in self.slots().zip(state.lines.into_iter().zip(state.words)) {
            self.set_flags(slot, Flags(word as u8));
            self.set_ready(slot, Cycle::new(word >> READY_SHIFT), (word >> LEVEL_SHIFT & 7) as u8);
            let block = self.block_mut(slot.set());
            block[HEADER + slot.way() as usize] = line;
            block[FREE] |= u32::from(line == EMPTY) << slot.way();
        }
    }
}
