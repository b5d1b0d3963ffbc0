//! NICs at register level: Intel's family of gigabit Ethernet controllers ([`intel`]: one MAC core, a folder for each chip), and the
//! parts that NICs are made of ([`parts`]). A [`Card`] is any of the chips. Section numbers are those of a chip's own manual: Intel's
//! "PCI/PCI-X Family of Gigabit Ethernet Controllers Software Developer's Manual" (317453) for the 82540EM, and the "82576 Gigabit
//! Ethernet Controller Datasheet" (320961).

#![forbid(unsafe_code)]

mod card;
mod config;
mod identity;
mod intel;
mod parts;
mod stats;

pub use card::Card;
pub use config::{ConfigError, MacAddress, NicConfig, NicModel, NotUnicast};
pub use identity::{BarIdentity, MessagesIdentity, PciIdentity, PowerManagementIdentity};
pub use intel::e82540::Nic;
pub use intel::e82576::Igb;
pub use intel::{Controller, ControllerState, Event, NicPorts, Queue, e82540, e82576};
pub use parts::drops::{ArrivalState, DropClass, classify};
pub use parts::measured::LateDrops;
pub use parts::registers::Statistic;
pub use parts::waits::{WaitedDrops, WaitsFor};
pub use stats::{InFlight, NicStats, QueueStats, RingLevel};
