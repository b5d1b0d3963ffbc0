//! A calendar of cycles: which of the clock's cycles around the present are booked, as a ring of bits.
//!
//! Commands take one cycle each and everything else follows from the distances between them, so a bit a cycle says it
//! all, the neighbours of any cycle are a few machine words away, and bookings may be made in any order within
//! [`CYCLES`]. What falls out of that window is forgotten: nothing can then collide with it.

use serde::{Deserialize, Serialize};

/// Cycles that are remembered: 13.6 µs of DDR4-2400, 6.8 µs of DDR5-4800.
pub(super) const CYCLES: u64 = 1 << 14;
const WORDS: u64 = CYCLES / 64;
/// How far [`Marks::before`] and [`Marks::after`] see, in cycles.
pub(super) const REACH: u64 = 128;

/// 64 cycles, and in which turn of the ring.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    /// Number of the turn plus one; 0 for never.
    turn: u64,
    bits: u64,
}

/// Booked cycles.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    words: Vec<Word>,
    /// The latest cycle booked: behind it there is nothing to look for.
    last: u64,
}

impl Marks {
    pub fn new() -> Marks {
        Marks { words: vec![Word::default(); WORDS as usize], last: 0 }
    }

    /// The latest cycle booked, or 0.
    #[inline]
    pub fn last(&self) -> u64 {
        self.last
    }

    #[inline]
    fn word(&self, index: u64) -> u64 {
        let word = self.words[(index % WORDS) as usize];
        if word.turn == index / WORDS + 1 { word.bits } else { 0 }
    }

    /// Whether the cycle is booked.
    #[inline]
    pub fn has(&self, cycle: u64) -> bool {
        cycle <= self.last && self.word(cycle / 64) >> (cycle % 64) & 1 != 0
    }

    /// Books the cycle. What is older than the window is not kept; the answer says whether it is.
    #[inline]
    pub fn set(&mut self, cycle: u64) -> bool {
        let (index, bit) = (cycle / 64, 1 << (cycle % 64));
        let turn = index / WORDS + 1;
        self.last = self.last.max(cycle);
        let word = &mut self.words[(index % WORDS) as usize];
        if word.turn < turn {
            *word = Word { turn, bits: 0 };
        }
        if word.turn == turn {
            word.bits |= bit;
        }
        word.turn == turn
    }

    /// The first cycle from `cycle` on that is not booked.
    #[inline]
    pub fn first_free(&self, cycle: u64) -> u64 {
        let mut cycle = cycle;
        loop {
            if cycle > self.last {
                return cycle;
            }
            let free = !self.word(cycle / 64) >> (cycle % 64);
            if free != 0 {
                return cycle + u64::from(free.trailing_zeros());
            }
            cycle = (cycle / 64 + 1) * 64;
        }
    }

    /// The [`REACH`] cycles from `from` on, the first in the lowest bit.
    #[inline]
    fn window(&self, from: u64) -> u128 {
        let (index, shift) = (from / 64, from % 64);
        let low = u128::from(self.word(index)) | u128::from(self.word(index + 1)) << 64;
        if shift == 0 {
            return low;
        }
        low >> shift | u128::from(self.word(index + 2)) << (128 - shift)
    }

    /// The cycle itself in the highest bit, the one before in the next, and so on.
    #[inline]
    pub fn before(&self, cycle: u64) -> u128 {
        match cycle.checked_sub(REACH - 1) {
            Some(from) => self.window(from),
            None => self.window(0) << (REACH - 1 - cycle),
        }
    }

    /// The cycle after `cycle` in the lowest bit, the one after that in the next, and so on.
    #[inline]
    pub fn after(&self, cycle: u64) -> u128 {
        if cycle >= self.last { 0 } else { self.window(cycle + 1) }
    }

    /// All that are booked, in order.
    fn all(&self) -> Vec<u64> {
        let mut found = Vec::new();
        for (place, word) in (0u64..).zip(&self.words) {
            let index = word.turn.wrapping_sub(1).wrapping_mul(WORDS) + place;
            found.extend((0..64).filter(|bit| word.bits >> bit & 1 != 0).map(|bit| index * 64 + bit));
        }
        found.sort_unstable();
        found
    }
}

