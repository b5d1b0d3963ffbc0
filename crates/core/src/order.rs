//! Memory ordering, common to both pipelines: constraints of fences, atomics and device accesses on loads.
//! Their constraints on stores are the store queue's `floor`.

use doorbell_sim::{CoreCycle, Op};
use serde::{Deserialize, Serialize};

use crate::common::Common;
use crate::config::DeviceStores;
use crate::saved::cycle;

/// Ordering constraints on loads.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct MemoryOrder {
    /// The earliest issue cycle of loads (fences).
    #[serde(deserialize_with = "cycle")]
    pub load: CoreCycle,
    /// The cycle by which all older loads are complete.
    #[serde(deserialize_with = "cycle")]
    loads_done: CoreCycle,
    /// When the last device store was accepted.
    #[serde(deserialize_with = "cycle")]
    device_store: CoreCycle,
}

impl Common {
    /// Records a completed load.
    #[inline]
    pub fn load_done(&mut self, complete: CoreCycle) {
        self.order.loads_done = self.order.loads_done.max(complete);
    }

    /// Delays younger loads or stores until `done`, the completion of a fence or an acquiring atomic.
    fn hold_back(&mut self, loads: bool, stores: bool, done: CoreCycle) {
        if loads {
            self.order.load = self.order.load.max(done);
        }
        if stores {
            self.stores.floor = self.stores.floor.max(done);
        }
    }

    /// The earliest cycle in which an atomic may execute, given the older stores and fences.
    pub fn atomic_floor(&self) -> CoreCycle {
        self.stores.all_written().max(self.stores.floor).max(self.order.load)
    }

    /// Records an atomic that was in the store queue since `from`, accessed its line at `translated`, and
    /// completed.
    pub fn atomic_done(&mut self, op: &Op, from: CoreCycle, translated: CoreCycle, complete: CoreCycle) {
        self.stores.push_written(op, translated, complete);
        self.counts.atomics += 1;
        self.counts.sq_cycles += self.stores.all_written() - from;
        self.load_done(complete);
        let [_, _, loads, stores] = op.fence();
        self.hold_back(loads, stores, complete);
    }

    /// Applies a fence: younger accesses of its successor set wait for older ones of its predecessor set.
    pub fn fence(&mut self, op: &Op) {
        self.counts.fences += 1;
        let [loads_before, stores_before, loads_after, stores_after] = op.fence();
        let loads = if loads_before { self.order.loads_done } else { CoreCycle::ZERO };
        let stores = if stores_before {
            self.stores.all_written().max(self.order.device_store)
        } else {
            CoreCycle::ZERO
        };
        self.hold_back(loads_after, stores_after, loads.max(stores));
    }

    /// Whether `op` is a device store that goes through the store queue.
    pub fn is_ordered(&self, op: &Op) -> bool {
        self.device_stores == DeviceStores::Ordered && op.flags & Op::WRITES != 0
    }

    /// The earliest cycle in which a device access may leave, given the fences and, if it is ordered, the
    /// older stores.
    pub fn device_floor(&self, op: &Op) -> CoreCycle {
        match op.flags & Op::WRITES != 0 {
            true if self.is_ordered(op) => self.stores.floor.max(self.stores.all_written()),
            true => self.stores.floor,
            false => self.order.load,
        }
    }

    /// Records a device access that was in the pipeline since `from`: when it left the core, when it
    /// completed and, for a store, when the core received the acknowledgement.
    pub fn device_done(&mut self, op: &Op, from: CoreCycle, [left, complete, acknowledged]: [CoreCycle; 3]) {
        self.counts.device_accesses += 1;
        if op.flags & Op::WRITES == 0 {
            return self.load_done(complete);
        }
        if !self.is_ordered(op) {
            self.order.device_store = complete;
        } else {
            let acknowledged = acknowledged.max(complete);
            self.order.device_store = acknowledged;
            self.stores.push_written(op, left, acknowledged);
            self.stores.floor = self.stores.floor.max(acknowledged);
            self.counts.sq_cycles += acknowledged - from;
        }
    }
}
