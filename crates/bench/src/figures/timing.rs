//! What the timing models say of a measurement: IPC, CPI stack, top-down, misses, memory, PCI Express, direct cache
//! access, all harts and NICs together, and each core alone; as groups of named figures, ratios where a person would want
//! ratios. The counters themselves are in `stats.json`.

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
use doorbell_sim::stats::{Counter, Stats};

pub(crate) use figures::{cores, figures, figures_of};
pub(crate) use memory_series::{MemorySeries, PARTS};
pub(crate) use models::Models;
pub(crate) use span::Span;

/// What the figures of a point mean, as `group.name`: those of all cores and of each, of all nodes.
pub(crate) fn meanings(point: &PointSummary) -> impl Iterator<Item = (String, String)> {
    let nodes = point.network.iter().flat_map(|network| network.nodes.values());
    let of_nodes =
        nodes.flat_map(|node| node.timing.iter().chain(node.cores.iter().map(|core| &core.figures)));
    let cores = point.cores.iter().map(|core| &core.figures);
    point.timing.iter().chain(cores).chain(of_nodes).flat_map(TimingFigures::meanings)
}

/// In place of a group's name: counters of a neighbour's core, which are not summed up.
const BESIDE: &str = "";

/// Some counters of the timing models: where they stand in `stats.json`, and the name under which those of all harts and
/// ports are summed.
struct Source {
    path: String,
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
        let sum = |group| if index < *own { group } else { BESIDE };
        add(format!("hart{index}.core"), sum("core"), core.counters());
        add(format!("hart{index}.polls"), sum("polls"), timing.polls(index).counters());
        if index % threads != 0 {
            // Its caches are those of the thread before it.
            continue;
        }
        let private = &memory.harts[timing.core_of(index)];
        let place = if threads > 1 { format!("core{}", index / threads) } else { format!("hart{index}") };
        add(format!("{place}.memory"), sum("hart"), private.core.counters());
        add(format!("{place}.l1i"), sum("l1i"), private.l1i.counters());
        add(format!("{place}.l1d"), sum("l1d"), private.l1d.counters());
        add(format!("{place}.l2"), sum("l2"), private.l2.counters());
        // One that is alone takes nothing from others.
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

/// The counters of a timed machine's models, for the differences of two moments.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    pub now: Ps,
    /// So many cores, from the first on, are summed up.
    pub own: usize,
    /// Slots and cycles of each core.
    pub books: Vec<Books>,
    /// The others by their path, and summed by `group.name`.
    counts: BTreeMap<String, u64>,
}

impl Moment {
    /// Cycles that the measured cores' books have more than then.
    pub(crate) fn cycles_since(&self, then: &Moment) -> u64 {
        let own = self.books[..self.own].iter().zip(&then.books);
        own.map(|(now, then)| now.cycles - then.cycles).sum()
    }

    /// The present, if the machine is timed now.
    pub(crate) fn of(machine: &Machine) -> Option<Moment> {
        Models::of(machine).filter(|_| machine.mode() == Mode::Detailed).map(|models| Moment::new(&models))
    }

    /// What models have counted up to the present.
    pub(crate) fn new(models: &Models) -> Moment {
        let mut counts = BTreeMap::new();
        let mut add = |prefix: &str, counters: &[Counter]| {
            for counter in counters {
                *counts.entry(format!("{prefix}.{}", counter.name)).or_insert(0) += counter.value;
            }
        };
        for source in sources(models) {
            if source.group != BESIDE {
                add(source.group, &source.counters);
            }
            if source.path != source.group {
                add(&source.path, &source.counters);
            }
        }
        // They say what a packet would cost, and are nothing that a guest or a user counts.
        for hart in 0..models.cores.len() {
            let rounds = models.timing.rounds(hart).counters();
            if hart < models.own {
                add("rounds", &rounds);
            }
            add(&format!("hart{hart}.rounds"), &rounds);
        }
        for (_, attachment) in &models.attached {
            for (kind, _) in PATH_KINDS {
                let counters = attachment.stats(kind).counters();
                add("pcie", &counters);
                add(if kind.is_read() { "dma_reads" } else { "dma_writes" }, &counters);
            }
        }
        let books = models.cores.iter().map(|core| core.books.clone()).collect();
        Moment { now: models.now, own: models.own, books, counts }
    }
}
