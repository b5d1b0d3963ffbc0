//! Overview of a search over several frame sizes: the rate against the size, and the limit at each size.

use crate::figures::{Curve, Curves, Data, Ids, Point, write_figure};
use crate::html_table::HtmlTable;
use crate::limit;
use crate::number::{NONE, duration_ns, grouped, rate};
use crate::page;
use crate::search::LOG_SIZES_FROM;
use doorbell_results::{SearchSummary, SizeSummary};

/// The section; empty for a single size.
pub(crate) fn html(search: &SearchSummary) -> String {
    if search.searches.len() < 2 {
        return String::new();
    }
    let mut out = page::section("sizes", "All frame sizes");
    out.push_str("<div class=\"figures\">\n");
    for (id, unit, of) in UNITS {
        let figure = curves(search, unit, of).figure(&Ids::of(id), data(search, unit, of));
        write_figure(id, &Ids::of(id), &figure, &search.command, &mut out);
    }
    out.push_str("</div>\n");
    table(search, &mut out);
    out.push_str("</section>\n");
    out
}

type Interval = fn(&SizeSummary) -> (Option<f64>, Option<f64>);

/// Name and unit of a figure, and the interval that it shows.
const UNITS: [(&str, &str, Interval); 2] = [
    ("rate-by-size", "Mpps", |size| (size.low_mpps, size.high_mpps)),
    ("bits-by-size", "Gbps", |size| (size.low_gbps, size.high_gbps)),
];

fn curves(search: &SearchSummary, unit: &str, of: Interval) -> Curves {
    let point = |size: &SizeSummary| {
        let (low, high) = of(size);
        let y = low.or(high.map(|_| 0.0))?;
        let tip = format!("{} B: {} {unit}", grouped(size.frame_size), between(low, high));
        Some(Point { x: size.frame_size as f64, y, tip, interval: high.map(|high| (y, high)) })
    };
    let mut points: Vec<Point> = search.searches.iter().filter_map(point).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let wide = points.first().zip(points.last()).is_some_and(|(a, b)| b.x >= LOG_SIZES_FROM * a.x);
    let goal = &search.goal;
    Curves {
        title: format!("Rate against frame size, {unit}"),
        caption: format!(
            "The highest rate that met the goal, {goal}, with a bar up to the lowest that missed it."
        ),
        x: "Frame, bytes with FCS".to_owned(),
        y: format!("Rate that meets the goal, {unit}"),
        log_x: wide,
        log_y: false,
        is_time: false,
        names: Vec::new(),
        band: None,
        curves: vec![Curve {
            name: "the highest that met the goal".to_owned(),
            points,
            published: false,
            line: true,
        }],
    }
}

fn data(search: &SearchSummary, unit: &str, of: Interval) -> Data {
    let cell = |value: Option<f64>| value.map_or(NONE.to_owned(), rate);
    let row = |size: &SizeSummary| {
        let (low, high) = of(size);
        vec![grouped(size.frame_size), cell(low), cell(high)]
    };
    Data {
        heads: vec!["Frame, bytes".into(), format!("Meets the goal, {unit}"), format!("Misses it, {unit}")],
        rows: search.searches.iter().map(row).collect(),
    }
}

fn table(search: &SearchSummary, out: &mut String) {
    let heads = ["Frame, bytes", "Rate, Mpps", "Gbps", "p99 at the lower end", "Limit"];
    let mut table = HtmlTable::begin("All frame sizes, table", "numbers sizes", heads, out);
    for size in &search.searches {
        let bytes = size.frame_size;
        let low = size.trials.iter().find(|trial| Some(trial.rate_mpps) == size.low_mpps);
        let cells = [
            between(size.low_mpps, size.high_mpps),
            between(size.low_gbps, size.high_gbps),
            low.and_then(|trial| trial.latency_p99_ns).map_or(NONE.to_owned(), duration_ns),
            limit::of_search(size).map_or(NONE.to_owned(), |limit| limit.text),
        ];
        table.linked_name(grouped(bytes), format!("#frames-{bytes}")).cells(cells).end_row();
    }
    table.end();
}

/// A rate interval as text.
pub(crate) fn between(low: Option<f64>, high: Option<f64>) -> String {
    match (low, high) {
        (Some(low), Some(high)) => format!("{} to {}", rate(low), rate(high)),
        (Some(low), None) => format!("at least {}", rate(low)),
        (None, Some(high)) => format!("below {}", rate(high)),
        (None, None) => NONE.to_owned(),
    }
}
