//! How much of several things is taken in each cycle.
//!
//! A cycle's counts share one word: five bits each, counting up to 16, with which a field's highest bit says that all are
//! taken. Cycles that lie [`SPAN`] before the latest booking are forgotten, and nothing is counted that far ahead of it.

use serde::{Deserialize, Serialize};

use crate::saved::cycle;

/// Cycles that are kept.
pub(crate) const SPAN: u64 = 2048;
const FIELD_BITS: u32 = 5;
const FULL: u64 = 1 << (FIELD_BITS - 1);

/// One of the thing that is counted in this field.
pub(crate) const fn one(field: u32) -> u64 {
    1 << (field * FIELD_BITS)
}

/// The bit that says that nothing is left of it.
pub(crate) const fn guard(field: u32) -> u64 {
    FULL << (field * FIELD_BITS)
}

/// One cycle's counts.
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
    pub fresh: u64,
    cycles: Box<[Cycle; SPAN as usize]>,
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
        Bookings { fresh, cycles: all_free(fresh), fields: limits.len() as u32 }
    }

    /// Where the counts of this cycle stand, or those of another that came before or after it.
    #[inline(always)]
    pub(crate) fn place(&mut self, at: u64) -> &mut Cycle {
        &mut self.cycles[(at % SPAN) as usize]
    }

    #[inline(always)]
    pub(crate) fn counts(&self, at: u64) -> u64 {
        let cycle = &self.cycles[(at % SPAN) as usize];
        if cycle.number == at { cycle.counts } else { 0 }
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
        let fresh = self.fresh;
        let cycle = self.place(at);
        if cycle.number == at {
            cycle.counts += take;
        } else if cycle.number < at {
            *cycle = Cycle { number: at, counts: fresh + take };
        }
    }

    /// The cycles in which something is taken.
    pub(crate) fn save(&self) -> Vec<Cycle> {
        let taken = |cycle: &&Cycle| cycle.number != 0 || cycle.counts != self.fresh;
        self.cycles.iter().filter(taken).copied().collect()
    }

    /// Those that were saved, of the same things.
    pub(crate) fn restored(&self, saved: Vec<Cycle>) -> Result<Bookings, String> {
        let mut cycles = all_free(self.fresh);
        for cycle in saved {
            let fields_are_sound = (0..self.fields).all(|index| {
                let field = |counts: u64| counts >> (index * FIELD_BITS) & (2 * FULL - 1);
                (field(self.fresh)..=FULL).contains(&field(cycle.counts))
            });
            if !fields_are_sound || cycle.counts >> (self.fields * FIELD_BITS) != 0 {
                return Err("more units are taken than there are".into());
            }
            cycles[(cycle.number % SPAN) as usize] = cycle;
        }
        Ok(Bookings { cycles, ..*self })
    }
}

fn all_free(fresh: u64) -> Box<[Cycle; SPAN as usize]> {
    let cycles = vec![Cycle { number: 0, counts: fresh }; SPAN as usize].into_boxed_slice();
    cycles.try_into().expect("as many as asked for")
}
