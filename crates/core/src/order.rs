//! Order in memory, the same in both pipelines: what fences, atomics and accesses to devices impose on loads. What they
//! impose on stores is the store queue's floor.

use doorbell_sim::Op;
use serde::{Deserialize, Serialize};

use crate::common::Common;
use crate::config::DeviceStores;
use crate::saved::cycle;

/// See the module.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct MemoryOrder {
    /// No load issues before (fences).
    #[serde(deserialize_with = "cycle")]
    pub load: u64,
    /// When all older loads are complete.
    #[serde(deserialize_with = "cycle")]
    loads_done: u64,
    /// When the last store to a device was accepted.
    #[serde(deserialize_with = "cycle")]
    device_store: u64,
}

impl Common {
    /// A load is complete.
    #[inline]
    pub fn load_done(&mut self, complete: u64) {
        self.order.loads_done = self.order.loads_done.max(complete);
    }

    /// What follows a fence or an acquiring atomic that is done waits for it.
    fn hold_back(&mut self, loads: bool, stores: bool, done: u64) {
        if loads {
            self.order.load = self.order.load.max(done);
        }
        if stores {
            self.stores.floor = self.stores.floor.max(done);
        }
    }

    /// From when on an atomic may be executed, for what is before it.
    pub fn atomic_floor(&self) -> u64 {
        self.stores.all_written().max(self.stores.floor).max(self.order.load)
    }

    /// An atomic that was in the store queue since `from` asked for its line and is complete.
    pub fn atomic_done(&mut self, op: &Op, from: u64, asked: u64, complete: u64) {
        self.stores.push_written(op, asked, complete);
        self.counts.atomics += 1;
        self.counts.sq_cycles += self.stores.all_written() - from;
        self.load_done(complete);
        let [_, _, loads, stores] = op.fence();
        self.hold_back(loads, stores, complete);
    }

    /// A fence says what waits for what.
    pub fn fence(&mut self, op: &Op) {
        self.counts.fences += 1;
        let [loads_before, stores_before, loads_after, stores_after] = op.fence();
        let loads = if loads_before { self.order.loads_done } else { 0 };
        let stores = if stores_before { self.stores.all_written().max(self.order.device_store) } else { 0 };
        self.hold_back(loads_after, stores_after, loads.max(stores));
    }

    /// Whether it is a store to a device that goes through the store queue.
    pub fn is_ordered(&self, op: &Op) -> bool {
        self.device_stores == DeviceStores::Ordered && op.flags & Op::WRITES != 0
    }

    /// From when on an access to a device may leave, for the fences before it and, if it is ordered, for the stores.
    pub fn device_floor(&self, op: &Op) -> u64 {
        match op.flags & Op::WRITES != 0 {
            true if self.is_ordered(op) => self.stores.floor.max(self.stores.all_written()),
            true => self.stores.floor,
            false => self.order.load,
        }
    }

    /// An access to a device that was in the pipeline since `from` left the core, is complete, and if it is a store, the core is told
    /// so.
    pub fn device_done(&mut self, op: &Op, from: u64, [left, complete, told]: [u64; 3]) {
        self.counts.device_accesses += 1;
        if op.flags & Op::WRITES == 0 {
            return self.load_done(complete);
        }
        if !self.is_ordered(op) {
            self.order.device_store = complete;
        } else {
            let told = told.max(complete);
            self.order.device_store = told;
            self.stores.push_written(op, left, told);
            self.stores.floor = self.stores.floor.max(told);
            self.counts.sq_cycles += told - from;
        }
    }
}
