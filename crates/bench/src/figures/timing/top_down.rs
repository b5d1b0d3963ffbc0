//! Dispatch slots and commit cycles by cause: top-down analysis (Yasin 2014) in three levels, and the CPI
//! stack.

use doorbell_machine::Books;
use doorbell_results::TimingFigures;
use doorbell_results::figures::{CPI_STACK, TOP_DOWN, TOP_DOWN_2, TOP_DOWN_3};

use crate::ratio::ratio;

/// The three levels of the top-down method, as shares of the dispatch slots.
pub(super) fn top_down(books: &Books, g: &mut TimingFigures) {
    let slots = books.top_down();
    let share = |count: u64| ratio(count, slots.total());
    for (key, count) in TOP_DOWN.keys().into_iter().zip(slots.level1()) {
        g.put(key, share(count));
    }
    g.put(TOP_DOWN_2.retiring, share(slots.retiring));
    g.put(TOP_DOWN_2.branch_mispredicts, share(slots.mispredicts));
    g.put(TOP_DOWN_2.machine_clears, share(slots.clears));
    g.put(TOP_DOWN_2.fetch_latency, share(slots.fetch_latency));
    g.put(TOP_DOWN_2.fetch_bandwidth, share(slots.fetch_bandwidth));
    g.put(TOP_DOWN_2.memory_bound, share(slots.memory));
    g.put(TOP_DOWN_2.core_bound, share(slots.core));
    g.put(TOP_DOWN_3.icache, share(books.slots_icache));
    g.put(TOP_DOWN_3.itlb, share(books.slots_itlb));
    g.put(TOP_DOWN_3.misfetches, share(books.slots_misfetch));
    g.put(TOP_DOWN_3.refill, share(books.slots_fetch));
    g.put(TOP_DOWN_3.l1_bound, share(books.slots_l1));
    g.put(TOP_DOWN_3.l2_bound, share(books.slots_l2));
    g.put(TOP_DOWN_3.llc_bound, share(books.slots_llc));
    g.put(TOP_DOWN_3.peer_bound, share(books.slots_peer));
    g.put(TOP_DOWN_3.dram_bound, share(books.slots_dram));
    g.put(TOP_DOWN_3.store_bound, share(books.slots_store));
    g.put(TOP_DOWN_3.dtlb, share(books.slots_dtlb));
    g.put(TOP_DOWN_3.device_bound, share(books.slots_device));
    g.put(TOP_DOWN_3.divider, share(books.slots_divider));
    g.put(TOP_DOWN_3.ports, share(books.slots_ports));
    g.put(TOP_DOWN_3.latency, share(books.slots_execute));
    g.put(TOP_DOWN_3.serialising, share(books.slots_serialise));
}

/// Cycles per instruction by cause.
pub(super) fn cpi_stack(books: &Books, instructions: u64, g: &mut TimingFigures) {
    let keys = CPI_STACK;
    for (key, cycles) in [
        (keys.base, books.cpi_base),
        (keys.branch, books.cpi_branch),
        (keys.clear, books.cpi_clear),
        (keys.misfetch, books.cpi_misfetch),
        (keys.icache, books.cpi_icache),
        (keys.itlb, books.cpi_itlb),
        (keys.fetch, books.cpi_fetch),
        (keys.execute, books.cpi_execute),
        (keys.divider, books.cpi_divider),
        (keys.ports, books.cpi_ports),
        (keys.l1, books.cpi_l1),
        (keys.l2, books.cpi_l2),
        (keys.llc, books.cpi_llc),
        (keys.peer, books.cpi_peer),
        (keys.dram, books.cpi_dram),
        (keys.dtlb, books.cpi_dtlb),
        (keys.store, books.cpi_store),
        (keys.serialise, books.cpi_serialise),
        (keys.device, books.cpi_device),
        (keys.idle, books.cpi_idle),
    ] {
        g.put(key, ratio(cycles, instructions));
    }
}

#[cfg(test)]
mod tests {
    use doorbell_sim::stats::Stats;

    use super::*;

    /// Books whose counters are all different powers of two, or zero.
    fn books(prefix: &str) -> Books {
        let names = Books::default().counters().into_iter().map(|counter| counter.name);
        let value = |(at, name): (usize, &str)| (name.to_owned(), u64::from(name.starts_with(prefix)) << at);
        serde_json::from_value(names.enumerate().map(value).collect()).unwrap()
    }

    #[test]
    fn the_parts_of_a_level_sum_to_their_parent() {
        let (books, mut g) = (books("slots_"), TimingFigures::default());
        top_down(&books, &mut g);
        let sum =
            |keys: &[doorbell_results::FigureKey]| keys.iter().map(|key| g.get(*key).unwrap()).sum::<f64>();
        let level3 = TOP_DOWN_3.keys();
        for (parts, parent) in [
            (&level3[..4], TOP_DOWN_2.fetch_latency),
            (&level3[4..12], TOP_DOWN_2.memory_bound),
            (&level3[12..], TOP_DOWN_2.core_bound),
            (&TOP_DOWN_2.keys()[5..], TOP_DOWN.backend_bound),
        ] {
            assert!((sum(parts) - g.get(parent).unwrap()).abs() < 1e-12, "{parent:?}");
        }
        assert!((sum(&TOP_DOWN_2.keys()) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_cpi_stack_has_all_cycles() {
        let (books, mut g) = (books("cpi_"), TimingFigures::default());
        cpi_stack(&books, 1, &mut g);
        let sum: f64 = CPI_STACK.keys().iter().map(|key| g.get(*key).unwrap()).sum();
        assert_eq!(sum, books.cpi_total() as f64);
    }
}
