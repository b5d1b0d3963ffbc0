//! Instructions a delivered frame: a polling core spends its idle time on empty polls, so the curve falls towards what
//! a frame really costs, and stays there once the core is the limit.

use super::{Data, Figure, Ids, largest_load, unbroken};
use crate::number::{NONE, fixed, grouped, short, trimmed};
use crate::scale::Scale;
use crate::svg::Plot;
use doorbell_results::{PointSummary, known};

pub(super) fn figure(ids: &Ids, points: &[&PointSummary]) -> Figure {
    let all: Vec<f64> = points.iter().filter_map(|p| known(p.instructions_per_frame)).collect();
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let caption = if all.is_empty() {
        "No frame came back at any of these loads.".to_owned()
    } else {
        format!(
            "Instructions retired for each delivered frame, empty polls included; the least was {}.",
            short(least)
        )
    };
    Figure {
        title: "Work a frame".into(),
        caption,
        legend: Vec::new(),
        svg: (!all.is_empty()).then(|| draw(ids, points, &all)),
        data: Data::by_load(points, &["Instructions a frame", "IPC", "Instructions"], |p| {
            let optional =
                |value: Option<f64>, decimals| value.map_or(NONE.to_owned(), |v| fixed(v, decimals));
            vec![
                optional(known(p.instructions_per_frame), 1),
                optional(known(p.ipc), 3),
                grouped(p.instructions),
            ]
        }),
    }
}

fn draw(ids: &Ids, points: &[&PointSummary], all: &[f64]) -> String {
    let y = Scale::fitting(all, 5);
    let mut plot = Plot::new(Scale::linear(largest_load(points), 6), y, 56.0, 14.0);
    plot.y_axis("Instructions a delivered frame", trimmed);
    plot.x_axis("Offered, Mpps", trimmed);
    for run in unbroken(points, |p| known(p.instructions_per_frame)) {
        plot.line(&run, "c-work");
    }
    for point in points {
        if let Some(value) = known(point.instructions_per_frame) {
            let tip = format!(
                "{} Mpps offered: {} instructions a frame, IPC {}",
                trimmed(point.offered_mpps),
                short(value),
                known(point.ipc).map_or(NONE.to_owned(), short)
            );
            plot.mark((point.offered_mpps, value), "c-work", &tip);
        }
    }
    plot.finish(&ids.title, &ids.caption)
}
