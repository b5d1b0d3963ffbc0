//! PCI: configuration space, base address registers, interrupt pins and messages, the host bridge with its
//! tree of buses, and the timed path between a device and memory.
//!
//! `config_space` is one function's registers (tabulated in `header`), `messages` its message signalled
//! interrupts, `bridge` the meaning of a bridge's registers. `identity` describes a function, `place` its
//! position. `host_bridge` builds the tree of buses and routes configuration accesses and interrupts;
//! `decoder` decodes addresses. `path` times transfers with a fixed latency, `link` as individual
//! transactions. `function` is the interface of a device behind these registers, `network` that of one with
//! a wire, `polls` that of rings in memory to observers of polling.

#![forbid(unsafe_code)]

mod bridge;
pub mod config_space;
mod decoder;
pub mod function;
pub mod header;
pub mod host_bridge;
pub mod identity;
pub mod link;
pub mod messages;
pub mod network;
pub mod path;
mod place;
pub mod polls;
#[cfg(test)]
mod testing;

pub use bridge::BridgeWindows;
pub use config_space::{ConfigEffects, ConfigSpace};
pub use decoder::Decoded;
pub use function::{FunctionPorts, PciFunction};
pub use host_bridge::{ConfigWrite, FunctionId, HostBridge, Slot, SlotError};
pub use identity::{BarKind, Capability, FunctionIdentity, HeaderType, MsiX, PowerState};
pub use link::{Attached, LinkConfig, PcieLink};
pub use messages::{Message, MessagesState};
pub use network::NetworkFunction;
pub use path::{Path, PathConfig, Sent};
pub use place::Place;
pub use polls::{Poll, PolledRing, StatusRing};
