//! Replacement policies: the choice of the victim in a set.
//!
//! Exact LRU; and after Jaleel et al., "High Performance Cache Replacement Using Re-Reference Interval
//! Prediction" (ISCA 2010): NRU (section 2: one bit per line, cleared by each use), SRRIP with hit priority
//! and 2 bits per line, and DRRIP. DRRIP duels between SRRIP and BRRIP over 32 leader sets each of 2048
//! (fewer in small caches) with a 10-bit selector. BRRIP's one non-distant insertion in 32 is chosen by a
//! counter, not at random. NRU is RRIP with one-bit predictions.
//!
//! The duel counts misses: demand look-ups, by cores or devices, that miss in a leader set. Lines inserted
//! without such a look-up are not counted: victims of upper caches, copies of written lines, and prefetches.
//! An exclusive cache is filled by victims only, and in any cache the leaders of both policies get equally
//! many, whichever keeps more. ChampSim leaves out write-backs, too. It counts prefetches, for which no
//! request waits here (for distinguishing them from demand see Wu et al., "PACMan", MICRO 2011).
//!
//! An exclusive cache loses a line, and its prediction, when the line is used. The upper caches therefore
//! record which lines came from it, and such a line is inserted as a reused one (Jaleel et al., "High
//! Performing Cache Hierarchies for Server Workloads", HPCA 2015; in Gaur, Chaudhuri and Subramoney, "Bypass
//! and Insertion Algorithms for Exclusive Last-level Caches", ISCA 2011, by a count of such trips).
//!
//! A victim may be restricted to some ways, those for devices' or cores' lines. The search then covers only
//! these, from the lowest, and if none of them is distant, only they age. If the others aged too, a device
//! that streams through its ways would make their lines look as old as its own. Hits count in all ways; the
//! duel is one for the whole cache.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tags::ways_of_many;

/// Replacement policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Replacement {
    /// Least recently used.
    #[default]
    Lru,
    /// Not recently used: the first line not used since all lines had been.
    Nru,
    /// Static re-reference interval prediction: lines that were never reused are evicted first.
    Srrip,
    /// Dynamic re-reference interval prediction: SRRIP or BRRIP, which evicts most new lines first, whichever
    /// misses less.
    Drrip,
}

/// Largest two-bit prediction: the line is evicted next.
const DISTANT: u32 = 3;
/// Two-bit prediction of a new line.
const LONG: u32 = 2;
/// One-bit prediction of a line that was not recently used.
const NOT_RECENT: u32 = 1;
/// Sets per constituency; each has one leader set of each of the two policies.
const CONSTITUENCY: usize = 64;
/// Maximum of the selector; above half of it BRRIP is followed.
const SELECTOR_MAX: u16 = 1023;
/// Ways whose order fits into one word, four bits each.
const ORDERED_WAYS: usize = 16;
/// Order of 16 ways in which way 0 is the most recently used.
const ORDER: u64 = 0xfedc_ba98_7654_3210;
/// A one in each four bits.
const ONES: u64 = 0x1111_1111_1111_1111;

/// Representation of the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// LRU of up to 16 ways: a word per set, with the most recently used way in its lowest four bits.
    Order,
    /// LRU of more ways: a stamp per line that grows with each use.
    Stamps,
    /// NRU and RRIP: a prediction per line.
    Predictions,
}

/// The duelling policy that a leader set follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leader {
    Srrip,
    Brrip,
    None,
}

/// Order word of an unused set.
pub(crate) const INITIAL_ORDER: u64 = ORDER;

/// Replacement state of a cache; see the module. A set's order word is stored with its tags and passed in.
#[derive(Clone, Debug)]
pub(crate) struct Replacer {
    kind: Replacement,
    form: Form,
    ways: usize,
    sets: usize,
    state: ReplacerState,
}

/// Saved state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplacerState {
    /// A word per set for [`Form::Order`]; filled in only when saving.
    orders: Vec<u64>,
    /// A stamp or prediction per line for the other forms.
    ranks: Vec<u32>,
    /// The last stamp given.
    stamp: u32,
    selector: u16,
    throttle: u8,
}