/// Booked cycles with a note on each: which rank and bank group a command goes to.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    marks: Marks,
    notes: Vec<u8>,
}

/// What a snapshot keeps of a calendar: the booked cycles in order, each with its note.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotsState(Vec<(u64, u8)>);

impl Slots {
    pub fn new() -> Slots {
        Slots { marks: Marks::new(), notes: vec![0; CYCLES as usize] }
    }

    #[inline]
    pub fn has(&self, cycle: u64) -> bool {
        self.marks.has(cycle)
    }

    #[inline]
    pub fn last(&self) -> u64 {
        self.marks.last()
    }

    #[inline]
    pub fn note(&self, cycle: u64) -> u8 {
        self.notes[(cycle % CYCLES) as usize]
    }

    #[inline]
    pub fn set(&mut self, cycle: u64, note: u8) {
        if self.marks.set(cycle) {
            self.notes[(cycle % CYCLES) as usize] = note;
        }
    }

    #[inline]
    pub fn before(&self, cycle: u64) -> u128 {
        self.marks.before(cycle)
    }

    #[inline]
    pub fn after(&self, cycle: u64) -> u128 {
        self.marks.after(cycle)
    }

    pub fn save(&self) -> SlotsState {
        SlotsState(self.marks.all().into_iter().map(|cycle| (cycle, self.note(cycle))).collect())
    }

    pub fn restore(state: &SlotsState, notes_max: u8) -> Result<Slots, String> {
        let mut slots = Slots::new();
        for (index, &(cycle, note)) in state.0.iter().enumerate() {
            let in_order = index == 0 || state.0[index - 1].0 < cycle;
            if !in_order || cycle > super::CYCLE_MAX || note > notes_max {
                return Err("a calendar's bookings are out of order or out of range".to_owned());
            }
            slots.set(cycle, note);
        }
        Ok(slots)
    }
}

impl Marks {
    pub fn save(&self) -> SlotsState {
        SlotsState(self.all().into_iter().map(|cycle| (cycle, 0)).collect())
    }

    pub fn restore(state: &SlotsState) -> Result<Marks, String> {
        Ok(Slots::restore(state, 0)?.marks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn neighbours_of_any_cycle_are_those_that_were_booked() {
        let mut rng = doorbell_sim::rng::Rng::stream(1, "slots");
        let mut slots = Slots::new();
        let mut naive = BTreeMap::new();
        for step in 0..20_000u64 {
            let cycle = step * 7 + rng.below(6_000);
            let note = (cycle * 31) as u8;
            slots.set(cycle, note);
            naive.insert(cycle, note);
            let probe = step * 7 + rng.below(6_000);
            let before: u128 = naive
                .range(probe.saturating_sub(127)..=probe)
                .map(|(c, _)| 1u128 << (127 - (probe - c)))
                .sum();
            let after: u128 =
                naive.range(probe + 1..=probe + 128).map(|(c, _)| 1u128 << (c - probe - 1)).sum();
            assert_eq!((slots.before(probe), slots.after(probe)), (before, after), "step {step}");
            assert_eq!(slots.marks.has(probe), naive.contains_key(&probe));
            let free = (probe..).find(|c| !naive.contains_key(c)).unwrap();
            assert_eq!(slots.marks.first_free(probe), free);
            if naive.contains_key(&probe) {
                assert_eq!(slots.note(probe), naive[&probe]);
            }
        }
        let copy = Slots::restore(&slots.save(), 255).unwrap();
        assert_eq!(copy.save(), slots.save());
    }

    #[test]
    fn what_is_older_than_the_window_is_not_kept() {
        let mut marks = Marks::new();
        assert!(marks.set(CYCLES + 5));
        assert!(!marks.set(5));
        assert!(!marks.has(5) && marks.has(CYCLES + 5));
        assert!(marks.set(2 * CYCLES + 5));
        assert!(!marks.has(CYCLES + 5));
    }
}
