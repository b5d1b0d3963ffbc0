//! A calendar of command cycles: a ring of bits around the current time, a bit per booked clock cycle.
//!
//! Commands take one cycle each, and everything else follows from the distances between them. So a bit per
//! cycle is enough, the neighbours of any cycle are a few machine words away, and bookings may be made in any
//! order. The ring covers the cycles before the *horizon*, half of [`CYCLES`] after the current time.
//! Bookings after it (a device's are timed when issued, tens of microseconds ahead) are in a map and move
//! into the ring when the horizon reaches them. A cycle more than half of [`CYCLES`] in the past is dropped
//! when a later one takes its bit. A command for such a cycle is not stored and conflicts with nothing;
//! [`Marks::late`] counts these.

use std::collections::BTreeMap;

use super::DramCycle;
use serde::{Deserialize, Serialize};

/// Cycles in the ring: 13.6 µs of DDR4-2400, 6.8 µs of DDR5-4800.
pub(super) const CYCLES: u64 = 1 << 14;
const WORDS: u64 = CYCLES / 64;
/// Range of [`Marks::before`] and [`Marks::after`], in cycles.
pub(super) const REACH: u64 = 128;

/// 64 cycles, tagged with the ring's turn.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    /// Number of the turn plus one; 0 for never.
    turn: u64,
    bits: u64,
}

/// A set of booked cycles.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    words: Vec<Word>,
    /// The latest cycle booked.
    last: DramCycle,
    /// First word of the bookings in the map.
    horizon: u64,
    far: BTreeMap<u64, u64>,
    late: u64,
}

impl Marks {
    pub fn new() -> Marks {
        let words = vec![Word::default(); WORDS as usize];
        Marks { words, last: DramCycle::ZERO, horizon: WORDS / 2, far: BTreeMap::new(), late: 0 }
    }

    /// Advances the current time to this cycle.
    pub fn advance_to(&mut self, now: DramCycle) {
        self.set_horizon((now.number() + CYCLES / 2) / 64);
    }

    fn set_horizon(&mut self, horizon: u64) {
        self.horizon = self.horizon.max(horizon);
        while let Some(next) = self.far.first_entry().filter(|next| *next.key() < self.horizon) {
            let (index, bits) = next.remove_entry();
            self.words[(index % WORDS) as usize] = Word { turn: index / WORDS + 1, bits };
        }
    }

    /// Number of commands for cycles before the ring, which were not stored.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The latest cycle booked, or 0.
    #[inline]
    pub fn last(&self) -> DramCycle {
        self.last
    }

    #[inline]
    fn word(&self, index: u64) -> u64 {
        let word = self.words[(index % WORDS) as usize];
        match word.turn == index / WORDS + 1 {
            true => word.bits,
            false if index >= self.horizon => self.far.get(&index).copied().unwrap_or(0),
            false => 0,
        }
    }

    /// Whether a cycle is booked.
    #[inline]
    pub fn has(&self, cycle: DramCycle) -> bool {
        let number = cycle.number();
        cycle <= self.last && self.word(number / 64) >> (number % 64) & 1 != 0
    }

    /// Books a cycle; returns whether it was stored. A cycle before the ring is not.
    #[inline]
    pub fn set(&mut self, cycle: DramCycle) -> bool {
        let (index, bit) = (cycle.number() / 64, 1 << (cycle.number() % 64));
        let turn = index / WORDS + 1;
        self.last = self.last.max(cycle);
        if index >= self.horizon {
            *self.far.entry(index).or_default() |= bit;
            return true;
        }
        let word = &mut self.words[(index % WORDS) as usize];
        if word.turn < turn {
            *word = Word { turn, bits: 0 };
        }
        if word.turn == turn {
            word.bits |= bit;
        }
        self.late += u64::from(word.turn > turn);
        word.turn == turn
    }

    /// Booked cycles from `cycle` on, unordered.
    pub fn booked_from(&self, cycle: DramCycle) -> impl Iterator<Item = DramCycle> {
        let index =
            |(place, word): (u64, &Word)| Some(((word.turn.checked_sub(1)? * WORDS) + place, word.bits));
        let near = (0u64..).zip(&self.words).filter_map(index);
        let words = near.chain(self.far.iter().map(|(index, bits)| (*index, *bits)));
        let words = words.filter(move |(index, bits)| *bits != 0 && *index >= cycle.number() / 64);
        let of_word = |(index, bits): (u64, u64)| {
            let cycle = move |bit| DramCycle::new(index * 64 + bit);
            (0..64).filter(move |bit| bits >> bit & 1 != 0).map(cycle)
        };
        words.flat_map(of_word).filter(move |booked| *booked >= cycle)
    }

