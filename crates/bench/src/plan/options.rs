//! Sections of the configuration that belong to a benchmark, such as `[rxptx]`: a type beside the benchmark says which keys
//! there are, and the registry names it in the benchmark's entry. The configuration itself knows only that there are such
//! sections.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use doorbell_machine::ConfigError;
use doorbell_machine::overlay::with_overrides;
use doorbell_sim::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use toml::{Table, Value};

use crate::plan::config::RunConfig;

/// Whether a value is the one without an option: where it is left out of what is written, configurations from before there was a choice
/// keep their hash.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What to set where a guest needs more RAM than its machine has, in steps of 64 MiB.
pub(crate) fn more_ram(needed: u64, config: &RunConfig) -> Option<String> {
    const STEP: u64 = 64 << 20;
    let set = || format!("set platform.ram={}", Bytes(needed.next_multiple_of(STEP)));
    (config.platform.ram.0 < needed).then(set)
}

/// A path of the configuration, and a value for it.
pub type Setting = (&'static str, Value);

/// The path of an assignment, "path=value".
pub(crate) fn path_of(assignment: &str) -> &str {
    assignment.split('=').next().unwrap_or_default().trim()
}

/// One section's options.
pub trait Options:
    Clone + Debug + Default + DeserializeOwned + JsonSchema + PartialEq + Send + Serialize + Sync + 'static
{
    /// What the section is called: its keys are `SECTION.key`.
    const SECTION: &'static str;
    /// Whether it is left out of what is written where nothing of it is set: configurations from before there was this section keep their
    /// hash.
    const QUIET: bool = false;

    /// Checks every value, by itself and beside the rest of the configuration. An error names the whole path, such as
    /// `rxptx.work`.
    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError>;

    /// Whether a configuration with this section is a played trace's, in which there are no guest, no NIC and no traffic.
    const PLAYED: bool = false;

    /// Harts, the last ones, whose programs are not measured.
    fn corunner_harts(&self) -> u32 {
        0
    }

    /// Cores behind those of the harts, on which traces are played.
    fn trace_cores(&self) -> u32 {
        0
    }

    /// The part of a configuration with this section that results keep.
    fn kept(whole: Table) -> Table {
        whole
    }

    /// Settings, each a path and a value, that these options need and that are set where the user does not set them.
    fn follow(&self, _: &RunConfig) -> Vec<Setting> {
        Vec::new()
    }
}

/// A section that a benchmark has.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// What it is called.
    pub name: &'static str,
    begin: fn() -> Arc<dyn Held>,
}

impl Section {
    /// The section that holds options of this type.
    pub const fn of<T: Options>() -> Section {
        Section { name: T::SECTION, begin: || Arc::new(T::default()) }
    }
}

/// All sections of a configuration, in the order in which they are written.
#[derive(Clone, Debug, Default)]
pub struct OptionSections {
    sections: Vec<Arc<dyn Held>>,
}

impl OptionSections {
    /// Every section at its defaults. One that several benchmarks share is there once.
    ///
    /// # Panics
    ///
    /// If two types of options have the same name.
    pub(crate) fn of(sections: impl IntoIterator<Item = Section>) -> OptionSections {
        let mut all: Vec<Arc<dyn Held>> = Vec::new();
        for section in sections {
            let new = (section.begin)();
            match all.iter().find(|known| known.section() == section.name) {
                Some(known) => {
                    let of_one_type = (**known).type_id() == (*new).type_id();
                    assert!(of_one_type, "two types of options are called [{}]", section.name);
                }
                None => all.push(new),
            }
        }
        OptionSections { sections: all }
    }

    /// These and another one.
    pub(crate) fn and(mut self, section: Section) -> OptionSections {
        self.sections.push((section.begin)());
        self
    }

