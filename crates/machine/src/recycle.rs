//! Machines built in the host's memory of others that are done with. Whoever builds thousands of small machines, as a
//! fuzzer does, spends most of the time on pages that the host hands out and clears: for RAM, translations, decoded code.

use doorbell_pcie::{PciFunction, Place};
use doorbell_platform::map;
use doorbell_riscv::Hart;
use doorbell_sim::{PhysAddr, Ram};

use crate::config::{ConfigError, MachineConfig};
use crate::machine::{Machine, hart_config};

/// What a machine can take over of another one.
#[derive(Default)]
pub(crate) struct Recycled {
    ram: Option<Ram>,
    harts: Vec<Hart>,
}

impl Recycled {
    /// RAM and harts of a configuration as they are at the start.
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
    /// The machine that [`Machine::new`] builds, in the memory of this one, of which nothing else is left. The
    /// configurations may differ.
    pub fn rebuild(self, config: MachineConfig, seed: u64) -> Result<Machine, ConfigError> {
        self.rebuild_with_functions(config, seed, Vec::new())
    }

    /// The same for [`Machine::with_functions`].
    pub fn rebuild_with_functions(
        self,
        config: MachineConfig,
        seed: u64,
        functions: Vec<(Place, Box<dyn PciFunction>)>,
    ) -> Result<Machine, ConfigError> {
        Machine::build(config, seed, Recycled { ram: Some(self.ram), harts: self.harts.into_vec() }, functions)
    }
}
