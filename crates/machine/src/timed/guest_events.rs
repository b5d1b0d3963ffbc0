//! Events for the guest's performance counters: counts of a hart's timing models, selected by the codes in
//! its `mhpmevent` registers (docs/guest-pmu.md).
//!
//! Codes below 0x100 and from 0x10000 on are event indexes of the SBI specification (2.0, chapter 11); the
//! others are specific to Doorbell. Events are counted in detailed mode only ([`Mode`](super::Mode)).

use doorbell_core::{CoreStats, TopDown};
use doorbell_memory::stats::{CacheStats, HartStats};
use doorbell_riscv::EventCount;
use doorbell_sim::CoreCycle;

use super::{Mode, Timing};
use crate::machine::Machine;

/// Counters from which events are computed.
struct Counted {
    core: CoreStats,
    top_down: TopDown,
    memory: HartStats,
    llc: CacheStats,
}

/// An event that guest counters can count.
pub struct GuestEvent {
    /// Value in `mhpmevent`.
    pub code: u64,
    /// `perf`'s name, or a name for a raw event.
    pub name: &'static str,
    /// Description.
    pub meaning: &'static str,
    count: fn(&Counted) -> u64,
}

macro_rules! events {
    ($($code:literal $name:literal $meaning:literal = |$counted:ident| $count:expr;)*) => {
        /// All events, in ascending order of their codes.
        pub const GUEST_EVENTS: &[GuestEvent] = &[$(GuestEvent {
            code: $code,
            name: $name,
            meaning: $meaning,
            count: |$counted| $count,
        },)*];
    };
}

