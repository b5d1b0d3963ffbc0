//! Cost of the guest's functions: lines for the terminal and a table for the page. A run without profiling
//! has neither.

use std::fmt::Write;

use crate::escape::Esc;
use crate::html_table::HtmlTable;
use crate::kinds;
use crate::number::{NONE, count, fixed, grouped};
use doorbell_results::{FunctionCost, MachineProfile, PointSummary};

/// Number of functions shown on the terminal.
const LINES: usize = 12;
/// Maximum width of a name on the terminal.
const NAME_WIDTH: usize = 36;

fn ipc(row: &FunctionCost) -> String {
    fixed(row.instructions as f64 / row.cycles.max(1) as f64, 2)
}

pub(crate) fn per(amount: u64, frames: u64) -> String {
    match amount as f64 / frames as f64 {
        _ if frames == 0 => NONE.to_owned(),
        many if many >= 10_000.0 => grouped(many as u64),
        few => fixed(few, 1),
    }
}

pub(crate) fn cut(text: &str, width: usize) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    if text.chars().count() <= width {
        return text;
    }
    let mut short: String = text.chars().take(width - 1).collect();
    short.push('…');
    short
}

/// Profile of a point: CPU time by kind, then the most expensive functions.
pub(crate) fn lines(point: &PointSummary, out: &mut String) {
    for (number, profiled) in point.profiles().enumerate() {
        if number > 0 {
            out.push('\n');
        }
        if !profiled.node.is_empty() {
            let _ = writeln!(out, "  {}", cut(profiled.node, NAME_WIDTH));
        }
        if let Some(kinds) = profiled.kinds {
            kinds::lines(kinds, profiled.frames, out);
            if !profiled.functions.is_empty() {
                out.push('\n');
            }
        }
        function_lines(&profiled, out);
    }
}

fn function_lines(profiled: &MachineProfile, out: &mut String) {
    if profiled.functions.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "  {:<NAME_WIDTH$} {:<18}{:>8}{:>10}{:>6}{:>8}{:>8}",
        "function", "of", "share", "cyc/pkt", "IPC", "L1D", "LLC"
    );
    for row in profiled.functions.iter().take(LINES) {
        let _ = writeln!(
            out,
            "  {:<NAME_WIDTH$} {:<18}{:>6} %{:>10}{:>6}{:>8}{:>8}",
            cut(&row.function, NAME_WIDTH),
            cut(&row.object, 17),
            fixed(100.0 * row.share, 1),
            per(row.cycles, profiled.frames),
            ipc(row),
            count(row.l1d_misses),
            count(row.llc_misses)
        );
    }
}

/// The tables of all points: kinds, then functions.
pub(crate) fn html(points: &[&PointSummary]) -> String {
    let mut out = String::new();
    for (point, profiled) in points.iter().flat_map(|point| point.profiles().map(move |of| (point, of))) {
        let machine = match profiled.node {
            "" => point.rate.clone(),
            node => format!("{}, {node}", point.rate),
        };
        if let Some(kinds) = profiled.kinds {
            kinds::html(&machine, kinds, profiled.frames, &mut out);
        }
        let _ = writeln!(out, "<h3>Functions at {}</h3>", Esc(&machine));
        let heads = [
            "Function",
            "of",
            "in",
            "share, %",
            "cycles",
            "cycles per packet",
            "instructions",
            "IPC",
            "L1I misses",
            "L1D misses",
            "L2 misses",
            "LLC misses",
        ];
        let mut table = HtmlTable::begin("Functions", "numbers few profile long", heads, &mut out);
        for row in profiled.functions {
            let cells = [
                row.object.clone(),
                row.program.clone(),
                fixed(100.0 * row.share, 2),
                grouped(row.cycles),
                per(row.cycles, profiled.frames),
                grouped(row.instructions),
                ipc(row),
                grouped(row.l1i_misses),
                grouped(row.l1d_misses),
                grouped(row.l2_misses),
                grouped(row.llc_misses),
            ];
            table.row(&row.function, cells);
        }
        table.end();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::text::profile_text;

    fn profiled() -> crate::RunSummary {
        let mut summary = sample::loads();
        let point = &mut summary.points[0];
        let row = |number: u64| FunctionCost {
            program: "dpdk-testpmd".into(),
            object: "librte_<net>.so.25".into(),
            function: format!("function_{number}_{}", "x".repeat(number as usize * 4)),
            cycles: 3_000_000 / number,
            share: 0.5 / number as f64,
            instructions: 6_000_000,
            l1i_misses: 1,
            l1d_misses: 1234,
            l2_misses: 3,
            llc_misses: 4,
        };
        point.functions = Some((1..=14).map(row).collect());
        summary
    }

    #[test]
    fn the_terminal_shows_the_twelve_most_expensive_functions_within_its_width() {
        let text = profile_text(&profiled().points[0]);
        let lines: Vec<&str> = text.lines().skip_while(|line| !line.contains("cyc/pkt")).collect();
        assert!(lines[1].contains("function_1_xxxx") && lines[1].contains("50.0 %"), "{text}");
        assert!(lines.iter().filter(|line| line.contains("function_")).count() == 12, "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= crate::text::WIDTH), "{text}");
        assert_eq!(profile_text(&sample::loads().points[0]), "");
    }

    #[test]
    fn the_page_has_all_rows_and_escapes_names() {
        let summary = profiled();
        let page = html(&summary.points.iter().collect::<Vec<_>>());
        assert_eq!(page.matches("<tr><th scope=\"row\">").count(), 14);
        assert!(page.contains("librte_&lt;net&gt;.so.25") && !page.contains("<net>"));
        assert_eq!(html(&sample::loads().points.iter().collect::<Vec<_>>()), "");
    }
}
