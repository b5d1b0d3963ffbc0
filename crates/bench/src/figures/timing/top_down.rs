//! Dispatch slots and commit cycles by cause: top-down analysis (Yasin 2014) in three levels, and the CPI
//! stack.

use super::figures::{GroupBuilder, ratio};
use super::span::View;

pub(super) fn top_down(w: &View) -> GroupBuilder {
    let mut g = GroupBuilder::new("top-down");
    let slots = w.top_down();
    let all = slots.total() as f64;
    let meanings = [
        ("retiring", "share of dispatch slots of ops that were committed"),
        ("bad_speculation", "share lost to mispredicted branches, memory-order violations and traps"),
        ("frontend_bound", "share empty because the front end delivered no op"),
        ("backend_bound", "share empty because ROB, issue queue, load or store queue or registers were full"),
    ];
    for ((name, meaning), count) in meanings.into_iter().zip(slots.level1()) {
        g.put(name, ratio(count as f64, all), meaning);
    }
    g
}

pub(super) fn top_down_2(w: &View) -> GroupBuilder {
    let mut g = GroupBuilder::new("top-down, level 2");
    let slots = w.top_down();
    let all = slots.total() as f64;
    for (name, count, meaning) in [
        ("retiring", slots.retiring, "share of dispatch slots of ops that were committed"),
        ("branch_mispredicts", slots.mispredicts, "bad speculation: mispredicted branches"),
        ("machine_clears", slots.clears, "bad speculation: memory-order violations and traps"),
        ("fetch_latency", slots.fetch_latency, "frontend bound: cycles without any op"),
        (
            "fetch_bandwidth",
            slots.fetch_bandwidth,
            "frontend bound: cycles with some ops, but fewer than the width",
        ),
        ("memory_bound", slots.memory, "backend bound: loads, stores, translations, devices"),
        ("core_bound", slots.core, "backend bound: execution, dependences, serialising instructions"),
    ] {
        g.put(name, ratio(count as f64, all), meaning);
    }
    g
}

pub(super) fn top_down_3(w: &View) -> GroupBuilder {
    let mut g = GroupBuilder::new("top-down, level 3");
    let all = w.top_down().total() as f64;
    let parents = ["fetch latency", "memory bound", "core bound"];
    for (parent, parts) in parents.into_iter().zip(w.top_down_3()) {
        for (name, count) in parts {
            let meaning = TOP_DOWN_3.iter().find(|(part, _)| *part == name).map_or("", |(_, what)| *what);
            g.put(name, ratio(count as f64, all), format!("{parent}: {meaning}"));
        }
    }
    g
}

/// Components of the third level of the top-down method, and the causes of their empty dispatch slots.
const TOP_DOWN_3: [(&str, &str); 16] = [
    ("icache", "the instruction cache"),
    ("itlb", "translations of instructions' addresses"),
    ("misfetches", "direct branches that missed in the BTB"),
    ("refill", "other front-end causes, such as refills"),
    ("l1_bound", "loads served by L1 or the store queue"),
    ("l2_bound", "loads served by L2"),
    ("llc_bound", "loads served by the LLC"),
    ("peer_bound", "loads served by another core's cache"),
    ("dram_bound", "loads served by memory"),
    ("store_bound", "a full store queue, and atomics that wait for it"),
    ("dtlb", "translations of data addresses"),
    ("device_bound", "accesses to device registers"),
    ("divider", "divisions, and ops that wait for a divider"),
    ("ports", "busy units and issue ports"),
    ("latency", "chains of dependent ops"),
    ("serialising", "serialising instructions"),
];

/// Components of the CPI stack: counter, and cause of the cycles.
const CPI: [(&str, &str); 20] = [
    ("base", "commit"),
    ("branch", "mispredicted branches"),
    ("clear", "memory-order violations and traps"),
    ("misfetch", "direct branches that missed in the BTB"),
    ("icache", "the instruction cache"),
    ("itlb", "the instruction TLB"),
    ("fetch", "the rest of the front end"),
    ("execute", "dependences and latencies of execution"),
    ("divider", "divisions"),
    ("ports", "busy units and issue ports"),
    ("l1", "loads served by L1 or the store queue"),
    ("l2", "loads served by L2"),
    ("llc", "loads served by the LLC"),
    ("peer", "loads served by another core's cache"),
    ("dram", "loads served by memory"),
    ("dtlb", "data translations"),
    ("store", "stores"),
    ("serialise", "serialising instructions"),
    ("device", "accesses to device registers"),
    ("idle", "sleep (WFI)"),
];

pub(super) fn cpi_stack(w: &View) -> GroupBuilder {
    let mut g = GroupBuilder::new("CPI stack");
    for (name, what) in CPI {
        let cycles = w.n(&format!("core.cpi_{name}"));
        g.put(name, ratio(cycles, w.instructions as f64), format!("cycles per instruction spent on {what}"));
    }
    g
}
