//! The configuration of a played trace. The trace has taken the place of the guest, of the NIC and of the traffic, so what configures
//! those has no meaning and is refused; the rest is an executed run's.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use doorbell_loadgen::{Arrivals, Rate};
use doorbell_machine::playback::{Pace, Pages, PagesConfig};
use doorbell_machine::{Base, ConfigError};
use doorbell_sim::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toml::Table;

use crate::config::RunConfig;
use crate::options::{OptionSections, Options, Section};
use crate::resolve::{Layers, path_of};

/// The sections that count as they are.
const WHOLE: [&str; 7] = ["core", "pipeline", "memory", "attach", "pcie", "hart", "playback"];
/// Of the others, the keys that count.
const KEYS: [&str; 3] = ["platform.harts", NICS, "run.seed"];
const NICS: &str = "platform.nics";
/// Where frames come at another pace than they did, the links count too.
const LINK: &str = "link";
/// Where pages are laid out, so does the memory that they lie in.
const RAM: &str = "platform.ram";
/// Of a port's own tables, those that count.
const OF_PORTS: [&str; 2] = ["attach", "pcie"];

const WARMUP: &str = "a number of instructions, a share such as \"50%\", or \"whole\"";

/// How much of a trace is learnt from before the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmup {
    /// Of a hundred of the trace's instructions, or of as many as are played.
    Percent(u8),
    /// So many instructions of all harts.
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
    /// The rate at which frames arrive, instead of as they did: frames a second, bits a second or a share of the link's.
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
    pub(super) fn pace(&self) -> Pace {
        match (self.rate, self.window) {
            (Some(rate), _) => Pace::Rate { rate, arrivals: self.arrivals },
            (None, Some(window)) => Pace::Closed { window },
            (None, None) => Pace::Recorded,
        }
    }

    /// The same in words.
    pub(super) fn pace_in_words(&self) -> String {
        match self.pace() {
            Pace::Recorded if self.sleeps => "as recorded".to_owned(),
            Pace::Recorded => "as recorded, without sleep".to_owned(),
            Pace::Rate { rate, .. } => format!("at {rate}"),
            Pace::Closed { window } => format!("with {window} outstanding"),
        }
    }

    pub(super) fn tables(&self) -> PagesConfig {
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
    /// So many harts, of which nothing else is known.
    fn from(harts: u32) -> Shape {
        Shape { harts, nics: 0, is_physical: false }
    }
}

/// What `--set` and files of experiments say of it, over a machine. It has as many harts as the traces, and as many NICs, unless it is
/// said how many.
pub fn resolve_played(
    base: &Base,
    shape: impl Into<Shape>,
    overrides: &[String],
) -> Result<RunConfig, ConfigError> {
    let Shape { harts, nics, is_physical } = shape.into();
    let pages = base.pages();
    let own = base.own().get(PlaybackConfig::SECTION);
    let says = |key: &str| own.is_some_and(|own| own.get(key).is_some());
    let keys: Vec<&str> = overrides.iter().map(|assignment| path_of(assignment)).collect();
    let names = |name: &str| keys.contains(&name);
    let paced = names("playback.rate") || names("playback.window") || says("rate") || says("window");
    let paged = names("playback.pages") || says("pages") || pages != Pages::Identity;
    for key in &keys {
        let is_links = key.split('.').next() == Some(LINK);
        if !(paced && is_links || paged && *key == RAM) {
            check_key(key)?;
        }
    }
    let defaults: &[&str] = if pages == Pages::ChampSim { &["playback.pages=champsim"] } else { &[] };
    let harts = format!("platform.harts={harts}");
    let mut all: Vec<String> = overrides.iter().cloned().chain([harts]).collect();
    let resolve = |all: &[String]| {
        let sections = OptionSections::of([Section::of::<PlaybackConfig>()]);
        Layers { defaults, ..Layers::of(base, all) }.with_options(sections)
    };
    let platform = base.own().get("platform");
    let says_nics = names(NICS) || platform.is_some_and(|own| own.get("nics").is_some());
    let mut config = resolve(&all);
    // What is said of further ports is no error where the trace has their NICs.
    let has_fewer = config.as_ref().map_or(true, |config| config.platform.nics < nics);
    if has_fewer && nics > 1 && !says_nics {
        all.push(format!("{NICS}={nics}"));
        config = resolve(&all);
    }
    let config = config?;
    let told = config.options::<PlaybackConfig>().pages;
    // A result says all that was in force.
    let as_it_was = base.is_result() && !names("playback.pages");
    if is_physical && told != Pages::Identity && told != pages && !as_it_was {
        let problem =
            "what is played tells physical addresses, so that nothing asks for page tables; leave it out";
        return Err(ConfigError::new("playback.pages", problem));
    }
    Ok(config)
}

