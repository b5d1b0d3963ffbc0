//! Networks of nodes, as users describe them in a file (docs/networks.md): what stands in it, and its measurement.

mod astray;
mod config;
mod figures;
mod file;
mod resolve;
mod run;

pub(crate) use config::keys_of_the_run;

pub use file::NetworkFile;
pub use resolve::NetworkPlan;
pub(crate) use run::{NetworkRun, run_network};