    /// The options of this type.
    ///
    /// # Panics
    ///
    /// If no benchmark of the registry lists them.
    pub(crate) fn get<T: Options>(&self) -> &T {
        let found = self.sections.iter().find_map(|held| (&**held as &dyn Any).downcast_ref());
        found.unwrap_or_else(|| panic!("no benchmark has the options [{}]", T::SECTION))
    }

    /// The sections' names.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.sections.iter().map(|held| held.section()).collect()
    }

    /// What can stand in each, by its name.
    pub(crate) fn schemas(&self, generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        self.sections.iter().map(|held| (held.section(), held.schema(generator))).collect()
    }

    /// These, with what `tree` says of them laid over; it is taken out of the tree.
    pub(crate) fn laid_under(&self, tree: &mut Table) -> Result<OptionSections, ConfigError> {
        let sections = self.sections.iter().map(|held| match tree.remove(held.section()) {
            None => Ok(held.clone()),
            Some(Value::Table(own)) => held.laid_under(&own),
            Some(other) => {
                let problem = format!("{other} is no section; its keys are {}", keys(&**held));
                Err(ConfigError::new(held.section(), problem))
            }
        });
        Ok(OptionSections { sections: sections.collect::<Result<_, _>>()? })
    }

    /// What every section needs of other settings ([`Options::follow`]).
    pub(crate) fn follow(&self, config: &RunConfig) -> Vec<Setting> {
        self.sections.iter().flat_map(|held| held.following(config)).collect()
    }

    /// Whether they are a played trace's.
    pub(crate) fn are_played(&self) -> bool {
        self.sections.iter().any(|held| held.is_played())
    }

    /// Harts, the last ones, whose programs are not measured.
    pub(crate) fn corunner_harts(&self) -> u32 {
        self.sections.iter().map(|held| held.unmeasured_harts()).sum()
    }

    /// Cores behind those of the harts, on which traces are played.
    pub(crate) fn trace_cores(&self) -> u32 {
        self.sections.iter().map(|held| held.cores_of_traces()).sum()
    }

    /// The part of a configuration with these that results keep.
    pub(crate) fn kept(&self, whole: Table) -> Table {
        self.sections.iter().fold(whole, |whole, held| held.part_kept(whole))
    }

    /// Checks every section beside the configuration that it stands in.
    pub(crate) fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        self.sections.iter().try_for_each(|held| held.check(config))
    }
}

fn keys(held: &dyn Held) -> String {
    let keys: Vec<String> = held.table().keys().map(|key| format!("{}.{key}", held.section())).collect();
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
        let written = self.sections.iter().filter(|held| !held.is_quiet());
        serializer.collect_map(written.map(|held| (held.section(), held.table())))
    }
}

/// Options of a type that is not known.
trait Held: Any + Debug + Send + Sync {
    fn section(&self) -> &'static str;
    fn is_quiet(&self) -> bool;
    fn table(&self) -> Table;
    fn schema(&self, generator: &mut SchemaGenerator) -> Schema;
    fn laid_under(&self, own: &Table) -> Result<Arc<dyn Held>, ConfigError>;
    fn check(&self, config: &RunConfig) -> Result<(), ConfigError>;
    fn following(&self, config: &RunConfig) -> Vec<Setting>;
    fn equals(&self, other: &dyn Held) -> bool;
    fn is_played(&self) -> bool;
    fn unmeasured_harts(&self) -> u32;
    fn cores_of_traces(&self) -> u32;
    fn part_kept(&self, whole: Table) -> Table;
}

impl<T: Options> Held for T {
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

    fn laid_under(&self, own: &Table) -> Result<Arc<dyn Held>, ConfigError> {
        Ok(Arc::new(with_overrides(self, own, T::SECTION)?))
    }

    fn check(&self, config: &RunConfig) -> Result<(), ConfigError> {
        self.validate(config)
    }

    fn following(&self, config: &RunConfig) -> Vec<Setting> {
        self.follow(config)
    }

    fn equals(&self, other: &dyn Held) -> bool {
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

    fn part_kept(&self, whole: Table) -> Table {
        T::kept(whole)
    }
}
