//! Reuse of a discarded machine's host memory for a new machine. A fuzzer that builds thousands of small
//! machines spends most of its time on pages that the host allocates and clears: RAM, translations and
//! decoded code.

use doorbell_pcie::{PciFunction, Place};
use doorbell_platform::map;
use doorbell_riscv::Hart;
use doorbell_sim::{PhysAddr, Ram};

use crate::config::{ConfigError, MachineConfig};
use crate::machine::{Machine, hart_config};

/// RAM and harts of a discarded machine, for reuse by a new one.
#[derive(Default)]
pub(crate) struct Recycled {
    ram: Option<Ram>,
    harts: Vec<Hart>,
}

impl Recycled {
    /// RAM and harts of a configuration in their initial state.
    pub fn memory(self, config: &MachineConfig) -> Result<(Ram, Vec<Hart>), ConfigError> {
        let platform = &config.platform;
        let mut spare = self.harts.into_iter();
        let hart = |id| match spare.next() {
            Some(hart) => hart.recycled(hart_config(config, id)),
            None => Hart::new(hart_config(config, id)),
        };
        let harts: Vec<Hart> = (0..platform.harts as usize).map(hart).collect();
        let ram = match self.ram.filter(|ram| ram.size() == platform.ram) {
            Some(ram) => ram.cleared(harts.len()),
            None => {
                let ram = Ram::allocate(PhysAddr(map::RAM_BASE), platform.ram, harts.len());
                ram.ok_or_else(|| {
                    let problem = format!(
                        "the host does not provide {} of memory (ulimit -v, a container's limit, or too little memory); \
                         give the machine less",
                        platform.ram
                    );
                    ConfigError::host_limit("platform.ram", problem)
                })?
            }
        };
        Ok((ram, harts))
    }
}

impl Machine {
    /// Builds a machine like [`Machine::new`], in the memory of this one. Nothing else of this one remains;
    /// the configurations may differ.
    pub fn rebuild(self, config: MachineConfig, seed: u64) -> Result<Machine, ConfigError> {
        self.rebuild_with_functions(config, seed, Vec::new())
    }

    /// Builds a machine like [`Machine::with_functions`], in the memory of this one.
    pub fn rebuild_with_functions(
        self,
        config: MachineConfig,
        seed: u64,
        functions: Vec<(Place, Box<dyn PciFunction>)>,
    ) -> Result<Machine, ConfigError> {
        Machine::build(
            config,
            seed,
            Recycled { ram: Some(self.ram), harts: self.harts.into_vec() },
            functions,
        )
    }
}
