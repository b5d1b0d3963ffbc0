//! NICs at register level: chips, each a folder, and the parts that such chips are made of. The chips are Intel's 82540EM
//! ([`Nic`]) and 82576 ([`Igb`]); a [`Card`] is either. Section numbers are those of a chip's own manual: Intel's "PCI/PCI-X
//! Family of Gigabit Ethernet Controllers Software Developer's Manual" (317453) and the "82576 Gigabit Ethernet Controller
//! Datasheet" (320961).

#![forbid(unsafe_code)]

mod card;
mod config;
mod e82540;
pub mod e82576;
mod identity;
mod parts;
mod stats;

pub use card::Card;
pub use config::{ConfigError, MacAddress, NicConfig, NicModel, NotUnicast};
pub use e82540::regs;
pub use e82540::{
    Event, IDENTITY, IO_BYTES, MMIO_BYTES, NIC_STATE_VERSION, Nic, NicPorts, NicState, PACKET_BUFFER, Queue,
    register_reference,
};
pub use e82576::{IGB_STATE_VERSION, Igb, IgbPorts, IgbState, QueueStats};
pub use identity::{BarIdentity, MessagesIdentity, PciIdentity, PowerManagementIdentity};
pub use parts::drops::{ArrivalState, DropClass, classify};
pub use parts::measured::LateDrops;
pub use parts::registers::Statistic;
pub use parts::waits::{WaitedDrops, WaitsFor};
pub use stats::{InFlight, NicStats, RingLevel};
