//! Results of co-running traces, played alongside a machine or another trace.

use std::fmt::Write;

use crate::escape::Esc;
use crate::html_table::HtmlTable;
use crate::number::one_line;
use crate::number::{NONE, fixed, grouped};
use crate::page;
use doorbell_results::{PlayedNeighbour, PointSummary, finite};

/// Page section with the traces played alongside a machine, at each load.
pub(crate) fn html(points: &[&PointSummary]) -> String {
    if points.iter().all(|point| point.beside.is_empty()) {
        return String::new();
    }
    let mut out = page::section("beside", "Co-running traces");
    points.iter().for_each(|point| table(&format!("At {}", point.rate), &point.beside, &mut out));
    out + "</section>\n"
}

/// The same as lines for the terminal.
pub(crate) fn lines(point: &PointSummary) -> Vec<String> {
    lines_of(&point.beside, &format!("Co-running at {}", one_line(&point.rate)))
}

/// Terminal lines; `what` is the beginning of each.
pub(crate) fn lines_of(all: &[PlayedNeighbour], what: &str) -> Vec<String> {
    let line = |next: &PlayedNeighbour| {
        let ipc = finite(next.ipc).map_or(NONE.to_owned(), |ipc| fixed(ipc, 3));
        let (file, instructions) = (one_line(&next.file), grouped(next.instructions));
        format!(
            "{what}, from core {} on: {file}, {ipc} instructions per cycle ({instructions} in total)",
            next.first_core
        )
    };
    all.iter().map(line).collect()
}

/// Page table of co-running traces.
pub(crate) fn table(heading: &str, all: &[PlayedNeighbour], out: &mut String) {
    if all.is_empty() {
        return;
    }
    let _ = writeln!(out, "<h3>{}</h3>", Esc(heading));
    let heads = ["Trace", "From core", "Instructions", "IPC", "Restarts"];
    let mut table = HtmlTable::begin(format!("{heading}, table"), "numbers few", heads, out);
    for next in all {
        let ipc = finite(next.ipc).map_or(NONE.to_owned(), |ipc| fixed(ipc, 3));
        let cells = [next.first_core.to_string(), grouped(next.instructions), ipc, grouped(next.rounds)];
        table.row(&next.file, cells);
    }
    table.end();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn co_running_traces_are_shown_on_the_page_and_in_the_terminal() {
        let mut point = sample::single(0).points.remove(0);
        assert_eq!((html(&[&point]), lines(&point)), (String::new(), Vec::new()));
        point.beside = vec![PlayedNeighbour {
            file: "<mcf>.xz".into(),
            first_core: 1,
            instructions: 1234,
            ipc: 0.25,
            rounds: 2,
        }];
        let page = html(&[&point]);
        assert!(
            page.contains("&lt;mcf&gt;.xz</th><td>1</td><td>1,234</td><td>0.250</td><td>2</td>"),
            "{page}"
        );
        assert_eq!(
            lines(&point),
            ["Co-running at 1Mpps, from core 1 on: <mcf>.xz, 0.250 instructions per cycle (1,234 in total)"]
        );
    }
}
