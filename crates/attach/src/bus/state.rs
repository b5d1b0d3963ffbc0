//! Restoring a saved chain.

use doorbell_sim::snapshot::SnapshotError;

use super::{Bus, LATEST};

impl Bus {
    /// Restores a saved chain. One of another configuration, or an invalid one, is rejected and changes
    /// nothing.
    pub(crate) fn restore(&mut self, saved: Bus) -> Result<(), SnapshotError> {
        let mut bus = Bus { chain: self.chain.clone(), ..saved };
        bus.resume().map_err(|problem| SnapshotError::Inconsistent { name: "bus".to_owned(), problem })?;
        *self = bus;
        Ok(())
    }

    fn resume(&mut self) -> Result<(), String> {
        let configs = &self.chain.stages;
        if self.stages.len() != configs.len() {
            return Err("the saved state has a different number of stages".to_owned());
        }
        if self.sent.latest().max(self.present.unwrap_or_default()) > LATEST {
            return Err("a time is out of range".to_owned());
        }
        self.stages.iter_mut().zip(configs).try_for_each(|(stage, config)| stage.resume(config))?;
        let last = configs.last().expect("a chain has a stage");
        self.register_writes.resume(last.buffer, LATEST)
    }
}
