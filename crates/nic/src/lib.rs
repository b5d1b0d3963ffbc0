//! Register-level models of Intel's gigabit Ethernet controllers ([`intel`]: one MAC core and a folder for
//! each chip), built from chip-independent parts ([`parts`]). Each NIC is a PCI function connected to a wire.
//! Section numbers refer to the chip's manual: Intel's "PCI/PCI-X Family of Gigabit Ethernet Controllers
//! Software Developer's Manual" (317453) for the 82540EM, and the "82576 Gigabit Ethernet Controller
//! Datasheet" (320961).

#![forbid(unsafe_code)]

mod config;
mod intel;
mod parts;

use std::fmt;

use doorbell_pcie::network as stats;
use doorbell_pcie::{FunctionIdentity, PciFunction};
use doorbell_sim::BitsPerSec;

pub use config::{ConfigError, NicConfig, NicModel};
pub use intel::e82540::Nic;
pub use intel::e82576::Igb;
pub use intel::{Controller, ControllerState, Queue, e82540, e82576};
pub use parts::drops::{ArrivalState, DropClass, classify};
pub use parts::waits::WaitCause;

use intel::Chip as _;

/// Creates NIC `index` of a machine in its power-on state, on a link of this rate.
pub fn new(
    config: NicConfig,
    link_rate: BitsPerSec,
    index: usize,
) -> Result<Box<dyn PciFunction>, ConfigError> {
    Ok(match config.model {
        NicModel::E82540em => Box::new(Nic::new(config, link_rate, index)?),
        NicModel::E82576 => Box::new(Igb::new(config, link_rate, index)?),
    })
}

impl NicModel {
    /// All models.
    pub const ALL: [NicModel; 2] = [NicModel::E82540em, NicModel::E82576];

    /// The model with the most queues.
    pub fn with_most_queues() -> NicModel {
        NicModel::ALL.into_iter().max_by_key(|model| model.queues()).expect("there are models")
    }

    /// Number of receive queues, and of transmit queues.
    pub fn queues(self) -> u32 {
        match self {
            NicModel::E82540em => e82540::E82540::QUEUES as u32,
            NicModel::E82576 => e82576::E82576::QUEUES as u32,
        }
    }

    /// Name of Linux's driver; DPDK has one driver per model, too.
    pub fn driver(self) -> &'static str {
        match self {
            NicModel::E82540em => "e1000",
            NicModel::E82576 => "igb",
        }
    }
}

impl fmt::Display for NicModel {
    /// The name as in the manual. `nic.model` accepts it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NicModel::E82540em => "82540EM",
            NicModel::E82576 => "82576",
        })
    }
}

/// Returns a model's PCI configuration space after reset.
pub fn identity(model: NicModel) -> FunctionIdentity {
    match model {
        NicModel::E82540em => e82540::E82540::identity(),
        NicModel::E82576 => e82576::E82576::identity(),
    }
}
