//! Core statistics. All counters only grow; a region of interest is a subtraction.

use doorbell_sim::memory::Level;
use doorbell_sim::op::{Op, OpClass};
use doorbell_sim::stats;

use crate::branch::Prediction;

/// Cause of an empty dispatch slot or of a cycle without a commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[repr(u8)]
pub enum Cause {
    /// No stall: an op was dispatched or committed.
    #[default]
    Base,
    /// A branch misprediction.
    Branch,
    /// A memory-order violation or a trap flushed the pipeline.
    Clear,
    /// A direct branch missed in the BTB.
    Misfetch,
    /// An instruction fetch missed in the first-level cache.
    Icache,
    /// An instruction address missed in the TLB.
    Itlb,
    /// The front end delivers less than the width, or refills.
    Fetch,
    /// Execution: dependences and latencies.
    Execute,
    /// A division that executes, or waits for a divider.
    Divider,
    /// A wait for another unit or an issue port, longer than the op's execution.
    Ports,
    /// A load served by the first-level cache or the store queue.
    L1,
    /// A load served by the private second-level cache.
    L2,
    /// A load served by the last-level cache.
    Llc,
    /// A load served by another core's cache.
    Peer,
    /// A load served by memory.
    Dram,
    /// A data address missed in the TLB.
    Dtlb,
    /// The store queue is full, or an atomic waits for it.
    Store,
    /// A serialising op.
    Serialise,
    /// An access to a device.
    Device,
    /// The core is idle (WFI).
    Idle,
    /// Untimed execution: these cycles and slots enter no statistic.
    Untimed,
}

impl Cause {
    /// Number of causes.
    pub const COUNT: usize = Cause::Untimed as usize + 1;

    /// All causes, in the order of their values.
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

    /// Whether the cause is in the front end.
    pub const fn is_front_end(self) -> bool {
        matches!(self, Cause::Misfetch | Cause::Icache | Cause::Itlb | Cause::Fetch)
    }
}

stats! {
    /// Event counters of a core, apart from its slot and cycle accounting.
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
        /// Indirect jumps and calls with a mispredicted target.
        wrong_targets,
        /// Returns with a mispredicted target.
        wrong_returns,
        /// Direct branches that missed in the BTB, redirected by the decoder.
        misfetches,
        /// Lines requested from the instruction cache.
        fetched_lines,
        /// Lines that missed in the first-level instruction cache.
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
        /// Software prefetches that the first-level cache dropped.
        prefetches_dropped,
        /// Stores.
        stores,
        /// Stores merged with an earlier one to the same line that was not yet written.
        stores_joined,
        /// Loads forwarded from the store queue.
        forwards,
        /// Loads that waited for an older store that covers only part of their bytes.
        forwards_blocked,
        /// Memory-order violations: the load and all younger ops were executed again.
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
        /// Cycles from TLB miss to translation, summed over walks.
        walk_cycles,
        /// Cycles that ops spent in the reorder buffer, summed over ops.
        rob_cycles,
        /// Cycles that ops spent in the issue queue, summed over ops.
        iq_cycles,
        /// Cycles that loads and prefetches spent in the load queue, summed over them.
        lq_cycles,
        /// Cycles that stores spent in the store queue, summed over stores.
        sq_cycles,
        /// Bookings of slots, units or page walkers before the range that their tables cover. They succeed as
        /// if nothing were booked there, possibly too early.
        late_bookings,
    }
}

