//! The parameter reference: every configuration key with its meaning, values, range and default, taken from the
//! configuration types and their doc comments. It is the source of `doorbell config explain`, the page
//! `docs/parameters.md`, the JSON schema and the suggestions for unknown keys.

mod page;
mod parameter;
mod range;
mod schema;
mod suggest;

use std::sync::OnceLock;

use doorbell_machine::ConfigError;
use toml::Table;

use crate::plan::options::{OptionSections, Options, Section};
use crate::plan::playback::PlaybackConfig;
use crate::registry;

pub use page::page;
pub use parameter::{Parameter, Word};
pub use schema::schema;
pub(crate) use suggest::with_hint;

/// All parameters and their tables, in the order in which a configuration is written.
///
/// In a path, `N` is a number and `NAME` a name that the user chooses, and `[]` after a name is an entry of a list.
pub fn parameters() -> &'static [Parameter] {
    static ALL: OnceLock<Vec<Parameter>> = OnceLock::new();
    ALL.get_or_init(|| parameter::of_schema(&schema()))
}

/// The parameter or table at a path in the syntax of `--set`, such as `port.1.nic.rx_fifo`.
pub fn parameter(path: &str) -> Option<&'static Parameter> {
    parameters().iter().find(|known| known.is_at(path))
}

/// As [`parameter`], with an error that suggests similar keys.
pub fn explained(path: &str) -> Result<&'static Parameter, ConfigError> {
    let problem = "there is no such parameter; `doorbell config explain` lists the tables";
    let unknown = ConfigError { is_unknown_key: true, ..ConfigError::new(path, problem) };
    parameter(path).ok_or_else(|| suggest::with_path_hint(unknown))
}

/// The option sections of all benchmarks and of trace playback.
fn sections() -> OptionSections {
    registry::sections().and(Section::of::<PlaybackConfig>())
}

/// The defaults of all keys that have a fixed one.
fn defaults() -> Table {
    let mut all = registry::defaults().to_table();
    let played = Table::try_from(PlaybackConfig::default()).expect("options can be written as TOML");
    all.insert(PlaybackConfig::SECTION.to_owned(), toml::Value::Table(played));
    all
}

#[cfg(test)]
mod tests;
