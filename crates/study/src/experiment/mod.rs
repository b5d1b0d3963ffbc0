//! Experiments: a file names a benchmark, a machine and the varied parameters; every combination of values is
//! a point.
//!
//! | File | Question it answers |
//! |---|---|
//! | `file` | what may an experiment file contain? |
//! | `sample` | which values are drawn at random? |
//! | `plan`, `duplicate_keys` | which points are there, and what is each one's identity? |
//! | `at` | which points have given values? |
//! | `store` | which points are finished, and how is one stored? |
//! | `point`, `boots` | how is a point measured, and which boot does it need? |
//! | `sweep` | how are points spread over cores? |
//! | `table`, `names`, `value`, `parquet` | how are the results of all points tabulated, under which names? |
//!
//! Each point is measured by its own process, so that a crash does not affect other points. Its results
//! appear in the result folder by one atomic rename: a killed sweep keeps the points that it finished.

mod at;
mod boots;
mod duplicate_keys;
mod file;
mod names;
mod parquet;
mod plan;
mod point;
mod sample;
mod store;
mod sweep;
mod table;
mod value;

pub(crate) use at::values_at;
pub use file::{ExperimentFile, PlotSpec, Published, SearchSpec};
pub(crate) use names::{in_tables, renamed};
pub use plan::{ExperimentError, Identity, Plan, PlannedPoint, Work};
pub use point::{Pages, measure};
pub use store::{State, Store};
pub use sweep::{Failure, Progress, Sweep, sweep};
pub use table::{Column, Table};
pub use value::{Cell, Quantity};
