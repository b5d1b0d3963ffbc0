//! Resolves the layers of settings of a run into its configuration. A later layer overrides the earlier ones.

use doorbell_machine::overlay::{Overlay, plain_text, value_at};
use doorbell_machine::{Base, ConfigError};
use toml::{Table, Value};

use crate::plan::config::RunConfig;
use crate::plan::members::MEMBERS;
use crate::plan::options::{OptionSections, Options};
use crate::plan::playback::PlaybackConfig;
use crate::plan::resolved::Resolved;
use crate::registry;
use crate::request::reference::with_hint;

/// The settings of a run, in layers.
#[derive(Clone, Copy, Debug)]
pub struct Layers<'a> {
    /// The machine. Its preset is the lowest layer; a user's file overrides the benchmark's settings.
    pub base: &'a Base,
    /// The benchmark's settings, each as "path=value". A user's file may override them.
    pub defaults: &'a [&'a str],
    /// A traffic file's name and text. Its keys are those of `loadgen.traffic`.
    pub traffic: Option<(&'a str, &'a str)>,
    /// The command line's settings, each as "path=value".
    pub overrides: &'a [String],
}

impl<'a> Layers<'a> {
    /// A machine and the command line.
    pub fn of(base: &'a Base, overrides: &'a [String]) -> Layers<'a> {
        Layers { base, defaults: &[], traffic: None, overrides }
    }

    /// Returns the validated configuration.
    pub fn resolve(self) -> Result<Resolved, ConfigError> {
        self.with_options(registry::sections())
    }

    /// As [`Layers::resolve`], with only these option sections. Sections of a machine's file for other kinds of run are
    /// ignored.
    pub(crate) fn with_options(self, options: OptionSections) -> Result<Resolved, ConfigError> {
        let mut own = self.base.user_table().clone();
        if let Some(part) = MEMBERS.into_iter().find(|part| own.contains_key(*part)) {
            let problem =
                format!("[{part}] belongs to a network file, not to a machine file; run it with --network");
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
        let overlay = self.with_overrides(own)?;
        let tree = overlay.table();
        let config = RunConfig::of_options(options).with(tree).map_err(|error| with_hint(error, tree))?;
        let config = config.with_required_settings(|path| value_at(given.table(), path).is_some())?;
        resolved(config)
    }

    fn with_overrides(&self, own: Table) -> Result<Overlay, ConfigError> {
        let mut overlay = self.base.preset_overlay();
        self.defaults.iter().try_for_each(|assignment| overlay.set(assignment))?;
        overlay.merge(own);
        if let Some((name, text)) = self.traffic {
            overlay.merge_toml_at("loadgen.traffic", name, text)?;
        }
        self.overrides.iter().try_for_each(|assignment| overlay.set(assignment))?;
        Ok(overlay)
    }

    /// Notes on settings of the benchmark that the user's file overrides, since the program may depend on them.
    pub fn overruled(&self) -> Vec<String> {
        let note = |assignment: &&str| {
            let mut benchmark = Overlay::default();
            benchmark.set(assignment).ok()?;
            let (path, _) = assignment.split_once('=')?;
            let (wanted, own) = (value_at(benchmark.table(), path)?, value_at(self.base.user_table(), path)?);
            (plain_text(wanted) != plain_text(own) && !is_equivalent(path, wanted, own)).then(|| {
                format!(
                    "{} sets {path} = {}; the benchmark's default is {}",
                    self.base.name(),
                    plain_text(own),
                    plain_text(wanted)
                )
            })
        };
        self.defaults.iter().filter_map(note).collect()
    }
}

/// Validates a whole configuration, and the network that it describes, if any.
pub(crate) fn resolved(config: RunConfig) -> Result<Resolved, ConfigError> {
    let config = Resolved::new(config).map_err(|error| with_hint(error, &Table::new()))?;
    if config.is_network() {
        config.topology()?;
    }
    config.with_attachment_defaults()
}

/// Whether two spellings of the value at a path are equivalent, such as 0ps and 0ns.
fn is_equivalent(path: &str, one: &Value, other: &Value) -> bool {
    let read = |value: &Value| {
        let mut alone = Overlay::default();
        alone.insert(path, value.clone()).ok()?;
        RunConfig::of_options(registry::sections()).with(alone.table()).ok()
    };
    matches!((read(one), read(other)), (Some(one), Some(other)) if one.to_toml() == other.to_toml())
}

/// Resolves a preset or a machine's file with `overrides` ("path=value", the last one wins) into a validated configuration.
pub fn resolve(machine: &str, overrides: &[String]) -> Result<Resolved, ConfigError> {
    Layers::of(&Base::find(machine)?, overrides).resolve()
}

/// For tests: the preset `fast` with these overrides, or the error message.
#[cfg(test)]
pub(crate) fn on_fast(set: &[&str]) -> Result<Resolved, String> {
    let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
    resolve("fast", &set).map_err(|error| error.to_string())
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
