//! Sections of the configuration that belong to a benchmark, such as `[rxptx]`. A type in the benchmark's
//! module declares the keys, and the benchmark's registry entry lists the type. [`RunConfig`] handles all
//! sections generically.

use std::any::Any;
use std::fmt::{Debug, Display};
use std::ops::RangeInclusive;
use std::sync::Arc;

use doorbell_machine::ConfigError;
use doorbell_machine::overlay::with_overrides;
use doorbell_sim::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use toml::{Table, Value};

use crate::plan::config::RunConfig;

/// Whether a value is the default. Default values are not written, so that configurations from before the
/// option existed keep their hash.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The setting to recommend if the guest needs more RAM than its machine has, in steps of 64 MiB.
fn ram_setting(needed: u64, config: &RunConfig) -> Option<String> {
    const STEP: u64 = 64 << 20;
    let set = || format!("set platform.ram={}", Bytes(needed.next_multiple_of(STEP)));
    (config.platform.ram.0 < needed).then(set)
}

/// Checks that the guest's machine has this much RAM. `problem` states what needs it; the error adds the remedy.
pub(crate) fn check_ram(
    key: &str,
    needed: u64,
    problem: impl Display,
    config: &RunConfig,
) -> Result<(), ConfigError> {
    match ram_setting(needed, config) {
        Some(set) => Err(ConfigError::new(key, format!("{problem}; {set}"))),
        None => Ok(()),
    }
}

/// Rejects the value of a key if a condition holds.
pub(crate) fn reject_if(
    condition: bool,
    key: impl Into<String>,
    problem: impl ToString,
) -> Result<(), ConfigError> {
    if condition { Err(ConfigError::new(key, problem)) } else { Ok(()) }
}

/// Checks that a value is in its range.
pub(crate) fn check_range<T: PartialOrd + Display>(
    key: impl Into<String>,
    value: T,
    range: RangeInclusive<T>,
) -> Result<(), ConfigError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(ConfigError::new(key, format!("{value} is not from {} to {}", range.start(), range.end())))
}

/// Checks that a value is a power of two in its range. `shown` is the value with its unit.
pub(crate) fn check_power_of_two(
    key: impl Into<String>,
    value: u64,
    range: RangeInclusive<u64>,
    shown: impl Fn(u64) -> String,
) -> Result<(), ConfigError> {
    if range.contains(&value) && value.is_power_of_two() {
        return Ok(());
    }
    let [value, least, most] = [value, *range.start(), *range.end()].map(shown);
    Err(ConfigError::new(key, format!("{value} is not a power of two from {least} to {most}")))
}

/// A path of the configuration, and a value for it.
pub type Setting = (&'static str, Value);

/// The path in an assignment "path=value".
pub(crate) fn path_of(assignment: &str) -> &str {
    assignment.split('=').next().unwrap_or_default().trim()
}

/// One section's options.
pub trait Options:
    Clone + Debug + Default + DeserializeOwned + JsonSchema + PartialEq + Send + Serialize + Sync + 'static
{
    /// The section's name. Its keys are `SECTION.key`.
    const SECTION: &'static str;
    /// Whether the section is not written if all its values are defaults, so that configurations from before
    /// the section existed keep their hash.
    const QUIET: bool = false;

    /// Checks every value, alone and against the rest of the configuration. An error has the complete path,
    /// such as `rxptx.work`.
    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError>;

    /// Whether a configuration with this section is for trace playback, without guest, NIC and traffic.
    const PLAYED: bool = false;

    /// Number of harts that run co-runners, which are not measured. They are the last harts.
    fn corunner_harts(&self) -> u32 {
        0
    }

    /// Number of additional cores, after those of the harts, that play traces.
    fn trace_cores(&self) -> u32 {
        0
    }

    /// Removes the keys that have no effect with this section, before the configuration is written to
    /// results.
    fn without_unused(whole: Table) -> Table {
        whole
    }

    /// Settings that these options require; they apply unless the user sets the same path.
    fn required_settings(&self, _: &RunConfig) -> Vec<Setting> {
        Vec::new()
    }
}

/// A benchmark's section.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Its name.
    pub name: &'static str,
    defaults: fn() -> Arc<dyn DynOptions>,
}

impl Section {
    /// The section of one type of options.
    pub const fn of<T: Options>() -> Section {
        Section { name: T::SECTION, defaults: || Arc::new(T::default()) }
    }
}

/// All sections of a configuration, in writing order.
#[derive(Clone, Debug, Default)]
pub struct OptionSections {
    sections: Vec<Arc<dyn DynOptions>>,
}

impl OptionSections {
    /// Every section with its defaults. A section listed several times, by benchmarks that share it, is
    /// included once.
    ///
    /// # Panics
    ///
    /// If two types of options have the same name.
    pub(crate) fn of(sections: impl IntoIterator<Item = Section>) -> OptionSections {
        let mut all: Vec<Arc<dyn DynOptions>> = Vec::new();
        for section in sections {
            let new = (section.defaults)();
            match all.iter().find(|other| other.section() == section.name) {
                Some(other) => {
                    let is_same_type = (**other).type_id() == (*new).type_id();
                    assert!(is_same_type, "two types of options are called [{}]", section.name);
                }
                None => all.push(new),
            }
        }
        OptionSections { sections: all }
    }

