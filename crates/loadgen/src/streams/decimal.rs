//! An exact number with six decimals, which configurations can compare, hash and save.

use std::borrow::Cow;
use std::fmt;

use doorbell_sim::config::Parameter;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decimal(pub u64);

impl Decimal {
    /// One.
    pub const ONE: Decimal = Decimal(Self::SCALE);
    const SCALE: u64 = 1_000_000;
    /// Maximum value in a configuration.
    const MAX: f64 = 1e12;

    /// The number.
    pub fn value(self) -> f64 {
        self.0 as f64 / Self::SCALE as f64
    }
}

impl Parameter for Decimal {
    type Value = Decimal;

    fn configured(&self) -> Option<&Decimal> {
        Some(self)
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.value())
    }
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_f64(self.value())
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl JsonSchema for Decimal {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Decimal".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0 })
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Decimal, D::Error> {
        if !deserializer.is_human_readable() {
            return u64::deserialize(deserializer).map(Decimal);
        }
        let value = f64::deserialize(deserializer)?;
        if !(0.0..=Self::MAX).contains(&value) {
            let problem = format!("{value} is out of range; it must be from 0 to {:e}", Self::MAX);
            return Err(serde::de::Error::custom(problem));
        }
        Ok(Decimal((value * Self::SCALE as f64).round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Table {
        x: Decimal,
    }

    #[test]
    fn decimals_round_trip_with_six_digits() {
        for (text, millionths) in
            [("x = 1.5", 1_500_000), ("x = 0.000001", 1), ("x = 2", 2_000_000), ("x = 0.1", 100_000)]
        {
            let table: Table = toml::from_str(text).unwrap();
            assert_eq!(table.x, Decimal(millionths));
            assert_eq!(toml::from_str::<Table>(&toml::to_string(&table).unwrap()).unwrap(), table);
            let bytes = postcard::to_stdvec(&table).unwrap();
            assert_eq!(postcard::from_bytes::<Table>(&bytes).unwrap(), table);
        }
        for wrong in ["x = -1", "x = nan", "x = inf", "x = 1e13"] {
            assert!(
                toml::from_str::<Table>(wrong).unwrap_err().to_string().contains("out of range"),
                "{wrong}"
            );
        }
    }
}
