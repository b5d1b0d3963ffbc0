//! Benchmarks: which image, which guest program, when it is ready, which load, when to warm up and
//! when to measure. The registry is an explicit list that drives the command line and its help.

#![forbid(unsafe_code)]

mod boot_turn;
mod changes;
mod config;
mod disks;
mod error;
mod folder;
mod iperf;
mod kernel;
mod m5;
mod measure;
mod observe;
mod phases;
mod ports;
mod registry;
mod script;
mod session;
mod summary;
mod testpmd;
mod timing;
mod trial;
mod two_nodes;

pub use changes::changes;
pub use config::{RunConfig, RunParams, TestpmdConfig, resolve, resolve_with_traffic};
pub use disks::{machine_with, open_disks};
pub use error::RunError;
pub use folder::{ResultFolder, summary_json};
pub use iperf::{Direction, IperfConfig, IperfRun, IperfSummary, Protocol, ROLES, run_iperf};
pub use m5::{M5Next, M5Ops};
pub use measure::{Point, run_point, run_point_observed};
pub use observe::{
    FunctionCost, FunctionTable, Observe, Observed, PIPELINE_MAX, TIMELINE_PACKETS, konata, perfetto,
};
pub use ports::{Figure, FigureGroup, PortFigures};
pub use registry::{BENCHMARKS, Benchmark, Nodes, benchmark};
pub use script::{Mark, NO_TRAFFIC, Script, run_script};
pub use session::{
    Control, Places, Ready, Session, Source, Workload, bare_identity, guest_identity, read_guest,
};
pub use summary::{Change, Drops, PointSummary, RunSummary};
pub use timing::TimingFigures;
pub use trial::{Standing, Trial, TrialResult};
pub use two_nodes::{Role, TwoNodes};
