//! From what is said of a run to its configuration: layers, each laid over those before, the last word winning.

use doorbell_machine::overlay::Overlay;
use doorbell_machine::{Base, ConfigError};
use toml::{Table, Value};

use crate::plan::config::RunConfig;
use crate::plan::options::{OptionSections, Options};
use crate::plan::playback::PlaybackConfig;
use crate::request::reference::instead_of;
use crate::scenarios::registry;

/// What of a network stands in a configuration, and in that of no single machine.
const OF_A_NETWORK: [&str; 4] = ["node", "switch", "generator", "cable"];

/// What is said of a run, in the order in which it counts.
#[derive(Clone, Copy, Debug)]
pub struct Layers<'a> {
    /// The machine: its preset lies below all, the user's file above what the benchmark sets.
    pub base: &'a Base,
    /// What the benchmark sets, each a "path=value". It is a convenience, and so no preset has to say it; a user's file may say
    /// otherwise.
    pub defaults: &'a [&'a str],
    /// A traffic file's name and text: what it says stands in `loadgen.traffic`.
    pub traffic: Option<(&'a str, &'a str)>,
    /// The command line, each a "path=value".
    pub overrides: &'a [String],
}

impl<'a> Layers<'a> {
    /// A machine and the command line.
    pub fn of(base: &'a Base, overrides: &'a [String]) -> Layers<'a> {
        Layers { base, defaults: &[], traffic: None, overrides }
    }

    /// The checked configuration.
    pub fn resolve(self) -> Result<RunConfig, ConfigError> {
        self.with_options(registry::sections())
    }

    /// The same with the options of these sections and no others. A machine's file may have sections for other kinds of run.
    pub(crate) fn with_options(self, options: OptionSections) -> Result<RunConfig, ConfigError> {
        let mut own = self.base.own().clone();
        if let Some(part) = OF_A_NETWORK.into_iter().find(|part| own.contains_key(*part)) {
            let problem = format!("its [{part}] is a network's, and no machine's; run it with --network");
            return Err(ConfigError::new(self.base.name(), problem));
        }
        let known = options.names();
        let of_other_runs: Vec<&str> = registry::sections()
            .names()
            .into_iter()
            .chain([PlaybackConfig::SECTION])
            .filter(|name| !known.contains(name))
            .collect();
        own.retain(|key, _| !of_other_runs.contains(&key));
        let mut given = Overlay::from_table(own.clone());
        self.overrides.iter().try_for_each(|assignment| given.set(assignment))?;
        let overlay = self.laid_over(own)?;
        let tree = overlay.table();
        let config = RunConfig::of_options(options).with(tree).map_err(|error| instead_of(error, tree))?;
        let config = config.followed(|path| at(given.table(), path).is_some())?;
        config.validate().map_err(|error| instead_of(error, &Table::new()))?;
        if config.is_network() {
            config.topology()?;
        }
        config.in_force()
    }

    fn laid_over(&self, own: Table) -> Result<Overlay, ConfigError> {
        let mut overlay = self.base.below();
        self.defaults.iter().try_for_each(|assignment| overlay.set(assignment))?;
        overlay.merge(own);
        if let Some((name, text)) = self.traffic {
            overlay.merge_toml_at("loadgen.traffic", name, text)?;
        }
        self.overrides.iter().try_for_each(|assignment| overlay.set(assignment))?;
        Ok(overlay)
    }

    /// What the user's file says otherwise than the benchmark would: worth a word, as a program may need what its benchmark sets.
    pub fn overruled(&self) -> Vec<String> {
        let said = |assignment: &&str| {
            let mut benchmark = Overlay::default();
            benchmark.set(assignment).ok()?;
            let (path, _) = assignment.split_once('=')?;
            let (wanted, own) = (at(benchmark.table(), path)?, at(self.base.own(), path)?);
            (plain(wanted) != plain(own) && !is_the_same(path, wanted, own)).then(|| {
                format!(
                    "{} says {path} = {}; the benchmark's own is {}",
                    self.base.name(),
                    plain(own),
                    plain(wanted)
                )
            })
        };
        self.defaults.iter().filter_map(said).collect()
    }
}

/// Whether two ways of writing the value at a path say the same, as 0ps and 0ns do.
fn is_the_same(path: &str, one: &Value, other: &Value) -> bool {
    let read = |value: &Value| {
        let mut alone = Overlay::default();
        alone.insert(path, value.clone()).ok()?;
        RunConfig::of_options(registry::sections()).with(alone.table()).ok()
    };
    matches!((read(one), read(other)), (Some(one), Some(other)) if one.to_toml() == other.to_toml())
}

/// What stands at a dotted path.
fn at<'t>(tree: &'t Table, path: &str) -> Option<&'t Value> {
    match path.split_once('.') {
        Some((first, rest)) => at(tree.get(first)?.as_table()?, rest),
        None => tree.get(path),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A preset, or a machine's file, with `overrides` ("path=value", the last one wins), as a checked configuration.
pub fn resolve(machine: &str, overrides: &[String]) -> Result<RunConfig, ConfigError> {
    Layers::of(&Base::find(machine)?, overrides).resolve()
}

/// For tests: the preset `fast` with these overrides, or what is wrong with them.
#[cfg(test)]
pub(crate) fn on_fast(set: &[&str]) -> Result<RunConfig, String> {
    let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
    resolve("fast", &set).map_err(|error| error.to_string())
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
