//! The configuration of a played trace. The trace has taken the place of the guest, of the NIC and of the traffic, so what configures
//! those has no meaning and is refused; the rest is an executed run's.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use doorbell_loadgen::{Arrivals, Rate};
use doorbell_machine::ConfigError;
use doorbell_machine::playback::{Pace, Pages, PagesConfig};
use doorbell_sim::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toml::Table;

use crate::plan::config::RunConfig;
use crate::plan::options::Options;

/// The sections that count as they are.
pub(crate) const WHOLE: [&str; 7] = ["core", "pipeline", "memory", "attach", "pcie", "hart", "playback"];
/// Keys that count in the other sections.
pub(crate) const KEYS: [&str; 3] = ["platform.harts", NICS, "run.seed"];
pub(crate) const NICS: &str = "platform.nics";
/// Where frames come at another pace than they did, the links count too.
pub(crate) const LINK: &str = "link";
/// Where pages are laid out, so does the memory that they lie in.
pub(crate) const RAM: &str = "platform.ram";
/// Tables of a port that count.
pub(crate) const OF_PORTS: [&str; 2] = ["attach", "pcie"];

const WARMUP: &str = "a number of instructions, a share such as \"50%\", or \"whole\"";

/// How much of a trace is learnt from before the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmup {
    /// A percentage of the instructions that are played.
    Percent(u8),
    /// A number of instructions of all harts.
    Instructions(u64),
    /// All of the trace as it was recorded, which then begins again and is measured.
    Whole,
}

impl Warmup {
    /// Instructions, of `all` that there are.
    pub fn of(self, all: u64) -> u64 {
        match self {
            Warmup::Percent(share) => (u128::from(all) * u128::from(share) / 100) as u64,
            Warmup::Instructions(count) => count,
            Warmup::Whole => all,
        }
    }
}

impl FromStr for Warmup {
    type Err = String;

    fn from_str(text: &str) -> Result<Warmup, String> {
        let wrong = || {
            format!(
                "\"{text}\" is neither a number of instructions nor a share such as \"50%\", nor \"whole\""
            )
        };
        if text == "whole" {
            return Ok(Warmup::Whole);
        }
        match text.strip_suffix('%') {
            Some(share) => share.parse().map(Warmup::Percent).map_err(|_| wrong()),
            None => text.replace('_', "").parse().map(Warmup::Instructions).map_err(|_| wrong()),
        }
    }
}

impl fmt::Display for Warmup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warmup::Percent(share) => write!(f, "{share}%"),
            Warmup::Instructions(count) => write!(f, "{count}"),
            Warmup::Whole => f.write_str("whole"),
        }
    }
}

impl Serialize for Warmup {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Warmup::Percent(_) | Warmup::Whole => serializer.collect_str(self),
            Warmup::Instructions(count) => serializer.serialize_u64(*count),
        }
    }
}

impl JsonSchema for Warmup {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Warmup".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer"], "x-value": WARMUP })
    }
}

