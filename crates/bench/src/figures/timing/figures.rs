//! The figures themselves: what is divided by what. Uncore events are those of the FD.io paper.

use std::fmt::Display;

use doorbell_machine::{CoreKind, Machine};

use super::buses::buses;
use super::coherence::{directory, taken};
use super::fabric::fabric;
use super::models::Models;
use super::packet_cost::per_packet;
use super::pcie::pcie;
use super::span::{Span, View};
use super::spread::{neighbours, own_packets, sharing};
use super::top_down::{cpi_stack, top_down, top_down_2, top_down_3};
use doorbell_results::{CoreFigures, TimingFigure, TimingFigures, TimingGroup};

/// What lines hold, in the order of the memory system: the name in counters, and in words.
pub(super) const CLASSES: [(&str, &str); 6] = [
    ("other", "other data"),
    ("code", "code"),
    ("header", "packet headers"),
    ("payload", "packet payload"),
    ("rx_descriptor", "receive descriptors"),
    ("tx_descriptor", "transmit descriptors"),
];

pub(super) fn over(amount: f64, by: f64) -> Option<f64> {
    (by > 0.0).then(|| amount / by)
}

/// A group under construction.
pub(super) struct Filling(TimingGroup);

impl Filling {
    #[cfg(test)]
    pub(super) fn done(self) -> TimingGroup {
        self.0
    }

    pub(super) fn new(name: impl Display) -> Filling {
        Filling(TimingGroup { name: name.to_string(), figures: Vec::new() })
    }

    pub(super) fn put(&mut self, name: impl Display, value: Option<f64>, meaning: impl Display) {
        let (name, meaning) = (name.to_string(), meaning.to_string());
        self.0.figures.push(TimingFigure { name, meaning, value });
    }

    /// Leaves what is told a packet open if it is not known of whose packets it is.
    fn a_packet_if(mut self, is_known: bool) -> Filling {
        for figure in &mut self.0.figures {
            figure.value = figure.value.filter(|_| is_known || !figure.name.ends_with("_per_packet"));
        }
        self
    }
}

/// All figures of a machine's span.
pub(crate) fn figures(span: &Span, machine: &Machine) -> TimingFigures {
    figures_of(span, &Models::of(machine).expect("what was timed has timing models"))
}

/// The same of models wherever they are.
pub(crate) fn figures_of(span: &Span, models: &Models) -> TimingFigures {
    let w = &View::of_all(span);
    let mut groups = vec![per_packet(w), top_down(w), top_down_2(w), top_down_3(w), cpi_stack(w), core(w)];
    groups.extend(
        [("L1I", "l1i"), ("L1D", "l1d"), ("L2", "l2"), ("LLC", "llc")].map(|(name, key)| cache(w, name, key)),
    );
    // With neighbours nobody knows what a packet's part was in what memory and its ways did, and in what devices did if they have some.
    let (is_alone, has_devices_alone) = (!w.has_neighbours(), !models.neighbours_have_devices);
    groups.extend([access_times(w), occupancy(w, models)]);
    groups.extend([dram(w).a_packet_if(is_alone), pcie(w).a_packet_if(has_devices_alone)]);
    if models.attached.iter().any(|(_, attachment)| attachment.bus().is_some()) {
        groups.push(buses(w, models));
    }
    groups.extend([uncore(w, has_devices_alone), dca(w).a_packet_if(has_devices_alone)]);
    groups.extend(taken(w));
    groups.extend([directory(w), fabric(w)].into_iter().flatten().map(|group| group.a_packet_if(is_alone)));
    groups.extend(sharing(span));
    groups.extend(neighbours(span));
    TimingFigures(groups.into_iter().map(|filling| filling.0).collect())
}

