//! Plausibility checks on saved state: implausibly large cycles and counters are rejected, so that later sums
//! cannot overflow.

use std::cell::Cell;

use doorbell_sim::CoreCycle;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Upper bound of cycles and counters: years of simulated time.
const LIMIT: u64 = 1 << 56;

thread_local! {
    /// The current upper bound while a state is read; deserialisers cannot pass context.
    static LATEST: Cell<u64> = const { Cell::new(LIMIT) };
}

/// Reads saved state and rejects cycles and counters above `latest`.
pub fn with_cycles_up_to<T>(latest: CoreCycle, read: impl FnOnce() -> T) -> T {
    let usual = LATEST.replace(latest.number().min(LIMIT));
    let value = read();
    LATEST.set(usual);
    value
}

/// A cycle, a counter, or a number that contains a cycle.
pub(crate) trait Number<'de>: Copy + Into<u64> + Deserialize<'de> {}

impl<'de, T: Copy + Into<u64> + Deserialize<'de>> Number<'de> for T {}

fn plausible<T: Copy + Into<u64>, E: serde::de::Error>(value: T) -> Result<T, E> {
    let is_large = value.into() > LATEST.get();
    if is_large { Err(E::custom("a cycle or counter is implausibly large")) } else { Ok(value) }
}

/// Reads a cycle or counter.
pub(crate) fn cycle<'de, D: Deserializer<'de>, T: Number<'de>>(deserializer: D) -> Result<T, D::Error> {
    plausible(T::deserialize(deserializer)?)
}

/// Reads a list of cycles or counters.
pub(crate) fn cycles<'de, D: Deserializer<'de>, T: Number<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let values = Vec::<T>::deserialize(deserializer)?;
    values.into_iter().map(plausible).collect()
}

/// An array of cycles or counters, serialised as a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cycles<const N: usize, T = u64>(pub(crate) [T; N]);

impl<const N: usize, T: Copy + Default> Default for Cycles<N, T> {
    fn default() -> Self {
        Cycles([T::default(); N])
    }
}

impl<const N: usize, T: Serialize> Serialize for Cycles<N, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_slice().serialize(serializer)
    }
}

impl<'de, const N: usize, T: Number<'de>> Deserialize<'de> for Cycles<N, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = cycles(deserializer)?;
        values.try_into().map(Cycles).map_err(|_| D::Error::custom("an array has another length"))
    }
}
