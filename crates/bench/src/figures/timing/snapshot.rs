//! The counters of the timing models at one time.

use doorbell_machine::fabric_stats::{FabricStats, LinkStats as FabricLinkStats, SliceStats};
use doorbell_machine::{
    BusStats, CoreStats, DISK_DEVICES, DeviceAccount, DramStats, Machine, MemoryStats, Mode, PATH_KINDS,
    PollStats, RoundStats, StageStats,
};
use doorbell_pcie::link::LinkStats;
use doorbell_pcie::path::PathStats;
use doorbell_sim::Ps;
use doorbell_sim::ports::DmaDirection;
use doorbell_sim::stats::{Counter, Stats};

use super::Models;

/// Counters of the timing models at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimingSnapshot {
    /// The time.
    pub now: Ps,
    /// Number of measured harts, which come first.
    pub own: usize,
    /// Threads per core.
    pub threads: usize,
    /// Counters of each hart.
    pub harts: Vec<HartCounts>,
    /// Counters of the memory system, with the private caches of each core.
    pub memory: MemoryStats,
    /// Whether the LLC has a directory.
    pub has_directory: bool,
    /// Counters of the ring or mesh, if there is one.
    pub fabric: Option<FabricCounts>,
    /// Counters of each memory channel.
    pub dram: Vec<DramStats>,
    /// Counters of each attachment.
    pub attached: Vec<AttachedCounts>,
    /// Counters of each disk's memory accesses.
    pub disks: Vec<DeviceAccount>,
}

/// Counters of a hart.
#[derive(Clone, Debug, Default)]
pub(crate) struct HartCounts {
    /// Its pipeline.
    pub core: CoreStats,
    /// Its polls of receive rings.
    pub polls: PollStats,
    /// Its polling rounds. They serve only to estimate the cost per packet, and are not in `stats.json`.
    pub rounds: RoundStats,
}

/// Counters of a ring or mesh.
#[derive(Clone, Debug, Default)]
pub(crate) struct FabricCounts {
    /// All links together.
    pub all: FabricStats,
    /// Each link, with the numbers of its stops.
    pub links: Vec<(String, FabricLinkStats)>,
    /// Each slice of the LLC.
    pub slices: Vec<SliceStats>,
}

/// Counters of an attachment.
#[derive(Clone, Debug, Default)]
pub(crate) struct AttachedCounts {
    /// The device's name.
    pub name: String,
    /// DMA reads of all kinds.
    pub reads: PathStats,
    /// DMA writes of all kinds.
    pub writes: PathStats,
    /// The PCI Express link, if it is attached by one.
    pub link: Option<LinkStats>,
    /// The chain of buses, if it is attached by one, and each of its stages.
    pub bus: Option<(BusStats, Vec<StageStats>)>,
}

impl AttachedCounts {
    /// Counts since `earlier`.
    pub fn since(&self, earlier: &AttachedCounts) -> AttachedCounts {
        let bus = self.bus.as_ref().zip(earlier.bus.as_ref());
        AttachedCounts {
            name: self.name.clone(),
            reads: self.reads.since(&earlier.reads),
            writes: self.writes.since(&earlier.writes),
            link: self.link.as_ref().zip(earlier.link.as_ref()).map(|(now, then)| now.since(then)),
            bus: bus.map(|((now, stages), (then, earlier))| {
                (now.since(then), stages.iter().zip(earlier).map(|(now, then)| now.since(then)).collect())
            }),
        }
    }
}

impl TimingSnapshot {
    /// Reads a machine's counters; `None` unless the machine is in timed mode.
    pub(crate) fn of(machine: &Machine) -> Option<TimingSnapshot> {
        let models = Models::of(machine).filter(|_| machine.mode() == Mode::Detailed);
        models.map(|models| TimingSnapshot::new(&models))
    }

