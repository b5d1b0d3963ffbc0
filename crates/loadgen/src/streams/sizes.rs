//! Frame sizes: one size, several with weights, or a sequence of size letters by RFC 6985 ("IMIX Genome",
//! section 3). Sizes repeat in rounds; each round contains each size as often as its weight. Weighted sizes
//! are spread as evenly as possible within a round. Alternatively, each frame's size is drawn at random by
//! weight.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use doorbell_sim::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Frame sizes of a stream, with FCS. Written as text, or as a list of the parts of that text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Weight and size pairs.
    parts: Vec<(u32, Bytes)>,
    /// The parts are a sequence (a genome), and the weights are repetitions.
    in_sequence: bool,
}

/// Order of the sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SizeOrder {
    /// In rounds that contain each size as often as its weight.
    #[default]
    Rounds,
    /// Random, by weight.
    Random,
}

/// Maximum number of frames per round.
const ROUND_MAX: u64 = 4096;
/// IP packets of 40, 576 and 1500 bytes in seven, four and one of twelve frames.
const IMIX: [(u32, u64); 3] = [(7, 64), (4, 594), (1, 1518)];
/// The letters of RFC 6985, table 1; `z` is the MTU, which the user must define.
const LETTERS: [(char, u64); 10] = [
    ('a', 64),
    ('b', 128),
    ('c', 256),
    ('d', 512),
    ('e', 1024),
    ('f', 1280),
    ('g', 1518),
    ('h', 2112),
    ('i', 9000),
    ('j', 16_000),
];
const GENOME: &str = "genome:";
const EXPECTED: &str = "a frame size such as \"64B\", sizes with weights such as \"7x64B,4x594B,1x1518B\" or a list of them, \
                        \"imix\", or a genome such as \"genome:aaafg\"";

/// Error in a text of sizes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" {problem}; expected {EXPECTED}")]
pub struct SizesError {
    text: String,
    problem: String,
}

impl Sizes {
    /// Frames of one size.
    pub fn one(size: Bytes) -> Sizes {
        Sizes { parts: vec![(1, size)], in_sequence: false }
    }

    /// The sizes with their number of frames per round, as written.
    pub fn parts(&self) -> &[(u32, Bytes)] {
        &self.parts
    }

    /// The frame sizes of a round, in order.
    pub(crate) fn round(&self) -> Vec<Bytes> {
        if self.in_sequence {
            return self
                .parts
                .iter()
                .flat_map(|(times, size)| std::iter::repeat_n(*size, *times as usize))
                .collect();
        }
        // Credit scheduling: each part gains its weight per frame; the part with the most credit sends and
        // pays the total weight.
        let total: i64 = self.parts.iter().map(|(weight, _)| i64::from(*weight)).sum();
        let mut credit = vec![0i64; self.parts.len()];
        let mut round = Vec::with_capacity(total as usize);
        for _ in 0..total {
            credit.iter_mut().zip(&self.parts).for_each(|(sum, (weight, _))| *sum += i64::from(*weight));
            let most = *credit.iter().max().expect("there is at least one size");
            let next = credit.iter().position(|sum| *sum == most).expect("the maximum is one of them");
            credit[next] -= total;
            round.push(self.parts[next].1);
        }
        round
    }

    fn checked(self, text: &str) -> Result<Sizes, SizesError> {
        let frames: u64 = self.parts.iter().map(|(weight, _)| u64::from(*weight)).sum();
        let fail = |problem: &str| Err(SizesError { text: text.to_owned(), problem: problem.to_owned() });
        match () {
            () if self.parts.is_empty() => fail("contains no size"),
            () if self.parts.iter().any(|(weight, _)| *weight == 0) => fail("has a weight of zero"),
            () if frames > ROUND_MAX => fail("has a round of more than 4096 frames"),
            () => Ok(self),
        }
    }

