//! Simulated time in picoseconds. A `u64` of picoseconds lasts 213 days, far beyond any run.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

use crate::units::{UnitError, parse_scaled};

/// A point in simulated time, or a span of it, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ps(pub u64);

const UNITS: &[(&str, u64)] = &[
    ("ps", 1),
    ("ns", 1_000),
    ("us", 1_000_000),
    ("µs", 1_000_000),
    ("ms", 1_000_000_000),
    ("s", Ps::PER_SECOND),
];

impl Ps {
    /// The start of simulated time; also the empty span.
    pub const ZERO: Ps = Ps(0);
    /// Later than every event: "never".
    pub const MAX: Ps = Ps(u64::MAX);
    /// Picoseconds in a second.
    pub const PER_SECOND: u64 = 1_000_000_000_000;

    /// A span of whole nanoseconds.
    pub const fn from_ns(ns: u64) -> Ps {
        Ps(ns * 1_000)
    }

    /// A span of whole microseconds.
    pub const fn from_us(us: u64) -> Ps {
        Ps(us * 1_000_000)
    }

    /// A span of whole milliseconds.
    pub const fn from_ms(ms: u64) -> Ps {
        Ps(ms * 1_000_000_000)
    }

    /// The span in nanoseconds, for reports only.
    pub fn as_ns_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// The span in seconds, for reports only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// `self − other`, or zero if `other` is later.
    pub const fn saturating_sub(self, other: Ps) -> Ps {
        Ps(self.0.saturating_sub(other.0))
    }

    /// `self + other`, or [`Ps::MAX`] on overflow.
    pub const fn saturating_add(self, other: Ps) -> Ps {
        Ps(self.0.saturating_add(other.0))
    }
}

impl Add for Ps {
    type Output = Ps;
    fn add(self, other: Ps) -> Ps {
        Ps(self.0 + other.0)
    }
}

impl AddAssign for Ps {
    fn add_assign(&mut self, other: Ps) {
        self.0 += other.0;
    }
}

impl Sub for Ps {
    type Output = Ps;
    fn sub(self, other: Ps) -> Ps {
        Ps(self.0 - other.0)
    }
}

/// Prints the largest unit in which the span is a whole number: `10ns`, `1500ps`.
impl fmt::Display for Ps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = |scale: u64| self.0 != 0 && self.0.is_multiple_of(scale);
        match UNITS.iter().rev().find(|(name, scale)| *name != "µs" && exact(*scale)) {
            Some((name, scale)) => write!(f, "{}{}", self.0 / scale, name),
            None => write!(f, "{}ps", self.0),
        }
    }
}

const EXPECTED: &str = "a time such as \"10ns\", \"1.5us\" or \"2ms\"";
crate::text_schema!(Ps, EXPECTED, &["ps", "ns", "us", "ms", "s"]);

impl FromStr for Ps {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Ps, UnitError> {
        parse_scaled(text, UNITS, EXPECTED).map(Ps)
    }
}

// Configuration files spell times as text ("10ns"); snapshots store the number.
crate::text_serde!(Ps, u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_parse_with_units_and_print_in_the_largest_exact_one() {
        for (text, ps, shown) in [
            ("10ns", 10_000, "10ns"),
            ("1.5us", 1_500_000, "1500ns"),
            ("0s", 0, "0ps"),
            ("2 ms", 2_000_000_000, "2ms"),
        ] {
            let parsed: Ps = text.parse().unwrap();
            assert_eq!((parsed.0, parsed.to_string().as_str()), (ps, shown));
        }
    }

    #[test]
    fn error_for_missing_or_wrong_unit_shows_an_example() {
        for text in ["10", "10parsecs", "", "ns", "-1ns", "1e400s", "0.0001ps"] {
            let error = text.parse::<Ps>().unwrap_err().to_string();
            assert!(error.contains("10ns"), "{error}");
        }
    }
}
