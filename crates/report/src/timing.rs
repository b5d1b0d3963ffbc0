//! Figures of the timing models for each load: stored values, a table for the terminal, and one for the page.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::escape::Esc;
use crate::html_table::HtmlTable;
use crate::number::{NONE, fixed, grouped, short};
use crate::page;
use doorbell_results::figures::{DCA, L1D, L2, LLC, PACKET_COST, PCIE, TOP_DOWN};
use doorbell_results::{FigureKey, PointSummary, TimingFigure, TimingGroup, Unit};

/// Heading, then per column its head and its figure.
type Heading = (&'static str, &'static [(&'static str, FigureKey)]);

/// Columns shown on the terminal for each load.
const COLUMNS: [Heading; 4] = [
    (
        "per packet, useful polls",
        &[
            ("instr", PACKET_COST.busy_instructions),
            ("cycles", PACKET_COST.busy_cycles),
            ("IPC", PACKET_COST.busy_ipc),
            ("satur", PACKET_COST.saturation),
        ],
    ),
    (
        "top-down, %",
        &[
            ("ret", TOP_DOWN.retiring),
            ("spec", TOP_DOWN.bad_speculation),
            ("front", TOP_DOWN.frontend_bound),
            ("back", TOP_DOWN.backend_bound),
        ],
    ),
    (
        "misses per packet",
        &[
            ("L1D", L1D.misses_per_packet),
            ("L2", L2.misses_per_packet),
            ("LLC", LLC.misses_per_packet),
            ("leaks", DCA.leaks_per_packet),
        ],
    ),
    ("PCIe B / packet", &[("up", PCIE.up_bytes_per_packet), ("down", PCIE.down_bytes_per_packet)]),
];

/// A heading with the columns below it, each with a head and its cells.
type ColumnGroup = (&'static str, Vec<(&'static str, Vec<String>)>);

/// Columns of the terminal's second table; empty if the run was not timed.
pub(crate) fn columns(points: &[&PointSummary]) -> Vec<ColumnGroup> {
    if points.iter().all(|point| point.timing.is_none()) {
        return Vec::new();
    }
    let cell = |point: &PointSummary, key: FigureKey| match point.figure(key) {
        Some(value) if key.unit == Unit::Share => {
            format!("{}{}", at_most(point, key), fixed(100.0 * value, 1))
        }
        Some(value) => short(value),
        None => NONE.to_owned(),
    };
    let column = |&(head, key): &(&'static str, FigureKey)| {
        (head, points.iter().map(|point| cell(point, key)).collect())
    };
    COLUMNS.iter().map(|(title, columns)| (*title, columns.iter().map(column).collect())).collect()
}

/// Share that displays as 100 %; a bound of 100 % is not informative.
const ALL: f64 = 0.9995;

/// Prefix of a figure that is only an upper bound.
fn at_most(point: &PointSummary, key: FigureKey) -> &'static str {
    // Older files lack this.
    let value = |key| point.figure(key).unwrap_or(0.0);
    let is_bound = key == PACKET_COST.saturation && value(PACKET_COST.saturation_is_bound) > 0.0;
    if is_bound && value(key) < ALL { "≤" } else { "" }
}

/// A cell of the page's table: large values as counts, small ones with three digits.
fn cell(value: Option<f64>) -> String {
    match value {
        None => NONE.to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(value) if (9_999.5..1e18).contains(&value) => grouped(value.round() as u64),
        Some(value) => short(value),
    }
}

/// The page section: every figure at every load, collapsible by group.
pub(crate) fn html(points: &[&PointSummary], meanings: &BTreeMap<String, String>) -> String {
    let Some(first) = points.iter().find_map(|point| point.timing.as_ref()) else { return String::new() };
    let mut out = page::section("timing", "Where cycles and bytes went");
    out.push_str(
        "<p class=\"facts\">Results of the timing models for the measurement. The tooltip of a name \
         explains it.</p>\n",
    );
    for (index, TimingGroup { name: group, figures }) in first.0.iter().enumerate() {
        let open = if index < 2 { " open" } else { "" };
        let _ = writeln!(out, "<details class=\"port\"{open}>\n<summary>{}</summary>", Esc(group));
        let heads = ["Requested load"].into_iter().chain(points.iter().map(|point| point.rate.as_str()));
        let mut table = HtmlTable::begin(group, "numbers few", heads, &mut out);
        for TimingFigure { name, .. } in figures {
            let meaning = meanings.get(&format!("{group}.{name}")).map_or("", String::as_str);
            let shown = name.replace('_', " ");
            let value = |point: &&PointSummary| {
                cell(point.timing.as_ref().and_then(|timing| timing.named(group, name)))
            };
            table.explained_name(shown, meaning).counts(points.iter().map(value)).end_row();
        }
        table.end();
        out.push_str("</details>\n");
    }
    out.push_str("</section>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::text::table;

    fn timed() -> crate::RunSummary {
        let mut summary = sample::loads();
        let text = r#"{"top-down": {"retiring": 0.7, "bad_speculation": 0.05, "frontend_bound": 0.05, "backend_bound": 0.2},
            "packet cost": {"busy_instructions": 650.4, "busy_cycles": 268.2, "busy_ipc": 2.425, "busy_share": null},
            "CPI stack": {"base": 0.26, "l2": 0.1, "idle": 0.0}}"#;
        summary.points[0].timing = Some(serde_json::from_str(text).unwrap());
        summary
    }

    #[test]
    fn the_terminal_has_a_second_table_for_a_timed_run() {
        let text = table(&timed());
        let line = text.lines().find(|line| line.contains("650")).unwrap_or_else(|| panic!("{text}"));
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(cells[..8], ["1.000", "650", "268", "2.42", NONE, "70.0", "5.0", "5.0"], "{text}");
        assert!(!table(&sample::loads()).contains("top-down"));
    }

    #[test]
    fn bounds_are_marked() {
        let mut summary = sample::single(0);
        for (value, is_bound, shown) in
            [("0.536", "0.0", " 53.6 "), ("0.536", "1.0", "≤53.6 "), ("1.0", "1.0", " 100.0 ")]
        {
            let text =
                format!(r#"{{"packet cost": {{"saturation": {value}, "saturation_is_bound": {is_bound}}}}}"#);
            summary.points[0].timing = Some(serde_json::from_str(&text).unwrap());
            assert!(table(&summary).contains(shown), "{}", table(&summary));
        }
    }

    #[test]
    fn the_page_keeps_the_file_order_and_explains_names() {
        let summary = timed();
        let all: Vec<&PointSummary> = summary.points.iter().collect();
        let meanings = BTreeMap::from([("CPI stack.l2".to_owned(), "cycles <of> L2".to_owned())]);
        let page = html(&all, &meanings);
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text} in {page}"));
        assert!(at(">top-down<") < at(">packet cost<") && at(">packet cost<") < at(">CPI stack<"));
        assert!(page.contains("title=\"cycles &lt;of&gt; L2\">l2</th><td>0.100</td>"), "{page}");
        assert_eq!(html(&sample::loads().points.iter().collect::<Vec<_>>(), &meanings), "");
    }

    #[test]
    fn every_name_of_the_terminals_tables_is_in_the_glossary() {
        let glossary = include_str!("../../../docs/glossary.md");
        let columns = COLUMNS.iter().flat_map(|(_, columns)| *columns);
        // The glossary's other tables have no column for the name in the file.
        for (head, key) in columns.clone().filter(|(_, key)| key.group == PACKET_COST.ipc.group) {
            let row = glossary.lines().find(|line| line.starts_with(&format!("| `{head}`")));
            assert!(row.is_some_and(|row| row.contains(&format!("`{}`", key.name))), "{head}: {row:?}");
        }
        let timed = columns.map(|(head, _)| *head);
        let lost = crate::causes::CAUSES.iter().map(|cause| cause.key);
        for name in
            timed.chain(lost).chain(["offered", "delivered", "lost", "goodput", "transactions", "rest"])
        {
            assert!(glossary.contains(&format!("`{name}`")), "{name}");
        }
    }
}
