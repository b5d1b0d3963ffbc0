//! Numbers that may be missing. JSON has no infinity and no NaN: a ratio with a zero denominator is written
//! as `null` and read as NaN.

use serde::{Deserialize, Deserializer};

/// The number, if it is finite.
pub fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

pub(crate) fn or_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Option::<f64>::deserialize(deserializer).map(|value| value.unwrap_or(f64::NAN))
}

/// The default of a number that is missing in the file.
pub(crate) fn unknown() -> f64 {
    f64::NAN
}
