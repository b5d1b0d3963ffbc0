//! Contents and access pattern of a memcached server: number of keys, key and value lengths, and key
//! popularity. All are functions of the key's number and the run's seed, so nothing has to be stored.
//!
//! | Lengths | Keys | Values | From |
//! |---|---|---|---|
//! | `fixed` | `key` | `value` | |
//! | `zipf` | Zipf's law over a range | the same | "Userspace Networking in gem5" (ISPASS 2024): 10 to 100 bytes, skew 0.5 |
//! | `etc` | generalised extreme value (30.7984, 8.20449, 0.078688), at least 8 | generalised Pareto (15, 214.476, 0.348238), at most 1024 | Atikoglu et al., "Workload Analysis of a Large-Scale Key-Value Store" (SIGMETRICS 2012) |
//!
//! A reply must fit one datagram, which truncates the 6 % of ETC's values that are longer than 1024 bytes.

use doorbell_sim::{Bytes, config};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::frame::{fill, hash};
use crate::streams::{Decimal, Zipf};

config! {
    /// Keys, values and access pattern of memcached requests.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct MemcachedConfig {
        /// Number of keys, 1 to 10,000,000; up to 1,048,576 with Zipf popularity.
        pub keys: u32 [1..=KEYS_MAX] = 1_000,
        /// Bytes of each key with fixed lengths, 8B to 250B.
        pub key: Bytes [Bytes(KEY_MIN)..=Bytes(KEY_MAX)] = Bytes(16),
        /// Bytes of each value with fixed lengths, 1B to 1024B: a reply must fit one datagram.
        pub value: Bytes [Bytes(1)..=Bytes(VALUE_MAX)] = Bytes(64),
        /// Distribution of key and value lengths.
        pub lengths: Lengths = Lengths::Fixed,
        /// Popularity of the keys.
        pub popularity: Popularity = Popularity::Uniform,
        /// Share of requests that set a key to its value again instead of getting it, 0 to 1.
        pub sets: Decimal [..=Decimal::ONE] = Decimal(0),
        /// Number of clients that send in turn, 1 to 1024, each from its own UDP port (`source_port` and
        /// following).
        pub clients: u16 [1..=CLIENTS_MAX] = 1,
        /// Number of servers that share the keys, 1 to 16: key N is on UDP port `destination_port` + N modulo
        /// `shards`.
        #[serde(skip_serializing_if = "is_one")]
        pub shards: u16 [1..=SHARDS_MAX] = 1,
    }
}

/// Keeps the hash of configurations from before this key existed.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
fn is_one(shards: &u16) -> bool {
    *shards == 1
}

/// Distribution of key and value lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Lengths {
    /// Fixed lengths: `key` and `value`.
    #[default]
    Fixed,
    /// Zipf's law, the shortest length most often.
    Zipf {
        /// Minimum length, at least 8B.
        from: Bytes,
        /// Maximum length, at most 250B.
        to: Bytes,
        /// Exponent, 0 to 10.
        skew: Decimal,
    },
    /// The distributions of Facebook's ETC pool.
    Etc,
}

/// Popularity of the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Popularity {
    /// All keys equally popular.
    #[default]
    Uniform,
    /// Zipf's law, the first key most often.
    Zipf {
        /// Exponent, 0 to 10.
        skew: Decimal,
    },
}

/// Encoding in saved states: complete, whereas configuration text omits defaults.
pub(crate) mod saved {
    use super::*;

    type Saved = (u32, Bytes, Bytes, Lengths, Popularity, Decimal, u16, u16);

    pub fn serialize<S: Serializer>(config: &MemcachedConfig, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return config.serialize(serializer);
        }
        let MemcachedConfig { keys, key, value, lengths, popularity, sets, clients, shards } = *config;
        let saved: Saved = (keys, key, value, lengths, popularity, sets, clients, shards);
        saved.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MemcachedConfig, D::Error> {
        if deserializer.is_human_readable() {
            return MemcachedConfig::deserialize(deserializer);
        }
        let (keys, key, value, lengths, popularity, sets, clients, shards) =
            Saved::deserialize(deserializer)?;
        Ok(MemcachedConfig { keys, key, value, lengths, popularity, sets, clients, shards })
    }
}

const KEYS_MAX: u32 = 10_000_000;
const ZIPF_KEYS_MAX: u32 = 1 << 20;
/// Generator number and key number take seven characters, plus one of filler.
const KEY_MIN: u64 = 8;
/// memcached's own limit.
const KEY_MAX: u64 = 250;
const VALUE_MAX: u64 = 1024;
const CLIENTS_MAX: u16 = 1024;
const SHARDS_MAX: u16 = 16;
const SKEW_MAX: Decimal = Decimal(10_000_000);

/// Salts that derive independent random numbers from a key's.
const KEY_LENGTH_SALT: u64 = 0x1f83_d9ab_fb41_bd6b;
const VALUE_LENGTH_SALT: u64 = 0x5be0_cd19_137e_2179;
const SET_SALT: u64 = 0x510e_527f_ade6_82d1;
/// Number of sample points for the mean of a distribution.
const MEAN_POINTS: u64 = 4096;