stats! {
    /// Accounting of dispatch slots (top-down method) and of commit cycles (CPI stack).
    ///
    /// The `slots_` counters sum to the width × `slot_cycles`, the `cpi_` counters to `cycles`. Commit lags
    /// behind dispatch, so that the two cover periods that differ by the ops in flight.
    pub struct Books {
        /// Cycles up to the last op's commit.
        cycles,
        /// Cycles whose dispatch slots are accounted for.
        slot_cycles,
        /// Slots of ops that were committed.
        slots_retiring,
        /// Slots lost to mispredicted branches.
        slots_branch,
        /// Slots lost to memory-order violations and traps, including those of the squashed ops.
        slots_clear,
        /// Slots empty because of BTB misses of direct branches, in cycles without any op.
        slots_misfetch,
        /// Slots empty because of instruction-cache misses, in cycles without any op.
        slots_icache,
        /// Slots empty because of instruction-TLB misses, in cycles without any op.
        slots_itlb,
        /// Slots empty while the pipeline refills, in cycles without any op.
        slots_fetch,
        /// Slots empty because of the front end, in cycles with some ops.
        slots_fetch_bandwidth,
        /// Slots empty because of dependences and execution latencies.
        slots_execute,
        /// Slots empty because of divisions.
        slots_divider,
        /// Slots empty because units or issue ports were busy.
        slots_ports,
        /// Slots empty because of loads served by the first-level cache.
        slots_l1,
        /// Slots empty because of loads served by the second-level cache.
        slots_l2,
        /// Slots empty because of loads served by the last-level cache.
        slots_llc,
        /// Slots empty because of loads served by other cores' caches.
        slots_peer,
        /// Slots empty because of loads served by memory.
        slots_dram,
        /// Slots empty because of data-TLB misses.
        slots_dtlb,
        /// Slots empty because of stores.
        slots_store,
        /// Slots empty because of serialising ops.
        slots_serialise,
        /// Slots empty because of device accesses.
        slots_device,
        /// Slots empty because the core was waiting for an interrupt.
        slots_idle,
        /// Cycles in which ops were committed.
        cpi_base,
        /// Cycles lost to mispredicted branches.
        cpi_branch,
        /// Cycles lost to memory-order violations and traps.
        cpi_clear,
        /// Cycles lost to BTB misses of direct branches.
        cpi_misfetch,
        /// Cycles lost to instruction-cache misses.
        cpi_icache,
        /// Cycles lost to instruction-TLB misses.
        cpi_itlb,
        /// Cycles lost to the rest of the front end.
        cpi_fetch,
        /// Cycles lost to dependences and execution latencies.
        cpi_execute,
        /// Cycles lost to divisions.
        cpi_divider,
        /// Cycles lost to busy units or issue ports.
        cpi_ports,
        /// Cycles lost to loads served by the first-level cache.
        cpi_l1,
        /// Cycles lost to loads served by the second-level cache.
        cpi_l2,
        /// Cycles lost to loads served by the last-level cache.
        cpi_llc,
        /// Cycles lost to loads served by other cores' caches.
        cpi_peer,
        /// Cycles lost to loads served by memory.
        cpi_dram,
        /// Cycles lost to data-TLB misses.
        cpi_dtlb,
        /// Cycles lost to stores.
        cpi_store,
        /// Cycles lost to serialising ops.
        cpi_serialise,
        /// Cycles lost to device accesses.
        cpi_device,
        /// Cycles spent waiting for an interrupt.
        cpi_idle,
    }
}

/// All statistics of a core.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CoreStats {
    /// Event counters.
    pub counts: Counts,
    /// Slot and cycle accounting.
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

/// The top-down method's first two levels, in slots (FACTS: Yasin 2014), without idle slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct TopDown {
    /// Slots of committed ops.
    pub retiring: u64,
    /// Bad speculation: mispredicted branches.
    pub mispredicts: u64,
    /// Bad speculation: memory-order violations and traps.
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
    /// Stall cause of an op that executes without memory: it waited `waited` cycles for its unit and executes
    /// for `takes`.
    #[inline]
    pub(crate) const fn of_unit(class: OpClass, waited: u64, takes: u64) -> Cause {
        match class {
            OpClass::IntDiv | OpClass::FloatDiv => Cause::Divider,
            _ if waited > takes => Cause::Ports,
            _ => Cause::Execute,
        }
    }

    /// Stall cause of a load served at this level.
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
    fn all_lists_causes_in_value_order() {
        for (index, cause) in Cause::ALL.iter().enumerate() {
            assert_eq!(*cause as usize, index);
        }
    }
}
