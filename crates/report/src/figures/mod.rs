//! The page's figures. Each answers one question about the points of one frame size, with a caption and the
//! plotted numbers. A new figure is a file here and a line in [`CURVES`], [`SINGLE`] or [`OPTIONAL`].

use std::fmt::Write;

use crate::escape::Esc;
use crate::number;
use doorbell_results::PointSummary;

mod curves;
mod cycles;
mod fate;
mod flame;
mod kinds;
mod latency;
mod latency_stages;
mod losses;
mod memory;
mod memory_time;
mod over_time;
mod percentiles;
mod played;
mod stacked;
mod throughput;
mod transfer_time;
mod work;

pub(crate) use curves::{Curve, Curves, Point};

/// Draws one figure; the first argument makes its identifiers unique on the page.
type Draw = fn(&Ids, &[&PointSummary]) -> Figure;

/// For several loads: the figure's short name, and its drawing function.
const CURVES: [(&str, Draw); 4] = [
    ("throughput", throughput::figure),
    ("losses", losses::figure),
    ("latency", latency::figure),
    ("work", work::figure),
];

/// For a single load.
const SINGLE: [(&str, Draw); 2] = [("fate", fate::figure), ("percentiles", percentiles::figure)];

/// For a single load between two nodes, where no generator measures round trips.
const TRANSFER: [(&str, Draw); 1] = [("fate", fate::figure)];

/// For a played trace, each with the condition for showing it.
const PLAYED: [(&str, Draw, Has); 7] = [
    ("kinds", kinds::figure, has_kinds),
    ("top-down", played::top_down, |point| point.timing.is_some()),
    ("cpi", played::cpi, |point| point.timing.is_some()),
    ("memory", memory::caches, |point| point.timing.is_some() && point.frame_size > 0),
    ("last-level", memory::last_level, |point| point.timing.is_some() && point.frame_size > 0),
    ("pcie", memory::pcie, memory::has_pcie),
    ("memory-over-time", memory_time::figure, |point| {
        point.memory_over_time.iter().any(|part| part.read_gbps + part.write_gbps > 0.0)
    }),
];

/// Whether a point has the data that a figure shows.
type Has = fn(&PointSummary) -> bool;

/// For any number of loads, each with the condition for showing it.
const OPTIONAL: [(&str, Draw, Has); 9] = [
    ("transfer-over-time", transfer_time::figure, |point| {
        point.transfer.as_ref().is_some_and(|transfer| !transfer.over_time.is_empty())
    }),
    ("over-time", over_time::figure, |point| point.batches.len() > 1),
    ("way", latency_stages::figure, |point| point.latency_stages_ns.is_some()),
    ("cycles", cycles::figure, |point| point.timing.is_some()),
    ("kinds", kinds::figure, has_kinds),
    ("memory", memory::caches, |point| point.timing.is_some()),
    ("last-level", memory::last_level, |point| point.timing.is_some()),
    ("pcie", memory::pcie, memory::has_pcie),
    ("memory-over-time", memory_time::figure, |point| !point.memory_over_time.is_empty()),
];

fn has_kinds(point: &PointSummary) -> bool {
    point.profiles().any(|of| of.kinds.is_some())
}

/// Identifiers of the elements that name and describe a figure.
pub(crate) struct Ids {
    title: String,
    caption: String,
}

impl Ids {
    /// Derives the identifiers from that of the figure element.
    pub(crate) fn of(id: &str) -> Ids {
        Ids { title: format!("{id}-title"), caption: format!("{id}-caption") }
    }
}

/// A drawing with its title, caption, legend and data.
pub(crate) struct Figure {
    title: String,
    caption: String,
    legend: Vec<(String, String)>,
    /// `None` if there is nothing to draw; the caption then gives the reason.
    svg: Option<String>,
    data: Data,
}