/// The figures of each core alone: the same groups, as far as they are of what a core has for itself.
pub(crate) fn cores(span: &Span) -> Vec<CoreFigures> {
    let threads = span.config.platform.threads as usize;
    let figures = |hart: usize, thread: Option<usize>, groups: Vec<Filling>| {
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
            figures: TimingFigures(groups.into_iter().map(|filling| filling.0).collect()),
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
    // Threads of a core share its slots and its caches: these are the core's.
    let whole = if threads > 1 { harts / threads } else { 0 };
    (0..harts).map(of_hart).chain((0..whole).map(of_core)).collect()
}

/// The private caches, and what they took from others'.
fn caches(w: &View) -> Vec<Filling> {
    let all = [cache(w, "L1I", "l1i"), cache(w, "L1D", "l1d"), cache(w, "L2", "l2"), access_times(w)];
    all.into_iter().chain(taken(w)).collect()
}

/// The pace of a core with threads.
fn pace_of_core(w: &View) -> Filling {
    let mut g = Filling::new("pace");
    let (cycles, instructions) = (w.cycles(), w.instructions as f64);
    g.put("cycles", Some(cycles), "core cycles, asleep or not");
    g.put("instructions", Some(instructions), "instructions retired by all threads");
    g.put("ipc", over(instructions, cycles), "instructions of all threads a cycle");
    g
}

fn pace(w: &View) -> Filling {
    let mut g = Filling::new("pace");
    let (cycles, instructions) = (w.cycles(), w.instructions as f64);
    let asleep = w.n("core.cpi_idle");
    g.put("cycles", Some(cycles), "core cycles, asleep or not");
    g.put("instructions", Some(instructions), "instructions retired");
    g.put("ipc", over(instructions, cycles - asleep), "instructions a cycle, sleep (WFI) left out");
    g.put("asleep_share", over(asleep, cycles), "share of the cycles that went into sleep");
    g
}

fn core(w: &View) -> Filling {
    let mut g = Filling::new("core");
    let kilo = w.n("core.instructions") / 1e3;
    let wrong = w.sum(&["core.wrong_directions", "core.wrong_targets", "core.wrong_returns"]);
    g.put("branch_mpki", over(wrong, kilo), "mispredicted branches a thousand instructions");
    g.put("branch_miss_rate", over(wrong, w.n("core.branches")), "mispredicted branches a branch");
    g.put("replays_pki", over(w.n("core.replays"), kilo), "memory-order clashes a thousand instructions");
    g.put(
        "forwarded_loads",
        over(w.n("core.forwards"), w.n("core.loads")),
        "share of loads served by the store queue",
    );
    g.put("itlb_mpki", over(w.n("core.itlb_misses"), kilo), "instruction TLB misses a thousand instructions");
    g.put("dtlb_mpki", over(w.n("core.dtlb_misses"), kilo), "data TLB misses a thousand instructions");
    g.put("walk_cycles", over(w.n("core.walk_cycles"), w.n("core.walks")), "cycles a page walk");
    g
}

fn cache(w: &View, name: &str, key: &str) -> Filling {
    let mut g = Filling::new(name);
    let n = |counter: &str| w.n(&format!("{key}.{counter}"));
    // Of the rest that the LLC counts, nobody knows what was neighbours'.
    let is_mixed = key == "llc" && w.has_neighbours();
    let own = |value: Option<f64>| value.filter(|_| !is_mixed);
    let (mut misses, kilo, frames) = (n("misses"), w.instructions as f64 / 1e3, w.frames as f64);
    if is_mixed {
        // What neighbours miss is not theirs who are measured. Who asked for what the LLC had not is known; who missed is not, so that
        // lines on their way and rights to write count here too.
        misses = w.sum(&["hart.crd_misses", "hart.drd_misses", "hart.rfo_misses"]);
    }
    g.put("mpki", over(misses, kilo), "misses of cores a thousand instructions");
    g.put("misses_per_packet", over(misses, frames), "misses of cores a delivered packet");
    for (class, what) in CLASSES {
        let of = own(over(n(&format!("misses_{class}")), frames));
        g.put(format!("{class}_misses_per_packet"), of, format!("of these, misses of {what}"));
    }
    let accesses = n("accesses");
    g.put("hit_rate", own(over(n("hits"), accesses)), "share of accesses that found their line");
    let merged = own(over(n("merges"), accesses));
    g.put("merge_rate", merged, "share of accesses that found their line on its way");
    g.put(
        "write_backs_per_packet",
        own(over(n("write_backs"), frames)),
        "dirty lines sent a level further, a delivered packet",
    );
    let software = n("software_prefetches");
    let fetched =
        n("prefetches") + software - n("software_prefetches_there") - n("software_prefetches_dropped");
    if fetched > 0.0 {
        g.put("prefetches_pki", over(fetched, kilo), "lines fetched ahead a thousand instructions");
        let (used, left) = (n("prefetches_useful"), n("prefetches_useless"));
        let accuracy = over(used, used + left);
        g.put(
            "prefetch_accuracy",
            accuracy,
            "share of lines fetched ahead that were used: of those that were, or left unused",
        );
    }
    if software > 0.0 {
        let (each, lost) = (over(software, frames), over(n("software_prefetches_dropped"), software));
        g.put("software_prefetches_per_packet", each, "prefetch instructions a delivered packet");
        g.put("software_prefetches_dropped", lost, "share of these given up for want of a miss register");
    }
    g
}

fn access_times(w: &View) -> Filling {
    let mut g = Filling::new("access time");
    g.put(
        "load_cycles",
        over(w.n("core.load_cycles"), w.n("core.loads") - w.n("core.forwards")),
        "core cycles from a load's cache access to its data, on average",
    );
    g.put(
        "network_load_cycles",
        over(w.n("hart.network_load_cycles"), w.n("hart.network_loads")),
        "the same of loads of network data alone: what a device wrote and no core has overwritten, what a device reads, and descriptors",
    );
    g.put(
        "access_cycles",
        over(
            w.sum(&["hart.data_access_cycles", "hart.fetch_cycles"]),
            w.sum(&["hart.data_accesses", "hart.fetches"]),
        ),
        "AMAT: core cycles from the request to the data of all accesses to the caches, which are fetches, loads, stores and page walks, \
         on average",
    );
    g.put(
        "data_access_cycles",
        over(w.n("hart.data_access_cycles"), w.n("hart.data_accesses")),
        "the same without fetches",
    );
    g.put(
        "network_loads",
        over(w.n("hart.network_loads"), w.n("core.loads") - w.n("core.forwards")),
        "share of loads that are of network data",
    );
    let served = ["core.loads_l1", "core.loads_l2", "core.loads_llc", "core.loads_peer", "core.loads_dram"];
    let all = w.sum(&served);
    for (name, level) in ["l1", "l2", "llc", "peer", "dram"].iter().zip(served) {
        g.put(format!("from_{name}"), over(w.n(level), all), "share of loads served there");
    }
    g
}

fn occupancy(w: &View, models: &Models) -> Filling {
    let mut g = Filling::new("queue occupancy");
    let cycles = w.awake_cycles();
    for (name, what) in [("rob", "ROB"), ("iq", "issue queue"), ("lq", "load queue"), ("sq", "store queue")] {
        let mean = over(w.n(&format!("core.{name}_cycles")), cycles);
        g.put(name, mean, format!("entries of the {what} in use, on average over the cycles awake"));
    }
    let of_cores = w.awake_cycles_of_cores();
    for (key, what) in [("l1d", "L1D"), ("l2", "L2")] {
        let mean = over(w.n(&format!("{key}.mshr_cycles")), of_cores);
        g.put(format!("{key}_mshrs"), mean, format!("miss registers of {what} in use, on average"));
    }
    let shared = w.seconds() * w.config.memory.interconnect.clock.0 as f64;
    g.put("llc_mshrs", over(w.n("llc.mshr_cycles"), shared), "miss registers of the LLC in use, on average");
    let lines = (w.config.memory.llc.size.0 / 64) as f64;
    for ((class, what), held) in CLASSES.iter().zip(models.timing.memory.occupancy()) {
        let share = over(held as f64, lines);
        g.put(format!("llc_{class}"), share, format!("share of the LLC that holds {what} at the end"));
    }
    g
}

fn dram(w: &View) -> Filling {
    let mut g = Filling::new("DRAM");
    let seconds = w.seconds();
    for (name, counter, what) in
        [("read_gbps", "bytes_read", "read from"), ("write_gbps", "bytes_written", "written to")]
    {
        let gbps = over(w.n(&format!("dram.{counter}")) * 8e-9, seconds);
        g.put(name, gbps, format!("Gbps {what} all channels"));
    }
    let bytes = w.n("dram.bytes_read") + w.n("dram.bytes_written");
    g.put(
        "mb_per_second",
        over(bytes * 1e-6, seconds),
        "million bytes a second read from and written to all channels",
    );
    let channels = w.config.memory.dram.channels as f64;
    g.put(
        "share",
        over(w.n("dram.busy_ps") * 1e-12, seconds * channels),
        "share of what all channels' pins can carry that was read from and written to them",
    );
    for channel in 0..w.config.memory.dram.channels {
        let n = |counter: &str| w.n(&format!("dram.channel{channel}.{counter}"));
        g.put(
            format!("read_gbps_{channel}"),
            over(n("bytes_read") * 8e-9, seconds),
            format!("Gbps read from channel {channel}"),
        );
        g.put(
            format!("write_gbps_{channel}"),
            over(n("bytes_written") * 8e-9, seconds),
            format!("Gbps written to channel {channel}"),
        );
    }
    let commands = w.sum(&["dram.row_hits", "dram.row_closed", "dram.row_conflicts"]);
    g.put(
        "row_hit_rate",
        over(w.n("dram.row_hits"), commands),
        "share of column commands that found their row open",
    );
    let frames = w.frames as f64;
    g.put(
        "bytes_read_per_packet",
        over(w.n("dram.bytes_read"), frames),
        "bytes read from DRAM a delivered packet",
    );
    g.put(
        "bytes_written_per_packet",
        over(w.n("dram.bytes_written"), frames),
        "bytes written to DRAM a delivered packet",
    );
    g
}

/// Devices' events are told if the devices are those of whoever is measured alone.
fn uncore(w: &View, has_devices_alone: bool) -> Filling {
    let mut g = Filling::new("uncore events");
    let frames = w.frames as f64;
    let own =
        |value: Option<f64>, key: &str| value.filter(|_| has_devices_alone || !key.starts_with("device."));
    for (name, key, what) in [
        ("ItoM", "device.itom", "writes of a whole line by a device"),
        ("RFO", "device.rfo", "writes of a part of a line by a device"),
        ("PCIeRdCur", "device.pcierdcur", "reads of a line by a device"),
        ("CRd", "hart.crd", "lines of instructions asked for by a core"),
        ("DRd", "hart.drd", "lines asked for by a core's loads and page walks"),
        ("core_RFO", "hart.rfo", "lines asked for by a core's stores, or the right to write them"),
        ("prefetch", "hart.prefetch", "lines asked for by a core's prefetchers and prefetch instructions"),
    ] {
        for (suffix, counter, found) in [("hit", "hits", "had"), ("miss", "misses", "had not")] {
            let value = own(over(w.n(&format!("{key}_{counter}")), frames), key);
            g.put(
                format!("{name}_{suffix}"),
                value,
                format!("{what} that the LLC {found}, a delivered packet"),
            );
        }
    }
    let (hits, misses) = (w.n("device.itom_hits"), w.n("device.itom_misses"));
    g.put(
        "ItoM_hit_percent",
        over(100.0 * hits, hits + misses),
        "of a hundred whole lines that devices wrote, those that the LLC had",
    );
    for (name, key, what) in [("PRd", "device.prd", "reads"), ("WiL", "device.wil", "writes")] {
        // By all cores, of whatever device.
        let value = over(w.n(key), frames).filter(|_| !w.has_neighbours());
        g.put(name, value, format!("{what} of device registers by cores, a delivered packet"));
    }
    g
}

fn dca(w: &View) -> Filling {
    let mut g = Filling::new("direct cache access");
    let frames = w.frames as f64;
    let n = |counter: &str| w.n(&format!("device.{counter}"));
    g.put(
        "updates_per_packet",
        over(n("updates"), frames),
        "written lines updated where they stood in the LLC, a delivered packet",
    );
    g.put(
        "allocations_per_packet",
        over(n("allocations"), frames),
        "written lines for which room was made in the DCA ways",
    );
    g.put(
        "to_l2_per_packet",
        over(n("private_placements"), frames),
        "written lines that went to a core's L2",
    );
    g.put("to_memory_per_packet", over(n("to_memory"), frames), "written lines that went to memory");
    g.put(
        "private_invalidations_per_packet",
        over(n("private_invalidations"), frames),
        "lines that cores had in their own caches when a device wrote them, and lost",
    );
    g.put(
        "device_merges_per_packet",
        over(n("merges"), frames),
        "lines that a device asked for while they were on their way to the LLC: they join the miss register",
    );
    g.put(
        "core_merges_per_packet",
        over(w.n("llc.merges"), frames).filter(|_| !w.has_neighbours()),
        "the same of cores' requests, prefetches not included",
    );
    g.put(
        "leaks_per_packet",
        over(n("leaks"), frames),
        "DMA leaks: written lines that had left the cache for memory before any use",
    );
    for (part, what) in
        [("header", "packet headers"), ("payload", "packet payload"), ("descriptor", "descriptors")]
    {
        g.put(
            format!("{part}_leaks_per_packet"),
            over(n(&format!("leaks_{part}")), frames),
            format!("of these, lines of {what}"),
        );
    }
    // Lines that are still there were written in the measurement or before it; each that is not came to one of these ends.
    let ends = ["fresh_used_by_core", "fresh_used_by_device", "fresh_overwritten", "fresh_dropped", "leaks"];
    let ended: f64 = ends.iter().map(|end| n(end)).sum();
    let share = |end: &str| over(n(end), ended);
    g.put(
        "leak_rate",
        share("leaks"),
        "share of lines that left the cache unused: of those written into it that were used, written again, dropped, or left",
    );
    g.put("used_by_core", share("fresh_used_by_core"), "share of these that a core used");
    g.put(
        "overwritten",
        share("fresh_overwritten"),
        "share of these that a device wrote again before any use",
    );
    g
}
