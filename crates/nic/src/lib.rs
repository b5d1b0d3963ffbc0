//! Register-level models of Intel's gigabit Ethernet controllers ([`intel`]: one MAC core and a folder for
//! each chip), built from chip-independent parts ([`parts`]). Each NIC is a PCI function connected to a wire.
//! Section numbers refer to the chip's manual: Intel's "PCI/PCI-X Family of Gigabit Ethernet Controllers
//! Software Developer's Manual" (317453) for the 82540EM, and the "82576 Gigabit Ethernet Controller
//! Datasheet" (320961).

#![forbid(unsafe_code)]

mod config;
mod intel;
mod parts;

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

/// Returns a model's PCI configuration space after reset.
pub fn identity(model: NicModel) -> FunctionIdentity {
    match model {
        NicModel::E82540em => e82540::E82540::identity(),
        NicModel::E82576 => e82576::E82576::identity(),
    }
}
