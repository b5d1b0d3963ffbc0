//! How much of several things is taken in each cycle.
//!
//! A cycle's counts share one word: five bits each, counting up to 16, with which a field's highest bit says that all are
//! taken. Cycles that lie [`SPAN`] before the latest booking are forgotten, and nothing is counted that far ahead of it.
//!
//! Each op asks for several cycles, and a machine has many cores: what a host's caches must hold of each is kept small. So a word has no
//! room for its cycle's number, but for that of its round, counted from `base`.

use serde::{Deserialize, Serialize};

use crate::saved::cycle;

/// Cycles that are kept: a round.
pub(crate) const SPAN: u64 = 2048;
const FIELD_BITS: u32 = 5;
const FULL: u64 = 1 << (FIELD_BITS - 1);
/// Where a word tells its round, above the counts of eleven things.
const ROUND_AT: u32 = 55;
/// Cycles of as many rounds as can be told apart.
const REACH: u64 = SPAN << (u64::BITS - ROUND_AT);
/// The bits of the counts.
const COUNTS: u64 = (1 << ROUND_AT) - 1;
/// Rounds are counted from multiples of this.
const STEP: u64 = REACH / 2;

/// One of the thing that is counted in this field.
pub(crate) const fn one(field: u32) -> u64 {
    1 << (field * FIELD_BITS)
}

/// The bit that says that nothing is left of it.
pub(crate) const fn guard(field: u32) -> u64 {
    FULL << (field * FIELD_BITS)
}

/// One cycle's counts, as they are saved.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Cycle {
    #[serde(deserialize_with = "cycle")]
    pub number: u64,
    pub counts: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Bookings {
    /// The counts of a cycle in which nothing is taken.
    fresh: u64,
    /// The first cycle that can be told, a multiple of [`STEP`]: of the latest booking's, the one before.
    base: u64,
    words: Box<[u64; SPAN as usize]>,
    fields: u32,
}

impl Bookings {
    /// Of things of which there are so many.
    pub(crate) fn new(limits: &[u32]) -> Bookings {
        let mut fresh = 0;
        for (field, limit) in (0..).zip(limits) {
            assert!((1..=16).contains(limit), "validate() lets 1 to 16 through");
            fresh |= (FULL - u64::from(*limit)) << (field * FIELD_BITS);
        }
        let fields = limits.len() as u32;
        assert!(fields * FIELD_BITS <= ROUND_AT, "a word has room for eleven things");
        Bookings { fresh, base: 0, words: all_free(fresh), fields }
    }

    /// Takes this where nothing that these guards stand for is all taken. Whether that is so, or nothing is counted there any more.
    #[inline(always)]
    pub(crate) fn try_take(&mut self, at: u64, guards: u64, take: u64) -> bool {
        if at.wrapping_sub(self.base) >= REACH && !self.reach(at) {
            return true;
        }
        let fresh = self.fresh;
        let round = (at.wrapping_sub(self.base) / SPAN) << ROUND_AT;
        // Of this cycle, or of another that came before or after it.
        let word = &mut self.words[(at % SPAN) as usize];
        if (*word ^ round) >> ROUND_AT != 0 {
            if *word < round {
                *word = round | (fresh + take);
            }
            return true;
        }
        let free = *word & guards == 0;
        if free {
            *word += take;
        }
        free
    }

    #[inline(always)]
    pub(crate) fn counts(&self, at: u64) -> u64 {
        let word = self.words[(at % SPAN) as usize];
        let from_base = at.wrapping_sub(self.base);
        if from_base / SPAN == word >> ROUND_AT { word & COUNTS } else { 0 }
    }

    /// The first cycle from `from` on in which nothing that these guards stand for is all taken.
    #[inline(always)]
    pub(crate) fn first_free(&self, from: u64, guards: u64) -> u64 {
        let mut at = from;
        while self.counts(at) & guards != 0 {
            at += 1;
        }
        at
    }

    #[inline(always)]
    pub(crate) fn take(&mut self, at: u64, take: u64) {
        self.try_take(at, 0, take);
    }

