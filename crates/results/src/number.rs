//! Numbers that may not be there. JSON has no infinity and no NaN: a ratio with nothing to divide by is written as `null` and
//! read as NaN.

use serde::{Deserialize, Deserializer};

/// A number, if it is one.
pub fn known(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

pub(crate) fn or_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Option::<f64>::deserialize(deserializer).map(|value| value.unwrap_or(f64::NAN))
}

/// What a file that does not say it says.
pub(crate) fn unknown() -> f64 {
    f64::NAN
}
