//! The configuration of a played trace. The trace has taken the place of the guest, of the NIC and of the traffic, so what configures
//! those has no meaning and is refused; the rest is an executed run's.

use std::fmt;
use std::str::FromStr;

use doorbell_machine::ConfigError;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toml::Table;

use crate::config::{RunConfig, resolve_over};
use crate::options::{OptionSections, Options, Section};

/// The sections that count as they are.
const WHOLE: [&str; 7] = ["core", "pipeline", "memory", "attach", "pcie", "hart", "playback"];
/// Of the others, the keys that count.
const KEYS: [&str; 3] = ["platform.harts", "platform.nics", "run.seed"];
/// Of a port's own tables, those that count.
const OF_PORTS: [&str; 2] = ["attach", "pcie"];

/// How much of a trace is learnt from before the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmup {
    /// Of a hundred of the trace's instructions, or of as many as are played.
    Percent(u8),
    /// So many instructions of all harts.
    Instructions(u64),
}

impl Warmup {
    /// Instructions, of `all` that there are.
    pub fn of(self, all: u64) -> u64 {
        match self {
            Warmup::Percent(share) => (u128::from(all) * u128::from(share) / 100) as u64,
            Warmup::Instructions(count) => count,
        }
    }
}

impl FromStr for Warmup {
    type Err = String;

    fn from_str(text: &str) -> Result<Warmup, String> {
        let wrong = || format!("\"{text}\" is neither a number of instructions nor a share such as \"50%\"");
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
        }
    }
}

impl Serialize for Warmup {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Warmup::Percent(_) => serializer.collect_str(self),
            Warmup::Instructions(count) => serializer.serialize_u64(*count),
        }
    }
}

impl<'de> Deserialize<'de> for Warmup {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Warmup, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Warmup;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of instructions, or a share such as \"50%\"")
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlaybackConfig {
    /// Instructions of all harts from which caches, TLBs and predictors learn before the measurement; or a share of those that are
    /// played, "50%" if nothing is said.
    pub warmup: Warmup,
    /// Instructions that are measured behind them, instead of all that there are.
    pub instructions: Option<u64>,
}

impl Default for PlaybackConfig {
    fn default() -> Self {
        PlaybackConfig { warmup: Warmup::Percent(50), instructions: None }
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
        Ok(())
    }
}

/// What `--set` and files of experiments say of it, over a preset. Traces of so many harts are played, each on a core of its own.
pub fn resolve_played(preset: &str, harts: u32, overrides: &[String]) -> Result<RunConfig, ConfigError> {
    for assignment in overrides {
        check_key(assignment.split('=').next().unwrap_or_default().trim())?;
    }
    let all: Vec<String> = overrides.iter().cloned().chain([format!("platform.harts={harts}")]).collect();
    let sections = OptionSections::of([Section::of::<PlaybackConfig>()]);
    resolve_over(sections, preset, None, &all)
}

/// Refuses a key that nothing would come of.
fn check_key(key: &str) -> Result<(), ConfigError> {
    let parts: Vec<&str> = key.split('.').collect();
    let counts = match parts[..] {
        ["port", _, table, ..] => OF_PORTS.contains(&table),
        ["platform" | "run", ..] => KEYS.contains(&key),
        ["nic" | "link" | "loadgen" | "disk" | "node" | "switch" | "generator" | "cable", ..] => false,
        [section, ..] => !OptionSections::default().names().contains(&section),
        [] => true,
    };
    if counts {
        return Ok(());
    }
    let problem = format!(
        "has no meaning for a played trace, in which guest, NIC and traffic do what was recorded; what counts are {}, \
         port.N.attach, port.N.pcie and {}",
        WHOLE.join(", "),
        KEYS.join(", ")
    );
    Err(ConfigError::new(key, problem))
}

/// Of a played trace's configuration, what counts.
pub(crate) fn of_what_counts(mut all: Table) -> Table {
    for (section, keys) in ["platform", "run"].map(|section| (section, KEYS.iter())) {
        let kept: Vec<&str> =
            keys.filter_map(|key| key.strip_prefix(&format!("{section}.") as &str)).collect();
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
    all.retain(|section, _| WHOLE.contains(&section) || in_parts.contains(&section));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::changes;

    fn resolved(set: &[&str]) -> Result<RunConfig, String> {
        let set: Vec<String> = set.iter().map(|text| (*text).to_owned()).collect();
        resolve_played("server", 1, &set).map_err(|error| error.to_string())
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
            "memory.llc.size=2MiB",
            "hart.0.core.frequency=1GHz",
            "port.0.attach.kind=llc",
        ] {
            assert_ne!(resolved(&[set]).unwrap().hash(), plain.hash(), "{set}");
        }
        let set = ["playback.warmup=1_000", "memory.llc.size=2MiB"];
        let changed = changes("server", &resolved(&set).unwrap()).unwrap();
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
            ("memory.llc.sise=1MiB", "did you mean"),
        ] {
            let error = resolved(&[set]).unwrap_err();
            assert!(error.contains(part), "{set}: {error}");
        }
    }

    #[test]
    fn a_share_is_of_the_instructions_and_a_number_is_itself() {
        let share = |text: &str, all| text.parse::<Warmup>().unwrap().of(all);
        assert_eq!((share("50%", 9), share("0", 9), share("17_000", 9), share("0%", 9)), (4, 0, 17_000, 0));
        assert_eq!(share("99%", u64::MAX), (u128::from(u64::MAX) * 99 / 100) as u64);
        assert!("101x".parse::<Warmup>().is_err() && "-1%".parse::<Warmup>().is_err());
    }
}
