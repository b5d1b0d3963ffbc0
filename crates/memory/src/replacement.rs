//! Which line of a set goes next.
//!
//! LRU as it is defined, exact; RRIP after Jaleel et al., "High Performance Cache Replacement Using Re-Reference
//! Interval Prediction" (ISCA 2010): SRRIP with hit priority and 2 bits a line, and DRRIP, which duels between SRRIP
//! and BRRIP over 32 leader sets each of 2048 (fewer in small caches) with a 10-bit selector. BRRIP's one insertion in
//! 32 that is not distant comes by counting, not by chance.

use serde::{Deserialize, Serialize};

/// The policies that there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Replacement {
    /// The line that was not used for longest.
    #[default]
    Lru,
    /// Static re-reference interval prediction: lines that were never used again go first.
    Srrip,
    /// Dynamic re-reference interval prediction: SRRIP or, where it misses less, most new lines go first.
    Drrip,
}

/// The farthest prediction, of a line that goes next.
const DISTANT: u32 = 3;
/// The prediction for a new line.
const LONG: u32 = 2;
/// Sets of which one leads for each of the two.
const CONSTITUENCY: usize = 64;
/// The selector's highest value; from its middle on BRRIP is followed.
const SELECTOR_MAX: u16 = 1023;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Replacer {
    kind: Replacement,
    ways: usize,
    sets: usize,
    state: ReplacerState,
}

/// What a snapshot keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplacerState {
    /// LRU: a stamp that grows with each use; RRIP: the prediction.
    ranks: Vec<u32>,
    /// The last stamp given.
    stamp: u32,
    selector: u16,
    throttle: u8,
}

impl Replacer {
    pub fn new(sets: u32, ways: u32, kind: Replacement) -> Replacer {
        let ranks = vec![0; (sets * ways) as usize];
        let state = ReplacerState { ranks, stamp: 0, selector: SELECTOR_MAX / 2, throttle: 0 };
        Replacer { kind, ways: ways as usize, sets: sets as usize, state }
    }

    /// Whether a use changes anything; the line used last in a set is first in its order already.
    #[inline]
    pub fn wants_touch(&self, slot: usize, was_last: bool) -> bool {
        !was_last || (self.kind != Replacement::Lru && self.state.ranks[slot] != 0)
    }

    #[inline]
    pub fn touch(&mut self, slot: usize) {
        let rank = if self.kind == Replacement::Lru { self.next_stamp() } else { 0 };
        self.state.ranks[slot] = rank;
    }

    fn next_stamp(&mut self) -> u32 {
        if self.state.stamp == u32::MAX {
            self.renumber();
        }
        self.state.stamp += 1;
        self.state.stamp
    }

    /// Begins the stamps anew, with the order in each set as it was.
    #[cold]
    fn renumber(&mut self) {
        for set in self.state.ranks.chunks_exact_mut(self.ways) {
            let old = set.to_vec();
            for (rank, mine) in set.iter_mut().zip(&old) {
                *rank = old.iter().filter(|other| *other < mine).count() as u32;
            }
        }
        self.state.stamp = self.ways as u32;
    }

    /// A new line, which missed in this set.
    pub fn insert(&mut self, set: usize, slot: usize) {
        let rank = match self.kind {
            Replacement::Lru => self.next_stamp(),
            Replacement::Srrip => LONG,
            Replacement::Drrip => self.duel(set),
        };
        self.state.ranks[slot] = rank;
    }

    fn duel(&mut self, set: usize) -> u32 {
        let region = self.sets.min(CONSTITUENCY);
        let bimodal = match set % region {
            0 => {
                self.state.selector = (self.state.selector + 1).min(SELECTOR_MAX);
                false
            }
            other if other == region / 2 => {
                self.state.selector = self.state.selector.saturating_sub(1);
                true
            }
            _ => self.state.selector > SELECTOR_MAX / 2,
        };
        if !bimodal {
            return LONG;
        }
        self.state.throttle = (self.state.throttle + 1) % 32;
        if self.state.throttle == 0 { LONG } else { DISTANT }
    }