    /// First free cycle from `cycle` on.
    #[inline]
    pub fn first_free(&self, cycle: DramCycle) -> DramCycle {
        let mut cycle = cycle;
        loop {
            if cycle > self.last {
                return cycle;
            }
            let number = cycle.number();
            let free = !self.word(number / 64) >> (number % 64);
            if free != 0 {
                return cycle + u64::from(free.trailing_zeros());
            }
            cycle = DramCycle::new((number / 64 + 1) * 64);
        }
    }

    /// The [`REACH`] cycles from `from` on, with the first in the lowest bit.
    #[inline]
    fn window(&self, from: u64) -> u128 {
        let (index, shift) = (from / 64, from % 64);
        let low = u128::from(self.word(index)) | u128::from(self.word(index + 1)) << 64;
        if shift == 0 {
            return low;
        }
        low >> shift | u128::from(self.word(index + 2)) << (128 - shift)
    }

    /// The cycle itself in the highest bit, the previous one in the next bit, and so on.
    #[inline]
    pub fn before(&self, cycle: DramCycle) -> u128 {
        match cycle.number().checked_sub(REACH - 1) {
            Some(from) => self.window(from),
            None => self.window(0) << (REACH - 1 - cycle.number()),
        }
    }

    /// The cycle after `cycle` in the lowest bit, the next one in the next bit, and so on.
    #[inline]
    pub fn after(&self, cycle: DramCycle) -> u128 {
        if cycle >= self.last { 0 } else { self.window(cycle.number() + 1) }
    }

    /// All booked cycles, in order.
    fn all(&self) -> Vec<DramCycle> {
        let mut found = Vec::new();
        for (place, word) in (0u64..).zip(&self.words) {
            let index = word.turn.wrapping_sub(1).wrapping_mul(WORDS) + place;
            found.push((index, word.bits));
        }
        found.extend(self.far.iter().map(|(index, bits)| (*index, *bits)));
        found.sort_unstable();
        let bits = |(index, bits): &(u64, u64)| {
            let (index, bits) = (*index, *bits);
            let cycle = move |bit| DramCycle::new(index.wrapping_mul(64) + bit);
            (0..64).filter(move |bit| bits >> bit & 1 != 0).map(cycle)
        };
        found.iter().flat_map(bits).collect()
    }
}

/// Booked cycles, each with a tag: rank and bank group of the command.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    marks: Marks,
    notes: Vec<u8>,
    /// Tags of the cycles after the horizon.
    far: BTreeMap<DramCycle, u8>,
}

/// Saved state of a calendar: the booked cycles in order, each with its tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotsState {
    booked: Vec<(DramCycle, u8)>,
    horizon: u64,
    late: u64,
}

impl Slots {
    pub fn new() -> Slots {
        Slots { marks: Marks::new(), notes: vec![0; CYCLES as usize], far: BTreeMap::new() }
    }

    /// Advances the current time to this cycle.
    pub fn advance_to(&mut self, now: DramCycle) {
        self.marks.advance_to(now);
        let horizon = DramCycle::new(self.marks.horizon * 64);
        while let Some(next) = self.far.first_entry().filter(|next| *next.key() < horizon) {
            let (cycle, note) = next.remove_entry();
            self.notes[(cycle.number() % CYCLES) as usize] = note;
        }
    }

    /// See [`Marks::late`].
    pub fn late(&self) -> u64 {
        self.marks.late
    }

    /// See [`Marks::booked_from`].
    pub fn booked_from(&self, cycle: DramCycle) -> impl Iterator<Item = DramCycle> {
        self.marks.booked_from(cycle)
    }

    #[inline]
    pub fn has(&self, cycle: DramCycle) -> bool {
        self.marks.has(cycle)
    }

    #[inline]
    pub fn last(&self) -> DramCycle {
        self.marks.last()
    }

    #[inline]
    pub fn note(&self, cycle: DramCycle) -> u8 {
        match cycle.number() / 64 >= self.marks.horizon {
            true => self.far.get(&cycle).copied().unwrap_or(0),
            false => self.notes[(cycle.number() % CYCLES) as usize],
        }
    }

    #[inline]
    pub fn set(&mut self, cycle: DramCycle, note: u8) {
        if cycle.number() / 64 >= self.marks.horizon {
            self.marks.set(cycle);
            self.far.insert(cycle, note);
        } else if self.marks.set(cycle) {
            self.notes[(cycle.number() % CYCLES) as usize] = note;
        }
    }

