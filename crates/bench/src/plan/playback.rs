//! The configuration of trace playback. The trace replaces guest, NIC and traffic, so their keys have no
//! effect and are rejected. All other keys are as in an executed run.

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
use crate::plan::options::{self, Options};

/// Sections whose keys all have an effect in playback.
pub(crate) const WHOLE: [&str; 7] = ["core", "pipeline", "memory", "attach", "pcie", "hart", "playback"];
/// Keys with an effect in the other sections.
pub(crate) const KEYS: [&str; 3] = ["platform.harts", NICS, "run.seed"];
pub(crate) const NICS: &str = "platform.nics";
/// Section with an effect only if frames do not arrive at the recorded times.
pub(crate) const LINK: &str = "link";
/// Key with an effect only if playback builds page tables: the memory that holds the pages.
pub(crate) const RAM: &str = "platform.ram";
/// Tables of a port with an effect.
pub(crate) const OF_PORTS: [&str; 2] = ["attach", "pcie"];

const WARMUP: &str = "a number of instructions, a share such as \"50%\", or \"whole\"";

/// Warm-up of caches, TLBs and predictors before the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmup {
    /// A percentage of the played instructions.
    Percent(u8),
    /// A number of instructions, summed over all harts.
    Instructions(u64),
    /// The complete trace as recorded, which then restarts and is measured.
    Whole,
}

impl Warmup {
    /// Number of instructions, out of `all`.
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
        let wrong =
            || format!("\"{text}\" is not a number of instructions, a share such as \"50%\", or \"whole\"");
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

/// Trace playback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PlaybackConfig {
    /// Instructions, summed over all harts, that warm caches, TLBs and predictors before the measurement; or
    /// a share of the played instructions (default "50%"); or "whole": the complete trace as recorded, which
    /// then restarts and is measured.
    pub warmup: Warmup,
    /// Instructions to measure after the warm-up, at least 1. Unset, all of the rest.
    pub instructions: Option<u64>,
    /// Arrival rate of frames, which replaces the recorded times: frames per second, bits per second or a
    /// share of the link's rate.
    pub rate: Option<Rate>,
    /// Arrival process of frames if `rate` is set, as for a traffic stream (docs/traffic.md).
    pub arrivals: Arrivals,
    /// Outstanding requests of a closed loop, at least 1, which replaces the recorded times.
    pub window: Option<u32>,
    /// Page tables of traces that have only virtual addresses: `identity`, `champsim` or `kernel`. Unset, as
    /// in the preset.
    pub pages: Pages,
    /// Page size of `kernel` page tables: 4KiB or 2MiB.
    pub page_size: Bytes,
    /// Whether harts sleep as long as recorded. If false, a sleep takes no time, and frames arrive as fast as
    /// the instructions that take them.
    pub sleeps: bool,
}

impl PlaybackConfig {
    /// The pace of the trace.
    pub(crate) fn pace(&self) -> Pace {
        match (self.rate, self.window) {
            (Some(rate), _) => Pace::Rate { rate, arrivals: self.arrivals },
            (None, Some(window)) => Pace::Closed { window },
            (None, None) => Pace::Recorded,
        }
    }

    /// The pace as text for reports.
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

    fn without_unused(mut all: Table) -> Table {
        let value = |key: &str| all.get(PlaybackConfig::SECTION).and_then(|own| own.get(key));
        let paced = value("rate").is_some() || value("window").is_some();
        let paged = value("pages").is_some_and(|pages| pages.as_str() != Some("identity"));
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
        let has_effect = |section: &str| {
            WHOLE.contains(&section) || in_parts.contains(&section) || paced && section == LINK
        };
        all.retain(|section, _| has_effect(section));
        all
    }

    fn validate(&self, _: &RunConfig) -> Result<(), ConfigError> {
        if let Warmup::Percent(share @ 100..) = self.warmup {
            let problem = format!("{share}% leaves nothing to measure; set at most 99%");
            return Err(ConfigError::new("playback.warmup", problem));
        }
        let problem = "0 leaves nothing to measure; set 1 or more, or leave it out";
        options::reject_if(self.instructions == Some(0), "playback.instructions", problem)?;
        let problem = "it cannot be used with playback.rate; leave one of the two out";
        options::reject_if(self.rate.is_some() && self.window.is_some(), "playback.window", problem)?;
        let problem = "it has no effect without an arrival rate; give playback.rate, or leave it out";
        options::reject_if(
            self.arrivals != Arrivals::default() && self.rate.is_none(),
            "playback.arrivals",
            problem,
        )?;
        let problem = "with playback.rate or playback.window a sleep ends when its frame arrives; leave playback.sleeps out";
        options::reject_if(
            !self.sleeps && (self.rate.is_some() || self.window.is_some()),
            "playback.sleeps",
            problem,
        )?;
        self.tables().validate()
    }
}

/// Properties of the played traces that determine the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of harts of all traces. Each has its own core.
    pub harts: u32,
    /// Maximum number of NICs of one trace.
    pub nics: u32,
    /// Whether all traces have physical addresses, so that page tables have no effect.
    pub is_physical: bool,
}

impl From<u32> for Shape {
    /// A shape with this number of harts, no NICs and virtual addresses.
    fn from(harts: u32) -> Shape {
        Shape { harts, nics: 0, is_physical: false }
    }
}
