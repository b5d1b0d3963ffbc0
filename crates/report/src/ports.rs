//! Counters of each port in the measurement: the NIC's statistics registers, drop causes and DMA, and the
//! load generator's counts. One collapsible section per port, with one column per load. Counters that are
//! zero at every load are only listed by name.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::escape::Esc;
use crate::number::{grouped, one_line};
use crate::page;
use doorbell_results::{FigureGroup, PointSummary, PortFigures};

/// The section with all ports; empty for a run without such counters.
pub(crate) fn html(points: &[&PointSummary], meanings: &BTreeMap<String, String>) -> String {
    let ports = points.iter().map(|point| point.ports.len()).max().unwrap_or(0);
    if ports == 0 {
        return String::new();
    }
    let mut out = page::section("ports", "NIC counters");
    out.push_str(
        "<p class=\"facts\">In the measurement, without warm-up and drain. Registers have the manual\u{2019}s names; \
         counts that the guest cleared by reading a register are included.</p>\n",
    );
    for port in 0..ports {
        let _ = writeln!(out, "<details class=\"port\">\n<summary>Port {port}</summary>");
        let groups = points.iter().filter_map(|point| point.ports.get(port)).map(|port| &port.groups);
        for (index, group) in groups.clone().next().into_iter().flatten().enumerate() {
            // The same group at each load; a point without it counts as zero.
            let columns: Vec<&FigureGroup> = groups
                .clone()
                .filter_map(|groups| groups.get(index))
                .filter(|g| g.title == group.title)
                .collect();
            table(port, group, &columns, points, meanings, &mut out);
        }
        out.push_str("</details>\n");
    }
    out.push_str("</section>\n");
    out
}

/// Features that guest software requested of a port's NIC and that are not modelled, without repetition.
pub(crate) fn unsupported_notes(points: &[&PointSummary]) -> Vec<String> {
    let mut notes = Vec::new();
    let mut add = |of: &str, ports: &[PortFigures]| {
        for (port, figures) in ports.iter().enumerate() {
            for line in &figures.asked_in_vain {
                let note = format!("{of}ort {port}, not modelled: {line}.");
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
    };
    for point in points {
        add("P", &point.ports);
        for (name, node) in point.network.iter().flat_map(|network| &network.nodes) {
            add(&format!("Node {name}, p"), &node.ports);
        }
    }
    notes
}

/// The same for one point, one line each.
pub fn unsupported_text(point: &PointSummary) -> String {
    unsupported_notes(&[point]).iter().map(|note| one_line(note) + "\n").collect()
}

fn value_of(group: &FigureGroup, name: &str) -> u64 {
    group.figures.iter().find(|figure| figure.name == name).map_or(0, |figure| figure.value)
}

fn table(
    port: usize,
    group: &FigureGroup,
    columns: &[&FigureGroup],
    points: &[&PointSummary],
    meanings: &BTreeMap<String, String>,
    out: &mut String,
) {
    let names = group.figures.iter().map(|figure| figure.name.as_str());
    let (counted, zero): (Vec<&str>, Vec<&str>) =
        names.partition(|name| columns.iter().any(|column| value_of(column, name) != 0));
    let _ = writeln!(out, "<h3>{}</h3>", Esc(&group.title));
    if !counted.is_empty() {
        let _ = write!(
            out,
            "<div class=\"scroll\" role=\"region\" aria-label=\"Port {port}: {}\" tabindex=\"0\">\n\
             <table class=\"numbers counters\">\n<thead><tr><th scope=\"col\">Counter</th>",
            Esc(&group.title)
        );
        for (_, point) in columns.iter().zip(points) {
            let _ = write!(out, "<th scope=\"col\">{}</th>", Esc(&point.rate));
        }
        out.push_str("<th scope=\"col\" class=\"meaning\">Counts</th></tr></thead>\n<tbody>\n");
        for name in counted {
            let _ = write!(out, "<tr><th scope=\"row\">{}</th>", Esc(name));
            for column in columns {
                let value = value_of(column, name);
                let class = if value == 0 { " class=\"zero\"" } else { "" };
                let _ = write!(out, "<td{class}>{}</td>", grouped(value));
            }
            let meaning = meanings.get(name).map_or("", String::as_str);
            let _ = writeln!(out, "<td class=\"meaning\">{}</td></tr>", Esc(meaning));
        }
        out.push_str("</tbody>\n</table></div>\n");
    }
    if !zero.is_empty() {
        let _ = write!(out, "<p class=\"zeros\">Zero: ");
        for (index, name) in zero.iter().enumerate() {
            let meaning = meanings.get(*name).map_or("", String::as_str);
            let comma = if index == 0 { "" } else { ", " };
            let _ = write!(out, "{comma}<span title=\"{}\">{}</span>", Esc(meaning), Esc(name));
        }
        out.push_str("</p>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use doorbell_results::Figure;

    fn port(gprc: u64, mpc: u64) -> PortFigures {
        let figure = |name: &str, value| Figure { name: name.to_owned(), value };
        let figures = vec![figure("GPRC", gprc), figure("MPC", mpc), figure("CRCERRS", 0)];
        PortFigures {
            groups: vec![FigureGroup { title: "Statistics registers".to_owned(), figures }],
            ..PortFigures::default()
        }
    }

    #[test]
    fn requests_for_unmodelled_features_are_reported_once_per_port() {
        let mut summary = sample::loads();
        for point in &mut summary.points {
            let asked_in_vain = vec!["MRQC = 0x3 requests queue pools".to_owned()];
            point.ports = vec![PortFigures::default(), PortFigures { asked_in_vain, ..port(1, 2) }];
        }
        let notes = unsupported_notes(&summary.points.iter().collect::<Vec<_>>());
        assert_eq!(notes, ["Port 1, not modelled: MRQC = 0x3 requests queue pools."]);
        assert!(crate::table(&summary).contains(&notes[0]) && crate::html(&summary, "").contains(&notes[0]));
        assert_eq!(unsupported_text(&summary.points[0]), format!("{}\n", notes[0]), "also without a table");
    }

    #[test]
    fn each_port_has_a_table_with_a_column_per_load_and_zeros_are_only_named() {
        let mut summary = sample::loads();
        summary.points.truncate(2);
        summary.points[0].ports = vec![port(1_234, 0), port(77, 0)];
        summary.points[1].ports = vec![port(5_678, 9), port(88, 0)];
        summary.meanings.insert("MPC".to_owned(), "Frames <missed>".to_owned());
        let page = crate::html(&summary, "");
        assert_eq!(page.matches("<details class=\"port\">").count(), 2);
        for row in [
            "<th scope=\"row\">GPRC</th><td>1,234</td><td>5,678</td>",
            "<th scope=\"row\">MPC</th><td class=\"zero\">0</td><td>9</td><td class=\"meaning\">Frames &lt;missed&gt;</td>",
            "<th scope=\"row\">GPRC</th><td>77</td><td>88</td>",
            "Zero: <span title=\"\">CRCERRS</span></p>",
            "Zero: <span title=\"Frames &lt;missed&gt;\">MPC</span>, <span title=\"\">CRCERRS</span></p>",
        ] {
            assert!(page.contains(row), "{row}\n{page}");
        }
    }

    #[test]
    fn a_summary_without_ports_has_no_such_section() {
        let mut summary = sample::single(0);
        assert!(!crate::html(&summary, "").contains("NIC counters"));
        summary.points[0].ports = vec![port(1, 2)];
        assert!(crate::html(&summary, "").contains("NIC counters"));
    }
}
