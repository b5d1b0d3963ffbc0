//! Quantities with units as written in configuration files and on the command line: "32KiB", "100Gbps",
//! "3GHz". There are no implicit conversions between them.

use std::fmt;
use std::str::FromStr;

use crate::time::Ps;

/// Error in a text that should be a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" {problem}; expected {expected}")]
pub struct UnitError {
    /// The text as written.
    pub text: String,
    /// Description of the problem.
    pub problem: String,
    /// Example of a valid text.
    pub expected: &'static str,
}

/// Parses a decimal number followed by one of `units` (name, scale). The value must be a whole number of the
/// smallest unit.
pub fn parse_scaled(text: &str, units: &[(&str, u64)], expected: &'static str) -> Result<u64, UnitError> {
    let fail = |problem: String| UnitError { text: text.to_owned(), problem, expected };
    let trimmed = text.trim();
    let split =
        trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(trimmed.len());
    let (number, unit) = (trimmed[..split].replace('_', ""), trimmed[split..].trim());
    if number.is_empty() {
        return Err(fail("has no number".into()));
    }
    let Some((_, scale)) = units.iter().find(|(name, _)| *name == unit) else {
        let names: Vec<&str> = units.iter().map(|(name, _)| *name).filter(|name| !name.is_empty()).collect();
        let problem = if unit.is_empty() {
            "has no unit".to_owned()
        } else {
            format!("has the unknown unit \"{unit}\"")
        };
        return Err(fail(format!("{problem} (units: {})", names.join(", "))));
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 18 || whole.len() > 20 {
        return Err(fail("has too many digits".into()));
    }
    let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| fail("is not a number".into()))?;
    let scaled = digits * u128::from(*scale);
    let divisor = 10u128.pow(fraction.len() as u32);
    if !scaled.is_multiple_of(divisor) {
        return Err(fail("is finer than the smallest unit".into()));
    }
    u64::try_from(scaled / divisor).map_err(|_| fail("is too large".into()))
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $expected:literal, $display_from:expr, [$(($unit:literal, $scale:expr)),* $(,)?]) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl $name {
            const UNITS: &'static [(&'static str, u64)] = &[$(($unit, $scale)),*];
        }

        impl FromStr for $name {
            type Err = UnitError;
            fn from_str(text: &str) -> Result<Self, UnitError> {
                parse_scaled(text, Self::UNITS, $expected).map($name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let shown = &Self::UNITS[..$display_from];
                match shown.iter().rev().find(|(_, scale)| self.0 != 0 && self.0.is_multiple_of(*scale)) {
                    Some((name, scale)) => write!(f, "{}{}", self.0 / scale, name),
                    None => write!(f, "{}{}", self.0, Self::UNITS[0].0),
                }
            }
        }

        $crate::text_serde!($name, u64);
        $crate::text_schema!($name, $expected, &[$($unit),*]);
    };
}

quantity!(
    /// A size in bytes. Binary multiples are KiB, MiB, GiB; decimal ones kB, MB, GB.
    Bytes, "a size such as \"64B\", \"32KiB\" or \"256MiB\"", 4,
    [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("kB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000)]
);

impl From<Bytes> for u64 {
    fn from(bytes: Bytes) -> u64 {
        bytes.0
    }
}
quantity!(
    /// A data rate in bits per second. Multiples are decimal.
    BitsPerSec, "a data rate such as \"10Gbps\" or \"2.5Gbps\"", 5,
    [("bps", 1), ("kbps", 1_000), ("Mbps", 1_000_000), ("Gbps", 1_000_000_000), ("Tbps", 1_000_000_000_000)]
);
quantity!(
    /// A frequency in hertz.
    Hertz, "a frequency such as \"3GHz\" or \"10MHz\"", 4,
    [("Hz", 1), ("kHz", 1_000), ("MHz", 1_000_000), ("GHz", 1_000_000_000)]
);

impl BitsPerSec {
    /// Time to move `bits` at this rate, rounded up to a whole picosecond.
    pub fn time_for_bits(self, bits: u64) -> Ps {
        let ps = (u128::from(bits) * u128::from(Ps::PER_SECOND)).div_ceil(u128::from(self.0.max(1)));
        Ps(u64::try_from(ps).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_parse_and_print_the_same() {
        assert_eq!("384KiB".parse::<Bytes>().unwrap(), Bytes(384 << 10));
        assert_eq!("100Gbps".parse::<BitsPerSec>().unwrap().to_string(), "100Gbps");
        assert_eq!("2.5Gbps".parse::<BitsPerSec>().unwrap().to_string(), "2500Mbps");
        assert_eq!("3GHz".parse::<Hertz>().unwrap().0, 3_000_000_000);
        assert_eq!("1500kB".parse::<Bytes>().unwrap().to_string(), "1500000B");
    }

    #[test]
    fn error_names_wrong_unit_and_valid_units() {
        let error = "10Gb".parse::<BitsPerSec>().unwrap_err().to_string();
        assert!(error.contains("\"Gb\"") && error.contains("Gbps"), "{error}");
    }

    #[test]
    fn a_64_byte_frame_with_overhead_takes_6720_ps_at_100_gbps() {
        assert_eq!(BitsPerSec(100_000_000_000).time_for_bits(84 * 8), Ps(6720));
    }
}
