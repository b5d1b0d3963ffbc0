//! Booking table: how much of several resources is allocated in each cycle.
//!
//! The counts of one cycle share one word, five bits per resource. They count up to 16, so that a field's
//! highest bit is set when the resource is full. A ring holds the [`SPAN`] cycles that end at the *horizon*.
//! Bookings at or after the horizon (after a long-latency load, for example) go to a map and move into the
//! ring when the horizon advances. The horizon advances only when a request is beyond it, to `SPAN` cycles
//! after the *floor*. The caller supplies the floor: the earliest cycle of later requests. The ring therefore
//! never drops a cycle at or after the floor, and the results equal those of an unbounded table.
//!
//! A request before the floor whose cycle was dropped succeeds at once. The result may be too early, never
//! too late; [`Bookings::late`] counts such requests.
//!
//! Each op books several cycles and a machine has many cores, so the table is kept small for the host's
//! caches. A word therefore holds the number of its round, counted from `base`, not its full cycle number.

use std::collections::BTreeMap;

use doorbell_sim::CoreCycle;
use serde::{Deserialize, Serialize};

use crate::saved::cycle;

/// Cycles of the ring; one round.
pub(crate) const SPAN: u64 = 2048;
const FIELD_BITS: u32 = 5;
const FULL: u64 = 1 << (FIELD_BITS - 1);
/// Bit position of the round number in a word, above the counts of eleven resources.
const ROUND_AT: u32 = 55;
/// Cycles covered by all distinguishable round numbers.
const REACH: u64 = SPAN << (u64::BITS - ROUND_AT);
/// Mask of the counts.
const COUNTS: u64 = (1 << ROUND_AT) - 1;
/// `base` is a multiple of this.
const STEP: u64 = REACH / 2;

/// An increment of one in the count of this field.
pub(crate) const fn one(field: u32) -> u64 {
    1 << (field * FIELD_BITS)
}

/// The bit of this field that is set when the resource is full.
pub(crate) const fn guard(field: u32) -> u64 {
    FULL << (field * FIELD_BITS)
}

/// Counts of one cycle, as saved.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct CycleCounts {
    #[serde(deserialize_with = "cycle")]
    pub number: u64,
    pub counts: u64,
}

/// Saved state of [`Bookings`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct BookingsState {
    /// The cycles with at least one booking.
    cycles: Vec<CycleCounts>,
    #[serde(deserialize_with = "cycle")]
    horizon: u64,
    #[serde(deserialize_with = "cycle")]
    late: u64,
}

/// The booking table.
#[derive(Clone, Debug)]
pub(crate) struct Bookings {
    /// The word of a cycle without bookings.
    fresh: u64,
    /// The first cycle of round 0, a multiple of [`STEP`].
    base: u64,
    /// Cycles from `base` to the horizon.
    reach: u64,
    words: Box<[u64; SPAN as usize]>,
    fields: u32,
    /// Counts of cycles from the horizon on.
    far: BTreeMap<u64, u64>,
    late: u64,
}

impl Bookings {
    /// Creates a table for resources with these limits.
    pub(crate) fn new(limits: &[u32]) -> Bookings {
        let mut fresh = 0;
        for (field, limit) in (0..).zip(limits) {
            assert!((1..=16).contains(limit), "validate() accepts 1 to 16");
            fresh |= (FULL - u64::from(*limit)) << (field * FIELD_BITS);
        }
        let fields = limits.len() as u32;
        assert!(fields * FIELD_BITS <= ROUND_AT, "a word has room for eleven resources");
        let (words, far) = (all_free(fresh), BTreeMap::new());
        Bookings { fresh, base: 0, reach: SPAN, words, fields, far, late: 0 }
    }

    /// Books `take` at cycle `at` unless a resource in `guards` is full; returns whether it succeeded. No
    /// later request comes from before `floor`.
    #[inline(always)]
    pub(crate) fn try_take(&mut self, at: CoreCycle, guards: u64, take: u64, floor: CoreCycle) -> bool {
        let at = at.number();
        if at.wrapping_sub(self.base) >= self.reach && !self.reach(at, floor) {
            return self.take_beyond(at, guards, take);
        }
        let fresh = self.fresh;
        let round = (at.wrapping_sub(self.base) / SPAN) << ROUND_AT;
        // The word may belong to an earlier or later round.
        let word = &mut self.words[(at % SPAN) as usize];
        if (*word ^ round) >> ROUND_AT != 0 {
            if *word < round {
                *word = round | (fresh + take);
            } else {
                self.late += 1;
            }
            return true;
        }
        let free = *word & guards == 0;
        if free {
            *word += take;
        }
        free
    }

