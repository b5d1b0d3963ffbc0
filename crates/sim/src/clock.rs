//! Clocks. An edge's time is computed from the edge number, never by adding a rounded period: at 3 GHz the
//! edges are at 0, 333, 666, 1000 ps.

pub mod cycle;

use crate::time::Ps;
use crate::units::Hertz;

/// A free-running clock whose edge 0 is at time zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    hertz: u64,
    /// The period in picoseconds as a reduced fraction, which keeps most products within 64 bits.
    period: (Divisor, Divisor),
}

/// A divisor with its reciprocal, so that a division becomes a multiplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Divisor {
    number: u64,
    /// 2^64 divided by the number, rounded down (one less for 1).
    reciprocal: u64,
}

impl Divisor {
    fn new(number: u64) -> Divisor {
        Divisor { number, reciprocal: (u128::from(u64::MAX) / u128::from(number)) as u64 }
    }

    /// `value` divided by the number, rounded down.
    #[inline]
    fn divide(self, value: u64) -> u64 {
        // The reciprocal is too small by less than one, so the product is too small by at most one.
        let low = ((u128::from(value) * u128::from(self.reciprocal)) >> 64) as u64;
        low + u64::from(value - low * self.number >= self.number)
    }
}

impl Default for Clock {
    /// A clock of 1 Hz.
    fn default() -> Clock {
        Clock::new(Hertz(1))
    }
}

impl Clock {
    /// A clock of the given frequency, which must be from 1 Hz to 1 THz.
    pub fn new(frequency: Hertz) -> Clock {
        assert!((1..=Ps::PER_SECOND).contains(&frequency.0), "a clock's frequency is from 1 Hz to 1 THz");
        let divisor = gcd(Ps::PER_SECOND, frequency.0);
        Clock {
            hertz: frequency.0,
            period: (Divisor::new(Ps::PER_SECOND / divisor), Divisor::new(frequency.0 / divisor)),
        }
    }

    /// The clock's frequency.
    pub fn frequency(self) -> Hertz {
        Hertz(self.hertz)
    }

    /// Time of edge `number`, rounded down to a picosecond.
    #[inline]
    pub fn edge(self, number: u64) -> Ps {
        let (ps, edges) = self.period;
        match number.checked_mul(ps.number) {
            Some(product) => Ps(edges.divide(product)),
            None => Ps(wide(u128::from(number) * u128::from(ps.number) / u128::from(edges.number))),
        }
    }

    /// The number of the last edge at or before `time`.
    #[inline]
    pub fn edge_at_or_before(self, time: Ps) -> u64 {
        // edge(n) = floor(n·ps/edges) ≤ t  ⇔  n·ps < (t+1)·edges
        let (ps, edges) = self.period;
        match time.0.checked_add(1).and_then(|after| after.checked_mul(edges.number)) {
            Some(product) => ps.divide(product - 1),
            None => wide(((u128::from(time.0) + 1) * u128::from(edges.number) - 1) / u128::from(ps.number)),
        }
    }

    /// The number of the first edge at or after `time`.
    #[inline]
    pub fn edge_at_or_after(self, time: Ps) -> u64 {
        if time.0 == 0 { 0 } else { self.edge_at_or_before(Ps(time.0 - 1)) + 1 }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Saturates a number that exceeds the range of time.
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

    #[test]
    fn divisions_by_a_reciprocal_are_exact_at_every_edge() {
        for number in [1, 2, 3, 5, 7, 333, 2500, 999_999_999_989, 1_000_000_000_000] {
            let divisor = Divisor::new(number);
            let last = u64::MAX / number;
            for quotient in [0, 1, 2, 3, 1000, last / 3, last / 2, last - 1, last] {
                let exact = quotient * number;
                for value in [exact.saturating_sub(1), exact, exact.saturating_add(1), u64::MAX] {
                    assert_eq!(divisor.divide(value), value / number, "{value} by {number}");
                }
            }
        }
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
