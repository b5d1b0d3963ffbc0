//! Figures of each port in a measurement, for the report: the NIC's statistics registers, its drops by cause,
//! its DMA engine, and the load generator.

use std::collections::BTreeMap;

use doorbell_loadgen::STAGES;
use doorbell_machine::{Machine, PATH_KINDS, Port};
use doorbell_results::counters::{INTERRUPTS, RX_DESCRIPTORS, RX_FETCHES, RX_FIFO_FULL};
use doorbell_results::{Figure, FigureGroup, PortFigures, QueueFigures};
use doorbell_sim::stats::{Counter, Stats};

const REGISTERS: &str = "Statistics registers";
const DROPS: &str = "Frames dropped by the NIC, by cause";
const DMA: &str = "Rings, FIFO and interrupts";
const QUEUES: &str = "Queues";
const PATH: &str = "DMA on the path to memory";
const LINK: &str = "PCI Express link, timed";
const BUSES: &str = "Buses, timed";
const GENERATOR: &str = "Load generator at this port";
/// NIC counters of rings, FIFO and interrupts.
const WORK: &[&str] = &[
    RX_DESCRIPTORS,
    "rx_null_descriptors",
    "rx_multi_descriptor",
    RX_FETCHES,
    "rx_write_backs",
    RX_FIFO_FULL,
    "rx_ring_full",
    "tx_ring_full",
    "tx_descriptors",
    "tx_fetches",
    "tx_write_backs",
    "tx_segments",
    "tx_pause_frames",
    "ring_nonsense",
    INTERRUPTS,
    "register_accesses",
];
/// Prefixes of the counters in `WORK` that belong to a queue.
const QUEUE_WORK: [&str; 3] = ["rx_", "tx_", "ring_"];
/// Counters with these prefixes that belong to no queue: of the receive FIFO, which all queues share, and of
/// the link.
const NO_QUEUE_WORK: [&str; 2] = [RX_FIFO_FULL, "tx_pause_frames"];

/// Interrupts of all ports per simulated second; `None` for a measurement of length 0.
pub(crate) fn interrupts_per_second(ports: &[PortFigures], seconds: f64) -> Option<f64> {
    let interrupts: u64 = ports.iter().map(|port| port.value(INTERRUPTS)).sum();
    (seconds > 0.0).then(|| interrupts as f64 / seconds)
}

/// All figures of a port: group, name, meaning and present value.
fn figures(machine: &Machine, index: usize) -> Vec<(&'static str, String, String, u64)> {
    let (port, function): (&Port, _) = (&machine.ports()[index], machine.function_behind(index));
    let nic = machine.nic(index);
    let mut all = Vec::new();
    for statistic in nic.statistics() {
        all.push((REGISTERS, statistic.name, statistic.meaning.to_owned(), statistic.value));
    }
    let mut add = |group, prefix: &str, counter: Counter| {
        let meaning = counter.description.trim_end_matches('.').to_owned();
        all.push((group, format!("{prefix}{}", counter.name), meaning, counter.value));
    };
    for (queue, counted) in nic.queue_stats().iter().enumerate() {
        counted.counters().into_iter().for_each(|counter| add(QUEUES, &format!("queue{queue}."), counter));
    }
    let nic = nic.stats().counters();
    for counter in nic.iter().filter(|counter| counter.name.contains("_drop_")) {
        add(DROPS, "", counter.clone());
    }
    for counter in nic.into_iter().filter(|counter| WORK.contains(&counter.name)) {
        add(DMA, "", counter);
    }
    // The ports of a card share an attachment, whose figures are listed at the first port.
    let attachment = machine.own_attachment(function);
    for (purpose, direction, name) in PATH_KINDS {
        let counters = attachment.iter().flat_map(|attachment| attachment.counters(purpose, direction));
        counters.for_each(|counter| add(PATH, &format!("{name}."), counter));
    }
    function.dma_stats().counters().into_iter().for_each(|counter| add(PATH, "", counter));
    if let Some(attachment) = attachment.filter(|_| machine.timing().is_some()) {
        let now = machine.complete_until();
        let link = attachment.link_stats(now);
        link.iter().flat_map(Stats::counters).for_each(|counter| add(LINK, "pcie_link.", counter));
        if let Some(bus) = attachment.bus() {
            bus.stats().counters().into_iter().for_each(|counter| add(BUSES, "bus.", counter));
            for (number, stage) in bus.stages_until(now).enumerate() {
                let prefix = format!("bus.stage{number}.");
                stage.counters().into_iter().for_each(|counter| add(BUSES, &prefix, counter));
            }
        }
    }
    port.loadgen.stats().counters().into_iter().for_each(|counter| add(GENERATOR, "", counter));
    all
}

/// Snapshot of the figures of all ports. Each port may be read at a different time.
#[derive(Clone, Debug)]
pub(crate) struct PortsSnapshot(Vec<Vec<u64>>);

impl PortsSnapshot {
    /// Reads all ports.
    pub(crate) fn of(machine: &Machine) -> PortsSnapshot {
        let mut snapshot = PortsSnapshot::empty(machine.ports().len());
        (0..machine.ports().len()).for_each(|index| snapshot.read_port(machine, index));
        snapshot
    }

