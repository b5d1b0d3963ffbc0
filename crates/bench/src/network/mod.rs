//! Networks of nodes, as users describe them in a file (docs/networks.md): what stands in it, and its measurement.

mod config;
mod figures;
mod resolve;
mod run;

pub use config::{CableTable, GeneratorTable, NodeTable};
pub use resolve::{NetworkFile, NetworkPlan};
pub use run::{NetworkRun, run_network};
