//! Figures of the timing models in a measurement: IPC, CPI stack, top-down, misses, memory, PCI Express,
//! direct cache access. They are given as groups of named figures, mostly ratios, for all harts and NICs
//! together and for each core. The counters themselves are in `stats.json`.

mod buses;
mod coherence;
mod fabric;
mod figures;
mod memory_series;
mod models;
mod packet_cost;
mod pcie;
mod span;
mod spread;
mod top_down;

use std::collections::BTreeMap;

use doorbell_machine::{Books, DISK_DEVICES, Machine, Mode, PATH_KINDS};
use doorbell_results::{PointSummary, TimingFigures};
use doorbell_sim::Ps;
use doorbell_sim::ports::DmaDirection;
use doorbell_sim::stats::{Counter, Stats};

pub(crate) use figures::{cores, figures, figures_of};
pub(crate) use memory_series::{MemorySeries, PARTS};
pub(crate) use models::Models;
pub(crate) use span::Span;

/// Meanings of a point's figures, by `group.name`: of all cores together and of each core, of all nodes.
pub(crate) fn meanings(point: &PointSummary) -> impl Iterator<Item = (String, String)> {
    let nodes = point.network.iter().flat_map(|network| network.nodes.values());
    let of_nodes =
        nodes.flat_map(|node| node.timing.iter().chain(node.cores.iter().map(|core| &core.figures)));
    let cores = point.cores.iter().map(|core| &core.figures);
    point.timing.iter().chain(cores).chain(of_nodes).flat_map(TimingFigures::meanings)
}

/// Group of the counters of neighbours' cores, which are not summed.
const NOT_SUMMED: &str = "";

/// Counters of one component of the timing models.
struct Source {
    /// Path in `stats.json`.
    path: String,
    /// Name under which the counters of all harts or ports are summed.
    group: &'static str,
    counters: Vec<Counter>,
}

/// All counters of the timing models.
fn sources(models: &Models) -> Vec<Source> {
    let mut all = Vec::new();
    let Models { timing, cores, attached, own, disks, .. } = models;
    let mut add = |path: String, group, counters| all.push(Source { path, group, counters });
    let memory = timing.memory.stats();
    let threads = timing.threads();
    for (index, core) in cores.iter().enumerate() {
        let sum = |group| if index < *own { group } else { NOT_SUMMED };
        add(format!("hart{index}.core"), sum("core"), core.counters());
        add(format!("hart{index}.polls"), sum("polls"), timing.polls(index).counters());
        if index % threads != 0 {
            // The core's caches are listed at its first thread.
            continue;
        }
        let private = &memory.harts[timing.core_of(index)];
        let place = if threads > 1 { format!("core{}", index / threads) } else { format!("hart{index}") };
        add(format!("{place}.memory"), sum("hart"), private.core.counters());
        add(format!("{place}.l1i"), sum("l1i"), private.l1i.counters());
        add(format!("{place}.l1d"), sum("l1d"), private.l1d.counters());
        add(format!("{place}.l2"), sum("l2"), private.l2.counters());
        // A single core shares no lines with others.
        if cores.len() > 1 {
            add(format!("{place}.sharing"), sum("sharing"), private.sharing.counters());
        }
    }
    add("llc".to_owned(), "llc", memory.llc.counters());
    if timing.memory.has_directory() {
        add("directory".to_owned(), "directory", memory.directory.counters());
    }
    if let Some(fabric) = timing.memory.fabric() {
        let cycle = timing.memory.cycle_at(models.now);
        add("fabric".to_owned(), "fabric", fabric.stats_until(cycle).counters());
        for (stops, link) in fabric.links_until(cycle) {
            add(format!("fabric.link{stops}"), "fabric_link", link.counters());
        }
        for (number, slice) in fabric.slices_until(cycle).enumerate() {
            add(format!("llc.slice{number}"), "llc_slice", slice.counters());
        }
    }
    add("devices".to_owned(), "device", memory.devices.counters());
    for (device, index) in (DISK_DEVICES..).zip(0..*disks) {
        add(format!("disk{index}.memory"), "disk_memory", timing.memory.device_account(device).counters());
    }
    add("interconnect".to_owned(), "traffic", memory.traffic.counters());
    for (index, channel) in timing.memory.memory().stats_until(models.now).enumerate() {
        add(format!("dram.channel{index}"), "dram", channel.counters());
    }
    for (name, attachment) in attached {
        if let Some(link) = attachment.link_stats(models.now) {
            add(format!("{name}.pcie_link"), "link", link.counters());
        }
        if let Some(bus) = attachment.bus() {
            add(format!("{name}.bus"), "bus", bus.stats().counters());
            for (number, stage) in bus.stages_until(models.now).enumerate() {
                add(format!("{name}.bus.stage{number}"), "bus_stage", stage.counters());
            }
        }
    }
    all
}

/// The counters of the timing models, for `stats.json`.
pub(crate) fn counters(models: &Models) -> impl Iterator<Item = (String, Counter)> {
    sources(models).into_iter().flat_map(|Source { path, counters, .. }| {
        counters.into_iter().map(move |counter| (format!("{path}.{}", counter.name), counter))
    })
}

/// Snapshot of the counters of the timing models.
#[derive(Clone, Debug)]
pub(crate) struct TimingSnapshot {
    pub now: Ps,
    /// Number of measured cores, which come first. Their counters are summed.
    pub own: usize,
    /// Slot and cycle accounting of each core.
    pub books: Vec<Books>,
    /// All other counters: by path, and summed by `group.name`.
    counts: BTreeMap<String, u64>,
}

impl TimingSnapshot {
    /// Cycles of the measured cores since `then`, summed.
    pub(crate) fn cycles_since(&self, then: &TimingSnapshot) -> u64 {
        let own = self.books[..self.own].iter().zip(&then.books);
        own.map(|(now, then)| now.cycles - then.cycles).sum()
    }

    /// Reads a machine's counters; `None` unless the machine is in timed mode.
    pub(crate) fn of(machine: &Machine) -> Option<TimingSnapshot> {
        let models = Models::of(machine).filter(|_| machine.mode() == Mode::Detailed);
        models.map(|models| TimingSnapshot::new(&models))
    }

    /// Reads the models' counters.
    pub(crate) fn new(models: &Models) -> TimingSnapshot {
        let mut counts = BTreeMap::new();
        let mut add = |prefix: &str, counters: &[Counter]| {
            for counter in counters {
                *counts.entry(format!("{prefix}.{}", counter.name)).or_insert(0) += counter.value;
            }
        };
        for source in sources(models) {
            if source.group != NOT_SUMMED {
                add(source.group, &source.counters);
            }
            if source.path != source.group {
                add(&source.path, &source.counters);
            }
        }
        // Polling rounds serve only to estimate the cost per packet, so they are not in `stats.json`.
        for hart in 0..models.cores.len() {
            let rounds = models.timing.rounds(hart).counters();
            if hart < models.own {
                add("rounds", &rounds);
            }
            add(&format!("hart{hart}.rounds"), &rounds);
        }
        for (_, attachment) in &models.attached {
            for (purpose, direction, _) in PATH_KINDS {
                let counters = attachment.stats(purpose, direction).counters();
                add("pcie", &counters);
                add(if direction == DmaDirection::Read { "dma_reads" } else { "dma_writes" }, &counters);
            }
        }
        let books = models.cores.iter().map(|core| core.books.clone()).collect();
        TimingSnapshot { now: models.now, own: models.own, books, counts }
    }
}
