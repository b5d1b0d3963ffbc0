//! What a checkpoint keeps of the timing models: all that later times depend on, so that a run goes on exactly. It belongs
//! to one microarchitecture. A machine of another one takes up the rest of the checkpoint and begins with cold models.

use doorbell_core::CoreState;
use doorbell_memory::MemoryState;
use doorbell_memory::dram::DramState;
use doorbell_pcie::link::LinkState;
use doorbell_riscv::Hart;
use doorbell_sim::Ram;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::run::device_op;
use super::{Mode, Timing};
use crate::config::MachineConfig;
use crate::functions::PluggedFunction;
use crate::ports_config::{PortTable, with_any};

/// The version of [`TimingState`] and of all that is in it: the state of cores, caches and memory too.
pub(crate) const TIMING_VERSION: u32 = 4;

/// See the module.
#[derive(Serialize, Deserialize)]
pub(crate) struct TimingState {
    /// Of everything that the rest depends on.
    config_hash: u64,
    mode: Mode,
    cores: Vec<CoreState>,
    memory: MemoryState<DramState>,
    spaces: Vec<Option<u16>>,
    warm_rest: Vec<u64>,
    links: Vec<LinkState>,
}

impl MachineConfig {
    /// A hash of what the timing models' state depends on.
    pub fn microarchitecture_hash(&self) -> u64 {
        // As the file with everything else left as it is by default.
        let parts = MachineConfig {
            core: self.core.clone(),
            pipeline: self.pipeline.clone(),
            memory: self.memory.clone(),
            pcie: self.pcie.clone(),
            port: with_any(&self.port, |own| PortTable { pcie: own.pcie.clone(), ..PortTable::default() }),
            ..MachineConfig::default()
        };
        xxh3_64(toml::to_string(&parts).expect("a configuration serialises").as_bytes())
    }
}

impl Timing {
    pub(crate) fn save(&self, functions: &[PluggedFunction]) -> TimingState {
        TimingState {
            config_hash: self.config_hash,
            mode: self.mode,
            cores: self.cores.iter().map(|core| core.save()).collect(),
            memory: self.memory.save(),
            spaces: self.spaces.clone(),
            warm_rest: self.warm_rest.clone(),
            links: functions.iter().map(|plugged| plugged.pcie.link().save()).collect(),
        }
    }

    /// Goes on where the saved models stopped, if they were of this microarchitecture. Returns whether they were.
    pub(crate) fn restore(
        &mut self,
        state: TimingState,
        harts: &[Hart],
        ram: &Ram,
        functions: &mut [PluggedFunction],
    ) -> Result<bool, String> {
        if state.config_hash != self.config_hash {
            return Ok(false);
        }
        let counts = [state.cores.len(), state.spaces.len(), state.warm_rest.len()];
        if counts.iter().any(|count| *count != harts.len()) || state.links.len() != functions.len() {
            return Err("the number of harts or PCI functions differs".into());
        }
        if state.warm_rest.iter().any(|rest| *rest >= 1000) {
            return Err("more than a cycle is left of one".into());
        }
        for (core, saved) in self.cores.iter_mut().zip(state.cores) {
            core.restore(saved)?;
        }
        for (id, core) in self.cores.iter_mut().enumerate() {
            self.device[id] = match (core.has_device_access(), harts[id].pending_mmio()) {
                (true, Some(request)) => Some(device_op(&harts[id], ram, &request)),
                (false, _) => None,
                (true, None) => return Err("a core waits for a device, and its hart does not".into()),
            };
        }
        self.memory.restore(state.memory).map_err(|error| error.to_string())?;
        for (plugged, link) in functions.iter_mut().zip(&state.links) {
            plugged.pcie.link_mut().restore(link).map_err(|error| error.to_string())?;
            plugged.pcie.resume_timed(state.mode == Mode::Detailed);
        }
        (self.mode, self.spaces, self.warm_rest) = (state.mode, state.spaces, state.warm_rest);
        Ok(true)
    }
}
