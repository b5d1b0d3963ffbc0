//! The reference of parameters: every key that a configuration can have, with what it means, what can be written there, its range and its
//! default. All of it comes from the types that a configuration is read into and from their doc comments; `doorbell config explain`, the
//! page `docs/parameters.md`, the JSON schema and what is said of an unknown key are made of it.

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
use crate::scenarios::registry;

pub use page::page;
pub use parameter::{Parameter, Word};
pub use schema::schema;
pub(crate) use suggest::instead_of;

/// All parameters and the tables in which they stand, in the order in which a configuration is written.
///
/// A part of a path that the user chooses stands in it as `N` (a number), as `NAME`, or as `[]` behind the name of a list.
pub fn parameters() -> &'static [Parameter] {
    static ALL: OnceLock<Vec<Parameter>> = OnceLock::new();
    ALL.get_or_init(|| parameter::of_schema(&schema()))
}

/// The parameter or table at a path as `--set` takes it, such as `port.1.nic.rx_fifo`.
pub fn parameter(path: &str) -> Option<&'static Parameter> {
    parameters().iter().find(|known| known.is_at(path))
}

/// The same, or which others may have been meant.
pub fn explained(path: &str) -> Result<&'static Parameter, ConfigError> {
    let problem = "there is no such parameter; `doorbell config explain` lists the tables";
    let unknown = ConfigError { is_unknown_key: true, ..ConfigError::new(path, problem) };
    parameter(path).ok_or_else(|| suggest::instead_of_path(unknown))
}

/// The sections that benchmarks have, and that of played traces.
fn sections() -> OptionSections {
    registry::sections().and(Section::of::<PlaybackConfig>())
}

/// Every default that is not left to something else.
fn defaults() -> Table {
    let mut all = registry::defaults().to_table();
    let played = Table::try_from(PlaybackConfig::default()).expect("options can be written as TOML");
    all.insert(PlaybackConfig::SECTION.to_owned(), toml::Value::Table(played));
    all
}

#[cfg(test)]
mod tests;
