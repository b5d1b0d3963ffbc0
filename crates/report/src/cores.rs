//! Per-core results at each load, for timed runs with several cores: IPC, sleep, top-down slots, misses.

use std::fmt::Write;

use crate::escape::Esc;
use crate::html_table::HtmlTable;
use crate::number::{NONE, fixed, grouped, short};
use doorbell_results::{CoreFigures, PointSummary};

/// Head of a column, its group and name in the file, and whether it is a share to be shown in percent.
const COLUMNS: [(&str, &str, &str, bool); 14] = [
    ("IPC", "pace", "ipc", false),
    ("Asleep, %", "pace", "asleep_share", true),
    ("Busy, %", "packet cost", "busy_share", true),
    ("Retiring, %", "top-down", "retiring", true),
    ("Bad speculation, %", "top-down", "bad_speculation", true),
    ("Frontend bound, %", "top-down", "frontend_bound", true),
    ("Backend bound, %", "top-down", "backend_bound", true),
    ("L1D MPKI", "L1D", "mpki", false),
    ("L2 MPKI", "L2", "mpki", false),
    ("Packets found", "own packets", "packets", false),
    ("Busy cycles per packet", "own packets", "busy_cycles", false),
    ("Instructions per packet", "own packets", "busy_instructions", false),
    ("Empty polls", "own packets", "empty_polls", false),
    ("In empty polls, %", "own packets", "empty_share", true),
];

/// Columns that are whole numbers.
const COUNTS: [&str; 2] = ["packets", "empty_polls"];

/// The page section; empty for a run with one core, or without timing.
pub(crate) fn html(points: &[&PointSummary]) -> String {
    if points.iter().all(|point| point.cores.len() < 2) {
        return String::new();
    }
    let mut out =
        String::from("<section aria-labelledby=\"cores\">\n<h2 id=\"cores\">Results per core</h2>\n");
    let heads = ["Core", "Load", "Kind", "GHz"].into_iter().chain(COLUMNS.map(|(head, ..)| head));
    let mut table = HtmlTable::begin("Cores", "numbers few", heads, &mut out);
    for point in points {
        for core in &point.cores {
            table
                .name(name(core))
                .cells([&point.rate, &core.kind, &short(core.frequency_ghz)])
                .cells(COLUMNS.map(|column| cell(core, column)))
                .end_row();
        }
    }
    table.end();
    for point in points {
        let all = point.timing.as_ref();
        if let Some(imbalance) = all.and_then(|timing| timing.get("cores", "imbalance")) {
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

fn cell(core: &CoreFigures, (_, group, name, is_share): (&str, &str, &str, bool)) -> String {
    match core.figures.get(group, name) {
        None => NONE.to_owned(),
        Some(share) if is_share => fixed(share * 100.0, 1),
        Some(count) if COUNTS.contains(&name) => grouped(count as u64),
        Some(value) => short(value),
    }
}

#[cfg(test)]
mod tests {
    use doorbell_results::{TimingFigure, TimingFigures, TimingGroup};

    use super::*;

    fn core(hart: usize, ipc: f64) -> CoreFigures {
        let figure = TimingFigure { name: "ipc".to_owned(), value: Some(ipc), meaning: String::new() };
        let pace = TimingGroup { name: "pace".to_owned(), figures: vec![figure] };
        CoreFigures {
            hart,
            core: None,
            thread: None,
            kind: "in-order".to_owned(),
            frequency_ghz: 2.2,
            figures: TimingFigures(vec![pace]),
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
