//! Tags, credits and places in buffers: a number of units that requests take and give back at times that are known when they
//! take them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use crate::time::Ps;

/// See the module. Requests take in the order of time.
#[derive(Clone, Debug)]
pub struct Pool {
    free: u64,
    /// When units come back, and how many.
    returns: BinaryHeap<Reverse<(u64, u64)>>,
}

/// What a snapshot keeps: the units that are out, in the order of their return.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolState(Vec<(u64, u64)>);

impl Pool {
    /// All of `units` free.
    pub fn new(units: u32) -> Pool {
        let returns = BinaryHeap::with_capacity(units as usize + 1);
        Pool { free: u64::from(units), returns }
    }

    /// Takes `count` units at `now` or as soon after as there are so many; returns when. There must be as many units in all.
    #[inline]
    pub fn take(&mut self, now: Ps, count: u64) -> Ps {
        let mut at = now;
        // Nothing that has come back is kept, so the heap holds no more entries than units.
        while let Some(Reverse((back, units))) = self.returns.peek().copied() {
            if back > now.0 && self.free >= count {
                break;
            }
            self.returns.pop();
            self.free += units;
            at = at.max(Ps(back));
        }
        assert!(self.free >= count, "a request wants more units than there are");
        self.free -= count;
        at
    }

    /// Says when units that were taken come back.
    #[inline]
    pub fn give_back(&mut self, at: Ps, count: u64) {
        self.returns.push(Reverse((at.0, count)));
    }

    /// The state to keep.
    pub fn save(&self) -> PoolState {
        let mut out: Vec<(u64, u64)> = self.returns.iter().map(|entry| entry.0).collect();
        out.sort_unstable();
        PoolState(out)
    }

    /// A pool of `units` in a saved state; one that cannot be of it, or in which a unit comes back after `latest`, is refused.
    pub fn restore(state: &PoolState, units: u32, latest: Ps) -> Result<Pool, String> {
        let mut pool = Pool::new(units);
        for &(at, count) in &state.0 {
            if count == 0 || count > pool.free || at > latest.0 {
                return Err(
                    "more units are taken than there are, or they come back impossibly late".to_owned()
                );
            }
            pool.free -= count;
            pool.returns.push(Reverse((at, count)));
        }
        Ok(pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_free_from_the_moment_they_come_back() {
        let mut pool = Pool::new(3);
        assert_eq!(pool.take(Ps(10), 2), Ps(10));
        pool.give_back(Ps(50), 2);
        assert_eq!(pool.take(Ps(10), 1), Ps(10));
        pool.give_back(Ps(40), 1);
        for (now, expected) in [(39, 40), (40, 40), (41, 41)] {
            assert_eq!(pool.clone().take(Ps(now), 1), Ps(expected));
        }
        assert_eq!(pool.clone().take(Ps(20), 2), Ps(50), "one is not enough");
        let copy = Pool::restore(&pool.save(), 3, Ps(1000)).unwrap();
        assert_eq!(copy.save(), pool.save());
        assert!(Pool::restore(&pool.save(), 2, Ps(1000)).is_err());
        assert!(Pool::restore(&pool.save(), 3, Ps(49)).is_err());
    }
}
