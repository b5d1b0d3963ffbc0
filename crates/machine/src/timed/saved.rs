//! Saved state of the timing models: everything that later timing depends on, so that a restored run is
//! identical. It fits only the same microarchitecture. A machine with another one restores the rest of the
//! checkpoint and starts with cold models.

use doorbell_attach::{Attachment, AttachmentState};
use doorbell_core::{CoreState, with_cycles_up_to};
use doorbell_memory::MemoryState;
use doorbell_memory::dram::DramState;
use doorbell_riscv::Hart;
use doorbell_sim::snapshot::{Snapshot, SnapshotError};
use doorbell_sim::{Clock, CoreCycle, Op, Ps, log};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::run::device_op;
use super::{Mode, TimedHart, Timing};
use crate::checkpoint::{CheckpointError, TIME_MAX};
use crate::config::MachineConfig;
use crate::machine::Machine;
use crate::ports_config::{PortTable, non_default_tables};

/// Version of [`TimingState`] and [`TimedHartState`] with everything in them, including cores. It includes
/// the versions of the memory system's and the attachments' states.
const TIMING_VERSION: u32 = 18 + MemoryState::<DramState>::VERSION + AttachmentState::VERSION;

/// See the module.
#[derive(Serialize, Deserialize)]
pub(super) struct TimingState {
    /// Hash of the microarchitecture that the state belongs to.
    config_hash: u64,
    mode: Mode,
    memory: MemoryState<DramState>,
    attachments: Vec<AttachmentState>,
}

/// State of one hart. It is a separate section, because the latest valid cycle depends on the hart's clock.
#[derive(Serialize, Deserialize)]
pub(super) struct TimedHartState {
    core: CoreState,
    space: Option<u16>,
    warm_rest: u64,
}

impl MachineConfig {
    /// Hash of all settings that the timing models' state depends on.
    pub fn microarchitecture_hash(&self) -> u64 {
        // Hash of the configuration file, with all other settings at their defaults.
        let parts = MachineConfig {
            core: self.core.clone(),
            pipeline: self.pipeline.clone(),
            memory: self.memory.clone(),
            attach: self.attach.clone(),
            pcie: self.pcie.clone(),
            hart: self.hart.clone(),
            trace_cores: self.trace_cores,
            port: non_default_tables(&self.port, |own| PortTable {
                attach: own.attach.clone(),
                pcie: own.pcie.clone(),
                ..PortTable::default()
            }),
            ..MachineConfig::default()
        };
        xxh3_64(toml::to_string(&parts).expect("a configuration serialises").as_bytes())
    }
}

impl Timing {
    pub(super) fn save(&self, attachments: &[Attachment]) -> TimingState {
        TimingState {
            config_hash: self.config_hash,
            mode: self.mode,
            memory: self.memory.save(),
            attachments: attachments.iter().map(Attachment::save).collect(),
        }
    }

    pub(super) fn save_hart(&self, id: usize) -> TimedHartState {
        let TimedHart { core, space, pace, .. } = &self.harts[id];
        TimedHartState { core: core.save(), space: *space, warm_rest: pace.remainder }
    }

    /// Whether saved models have the same microarchitecture.
    fn is_same_microarchitecture(&self, state: &TimingState) -> bool {
        state.config_hash == self.config_hash
    }

    /// Restores saved models of the same microarchitecture, except harts, which are restored one by one.
    fn restore(&mut self, state: TimingState, attachments: &mut [Attachment]) -> Result<(), String> {
        if state.attachments.len() != attachments.len() {
            return Err("the number of PCI devices differs".into());
        }
        self.memory.restore(state.memory).map_err(|error| error.to_string())?;
        for (attachment, saved) in attachments.iter_mut().zip(&state.attachments) {
            attachment.restore(saved).map_err(|error| error.to_string())?;
            attachment.resume_timed(state.mode == Mode::Detailed);
        }
        self.mode = state.mode;
        Ok(())
    }

    /// Restores one hart. `device` is its pending device access.
    fn restore_hart(&mut self, id: usize, state: TimedHartState, device: Option<Op>) -> Result<(), String> {
        if state.warm_rest >= 1000 {
            return Err("the fraction carried over in warming mode is not below one cycle".into());
        }
        let timed = &mut self.harts[id];
        timed.core.restore(state.core)?;
        (timed.space, timed.pace.remainder) = (state.space, state.warm_rest);
        timed.device = match (timed.core.has_device_access(), device) {
            (true, Some(op)) => Some(op),
            (false, _) => None,
            (true, None) => {
                return Err("a core waits for a device access that its hart has not issued".into());
            }
        };
        Ok(())
    }
}

impl Machine {
    /// Saves the timing models; nothing in functional mode, in which they are not updated.
    pub(crate) fn save_timing(&self, snapshot: &mut Snapshot) {
        let Some(timing) = self.timing.as_ref().filter(|timing| timing.mode != Mode::Functional) else {
            return;
        };
        snapshot.put("timing", TIMING_VERSION, &timing.save(&self.attachments));
        for id in 0..self.config.cores_with_corunners() {
            snapshot.put(&format!("timing.hart{id}"), TIMING_VERSION, &timing.save_hart(id));
        }
        self.save_corunners(snapshot);
    }

    /// Restores timing models of the same microarchitecture; others start cold.
    pub(crate) fn restore_timing(
        &mut self,
        snapshot: &Snapshot,
        clocks: &[Clock],
    ) -> Result<(), CheckpointError> {
        if !snapshot.has("timing") {
            return Ok(());
        }
        let now = self.queue.now();
        let Some(timing) = &mut self.timing else {
            log!(
                now,
                Machine,
                Warn,
                "the checkpoint's caches and predictors are not restored: this machine has no timing models"
            );
            return Ok(());
        };
        let state = snapshot.get("timing", TIMING_VERSION)?;
        if !timing.is_same_microarchitecture(&state) {
            log!(
                now,
                Machine,
                Warn,
                "the checkpoint's caches and predictors are not restored: they have another core or memory \
                 configuration, and start cold"
            );
            return Ok(());
        }
        let wrong = |problem| SnapshotError::Inconsistent { name: "timing".to_owned(), problem };
        for id in 0..self.config.cores_with_corunners() {
            let waits = |hart: &Hart| Some(device_op(hart, &self.ram, &hart.pending_mmio()?));
            let device = self.harts.get(id).and_then(waits);
            // A core later than the latest valid time would create events after that time.
            let latest = match clocks.get(id) {
                Some(slots) => CoreCycle::new(slots.edge_at_or_before(Ps(TIME_MAX / 2))),
                None => timing.clock_of(id).edge_at_or_before(Ps(TIME_MAX / 2)),
            };
            let read = || snapshot.get(&format!("timing.hart{id}"), TIMING_VERSION);
            let saved = with_cycles_up_to(latest, read)?;
            timing.restore_hart(id, saved, device).map_err(wrong)?;
        }
        timing.check_turns().map_err(wrong)?;
        timing.restore(state, &mut self.attachments).map_err(wrong)?;
        self.restore_corunners(snapshot)?;
        Ok(())
    }
}