/// The numbers behind a figure.
pub(crate) struct Data {
    pub heads: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// Head of the first column in a table with one row per load.
const OFFERED: &str = "Offered, Mpps";

impl Data {
    /// One row per point, starting with the offered load.
    fn by_load(
        points: &[&PointSummary],
        heads: &[&str],
        cells: impl Fn(&PointSummary) -> Vec<String>,
    ) -> Data {
        let heads = [OFFERED].iter().chain(heads).map(|head| (*head).to_owned()).collect();
        let row = |point: &&PointSummary| [vec![number::rate(point.offered_mpps)], cells(point)].concat();
        Data { heads, rows: points.iter().map(row).collect() }
    }
}

/// All figures for the points of one frame size, as HTML.
pub(crate) fn html(frame_size: u64, points: &[&PointSummary], command: &str) -> String {
    let list: &[(&str, Draw)] = match points {
        [point] if point.transfer.is_some() => &TRANSFER,
        [_] => &SINGLE,
        _ => &CURVES,
    };
    let optional = OPTIONAL.iter().filter(|(name, _, has)| {
        // Figures over time can show only a single load.
        points.iter().any(|point| has(point)) && (points.len() == 1 || !name.ends_with("over-time"))
    });
    let list = list.iter().copied().chain(optional.map(|(name, draw, _)| (*name, *draw)));
    let mut out = String::from("<div class=\"figures\">\n");
    for (name, draw) in list {
        let id = format!("{name}-{frame_size}");
        let ids = Ids::of(&id);
        let figure = draw(&ids, points);
        write_figure(&id, &ids, &figure, command, &mut out);
    }
    out.push_str("</div>\n");
    out
}

/// All figures of a played trace, as HTML.
pub(crate) fn played_html(point: &PointSummary, command: &str) -> String {
    let mut out = String::from("<div class=\"figures\">\n");
    for (name, draw, _) in PLAYED.iter().filter(|(.., has)| has(point)) {
        let ids = Ids::of(name);
        let mut figure = draw(&ids, &[point]);
        if figure.data.heads.first().is_some_and(|head| head == OFFERED) {
            // A played trace has no offered load.
            figure.data.heads.remove(0);
            figure.data.rows.iter_mut().for_each(|row| drop(row.remove(0)));
        }
        write_figure(name, &ids, &figure, command, &mut out);
    }
    out.push_str("</div>\n");
    out
}

/// A flame graph of each node's stacks, as HTML.
pub(crate) fn flames_html(stacks: &[(String, String)], command: &str) -> String {
    let mut out = String::new();
    for (index, (node, folded)) in stacks.iter().enumerate() {
        let id = format!("flame-{index}");
        if let Some(figure) = flame::figure(&Ids::of(&id), node, folded) {
            out.push_str("<div class=\"figures\">\n");
            write_figure(&id, &Ids::of(&id), &figure, command, &mut out);
            out.push_str("</div>\n");
        }
    }
    out
}

/// Writes a figure with its numbers and the command that created it.
pub(crate) fn write_figure(id: &str, ids: &Ids, figure: &Figure, command: &str, out: &mut String) {
    let _ = writeln!(out, "<figure id=\"{id}\">\n<h3 id=\"{}\">{}</h3>", ids.title, Esc(&figure.title));
    if !figure.legend.is_empty() && figure.svg.is_some() {
        out.push_str("<ul class=\"legend\">\n");
        for (class, label) in &figure.legend {
            let _ = writeln!(out, "<li><span class=\"swatch {class}\"></span>{}</li>", Esc(label));
        }
        out.push_str("</ul>\n");
    }
    match &figure.svg {
        Some(svg) => out.push_str(svg),
        None => out.push_str("<p class=\"nothing\">Nothing to draw.</p>\n"),
    }
    let _ = writeln!(out, "<figcaption id=\"{}\">{}</figcaption>", ids.caption, Esc(&figure.caption));
    out.push_str("<details>\n<summary>Data</summary>\n<div class=\"scroll\"><table>\n<thead><tr>");
    for head in &figure.data.heads {
        let _ = write!(out, "<th scope=\"col\">{}</th>", Esc(head));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &figure.data.rows {
        out.push_str("<tr>");
        for (index, cell) in row.iter().enumerate() {
            let (open, close) = if index == 0 { ("th scope=\"row\"", "th") } else { ("td", "td") };
            let _ = write!(out, "<{open}>{}</{close}>", Esc(cell));
        }
        out.push_str("</tr>\n");
    }
    let _ = writeln!(out, "</tbody>\n</table></div>\n<pre>{}</pre>\n</details>\n</figure>", Esc(command));
}

/// Splits the points into runs that have a value, so that a line breaks where a value is missing.
fn unbroken(points: &[&PointSummary], value: impl Fn(&PointSummary) -> Option<f64>) -> Vec<Vec<(f64, f64)>> {
    let places: Vec<Option<(f64, f64)>> =
        points.iter().map(|point| value(point).map(|value| (point.offered_mpps, value))).collect();
    places
        .split(Option::is_none)
        .map(|run| run.iter().flatten().copied().collect::<Vec<_>>())
        .filter(|run| !run.is_empty())
        .collect()
}

/// The largest offered load, for the horizontal axis.
fn largest_load(points: &[&PointSummary]) -> f64 {
    points.iter().map(|point| point.offered_mpps).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_line_breaks_where_a_point_has_no_value() {
        let mut summary = sample::loads();
        summary.points[2].latency_ns = None;
        let points: Vec<&PointSummary> = summary.points.iter().collect();
        let runs = unbroken(&points, |p| p.latency_ns.as_ref().map(|l| l.p50));
        assert_eq!(runs.iter().map(Vec::len).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(runs[1][0], (9.0, 11_600.0));
    }

    #[test]
    fn figures_of_several_loads_have_a_drawing_a_caption_and_a_row_per_point() {
        let summary = sample::loads();
        let points: Vec<&PointSummary> = summary.points.iter().collect();
        for (name, draw) in CURVES {
            let figure = draw(&Ids { title: "t".into(), caption: "c".into() }, &points);
            assert!(figure.svg.as_ref().is_some_and(|svg| svg.contains("<title>")), "{name}");
            assert!(figure.caption.len() > 40, "{name}");
            assert_eq!(figure.data.rows.len(), 6, "{name}");
            assert!(figure.data.rows.iter().all(|row| row.len() == figure.data.heads.len()), "{name}");
        }
    }
}
