//! Timing of the memory system: caches, coherence, direct cache access, interconnect, memory controllers.
//!
//! The hardware is that of a current server: private first-level caches and an L2 per hart, a shared
//! last-level cache (LLC), and an interconnect to the memory controllers and the root complex. Modelled: tags
//! and states of every cache, exact and in call order; per access, ports, miss registers with merging,
//! write-back buffers, links and their contention; replacement, prefetching, MESI, and placement of
//! device-written lines. The completion time of an access is computed at the call. Not modelled: data (they
//! are in RAM), transient coherence states and their races.
//!
//! | File | Contents |
//! |---|---|
//! | `system` | the components and how they are connected |
//! | `core_side` | a core's access through L1 and L2 |
//! | `single_hart` | the same for a single core without page tables |
//! | `llc` | a request at the LLC |
//! | `coherence` | sharers of a line, directory and snoops, sharing misses |
//! | `fabric` | distances on a ring or mesh |
//! | `device`, `memory_bus` | a device's access, by where it enters |
//! | `dca` | placement of device-written lines; add a new policy here |
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
mod memory_bus;
mod paged;
pub mod prefetch;
pub mod replacement;
mod single_hart;
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
pub use single_hart::SingleHart;
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
mod plain_cycles;
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