    fn weighted(text: &str) -> Result<Sizes, String> {
        let part = |part: &str| {
            let (weight, size) = match part.split_once(['x', '×']) {
                Some((weight, size)) => (weight.trim().parse().ok(), size),
                None => (Some(1), part),
            };
            let weight = weight.ok_or_else(|| "has a weight that is not a whole number".to_owned())?;
            let size = size.parse::<Bytes>().map_err(|error| error.problem)?;
            Ok::<_, String>((weight, size))
        };
        let parts = text.split(',').map(part).collect::<Result<Vec<_>, _>>()?;
        Ok(Sizes { parts, in_sequence: false })
    }

    /// Parses letters with optional repetition counts, then definitions of user letters.
    fn genome(text: &str) -> Result<Sizes, String> {
        let mut pieces = text.split(',').map(str::trim);
        let sequence = pieces.next().unwrap_or_default();
        let mut letters = LETTERS.to_vec();
        for piece in pieces {
            let (name, size) =
                piece.split_once('=').ok_or("defines a letter without a size, such as z=9216B")?;
            let mut name = name.trim().chars();
            match (name.next(), name.next()) {
                (Some(letter), None) if letter == 'z' || letter.is_ascii_uppercase() => {
                    letters.push((letter, size.parse::<Bytes>().map_err(|error| error.problem)?.0));
                }
                _ => return Err("defines a name other than a capital letter or z".to_owned()),
            }
        }
        let (mut parts, mut number) = (Vec::new(), String::new());
        for letter in sequence.chars() {
            if letter.is_ascii_digit() {
                number.push(letter);
                continue;
            }
            let known = letters.iter().find(|(defined, _)| *defined == letter);
            let (_, size) = known.ok_or_else(|| {
                format!("has the letter \"{letter}\", which is not defined (a to j are; append a definition such as ,z=9216B or ,A=1020B)")
            })?;
            let times = if number.is_empty() { Ok(1) } else { number.parse() };
            parts.push((
                times.map_err(|_| "has a repetition count that is too large".to_owned())?,
                Bytes(*size),
            ));
            number.clear();
        }
        if !number.is_empty() {
            return Err("ends with a repetition count".to_owned());
        }
        Ok(Sizes { parts, in_sequence: true })
    }
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes::one(Bytes(64))
    }
}

impl FromStr for Sizes {
    type Err = SizesError;
    fn from_str(text: &str) -> Result<Sizes, SizesError> {
        let trimmed = text.trim();
        let sizes = match trimmed.strip_prefix(GENOME) {
            Some(genome) => Self::genome(genome.trim()),
            None if trimmed == "imix" => Ok(Sizes {
                parts: IMIX.map(|(weight, size)| (weight, Bytes(size))).to_vec(),
                in_sequence: false,
            }),
            None => Self::weighted(trimmed),
        };
        sizes.map_err(|problem| SizesError { text: text.to_owned(), problem })?.checked(text)
    }
}

/// Formats sizes as parsed. Sizes of a genome without a standard letter are written as user letters.
impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.in_sequence {
            return self.fmt_genome(f);
        }
        for (index, (weight, size)) in self.parts.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            if self.parts.len() == 1 && *weight == 1 {
                write!(f, "{size}")?;
            } else {
                write!(f, "{comma}{weight}x{size}")?;
            }
        }
        Ok(())
    }
}

impl Sizes {
    fn fmt_genome(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut own: Vec<Bytes> = Vec::new();
        write!(f, "{GENOME}")?;
        for (times, size) in &self.parts {
            if *times > 1 {
                write!(f, "{times}")?;
            }
            let known = LETTERS.iter().find(|(_, standard)| *standard == size.0);
            let letter = known.map(|(letter, _)| *letter).unwrap_or_else(|| {
                let place = own.iter().position(|other| other == size).unwrap_or_else(|| {
                    own.push(*size);
                    own.len() - 1
                });
                user_letter(place)
            });
            write!(f, "{letter}")?;
        }
        own.iter().enumerate().try_for_each(|(place, size)| write!(f, ",{}={size}", user_letter(place)))
    }
}

