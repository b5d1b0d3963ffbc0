//! Definitions of the timing figures, as ratios of counters. The uncore events are those of the FD.io paper.

use std::fmt::Display;

use doorbell_machine::{CoreKind, Machine};

use super::buses::buses;
use super::coherence::{directory, shared_lines};
use super::fabric::fabric;
use super::models::Models;
use super::packet_cost::per_packet;
use super::pcie::pcie;
use super::span::{Span, View};
use super::spread::{core_balance, neighbours, own_packets};
use super::top_down::{cpi_stack, top_down, top_down_2, top_down_3};
use doorbell_results::{CoreFigures, TimingFigure, TimingFigures, TimingGroup};

/// Classes of cache lines by their data, in the memory system's order: name in counters, and description.
pub(super) const CLASSES: [(&str, &str); 6] = [
    ("other", "other data"),
    ("code", "code"),
    ("header", "packet headers"),
    ("payload", "packet payload"),
    ("rx_descriptor", "receive descriptors"),
    ("tx_descriptor", "transmit descriptors"),
];

/// Returns `amount / by`, or `None` unless `by` is positive.
pub(super) fn ratio(amount: f64, by: f64) -> Option<f64> {
    (by > 0.0).then(|| amount / by)
}

/// A group under construction.
pub(super) struct GroupBuilder(TimingGroup);

impl GroupBuilder {
    #[cfg(test)]
    pub(super) fn done(self) -> TimingGroup {
        self.0
    }

    pub(super) fn new(name: impl Display) -> GroupBuilder {
        GroupBuilder(TimingGroup { name: name.to_string(), figures: Vec::new() })
    }

    pub(super) fn put(&mut self, name: impl Display, value: Option<f64>, meaning: impl Display) {
        let (name, meaning) = (name.to_string(), meaning.to_string());
        self.0.figures.push(TimingFigure { name, meaning, value });
    }

    /// Clears figures per packet unless `is_own`: the counts include those of co-runners, so they do not
    /// belong to the measured packets.
    fn per_packet_only_if(mut self, is_own: bool) -> GroupBuilder {
        for figure in &mut self.0.figures {
            figure.value = figure.value.filter(|_| is_own || !figure.name.ends_with("_per_packet"));
        }
        self
    }
}

/// All figures of a machine for a span.
pub(crate) fn figures(span: &Span, machine: &Machine) -> TimingFigures {
    figures_of(span, &Models::of(machine).expect("a timed machine has timing models"))
}

/// All figures of timing models for a span.
pub(crate) fn figures_of(span: &Span, models: &Models) -> TimingFigures {
    let w = &View::of_all(span);
    let mut groups = vec![per_packet(w), top_down(w), top_down_2(w), top_down_3(w), cpi_stack(w), core(w)];
    groups.extend(
        [("L1I", "l1i"), ("L1D", "l1d"), ("L2", "l2"), ("LLC", "llc")].map(|(name, key)| cache(w, name, key)),
    );
    // With co-runners, counts of shared memory cannot be attributed to packets; nor can device counts if
    // co-runners have devices.
    let (no_corunners, own_devices_only) = (!w.has_neighbours(), !models.neighbours_have_devices);
    groups.extend([access_times(w), occupancy(w, models)]);
    groups.extend([dram(w).per_packet_only_if(no_corunners), pcie(w).per_packet_only_if(own_devices_only)]);
    if models.attached.iter().any(|(_, attachment)| attachment.bus().is_some()) {
        groups.push(buses(w, models));
    }
    groups.extend([uncore(w, own_devices_only), dca(w).per_packet_only_if(own_devices_only)]);
    groups.extend(shared_lines(w));
    let shared = [directory(w), fabric(w)].into_iter().flatten();
    groups.extend(shared.map(|group| group.per_packet_only_if(no_corunners)));
    groups.extend(core_balance(span));
    groups.extend(neighbours(span));
    TimingFigures(groups.into_iter().map(|group| group.0).collect())
}

