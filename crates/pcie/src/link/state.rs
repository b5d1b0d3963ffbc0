//! Saved state of a link.

use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::{FutureBookings, Pool, PoolState, Ps};
use serde::{Deserialize, Serialize};

use super::stats::LinkStats;
use super::{Direction, LATEST, Order, PcieLink};
use crate::path::{KINDS, PathStats};

/// Bookings, tags and credits in use, and statistics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkState {
    up: Direction,
    down: Direction,
    order: Order,
    /// Tags, posted headers, posted data, non-posted headers, register writes.
    pools: [PoolState; 5],
    posted_waits: FutureBookings,
    kinds: [PathStats; KINDS.len()],
    stats: LinkStats,
    /// Current time of the machine at the last DMA request: bookings that ended before it are dropped.
    present: Option<Ps>,
}

impl PcieLink {
    /// Returns the state to save.
    pub fn save(&self) -> LinkState {
        LinkState {
            up: self.up.clone(),
            down: self.down.clone(),
            order: self.order.clone(),
            pools: [
                &self.tags,
                &self.posted_headers,
                &self.posted_data,
                &self.non_posted_headers,
                &self.register_writes,
            ]
            .map(Pool::save),
            posted_waits: self.posted_waits.clone(),
            kinds: self.kinds.clone(),
            stats: self.stats.clone(),
            present: self.present,
        }
    }

    /// Restores a saved state. One of another configuration, or an invalid one, is rejected and changes
    /// nothing.
    pub fn restore(&mut self, state: &LinkState) -> Result<(), SnapshotError> {
        self.restored(state)
            .map(|link| *self = link)
            .map_err(|problem| SnapshotError::Inconsistent { name: "pcie link".to_owned(), problem })
    }

    fn restored(&self, state: &LinkState) -> Result<PcieLink, String> {
        let mut link = PcieLink::behind_bridges(&self.config, self.bridges);
        let Order { next_read, next_write, last_write_sent, sent } = state.order;
        let orders = [next_read, next_write, last_write_sent, sent.latest()];
        if orders.iter().chain(&state.present).any(|time| *time > LATEST) {
            return Err("a time is out of range".to_owned());
        }
        if ![&state.up, &state.down].iter().all(|way| way.is_consistent()) {
            return Err("a direction's packets overlap, or a time is out of range".to_owned());
        }
        if !state.posted_waits.is_consistent(LATEST) {
            return Err("the wait time of a write is out of range".to_owned());
        }
        let [tags, posted_headers, posted_data, non_posted, registers] = &state.pools;
        link.tags = Pool::restore(tags, self.config.tags, LATEST)?;
        link.posted_headers = Pool::restore(posted_headers, self.config.posted_headers, LATEST)?;
        link.posted_data = Pool::restore(posted_data, self.config.posted_data, LATEST)?;
        link.non_posted_headers = Pool::restore(non_posted, self.config.non_posted_headers, LATEST)?;
        link.register_writes = Pool::restore(registers, self.config.register_writes, LATEST)?;
        link.up = state.up.clone();
        link.down = state.down.clone();
        link.order = state.order.clone();
        link.posted_waits = state.posted_waits.clone();
        link.kinds = state.kinds.clone();
        link.stats = state.stats.clone();
        link.present = state.present;
        Ok(link)
    }
}
