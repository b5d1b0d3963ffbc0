//! Per-core results at each load, for timed runs with several cores: IPC, sleep, top-down slots, misses.

use std::fmt::Write;

use crate::escape::Esc;
use crate::html_table::HtmlTable;
use crate::number::{NONE, fixed, grouped, short};
use crate::page;
use doorbell_results::figures::{CORE_BALANCE, L1D, L2, OWN_PACKETS, PACE, PACKET_COST, TOP_DOWN};
use doorbell_results::{CoreFigures, FigureKey, PointSummary, Unit};

/// Head of a column, and its figure.
const COLUMNS: [(&str, FigureKey); 14] = [
    ("IPC", PACE.ipc),
    ("Asleep, %", PACE.asleep_share),
    ("Busy, %", PACKET_COST.busy_share),
    ("Retiring, %", TOP_DOWN.retiring),
    ("Bad speculation, %", TOP_DOWN.bad_speculation),
    ("Frontend bound, %", TOP_DOWN.frontend_bound),
    ("Backend bound, %", TOP_DOWN.backend_bound),
    ("L1D MPKI", L1D.mpki),
    ("L2 MPKI", L2.mpki),
    ("Packets found", OWN_PACKETS.packets),
    ("Busy cycles per packet", OWN_PACKETS.busy_cycles),
    ("Instructions per packet", OWN_PACKETS.busy_instructions),
    ("Empty polls", OWN_PACKETS.empty_polls),
    ("In empty polls, %", OWN_PACKETS.empty_share),
];

/// The page section; empty for a run with one core, or without timing.
pub(crate) fn html(points: &[&PointSummary]) -> String {
    if points.iter().all(|point| point.cores.len() < 2) {
        return String::new();
    }
    let mut out = page::section("cores", "Results per core");
    let heads = ["Core", "Load", "Kind", "GHz"].into_iter().chain(COLUMNS.map(|(head, ..)| head));
    let mut table = HtmlTable::begin("Cores", "numbers few", heads, &mut out);
    for point in points {
        for core in &point.cores {
            table
                .name(name(core))
                .cells([&point.rate, &core.kind, &short(core.frequency_ghz)])
                .cells(COLUMNS.map(|(_, key)| cell(core, key)))
                .end_row();
        }
    }
    table.end();
    for point in points {
        if let Some(imbalance) = point.figure(CORE_BALANCE.imbalance) {
            let (rate, imbalance) = (Esc(&point.rate), fixed(imbalance, 2));
            let _ = writeln!(
                out,
                "<p class=\"facts\">At {rate} the core that found most packets had {imbalance} times the mean of all polling cores.</p>"
            );
        }
    }
    out.push_str("</section>\n");
    out
}

/// Number of a hart, with core and thread if available.
fn name(figures: &CoreFigures) -> String {
    match (figures.core, figures.thread) {
        (Some(core), Some(thread)) => format!("hart {}: core {core}, thread {thread}", figures.hart),
        (Some(core), None) => format!("core {core}: both threads"),
        _ => figures.hart.to_string(),
    }
}

fn cell(core: &CoreFigures, key: FigureKey) -> String {
    match (core.figures.get(key), key.unit) {
        (None, _) => NONE.to_owned(),
        (Some(share), Unit::Share) => fixed(share * 100.0, 1),
        (Some(count), Unit::Count) => grouped(count as u64),
        (Some(value), _) => short(value),
    }
}

#[cfg(test)]
mod tests {
    use doorbell_results::TimingFigures;

    use super::*;

    fn core(hart: usize, ipc: f64) -> CoreFigures {
        let mut figures = TimingFigures::default();
        figures.put(PACE.ipc, Some(ipc));
        CoreFigures {
            hart,
            core: None,
            thread: None,
            kind: "in-order".to_owned(),
            frequency_ghz: 2.2,
            figures,
        }
    }

    #[test]
    fn several_cores_have_a_row_each_and_a_single_core_has_no_table() {
        let one = PointSummary { cores: vec![core(0, 1.5)], ..PointSummary::default() };
        assert_eq!(html(&[&one]), "");
        let two = PointSummary { cores: vec![core(0, 1.5), core(1, 0.25)], ..PointSummary::default() };
        let page = html(&[&two]);
        assert_eq!(page.matches("<th scope=\"row\">").count(), 2, "{page}");
        for expected in ["<td>in-order</td><td>2.20</td><td>1.50</td>", "<td>0.250</td>", NONE] {
            assert!(page.contains(expected), "no {expected}: {page}");
        }
    }
}
