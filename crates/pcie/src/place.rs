//! Position of a function: bus, device number and function number. Software assigns bus numbers, so a bus is
//! identified by the bridge in front of it.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

/// Devices per bus.
pub const DEVICES: u8 = 32;
/// Functions per device.
pub const FUNCTIONS: u8 = 8;

/// Position of a function, written `03.0` on the root bus and `0:03.0` behind the first bridge. Device and
/// function are hexadecimal, as in `lspci`; the bridge number is decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Index of the bridge in front of it, in listing order from zero; `None` for the root bus.
    pub behind: Option<u8>,
    /// The device number, 0 to 31.
    pub device: u8,
    /// The function number, 0 to 7.
    pub function: u8,
}

impl Place {
    /// Function 0 of a device on the root bus.
    pub const fn root(device: u8) -> Place {
        Place { behind: None, device, function: 0 }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(bridge) = self.behind {
            write!(f, "{bridge}:")?;
        }
        write!(f, "{:02x}.{}", self.device, self.function)
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        let read = || {
            let (behind, rest) = match text.split_once(':') {
                Some((bridge, rest)) => (Some(bridge.parse::<u8>().ok()?), rest),
                None => (None, text),
            };
            let (device, function) = rest.split_once('.')?;
            let device = u8::from_str_radix(device, 16).ok().filter(|device| *device < DEVICES)?;
            let function = function.parse::<u8>().ok().filter(|function| *function < FUNCTIONS)?;
            Some(Place { behind, device, function })
        };
        read().ok_or_else(|| {
            format!(
                "\"{text}\" is not a PCI function's place; write device.function, from 00.0 to 1f.7, behind a bridge with its \
                 number in front, such as 0:03.0"
            )
        })
    }
}

doorbell_sim::text_schema!(
    Place,
    "a place of a PCI function such as \"03.0\", or \"0:03.0\" behind bridge 0",
    &[]
);

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Place, D::Error> {
        match deserializer.is_human_readable() {
            true => deserializer.deserialize_any(PlaceText),
            false => deserializer.deserialize_str(PlaceText),
        }
    }
}

struct PlaceText;

impl Visitor<'_> for PlaceText {
    type Value = Place;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the place of a PCI function, such as \"03.0\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Place, E> {
        text.parse().map_err(E::custom)
    }

    /// An unquoted `10.0` is parsed as a number.
    fn visit_f64<E: Error>(self, number: f64) -> Result<Place, E> {
        self.visit_str(&format!("{number:.1}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_parse_and_print_the_same_and_others_are_rejected() {
        for text in ["03.0", "1f.7", "0:00.0", "12:0a.1"] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
        assert_eq!("0:3.0".parse::<Place>().unwrap(), Place { behind: Some(0), device: 3, function: 0 });
        let table: std::collections::BTreeMap<String, Place> =
            toml::from_str("a = 10.1\nb = \"0:1f.7\"").unwrap();
        assert_eq!((table["a"].to_string(), table["b"].to_string()), ("10.1".into(), "0:1f.7".into()));
        let bytes = postcard::to_stdvec(&table["b"]).unwrap();
        assert_eq!(postcard::from_bytes::<Place>(&bytes).unwrap(), table["b"]);
        for text in ["", "3", "20.0", "03.8", "x:03.0", "00:03", "300:03.0", "03.-1", "0:0:3.0"] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }
}
