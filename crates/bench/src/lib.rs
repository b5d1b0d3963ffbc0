//! Benchmarks: which image, which guest program, when it is ready, which load, when to warm up and
//! when to measure. The registry is an explicit list that drives the command line and its help.

#![forbid(unsafe_code)]

mod config;
mod error;
mod folder;
mod kernel;
mod m5;
mod measure;
mod ports;
mod registry;
mod session;
mod summary;
mod testpmd;

pub use config::{RunConfig, RunParams, TestpmdConfig, resolve};
pub use error::RunError;
pub use folder::{ResultFolder, summary_json};
pub use m5::{M5Next, M5Ops};
pub use measure::{Point, run_point};
pub use ports::{Figure, FigureGroup, PortFigures};
pub use registry::{BENCHMARKS, Benchmark, benchmark};
pub use session::{Control, Places, Session, Source, bare_identity, guest_identity, read_guest};
pub use summary::{Drops, PointSummary, RunSummary};