/// Figures of each core: the groups for a core's private resources.
pub(crate) fn cores(span: &Span) -> Vec<CoreFigures> {
    let threads = span.config.platform.threads as usize;
    let figures = |hart: usize, thread: Option<usize>, groups: Vec<GroupBuilder>| {
        let parts = span.config.hart(hart);
        CoreFigures {
            hart,
            core: (threads > 1).then_some(hart / threads),
            thread: thread.filter(|_| threads > 1),
            kind: match parts.pipeline.kind {
                CoreKind::OutOfOrder => "out-of-order",
                CoreKind::InOrder => "in-order",
            }
            .to_owned(),
            frequency_ghz: parts.core.frequency.0 as f64 * 1e-9,
            figures: TimingFigures(groups.into_iter().map(|group| group.0).collect()),
        }
    };
    let of_hart = |hart: usize| {
        let w = &View::of_hart(span, hart);
        let mut groups =
            vec![pace(w), per_packet(w), top_down(w), top_down_2(w), top_down_3(w), cpi_stack(w), core(w)];
        if threads == 1 {
            groups.extend(caches(w));
        }
        groups.extend(own_packets(w));
        figures(hart, Some(hart % threads), groups)
    };
    let of_core = |index: usize| {
        let w = &View::of_core(span, index);
        let mut groups = vec![pace_of_core(w), top_down(w), top_down_2(w), top_down_3(w), core(w)];
        groups.extend(caches(w));
        figures(index * threads, None, groups)
    };
    let harts = span.end.books.len();
    // Threads share their core's slots and caches, whose figures are given per core.
    let smt_cores = if threads > 1 { harts / threads } else { 0 };
    (0..harts).map(of_hart).chain((0..smt_cores).map(of_core)).collect()
}

/// Figures of the private caches, and of lines shared with other cores.
fn caches(w: &View) -> Vec<GroupBuilder> {
    let all = [cache(w, "L1I", "l1i"), cache(w, "L1D", "l1d"), cache(w, "L2", "l2"), access_times(w)];
    all.into_iter().chain(shared_lines(w)).collect()
}

/// The pace of a core with several threads.
fn pace_of_core(w: &View) -> GroupBuilder {
    let mut g = GroupBuilder::new("pace");
    let (cycles, instructions) = (w.cycles(), w.instructions as f64);
    g.put("cycles", Some(cycles), "core cycles, asleep or not");
    g.put("instructions", Some(instructions), "instructions retired by all threads");
    g.put("ipc", ratio(instructions, cycles), "instructions of all threads per core cycle");
    g
}

fn pace(w: &View) -> GroupBuilder {
    let mut g = GroupBuilder::new("pace");
    let (cycles, instructions) = (w.cycles(), w.instructions as f64);
    let asleep = w.n("core.cpi_idle");
    g.put("cycles", Some(cycles), "core cycles, asleep or not");
    g.put("instructions", Some(instructions), "instructions retired");
    g.put("ipc", ratio(instructions, cycles - asleep), "instructions per cycle, without sleep (WFI)");
    g.put("asleep_share", ratio(asleep, cycles), "share of cycles asleep");
    g
}

fn core(w: &View) -> GroupBuilder {
    let mut g = GroupBuilder::new("core");
    let kilo = w.n("core.instructions") / 1e3;
    let wrong = w.sum(&["core.wrong_directions", "core.wrong_targets", "core.wrong_returns"]);
    g.put("branch_mpki", ratio(wrong, kilo), "mispredicted branches per thousand instructions");
    g.put("branch_miss_rate", ratio(wrong, w.n("core.branches")), "mispredicted share of branches");
    g.put(
        "replays_pki",
        ratio(w.n("core.replays"), kilo),
        "memory-order violations per thousand instructions",
    );
    g.put(
        "forwarded_loads",
        ratio(w.n("core.forwards"), w.n("core.loads")),
        "share of loads served by the store queue",
    );
    g.put(
        "itlb_mpki",
        ratio(w.n("core.itlb_misses"), kilo),
        "instruction TLB misses per thousand instructions",
    );
    g.put("dtlb_mpki", ratio(w.n("core.dtlb_misses"), kilo), "data TLB misses per thousand instructions");
    g.put("walk_cycles", ratio(w.n("core.walk_cycles"), w.n("core.walks")), "cycles per page walk");
    g
}

