//! The whole machine: configuration, wiring, run loop and checkpoints. The only crate that depends on all
//! model crates.
//!
//! The timing contract (see `ARCHITECTURE.md`): one picosecond clock, one event queue, one thread. The
//! earliest hart or event advances next, and a hart stops before the next event.

#![forbid(unsafe_code)]

mod base;
mod boot;
mod bus;
mod cards;
mod checkpoint;
mod checkpoint_file;
pub mod config;
mod console;
mod dca_config;
mod debug;
mod disks;
mod dma;
mod events;
mod fingerprint;
mod function_side;
mod functions;
mod harts;
mod harts_config;
mod interrupt_controller;
mod interrupts;
mod machine;
mod message;
mod network;
pub mod overlay;
pub mod playback;
mod port;
mod ports_config;
mod presets;
mod recycle;
mod restore_checks;
mod run;
mod timed;
mod toml_comments;
mod traffic;
mod turns;
mod writers;

pub use base::{Base, is_path};
pub use boot::{BootError, Guest};
pub use checkpoint::{CheckpointError, CheckpointFile};
pub use config::{ConfigError, CoreConfig, CoreModel, HARTS_MAX, MachineConfig, PlatformConfig};
pub use console::Console;
pub use dca_config::DcaDevices;
pub use disks::DISK_DEVICES;
pub use fingerprint::{Fingerprint, HartFingerprint, WireFingerprint};
pub use functions::PluggedFunction;
pub use harts_config::{HartNumber, HartParts, HartTable, HartTables, HartsConfig};
pub use machine::{Machine, MachineStats};
pub use network::{
    End, Generator, LinkPlan, Network, NetworkCheckpoint, NetworkConfig, NetworkOutcome, Output, OutputStats,
    Switch, SwitchConfig, SwitchStats, Wire, WireStats, node_config,
};
pub use port::Port;
pub use ports_config::{PortConfig, PortNumber, PortTable, PortTables, PortsConfig};
pub use presets::{PRESETS, Preset, preset};
pub use run::{Limits, Outcome};
pub use timed::{
    Activity, BlockCost, BufferUse, CallNode, Cost, Domain, GUEST_EVENTS, GuestEvent, KeptOps, LoggedOp,
    Mode, PollStats, Profile, Recorder, RoundStats, Timing, WatchReport, WatchRequest,
};

pub use doorbell_attach::{
    AttachConfig, AttachKind, Attachment, BusStats, PLACEMENTS, Placement, StageConfig, StageStats,
};
pub use doorbell_core::{Books, CoreKind, CoreStats, PipelineConfig, Stages, TopDown};
pub use doorbell_memory::coherence::stats::SharingStats;
pub use doorbell_memory::config::Inclusion;
pub use doorbell_memory::dram::DramStats;
pub use doorbell_memory::fabric::stats as fabric_stats;
pub use doorbell_memory::prefetch::PrefetchKind;
pub use doorbell_memory::stats::{CacheStats, DeviceAccount, HartStats};
pub use doorbell_memory::{MemoryConfig, MemoryStats};
pub use doorbell_pcie::path::KINDS as PATH_KINDS;
pub use doorbell_pcie::{LinkConfig as PcieConfig, Place};
pub use doorbell_platform::{DiskConfig, DiskError, DiskFile, InterruptsKind};
pub use doorbell_wire::LinkConfig;
pub use doorbell_wire::flows::Carried;
