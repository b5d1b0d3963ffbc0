//! Figures of the buses that attach NICs, including on-die buses.

use super::figures::{GroupBuilder, ratio};
use super::models::Models;
use super::span::View;

/// The figures of all ports with a bus.
pub(super) fn buses(w: &View, models: &Models) -> GroupBuilder {
    let mut g = GroupBuilder::new("buses");
    g.put(
        "read_round_trip_ns",
        ratio(w.n("bus.round_trip_ps") * 1e-3, w.n("bus.reads")),
        "mean time per transaction from a DMA read request to its last byte",
    );
    g.put(
        "write_visible_ns",
        ratio(w.n("bus.write_visible_ps") * 1e-3, w.n("bus.writes")),
        "mean time per transaction from a DMA write's first cycle until it is visible",
    );
    for (name, attachment) in &models.attached {
        let Some(bus) = attachment.bus() else { continue };
        for stage in 0..bus.stages().count() {
            let n = |what: &str| w.n(&format!("{name}.bus.stage{stage}.{what}"));
            for (way, meaning) in [("up", "from"), ("down", "to")] {
                g.put(
                    format!("{name}_stage{stage}_{way}_gbps"),
                    ratio(n(&format!("{way}_bytes")) * 8e-9, w.seconds()),
                    format!("Gbps of data {meaning} {name} on its bus {stage}; bus 0 is next to the device"),
                );
                g.put(
                    format!("{name}_stage{stage}_{way}_busy"),
                    ratio(n(&format!("{way}_busy_ps")) * 1e-12, w.seconds()),
                    "share of time taken by transfers in this direction, and by reads that hold the bus",
                );
            }
        }
    }
    g
}
