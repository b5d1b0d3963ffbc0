//! Saved state of a chain.

use doorbell_pcie::Sent;
use doorbell_pcie::path::{KINDS, PathStats};
use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::{Pool, Ps};
use serde::{Deserialize, Serialize};

use super::stage::StageState;
use super::stats::BusStats;
use super::{Bus, LATEST};

/// Bookings, reads and writes in flight, and statistics.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BusState {
    stages: Vec<StageState>,
    pub(super) sent: Sent,
    register_writes: Pool,
    kinds: [PathStats; KINDS.len()],
    stats: BusStats,
    /// Current time of the machine at the last DMA request: bookings that ended before it are dropped.
    present: Option<Ps>,
}

impl Bus {
    /// Returns the state to save.
    pub(crate) fn save(&self) -> BusState {
        BusState {
            stages: self.stages.iter().map(|stage| stage.save()).collect(),
            sent: self.sent,
            register_writes: self.register_writes.clone(),
            kinds: self.kinds.clone(),
            stats: self.stats.clone(),
            present: self.present,
        }
    }

    /// Restores a saved state. One of another chain, or an invalid one, is rejected and changes nothing.
    pub(crate) fn restore(&mut self, state: &BusState) -> Result<(), SnapshotError> {
        let inconsistent = |problem| SnapshotError::Inconsistent { name: "bus".to_owned(), problem };
        if state.stages.len() != self.stages.len() {
            return Err(inconsistent("the saved state has a different number of stages".to_owned()));
        }
        if state.sent.latest().max(state.present.unwrap_or_default()) > LATEST {
            return Err(inconsistent("a time is out of range".to_owned()));
        }
        let mut bus = Bus::new(&self.chain);
        let buffer = bus.chain.stages.last().expect("a chain has a stage").buffer;
        bus.register_writes = state.register_writes.clone();
        bus.register_writes.resume(buffer, LATEST).map_err(inconsistent)?;
        for (stage, saved) in bus.stages.iter_mut().zip(&state.stages) {
            *stage = stage.restored(saved)?;
        }
        bus.sent = state.sent;
        bus.present = state.present;
        bus.kinds = state.kinds.clone();
        bus.stats = state.stats.clone();
        *self = bus;
        Ok(())
    }
}
