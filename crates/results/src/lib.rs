//! What a run and a search say: the one definition of `summary.json`, from which it is written and read, with what each
//! figure means and its unit. Whoever measures fills these structures; reports are made of them.
//!
//! Files of older versions are read too: what they did not have has a default, `None`, zero or NaN as its comment says.
//!
//! | File | What lives there |
//! |---|---|
//! | `run`, `search` | the whole of a `summary.json`, and why one cannot be read |
//! | `point`, `drops` | one offered load and what became of it, lost frames by cause |
//! | `latency`, `stages`, `streams` | round trips and streams, as the load generator saw them |
//! | `steady` | how a load came to its pace, and whether the measurement was steady |
//! | `limit`, `one_queue` | what kept the machine from doing more, and whether RSS had anything to spread |
//! | `timing`, `functions`, `kinds` | what the timing models say, and what guest functions cost, one by one and by kind |
//! | `network` | members of a network, hop by hop |
//! | `ports`, `iperf`, `transfer` | what NICs counted, what iperf3 says, what moved between two nodes |
//! | `played` | what a played trace has beside these |
//! | `ran` | simulator, images and boot, traces |
//! | `comparison` | results side by side |
//! | `number`, `format` | numbers that may not be there, and figures as people read them |

#![forbid(unsafe_code)]

mod comparison;
mod drops;
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
mod ran;
mod run;
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
pub use drops::{ByNic, ByWait, Drops, WaitedFor};
pub use functions::FunctionCost;
pub use iperf::{Direction, IperfFigures, Protocol};
pub use kinds::{HartKinds, KindCost, KindFigures};
pub use latency::{BatchSummary, Confidence, LatencyConfidence, LatencySummary};
pub use limit::Limit;
pub use memory_part::MemoryPart;
pub use network::{
    GeneratorFigures, HopFigures, NetworkFigures, NodeFigures, OutputFigures, SwitchFigures, WindowSummary,
};
pub use number::known;
pub use played::{PlayedFigures, PlayedNeighbour, PlayedTrace};
pub use point::{PointSummary, Profiled};
pub use ports::{Figure, FigureGroup, PortFigures, QueueFigures};
pub use ran::{PackageVersion, Provenance, Ran};
pub use run::{Change, RunSummary, SummaryError};
pub use search::{SearchCost, SearchSummary, SizeSummary, TrialSummary};
pub use stages::{QueueStage, QueueStages, StageSummaries, StageSummary};
pub use steady::{Steady, SteadyCriterion, SteadyPhase};
pub use streams::{FlowSummary, ReplayStats, StreamSummary, Throughput};
pub use timing::{CoreFigures, Figure as TimingFigure, Group as TimingGroup, TimingFigures};
pub use transfer::{Behind, Samples, TransferCore, TransferFigures, TransferPart, WatchedFigures};
