//! Figures of the timing models in a measurement: IPC, CPI stack, top-down, misses, memory, PCI Express,
//! direct cache access. They are given as groups of named figures, mostly ratios, for all harts and NICs
//! together and for each core. The counters themselves are in `stats.json`.

mod buses;
mod coherence;
mod fabric;
mod figures;
mod memory;
mod memory_series;
mod models;
mod packet_cost;
mod pcie;
mod snapshot;
mod span;
mod spread;
mod top_down;

use doorbell_results::{PointSummary, TimingFigures};

pub(crate) use figures::{cores, figures, figures_of};
pub(crate) use memory_series::{MemorySeries, PARTS};
pub(crate) use models::Models;
pub(crate) use snapshot::TimingSnapshot;
pub(crate) use span::Span;

/// Meanings of a point's figures, by `group.name`: of all cores together and of each core, of all nodes.
pub(crate) fn meanings(point: &PointSummary) -> impl Iterator<Item = (String, String)> {
    let nodes = point.network.iter().flat_map(|network| network.nodes.values());
    let of_nodes =
        nodes.flat_map(|node| node.timing.iter().chain(node.cores.iter().map(|core| &core.figures)));
    let cores = point.cores.iter().map(|core| &core.figures);
    point.timing.iter().chain(cores).chain(of_nodes).flat_map(TimingFigures::meanings)
}
