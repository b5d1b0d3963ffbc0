//! Networks of nodes, which users describe in a file (docs/networks.md): the file and the measurement.

mod config;
mod figures;
mod file;
mod misdelivered;
mod resolve;
mod run;

pub(crate) use config::keys_of_the_run;

pub use file::NetworkFile;
pub use resolve::NetworkPlan;
pub(crate) use run::measure_network;
