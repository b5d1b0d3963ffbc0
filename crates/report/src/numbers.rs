//! The table with all numbers of all points: one column per load and one row per measure. Runs have few loads
//! and many measures, and on a phone the names stay visible while the loads scroll.

use std::fmt::Write;

use crate::causes::CAUSES;
use crate::escape::Esc;
use crate::number::{NONE, fixed, grouped, one_line, percent, rate};
use crate::steady;
use doorbell_results::{Confidence, LatencySummary, PointSummary, finite};

/// A measure: its name with the unit, and a point's value.
type Row = (String, Box<dyn Fn(&PointSummary) -> String>);

/// Number of characters of a hash that are shown; the rest is in its tooltip.
const HASH_SHOWN: usize = 12;

/// Maximum number of loads for a narrow table.
const FEW: usize = 3;

/// The table as HTML; `pages` are the pages of the individual loads, if there are any.
pub(crate) fn html(points: &[&PointSummary], pages: &[String]) -> String {
    // A few columns spread over the full page width would be hard to read.
    let class = if points.len() <= FEW { "numbers few" } else { "numbers" };
    let mut out = format!(
        "<div class=\"scroll\" role=\"region\" aria-label=\"All numbers, table\" tabindex=\"0\">
\
         <table class=\"{class}\">
<thead><tr><th scope=\"col\">Requested load</th>",
    );
    for (index, point) in points.iter().enumerate() {
        let rate = Esc(&point.rate);
        let _ = match pages.get(index) {
            Some(page) => write!(out, "<th scope=\"col\"><a href=\"{}\">{rate}</a></th>", Esc(page)),
            None => write!(out, "<th scope=\"col\">{rate}</th>"),
        };
    }
    out.push_str("</tr></thead>\n");
    for (section, rows) in sections() {
        let span = points.len() + 1;
        let _ = writeln!(
            out,
            "<tbody>\n<tr class=\"section\"><th scope=\"rowgroup\" colspan=\"{span}\"><span>{section}</span></th></tr>"
        );
        for (name, cell) in rows {
            let _ = write!(out, "<tr><th scope=\"row\">{}</th>", Esc(name));
            for point in points {
                let text = cell(point);
                let class = if text == "0" || text == NONE { " class=\"zero\"" } else { "" };
                let _ = write!(out, "<td{class}>{}</td>", Esc(text));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody>\n");
    }
    out.push_str("<tbody>\n");
    hashes("Configuration hash", points, |p| &p.config_hash, &mut out);
    hashes("State hash at the end", points, |p| &p.state_hash, &mut out);
    out.push_str("</tbody>\n</table></div>\n");
    out
}

fn row(name: &str, cell: impl Fn(&PointSummary) -> String + 'static) -> Row {
    (name.to_owned(), Box::new(cell))
}

fn sections() -> [(&'static str, Vec<Row>); 5] {
    let optional = |value: Option<f64>, decimals| value.map_or(NONE.to_owned(), |v| fixed(v, decimals));
    let load = vec![
        row("Offered, Mpps", |p| rate(p.offered_mpps)),
        row("Delivered, Mpps", |p| rate(p.delivered_mpps)),
        row("Offered, Gbps (layer 2)", |p| rate(p.offered_gbps)),
        row("Delivered, Gbps (layer 2)", |p| rate(p.delivered_gbps)),
        row("Frame, bytes with FCS", |p| grouped(p.frame_size)),
    ];
    let mut frames = vec![
        row("Offered", |p| grouped(p.frames_offered)),
        row("Delivered", |p| grouped(p.frames_delivered)),
        row("Lost", |p| grouped(p.lost())),
        row("Lost, %", |p| percent(p.loss())),
    ];
    frames.extend(
        CAUSES.iter().map(|cause| row(&format!("Lost: {}", cause.name), |p| grouped((cause.count)(p)))),
    );
    frames.extend([
        row("ISPASS 2024 rule: DMA", |p| grouped(p.drops.dma)),
        row("ISPASS 2024 rule: core", |p| grouped(p.drops.core)),
        row("ISPASS 2024 rule: TX", |p| grouped(p.drops.tx)),
    ]);
    frames.push(row("Lost: timed out", |p| grouped(p.frames_timed_out)));
    frames.push(row("Out of order", |p| grouped(p.frames_reordered)));
    frames.push(row("Duplicates", |p| grouped(p.frames_duplicate)));
    let machine = vec![
        row("Warm-up", |p| steady::cell(p.steady.as_ref().and_then(|steady| steady.warmup.as_ref()))),
        row("Settling", |p| steady::cell(p.steady.as_ref().and_then(|steady| steady.settle.as_ref()))),
        row("Measured, simulated ms", |p| fixed(p.simulated_seconds * 1e3, 3)),
        row("Not steady", |p| p.not_steady.as_deref().map_or(NONE.to_owned(), one_line)),
        row("Instructions", |p| grouped(p.instructions)),
        row("Instructions per cycle", move |p| optional(finite(p.ipc), 3)),
        row("Instructions per delivered packet", move |p| optional(finite(p.instructions_per_frame), 1)),
        row("Ticks of the guest's timer", move |p| optional(p.timer_ticks.map(|ticks| ticks as f64), 0)),
        row("Interrupts per second", move |p| optional(p.interrupts_per_second, 0)),
        row("Host time, s", |p| fixed(p.host_seconds, 2)),
        row("Million instructions per host second", move |p| optional(finite(p.host_mips), 1)),
    ];
    [
        ("Load", load),
        ("Frames", frames),
        ("Latency, µs", latency()),
        ("± at 95 % confidence", confidence()),
        ("Machine and host", machine),
    ]
}

fn latency() -> Vec<Row> {
    let row = |name, of: fn(&LatencySummary) -> Option<f64>| {
        row(name, move |p| p.latency_ns.as_ref().and_then(of).map_or(NONE.to_owned(), micros))
    };
    vec![
        row("Mean", |l| Some(l.mean)),
        row("Standard deviation", |l| finite(l.stddev)),
        row("Min", |l| Some(l.min)),
        row("p50", |l| Some(l.p50)),
        row("p90", |l| Some(l.p90)),
        row("p99", |l| Some(l.p99)),
        row("p99.9", |l| Some(l.p99_9)),
        row("p99.99", |l| finite(l.p99_99)),
        row("Max", |l| Some(l.max)),
        variation("Between consecutive frames, mean", |l| l.mean),
        variation("Between consecutive frames, p99", |l| l.p99),
    ]
}

fn micros(ns: f64) -> String {
    fixed(ns / 1e3, 3)
}

/// Difference of round trips from one frame to the next.
fn variation(name: &str, of: fn(&LatencySummary) -> f64) -> Row {
    row(name, move |p| {
        p.delay_variation_ns.as_ref().map_or(NONE.to_owned(), |variation| micros(of(variation)))
    })
}

/// Half widths of the confidence intervals of the figures above.
fn confidence() -> Vec<Row> {
    let row = |name, of: fn(&Confidence) -> Option<String>| {
        row(name, move |p| p.confidence_95.as_ref().and_then(of).unwrap_or(NONE.to_owned()))
    };
    vec![
        row("Delivered, Mpps", |c| Some(fixed(c.delivered_mpps, 4))),
        row("Lost, %", |c| Some(percent(Some(c.drop_rate)))),
        row("Mean latency, µs", |c| c.latency_ns.as_ref().map(|l| micros(l.mean))),
        row("p50, µs", |c| c.latency_ns.as_ref()?.p50.map(micros)),
        row("p99, µs", |c| c.latency_ns.as_ref()?.p99.map(micros)),
        row("From batches", |c| {
            Some(format!("{}{}", c.batches, if c.correlated { ", correlated: too narrow" } else { "" }))
        }),
    ]
}

fn hashes(name: &str, points: &[&PointSummary], of: fn(&PointSummary) -> &String, out: &mut String) {
    let _ = write!(out, "<tr><th scope=\"row\">{name}</th>");
    for point in points {
        let hash = of(point);
        let shown: String = hash.chars().take(HASH_SHOWN).collect();
        let more = if shown.len() < hash.len() { "…" } else { "" };
        let _ = write!(out, "<td class=\"hash\" title=\"{}\">{}{more}</td>", Esc(hash), Esc(shown));
    }
    out.push_str("</tr>\n");
}
