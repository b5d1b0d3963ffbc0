//! Cycles of the simulated clock domains. A cycle has the type of its clock, so that cycles of different
//! clocks cannot be mixed. They are converted through the time in picoseconds, by the [`DomainClock`]s.
//!
//! ```compile_fail,E0308
//! use doorbell_sim::{CoreCycle, UncoreCycle};
//! CoreCycle::new(7).max(UncoreCycle::new(5));
//! ```
//!
//! The difference of two cycles is a plain number, and so is a latency:
//!
//! ```
//! use doorbell_sim::{CoreCycle, DomainClock, Hertz, Ps, UncoreCycle};
//! let (core, uncore) = (DomainClock::new(Hertz(3_000_000_000)), DomainClock::new(Hertz(2_000_000_000)));
//! let leaves: CoreCycle = core.edge_at_or_after(Ps(900)) + 4;
//! let arrives: UncoreCycle = uncore.edge_at_or_after(core.edge(leaves));
//! assert_eq!((leaves - CoreCycle::new(3), arrives), (4, UncoreCycle::new(5)));
//! ```

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

use super::Clock;
use crate::time::Ps;
use crate::units::Hertz;

/// A clock domain.
pub trait Domain: Copy + fmt::Debug + Default + Ord + Hash {}

/// The clock of a core and its private caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreDomain;

/// The clock of interconnect and last-level cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UncoreDomain;

impl Domain for CoreDomain {}
impl Domain for UncoreDomain {}

/// A cycle of a core's clock.
pub type CoreCycle = Cycle<CoreDomain>;
/// A cycle of the clock of interconnect and last-level cache.
pub type UncoreCycle = Cycle<UncoreDomain>;

/// A cycle of a clock: a point in time, counted from the start of simulated time.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(transparent)]
#[serde(transparent, bound = "")]
pub struct Cycle<D>(u64, PhantomData<D>);

impl<D> Cycle<D> {
    /// The first cycle.
    pub const ZERO: Cycle<D> = Cycle::new(0);
    /// Later than all others: "never".
    pub const MAX: Cycle<D> = Cycle::new(u64::MAX);

    /// The cycle with this number.
    #[inline(always)]
    pub const fn new(number: u64) -> Cycle<D> {
        Cycle(number, PhantomData)
    }

    /// The cycle's number.
    #[inline(always)]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The cycle `cycles` before this one, or the first.
    #[inline(always)]
    pub const fn saturating_sub(self, cycles: u64) -> Cycle<D> {
        Cycle::new(self.0.saturating_sub(cycles))
    }

    /// Cycles from `earlier` to this one, or zero if `earlier` is later.
    #[inline(always)]
    pub const fn since(self, earlier: Cycle<D>) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl<D> fmt::Debug for Cycle<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<D> From<Cycle<D>> for u64 {
    fn from(cycle: Cycle<D>) -> u64 {
        cycle.0
    }
}

impl<D> Add<u64> for Cycle<D> {
    type Output = Cycle<D>;
    #[inline(always)]
    fn add(self, cycles: u64) -> Cycle<D> {
        Cycle::new(self.0 + cycles)
    }
}

impl<D> AddAssign<u64> for Cycle<D> {
    #[inline(always)]
    fn add_assign(&mut self, cycles: u64) {
        self.0 += cycles;
    }
}

impl<D> Sub<u64> for Cycle<D> {
    type Output = Cycle<D>;
    #[inline(always)]
    fn sub(self, cycles: u64) -> Cycle<D> {
        Cycle::new(self.0 - cycles)
    }
}

impl<D> Sub for Cycle<D> {
    type Output = u64;
    #[inline(always)]
    fn sub(self, earlier: Cycle<D>) -> u64 {
        self.0 - earlier.0
    }
}

/// The clock of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DomainClock<D>(Clock, PhantomData<D>);

impl<D> DomainClock<D> {
    /// See [`Clock::new`].
    pub fn new(frequency: Hertz) -> DomainClock<D> {
        DomainClock(Clock::new(frequency), PhantomData)
    }

    /// Time at which a cycle starts; see [`Clock::edge`].
    #[inline]
    pub fn edge(self, cycle: Cycle<D>) -> Ps {
        self.0.edge(cycle.0)
    }

    /// The last cycle that starts at or before `time`.
    #[inline]
    pub fn edge_at_or_before(self, time: Ps) -> Cycle<D> {
        Cycle::new(self.0.edge_at_or_before(time))
    }

    /// The first cycle that starts at or after `time`.
    #[inline]
    pub fn edge_at_or_after(self, time: Ps) -> Cycle<D> {
        Cycle::new(self.0.edge_at_or_after(time))
    }
}
