//! Restoring a saved link.

use doorbell_sim::snapshot::SnapshotError;

use super::{LATEST, Order, PcieLink};

impl PcieLink {
    /// Restores a saved link. One of another configuration, or an invalid one, is rejected and changes
    /// nothing.
    pub fn restore(&mut self, saved: PcieLink) -> Result<(), SnapshotError> {
        let config = self.config.clone();
        let PcieLink { bridges, latencies, rate, .. } = *self;
        let mut link = PcieLink { config, bridges, latencies, rate, ..saved };
        link.resume()
            .map_err(|problem| SnapshotError::Inconsistent { name: "pcie link".to_owned(), problem })?;
        *self = link;
        Ok(())
    }

    fn resume(&mut self) -> Result<(), String> {
        let Order { next_read, next_write, last_write_sent, sent } = self.order;
        let orders = [next_read, next_write, last_write_sent, sent.latest()];
        if orders.iter().chain(&self.present).any(|time| *time > LATEST) {
            return Err("a time is out of range".to_owned());
        }
        if ![&self.up, &self.down].iter().all(|way| way.is_consistent()) {
            return Err("a direction's packets overlap, or a time is out of range".to_owned());
        }
        if !self.posted_waits.is_consistent(LATEST) {
            return Err("the wait time of a write is out of range".to_owned());
        }
        self.tags.resume(self.config.tags, LATEST)?;
        self.posted_headers.resume(self.config.posted_headers, LATEST)?;
        self.posted_data.resume(self.config.posted_data, LATEST)?;
        self.non_posted_headers.resume(self.config.non_posted_headers, LATEST)?;
        self.register_writes.resume(self.config.register_writes, LATEST)
    }
}