    #[inline]
    pub fn before(&self, cycle: DramCycle) -> u128 {
        self.marks.before(cycle)
    }

    #[inline]
    pub fn after(&self, cycle: DramCycle) -> u128 {
        self.marks.after(cycle)
    }

    pub fn save(&self) -> SlotsState {
        SlotsState {
            booked: self.marks.all().into_iter().map(|cycle| (cycle, self.note(cycle))).collect(),
            horizon: self.marks.horizon,
            late: self.marks.late,
        }
    }

    pub fn restore(state: &SlotsState, notes_max: u8) -> Result<Slots, String> {
        let mut slots = Slots::new();
        let wrong = || Err("a calendar's bookings are out of order or out of range".to_owned());
        if !(slots.marks.horizon..=super::CYCLE_MAX.number()).contains(&state.horizon) {
            return wrong();
        }
        slots.marks.horizon = state.horizon;
        for (index, &(cycle, note)) in state.booked.iter().enumerate() {
            let in_order = index == 0 || state.booked[index - 1].0 < cycle;
            if !in_order || cycle > super::CYCLE_MAX || note > notes_max {
                return wrong();
            }
            slots.set(cycle, note);
        }
        slots.marks.late = state.late;
        Ok(slots)
    }
}

impl Marks {
    pub fn save(&self) -> SlotsState {
        let booked = self.all().into_iter().map(|cycle| (cycle, 0)).collect();
        SlotsState { booked, horizon: self.horizon, late: self.late }
    }

    pub fn restore(state: &SlotsState) -> Result<Marks, String> {
        Ok(Slots::restore(state, 0)?.marks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn neighbours_of_any_cycle_match_a_plain_set() {
        let mut rng = doorbell_sim::rng::Rng::stream(1, "slots");
        let mut slots = Slots::new();
        let mut naive = BTreeMap::new();
        for step in 0..20_000u64 {
            // A device's bookings are up to 20,000 cycles ahead, others up to 6,000.
            let ahead = if rng.below(3) == 0 { 20_000 } else { 6_000 };
            slots.advance_to(DramCycle::new(step * 7));
            let cycle = step * 7 + rng.below(ahead);
            let note = (cycle * 31) as u8;
            slots.set(DramCycle::new(cycle), note);
            naive.insert(cycle, note);
            let probe = step * 7 + rng.below(ahead);
            let before: u128 = naive
                .range(probe.saturating_sub(127)..=probe)
                .map(|(c, _)| 1u128 << (127 - (probe - c)))
                .sum();
            let after: u128 =
                naive.range(probe + 1..=probe + 128).map(|(c, _)| 1u128 << (c - probe - 1)).sum();
            let at = DramCycle::new(probe);
            assert_eq!((slots.before(at), slots.after(at)), (before, after), "step {step}");
            assert_eq!(slots.marks.has(at), naive.contains_key(&probe));
            let booked: BTreeSet<u64> = slots.booked_from(at).map(DramCycle::number).collect();
            assert!(booked.iter().eq(naive.range(probe..).map(|(cycle, _)| cycle)));
            let free = (probe..).find(|c| !naive.contains_key(c)).unwrap();
            assert_eq!(slots.marks.first_free(at).number(), free);
            if naive.contains_key(&probe) {
                assert_eq!(slots.note(at), naive[&probe]);
            }
        }
        assert_eq!(slots.late(), 0);
        let copy = Slots::restore(&slots.save(), 255).unwrap();
        assert_eq!(copy.save(), slots.save());
    }

    #[test]
    fn cycles_before_the_ring_are_not_stored() {
        let mut marks = Marks::new();
        assert!(marks.set(DramCycle::new(5)) && marks.set(DramCycle::new(CYCLES + 5)));
        assert!(marks.has(DramCycle::new(5)) && marks.has(DramCycle::new(CYCLES + 5)), "far ahead");
        marks.advance_to(DramCycle::new(CYCLES));
        assert!(!marks.set(DramCycle::new(5)) && marks.late() == 1);
        assert!(!marks.has(DramCycle::new(5)) && marks.has(DramCycle::new(CYCLES + 5)));
        marks.advance_to(DramCycle::new(2 * CYCLES));
        assert!(marks.set(DramCycle::new(2 * CYCLES + 5)));
        assert!(!marks.has(DramCycle::new(CYCLES + 5)));
    }
}
