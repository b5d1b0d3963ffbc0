//! Timing of the memory system: caches, coherence, direct cache access, interconnect, memory controllers.
//!
//! The hardware is that of a server of today: private first-level caches and an L2 for each hart, a shared last-level cache,
//! an interconnect that joins them with memory controllers and with the root complex. Modelled: tags and states
//! of every cache, exactly and in the order of calls; for each access, ports, miss registers with merging, write-back
//! buffers, links and their contention; replacement, prefetching, MESI, and where devices' lines are put. Every access is
//! priced when it is asked for and answers with a time. Not modelled: data (they are in RAM), transient coherence states and
//! their races.
//!
//! | File | Question it answers |
//! |---|---|
//! | `system` | what there is |
//! | `core_side` | an access through L1 and L2 |
//! | `lone` | the same for a core by itself |
//! | `llc` | a request at the LLC |
//! | `coherence` | who else has the line, what it takes to have it, what harts take from each other |
//! | `fabric` | how far it is from here to there, on a ring or mesh |
//! | `device`, `memory_bus` | what a device's access does, by where it enters |
//! | `dca` | where a device's line goes: the place for a researcher's policy |
//! | `cache`, `tags`, `replacement`, `slices`, `prefetch`, `aligned` | one cache |
//! | `slots`, `in_flight` | bookings of ports and links; of miss registers and buffers |
//! | `backing`, `dram` | memory |

#![forbid(unsafe_code)]

mod aligned;
pub mod backing;
mod cache;
pub mod class;
pub mod coherence;
pub mod config;
mod core_side;
pub mod dca;
mod device;
pub mod dram;
pub mod fabric;
mod in_flight;
mod invariants;
mod llc;
mod lone;
mod memory_bus;
mod paged;
pub mod prefetch;
pub mod replacement;
mod slices;
mod slots;
mod state;
pub mod stats;
pub mod system;
mod tags;
pub mod ways;

pub use backing::{FlatMemory, MainMemory};
pub use class::DataClass;
pub use config::{MemoryConfig, PrivateConfig};
pub use dca::{DcaConfig, DcaPolicy};
pub use lone::LoneHart;
pub use state::MemoryState;
pub use stats::{MemoryStats, Misses};
pub use system::{HartSide, MemorySystem};
pub use ways::WayMask;

#[cfg(test)]
mod coherence_tests;
#[cfg(test)]
mod dca_ways_tests;
#[cfg(test)]
mod device_tests;
#[cfg(test)]
mod fabric_tests;
#[cfg(test)]
mod on_die_tests;
#[cfg(test)]
mod reference_tests;
#[cfg(test)]
mod scan_tests;
#[cfg(test)]
mod software_prefetch_tests;
#[cfg(test)]
mod state_tests;
#[cfg(test)]
mod timing_tests;
