//! A clock domain. An edge's time is computed from the edge's number, never by adding a rounded
//! period: at 3 GHz the edges fall at 0, 333, 666, 1000 ps.

use crate::time::Ps;
use crate::units::Hertz;

/// A free-running clock whose edge 0 is at time zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    hertz: u64,
}

impl Clock {
    /// A clock of the given frequency, which must be from 1 Hz to 1 THz.
    pub fn new(frequency: Hertz) -> Clock {
        assert!((1..=Ps::PER_SECOND).contains(&frequency.0), "a clock's frequency is from 1 Hz to 1 THz");
        Clock { hertz: frequency.0 }
    }

    /// The clock's frequency.
    pub fn frequency(self) -> Hertz {
        Hertz(self.hertz)
    }

    /// When edge `number` happens, to the picosecond below.
    pub fn edge(self, number: u64) -> Ps {
        let ps = u128::from(number) * u128::from(Ps::PER_SECOND) / u128::from(self.hertz);
        Ps(u64::try_from(ps).unwrap_or(u64::MAX))
    }

    /// The number of the last edge at or before `time`.
    pub fn edge_at_or_before(self, time: Ps) -> u64 {
        // edge(n) = floor(n·10¹²/f) ≤ t  ⇔  n·10¹² < (t+1)·f
        let n = ((u128::from(time.0) + 1) * u128::from(self.hertz) - 1) / u128::from(Ps::PER_SECOND);
        u64::try_from(n).unwrap_or(u64::MAX)
    }

    /// The number of the first edge at or after `time`.
    pub fn edge_at_or_after(self, time: Ps) -> u64 {
        if time.0 == 0 { 0 } else { self.edge_at_or_before(Ps(time.0 - 1)) + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn three_gigahertz_edges_do_not_drift() {
        let clock = Clock::new(Hertz(3_000_000_000));
        assert_eq!([1, 2, 3].map(|n| clock.edge(n).0), [333, 666, 1000]);
        assert_eq!(clock.edge(3_000_000_000), Ps(Ps::PER_SECOND));
    }

    proptest! {
        #[test]
        fn edges_and_times_convert_both_ways(hertz in 1u64..=5_000_000_000, n in 0u64..1_000_000_000_000u64) {
            let clock = Clock::new(Hertz(hertz));
            prop_assume!(clock.edge(n) < Ps(u64::MAX / 2));
            let t = clock.edge(n);
            prop_assert_eq!(clock.edge_at_or_before(t), n);
            prop_assert_eq!(clock.edge_at_or_after(t), n);
            prop_assert!(clock.edge(clock.edge_at_or_after(t + Ps(1))) >= t + Ps(1));
        }
    }
}
