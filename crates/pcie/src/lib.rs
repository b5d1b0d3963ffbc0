//! PCI as the guest sees it and as time feels it: configuration space, base address registers,
//! interrupt pins, the host bridge that ties functions into the address map, and the path between a
//! device and memory.
//!
//! `config_space` is one function's registers (their table is `header`), `identity` says which function it is, `host_bridge`
//! decodes accesses and routes interrupts, `path` prices transfers with a fixed latency, `link` as the transactions that they
//! are. Which device stands behind a
//! base address register only `machine` knows.

#![forbid(unsafe_code)]

pub mod config_space;
pub mod header;
pub mod host_bridge;
pub mod identity;
pub mod link;
pub mod path;

pub use config_space::{ConfigEffects, ConfigSpace, MsiMessage};
pub use host_bridge::{ConfigWrite, Decoded, HostBridge, HostBridgeConfig, SlotError};
pub use identity::{BarKind, Capability, FunctionIdentity, PowerState};
pub use link::{Attachment, Link, LinkConfig};
pub use path::{Path, PathConfig, Sent};