    /// Adds another section.
    pub(crate) fn and(mut self, section: Section) -> OptionSections {
        self.sections.push((section.defaults)());
        self
    }

    /// The options of this type.
    ///
    /// # Panics
    ///
    /// If no benchmark of the registry lists them.
    pub(crate) fn get<T: Options>(&self) -> &T {
        let found = self.sections.iter().find_map(|section| (&**section as &dyn Any).downcast_ref());
        found.unwrap_or_else(|| panic!("no benchmark has the options [{}]", T::SECTION))
    }

    /// The sections' names.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.sections.iter().map(|section| section.section()).collect()
    }

    /// The JSON schema of each section, with its name.
    pub(crate) fn schemas(&self, generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        self.sections.iter().map(|section| (section.section(), section.schema(generator))).collect()
    }

    /// Moves the sections' settings out of `tree`, and returns the sections with these settings applied.
    pub(crate) fn with_overrides(&self, tree: &mut Table) -> Result<OptionSections, ConfigError> {
        let sections = self.sections.iter().map(|section| match tree.remove(section.section()) {
            None => Ok(section.clone()),
            Some(Value::Table(own)) => section.with_overrides(&own),
            Some(other) => {
                let problem = format!("{other} is not a section; its keys are {}", keys(&**section));
                Err(ConfigError::new(section.section(), problem))
            }
        });
        Ok(OptionSections { sections: sections.collect::<Result<_, _>>()? })
    }

    /// Settings that the sections require ([`Options::required_settings`]).
    pub(crate) fn required_settings(&self, config: &RunConfig) -> Vec<Setting> {
        self.sections.iter().flat_map(|section| section.dyn_required_settings(config)).collect()
    }

    /// Whether the configuration is for trace playback.
    pub(crate) fn are_played(&self) -> bool {
        self.sections.iter().any(|section| section.is_played())
    }

    /// Number of harts that run co-runners, which are not measured. They are the last harts.
    pub(crate) fn corunner_harts(&self) -> u32 {
        self.sections.iter().map(|section| section.unmeasured_harts()).sum()
    }

    /// Number of additional cores, after those of the harts, that play traces.
    pub(crate) fn trace_cores(&self) -> u32 {
        self.sections.iter().map(|section| section.cores_of_traces()).sum()
    }

    /// Removes the keys that have no effect with these sections, before the configuration is written to
    /// results.
    pub(crate) fn without_unused(&self, whole: Table) -> Table {
        self.sections.iter().fold(whole, |whole, section| section.part_without_unused(whole))
    }

    /// Checks every section against the whole configuration.
    pub(crate) fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        self.sections.iter().try_for_each(|section| section.check(config))
    }
}

fn keys(section: &dyn DynOptions) -> String {
    let keys: Vec<String> =
        section.table().keys().map(|key| format!("{}.{key}", section.section())).collect();
    keys.join(", ")
}

impl PartialEq for OptionSections {
    fn eq(&self, other: &OptionSections) -> bool {
        let pairs = || self.sections.iter().zip(&other.sections);
        self.sections.len() == other.sections.len() && pairs().all(|(one, other)| one.equals(&**other))
    }
}

impl Serialize for OptionSections {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = self.sections.iter().filter(|section| !section.is_quiet());
        serializer.collect_map(written.map(|section| (section.section(), section.table())))
    }
}

/// Object-safe form of [`Options`].
trait DynOptions: Any + Debug + Send + Sync {
    fn section(&self) -> &'static str;
    fn is_quiet(&self) -> bool;
    fn table(&self) -> Table;
    fn schema(&self, generator: &mut SchemaGenerator) -> Schema;
    fn with_overrides(&self, own: &Table) -> Result<Arc<dyn DynOptions>, ConfigError>;
    fn check(&self, config: &RunConfig) -> Result<(), ConfigError>;
    fn dyn_required_settings(&self, config: &RunConfig) -> Vec<Setting>;
    fn equals(&self, other: &dyn DynOptions) -> bool;
    fn is_played(&self) -> bool;
    fn unmeasured_harts(&self) -> u32;
    fn cores_of_traces(&self) -> u32;
    fn part_without_unused(&self, whole: Table) -> Table;
}

impl<T: Options> DynOptions for T {
    fn section(&self) -> &'static str {
        T::SECTION
    }

    fn is_quiet(&self) -> bool {
        T::QUIET && *self == T::default()
    }

    fn table(&self) -> Table {
        Table::try_from(self).expect("options can be written as TOML")
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }

    fn with_overrides(&self, own: &Table) -> Result<Arc<dyn DynOptions>, ConfigError> {
        Ok(Arc::new(with_overrides(self, own, T::SECTION)?))
    }

    fn check(&self, config: &RunConfig) -> Result<(), ConfigError> {
        self.validate(config)
    }

    fn dyn_required_settings(&self, config: &RunConfig) -> Vec<Setting> {
        self.required_settings(config)
    }

    fn equals(&self, other: &dyn DynOptions) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }

    fn is_played(&self) -> bool {
        T::PLAYED
    }

    fn unmeasured_harts(&self) -> u32 {
        self.corunner_harts()
    }

    fn cores_of_traces(&self) -> u32 {
        self.trace_cores()
    }

    fn part_without_unused(&self, whole: Table) -> Table {
        T::without_unused(whole)
    }
}
