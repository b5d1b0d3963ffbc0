//! PCI as the guest sees it and as time feels it: configuration space, base address registers,
//! interrupt pins, the host bridge that ties functions into the address map, and the path between a
//! device and memory.
//!
//! `config_space` is one function's registers (their table is `header`), `messages` its message signalled interrupts, `bridge` what a bridge's mean, `identity` says which function it
//! is, `place` where it is, `host_bridge` ties them into a tree of
//! buses, routes configuration accesses and interrupts, `decoder` decodes addresses, `path` prices transfers with a fixed latency, `link` as the transactions that they
//! are. `function` is the interface of a device behind the registers, `network` that of one with a wire.

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
#[cfg(test)]
mod testing;

pub use bridge::BridgeWindows;
pub use config_space::{ConfigEffects, ConfigSpace};
pub use decoder::Decoded;
pub use function::{FunctionPorts, PciFunction};
pub use host_bridge::{ConfigWrite, FunctionId, HostBridge, HostBridgeConfig, Slot, SlotError};
pub use identity::{BarKind, Capability, FunctionIdentity, HeaderType, MsiX, PowerState};
pub use link::{Attached, LinkConfig, PcieLink};
pub use messages::{Message, MessagesState};
pub use network::NetworkFunction;
pub use path::{Path, PathConfig, Sent};
pub use place::Place;
