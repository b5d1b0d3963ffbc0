//! CPU time by kind: lines for the terminal and a table for the page. A run without profiling has neither.

use std::fmt::Write;

use crate::escape::Esc;
use crate::functions::{cut, per};
use crate::html_table::HtmlTable;
use crate::number::{NONE, count, fixed, grouped, short};
use doorbell_results::{KindCost, KindFigures};

const NAME_WIDTH: usize = 24;

fn ipc(cost: &KindCost) -> String {
    fixed(cost.instructions as f64 / cost.cycles.max(1) as f64, 2)
}

fn per_kb(cost: &KindCost) -> String {
    cost.misses_per_kb.map_or(NONE.to_owned(), short)
}

/// A line per kind, in the order of the file.
pub(crate) fn lines(kinds: &KindFigures, frames: u64, out: &mut String) {
    let _ = writeln!(
        out,
        "  {:<NAME_WIDTH$}{:>9}{:>10}{:>6}{:>8}{:>14}",
        "kind", "share", "cyc/pkt", "IPC", "LLC", "LLC miss/KB"
    );
    for cost in &kinds.kinds {
        let _ = writeln!(
            out,
            "  {:<NAME_WIDTH$}{:>7} %{:>10}{:>6}{:>8}{:>14}",
            cut(&cost.kind, NAME_WIDTH),
            fixed(100.0 * cost.share, 1),
            per(cost.cycles, frames),
            ipc(cost),
            count(cost.llc_misses),
            per_kb(cost)
        );
    }
    for note in notes(kinds) {
        let _ = writeln!(out, "  {note}");
    }
}

/// Notes on figures without a column.
fn notes(kinds: &KindFigures) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(frames) = kinds.frames_per_interrupt {
        let sent = kinds.frames_sent as f64 / kinds.interrupts as f64;
        notes.push(format!(
            "{} NIC interrupts per second, {} received and {} sent frames per interrupt",
            grouped(kinds.interrupts_per_second.round() as u64),
            short(frames),
            short(sent)
        ));
    }
    // A smaller share would display as 0.0 %.
    if kinds.unnamed_share() >= 0.0005 {
        notes.push(format!(
            "{} % of all cycles are in functions without a name, classified only by file, program or callers",
            fixed(100.0 * kinds.unnamed_share(), 1)
        ));
    }
    notes
}

/// The table of a machine at a load.
pub(crate) fn html(machine: &str, kinds: &KindFigures, frames: u64, out: &mut String) {
    let _ = writeln!(out, "<h3>CPU time by kind at {}</h3>", Esc(machine));
    let heads = [
        "Kind",
        "share, %",
        "cycles",
        "cycles per packet",
        "instructions",
        "IPC",
        "LLC misses",
        "LLC misses per KB",
        "cycles without a name",
    ];
    let mut table = HtmlTable::begin("CPU time by kind", "numbers few profile", heads, out);
    for cost in &kinds.kinds {
        let cells = [
            fixed(100.0 * cost.share, 2),
            grouped(cost.cycles),
            per(cost.cycles, frames),
            grouped(cost.instructions),
            ipc(cost),
            grouped(cost.llc_misses),
            per_kb(cost),
            grouped(cost.unnamed_cycles),
        ];
        table.explained_name(&cost.kind, &cost.meaning).cells(cells).end_row();
    }
    table.end();
    by_hart(kinds, out);
    for note in notes(kinds) {
        let _ = writeln!(out, "<p class=\"facts\">{}.</p>", Esc(&note));
    }
}

/// Shares of each core's cycles, one row per core.
fn by_hart(kinds: &KindFigures, out: &mut String) {
    if kinds.harts.is_empty() {
        return;
    }
    let heads = ["Core, % of its cycles", "cycles"].map(|head| (head, None)).into_iter();
    let heads = heads.chain(kinds.kinds.iter().map(|cost| (cost.kind.as_str(), Some(&cost.meaning))));
    let label = "CPU time by kind and core";
    let mut table = HtmlTable::begin_explained(label, "numbers few profile", heads, out);
    for of in &kinds.harts {
        let share = |cost: &KindCost| {
            let own = of.kinds.iter().find(|own| own.kind == cost.kind);
            own.map_or(NONE.to_owned(), |own| fixed(100.0 * own.share, 2))
        };
        table.name(of.hart).cells([grouped(of.cycles)]).cells(kinds.kinds.iter().map(share)).end_row();
    }
    table.end();
}

#[cfg(test)]
mod tests {
    use doorbell_results::HartKinds;

    use super::*;
    use crate::sample;
    use crate::text::profile_text;

    fn profiled() -> crate::RunSummary {
        let mut summary = sample::loads();
        let cost = |kind: &str, cycles: u64| KindCost {
            kind: kind.into(),
            meaning: "what <it> is".into(),
            cycles,
            share: cycles as f64 / 4e6,
            instructions: 2 * cycles,
            llc_misses: 5,
            misses_per_kb: (kind != "idle").then_some(0.25),
            unnamed_cycles: if kind == "user" { 40_000 } else { 0 },
        };
        summary.points[0].kinds = Some(KindFigures {
            kinds: vec![cost("user", 1_000_000), cost("<driver>", 2_000_000), cost("idle", 1_000_000)],
            cycles: 4_000_000,
            frames_received: 300,
            frames_sent: 150,
            interrupts: 100,
            frames_per_interrupt: Some(3.0),
            interrupts_per_second: 12_345.0,
            ..KindFigures::default()
        });
        summary
    }

    #[test]
    fn the_terminal_has_a_line_per_kind_and_the_interrupt_rate() {
        let text = profile_text(&profiled().points[0]);
        let lines: Vec<&str> =
            text.lines().skip_while(|line| !line.contains("LLC miss/KB")).take(6).collect();
        assert!(lines[1].starts_with("  user ") && lines[1].contains("25.0 %"), "{text}");
        assert!(lines[1].ends_with("0.250") && lines[3].ends_with(NONE), "{text}");
        assert_eq!(
            lines[4],
            "  12,345 NIC interrupts per second, 3.00 received and 1.50 sent frames per interrupt"
        );
        assert!(lines[5].starts_with("  1.0 % of all cycles are in functions without a name"), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= crate::text::WIDTH), "{text}");
        assert_eq!(profile_text(&sample::loads().points[0]), "");
    }

    #[test]
    fn the_page_has_a_row_per_kind_a_figure_and_escapes_names() {
        let summary = profiled();
        let page = crate::html(&summary, "");
        assert!(page.contains("CPU time by kind at") && page.contains("&lt;driver&gt;"), "{page}");
        assert!(!page.contains("<driver>") && !page.contains("<it>"));
        assert!(page.contains("<figure id=\"kinds-64\">"));
        assert!(!page.contains("by kind and core"), "a single core has no table per core");
        let mut summary = summary;
        let kinds = summary.points[0].kinds.as_mut().unwrap();
        kinds.harts = vec![HartKinds { hart: 1, cycles: 1234, kinds: kinds.kinds[..1].to_vec() }];
        let page = crate::html(&summary, "");
        let heads = "<th scope=\"col\">cycles</th><th scope=\"col\" title=\"what &lt;it&gt; is\">user</th>";
        assert!(page.contains(heads), "{page}");
        assert!(page.contains("<th scope=\"row\">1</th><td>1,234</td><td>25.00</td><td>–</td><td>–</td>"));
        assert!(!crate::html(&sample::loads(), "").contains("CPU time by kind"));
    }
}
