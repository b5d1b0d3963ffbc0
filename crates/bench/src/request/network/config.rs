//! Configuration keys in a network file: keys of the run, and keys of the members.

use doorbell_machine::ConfigError;

use crate::plan::members::MEMBERS;
use crate::registry::run_sections;

/// All keys that apply to the run and not to a node.
pub(crate) fn keys_of_the_run() -> Vec<&'static str> {
    ["run", "loadgen"].into_iter().chain(MEMBERS).chain(run_sections()).collect()
}

/// Adds the member's path to the key of an error in its tables.
pub(crate) fn in_member(member: &str, error: ConfigError) -> ConfigError {
    ConfigError { key: format!("{member}.{}", error.key), ..error }
}
