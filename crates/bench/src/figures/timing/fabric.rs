//! Figures of the interconnect (ring or mesh): traffic on its links, and the balance of LLC slices.

use doorbell_results::TimingFigures;
use doorbell_results::figures::FABRIC;

use super::snapshot::FabricCounts;
use super::span::View;
use super::spread::imbalance;
use crate::ratio::ratio;

/// Figures of the ring or mesh, if the machine has one.
pub(super) fn fabric(w: &View, frames: u64, g: &mut TimingFigures) {
    if w.end().fabric.is_none() {
        return;
    }
    fn of(at: &super::TimingSnapshot) -> &FabricCounts {
        at.fabric.as_ref().expect("both snapshots are of one machine")
    }
    let all = w.shared(|at| &of(at).all);
    let links = w.each(|at| of(at).links.iter().map(|(_, link)| link));
    let links: Vec<f64> = links.iter().map(|link| link.bytes as f64).collect();
    let slices = w.each(|at| of(at).slices.iter());
    let slices: Vec<f64> = slices.iter().map(|slice| slice.accesses as f64).collect();
    let memory = &w.config.memory;
    let cycles = w.seconds() * memory.interconnect.clock.0 as f64;
    let carried = cycles * f64::from(memory.fabric.bytes_per_cycle);
    g.put(FABRIC.request_hops_per_packet, ratio(all.request_hops, frames));
    g.put(FABRIC.line_hops_per_packet, ratio(all.byte_hops as f64 / 64.0, frames));
    g.put(FABRIC.wait_cycles_per_packet, ratio(all.wait_cycles, frames));
    g.put(FABRIC.mean_link_use, ratio(links.iter().sum::<f64>(), carried * links.len() as f64));
    g.put(FABRIC.busiest_link_use, ratio(links.iter().copied().fold(0.0, f64::max), carried));
    g.put(FABRIC.slice_imbalance, imbalance(&slices));
}
