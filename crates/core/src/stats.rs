//! What a core counts. All counters only grow; a region of interest is a subtraction.

use doorbell_sim::memory::Level;
use doorbell_sim::op::{Op, OpClass};
use doorbell_sim::stats;

use crate::branch::Prediction;

/// Why a dispatch slot stayed empty or a cycle passed without a commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[repr(u8)]
pub enum Cause {
    /// None: an op was dispatched or committed.
    #[default]
    Base,
    /// A branch was predicted wrongly.
    Branch,
    /// A memory-order clash or a trap threw away what was in flight.
    Clear,
    /// The BTB did not know a direct branch.
    Misfetch,
    /// Instructions came from beyond the first-level cache.
    Icache,
    /// An instruction's address had to be translated.
    Itlb,
    /// The front end delivers less than the width, or begins again.
    Fetch,
    /// Execution: dependences and latencies.
    Execute,
    /// A division, which holds its unit, or waits for it.
    Divider,
    /// Another unit, or an issue port, was taken for longer than the op takes.
    Ports,
    /// A load from the first-level cache or the store queue.
    L1,
    /// A load from the private second-level cache.
    L2,
    /// A load from the last-level cache.
    Llc,
    /// A load from another core's cache.
    Peer,
    /// A load from memory.
    Dram,
    /// A data address had to be translated.
    Dtlb,
    /// The store queue is full, or an atomic waits for it.
    Store,
    /// A serialising op.
    Serialise,
    /// An access to a device.
    Device,
    /// Nothing to do: WFI.
    Idle,
    /// Nobody said when things happened: these cycles and slots are in no figure.
    Untimed,
}

impl Cause {
    /// How many causes there are.
    pub const COUNT: usize = Cause::Untimed as usize + 1;

    /// All causes, in order.
    pub const ALL: [Cause; Cause::COUNT] = [
        Cause::Base,
        Cause::Branch,
        Cause::Clear,
        Cause::Misfetch,
        Cause::Icache,
        Cause::Itlb,
        Cause::Fetch,
        Cause::Execute,
        Cause::Divider,
        Cause::Ports,
        Cause::L1,
        Cause::L2,
        Cause::Llc,
        Cause::Peer,
        Cause::Dram,
        Cause::Dtlb,
        Cause::Store,
        Cause::Serialise,
        Cause::Device,
        Cause::Idle,
        Cause::Untimed,
    ];

    /// Whether the front end is to blame.
    pub const fn is_front_end(self) -> bool {
        matches!(self, Cause::Misfetch | Cause::Icache | Cause::Itlb | Cause::Fetch)
    }
}

stats! {
    /// What a core counts, apart from its books of slots and cycles.
    pub struct Counts {
        /// Instructions committed.
        instructions,
        /// Ops committed.
        ops,
        /// Branches of all kinds.
        branches,
        /// Conditional branches.
        conditional_branches,
        /// Conditional branches predicted in the wrong direction.
        wrong_directions,
        /// Computed jumps and calls predicted to go elsewhere.
        wrong_targets,
        /// Returns predicted to go elsewhere.
        wrong_returns,
        /// Branches that the BTB did not know, found by the decoder.
        misfetches,
        /// Lines asked of the instruction cache.
        fetched_lines,
        /// Lines that did not come from the first-level instruction cache.
        fetched_lines_missed,
        /// Loads.
        loads,
        /// Loads served by the first-level cache.
        loads_l1,
        /// Loads served by the second-level cache.
        loads_l2,
        /// Loads served by the last-level cache.
        loads_llc,
        /// Loads served by another core's cache.
        loads_peer,
        /// Loads served by memory.
        loads_dram,
        /// Cycles from cache access to data, summed over loads.
        load_cycles,
        /// Software prefetches.
        prefetches,
        /// Of these, requests that the first-level cache dropped.
        prefetches_dropped,
        /// Stores.
        stores,
        /// Stores written together with another to the same line that was under way.
        stores_joined,
        /// Loads served by a store that had not left the store queue.
        forwards,
        /// Loads that waited for a store that has only a part of what they read.
        forwards_blocked,
        /// Memory-order clashes: loads, and all behind them, executed again.
        replays,
        /// Atomics.
        atomics,
        /// Fences.
        fences,
        /// Serialising ops.
        serialising,
        /// Accesses to devices.
        device_accesses,
        /// Interrupts and exceptions.
        traps,
        /// Misses of the instruction TLB.
        itlb_misses,
        /// Misses of the data TLB.
        dtlb_misses,
        /// Page-table walks.
        walks,
        /// Page-table entries read.
        walk_accesses,
        /// Cycles from the miss to the translation, summed over walks.
        walk_cycles,
        /// Cycles that ops were in the reorder buffer, summed over ops.
        rob_cycles,
        /// Cycles that ops were in the issue queue, summed over ops.
        iq_cycles,
        /// Cycles that loads and prefetches were in the load queue, summed over them.
        lq_cycles,
        /// Cycles that stores were in the store queue, summed over stores.
        sq_cycles,
        /// Requests for slots, units or page walkers from before what they remember. They are served as if nothing had been booked then, so
        /// possibly too early.
        late_bookings,
    }
}

