//! Figures of the buses that attach NICs, including on-die buses.

use doorbell_machine::{BusStats, StageStats};
use doorbell_results::TimingFigures;
use doorbell_results::figures::BUSES;
use doorbell_sim::stats::Stats;

use super::span::View;
use crate::ratio::ratio;

/// The figures of all ports with a bus; none if there is no such port.
pub(super) fn buses(w: &View, g: &mut TimingFigures) {
    let buses: Vec<(String, BusStats, Vec<StageStats>)> = w
        .attached()
        .into_iter()
        .filter_map(|of| of.bus.map(|(all, stages)| (of.name, all, stages)))
        .collect();
    if buses.is_empty() {
        return;
    }
    let all = BusStats::sum(buses.iter().map(|(_, bus, _)| bus.clone()));
    g.put(BUSES.read_round_trip_ns, ratio(all.round_trip_ps as f64 * 1e-3, all.reads));
    g.put(BUSES.write_visible_ns, ratio(all.write_visible_ps as f64 * 1e-3, all.writes));
    for (name, _, stages) in &buses {
        for (number, stage) in stages.iter().enumerate() {
            let (instance, meaning) =
                (format!("{name}_stage{number}"), format!("{name} on its bus {number}"));
            let gbps = |bytes: u64| ratio(bytes as f64 * 8e-9, w.seconds());
            let busy = |ps: u64| ratio(ps as f64 * 1e-12, w.seconds());
            g.put_for(BUSES.stage_up_gbps, &instance, &meaning, gbps(stage.up_bytes));
            g.put_for(BUSES.stage_up_busy, &instance, &meaning, busy(stage.up_busy_ps));
            g.put_for(BUSES.stage_down_gbps, &instance, &meaning, gbps(stage.down_bytes));
            g.put_for(BUSES.stage_down_busy, &instance, &meaning, busy(stage.down_busy_ps));
        }
    }
}
