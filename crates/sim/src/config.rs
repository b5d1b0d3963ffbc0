//! Configuration structs: one row per parameter, with its type, valid range and default.

use std::fmt::Display;
use std::ops::{RangeFrom, RangeInclusive, RangeToInclusive};

use crate::{BitsPerSec, Bytes, Hertz, Ps};

/// Defines configuration structs. A row is `name: type [range] = default`; the range may be omitted.
///
/// ```
/// # use doorbell_sim::config;
/// config! {
///     #[derive(Debug)]
///     pub struct QueueConfig {
///         pub entries: u32 [1..=64] = 16,
///         pub is_shared: bool = false,
///     }
/// }
/// let error = QueueConfig { entries: 0, ..QueueConfig::default() }.check_ranges().unwrap_err();
/// assert_eq!(error.to_string(), "entries is 0; it must be from 1 to 64");
/// ```
#[macro_export]
macro_rules! config {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $(
                $(#[$field_attribute:meta])*
                $field_visibility:vis $field:ident: $type:ty $([$range:expr])? = $default:expr,
            )*
        }
    )*) => {$(
        $(#[$attribute])*
        $visibility struct $name {
            $($(#[$field_attribute])* $field_visibility $field: $type,)*
        }

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default,)* }
            }
        }

        impl $name {
            /// Checks each parameter that has a range.
            pub fn check_ranges(&self) -> Result<(), $crate::config::OutOfRange> {
                $($($crate::config::check(stringify!($field), &self.$field, $range)?;)?)*
                Ok(())
            }
        }
    )*};
}

/// A parameter outside its range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}; it must be {valid}")]
pub struct OutOfRange {
    /// The parameter's name.
    pub field: String,
    /// The configured value, in units of configuration files.
    pub value: String,
    /// Description of the valid values, such as "from 1 to 64".
    pub valid: String,
}

impl From<OutOfRange> for String {
    fn from(error: OutOfRange) -> String {
        error.to_string()
    }
}

/// Valid values of a parameter.
pub trait Range<T> {
    /// Whether `value` is valid.
    fn has(&self, value: &T) -> bool;
    /// Description for error messages.
    fn description(&self) -> String;
}

impl<T: PartialOrd + Display> Range<T> for RangeInclusive<T> {
    fn has(&self, value: &T) -> bool {
        self.contains(value)
    }

    fn description(&self) -> String {
        format!("from {} to {}", self.start(), self.end())
    }
}

impl<T: PartialOrd + Display> Range<T> for RangeToInclusive<T> {
    fn has(&self, value: &T) -> bool {
        self.contains(value)
    }

    fn description(&self) -> String {
        format!("at most {}", self.end)
    }
}

impl<T: PartialOrd + Display> Range<T> for RangeFrom<T> {
    fn has(&self, value: &T) -> bool {
        self.contains(value)
    }

    fn description(&self) -> String {
        format!("at least {}", self.start)
    }
}

/// Powers of two in a range.
pub struct PowersOfTwo<T>(pub RangeInclusive<T>);

impl<T: PartialOrd + Display + Copy + Into<u64>> Range<T> for PowersOfTwo<T> {
    fn has(&self, value: &T) -> bool {
        self.0.contains(value) && (*value).into().is_power_of_two()
    }

    fn description(&self) -> String {
        format!("a power of two {}", self.0.description())
    }
}

/// Type of a parameter that can have a range.
pub trait Parameter {
    /// Type of the range's ends.
    type Value: Display;
    /// The configured value, if any.
    fn configured(&self) -> Option<&Self::Value>;
}

macro_rules! parameters {
    ($($type:ty)*) => {$(
        impl Parameter for $type {
            type Value = $type;

            fn configured(&self) -> Option<&$type> {
                Some(self)
            }
        }
    )*};
}

parameters! { u8 u16 u32 u64 f64 BitsPerSec Bytes Hertz Ps }

impl<T: Parameter> Parameter for Option<T> {
    type Value = T::Value;

    fn configured(&self) -> Option<&T::Value> {
        self.as_ref().and_then(T::configured)
    }
}

/// Checks that a parameter is not configured, or in its range.
pub fn check<P: Parameter>(
    field: &str,
    parameter: &P,
    range: impl Range<P::Value>,
) -> Result<(), OutOfRange> {
    match parameter.configured() {
        Some(value) if !range.has(value) => {
            let (field, value) = (field.to_owned(), value.to_string());
            Err(OutOfRange { field, value, valid: range.description() })
        }
        _ => Ok(()),
    }
}

/// Whether a value is the default of its type. Such values of newer parameters are not serialized
/// (`skip_serializing_if`), so that older configurations keep their hash.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