stats! {
    /// The books of dispatch slots (top-down method) and of commit cycles (CPI stack).
    ///
    /// The `slots_` counters sum to the width × `slot_cycles`, the `cpi_` counters to `cycles`. Commit lags behind dispatch, so
    /// that the two cover stretches that differ by what is in flight.
    pub struct Books {
        /// Cycles up to the last op's commit.
        cycles,
        /// Cycles whose dispatch slots are accounted for.
        slot_cycles,
        /// Slots of ops that were committed.
        slots_retiring,
        /// Slots lost to mispredicted branches.
        slots_branch,
        /// Slots lost to clashes and traps, with those of the ops executed again.
        slots_clear,
        /// Empty because of misfetches, in cycles without any op.
        slots_misfetch,
        /// Empty because of the instruction cache, in cycles without any op.
        slots_icache,
        /// Empty because of the instruction TLB, in cycles without any op.
        slots_itlb,
        /// Empty because the pipeline fills, in cycles without any op.
        slots_fetch,
        /// Empty because of the front end, in cycles with some ops.
        slots_fetch_bandwidth,
        /// Empty because of dependences and latencies of execution.
        slots_execute,
        /// Empty because of divisions.
        slots_divider,
        /// Empty because units or issue ports were taken.
        slots_ports,
        /// Empty because of loads from the first level.
        slots_l1,
        /// Empty because of loads from the second level.
        slots_l2,
        /// Empty because of loads from the last level.
        slots_llc,
        /// Empty because of loads from other cores' caches.
        slots_peer,
        /// Empty because of loads from memory.
        slots_dram,
        /// Empty because of data translations.
        slots_dtlb,
        /// Empty because of stores.
        slots_store,
        /// Empty because of serialising ops.
        slots_serialise,
        /// Empty because of accesses to devices.
        slots_device,
        /// Empty because the core was waiting for an interrupt.
        slots_idle,
        /// Cycles in which ops were committed.
        cpi_base,
        /// Cycles lost to mispredicted branches.
        cpi_branch,
        /// Cycles lost to clashes and traps.
        cpi_clear,
        /// Cycles lost to misfetches.
        cpi_misfetch,
        /// Cycles lost to the instruction cache.
        cpi_icache,
        /// Cycles lost to the instruction TLB.
        cpi_itlb,
        /// Cycles lost to the rest of the front end.
        cpi_fetch,
        /// Cycles lost to dependences and latencies of execution.
        cpi_execute,
        /// Cycles lost to divisions.
        cpi_divider,
        /// Cycles lost to units or issue ports that were taken.
        cpi_ports,
        /// Cycles lost to loads from the first level.
        cpi_l1,
        /// Cycles lost to loads from the second level.
        cpi_l2,
        /// Cycles lost to loads from the last level.
        cpi_llc,
        /// Cycles lost to loads from other cores' caches.
        cpi_peer,
        /// Cycles lost to loads from memory.
        cpi_dram,
        /// Cycles lost to data translations.
        cpi_dtlb,
        /// Cycles lost to stores.
        cpi_store,
        /// Cycles lost to serialising ops.
        cpi_serialise,
        /// Cycles lost to accesses to devices.
        cpi_device,
        /// Cycles spent waiting for an interrupt.
        cpi_idle,
    }
}

/// Everything that a core counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CoreStats {
    /// Events.
    pub counts: Counts,
    /// Slots and cycles.
    pub books: Books,
}

impl stats::Stats for CoreStats {
    fn counters(&self) -> Vec<stats::Counter> {
        let mut counters = self.counts.counters();
        counters.extend(self.books.counters());
        counters
    }

    fn since(&self, earlier: &Self) -> Self {
        CoreStats { counts: self.counts.since(&earlier.counts), books: self.books.since(&earlier.books) }
    }

    fn plus(&self, other: &Self) -> Self {
        CoreStats { counts: self.counts.plus(&other.counts), books: self.books.plus(&other.books) }
    }
}

/// The top-down method's first two levels, in slots (FACTS: Yasin 2014). Idle slots are not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct TopDown {
    /// Slots of committed ops.
    pub retiring: u64,
    /// Bad speculation: mispredicted branches.
    pub mispredicts: u64,
    /// Bad speculation: clashes and traps.
    pub clears: u64,
    /// Frontend bound: cycles without any op.
    pub fetch_latency: u64,
    /// Frontend bound: cycles with some ops.
    pub fetch_bandwidth: u64,
    /// Backend bound: loads, stores, translations, devices.
    pub memory: u64,
    /// Backend bound: execution, serialising ops.
    pub core: u64,
}

