//! Figures of the interconnect (ring or mesh): traffic on its links, and the balance of LLC slices.

use super::figures::{GroupBuilder, ratio};
use super::span::View;
use super::spread::imbalance;

/// Figures of the ring or mesh, if the machine has one.
pub(super) fn fabric(w: &View) -> Option<GroupBuilder> {
    if !w.has("fabric.byte_hops") {
        return None;
    }
    let mut g = GroupBuilder::new("fabric");
    let frames = w.frames as f64;
    let (links, slices) = (w.each("fabric.link", "bytes"), w.each("llc.slice", "accesses"));
    let memory = &w.config.memory;
    let cycles = w.seconds() * memory.interconnect.clock.0 as f64;
    let carried = cycles * f64::from(memory.fabric.bytes_per_cycle);
    let per_packet = |counter: &str| ratio(w.n(&format!("fabric.{counter}")), frames);
    g.put(
        "request_hops_per_packet",
        per_packet("request_hops"),
        "link traversals of requests and snoops, per delivered packet",
    );
    g.put(
        "line_hops_per_packet",
        ratio(w.n("fabric.byte_hops") / 64.0, frames),
        "link traversals of lines of 64 bytes, per delivered packet",
    );
    g.put(
        "wait_cycles_per_packet",
        per_packet("wait_cycles"),
        "interconnect cycles for which requests and lines waited for links, per delivered packet",
    );
    g.put(
        "mean_link_use",
        ratio(links.iter().sum::<f64>(), carried * links.len() as f64),
        "share of the links' bandwidth used by lines, mean of all links",
    );
    g.put(
        "busiest_link_use",
        ratio(links.iter().copied().fold(0.0, f64::max), carried),
        "the same for the busiest link",
    );
    g.put(
        "slice_imbalance",
        imbalance(&slices),
        "accesses to the busiest slice over the mean of all slices: 1 if all are equal",
    );
    Some(g)
}