    /// Counts rounds from a later cycle on, so that this one's can be told. Whether it can: not if it is long gone.
    #[cold]
    fn reach(&mut self, at: u64) -> bool {
        if at < self.base {
            return false;
        }
        let base = base_for(at);
        let rounds = (base - self.base) / SPAN;
        for word in self.words.iter_mut() {
            *word = if *word >> ROUND_AT < rounds { self.fresh } else { *word - (rounds << ROUND_AT) };
        }
        self.base = base;
        true
    }

    /// The cycles in which something is taken.
    pub(crate) fn save(&self) -> Vec<Cycle> {
        let cycle = |(index, word): (u64, &u64)| Cycle {
            number: self.base + (word >> ROUND_AT) * SPAN + index,
            counts: word & COUNTS,
        };
        let taken = |(_, word): &(u64, &u64)| *word & COUNTS != self.fresh;
        (0..).zip(self.words.iter()).filter(taken).map(cycle).collect()
    }

    /// Those that were saved, of the same things.
    pub(crate) fn restored(&self, saved: Vec<Cycle>) -> Result<Bookings, String> {
        let mut words = all_free(self.fresh);
        let base = base_for(saved.iter().map(|cycle| cycle.number).max().unwrap_or(0));
        for cycle in saved {
            let fields_are_sound = (0..self.fields).all(|index| {
                let field = |counts: u64| counts >> (index * FIELD_BITS) & (2 * FULL - 1);
                (field(self.fresh)..=FULL).contains(&field(cycle.counts))
            });
            if !fields_are_sound || cycle.counts >> (self.fields * FIELD_BITS) != 0 {
                return Err("more units are taken than there are".into());
            }
            if cycle.number >= base {
                let round = (cycle.number - base) / SPAN;
                words[(cycle.number % SPAN) as usize] = round << ROUND_AT | cycle.counts;
            }
        }
        Ok(Bookings { words, base, ..*self })
    }
}

/// From where rounds are counted if this is the latest booking.
fn base_for(latest: u64) -> u64 {
    (latest / STEP).saturating_sub(1) * STEP
}

fn all_free(fresh: u64) -> Box<[u64; SPAN as usize]> {
    vec![fresh; SPAN as usize].into_boxed_slice().try_into().expect("as many as asked for")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: [u32; 11] = [3, 2, 1, 1, 1, 1, 1, 1, 1, 1, 16];

    proptest! {
        #[test]
        fn rounds_tell_cycles_apart_as_their_numbers_would(
            ops in proptest::collection::vec((0usize..100, 0u64..4 << 20, 0u64..40, 0u32..2), 1..600),
        ) {
            // Counts of each cycle with its number in full: what is taken of the first two things.
            let (mut bookings, mut plain) = (Bookings::new(&LIMITS), vec![(0u64, [0u32; 2]); SPAN as usize]);
            let mut now = 1;
            for (kind, far, near, field) in ops {
                now += if kind == 0 { far } else { near / 10 };
                let mut at = now + near;
                let expected = loop {
                    let (cycle, taken) = &mut plain[(at % SPAN) as usize];
                    if *cycle > at {
                        break at;
                    }
                    *taken = if *cycle < at { [0; 2] } else { *taken };
                    *cycle = at;
                    if taken[field as usize] < LIMITS[field as usize] {
                        taken[field as usize] += 1;
                        break at;
                    }
                    at += 1;
                };
                let mut at = now + near;
                prop_assert_eq!(bookings.first_free(at, guard(field)), expected);
                while !bookings.try_take(at, guard(field), one(field)) {
                    at += 1;
                }
                prop_assert_eq!(at, expected);
                let restored = bookings.restored(bookings.save()).unwrap();
                prop_assert_eq!((restored.base, &restored.words), (bookings.base, &bookings.words));
            }
        }
    }

    #[test]
    fn what_is_long_gone_is_not_counted() {
        let mut bookings = Bookings::new(&LIMITS);
        let late = 100 * REACH;
        assert!(bookings.try_take(late, guard(3), one(3)));
        assert!(!bookings.try_take(late, guard(3), one(3)));
        assert!([0; 2].iter().all(|_| bookings.try_take(5, guard(3), one(3))), "nobody knows any more");
        assert_eq!(bookings.save().len(), 1);
    }
}
