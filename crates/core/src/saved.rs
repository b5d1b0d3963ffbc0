//! Plausibility checks on saved state: implausibly large cycles and counters are rejected, so that later sums
//! cannot overflow.

use std::cell::Cell;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Upper bound of cycles and counters: years of simulated time.
const LIMIT: u64 = 1 << 56;

thread_local! {
    /// The current upper bound while a state is read; deserialisers cannot pass context.
    static LATEST: Cell<u64> = const { Cell::new(LIMIT) };
}

/// Reads saved state and rejects cycles and counters above `latest`.
pub fn with_cycles_up_to<T>(latest: u64, read: impl FnOnce() -> T) -> T {
    let usual = LATEST.replace(latest.min(LIMIT));
    let value = read();
    LATEST.set(usual);
    value
}

fn plausible<E: serde::de::Error>(value: u64) -> Result<u64, E> {
    if value > LATEST.get() { Err(E::custom("a cycle or counter is implausibly large")) } else { Ok(value) }
}

/// Reads a cycle.
pub(crate) fn cycle<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    plausible(u64::deserialize(deserializer)?)
}

/// Reads a list of cycles.
pub(crate) fn cycles<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    let values = Vec::<u64>::deserialize(deserializer)?;
    values.into_iter().map(plausible).collect()
}

/// An array of cycles or counters, serialised as a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cycles<const N: usize>(pub(crate) [u64; N]);

impl<const N: usize> Default for Cycles<N> {
    fn default() -> Self {
        Cycles([0; N])
    }
}

impl<const N: usize> Serialize for Cycles<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_slice().serialize(serializer)
    }
}

impl<'de, const N: usize> Deserialize<'de> for Cycles<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = cycles(deserializer)?;
        values.try_into().map(Cycles).map_err(|_| D::Error::custom("an array has another length"))
    }
}
