//! Sets of ways of a cache, as configuration files spell them: `"0-3"`, `"0,2,8-11"`, `"all"`.
//!
//! A way mask limits the ways of an allocation. A hit may be in any way.

use std::fmt;
use std::str::FromStr;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum number of ways of a cache.
pub const WAYS_MAX: u32 = 32;

/// A set of ways: bit *n* is way *n*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WayMask(pub u32);

impl WayMask {
    /// All ways of the cache.
    pub const ALL: WayMask = WayMask(u32::MAX);

    /// The ways `0..count`.
    pub const fn first(count: u32) -> WayMask {
        WayMask(if count >= 32 { u32::MAX } else { (1 << count) - 1 })
    }

    /// Checks the mask for a cache with `ways` ways.
    pub fn validate(self, name: &str, ways: u32) -> Result<(), String> {
        if self == WayMask::ALL {
            return Ok(());
        }
        if self.0 == 0 {
            return Err(format!(
                "{name} is empty; it must name at least one way, such as \"0-3\", or \"all\""
            ));
        }
        if self.0 & !WayMask::first(ways).0 != 0 {
            return Err(format!("{name} is \"{self}\", but the LLC's ways are 0 to {}", ways - 1));
        }
        Ok(())
    }
}

/// Error in the text of a set of ways.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WayMaskError {
    /// Syntax error.
    #[error(
        "\"{0}\" is not a set of ways; expected for example \"0-3\", \"0,2,8-11\" or \"all\" (ways are 0 to 31)"
    )]
    Spelling(String),
    /// The text names all 32 ways.
    #[error("\"{0}\" names all 32 ways; use \"all\" for every way of the cache, or name fewer")]
    Every(String),
}

impl FromStr for WayMask {
    type Err = WayMaskError;
    fn from_str(text: &str) -> Result<WayMask, WayMaskError> {
        let fail = || WayMaskError::Spelling(text.to_owned());
        if text.trim() == "all" {
            return Ok(WayMask::ALL);
        }
        let way = |text: &str| match text.trim().parse::<u32>() {
            Ok(way) if way < WAYS_MAX => Ok(way),
            _ => Err(fail()),
        };
        let mut mask = 0u32;
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (way(first)?, way(last)?);
            if first > last {
                return Err(fail());
            }
            mask |= WayMask::first(last + 1).0 & !WayMask::first(first).0;
        }
        // A full mask would mean "all" for a cache with fewer ways, while "0-30" is an error there.
        if WayMask(mask) == WayMask::ALL {
            return Err(WayMaskError::Every(text.to_owned()));
        }
        Ok(WayMask(mask))
    }
}

impl fmt::Display for WayMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == WayMask::ALL {
            return f.write_str("all");
        }
        let (mut rest, mut comma) = (self.0, "");
        while rest != 0 {
            let first = rest.trailing_zeros();
            let last = first + (!(rest >> first)).trailing_zeros() - 1;
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
            rest &= !WayMask::first(last + 1).0;
            comma = ",";
        }
        Ok(())
    }
}

doorbell_sim::text_schema!(WayMask, "ways such as \"all\", \"0-3\" or \"0,5\"", &[]);

/// Configuration files spell the ways as text; snapshots store the bits.
impl Serialize for WayMask {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for WayMask {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WayMask, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_any(Spelled)
        } else {
            u32::deserialize(deserializer).map(WayMask)
        }
    }
}

/// Ways in a configuration file. A plain number is rejected: it could mean a count or a single way.
struct Spelled;

impl Visitor<'_> for Spelled {
    type Value = WayMask;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ways such as \"all\", \"0-3\" or \"0,5\"")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<WayMask, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<WayMask, E> {
        Err(E::custom(match u32::try_from(number) {
            Ok(0) => "0 may mean way 0 or no way; write \"0-0\" for the way 0".to_owned(),
            Ok(number) if number < WAYS_MAX => format!(
                "{number} may mean one way or a number of ways; write \"{number}-{number}\" for the way {number}, or \"0-{}\" for the \
                 first {number}",
                number - 1
            ),
            _ => WayMaskError::Spelling(number.to_string()).to_string(),
        }))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<WayMask, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => self.visit_str(&number.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_parse_and_print_the_same() {
        for (text, bits) in [("0-3", 0xf), ("0,2,8-11", 0xf05), ("31", 1 << 31), ("all", u32::MAX)] {
            let mask: WayMask = text.parse().unwrap();
            assert_eq!((mask.0, mask.to_string().as_str()), (bits, text));
        }
    }

    #[test]
    fn a_number_alone_is_neither_a_way_nor_a_count() {
        #[derive(Deserialize)]
        struct Config {
            ways: WayMask,
        }
        let read = |text: &str| toml::from_str::<Config>(text).map(|config| config.ways);
        let message = read("ways = 2").unwrap_err().to_string();
        assert!(message.contains("write \"2-2\" for the way 2, or \"0-1\" for the first 2"), "{message}");
        assert!(read("ways = 0").unwrap_err().to_string().contains("\"0-0\""));
        assert_eq!(
            (read("ways = \"2-2\"").unwrap(), read("ways = \"0-1\"").unwrap()),
            (WayMask(4), WayMask(3))
        );
        assert_eq!(read("ways = \"5\"").unwrap(), WayMask(1 << 5));
        for wrong in ["ways = 32", "ways = -1", "ways = true", "ways = 1.5"] {
            assert!(read(wrong).unwrap_err().to_string().contains("\"0-3\""), "{wrong}");
        }
    }

    #[test]
    fn an_invalid_set_of_ways_is_rejected_with_an_example() {
        for text in ["", "3-1", "32", "a", "1-", "1,,2", "-1"] {
            assert!(text.parse::<WayMask>().unwrap_err().to_string().contains("\"0-3\""), "{text}");
        }
        for text in ["0-31", "0-15,16-31"] {
            assert!(text.parse::<WayMask>().unwrap_err().to_string().contains("use \"all\""), "{text}");
        }
        assert!(WayMask(0).validate("dca.ways", 16).unwrap_err().contains("dca.ways is empty"));
        assert!(WayMask(1 << 16).validate("dca.ways", 16).unwrap_err().contains("0 to 15"));
        assert!(WayMask(1 << 15).validate("dca.ways", 16).is_ok());
    }
}
