//! Results of a run and of a search: the definition of `summary.json`, used for writing and reading it, with
//! the meaning and unit of each figure. Measuring code fills these structures; reports are generated from
//! them.
//!
//! Files of older versions can be read: fields that they lack become the default, `None`, zero or NaN, as
//! stated at each field.
//!
//! | File | Contents |
//! |---|---|
//! | `run`, `search` | a whole `summary.json`, and the reasons why one cannot be read |
//! | `point`, `drops` | the results of one offered load; lost frames by cause |
//! | `latency`, `stages`, `streams` | round trips and streams, as measured by the load generator |
//! | `steady` | warm-up, and whether the measurement was steady |
//! | `limit`, `one_queue` | the bottleneck, and whether RSS had several flows to spread |
//! | `figures`, `timing` | definitions of the figures of the timing models, and their values |
//! | `functions`, `kinds` | the cost of guest functions, individually and by kind |
//! | `network` | members of a network, hop by hop |
//! | `ports`, `iperf`, `transfer` | NIC counters, iperf3's figures, transfers between two nodes |
//! | `played` | additional figures of a played trace |
//! | `run_identity` | simulator version, images and boot, traces |
//! | `comparison` | results side by side |
//! | `number`, `format` | numbers that may be missing, and formatting of figures |

#![forbid(unsafe_code)]

mod comparison;
mod drops;
pub mod figures;
pub mod format;
mod functions;
mod iperf;
mod kinds;
mod latency;
pub mod limit;
mod memory_part;
mod network;
mod number;
mod one_queue;
mod played;
mod point;
mod ports;
mod run;
mod run_identity;
mod search;
mod stages;
mod steady;
mod streams;
mod timing;
mod transfer;

pub use comparison::{
    ComparedFigure, ComparedPoint, ComparedSide, ComparedValue, ComparedWords, Comparison, FigureDifference,
    Interval, UnmatchedPoint,
};
pub use drops::{ByNic, Drops, WaitedFor};
pub use figures::{FigureKey, Unit};
pub use functions::FunctionCost;
pub use iperf::{Direction, IperfFigures, Protocol, TransferTotals};
pub use kinds::{HartKinds, KindCost, KindFigures};
pub use latency::{BatchSummary, Confidence, LatencyConfidence, LatencySummary};
pub use limit::Limit;
pub use memory_part::MemoryPart;
pub use network::{
    GeneratorFigures, HopFigures, NetworkFigures, NodeFigures, OutputFigures, SwitchFigures, WindowSummary,
};
pub use number::finite;
pub use played::{PlayedFigures, PlayedNeighbour, PlayedTrace};
pub use point::{MachineProfile, PointSummary};
pub use ports::{Figure, FigureGroup, PortFigures, QueueFigures, counters};
pub use run::{Change, RunSummary, SummaryError};
pub use run_identity::{PackageVersion, Provenance, RunIdentity};
pub use search::{SearchCost, SearchSummary, SizeSummary, TrialSummary};
pub use stages::{QueueStage, QueueStages, StageSummaries, StageSummary};
pub use steady::{Steady, SteadyCriterion, SteadyPhase};
pub use streams::{FlowSummary, ReplayStats, StreamSummary, Throughput};
pub use timing::{CoreFigures, Figure as TimingFigure, Group as TimingGroup, TimingFigures};
pub use transfer::{Behind, Samples, TransferCore, TransferFigures, TransferPart, WatchedFigures};