    /// Like [`try_take`](Bookings::try_take), for a cycle outside the ring.
    #[cold]
    fn take_beyond(&mut self, at: u64, guards: u64, take: u64) -> bool {
        if at < self.base {
            self.late += 1;
            return true;
        }
        let word = self.far.entry(at).or_insert(self.fresh);
        let free = *word & guards == 0;
        if free {
            *word += take;
        }
        free
    }

    #[inline(always)]
    pub(crate) fn counts(&self, at: CoreCycle) -> u64 {
        let at = at.number();
        let from_base = at.wrapping_sub(self.base);
        if from_base >= self.reach {
            return self.far.get(&at).copied().unwrap_or(0);
        }
        let word = self.words[(at % SPAN) as usize];
        if from_base / SPAN == word >> ROUND_AT { word & COUNTS } else { 0 }
    }

    /// The first cycle at or after `from` in which no resource in `guards` is full.
    #[inline(always)]
    pub(crate) fn first_free(&self, from: CoreCycle, guards: u64) -> CoreCycle {
        let mut at = from;
        while self.counts(at) & guards != 0 {
            at += 1;
        }
        at
    }

    #[inline(always)]
    pub(crate) fn take(&mut self, at: CoreCycle, take: u64, floor: CoreCycle) {
        self.try_take(at, 0, take, floor);
    }

    /// Requests before the floor whose cycle was dropped: they may have been served too early.
    pub(crate) fn late(&self) -> u64 {
        self.late
    }

    /// Returns [`late`](Bookings::late) and resets it.
    pub(crate) fn take_late(&mut self) -> u64 {
        std::mem::take(&mut self.late)
    }

    /// Advances the horizon if possible. Returns whether the ring then covers this cycle.
    #[cold]
    fn reach(&mut self, at: u64, floor: CoreCycle) -> bool {
        let horizon = floor.number() + SPAN;
        if at >= self.base && horizon > self.base + self.reach {
            self.advance(horizon);
        }
        at.wrapping_sub(self.base) < self.reach
    }

    /// Advances the horizon to this cycle and moves earlier map entries into the ring.
    fn advance(&mut self, horizon: u64) {
        let base = base_for(horizon - 1).max(self.base);
        let rounds = (base - self.base) / SPAN;
        if rounds > 0 {
            for word in self.words.iter_mut() {
                *word = if *word >> ROUND_AT < rounds { self.fresh } else { *word - (rounds << ROUND_AT) };
            }
        }
        (self.base, self.reach) = (base, horizon - base);
        while let Some(next) = self.far.first_entry().filter(|next| *next.key() < horizon) {
            let (at, counts) = next.remove_entry();
            self.put(at, counts);
        }
    }

    /// Stores the counts of a cycle before the horizon in the ring. Calls must be in cycle order.
    fn put(&mut self, at: u64, counts: u64) {
        if at >= self.base {
            self.words[(at % SPAN) as usize] = ((at - self.base) / SPAN) << ROUND_AT | counts;
        }
    }

    pub(crate) fn save(&self) -> BookingsState {
        let cycle = |(index, word): (u64, &u64)| CycleCounts {
            number: self.base + (word >> ROUND_AT) * SPAN + index,
            counts: word & COUNTS,
        };
        let taken = |(_, word): &(u64, &u64)| *word & COUNTS != self.fresh;
        let near = (0..).zip(self.words.iter()).filter(taken).map(cycle);
        let far = self.far.iter().map(|(number, counts)| CycleCounts { number: *number, counts: *counts });
        BookingsState { cycles: near.chain(far).collect(), horizon: self.base + self.reach, late: self.late }
    }

    /// Restores a saved table of the same resources.
    pub(crate) fn restored(&self, saved: BookingsState) -> Result<Bookings, String> {
        let BookingsState { mut cycles, horizon, late } = saved;
        if horizon < SPAN {
            return Err("the saved unit bookings have an impossible horizon".into());
        }
        let base = base_for(horizon - 1);
        let (words, far) = (all_free(self.fresh), BTreeMap::new());
        let mut restored = Bookings { words, far, base, reach: horizon - base, late, ..*self };
        cycles.sort_by_key(|cycle| cycle.number);
        for cycle in cycles {
            let fields_are_sound = (0..self.fields).all(|index| {
                let field = |counts: u64| counts >> (index * FIELD_BITS) & (2 * FULL - 1);
                (field(self.fresh)..=FULL).contains(&field(cycle.counts))
            });
            if !fields_are_sound || cycle.counts >> (self.fields * FIELD_BITS) != 0 {
                return Err("the saved state books more units than exist".into());
            }
            if cycle.number >= horizon {
                restored.far.insert(cycle.number, cycle.counts);
            } else {
                restored.put(cycle.number, cycle.counts);
            }
        }
        Ok(restored)
    }
}

