//! What went over a ring or mesh, and how evenly its slices are used.

use super::figures::{Filling, over};
use super::span::View;
use super::spread::imbalance;

/// The figures of a ring or mesh; none where there is none.
pub(super) fn fabric(w: &View) -> Option<Filling> {
    if !w.has("fabric.byte_hops") {
        return None;
    }
    let mut g = Filling::new("fabric");
    let frames = w.frames as f64;
    let (links, slices) = (w.each("fabric.link", "bytes"), w.each("llc.slice", "accesses"));
    let memory = &w.config.memory;
    let cycles = w.seconds() * memory.interconnect.clock.0 as f64;
    let carried = cycles * f64::from(memory.fabric.bytes_per_cycle);
    let per_packet = |counter: &str| over(w.n(&format!("fabric.{counter}")), frames);
    g.put(
        "request_hops_per_packet",
        per_packet("request_hops"),
        "links that requests and snoops took, a delivered packet",
    );
    g.put(
        "line_hops_per_packet",
        over(w.n("fabric.byte_hops") / 64.0, frames),
        "the same of lines of 64 bytes",
    );
    g.put(
        "wait_cycles_per_packet",
        per_packet("wait_cycles"),
        "interconnect cycles for which they waited for links",
    );
    g.put(
        "mean_link_use",
        over(links.iter().sum::<f64>(), carried * links.len() as f64),
        "share of the links' bytes a cycle that lines took",
    );
    g.put(
        "busiest_link_use",
        over(links.iter().copied().fold(0.0, f64::max), carried),
        "the same of the one that carried most",
    );
    g.put(
        "slice_imbalance",
        imbalance(&slices),
        "requests to the slice that had most, over the mean of all: 1 where all have the same",
    );
    Some(g)
}