impl Replacer {
    pub fn new(sets: u32, ways: u32, kind: Replacement) -> Replacer {
        let form = match kind {
            Replacement::Lru if ways as usize <= ORDERED_WAYS => Form::Order,
            Replacement::Lru => Form::Stamps,
            Replacement::Nru | Replacement::Srrip | Replacement::Drrip => Form::Predictions,
        };
        let lines = if form == Form::Order { 0 } else { sets * ways };
        let state = ReplacerState {
            orders: Vec::new(),
            ranks: vec![0; lines as usize],
            stamp: 0,
            selector: SELECTOR_MAX / 2,
            throttle: 0,
        };
        Replacer { kind, form, ways: ways as usize, sets: sets as usize, state }
    }

    /// Whether the order is a word per set.
    pub fn is_order(&self) -> bool {
        self.form == Form::Order
    }

    /// Updates the order for a use of a line.
    #[inline]
    pub fn touch(&mut self, order: &mut u64, set: usize, way: usize) {
        if self.form != Form::Order {
            self.touch_rank(set, way);
        } else if *order & 0xf != way as u64 {
            *order = to_front(*order, way as u64);
        }
    }

    #[inline(never)]
    fn touch_rank(&mut self, set: usize, way: usize) {
        match self.form {
            Form::Order => {}
            Form::Stamps => {
                let stamp = self.next_stamp();
                self.state.ranks[set * self.ways + way] = stamp;
            }
            Form::Predictions => self.state.ranks[set * self.ways + way] = 0,
        }
    }

    fn next_stamp(&mut self) -> u32 {
        if self.state.stamp == u32::MAX {
            self.renumber();
        }
        self.state.stamp += 1;
        self.state.stamp
    }

    /// Restarts the stamps from low values, keeping the order in each set.
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

    /// Updates the order for an inserted line. `reused`: it was used here before it went to the upper caches.
    #[inline]
    pub fn insert(&mut self, order: &mut u64, set: usize, way: usize, reused: bool) {
        match self.kind {
            Replacement::Srrip if !reused => self.state.ranks[set * self.ways + way] = LONG,
            Replacement::Drrip if !reused => self.state.ranks[set * self.ways + way] = self.prediction(set),
            _ => self.touch(order, set, way),
        }
    }

    /// The policy that a set leads, if any.
    fn leader(&self, set: usize) -> Leader {
        // With fewer sets than a constituency, their number is a power of two.
        let region = self.sets.min(CONSTITUENCY);
        debug_assert!(region.is_power_of_two());
        match set & (region - 1) {
            0 => Leader::Srrip,
            other if other == region / 2 => Leader::Brrip,
            _ => Leader::None,
        }
    }

    /// Whether the policy is chosen by counting misses.
    #[inline]
    pub fn duels(&self) -> bool {
        self.kind == Replacement::Drrip
    }

    /// Counts a demand miss in this set; only for a duelling policy.
    pub fn missed(&mut self, set: usize) {
        match self.leader(set) {
            Leader::Srrip => self.state.selector = (self.state.selector + 1).min(SELECTOR_MAX),
            Leader::Brrip => self.state.selector = self.state.selector.saturating_sub(1),
            Leader::None => {}
        }
    }

    /// DRRIP's prediction for a new line.
    fn prediction(&mut self, set: usize) -> u32 {
        let bimodal = match self.leader(set) {
            Leader::Srrip => false,
            Leader::Brrip => true,
            Leader::None => self.state.selector > SELECTOR_MAX / 2,
        };
        if !bimodal {
            return LONG;
        }
        self.state.throttle = (self.state.throttle + 1) % 32;
        if self.state.throttle == 0 { LONG } else { DISTANT }
    }

    /// The victim among the ways of `mask`, in a set in which all of them are occupied.
    #[inline]
    pub fn victim(&mut self, order: u64, set: usize, mask: u32) -> usize {
        if self.form != Form::Order {
            return self.ranked_victim(set, mask);
        }
        let mut shift = 4 * (self.ways - 1);
        loop {
            let way = (order >> shift & 0xf) as usize;
            if mask >> way & 1 != 0 {
                return way;
            }
            shift = shift.checked_sub(4).expect("a way mask names at least one way");
        }
    }

