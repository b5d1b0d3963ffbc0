//! A clock domain. An edge's time is computed from the edge's number, never by adding a rounded
//! period: at 3 GHz the edges fall at 0, 333, 666, 1000 ps.

use crate::time::Ps;
use crate::units::Hertz;

/// A free-running clock whose edge 0 is at time zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    hertz: u64,
    /// The period in picoseconds as a reduced fraction, which keeps most products within 64 bits.
    period: (u64, u64),
}

impl Clock {
    /// A clock of the given frequency, which must be from 1 Hz to 1 THz.
    pub fn new(frequency: Hertz) -> Clock {
        assert!((1..=Ps::PER_SECOND).contains(&frequency.0), "a clock's frequency is from 1 Hz to 1 THz");
        let divisor = gcd(Ps::PER_SECOND, frequency.0);
        Clock { hertz: frequency.0, period: (Ps::PER_SECOND / divisor, frequency.0 / divisor) }
    }

    /// The clock's frequency.
    pub fn frequency(self) -> Hertz {
        Hertz(self.hertz)
    }

    /// When edge `number` happens, to the picosecond below.
    #[inline]
    pub fn edge(self, number: u64) -> Ps {
        let (ps, edges) = self.period;
        match number.checked_mul(ps) {
            Some(product) => Ps(product / edges),
            None => Ps(wide(u128::from(number) * u128::from(ps) / u128::from(edges))),
        }
    }

    /// The number of the last edge at or before `time`.
    #[inline]
    pub fn edge_at_or_before(self, time: Ps) -> u64 {
        // edge(n) = floor(n·ps/edges) ≤ t  ⇔  n·ps < (t+1)·edges
        let (ps, edges) = self.period;
        match time.0.checked_add(1).and_then(|after| after.checked_mul(edges)) {
            Some(product) => (product - 1) / ps,
            None => wide(((u128::from(time.0) + 1) * u128::from(edges) - 1) / u128::from(ps)),
        }
    }

    /// The number of the first edge at or after `time`.
    pub fn edge_at_or_after(self, time: Ps) -> u64 {
        if time.0 == 0 { 0 } else { self.edge_at_or_before(Ps(time.0 - 1)) + 1 }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A number that may be beyond what time can hold.
fn wide(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
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