    /// The way of `mask` that goes next, in a set in which all of them are taken.
    pub fn victim(&mut self, set: usize, mask: u32) -> usize {
        let ranks = &mut self.state.ranks[set * self.ways..(set + 1) * self.ways];
        let mut best = (0, None);
        for (way, rank) in ranks.iter().enumerate() {
            // LRU wants the lowest stamp, RRIP the highest prediction; of equals the first way.
            let key = if self.kind == Replacement::Lru { !*rank } else { *rank };
            if mask >> way & 1 != 0 && best.1.is_none_or(|found| key > found) {
                best = (way, Some(key));
            }
        }
        let (way, key) = (best.0, best.1.expect("a way mask names at least one way"));
        if self.kind != Replacement::Lru && key < DISTANT {
            // Ageing all until one is distant, in one step.
            for (way, rank) in ranks.iter_mut().enumerate().filter(|(way, _)| mask >> way & 1 != 0) {
                debug_assert!(way < 32);
                *rank += DISTANT - key;
            }
        }
        way
    }

    #[cfg(test)]
    pub fn rank(&self, slot: usize) -> u32 {
        self.state.ranks[slot]
    }

    pub fn save(&self) -> ReplacerState {
        self.state.clone()
    }

    pub fn check(&self, state: &ReplacerState) -> Result<(), String> {
        if state.ranks.len() != self.state.ranks.len() {
            return Err(format!("an order of {} lines for {}", state.ranks.len(), self.state.ranks.len()));
        }
        let highest = if self.kind == Replacement::Lru { state.stamp } else { DISTANT };
        if state.ranks.iter().any(|rank| *rank > highest) {
            return Err("an order of replacement beyond its end".to_owned());
        }
        if state.selector > SELECTOR_MAX || state.throttle >= 32 {
            return Err("an impossible selector of replacement".to_owned());
        }
        Ok(())
    }

    pub fn restore(&mut self, state: ReplacerState) {
        self.state = state;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(kind: Replacement) -> Replacer {
        let mut replacer = Replacer::new(1, 4, kind);
        (0..4).for_each(|way| replacer.insert(0, way));
        replacer
    }

    #[test]
    fn lru_gives_up_the_line_that_was_not_used_for_longest() {
        let mut lru = filled(Replacement::Lru);
        assert_eq!(lru.victim(0, 0xf), 0);
        lru.touch(0);
        assert_eq!(lru.victim(0, 0xf), 1);
        assert_eq!(lru.victim(0, 0b1001), 3, "only of the ways that it may choose from");
    }

    #[test]
    fn the_order_survives_when_stamps_run_out() {
        let mut lru = filled(Replacement::Lru);
        lru.touch(1);
        lru.state.stamp = u32::MAX;
        lru.touch(0);
        let order = [2, 3, 1, 0].map(|_| {
            let way = lru.victim(0, 0xf);
            lru.touch(way);
            way
        });
        assert_eq!(order, [2, 3, 1, 0]);
    }

    #[test]
    fn srrip_keeps_what_was_used_again_before_what_was_not() {
        let mut srrip = filled(Replacement::Srrip);
        srrip.touch(0);
        assert_eq!(srrip.victim(0, 0xf), 1);
        assert_eq!([0, 1, 2, 3].map(|way| srrip.rank(way)), [1, 3, 3, 3], "all have aged");
        srrip.insert(0, 1);
        assert_eq!(srrip.victim(0, 0xf), 2);
        assert_eq!(srrip.victim(0, 0b11), 1, "only of the ways that it may choose from");
        assert_eq!([0, 1, 2, 3].map(|way| srrip.rank(way)), [2, 3, 3, 3], "and only those age");
    }

    #[test]
    fn drrip_follows_the_leader_that_misses_less() {
        let mut drrip = Replacer::new(64, 2, Replacement::Drrip);
        drrip.insert(1, 2);
        assert_eq!(drrip.rank(2), LONG, "at first as SRRIP");
        (0..2).for_each(|_| drrip.insert(0, 0));
        drrip.insert(1, 2);
        assert_eq!(drrip.rank(2), DISTANT, "SRRIP's leader misses more");
        (0..3).for_each(|_| drrip.insert(32, 64));
        drrip.insert(1, 2);
        assert_eq!(drrip.rank(2), LONG, "BRRIP's leader misses more");
    }
}
