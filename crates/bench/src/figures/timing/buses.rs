//! Figures of the buses by which NICs are attached, those on the die among them.

use super::figures::{Filling, over};
use super::models::Models;
use super::span::View;

/// Of each port that has any.
pub(super) fn buses(w: &View, models: &Models) -> Filling {
    let mut g = Filling::new("buses");
    g.put(
        "read_round_trip_ns",
        over(w.n("bus.round_trip_ps") * 1e-3, w.n("bus.reads")),
        "from a DMA read request to its last byte, a transaction",
    );
    g.put(
        "write_visible_ns",
        over(w.n("bus.write_visible_ps") * 1e-3, w.n("bus.writes")),
        "from a DMA write's first cycle until it is visible, a transaction",
    );
    for (name, attachment) in &models.attached {
        let Some(bus) = attachment.bus() else { continue };
        for stage in 0..bus.stages().count() {
            let n = |what: &str| w.n(&format!("{name}.bus.stage{stage}.{what}"));
            for (way, meaning) in [("up", "from"), ("down", "to")] {
                g.put(
                    format!("{name}_stage{stage}_{way}_gbps"),
                    over(n(&format!("{way}_bytes")) * 8e-9, w.seconds()),
                    format!("Gbps of data {meaning} {name} on its bus {stage}, counted from the device"),
                );
                g.put(
                    format!("{name}_stage{stage}_{way}_busy"),
                    over(n(&format!("{way}_busy_ps")) * 1e-12, w.seconds()),
                    "share of the time that transfers this way took, and reads held the bus",
                );
            }
        }
    }
    g
}