fn cache(w: &View, name: &str, key: &str) -> GroupBuilder {
    let mut g = GroupBuilder::new(name);
    let n = |counter: &str| w.n(&format!("{key}.{counter}"));
    // The LLC's own counters include co-runners, so figures from them are left out.
    let is_mixed = key == "llc" && w.has_neighbours();
    let own = |value: Option<f64>| value.filter(|_| !is_mixed);
    let (mut misses, kilo, frames) = (n("misses"), w.instructions as f64 / 1e3, w.frames as f64);
    if is_mixed {
        // Misses of co-runners must not count. Requests that miss in the LLC are counted per core; unlike the
        // LLC's own counter, these include some lines in flight and requests for the right to write.
        misses = w.sum(&["hart.crd_misses", "hart.drd_misses", "hart.rfo_misses"]);
    }
    g.put("mpki", ratio(misses, kilo), "misses of core accesses per thousand instructions");
    g.put("misses_per_packet", ratio(misses, frames), "misses of core accesses per delivered packet");
    for (class, what) in CLASSES {
        let of = own(ratio(n(&format!("misses_{class}")), frames));
        g.put(format!("{class}_misses_per_packet"), of, format!("misses of {what} per delivered packet"));
    }
    let accesses = n("accesses");
    g.put("hit_rate", own(ratio(n("hits"), accesses)), "share of accesses that hit");
    let merged = own(ratio(n("merges"), accesses));
    g.put("merge_rate", merged, "share of accesses whose line was in flight");
    g.put(
        "write_backs_per_packet",
        own(ratio(n("write_backs"), frames)),
        "dirty lines written back to the level below, per delivered packet",
    );
    let software = n("software_prefetches");
    let fetched =
        n("prefetches") + software - n("software_prefetches_there") - n("software_prefetches_dropped");
    if fetched > 0.0 {
        g.put("prefetches_pki", ratio(fetched, kilo), "prefetched lines per thousand instructions");
        let (used, left) = (n("prefetches_useful"), n("prefetches_useless"));
        let accuracy = ratio(used, used + left);
        g.put(
            "prefetch_accuracy",
            accuracy,
            "used share of the prefetched lines that were used or left the cache unused",
        );
    }
    if software > 0.0 {
        let (each, lost) = (ratio(software, frames), ratio(n("software_prefetches_dropped"), software));
        g.put("software_prefetches_per_packet", each, "prefetch instructions per delivered packet");
        g.put(
            "software_prefetches_dropped",
            lost,
            "share of these dropped because no miss register was free",
        );
    }
    g
}

fn access_times(w: &View) -> GroupBuilder {
    let mut g = GroupBuilder::new("access time");
    g.put(
        "load_cycles",
        ratio(w.n("core.load_cycles"), w.n("core.loads") - w.n("core.forwards")),
        "mean core cycles from a load's cache access to its data",
    );
    g.put(
        "network_load_cycles",
        ratio(w.n("hart.network_load_cycles"), w.n("hart.network_loads")),
        "the same for loads of network data: lines that a device wrote and no core has overwritten, lines that a device read, and descriptors",
    );
    g.put(
        "access_cycles",
        ratio(
            w.sum(&["hart.data_access_cycles", "hart.fetch_cycles"]),
            w.sum(&["hart.data_accesses", "hart.fetches"]),
        ),
        "AMAT: mean core cycles from request to data of all cache accesses (fetches, loads, stores and page walks)",
    );
    g.put(
        "data_access_cycles",
        ratio(w.n("hart.data_access_cycles"), w.n("hart.data_accesses")),
        "the same without fetches",
    );
    g.put(
        "network_loads",
        ratio(w.n("hart.network_loads"), w.n("core.loads") - w.n("core.forwards")),
        "share of loads of network data",
    );
    let served = ["core.loads_l1", "core.loads_l2", "core.loads_llc", "core.loads_peer", "core.loads_dram"];
    let all = w.sum(&served);
    for (name, level) in ["l1", "l2", "llc", "peer", "dram"].iter().zip(served) {
        g.put(format!("from_{name}"), ratio(w.n(level), all), "share of loads served by this level");
    }
    g
}

