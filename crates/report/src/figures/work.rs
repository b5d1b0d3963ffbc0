//! Instructions per delivered packet. A polling core spends its idle time on empty polls, so the curve falls
//! towards the actual cost of a frame, and stays there once the core is saturated. A second curve, if
//! available, shows the cost without empty polls.

use super::{Data, Figure, Ids, largest_load, unbroken};
use crate::generator_notes::nothing_back;
use crate::number::{NONE, fixed, grouped, short, trimmed};
use crate::scale::Scale;
use crate::summary::{has_empty_polls, without_empty_polls};
use crate::svg::Plot;
use doorbell_results::{PointSummary, finite};

/// A line: its class, its name, and the function that reads its value.
type Line = (&'static str, &'static str, fn(&PointSummary) -> Option<f64>);

const LINES: [Line; 2] = [
    ("c-work", "all", |point| finite(point.instructions_per_frame)),
    ("c-dma", "without empty polls", without_empty_polls),
];

pub(super) fn figure(ids: &Ids, points: &[&PointSummary]) -> Figure {
    let lines = if points.iter().any(|point| has_empty_polls(point)) { &LINES[..] } else { &LINES[..1] };
    let all: Vec<f64> = points.iter().filter_map(|point| LINES[0].2(point)).collect();
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let caption = match (all.is_empty(), lines.len()) {
        (true, _) => format!("{} at any of these loads.", nothing_back(points)),
        (false, 1) => format!(
            "Instructions retired per delivered packet, empty polls included; the minimum was {}.",
            short(least)
        ),
        (false, _) => format!(
            "Instructions retired per delivered packet, empty polls included (the minimum was {}), and without them.",
            short(least)
        ),
    };
    let heads = ["Instructions per packet", "Without empty polls", "IPC", "Instructions"];
    Figure {
        title: "Work per packet".into(),
        caption,
        legend: match lines.len() {
            2 => lines.iter().map(|(class, name, _)| ((*class).to_owned(), (*name).to_owned())).collect(),
            _ => Vec::new(),
        },
        svg: (!all.is_empty()).then(|| draw(ids, points, lines)),
        data: Data::by_load(points, &heads, |p| {
            let optional =
                |value: Option<f64>, decimals| value.map_or(NONE.to_owned(), |v| fixed(v, decimals));
            let [all, busy] = LINES.map(|(.., of)| optional(of(p), 1));
            vec![all, busy, optional(finite(p.ipc), 3), grouped(p.instructions)]
        }),
    }
}

fn draw(ids: &Ids, points: &[&PointSummary], lines: &[Line]) -> String {
    let all: Vec<f64> =
        lines.iter().flat_map(|(.., of)| points.iter().filter_map(|point| of(point))).collect();
    let y = Scale::fitting(&all, 5);
    let mut plot = Plot::new(Scale::linear(largest_load(points), 6), y, 56.0, 14.0);
    plot.y_axis("Instructions per delivered packet", trimmed);
    plot.x_axis("Offered, Mpps", trimmed);
    for (class, name, of) in lines {
        unbroken(points, of).iter().for_each(|run| plot.line(run, class));
        for point in points {
            let Some(value) = of(point) else { continue };
            let which = if *name == LINES[0].1 { String::new() } else { format!(" {name}") };
            let tip = format!(
                "{} Mpps offered: {} instructions per packet{which}, IPC {}",
                trimmed(point.offered_mpps),
                short(value),
                finite(point.ipc).map_or(NONE.to_owned(), short)
            );
            plot.mark((point.offered_mpps, value), class, &tip);
        }
    }
    plot.finish(&ids.title, &ids.caption)
}
