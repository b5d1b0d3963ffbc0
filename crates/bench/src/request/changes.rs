//! Differences of a configuration from its preset.

use std::collections::BTreeMap;

use doorbell_loadgen::StreamConfig;
use doorbell_machine::{Base, ConfigError};
use toml::Value;

use crate::plan::config::RunConfig;
use crate::request::played::resolve_played;
use crate::request::resolve::Layers;
use doorbell_results::{Change, PointSummary, RunIdentity, RunSummary};

/// Parameters that vary per measured point, and are not reported as changes.
const PER_POINT: [&str; 1] = ["loadgen.traffic.rate"];

/// Parameters whose values differ from the preset or the machine's file, in the order of their paths.
pub fn changes(base: &Base, config: &RunConfig) -> Result<Vec<Change>, ConfigError> {
    let before = match config.is_played() {
        true => resolve_played(base, config.platform.harts, &[])?,
        false => Layers::of(base, &[]).resolve()?,
    };
    let mut before = (*before).clone();
    // A single stream is compared with the preset's traffic, so that only its changed keys are listed.
    if let ([_], []) = (&config.loadgen.traffic.streams[..], &before.loadgen.traffic.streams[..]) {
        before.loadgen.traffic.streams = vec![StreamConfig::from_traffic(&config.loadgen.traffic)];
    }
    let (before, after) = (leaves(&before), leaves(config));
    let keys: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let text = |of: &BTreeMap<String, String>, key: &String| of.get(key).cloned().unwrap_or_default();
    Ok(keys
        .into_iter()
        .filter(|key| before.get(*key) != after.get(*key) && !PER_POINT.contains(&key.as_str()))
        .map(|key| Change { key: key.clone(), preset: text(&before, key), here: text(&after, key) })
        .collect())
}

fn leaves(config: &RunConfig) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    walk(&Value::try_from(config).expect("a configuration is TOML"), "", &mut all);
    all
}

fn walk(value: &Value, path: &str, all: &mut BTreeMap<String, String>) {
    match value {
        Value::Table(table) => {
            for (key, value) in table {
                walk(value, &if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, all);
            }
        }
        Value::Array(items) if matches!(items[..], [Value::Table(_)]) => {
            walk(&items[0], &format!("{path}.0"), all)
        }
        Value::String(text) => drop(all.insert(path.to_owned(), text.clone())),
        other => drop(all.insert(path.to_owned(), other.to_string())),
    }
}

/// The whole of `summary.json`, with the bottleneck of each point.
pub fn run_summary(
    benchmark: &str,
    command: String,
    base: &Base,
    config: &RunConfig,
    ran: RunIdentity,
    meanings: BTreeMap<String, String>,
    points: Vec<PointSummary>,
) -> Result<RunSummary, ConfigError> {
    Ok(RunSummary {
        benchmark: benchmark.to_owned(),
        preset: base.name().to_owned(),
        doorbell_version: env!("CARGO_PKG_VERSION").to_owned(),
        command,
        ran,
        incomplete: None,
        changed: changes(base, config)?,
        meanings,
        points: points.into_iter().map(PointSummary::with_limit).collect(),
    })
}

#[cfg(test)]
mod tests {
    use doorbell_loadgen::Arrivals;

    use super::*;
    use crate::request::resolve::resolve;

    fn changes(preset: &str, config: &RunConfig) -> Result<Vec<Change>, ConfigError> {
        super::changes(&Base::find(preset).unwrap(), config)
    }

    #[test]
    fn only_overridden_parameters_are_listed() {
        let set = ["memory.l2.size=512KiB", "loadgen.traffic.rate=3Mpps", "run.frames=7", "run.seed=1"];
        let config = resolve("server", &set.map(str::to_owned)).unwrap();
        let all = changes("server", &config).unwrap();
        let listed: Vec<_> =
            all.iter().map(|c| (c.key.as_str(), c.preset.as_str(), c.here.as_str())).collect();
        assert_eq!(listed, [("memory.l2.size", "1MiB", "512KiB"), ("run.frames", "", "7")]);
        let mut config = (*resolve("server", &[]).unwrap()).clone();
        let traffic = &mut config.loadgen.traffic;
        traffic.arrivals = Arrivals::Constant;
        traffic.streams = vec![StreamConfig { ttl: 9, ..StreamConfig::from_traffic(traffic) }];
        let all = changes("server", &config).unwrap();
        let listed: Vec<_> =
            all.iter().map(|c| (c.key.as_str(), c.preset.as_str(), c.here.as_str())).collect();
        let [spacing, ttl] = [
            ("loadgen.traffic.arrivals", "jitter", "constant"),
            ("loadgen.traffic.streams.0.ttl", "64", "9"),
        ];
        assert_eq!(listed, [spacing, ttl]);
        assert!(changes("fast", &resolve("fast", &[]).unwrap()).unwrap().is_empty());
    }
}