/// The base of the rounds when `latest` is the ring's last cycle.
fn base_for(latest: u64) -> u64 {
    (latest / STEP).saturating_sub(1) * STEP
}

fn all_free(fresh: u64) -> Box<[u64; SPAN as usize]> {
    vec![fresh; SPAN as usize].into_boxed_slice().try_into().expect("the vector has SPAN words")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: [u32; 11] = [3, 2, 1, 1, 1, 1, 1, 1, 1, 1, 16];

    /// Unbounded reference: bookings of the first two resources in each cycle.
    #[derive(Default)]
    struct Reference(BTreeMap<u64, [u32; 2]>);

    impl Reference {
        fn take(&mut self, from: u64, field: u32) -> u64 {
            let taken = |at: &u64| self.0.get(at).map_or(0, |taken| taken[field as usize]);
            let at = (from..).find(|at| taken(at) < LIMITS[field as usize]).expect("some cycle is free");
            self.0.entry(at).or_default()[field as usize] += 1;
            at
        }
    }

    /// Books this field in the first cycle from `from` on in which it is free.
    fn take(bookings: &mut Bookings, from: u64, field: u32, floor: u64) -> u64 {
        let is_free = |at: &u64| {
            bookings.try_take(CoreCycle::new(*at), guard(field), one(field), CoreCycle::new(floor))
        };
        (from..).find(is_free).expect("some cycle is free")
    }

    proptest! {
        #[test]
        fn near_and_far_bookings_match_an_unbounded_table(
            ops in proptest::collection::vec((0usize..100, 0u64..4 << 20, 0u64..40, 0u32..2), 1..600),
        ) {
            let (mut bookings, mut reference) = (Bookings::new(&LIMITS), Reference::default());
            let mut floor = 1;
            for (kind, far, near, field) in ops {
                floor += if kind == 0 { far } else { near / 10 };
                // Far requests fall beyond the horizon, on ring positions that near cycles also use.
                let ahead = if kind % 8 == 1 { (1 + far % 3) * SPAN + near % 4 } else { near };
                let from = floor + ahead;
                let expected = reference.take(from, field);
                prop_assert_eq!(bookings.first_free(CoreCycle::new(from), guard(field)).number(), expected);
                prop_assert_eq!(take(&mut bookings, from, field, floor), expected);
                let restored = bookings.restored(bookings.save()).unwrap();
                prop_assert_eq!((restored.base, restored.reach), (bookings.base, bookings.reach));
                prop_assert_eq!((&restored.words, &restored.far), (&bookings.words, &bookings.far));
            }
            prop_assert_eq!(bookings.late(), 0);
        }

        #[test]
        fn requests_before_the_floor_are_exact_unless_counted_late(
            ops in proptest::collection::vec((0u64..300, 0u64..20_000, 0u32..2), 1..600),
        ) {
            let (mut bookings, mut reference) = (Bookings::new(&LIMITS), Reference::default());
            let mut floor = 20_000;
            for (later, back, field) in ops {
                floor += later;
                let from = floor + 5_000 - back;
                let late = bookings.late();
                let at = take(&mut bookings, from, field, floor);
                if bookings.late() == late {
                    prop_assert_eq!(at, reference.take(from, field));
                } else {
                    prop_assert!(from < floor && at <= reference.take(from, field), "early, never late");
                }
            }
        }
    }

    #[test]
    fn a_request_for_a_dropped_cycle_succeeds_and_is_counted() {
        let mut bookings = Bookings::new(&LIMITS);
        let floor = CoreCycle::new(100 * REACH);
        assert!(bookings.try_take(floor, guard(3), one(3), floor));
        assert!(!bookings.try_take(floor, guard(3), one(3), floor));
        assert_eq!(bookings.late(), 0);
        let early = CoreCycle::new(5);
        assert!([0; 2].iter().all(|_| bookings.try_take(early, guard(3), one(3), floor)));
        assert!([0; 2].iter().all(|_| bookings.try_take(floor - SPAN, guard(3), one(3), floor)));
        assert_eq!((bookings.save().cycles.len(), bookings.late()), (1, 4));
    }
}
