//! Which line of a set goes next.
//!
//! LRU as it is defined, exact; and after Jaleel et al., "High Performance Cache Replacement Using Re-Reference Interval
//! Prediction" (ISCA 2010), NRU (section 2: one bit a line, cleared by each use), SRRIP with hit priority and 2 bits a line,
//! and DRRIP, which duels between SRRIP and BRRIP over 32 leader sets each of 2048 (fewer in small caches) with a 10-bit selector.
//! BRRIP's one insertion in 32 that is not distant comes by counting, not by chance. NRU is RRIP with predictions of one bit.
//!
//! The duel counts misses: look-ups on demand, by cores or devices, that do not find their line in a leader set. Not counted are
//! lines that are put in without such a look-up: victims of the caches above, copies of written lines, and what is fetched ahead.
//! An exclusive cache is filled by victims alone, and in any cache as many of them come to the leaders of one policy as to those
//! of the other, whichever keeps more. ChampSim leaves write-backs out, too; it counts prefetches, for which no request waits here (that
//! policies should tell them from demand: Wu et al., "PACMan", MICRO 2011).
//!
//! An exclusive cache gives a line away when it is used, and its prediction with it. So the caches above remember which lines came
//! from it, and such a line is put in as one that was used again (Jaleel et al., "High Performing Cache Hierarchies for Server
//! Workloads", HPCA 2015; in Gaur, Chaudhuri and Subramoney, "Bypass and Insertion Algorithms for Exclusive Last-level Caches",
//! ISCA 2011, by a count of such trips).
//!
//! A victim may be wanted of some ways only, of those in which devices' or cores' lines may be put. The search then goes through
//! these, from the lowest, and where none of them is distant, only they age: were the others aged too, a device that streams
//! through its ways would make the lines beside them look as old as its own. Hits count in all ways, whosever line it is; and the
//! duel is one for the whole cache.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tags::ways_of_many;

/// The policies that there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Replacement {
    /// The line that was not used for longest.
    #[default]
    Lru,
    /// Not recently used: the first line that was not used since all had been.
    Nru,
    /// Static re-reference interval prediction: lines that were never used again go first.
    Srrip,
    /// Dynamic re-reference interval prediction: SRRIP or, where it misses less, most new lines go first.
    Drrip,
}

/// The farthest prediction of two bits, of a line that goes next.
const DISTANT: u32 = 3;
/// The prediction of two bits for a new line.
const LONG: u32 = 2;
/// The prediction of one bit for a line that was not recently used.
const NOT_RECENT: u32 = 1;
/// Sets of which one leads for each of the two.
const CONSTITUENCY: usize = 64;
/// The selector's highest value; from its middle on BRRIP is followed.
const SELECTOR_MAX: u16 = 1023;
/// Ways whose order fits into one word, four bits each.
const ORDERED_WAYS: usize = 16;
/// The order of 16 ways in which way 0 was used last.
const ORDER: u64 = 0xfedc_ba98_7654_3210;
/// A one in each four bits.
const ONES: u64 = 0x1111_1111_1111_1111;

/// How the order is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// LRU of up to 16 ways: a word a set, the way used last in its lowest four bits.
    Order,
    /// LRU of more ways: a stamp a line that grows with each use.
    Stamps,
    /// NRU and RRIP: a prediction a line.
    Predictions,
}

/// Which of the two duelling policies a set always follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leader {
    Srrip,
    Brrip,
    None,
}

/// The word of a set of which nothing was used yet.
pub(crate) const ORDER_AT_FIRST: u64 = ORDER;

/// See the module. The word that keeps a set's order stands with the set's tags and is handed in.
#[derive(Clone, Debug)]
pub(crate) struct Replacer {
    kind: Replacement,
    form: Form,
    ways: usize,
    sets: usize,
    state: ReplacerState,
}

/// What a snapshot keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplacerState {
    /// A word a set where the order is kept so. Filled in when a snapshot is taken.
    orders: Vec<u64>,
    /// A stamp or prediction a line where it is not.
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

    /// Whether the order is kept in a word a set.
    pub fn is_order(&self) -> bool {
        self.form == Form::Order
    }

    /// A line is used.
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

    /// Begins the stamps again, with the order in each set as it was.
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

    /// A line is put in. `reused`: it was used here before it went to the caches above.
    #[inline]
    pub fn insert(&mut self, order: &mut u64, set: usize, way: usize, reused: bool) {
        match self.kind {
            Replacement::Srrip if !reused => self.state.ranks[set * self.ways + way] = LONG,
            Replacement::Drrip if !reused => self.state.ranks[set * self.ways + way] = self.prediction(set),
            _ => self.touch(order, set, way),
        }
    }

    /// Whose leader a set is.
    fn leader(&self, set: usize) -> Leader {
        // Fewer sets than those of a constituency are a power of two.
        let region = self.sets.min(CONSTITUENCY);
        debug_assert!(region.is_power_of_two());
        match set & (region - 1) {
            0 => Leader::Srrip,
            other if other == region / 2 => Leader::Brrip,
            _ => Leader::None,
        }
    }

    /// Whether misses decide what is predicted.
    #[inline]
    pub fn duels(&self) -> bool {
        self.kind == Replacement::Drrip
    }

    /// A look-up on demand has missed in this set; of a policy that duels.
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

    /// The way of `mask` that goes next, in a set in which all of them are taken.
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
        // The highest prediction that any of these ways has, and of equals the first way.
        let farthest = if self.kind == Replacement::Nru { NOT_RECENT } else { DISTANT };
        for rank in (0..=farthest).rev() {
            let ways = ways_of_many(ranks, rank) & mask;
            if ways != 0 {
                if rank < farthest {
                    // Ageing all until one is as far away as can be, in one step.
                    let aged = ranks.iter_mut().enumerate().filter(|(way, _)| mask >> way & 1 != 0);
                    aged.for_each(|(_, old)| *old += farthest - rank);
                }
                return ways.trailing_zeros() as usize;
            }
        }
        panic!("a way mask names at least one way")
    }

    /// How recently a way was used, the higher the later; or its prediction.
    #[cfg(test)]
    pub fn rank(&self, order: u64, set: usize, way: usize) -> u32 {
        match self.form {
            Form::Order => 15 - (0..16).find(|place| order >> (4 * place) & 0xf == way as u64).unwrap(),
            _ => self.state.ranks[set * self.ways + way],
        }
    }

    /// Above its middle BRRIP is followed.
    #[cfg(test)]
    pub fn selector(&self) -> u16 {
        self.state.selector
    }

    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        4 * self.state.ranks.len()
    }

    /// The state to keep, with the words of all sets.
    pub fn save(&self, orders: impl Iterator<Item = u64>) -> ReplacerState {
        let orders = if self.form == Form::Order { orders.collect() } else { Vec::new() };
        ReplacerState { orders, ..self.state.clone() }
    }

    pub fn check(&self, state: &ReplacerState) -> Result<(), String> {
        let orders = if self.form == Form::Order { self.sets } else { 0 };
        let (there, here) = ((state.orders.len(), state.ranks.len()), (orders, self.state.ranks.len()));
        if there != here {
            return Err(format!("an order of {there:?} for {here:?}"));
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
            return Err("an impossible order of replacement".to_owned());
        }
        if state.selector > SELECTOR_MAX || state.throttle >= 32 {
            return Err("an impossible selector of replacement".to_owned());
        }
        Ok(())
    }

    /// Takes a state over and returns the words of all sets, none where the order is not kept so.
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
    // The lowest four bits that are zero here are the way's place.
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
