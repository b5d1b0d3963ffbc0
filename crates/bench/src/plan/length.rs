//! The length of a phase of a run: automatic, or a fixed time.

use std::fmt;
use std::str::FromStr;

use doorbell_sim::Ps;
use doorbell_sim::units::UnitError;

const AUTO: &str = "auto";
const LENGTH: &str = "\"auto\", or a time such as \"100us\" or \"2ms\"";

/// The length of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Until the system is steady, by the criteria of [`crate::testbed::steady`].
    Auto,
    /// A fixed time.
    For(Ps),
}

impl Length {
    /// The fixed time, if any.
    pub fn given(self) -> Option<Ps> {
        match self {
            Length::Auto => None,
            Length::For(time) => Some(time),
        }
    }

    /// The fixed time, or `limit` for an automatic length.
    pub fn at_most(self, limit: Ps) -> Ps {
        match self {
            Length::Auto => limit,
            Length::For(time) => time,
        }
    }

    /// Whether the length is not zero.
    pub fn is_some(self) -> bool {
        self != Length::For(Ps::ZERO)
    }
}

impl FromStr for Length {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Length, UnitError> {
        if text == AUTO {
            return Ok(Length::Auto);
        }
        let with_auto = |error| UnitError { expected: LENGTH, ..error };
        text.parse().map(Length::For).map_err(with_auto)
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Length::Auto => f.write_str(AUTO),
            Length::For(time) => time.fmt(f),
        }
    }
}

doorbell_sim::text_serde!(Length);
doorbell_sim::text_schema!(Length, LENGTH, &["ps", "ns", "us", "ms", "s"]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_parses_and_prints_auto_or_a_time() {
        for (text, length) in [("auto", Length::Auto), ("2ms", Length::For(Ps::from_ms(2)))] {
            assert_eq!(text.parse(), Ok(length));
            assert_eq!(length.to_string(), text);
        }
        for wrong in ["", "2", "automatic"] {
            let error = wrong.parse::<Length>().unwrap_err().to_string();
            assert!(error.contains("\"auto\", or a time"), "{error}");
        }
    }
}
