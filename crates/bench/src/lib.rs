//! Benchmarks: image, guest program, readiness criterion, load, warm-up and measurement. The registry is an
//! explicit list that drives the command line and its help.

#![forbid(unsafe_code)]

mod error;
mod figures;
mod measure;
mod plan;
mod ratio;
mod registry;
mod request;
#[path = "../../../scenarios/mod.rs"]
mod scenarios;
mod store;
mod testbed;
mod window;

pub use doorbell_results::figures as figure_keys;
pub use doorbell_results::{
    Change, CoreFigures, Direction, Drops, Figure, FigureGroup, FigureKey, FunctionCost, GeneratorFigures,
    HopFigures, IperfFigures, KindCost, KindFigures, NetworkFigures, NodeFigures, OutputFigures,
    PointSummary, PortFigures, Protocol, QueueFigures, RunIdentity, RunSummary, SwitchFigures, TimingFigures,
    TransferCore, TransferFigures, TransferTotals, limit,
};
pub use error::RunError;
pub use figures::core_counts::CoreCounts;
pub use figures::fingerprint::fingerprint;
pub use figures::host_cost::HostCost;
pub use measure::benchmark::{Benchmark, MeasureNodes, Measured, Nodes, NodesLoad};
pub use measure::driven::driven_guests;
pub use measure::kinds::{NETWORK, PLAYED};
pub use measure::playback::{PlayedRun, ReadyTrace, TRACE, write_played};
pub use measure::point::{Point, run_point_sent};
pub use measure::script::{Mark, Script, run_script};
pub use measure::trial::{Trial, TrialCounts, TrialResult};
pub use plan::config::{RunConfig, RunParams};
pub use plan::counting::Counting;
pub use plan::dpdk::DpdkConfig;
pub use plan::drive::{DriveConfig, DriveKind};
pub use plan::length::Length;
pub use plan::members::{CableTable, GeneratorTable, NodeTable};
pub use plan::options::{Options, Section};
pub use plan::playback::{PlaybackConfig, Shape, Warmup};
pub use plan::resolved::Resolved;
pub use plan::workload::{NO_TRAFFIC, Ready, Workload};
pub use registry::{benchmark, defaults};
pub use request::changes::{changes, run_summary};
pub use request::network::{NetworkFile, NetworkPlan};
pub use request::planned::{BenchmarkPlan, Prepared};
pub use request::played::resolve_played;
pub use request::reference::{Parameter, Word, explained, page, parameter, parameters, schema};
pub use request::resolve::{Layers, resolve};
pub use scenarios::BENCHMARKS;
pub use store::cache::{Cached, CachedKind};
pub use store::folder::ResultFolder;
pub use store::paths::{CachePaths, Images, bare_identity, guest_identity, read_guest};
pub use store::results::{Results, list_names};
pub use store::sealed::{SEAL, read_verified, seal, verify, verify_listed, write_sealed};
pub use store::tables::csv_field;
pub use testbed::boot_length::BootLength;
pub use testbed::control::{Control, Progress, Stage};
pub use testbed::disks::{machine_with, open_disks};
pub use testbed::m5::{M5Next, M5Ops};
pub use testbed::nodes::{NodeGuest, NodesPlan, NodesTestbed, TestbedPlan};
pub use testbed::ramp::Ramp;
pub use testbed::ready::{Plan, Saved, Source, Testbed};
pub use testbed::session::{MachinePlan, Session, check_captures};
pub use testbed::system::System;
pub use testbed::traces::{NamedTrace, Traces};
pub use window::observe::{
    FunctionTable, KindRules, Observe, Observed, PIPELINE_MAX, RecordedNames, TIMELINE_PACKETS, konata,
    perfetto,
};
