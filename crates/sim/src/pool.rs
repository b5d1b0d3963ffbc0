//! Pool of tags, credits or buffer slots: a number of units that requests take, and release at a time known
//! when they take them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use crate::time::Ps;

/// See the module. Requests must come in time order.
#[derive(Clone, Debug)]
pub struct Pool {
    free: u64,
    /// Release times and numbers of units.
    returns: BinaryHeap<Reverse<(u64, u64)>>,
}

/// Saved state: the units in use, in the order of their release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolState(Vec<(u64, u64)>);

impl Pool {
    /// Creates a pool with all units free.
    pub fn new(units: u32) -> Pool {
        let returns = BinaryHeap::with_capacity(units as usize + 1);
        Pool { free: u64::from(units), returns }
    }

    /// Takes `count` units at `now` or when enough are free; returns that time. `count` must not exceed the
    /// pool's size.
    #[inline]
    pub fn take(&mut self, now: Ps, count: u64) -> Ps {
        let mut at = now;
        // Released units are removed, so the heap holds no more entries than units.
        while let Some(Reverse((back, units))) = self.returns.peek().copied() {
            if back > now.0 && self.free >= count {
                break;
            }
            self.returns.pop();
            self.free += units;
            at = at.max(Ps(back));
        }
        assert!(self.free >= count, "a request needs more units than the pool has");
        self.free -= count;
        at
    }

    /// Sets the time at which taken units are released.
    #[inline]
    pub fn release(&mut self, at: Ps, count: u64) {
        self.returns.push(Reverse((at.0, count)));
    }

    /// Returns the state to save.
    pub fn save(&self) -> PoolState {
        let mut out: Vec<(u64, u64)> = self.returns.iter().map(|entry| entry.0).collect();
        out.sort_unstable();
        PoolState(out)
    }

    /// Restores a pool of `units` units; fails if the state exceeds them or a release is after `latest`.
    pub fn restore(state: &PoolState, units: u32, latest: Ps) -> Result<Pool, String> {
        let mut pool = Pool::new(units);
        for &(at, count) in &state.0 {
            if count == 0 || count > pool.free || at > latest.0 {
                return Err("more units are taken than the pool has, or a release is too late".to_owned());
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
    fn units_are_free_from_their_release_time() {
        let mut pool = Pool::new(3);
        assert_eq!(pool.take(Ps(10), 2), Ps(10));
        pool.release(Ps(50), 2);
        assert_eq!(pool.take(Ps(10), 1), Ps(10));
        pool.release(Ps(40), 1);
        for (now, expected) in [(39, 40), (40, 40), (41, 41)] {
            assert_eq!(pool.clone().take(Ps(now), 1), Ps(expected));
        }
        assert_eq!(pool.clone().take(Ps(20), 2), Ps(50), "one free unit is not enough");
        let copy = Pool::restore(&pool.save(), 3, Ps(1000)).unwrap();
        assert_eq!(copy.save(), pool.save());
        assert!(Pool::restore(&pool.save(), 2, Ps(1000)).is_err());
        assert!(Pool::restore(&pool.save(), 3, Ps(49)).is_err());
    }
}
