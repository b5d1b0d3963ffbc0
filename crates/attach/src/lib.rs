//! How a device is attached to memory and to the cores: what its DMA and their accesses to its registers cost on the way.
//!
//! Five kinds, chosen by configuration: a PCI Express link (the room `pcie`), a chain of buses and store-and-forward bridges (`bus`),
//! and on the die the memory bus, the last-level cache, or that for headers alone, which are a chain of one stage without packets, tags or credits that
//! enters the memory system at another place ([`Entry`](doorbell_sim::memory::Entry)). Each works for DMA and for registers, functionally
//! (a fixed latency and a bandwidth, derived from the same parameters) and timed, and is saved; where a machine changes from one to
//! the other, nothing overtakes what is under way.
//!
//! `config` is what a configuration file says, `placements` the words that stand for much of it, `attachment` the device's way, `bus` the
//! chain.

#![forbid(unsafe_code)]

mod attachment;
mod bus;
mod config;
mod placements;

pub use attachment::{Attachment, AttachmentState};
pub use bus::{Bus, BusState, BusStats, StageStats};
pub use config::{AttachConfig, AttachKind, StageConfig};
pub use placements::{PLACEMENTS, Placement, placement};
