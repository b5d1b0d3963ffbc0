//! Transfers per core, for servers on several cores, and results of a traffic monitor.

use crate::html_table::HtmlTable;
use crate::number::{NONE, fixed, grouped, percent};
use crate::page;
use doorbell_results::{PointSummary, TransferCore, WatchedFigures};

/// Results of a traffic monitor (such as an IDS), one line each.
pub(crate) fn monitor_lines(points: &[&PointSummary]) -> Vec<String> {
    let all = points.iter().filter_map(|point| point.transfer.as_ref()?.watched.as_ref());
    all.map(line).collect()
}

fn line(own: &WatchedFigures) -> String {
    let WatchedFigures { program, frames, seen, dropped, alerts } = own;
    let [frames, seen, dropped, alerts] = [frames, seen, dropped, alerts].map(|count| grouped(*count));
    let share = percent(own.seen_share());
    format!(
        "Monitor: {program} captured {seen} of {frames} frames received or sent ({share} %), {dropped} were dropped at its full ring; alerts: {alerts}."
    )
}

/// The section; empty for servers on one core.
pub(crate) fn html(points: &[&PointSummary]) -> String {
    let cores: Vec<(&str, &TransferCore)> = points
        .iter()
        .flat_map(|point| {
            point.transfer.iter().flat_map(|own| &own.cores).map(|core| (point.rate.as_str(), core))
        })
        .collect();
    if cores.is_empty() {
        return String::new();
    }
    let mut out = page::section("moved", "Transfers per core");
    let heads =
        ["Core", "Load", "Ports", "Goodput, Gbps", "Transactions per second", "Frames received by its queue"];
    let mut table = HtmlTable::begin("Transfers per core, table", "numbers few", heads, &mut out);
    for (load, core) in cores {
        let ports: Vec<String> = core.ports.iter().map(u16::to_string).collect();
        let cells = [
            load.to_owned(),
            ports.join(", "),
            core.goodput_gbps.map_or(NONE.to_owned(), |gbps| fixed(gbps, 3)),
            core.transactions_per_second.map_or(NONE.to_owned(), |rate| fixed(rate, 0)),
            grouped(core.queue_received),
        ];
        table.row(core.core, cells);
    }
    table.end();
    out.push_str("</section>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use doorbell_results::TransferFigures;

    #[test]
    fn monitor_results_are_shown_on_the_terminal_and_on_the_page() {
        let mut summary = sample::single(0);
        let watched = WatchedFigures {
            program: "suricata".to_owned(),
            frames: 26_196,
            seen: 3_502,
            dropped: 22_694,
            alerts: 0,
        };
        let expected = "Monitor: suricata captured 3,502 of 26,196 frames received or sent (13.368 %), 22,694 were dropped at its full ring; alerts: 0.";
        assert!(!crate::table(&summary).contains("Monitor:"));
        let transfer = TransferFigures { watched: Some(watched), ..TransferFigures::default() };
        summary.points[0].transfer = Some(transfer);
        assert!(crate::table(&summary).contains(expected), "{}", crate::table(&summary));
        assert!(crate::html(&summary, "").contains(expected));
    }

    #[test]
    fn several_cores_have_a_row_each_and_one_core_no_table() {
        let mut point = sample::single(0).points.remove(0);
        point.transfer = Some(TransferFigures::default());
        assert_eq!(html(&[&point]), "");
        let core = |core, transactions_per_second| TransferCore {
            core,
            ports: vec![6379 + core as u16],
            transactions_per_second,
            queue_received: 1555,
            ..TransferCore::default()
        };
        point.transfer.as_mut().unwrap().cores = vec![core(0, Some(277_499.0)), core(1, None)];
        let page = html(&[&point]);
        assert!(page.contains("<td>6379</td><td>–</td><td>277,499</td><td>1,555</td>"), "{page}");
        assert!(page.contains("<td>6380</td><td>–</td><td>–</td>"), "{page}");
    }
}