impl TopDown {
    /// Level 1: retiring, bad speculation, frontend bound, backend bound.
    pub fn level1(&self) -> [u64; 4] {
        [
            self.retiring,
            self.mispredicts + self.clears,
            self.fetch_latency + self.fetch_bandwidth,
            self.memory + self.core,
        ]
    }

    /// All slots.
    pub fn total(&self) -> u64 {
        self.level1().iter().sum()
    }
}

impl Books {
    /// The first two levels of the top-down method.
    pub fn top_down(&self) -> TopDown {
        TopDown {
            retiring: self.slots_retiring,
            mispredicts: self.slots_branch,
            clears: self.slots_clear,
            fetch_latency: self.slots_misfetch + self.slots_icache + self.slots_itlb + self.slots_fetch,
            fetch_bandwidth: self.slots_fetch_bandwidth,
            memory: self.slots_l1
                + self.slots_l2
                + self.slots_llc
                + self.slots_peer
                + self.slots_dram
                + self.slots_dtlb
                + self.slots_store
                + self.slots_device,
            core: self.slots_execute + self.slots_divider + self.slots_ports + self.slots_serialise,
        }
    }

    /// The third level: what the second level's latency of fetching, bounds of memory and bounds of the core consist of, in this order.
    /// Each sums to its [`TopDown`] figure exactly.
    pub fn top_down_3(&self) -> [Vec<(&'static str, u64)>; 3] {
        let fetching = vec![
            ("icache", self.slots_icache),
            ("itlb", self.slots_itlb),
            ("misfetches", self.slots_misfetch),
            ("refill", self.slots_fetch),
        ];
        let memory = vec![
            ("l1_bound", self.slots_l1),
            ("l2_bound", self.slots_l2),
            ("llc_bound", self.slots_llc),
            ("peer_bound", self.slots_peer),
            ("dram_bound", self.slots_dram),
            ("store_bound", self.slots_store),
            ("dtlb", self.slots_dtlb),
            ("device_bound", self.slots_device),
        ];
        let core = vec![
            ("divider", self.slots_divider),
            ("ports", self.slots_ports),
            ("latency", self.slots_execute),
            ("serialising", self.slots_serialise),
        ];
        [fetching, memory, core]
    }

    /// All cycles of the CPI stack.
    pub fn cpi_total(&self) -> u64 {
        use doorbell_sim::stats::Stats;
        self.counters()
            .iter()
            .filter(|counter| counter.name.starts_with("cpi_"))
            .map(|counter| counter.value)
            .sum()
    }
}

impl Cause {
    /// What an op waits for that executes without memory: `waited` cycles for its unit and `takes` in it.
    #[inline]
    pub(crate) const fn of_unit(class: OpClass, waited: u64, takes: u64) -> Cause {
        match class {
            OpClass::IntDiv | OpClass::FloatDiv => Cause::Divider,
            _ if waited > takes => Cause::Ports,
            _ => Cause::Execute,
        }
    }

    /// A load served at this level.
    pub(crate) const fn of(level: Level) -> Cause {
        match level {
            Level::L1 => Cause::L1,
            Level::L2 => Cause::L2,
            Level::Llc => Cause::Llc,
            Level::Peer => Cause::Peer,
            Level::Dram => Cause::Dram,
        }
    }
}

impl Counts {
    /// Counts a load.
    #[inline(always)]
    pub(crate) fn load(&mut self, level: Level, cycles: u64) {
        self.loads += 1;
        self.load_cycles += cycles;
        match level {
            Level::L1 => self.loads_l1 += 1,
            Level::L2 => self.loads_l2 += 1,
            Level::Llc => self.loads_llc += 1,
            Level::Peer => self.loads_peer += 1,
            Level::Dram => self.loads_dram += 1,
        }
    }

    /// Counts a branch.
    #[inline]
    pub(crate) fn branch(&mut self, op: &Op, prediction: Prediction) {
        self.branches += 1;
        self.conditional_branches += u64::from(op.class == OpClass::Branch);
        match prediction {
            Prediction::Right => {}
            Prediction::Misfetched => self.misfetches += 1,
            Prediction::WrongDirection => self.wrong_directions += 1,
            Prediction::WrongTarget => self.wrong_targets += 1,
            Prediction::WrongReturn => self.wrong_returns += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_stand_in_their_order() {
        for (index, cause) in Cause::ALL.iter().enumerate() {
            assert_eq!(*cause as usize, index);
        }
    }
}
