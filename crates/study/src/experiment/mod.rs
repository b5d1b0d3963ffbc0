//! Experiments: a file names a benchmark, a machine and what is varied; every combination is a point.
//!
//! | File | Question it answers |
//! |---|---|
//! | `file` | what may stand in an experiment's file? |
//! | `sample` | which values are drawn at random? |
//! | `plan`, `elsewhere` | which points are there, and what is each one's identity? |
//! | `at` | which of them have these values? |
//! | `store` | which points are done, and how does one become done? |
//! | `point`, `boots` | how is a point measured, and what does it boot? |
//! | `sweep` | how are points spread over cores? |
//! | `table`, `names`, `value`, `parquet` | what do all points say together, and by which names? |
//!
//! A point is measured by a process of its own, so that one that crashes takes no other along, and appears in the result folder
//! by one rename, whole: whatever kills a sweep, what was finished stays finished.

mod at;
mod boots;
mod elsewhere;
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