    /// Reads the models' counters.
    pub(crate) fn new(models: &Models) -> TimingSnapshot {
        let Models { now, timing, cores, attached, own, disks, .. } = models;
        let memory = &timing.memory;
        let hart = |(index, core): (usize, &CoreStats)| HartCounts {
            core: core.clone(),
            polls: timing.polls(index).clone(),
            rounds: timing.rounds(index).clone(),
        };
        let attached = attached.iter().map(|(name, attachment)| {
            let dma = |of: DmaDirection| {
                let kinds = PATH_KINDS.iter().filter(|(_, direction, _)| *direction == of);
                PathStats::sum(kinds.map(|(purpose, direction, _)| attachment.stats(*purpose, *direction)))
            };
            AttachedCounts {
                name: name.clone(),
                reads: dma(DmaDirection::Read),
                writes: dma(DmaDirection::Write),
                link: attachment.link_stats(*now),
                bus: attachment.bus().map(|bus| (bus.stats().clone(), bus.stages_until(*now).collect())),
            }
        });
        let cycle = memory.cycle_at(*now);
        TimingSnapshot {
            now: *now,
            own: *own,
            threads: timing.threads(),
            harts: cores.iter().enumerate().map(hart).collect(),
            memory: memory.stats(),
            has_directory: memory.has_directory(),
            fabric: memory.fabric().map(|fabric| FabricCounts {
                all: fabric.stats_until(cycle),
                links: fabric.links_until(cycle).collect(),
                slices: fabric.slices_until(cycle).collect(),
            }),
            dram: memory.memory().stats_until(*now).collect(),
            attached: attached.collect(),
            disks: (DISK_DEVICES..)
                .take(*disks)
                .map(|device| memory.device_account(device).clone())
                .collect(),
        }
    }

    /// Cycles of the measured cores since `then`, summed.
    pub(crate) fn cycles_since(&self, then: &TimingSnapshot) -> u64 {
        let own = self.harts[..self.own].iter().zip(&then.harts);
        own.map(|(now, then)| now.core.books.cycles - then.core.books.cycles).sum()
    }

    /// Whether cores can share lines with others.
    pub(crate) fn has_sharing(&self) -> bool {
        self.harts.len() > 1
    }

    /// All counters by their paths, for `stats.json`.
    pub(crate) fn counters(&self) -> Vec<(String, Counter)> {
        let mut all = Vec::new();
        let mut add = |path: &str, counters: Vec<Counter>| {
            all.extend(counters.into_iter().map(|counter| (format!("{path}.{}", counter.name), counter)));
        };
        for (index, hart) in self.harts.iter().enumerate() {
            add(&format!("hart{index}.core"), hart.core.counters());
            add(&format!("hart{index}.polls"), hart.polls.counters());
            if !index.is_multiple_of(self.threads) {
                // The core's caches are listed at its first thread.
                continue;
            }
            let core = index / self.threads;
            let private = &self.memory.harts[core];
            let place = if self.threads > 1 { format!("core{core}") } else { format!("hart{index}") };
            add(&format!("{place}.memory"), private.core.counters());
            add(&format!("{place}.l1i"), private.l1i.counters());
            add(&format!("{place}.l1d"), private.l1d.counters());
            add(&format!("{place}.l2"), private.l2.counters());
            if self.has_sharing() {
                add(&format!("{place}.sharing"), private.sharing.counters());
            }
        }
        add("llc", self.memory.llc.counters());
        if self.has_directory {
            add("directory", self.memory.directory.counters());
        }
        if let Some(fabric) = &self.fabric {
            add("fabric", fabric.all.counters());
            for (stops, link) in &fabric.links {
                add(&format!("fabric.link{stops}"), link.counters());
            }
            for (number, slice) in fabric.slices.iter().enumerate() {
                add(&format!("llc.slice{number}"), slice.counters());
            }
        }
        add("devices", self.memory.devices.counters());
        for (index, disk) in self.disks.iter().enumerate() {
            add(&format!("disk{index}.memory"), disk.counters());
        }
        add("interconnect", self.memory.traffic.counters());
        for (index, channel) in self.dram.iter().enumerate() {
            add(&format!("dram.channel{index}"), channel.counters());
        }
        for AttachedCounts { name, link, bus, .. } in &self.attached {
            link.iter().for_each(|link| add(&format!("{name}.pcie_link"), link.counters()));
            let Some((bus, stages)) = bus else { continue };
            add(&format!("{name}.bus"), bus.counters());
            for (number, stage) in stages.iter().enumerate() {
                add(&format!("{name}.bus.stage{number}"), stage.counters());
            }
        }
        all
    }
}
