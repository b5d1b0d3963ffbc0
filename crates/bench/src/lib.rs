//! Benchmarks: which image, which guest program, when it is ready, which load, when to warm up and
//! when to measure. The registry is an explicit list that drives the command line and its help.

#![forbid(unsafe_code)]

mod benchmark;
mod beside;
mod boot_length;
mod boot_turn;
mod booted;
mod cache;
mod changes;
mod compute;
mod config;
mod control;
mod core_counts;
mod cores;
mod counters;
mod counting;
mod counting_run;
mod course;
mod disks;
mod dpdk;
mod drain;
mod drive;
mod dual;
mod edge;
mod error;
mod fingerprint;
mod folder;
mod init_log;
mod interval;
mod iperf;
mod kernel;
mod l3fwd;
mod length;
mod links;
mod losses;
mod m5;
mod measure;
mod measuring;
mod members;
mod memcached;
mod memcached_kernel;
mod moved;
mod nat;
mod neighbour;
mod netperf;
mod network;
mod nfs;
mod nic_totals;
mod nodes;
mod observe;
mod options;
mod ovs;
mod phases;
mod pipeline;
mod places;
mod playback;
mod point_files;
mod ports;
mod prepared;
mod ratio;
mod redis;
mod reference;
mod registry;
mod resolve;
mod results;
mod roles;
mod run_up;
mod rxptx;
mod script;
mod script_program;
mod sealed;
mod session;
mod shards;
mod steady;
mod suricata;
mod system;
mod tables;
mod testbed;
mod testpmd;
mod ticks;
mod timing;
mod touch;
mod transfer;
mod trial;
mod watched;
mod web;
mod window;
mod worker;
mod workload;

pub use benchmark::{Benchmark, MeasureNodes, Measured, Nodes, NodesLoad};
pub use boot_length::BootLength;
pub use cache::{Cached, CachedKind};
pub use changes::changes;
pub use compute::ComputeConfig;
pub use config::{RunConfig, RunParams};
pub use control::{Control, Progress, Stage};
pub use core_counts::CoreCounts;
pub use counting::Counting;
pub use disks::{machine_with, open_disks};
pub use doorbell_results::{
    Change, CoreFigures, Direction, Drops, Figure, FigureGroup, FunctionCost, GeneratorFigures, HopFigures,
    IperfFigures, KindCost, KindFigures, NetworkFigures, NodeFigures, OutputFigures, PointSummary,
    PortFigures, Protocol, QueueFigures, Ran, RunSummary, SwitchFigures, TimingFigures, TransferCore,
    TransferFigures, limit,
};
pub use dpdk::DpdkConfig;
pub use drive::{DriveConfig, DriveKind};
pub use dual::{DrivenPoint, driven_guests, run_driven};
pub use error::RunError;
pub use fingerprint::fingerprint;
pub use folder::ResultFolder;
pub use iperf::IperfConfig;
pub use length::Length;
pub use m5::{M5Next, M5Ops};
pub use measure::{Point, run_point, run_point_observed};
pub use members::{CableTable, GeneratorTable, NodeTable};
pub use memcached::MemcachedDpdkConfig;
pub use neighbour::NeighbourConfig;
pub use netperf::{Ids, NetperfConfig, NetperfTest};
pub use network::{NetworkFile, NetworkPlan};
pub use nfs::NfsConfig;
pub use nodes::{NodeGuest, NodesPlan, NodesTestbed, TestbedPlan};
pub use observe::{
    FunctionTable, KindRules, Observe, Observed, PIPELINE_MAX, RecordedNames, TIMELINE_PACKETS, konata,
    perfetto,
};
pub use options::{Options, Section};
pub use places::{Images, Places, bare_identity, guest_identity, image_for, read_guest};
pub use playback::{
    NamedTrace, PlaybackConfig, PlayedRun, ReadyTrace, Shape, TRACE, Traces, Warmup, resolve_played,
    write_played,
};
pub use prepared::{BenchmarkPlan, Prepared};
pub use redis::{RedisCommand, RedisConfig};
pub use reference::{Parameter, Word, explained, page, parameter, parameters, schema};
pub use registry::{BENCHMARKS, NETWORK, PLAYED, benchmark, defaults};
pub use resolve::{Layers, resolve};
pub use results::{Results, named};
pub use run_up::RunUp;
pub use rxptx::RxptxConfig;
pub use script::{Mark, Script, run_script};
pub use sealed::{SEAL, read_verified, seal, verify, verify_listed, write_sealed};
pub use session::{MachinePlan, Session, check_captures};
pub use suricata::{Checksums, Runmode, SuricataConfig};
pub use system::System;
pub use tables::csv_field;
pub use testbed::{Plan, Saved, Source, Testbed};
pub use testpmd::{ForwardMode, TestpmdConfig, Topology};
pub use touch::TouchConfig;
pub use transfer::TransferConfig;
pub use trial::{Standing, Trial, TrialResult};
pub use web::{WebConfig, WebMix, WebServer};
pub use workload::{NO_TRAFFIC, Ready, Workload};