events! {
    0x3 "cache-references" "last-level accesses of the hart, without prefetches" = |c| c.demand(false) + c.demand(true);
    0x4 "cache-misses" "of these, misses" = |c| c.demand(false);
    0x5 "branches" "branches of all kinds" = |c| c.core.counts.branches;
    0x6 "branch-misses" "branches with a mispredicted direction or target" = |c| c.mispredicted();
    0x8 "stalled-cycles-frontend" "cycles without a commit because of the front end" = |c| c.front_end_cycles();
    0x9 "stalled-cycles-backend" "cycles without a commit because of execution, memory or a device" = |c| c.back_end_cycles();
    0x100 "slots" "dispatch slots, without idle time (WFI)" = |c| c.top_down.total();
    0x101 "retiring" "slots of committed ops" = |c| c.top_down.retiring;
    0x102 "bad_speculation" "slots lost to mispredictions and machine clears" = |c| c.top_down.level1()[1];
    0x103 "frontend_bound" "slots empty because of the front end" = |c| c.top_down.level1()[2];
    0x104 "backend_bound" "slots empty because of the back end" = |c| c.top_down.level1()[3];
    0x105 "branch_mispredicts" "of bad_speculation: mispredictions" = |c| c.top_down.mispredicts;
    0x106 "machine_clears" "of bad_speculation: memory-order violations and traps" = |c| c.top_down.clears;
    0x107 "fetch_latency" "of frontend_bound: cycles without any op" = |c| c.top_down.fetch_latency;
    0x108 "fetch_bandwidth" "of frontend_bound: cycles with some ops" = |c| c.top_down.fetch_bandwidth;
    0x109 "memory_bound" "of backend_bound: loads, stores, translations, devices" = |c| c.top_down.memory;
    0x10a "core_bound" "of backend_bound: execution" = |c| c.top_down.core;
    0x110 "icache" "of fetch_latency: instruction cache" = |c| c.core.books.slots_icache;
    0x111 "itlb" "of fetch_latency: instruction TLB" = |c| c.core.books.slots_itlb;
    0x112 "misfetches" "of fetch_latency: branches missing in the BTB" = |c| c.core.books.slots_misfetch;
    0x113 "refill" "of fetch_latency: pipeline refill" = |c| c.core.books.slots_fetch;
    0x120 "l1_bound" "of memory_bound: loads from the first level" = |c| c.core.books.slots_l1;
    0x121 "l2_bound" "of memory_bound: loads from the second level" = |c| c.core.books.slots_l2;
    0x122 "llc_bound" "of memory_bound: loads from the last level" = |c| c.core.books.slots_llc;
    0x123 "peer_bound" "of memory_bound: loads from other cores' caches" = |c| c.core.books.slots_peer;
    0x124 "dram_bound" "of memory_bound: loads from memory" = |c| c.core.books.slots_dram;
    0x125 "store_bound" "of memory_bound: stores" = |c| c.core.books.slots_store;
    0x126 "dtlb" "of memory_bound: data translations" = |c| c.core.books.slots_dtlb;
    0x127 "device_bound" "of memory_bound: accesses to devices" = |c| c.core.books.slots_device;
    0x130 "divider" "of core_bound: divisions" = |c| c.core.books.slots_divider;
    0x131 "ports" "of core_bound: unit or issue port busy" = |c| c.core.books.slots_ports;
    0x132 "latency" "of core_bound: chains of dependent ops" = |c| c.core.books.slots_execute;
    0x133 "serialising" "of core_bound: serialising ops" = |c| c.core.books.slots_serialise;
    0x200 "loads" "loads" = |c| c.core.counts.loads;
    0x201 "loads_l1" "loads served by the first level" = |c| c.core.counts.loads_l1;
    0x202 "loads_l2" "loads served by the second level" = |c| c.core.counts.loads_l2;
    0x203 "loads_llc" "loads served by the last level" = |c| c.core.counts.loads_llc;
    0x204 "loads_peer" "loads served by another core's cache" = |c| c.core.counts.loads_peer;
    0x205 "loads_dram" "loads served by memory" = |c| c.core.counts.loads_dram;
    0x206 "forwards" "loads forwarded from the store queue" = |c| c.core.counts.forwards;
    0x207 "load_cycles" "cycles from cache access to data, summed over loads" = |c| c.core.counts.load_cycles;
    0x208 "stores" "stores" = |c| c.core.counts.stores;
    0x209 "atomics" "atomics" = |c| c.core.counts.atomics;
    0x20a "fences" "fences" = |c| c.core.counts.fences;
    0x20b "device_accesses" "accesses to devices" = |c| c.core.counts.device_accesses;
    0x20c "traps" "interrupts and exceptions" = |c| c.core.counts.traps;
    0x20d "replays" "memory-order violations" = |c| c.core.counts.replays;
    0x20e "ops" "ops committed" = |c| c.core.counts.ops;
    0x20f "wait_cycles" "idle cycles (WFI)" = |c| c.core.books.cpi_idle;
    0x210 "conditional_branches" "conditional branches" = |c| c.core.counts.conditional_branches;
    0x211 "wrong_directions" "conditional branches with a mispredicted direction" = |c| c.core.counts.wrong_directions;
    0x212 "wrong_targets" "indirect jumps and calls with a mispredicted target" = |c| c.core.counts.wrong_targets;
    0x213 "wrong_returns" "returns with a mispredicted target" = |c| c.core.counts.wrong_returns;
    0x220 "walks" "page-table walks" = |c| c.core.counts.walks;
    0x221 "walk_accesses" "page-table entries read" = |c| c.core.counts.walk_accesses;
    0x222 "walk_cycles" "cycles of page-table walks, summed over walks" = |c| c.core.counts.walk_cycles;
    0x300 "l2_accesses" "second-level accesses, without prefetches" = |c| c.memory.l2.accesses;
    0x301 "l2_misses" "of these, misses" = |c| c.memory.l2.misses;
    0x302 "l2_prefetches" "prefetches issued by the second level's prefetcher" = |c| c.memory.l2.prefetches;
    0x303 "l1d_misses" "misses of the first-level data cache" = |c| c.memory.l1d.misses;
    0x304 "l1d_write_backs" "dirty lines written back by the first level" = |c| c.memory.l1d.write_backs;
    0x305 "l2_write_backs" "dirty lines written back by the second level" = |c| c.memory.l2.write_backs;
    0x310 "crd_hits" "CRd: instruction line requests that hit the last level" = |c| c.memory.core.crd_hits;
    0x311 "crd_misses" "CRd: instruction line requests that missed the last level" = |c| c.memory.core.crd_misses;
    0x312 "drd_hits" "DRd: line requests of loads and page walks that hit the last level" = |c| c.memory.core.drd_hits;
    0x313 "drd_misses" "DRd: line requests of loads and page walks that missed the last level" = |c| c.memory.core.drd_misses;
    0x314 "rfo_hits" "RFO: line requests of stores that hit the last level" = |c| c.memory.core.rfo_hits;
    0x315 "rfo_misses" "RFO: line requests of stores that missed the last level" = |c| c.memory.core.rfo_misses;
    0x316 "prefetch_hits" "line requests of prefetches that hit the last level" = |c| c.memory.core.prefetch_hits;
    0x317 "prefetch_misses" "line requests of prefetches that missed the last level" = |c| c.memory.core.prefetch_misses;
    0x320 "llc_accesses" "last-level accesses of all harts" = |c| c.llc.accesses;
    0x321 "llc_misses" "last-level misses of all harts" = |c| c.llc.misses;
    0x10000 "L1-dcache-loads" "loads" = |c| c.core.counts.loads;
    0x10001 "L1-dcache-load-misses" "loads not served by the first level" = |c| c.load_misses();
    0x10002 "L1-dcache-stores" "stores" = |c| c.core.counts.stores;
    0x10008 "L1-icache-loads" "instruction lines fetched" = |c| c.memory.l1i.accesses;
    0x10009 "L1-icache-load-misses" "of these, misses of the first level" = |c| c.memory.l1i.misses;
    0x10010 "LLC-loads" "CRd and DRd" = |c| c.reads(true) + c.reads(false);
    0x10011 "LLC-load-misses" "of these, misses" = |c| c.reads(false);
    0x10012 "LLC-stores" "RFO" = |c| c.memory.core.rfo_hits + c.memory.core.rfo_misses;
    0x10013 "LLC-store-misses" "of these, misses" = |c| c.memory.core.rfo_misses;
    0x10014 "LLC-prefetches" "line requests of prefetches to the last level" = |c| c.memory.core.prefetch_hits + c.memory.core.prefetch_misses;
    0x10015 "LLC-prefetch-misses" "of these, misses" = |c| c.memory.core.prefetch_misses;
    0x10018 "dTLB-loads" "loads, stores and atomics" = |c| c.data_accesses();
    0x10019 "dTLB-load-misses" "misses of the data TLB" = |c| c.core.counts.dtlb_misses;
    0x10021 "iTLB-load-misses" "misses of the instruction TLB" = |c| c.core.counts.itlb_misses;
    0x10028 "branch-loads" "branches of all kinds" = |c| c.core.counts.branches;
    0x10029 "branch-load-misses" "mispredicted branches" = |c| c.mispredicted();
}

