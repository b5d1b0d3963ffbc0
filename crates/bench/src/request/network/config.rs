//! Configuration keys in a network file: keys of the run, and keys of the members.

use doorbell_machine::ConfigError;

use crate::registry::run_sections;

/// Sections that apply to the whole run and not to a node, in addition to the option sections of runs.
const RUN_SECTIONS: [&str; 6] = ["run", "loadgen", "node", "switch", "generator", "cable"];

/// All keys that apply to the run and not to a node.
pub(crate) fn keys_of_the_run() -> Vec<&'static str> {
    RUN_SECTIONS.into_iter().chain(run_sections()).collect()
}

/// Adds the member's path to the key of an error in its tables.
pub(crate) fn in_member(member: &str, error: ConfigError) -> ConfigError {
    ConfigError { key: format!("{member}.{}", error.key), ..error }
}
