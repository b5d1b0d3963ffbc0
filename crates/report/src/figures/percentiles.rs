//! A single load: its round trips, one bar per percentile.

use super::{Data, Figure, Ids};
use crate::generator_notes::nothing_back;
use crate::number::{duration_ns, fixed};
use crate::svg::{Anchor, Svg, WIDTH};
use doorbell_results::PointSummary;

/// A horizontal bar.
pub(super) struct Row<'a> {
    pub name: &'a str,
    pub class: &'a str,
    pub value: f64,
    pub text: String,
    pub tip: String,
}

const ROW_HEIGHT: f64 = 34.0;
const BAR_HEIGHT: f64 = 20.0;
const NAMES: f64 = 132.0;
const VALUES: f64 = 76.0;

/// Bars from a common zero; the longest fills the available width.
pub(super) fn bars(ids: &Ids, rows: &[Row]) -> String {
    let largest = rows.iter().map(|row| row.value).fold(f64::MIN_POSITIVE, f64::max);
    let mut svg = Svg::new(ROW_HEIGHT * rows.len() as f64 + 8.0);
    for (index, row) in rows.iter().enumerate() {
        let top = 4.0 + ROW_HEIGHT * index as f64 + (ROW_HEIGHT - BAR_HEIGHT) / 2.0;
        let full = WIDTH - NAMES - VALUES;
        // A minimum width keeps small values visible.
        let width = if row.value > 0.0 { (row.value / largest * full).max(1.5) } else { 0.0 };
        svg.text(NAMES - 10.0, top + 15.0, Anchor::End, "bar-name", row.name);
        svg.bar([NAMES, top, width, BAR_HEIGHT], row.class, &row.tip);
        svg.text(NAMES + width + 8.0, top + 15.0, Anchor::Start, "value", &row.text);
    }
    svg.rule(NAMES, 4.0, NAMES, ROW_HEIGHT * rows.len() as f64 + 4.0, "axis");
    svg.finish(&ids.title, &ids.caption)
}

pub(super) fn figure(ids: &Ids, points: &[&PointSummary]) -> Figure {
    let latency = points.iter().find_map(|point| point.latency_ns.as_ref());
    let list: Vec<(&str, &str, f64)> = latency.map_or(Vec::new(), |l| {
        vec![
            ("min", "c-q1", l.min),
            ("p50", "c-q1", l.p50),
            ("p90", "c-q2", l.p90),
            ("p99", "c-q3", l.p99),
            ("p99.9", "c-q4", l.p99_9),
            ("max", "c-q5", l.max),
        ]
    });
    let rows: Vec<Row> = list
        .iter()
        .map(|&(name, class, value)| Row {
            name,
            class,
            value,
            text: duration_ns(value),
            tip: format!("{name}: {} µs", fixed(value / 1e3, 3)),
        })
        .collect();
    let caption = match latency {
        Some(_) => "Latency of the delivered frames, from the time each was due.".to_owned(),
        None => format!("{}, so no latency was measured.", nothing_back(points)),
    };
    Figure {
        title: "Latency".into(),
        caption,
        legend: Vec::new(),
        svg: (!rows.is_empty()).then(|| bars(ids, &rows)),
        data: Data {
            heads: ["Percentile", "Latency, µs"].map(str::to_owned).to_vec(),
            rows: list.iter().map(|(name, _, ns)| vec![(*name).to_owned(), fixed(ns / 1e3, 3)]).collect(),
        },
    }
}
