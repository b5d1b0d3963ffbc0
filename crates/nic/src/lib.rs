//! NICs at register level: chips, each a folder, and the parts that such chips are made of. The one chip so far is
//! Intel's 82540EM ([`Nic`]). Section numbers in this crate are those of Intel's "PCI/PCI-X Family of Gigabit Ethernet
//! Controllers Software Developer's Manual" (317453).

#![forbid(unsafe_code)]

mod config;
mod e82540;
mod parts;

pub use config::{ConfigError, MacAddress, NicConfig};
pub use e82540::regs;
pub use e82540::{
    BarIdentity, Event, IDENTITY, IO_BYTES, InFlight, MMIO_BYTES, NIC_STATE_VERSION, Nic, NicPorts, NicState,
    NicStats, PACKET_BUFFER, PciIdentity, PowerManagementIdentity, Queue, RingLevel, Statistic,
    register_reference,
};
pub use parts::drops::{ArrivalState, DropClass, classify};
pub use parts::waits::{WaitedDrops, WaitsFor};
