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
    /// RRIP: a prediction a line.
    Predictions,
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
            Replacement::Srrip | Replacement::Drrip => Form::Predictions,
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

    /// A new line, which missed in this set.
    #[inline]
    pub fn insert(&mut self, order: &mut u64, set: usize, way: usize) {
        match self.kind {
            Replacement::Lru => self.touch(order, set, way),
            Replacement::Srrip => self.state.ranks[set * self.ways + way] = LONG,
            Replacement::Drrip => self.state.ranks[set * self.ways + way] = self.duel(set),
        }
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
        let mut best = (0, None);
        for (way, rank) in ranks.iter().enumerate() {
            // LRU wants the lowest stamp, RRIP the highest prediction; of equals the first way.
            let key = if self.form == Form::Stamps { !*rank } else { *rank };
            if mask >> way & 1 != 0 && best.1.is_none_or(|found| key > found) {
                best = (way, Some(key));
            }
        }
        let (way, key) = (best.0, best.1.expect("a way mask names at least one way"));
        if self.form == Form::Predictions && key < DISTANT {
            // Ageing all until one is distant, in one step.
            for (_, rank) in ranks.iter_mut().enumerate().filter(|(way, _)| mask >> way & 1 != 0) {
                *rank += DISTANT - key;
            }
        }
        way
    }

    /// How recently a way was used, the higher the later; or its prediction.
    #[cfg(test)]
    pub fn rank(&self, order: u64, set: usize, way: usize) -> u32 {
        match self.form {
            Form::Order => 15 - (0..16).find(|place| order >> (4 * place) & 0xf == way as u64).unwrap(),
            _ => self.state.ranks[set * self.ways + way],
        }
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
        let highest = if self.form == Form::Stamps { state.stamp } else { DISTANT };
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
mod tests {
    use super::*;

    /// A replacer with the words of its sets.
    struct Sets {
        replacer: Replacer,
        orders: Vec<u64>,
    }

    impl Sets {
        fn new(sets: u32, ways: u32, kind: Replacement) -> Sets {
            Sets { replacer: Replacer::new(sets, ways, kind), orders: vec![ORDER; sets as usize] }
        }

        fn touch(&mut self, set: usize, way: usize) {
            self.replacer.touch(&mut self.orders[set], set, way);
        }

        fn insert(&mut self, set: usize, way: usize) {
            self.replacer.insert(&mut self.orders[set], set, way);
        }

        fn victim(&mut self, set: usize, mask: u32) -> usize {
            self.replacer.victim(self.orders[set], set, mask)
        }

        fn rank(&self, set: usize, way: usize) -> u32 {
            self.replacer.rank(self.orders[set], set, way)
        }
    }

    fn filled(kind: Replacement, ways: u32) -> Sets {
        let mut sets = Sets::new(1, ways, kind);
        (0..ways as usize).for_each(|way| sets.insert(0, way));
        sets
    }

    #[test]
    fn lru_gives_up_the_line_that_was_not_used_for_longest() {
        for ways in [4, 16, 20] {
            let mut lru = filled(Replacement::Lru, ways);
            assert_eq!(lru.victim(0, u32::MAX), 0);
            lru.touch(0, 0);
            assert_eq!(lru.victim(0, u32::MAX), 1);
            assert_eq!(lru.victim(0, 0b1001), 3, "only of the ways that it may choose from");
        }
    }

    #[test]
    fn the_order_is_that_of_a_plain_list_in_either_form() {
        let mut rng = doorbell_sim::rng::Rng::stream(5, "lru");
        for ways in [1u32, 2, 4, 11, 16, 17, 32] {
            let mut lru = filled(Replacement::Lru, ways);
            let mut list: Vec<usize> = (0..ways as usize).rev().collect();
            for step in 0..2_000 {
                if step == 1_000 {
                    // From here on stamps run out.
                    lru.replacer.state.stamp = lru.replacer.state.stamp.max(u32::MAX - 500);
                }
                let way = rng.below(u64::from(ways)) as usize;
                lru.touch(0, way);
                list.retain(|other| *other != way);
                list.insert(0, way);
                let mask = 1 << way | rng.next_u64() as u32;
                let expected = list.iter().rev().find(|way| mask >> **way & 1 == 1);
                assert_eq!(Some(&lru.victim(0, mask)), expected, "{ways} ways, step {step}");
            }
        }
    }

    #[test]
    fn srrip_keeps_what_was_used_again_before_what_was_not() {
        let mut srrip = filled(Replacement::Srrip, 4);
        srrip.touch(0, 0);
        assert_eq!(srrip.victim(0, 0xf), 1);
        assert_eq!([0, 1, 2, 3].map(|way| srrip.rank(0, way)), [1, 3, 3, 3], "all have aged");
        srrip.insert(0, 1);
        assert_eq!(srrip.victim(0, 0xf), 2);
        assert_eq!(srrip.victim(0, 0b11), 1, "only of the ways that it may choose from");
        assert_eq!([0, 1, 2, 3].map(|way| srrip.rank(0, way)), [2, 3, 3, 3], "and only those age");
    }

    #[test]
    fn drrip_follows_the_leader_that_misses_less() {
        let mut drrip = Sets::new(64, 2, Replacement::Drrip);
        drrip.insert(1, 0);
        assert_eq!(drrip.rank(1, 0), LONG, "at first as SRRIP");
        (0..2).for_each(|_| drrip.insert(0, 0));
        drrip.insert(1, 0);
        assert_eq!(drrip.rank(1, 0), DISTANT, "SRRIP's leader misses more");
        (0..3).for_each(|_| drrip.insert(32, 0));
        drrip.insert(1, 0);
        assert_eq!(drrip.rank(1, 0), LONG, "BRRIP's leader misses more");
    }

    #[test]
    fn a_hostile_order_is_refused() {
        let Sets { replacer: lru, orders } = filled(Replacement::Lru, 4);
        let good = lru.save(orders.into_iter());
        lru.check(&good).unwrap();
        for order in [0, ORDER ^ 1, ORDER.rotate_left(16)] {
            assert!(lru.check(&ReplacerState { orders: vec![order], ..good.clone() }).is_err());
        }
    }
}
