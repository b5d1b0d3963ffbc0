//! Pool of tags, credits or buffer slots: a number of units that requests take, and release at a time known
//! when they take them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize, Serializer};

use crate::time::Ps;

/// See the module. Requests must come in time order. Saved are the units in use; see [`Pool::resume`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Pool {
    #[serde(skip)]
    free: u64,
    /// Release times and numbers of units.
    #[serde(serialize_with = "in_order")]
    returns: BinaryHeap<Reverse<(u64, u64)>>,
}

/// Saves the units in the order of their release, not in that of the heap.
fn in_order<S: Serializer>(returns: &BinaryHeap<Reverse<(u64, u64)>>, out: S) -> Result<S::Ok, S::Error> {
    out.collect_seq(returns.clone().into_sorted_vec().iter().rev())
}

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

    /// Continues a restored pool as one of `units` units; fails if more are in use, or a release is after
    /// `latest`.
    pub fn resume(&mut self, units: u32, latest: Ps) -> Result<(), String> {
        self.free = u64::from(units);
        for &Reverse((at, count)) in &self.returns {
            if count == 0 || count > self.free || at > latest.0 {
                return Err("more units are taken than the pool has, or a release is too late".to_owned());
            }
            self.free -= count;
        }
        Ok(())
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
        let saved = postcard::to_stdvec(&pool).unwrap();
        assert_eq!(saved, postcard::to_stdvec(&[[40u64, 1], [50, 2]].as_slice()).unwrap());
        let resume = |units, latest| {
            let mut copy: Pool = postcard::from_bytes(&saved).unwrap();
            copy.resume(units, latest).map(|()| copy)
        };
        assert_eq!(postcard::to_stdvec(&resume(3, Ps(1000)).unwrap()).unwrap(), saved);
        assert!(resume(2, Ps(1000)).is_err());
        assert!(resume(3, Ps(49)).is_err());
    }
}