fn occupancy(w: &View, models: &Models) -> GroupBuilder {
    let mut g = GroupBuilder::new("queue occupancy");
    let cycles = w.awake_cycles();
    for (name, what) in [("rob", "ROB"), ("iq", "issue queue"), ("lq", "load queue"), ("sq", "store queue")] {
        let mean = ratio(w.n(&format!("core.{name}_cycles")), cycles);
        g.put(name, mean, format!("mean number of used entries of the {what}, over cycles awake"));
    }
    let of_cores = w.awake_cycles_of_cores();
    for (key, what) in [("l1d", "L1D"), ("l2", "L2")] {
        let mean = ratio(w.n(&format!("{key}.mshr_cycles")), of_cores);
        g.put(format!("{key}_mshrs"), mean, format!("mean number of used miss registers of {what}"));
    }
    let shared = w.seconds() * w.config.memory.interconnect.clock.0 as f64;
    g.put(
        "llc_mshrs",
        ratio(w.n("llc.mshr_cycles"), shared),
        "mean number of used miss registers of the LLC",
    );
    let lines = (w.config.memory.llc.size.0 / 64) as f64;
    for ((class, what), held) in CLASSES.iter().zip(models.timing.memory.occupancy()) {
        let share = ratio(held as f64, lines);
        g.put(format!("llc_{class}"), share, format!("share of the LLC's lines with {what} at the end"));
    }
    g
}

fn dram(w: &View) -> GroupBuilder {
    let mut g = GroupBuilder::new("DRAM");
    let seconds = w.seconds();
    for (name, counter, what) in
        [("read_gbps", "bytes_read", "read from"), ("write_gbps", "bytes_written", "written to")]
    {
        let gbps = ratio(w.n(&format!("dram.{counter}")) * 8e-9, seconds);
        g.put(name, gbps, format!("Gbps {what} all channels"));
    }
    let bytes = w.n("dram.bytes_read") + w.n("dram.bytes_written");
    g.put(
        "mb_per_second",
        ratio(bytes * 1e-6, seconds),
        "million bytes per second read from and written to all channels",
    );
    let channels = w.config.memory.dram.channels as f64;
    g.put(
        "share",
        ratio(w.n("dram.busy_ps") * 1e-12, seconds * channels),
        "share of all channels' peak bandwidth used by reads and writes",
    );
    for channel in 0..w.config.memory.dram.channels {
        let n = |counter: &str| w.n(&format!("dram.channel{channel}.{counter}"));
        g.put(
            format!("read_gbps_{channel}"),
            ratio(n("bytes_read") * 8e-9, seconds),
            format!("Gbps read from channel {channel}"),
        );
        g.put(
            format!("write_gbps_{channel}"),
            ratio(n("bytes_written") * 8e-9, seconds),
            format!("Gbps written to channel {channel}"),
        );
    }
    let commands = w.sum(&["dram.row_hits", "dram.row_closed", "dram.row_conflicts"]);
    g.put("row_hit_rate", ratio(w.n("dram.row_hits"), commands), "share of column commands to an open row");
    let frames = w.frames as f64;
    g.put(
        "bytes_read_per_packet",
        ratio(w.n("dram.bytes_read"), frames),
        "bytes read from DRAM per delivered packet",
    );
    g.put(
        "bytes_written_per_packet",
        ratio(w.n("dram.bytes_written"), frames),
        "bytes written to DRAM per delivered packet",
    );
    g
}