/// User letters of a genome: the 26 capitals and z, as many as the parser accepts.
fn user_letter(place: usize) -> char {
    u8::try_from(place).ok().filter(|place| *place < 26).map_or('z', |place| char::from(b'A' + place))
}

impl Serialize for Sizes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

struct TextOrList;

impl<'de> Visitor<'de> for TextOrList {
    type Value = Sizes;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED)
    }
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Sizes, E> {
        text.parse().map_err(E::custom)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Sizes, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = list.next_element::<String>()? {
            parts.push(part);
        }
        parts.join(",").parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Sizes {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Sizes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "array"], "items": { "type": "string" }, "x-value": EXPECTED })
    }
}

impl<'de> Deserialize<'de> for Sizes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sizes, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_any(TextOrList)
        } else {
            deserializer.deserialize_str(TextOrList)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sizes(text: &str) -> Sizes {
        text.parse().unwrap()
    }

    fn round(text: &str) -> Vec<u64> {
        sizes(text).round().into_iter().map(|size| size.0).collect()
    }

    #[test]
    fn weighted_sizes_are_spread_over_their_round() {
        assert_eq!(round("64B"), [64]);
        assert_eq!(round("3x64B,1x1518B"), [64, 64, 1518, 64]);
        assert_eq!(round("imix"), [64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 594, 64]);
        assert_eq!(sizes("imix"), sizes("7x64B, 4x594B, 1×1518B"));
    }

    #[test]
    fn genomes_are_parsed_letter_by_letter() {
        // The sequence of RFC 6985, section 3, and user letters as in its section 4.
        assert_eq!(round("genome:aaafg"), [64, 64, 64, 1280, 1518]);
        assert_eq!(round("genome:hij"), [2112, 9000, 16_000]);
        assert_eq!(round("genome:2aAz,A=1020B,z=9216B"), [64, 64, 1020, 9216]);
        assert_eq!(sizes("genome:2aAz,A=1020B,z=9KiB").to_string(), "genome:2aAB,A=1020B,B=9KiB");
    }

    #[test]
    fn errors_name_the_problem_with_examples() {
        for (text, part) in [
            ("", "no number"),
            ("64", "no unit"),
            ("7*64B", "unit"),
            ("ax64B", "weight"),
            ("0x64B", "weight of zero"),
            ("5000x64B", "4096"),
            ("genome:", "no size"),
            ("genome:aaz", "\"z\""),
            ("genome:az,z", "without a size"),
            ("genome:a,ab=64B", "capital"),
            ("genome:a2", "ends with a repetition"),
            ("genome:99999999999a", "too large"),
        ] {
            let error = text.parse::<Sizes>().unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("genome:aaafg"), "{error}");
        }
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Table {
        size: Sizes,
    }

    #[test]
    fn list_is_equivalent_to_text() {
        let list: Table = toml::from_str("size = [\"7x64B\", \"4x594B\", \"1x1518B\"]").unwrap();
        assert_eq!(list.size, sizes("imix"));
        let error = toml::from_str::<Table>("size = 64").unwrap_err().to_string();
        assert!(error.contains("\"64B\""), "{error}");
    }

    proptest! {
        #[test]
        fn sizes_round_trip_through_text(parts in prop::collection::vec((1u32..100, 64u64..16_384), 1..20), in_sequence: bool) {
            let parts = parts.into_iter().map(|(weight, size)| (weight, Bytes(size))).collect();
            let sizes = Sizes { parts, in_sequence };
            prop_assert_eq!(&sizes.to_string().parse::<Sizes>().unwrap(), &sizes);
            let table = Table { size: sizes };
            let back = postcard::from_bytes::<Table>(&postcard::to_stdvec(&table).unwrap()).unwrap();
            prop_assert_eq!(&back, &table);
            let round = table.size.round();
            for (_, size) in table.size.parts() {
                let weight: u32 = table.size.parts().iter().filter(|part| part.1 == *size).map(|part| part.0).sum();
                prop_assert_eq!(round.iter().filter(|found| *found == size).count(), weight as usize);
            }
        }
    }
}