    fn ranked_victim(&mut self, set: usize, mask: u32) -> usize {
        let ranks = &mut self.state.ranks[set * self.ways..(set + 1) * self.ways];
        if self.form == Form::Stamps {
            return oldest(ranks, mask);
        }
        // The largest prediction among these ways; if several have it, the first way.
        let farthest = if self.kind == Replacement::Nru { NOT_RECENT } else { DISTANT };
        for rank in (0..=farthest).rev() {
            let ways = ways_of_many(ranks, rank) & mask;
            if ways != 0 {
                if rank < farthest {
                    // Ages them all until one is distant, in one step.
                    let aged = ranks.iter_mut().enumerate().filter(|(way, _)| mask >> way & 1 != 0);
                    aged.for_each(|(_, old)| *old += farthest - rank);
                }
                return ways.trailing_zeros() as usize;
            }
        }
        panic!("a way mask names at least one way")
    }

    /// Recency of a way, higher for later uses; or its prediction.
    #[cfg(test)]
    pub fn rank(&self, order: u64, set: usize, way: usize) -> u32 {
        match self.form {
            Form::Order => 15 - (0..16).find(|place| order >> (4 * place) & 0xf == way as u64).unwrap(),
            _ => self.state.ranks[set * self.ways + way],
        }
    }

    /// DRRIP's policy selector; BRRIP is followed above half its maximum.
    #[cfg(test)]
    pub fn selector(&self) -> u16 {
        self.state.selector
    }

    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        4 * self.state.ranks.len()
    }

    /// Returns the state to save, with the order words of all sets.
    pub fn save(&self, orders: impl Iterator<Item = u64>) -> ReplacerState {
        let orders = if self.form == Form::Order { orders.collect() } else { Vec::new() };
        ReplacerState { orders, ..self.state.clone() }
    }

    pub fn check(&self, state: &ReplacerState) -> Result<(), String> {
        let orders = if self.form == Form::Order { self.sets } else { 0 };
        let (there, here) = ((state.orders.len(), state.ranks.len()), (orders, self.state.ranks.len()));
        if there != here {
            return Err(format!(
                "the saved replacement state has {there:?} order words and ranks, the cache has {here:?}"
            ));
        }
        let is_order = |order: &u64| {
            let ways = (0..ORDERED_WAYS).map(|place| (order >> (4 * place) & 0xf) as usize);
            let all = ways.clone().fold(0u32, |all, way| all | 1 << way);
            all == 0xffff && ways.take(self.ways).all(|way| way < self.ways)
        };
        let highest = match self.kind {
            Replacement::Lru => state.stamp,
            Replacement::Nru => NOT_RECENT,
            Replacement::Srrip | Replacement::Drrip => DISTANT,
        };
        if !state.orders.iter().all(is_order) || state.ranks.iter().any(|rank| *rank > highest) {
            return Err("invalid replacement order in the saved state".to_owned());
        }
        if state.selector > SELECTOR_MAX || state.throttle >= 32 {
            return Err("invalid replacement selector in the saved state".to_owned());
        }
        Ok(())
    }

    /// Restores a state and returns the order words of all sets; empty for the other forms.
    pub fn restore(&mut self, mut state: ReplacerState) -> Vec<u64> {
        let orders = std::mem::take(&mut state.orders);
        self.state = state;
        orders
    }
}

/// The way of `mask` with the lowest stamp.
fn oldest(stamps: &[u32], mask: u32) -> usize {
    let among = stamps.iter().enumerate().filter(|(way, _)| mask >> way & 1 != 0);
    among.min_by_key(|(_, stamp)| **stamp).expect("a way mask names at least one way").0
}

/// An order with one of its ways moved to the front.
#[inline]
pub(crate) fn to_front(order: u64, way: u64) -> u64 {
    // The lowest four bits that are zero in `differs` are at the way's place.
    let differs = order ^ (way * ONES);
    let zero = differs.wrapping_sub(ONES) & !differs & (ONES << 3);
    let place = zero.trailing_zeros() & !3;
    let before = (1 << place) - 1;
    let upto = before << 4 | 0xf;
    order & !upto | (order & before) << 4 | way
}

#[cfg(test)]
#[path = "replacement_tests.rs"]
mod tests;