/// Refuses a key that nothing would come of.
fn check_key(key: &str) -> Result<(), ConfigError> {
    let parts: Vec<&str> = key.split('.').collect();
    let counts = match parts[..] {
        ["port", _, table, ..] => OF_PORTS.contains(&table),
        ["platform" | "run", ..] => KEYS.contains(&key),
        ["nic" | LINK | "loadgen" | "disk" | "node" | "switch" | "generator" | "cable", ..] => false,
        [section, ..] => !OptionSections::default().names().contains(&section),
        [] => true,
    };
    if counts {
        return Ok(());
    }
    let problem = format!(
        "has no meaning for a played trace, in which guest, NIC and traffic do what was recorded; what counts are {}, \
         port.N.attach, port.N.pcie and {}; with playback.rate or playback.window {LINK}, with playback.pages {RAM}",
        WHOLE.join(", "),
        KEYS.join(", ")
    );
    Err(ConfigError::new(key, problem))
}

/// Of a played trace's configuration, what counts.
pub(crate) fn of_what_counts(mut all: Table) -> Table {
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
    let counts =
        |section: &str| WHOLE.contains(&section) || in_parts.contains(&section) || paced && section == LINK;
    all.retain(|section, _| counts(section));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::changes;

    fn resolved(set: &[&str]) -> Result<RunConfig, String> {
        let set: Vec<String> = set.iter().map(|text| (*text).to_owned()).collect();
        resolve_played(&Base::find("server").unwrap(), 1, &set).map_err(|error| error.to_string())
    }

    #[test]
    fn what_counts_is_in_the_configuration_and_its_hash_and_nothing_else_is() {
        let plain = resolved(&[]).unwrap();
        let text = plain.to_toml();
        assert!(text.contains("[playback]\nwarmup = \"50%\"") && text.contains("[memory.llc]"), "{text}");
        for absent in ["[nic]", "[loadgen", "[dpdk]", "warmup_limit", "firmware", "[link]"] {
            assert!(!text.contains(absent), "{absent} in {text}");
        }
        for set in [
            "playback.warmup=5",
            "playback.sleeps=false",
            "memory.llc.size=2MiB",
            "hart.0.core.frequency=1GHz",
            "port.0.attach.kind=llc",
        ] {
            assert_ne!(resolved(&[set]).unwrap().hash(), plain.hash(), "{set}");
        }
        let paced = ["playback.rate=1Mpps", "link.latency=2us"];
        assert!(resolved(&paced).unwrap().to_toml().contains("[link]"));
        let paged = resolved(&["playback.pages=kernel", "platform.ram=2GiB"]).unwrap();
        assert!(paged.to_toml().contains("ram = \"2GiB\"") && !text.contains("ram ="), "{text}");
        let champsim = resolve_played(&Base::find("champsim").unwrap(), 1, &[]).unwrap();
        assert_eq!(champsim.options::<PlaybackConfig>().pages, Pages::ChampSim);
        let set = ["playback.warmup=1_000", "memory.llc.size=2MiB"];
        let changed = changes(&Base::find("server").unwrap(), &resolved(&set).unwrap()).unwrap();
        let keys: Vec<&str> = changed.iter().map(|change| change.key.as_str()).collect();
        assert_eq!(keys, ["memory.llc.size", "playback.warmup"]);
    }

    #[test]
    fn what_would_have_no_effect_is_refused_by_its_name() {
        for set in [
            "nic.rx_fifo=48KiB",
            "dpdk.burst=8",
            "testpmd.mode=io",
            "run.warmup=1ms",
            "platform.ram=1GiB",
            "link.rate=10Gbps",
            "port.0.nic.rx_fifo=48KiB",
            "loadgen.traffic.rate=1Mpps",
            "drive.kind=node",
        ] {
            let error = resolved(&[set]).unwrap_err();
            let key = set.split('=').next().unwrap();
            assert!(
                error.starts_with(key) && error.contains("no meaning for a played trace"),
                "{set}: {error}"
            );
        }
        for (set, part) in [
            ("playback.warmup=100%", "nothing to measure"),
            ("playback.warmup=half", "a share such as"),
            ("playback.warmup=-1", "a number of instructions"),
            ("playback.instructions=0", "nothing to measure"),
            ("playback.page_size=2MiB", "playback.pages=kernel"),
            ("memory.llc.sise=1MiB", "did you mean"),
        ] {
            let error = resolved(&[set]).unwrap_err();
            assert!(error.contains(part), "{set}: {error}");
        }
    }

    #[test]
    fn a_trace_of_several_nics_has_as_many_ports_unless_it_is_said_how_many() {
        let base = Base::find("server").unwrap();
        let with = |nics, set: &[&str]| {
            let set: Vec<String> = set.iter().map(|text| (*text).to_owned()).collect();
            resolve_played(&base, Shape { nics, ..Shape::from(1) }, &set).unwrap()
        };
        assert_eq!([0, 1, 2].map(|nics| with(nics, &[]).platform.nics), [1, 1, 2]);
        assert_eq!(with(1, &[]).hash(), with(0, &[]).hash());
        assert_ne!(with(2, &[]).hash(), with(1, &[]).hash());
        assert_eq!(with(2, &["platform.nics=1"]).platform.nics, 1, "refused where it is played");
        assert_eq!(with(2, &["platform.nics=3"]).platform.nics, 3);
        let ports = with(2, &["port.1.pcie.link_latency=5us"]);
        assert_eq!(
            (ports.platform.nics, ports.port(1).pcie.link_latency),
            (2, Some(doorbell_sim::Ps::from_us(5)))
        );
    }

    #[test]
    fn page_tables_that_no_trace_asks_for_are_refused_unless_a_preset_has_them() {
        let physical = Shape { is_physical: true, ..Shape::from(1) };
        let with = |preset: &str, set: &[&str]| {
            let set: Vec<String> = set.iter().map(|text| (*text).to_owned()).collect();
            let config = resolve_played(&Base::find(preset).unwrap(), physical, &set);
            config.map(|config| config.hash()).map_err(|error| error.to_string())
        };
        let error = with("server", &["playback.pages=kernel"]).unwrap_err();
        assert!(error.starts_with("playback.pages: ") && error.contains("physical addresses"), "{error}");
        assert_eq!(with("server", &["playback.pages=identity"]), with("server", &[]));
        assert!(with("champsim", &[]).is_ok() && with("champsim", &["playback.pages=kernel"]).is_err());
    }

    #[test]
    fn a_share_is_of_the_instructions_and_a_number_is_itself() {
        let share = |text: &str, all| text.parse::<Warmup>().unwrap().of(all);
        assert_eq!((share("50%", 9), share("0", 9), share("17_000", 9), share("0%", 9)), (4, 0, 17_000, 0));
        assert_eq!(share("99%", u64::MAX), (u128::from(u64::MAX) * 99 / 100) as u64);
        assert!("101x".parse::<Warmup>().is_err() && "-1%".parse::<Warmup>().is_err());
    }
}