    /// A snapshot of `count` ports that have not been read yet.
    pub(crate) fn empty(count: usize) -> PortsSnapshot {
        PortsSnapshot(vec![Vec::new(); count])
    }

    /// Reads one port.
    pub(crate) fn read_port(&mut self, machine: &Machine, index: usize) {
        self.0[index] = figures(machine, index).into_iter().map(|(.., value)| value).collect();
    }

    /// Differences from this snapshot to a later one of the same machine.
    pub(crate) fn until(&self, later: &PortsSnapshot, machine: &Machine) -> Vec<PortFigures> {
        let both = self.0.iter().zip(&later.0).enumerate();
        both.map(|(index, (before, after))| between(machine, index, before, after)).collect()
    }
}

fn between(machine: &Machine, index: usize, before: &[u64], after: &[u64]) -> PortFigures {
    let mut groups: Vec<FigureGroup> = Vec::new();
    let values = before.iter().zip(after);
    for ((title, name, ..), (before, after)) in figures(machine, index).into_iter().zip(values) {
        if groups.last().is_none_or(|group| group.title != title) {
            groups.push(FigureGroup { title: title.to_owned(), figures: Vec::new() });
        }
        let group = groups.last_mut().expect("one was just pushed");
        group.figures.push(Figure { name, value: after - before });
    }
    let unmodelled = machine.nic(index).missing();
    let of_queues = groups.extract_if(.., |group| group.title == QUEUES).flat_map(|group| group.figures);
    let nic = machine.nic(index);
    let mut own = by_queue(of_queues.collect(), |queue| nic.is_queue_on(queue as usize));
    let rss = nic.rss_queues();
    for of in own.iter_mut().filter(|_| rss.count_ones() > 1) {
        of.rss = rss >> of.queue & 1 != 0;
    }
    if !own.is_empty() {
        return PortFigures { groups, queues: own, asked_in_vain: unmodelled };
    }
    let work = groups.iter().filter(|group| group.title == DMA).flat_map(|group| &group.figures);
    let of_queue = |figure: &&Figure| {
        let name = figure.name.as_str();
        QUEUE_WORK.iter().any(|begin| name.starts_with(begin)) && !NO_QUEUE_WORK.contains(&name)
    };
    // The NIC has one pair of queues, so its own counters are those of the pair.
    let queues =
        vec![QueueFigures { queue: 0, rss: false, figures: work.filter(of_queue).cloned().collect() }];
    PortFigures { groups, queues, asked_in_vain: unmodelled }
}

/// Splits the figures of a card with per-queue counters by queue: the first queue, enabled queues, and queues
/// with non-zero counters.
fn by_queue(figures: Vec<Figure>, is_on: impl Fn(u32) -> bool) -> Vec<QueueFigures> {
    let mut queues: Vec<QueueFigures> = Vec::new();
    for Figure { name, value } in figures {
        let Some((queue, name)) = name.strip_prefix("queue").and_then(|rest| rest.split_once('.')) else {
            continue;
        };
        let Ok(queue) = queue.parse() else { continue };
        if queues.last().is_none_or(|last| last.queue != queue) {
            queues.push(QueueFigures { queue, rss: false, figures: Vec::new() });
        }
        let last = queues.last_mut().expect("one was just pushed");
        last.figures.push(Figure { name: name.to_owned(), value });
    }
    queues.retain(|of| of.queue == 0 || is_on(of.queue) || of.figures.iter().any(|figure| figure.value != 0));
    queues
}

/// Meanings of all figures and of the stages of a round trip, by name.
pub(crate) fn meanings(machine: &Machine) -> BTreeMap<String, String> {
    if machine.ports().is_empty() {
        return BTreeMap::new();
    }
    let stages = STAGES.iter().map(|stage| (stage.name.to_owned(), stage.meaning.to_owned()));
    // Ports may have different attachments, and so different figures.
    let all = (0..machine.ports().len()).flat_map(|index| figures(machine, index));
    all.map(|(_, name, meaning, _)| (name, meaning)).chain(stages).collect()
}

#[cfg(test)]
mod tests {
    use doorbell_pcie::network::{NicStats, QueueStats};
    use doorbell_results::counters::{RX_DROP_NO_DESCRIPTOR, RX_OFFERED};

    use super::*;

    #[test]
    fn counters_that_show_bottlenecks_are_counted_by_nics() {
        let names = |counters: Vec<Counter>| counters.into_iter().map(|of| of.name).collect::<Vec<_>>();
        let (port, queue) = (names(NicStats::default().counters()), names(QueueStats::default().counters()));
        for name in WORK {
            assert!(port.contains(name), "{name}");
        }
        for name in [RX_OFFERED, RX_DROP_NO_DESCRIPTOR] {
            assert!(queue.contains(&name), "{name}");
        }
    }

    #[test]
    fn first_enabled_and_used_queues_are_listed() {
        let figure = |queue: u32, value| Figure { name: format!("queue{queue}.rx_offered"), value };
        let all = [0, 0, 0, 5, 0].into_iter().zip(0..).map(|(value, queue)| figure(queue, value));
        let listed: Vec<u32> =
            by_queue(all.collect(), |queue| queue == 2).iter().map(|of| of.queue).collect();
        assert_eq!(listed, [0, 2, 3], "the second and the fifth are disabled and unused");
    }
}