impl<'de> Deserialize<'de> for Warmup {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Warmup, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Warmup;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(WARMUP)
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Warmup, E> {
                let count = u64::try_from(value);
                count
                    .map(Warmup::Instructions)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Warmup, E> {
                Ok(Warmup::Instructions(value))
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<Warmup, E> {
                value.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// How a trace is played.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PlaybackConfig {
    /// Instructions of all harts from which caches, TLBs and predictors learn before the measurement; or a share of those that are
    /// played, "50%" if nothing is said; or "whole": the trace is learnt from to its end, begins again, and is measured.
    pub warmup: Warmup,
    /// Instructions that are measured behind them, at least 1, instead of all that there are.
    pub instructions: Option<u64>,
    /// The rate at which frames arrive, in place of the recorded times: frames per second, bits per second or a share of the link's.
    pub rate: Option<Rate>,
    /// How they are spread then: an arrival process of a stream's (docs/traffic.md).
    pub arrivals: Arrivals,
    /// Requests that are outstanding in a closed loop, at least 1, instead.
    pub window: Option<u32>,
    /// Page tables of traces with virtual addresses alone: `identity`, `champsim` or `kernel`; if nothing is said, as the preset has it.
    pub pages: Pages,
    /// Pages of the kernel's kind: 4KiB or 2MiB.
    pub page_size: Bytes,
    /// Whether harts sleep as long as they did when they were recorded. If not, frames come as fast as the instructions that take them.
    pub sleeps: bool,
}

impl PlaybackConfig {
    /// What paces the trace.
    pub(crate) fn pace(&self) -> Pace {
        match (self.rate, self.window) {
            (Some(rate), _) => Pace::Rate { rate, arrivals: self.arrivals },
            (None, Some(window)) => Pace::Closed { window },
            (None, None) => Pace::Recorded,
        }
    }

    /// The same in words.
    pub(crate) fn pace_in_words(&self) -> String {
        match self.pace() {
            Pace::Recorded if self.sleeps => "as recorded".to_owned(),
            Pace::Recorded => "as recorded, without sleep".to_owned(),
            Pace::Rate { rate, .. } => format!("at {rate}"),
            Pace::Closed { window } => format!("with {window} outstanding"),
        }
    }

    pub(crate) fn tables(&self) -> PagesConfig {
        PagesConfig { pages: self.pages, page_size: self.page_size }
    }
}

impl Default for PlaybackConfig {
    fn default() -> Self {
        let PagesConfig { pages, page_size } = PagesConfig::default();
        PlaybackConfig {
            warmup: Warmup::Percent(50),
            instructions: None,
            rate: None,
            arrivals: Arrivals::default(),
            window: None,
            pages,
            page_size,
            sleeps: true,
        }
    }
}

impl Options for PlaybackConfig {
    const SECTION: &'static str = "playback";
    const PLAYED: bool = true;

    fn kept(mut all: Table) -> Table {
        let told = |key: &str| all.get(PlaybackConfig::SECTION).and_then(|own| own.get(key));
        let paced = told("rate").is_some() || told("window").is_some();
        let paged = told("pages").is_some_and(|pages| pages.as_str() != Some("identity"));
        for section in ["platform", "run"] {
            let keys = KEYS.into_iter().chain(Some(RAM).filter(|_| paged));
            let prefix = format!("{section}.");
            let kept: Vec<&str> = keys.filter_map(|key| key.strip_prefix(&prefix)).collect();
            if let Some(toml::Value::Table(table)) = all.get_mut(section) {
                table.retain(|key, _| kept.contains(&key));
            }
        }
        if let Some(toml::Value::Table(ports)) = all.get_mut("port") {
            for (_, port) in ports.iter_mut() {
                if let toml::Value::Table(tables) = port {
                    tables.retain(|table, _| OF_PORTS.contains(&table));
                }
            }
        }
        let in_parts = ["platform", "run", "port"];
        let counts = |section: &str| {
            WHOLE.contains(&section) || in_parts.contains(&section) || paced && section == LINK
        };
        all.retain(|section, _| counts(section));
        all
    }

    fn validate(&self, _: &RunConfig) -> Result<(), ConfigError> {
        if let Warmup::Percent(share @ 100..) = self.warmup {
            return Err(ConfigError::new("playback.warmup", format!("{share}% leave nothing to measure")));
        }
        if self.instructions == Some(0) {
            return Err(ConfigError::new(
                "playback.instructions",
                "there is nothing to measure in 0 instructions",
            ));
        }
        if self.rate.is_some() && self.window.is_some() {
            let problem =
                "frames come at a rate or behind answers; leave playback.rate or playback.window out";
            return Err(ConfigError::new("playback.window", problem));
        }
        if self.arrivals != Arrivals::default() && self.rate.is_none() {
            let problem =
                "frames come as they did, or behind answers, unless there is a rate; give playback.rate";
            return Err(ConfigError::new("playback.arrivals", problem));
        }
        if !self.sleeps && (self.rate.is_some() || self.window.is_some()) {
            let problem = "sleep ends there when the frame comes that ended it; leave playback.sleeps out";
            return Err(ConfigError::new("playback.sleeps", problem));
        }
        self.tables().validate()
    }
}

/// What a configuration has to know of the traces that are played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The harts of all, each of which has a core of its own.
    pub harts: u32,
    /// The most NICs that one of them has.
    pub nics: u32,
    /// Whether all tell physical addresses, so that nothing asks for page tables.
    pub is_physical: bool,
}

impl From<u32> for Shape {
    /// A shape of which only the number of harts is known.
    fn from(harts: u32) -> Shape {
        Shape { harts, nics: 0, is_physical: false }
    }
}