impl Counted {
    /// Read requests (CRd and DRd) to the last level that hit or missed.
    fn reads(&self, hit: bool) -> u64 {
        let core = &self.memory.core;
        if hit { core.crd_hits + core.drd_hits } else { core.crd_misses + core.drd_misses }
    }

    fn demand(&self, hit: bool) -> u64 {
        let core = &self.memory.core;
        self.reads(hit) + if hit { core.rfo_hits } else { core.rfo_misses }
    }

    fn mispredicted(&self) -> u64 {
        let counts = &self.core.counts;
        counts.wrong_directions + counts.wrong_targets + counts.wrong_returns
    }

    fn load_misses(&self) -> u64 {
        let counts = &self.core.counts;
        counts.loads_l2 + counts.loads_llc + counts.loads_peer + counts.loads_dram
    }

    fn data_accesses(&self) -> u64 {
        let counts = &self.core.counts;
        counts.loads + counts.stores + counts.atomics
    }

    fn front_end_cycles(&self) -> u64 {
        let books = &self.core.books;
        books.cpi_misfetch + books.cpi_icache + books.cpi_itlb + books.cpi_fetch
    }

    fn back_end_cycles(&self) -> u64 {
        let books = &self.core.books;
        let others = books.cpi_base + books.cpi_branch + books.cpi_clear + books.cpi_idle;
        books.cpi_total() - others - self.front_end_cycles()
    }
}

impl Timing {
    /// Returns the count of each event of a hart.
    fn guest_events(&self, hart: usize, asleep: &[bool]) -> Vec<EventCount> {
        let (core, mut memory) = (self.core_stats(hart, asleep, CoreCycle::ZERO), self.memory.stats());
        let top_down = core.books.top_down();
        let private = memory.harts.swap_remove(self.core_of(hart));
        let counted = Counted { core, top_down, memory: private, llc: memory.llc };
        GUEST_EVENTS.iter().map(|event| (event.code, (event.count)(&counted))).collect()
    }
}

impl Machine {
    /// Like [`Timing::guest_events`]; empty without timing models.
    pub(crate) fn guest_events(&self, hart: usize) -> Vec<EventCount> {
        let asleep = vec![false; self.harts.len()];
        self.timing.as_ref().map_or_else(Vec::new, |timing| timing.guest_events(hart, &asleep))
    }

    /// Passes the event counts to a hart. Outside detailed mode its counters do not advance.
    pub(crate) fn update_guest_events(&mut self, hart: usize) {
        let events = self.guest_events(hart);
        if self.mode() != Mode::Detailed {
            self.harts[hart].follow_events(&events);
        }
        self.harts[hart].update_events(&events);
    }

    /// Sets the supported events and their present counts in all harts.
    pub(crate) fn follow_guest_events(&mut self) {
        for index in 0..self.harts.len() {
            let events = self.guest_events(index);
            self.harts[index].follow_events(&events);
        }
    }
}

#[cfg(test)]
mod tests {
    use doorbell_platform::device_tree::{EVENT_RANGES, RAW_EVENTS};

    use super::*;

    /// Events below 0x100 and from 0x10000 on are SBI events, the others raw events.
    #[test]
    fn device_tree_lists_exactly_these_events() {
        assert!(GUEST_EVENTS.is_sorted_by(|a, b| a.code < b.code));
        let is_raw = |code: u64| (0x100..RAW_EVENTS).contains(&code);
        let ours = GUEST_EVENTS.iter().map(|event| event.code).filter(|code| !is_raw(*code));
        // Cycles and instructions have fixed counters.
        let listed = EVENT_RANGES.iter().filter(|[_, _, counters]| counters.count_ones() > 1);
        let listed = listed.flat_map(|[first, last, _]| u64::from(*first)..=u64::from(*last));
        assert!(ours.eq(listed));
    }

    /// `docs/guest-pmu.md` has one row per event.
    #[test]
    fn event_descriptions_match_the_documentation() {
        let page = include_str!("../../../../docs/guest-pmu.md");
        let rows = GUEST_EVENTS
            .iter()
            .map(|event| format!("| `{:#x}` | `{}` | {} |", event.code, event.name, event.meaning));
        let rows: Vec<String> = rows.collect();
        let documented: Vec<&str> = page.lines().filter(|line| line.starts_with("| `0x")).collect();
        assert!(documented == rows, "the rows are:\n{}", rows.join("\n"));
    }
}