/// Uncore events. Without `own_devices_only`, device events are left out, since they include those of
/// co-runners' devices.
fn uncore(w: &View, own_devices_only: bool) -> GroupBuilder {
    let mut g = GroupBuilder::new("uncore events");
    let frames = w.frames as f64;
    let own =
        |value: Option<f64>, key: &str| value.filter(|_| own_devices_only || !key.starts_with("device."));
    for (name, key, what) in [
        ("ItoM", "device.itom", "whole-line writes of devices"),
        ("RFO", "device.rfo", "partial-line writes of devices"),
        ("PCIeRdCur", "device.pcierdcur", "line reads of devices"),
        ("CRd", "hart.crd", "instruction line requests of cores"),
        ("DRd", "hart.drd", "line requests of cores' loads and page walks"),
        ("core_RFO", "hart.rfo", "cores' requests to write a line, or for the right to write it,"),
        ("prefetch", "hart.prefetch", "line requests of cores' prefetchers and prefetch instructions"),
    ] {
        for (suffix, counter, found) in [("hit", "hits", "hit"), ("miss", "misses", "missed")] {
            let value = own(ratio(w.n(&format!("{key}_{counter}")), frames), key);
            g.put(
                format!("{name}_{suffix}"),
                value,
                format!("{what} that {found} in the LLC, per delivered packet"),
            );
        }
    }
    let (hits, misses) = (w.n("device.itom_hits"), w.n("device.itom_misses"));
    g.put(
        "ItoM_hit_percent",
        ratio(100.0 * hits, hits + misses),
        "percentage of devices' whole-line writes that hit in the LLC",
    );
    for (name, key, what) in [("PRd", "device.prd", "reads"), ("WiL", "device.wil", "writes")] {
        // These counters include all cores and all devices.
        let value = ratio(w.n(key), frames).filter(|_| !w.has_neighbours());
        g.put(name, value, format!("{what} of device registers by cores, per delivered packet"));
    }
    g
}

fn dca(w: &View) -> GroupBuilder {
    let mut g = GroupBuilder::new("direct cache access");
    let frames = w.frames as f64;
    let n = |counter: &str| w.n(&format!("device.{counter}"));
    g.put(
        "updates_per_packet",
        ratio(n("updates"), frames),
        "device-written lines updated in place in the LLC, per delivered packet",
    );
    g.put(
        "allocations_per_packet",
        ratio(n("allocations"), frames),
        "device-written lines allocated in the LLC's DCA ways, per delivered packet",
    );
    g.put(
        "to_l2_per_packet",
        ratio(n("private_placements"), frames),
        "device-written lines placed in a core's L2, per delivered packet",
    );
    g.put(
        "to_memory_per_packet",
        ratio(n("to_memory"), frames),
        "device-written lines that went to memory, per delivered packet",
    );
    g.put(
        "private_invalidations_per_packet",
        ratio(n("private_invalidations"), frames),
        "device writes that invalidated copies in private caches, per delivered packet",
    );
    g.put(
        "device_merges_per_packet",
        ratio(n("merges"), frames),
        "device reads that joined the miss register of a line in flight to the LLC, per delivered packet",
    );
    g.put(
        "core_merges_per_packet",
        ratio(w.n("llc.merges"), frames).filter(|_| !w.has_neighbours()),
        "the same for accesses of cores, without prefetches",
    );
    g.put(
        "leaks_per_packet",
        ratio(n("leaks"), frames),
        "DMA leaks: device-written lines evicted to memory before any use, per delivered packet",
    );
    for (part, what) in
        [("header", "packet headers"), ("payload", "packet payload"), ("descriptor", "descriptors")]
    {
        g.put(
            format!("{part}_leaks_per_packet"),
            ratio(n(&format!("leaks_{part}")), frames),
            format!("DMA leaks of {what}, per delivered packet"),
        );
    }
    // Possible ends of a device-written line in a cache. Lines that are still cached unused have no end yet.
    let ends = ["fresh_used_by_core", "fresh_used_by_device", "fresh_overwritten", "fresh_dropped", "leaks"];
    let ended: f64 = ends.iter().map(|end| n(end)).sum();
    let share = |end: &str| ratio(n(end), ended);
    g.put(
        "leak_rate",
        share("leaks"),
        "DMA leaks as a share of device-written lines that were used, overwritten, dropped or leaked",
    );
    g.put("used_by_core", share("fresh_used_by_core"), "share of these lines that a core used first");
    g.put(
        "overwritten",
        share("fresh_overwritten"),
        "share of these lines that a device overwrote before any use",
    );
    g
}