impl MemcachedConfig {
    /// Checks every value.
    pub(crate) fn validate(&self) -> Result<(), String> {
        self.check_ranges()?;
        if let Lengths::Zipf { from, to, skew } = self.lengths
            && (from.0 < KEY_MIN || to < from || to.0 > KEY_MAX || skew > SKEW_MAX)
        {
            return Err(format!(
                "lengths = zipf from \"{from}\" to \"{to}\" with skew = {skew} is out of range; lengths must be from \"8B\" to \
                 \"250B\" and skew from 0 to 10"
            ));
        }
        match self.popularity {
            Popularity::Zipf { skew } if skew > SKEW_MAX => {
                Err(format!("popularity = zipf with skew = {skew} is out of range; it must be from 0 to 10"))
            }
            Popularity::Zipf { .. } if self.keys > ZIPF_KEYS_MAX => Err(format!(
                "keys = {} is too large for Zipf popularity; the maximum is {ZIPF_KEYS_MAX}",
                self.keys
            )),
            _ => Ok(()),
        }
    }

    /// Mean bytes of a key and of a value.
    pub(crate) fn mean_lengths(&self) -> (u64, u64) {
        let lengths = LengthLaw::new(self);
        let mean = |of: &dyn Fn(u64) -> u64| {
            let step = u64::MAX / MEAN_POINTS;
            (0..MEAN_POINTS).map(|point| of(point * step + step / 2)).sum::<u64>().div_ceil(MEAN_POINTS)
        };
        (mean(&|random| lengths.key(random)), mean(&|random| lengths.value(random)))
    }
}

/// Draws lengths from random numbers.
#[derive(Clone, Debug)]
enum LengthLaw {
    Fixed { key: u64, value: u64 },
    Zipf { from: u64, law: Zipf },
    Etc,
}

/// A uniform number between 0 and 1, both excluded.
fn unit(random: u64) -> f64 {
    ((random >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

impl LengthLaw {
    fn new(config: &MemcachedConfig) -> LengthLaw {
        match config.lengths {
            Lengths::Fixed => LengthLaw::Fixed { key: config.key.0, value: config.value.0 },
            Lengths::Zipf { from, to, skew } => {
                LengthLaw::Zipf { from: from.0, law: Zipf::new(to.0 - from.0 + 1, skew.value()) }
            }
            Lengths::Etc => LengthLaw::Etc,
        }
    }

    fn key(&self, random: u64) -> u64 {
        match self {
            LengthLaw::Fixed { key, .. } => *key,
            LengthLaw::Zipf { from, law } => from + law.draw(random),
            LengthLaw::Etc => {
                let (location, scale, shape) = (30.7984, 8.20449, 0.078688);
                let quantile = location + scale / shape * (libm::pow(-libm::log(unit(random)), -shape) - 1.0);
                (libm::round(quantile) as u64).clamp(KEY_MIN, KEY_MAX)
            }
        }
    }

    fn value(&self, random: u64) -> u64 {
        match self {
            LengthLaw::Fixed { value, .. } => *value,
            LengthLaw::Zipf { from, law } => from + law.draw(random),
            LengthLaw::Etc => {
                let (location, scale, shape) = (15.0, 214.476, 0.348238);
                let quantile = location + scale / shape * (libm::pow(unit(random), -shape) - 1.0);
                (libm::round(quantile) as u64).clamp(1, VALUE_MAX)
            }
        }
    }
}

/// Keys of one generator. Generators of a machine share a server, so their keys must differ.
#[derive(Clone, Debug)]
pub(crate) struct Keyspace {
    keys: u64,
    lengths: LengthLaw,
    popular: Option<Zipf>,
    sets: u64,
    stream: u32,
    seed: u64,
}

impl Keyspace {
    pub fn new(config: &MemcachedConfig, stream: u32, seed: u64) -> Keyspace {
        let keys = u64::from(config.keys);
        let popular = match config.popularity {
            Popularity::Uniform => None,
            Popularity::Zipf { skew } => Some(Zipf::new(keys, skew.value())),
        };
        let sets = match config.sets {
            Decimal::ONE => u64::MAX,
            share => (share.value() * 18_446_744_073_709_551_616.0) as u64,
        };
        Keyspace { keys, lengths: LengthLaw::new(config), popular, sets, stream, seed }
    }

    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// Key number of request `sequence`.
    pub fn key_of_request(&self, sequence: u64) -> u64 {
        let random = hash(self.seed ^ sequence);
        match &self.popular {
            None => random % self.keys,
            Some(law) => law.draw(random),
        }
    }

    /// Whether request `sequence` of a get stream sets its key instead.
    pub fn is_set(&self, sequence: u64) -> bool {
        self.sets > 0 && hash(self.seed ^ SET_SALT ^ hash(sequence)) <= self.sets
    }

    /// Appends a key: generator number and key number in base 36, then filler.
    pub fn put_key(&self, index: u64, text: &mut Vec<u8>) {
        const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
        let digit = |number: u64, place: u32| DIGITS[(number / 36u64.pow(place) % 36) as usize];
        let end = text.len() + self.lengths.key(hash(self.seed ^ KEY_LENGTH_SALT ^ hash(index))) as usize;
        text.extend([1, 0].map(|place| digit(u64::from(self.stream), place)));
        text.extend([4, 3, 2, 1, 0].map(|place| digit(index, place)));
        text.resize(end, b'-');
    }

    /// Bytes of a key's value.
    pub fn value_len(&self, index: u64) -> usize {
        self.lengths.value(hash(self.seed ^ VALUE_LENGTH_SALT ^ hash(index))) as usize
    }

    /// Appends a key's value, in letters for readable captures.
    pub fn put_value(&self, index: u64, text: &mut Vec<u8>) {
        let from = text.len();
        text.resize(from + self.value_len(index), 0);
        fill(&mut text[from..], hash(self.seed.wrapping_add(index)));
        text[from..].iter_mut().for_each(|byte| *byte = b'a' + *byte % 26);
    }
}

#[cfg(test)]
#[path = "keyspace_tests.rs"]
mod tests;
