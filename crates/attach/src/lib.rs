//! Attachment of a device to memory and cores: the latency and bandwidth of its DMA and of register accesses.
//!
//! Five kinds, selected by configuration: a PCI Express link (crate `pcie`), a chain of buses and
//! store-and-forward bridges (`bus`), and on the die the memory bus, the last-level cache, or the last-level
//! cache for headers only. The on-die kinds are a chain of one stage, without packets, tags or credits, that
//! enters the memory system elsewhere ([`DmaEntryPoint`](doorbell_sim::memory::DmaEntryPoint)). Each kind
//! works for DMA and for registers, functionally (a fixed latency and a bandwidth, derived from the same
//! parameters) and timed, and can be saved. When a machine switches between the two, accesses in flight are
//! not overtaken.
//!
//! `config` has the configuration, `placements` named presets of it, `attachment` the path of a device, `bus`
//! the chain.

#![forbid(unsafe_code)]

mod attachment;
mod bus;
mod config;
mod placements;

pub use attachment::{Attachment, AttachmentState};
pub use bus::{Bus, BusStats, StageStats};
pub use config::{AttachConfig, AttachKind, StageConfig};
pub use placements::{PLACEMENTS, Placement, placement};
