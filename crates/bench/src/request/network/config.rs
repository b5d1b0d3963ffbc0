//! Keys of a configuration in a network: those of the run, and those of members.

use doorbell_machine::ConfigError;

use crate::scenarios::registry::sections_of_runs;

/// Keys of a run that are no node's own, beside its sections of options.
const OF_THE_RUN: [&str; 6] = ["run", "loadgen", "node", "switch", "generator", "cable"];

/// The keys that are the run's, and no node's own.
pub(crate) fn keys_of_the_run() -> Vec<&'static str> {
    OF_THE_RUN.into_iter().chain(sections_of_runs()).collect()
}

/// An error in a member's tables, with the whole path of its key.
pub(crate) fn below(member: &str, error: ConfigError) -> ConfigError {
    ConfigError { key: format!("{member}.{}", error.key), ..error }
}
