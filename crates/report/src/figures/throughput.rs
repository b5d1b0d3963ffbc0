//! Delivered against offered: where the curve leaves the diagonal, frames are lost.

use super::{Data, Figure, Ids, largest_load, unbroken};
use crate::number::{percent, percent_label, rate, trimmed};
use crate::scale::Scale;
use crate::summary::most_delivered;
use crate::svg::{Anchor, Plot};
use doorbell_results::{PointSummary, known};

pub(super) fn figure(ids: &Ids, points: &[&PointSummary]) -> Figure {
    // One scale for both axes, so that the diagonal is the diagonal.
    let scale = Scale::linear(largest_load(points), 6);
    let mut plot = Plot::new(scale, scale, 34.0, 14.0);
    plot.y_axis("Delivered, Mpps", trimmed);
    let line: Vec<(f64, f64)> =
        unbroken(points, |p| Some(p.delivered_mpps)).into_iter().next().unwrap_or_default();
    let largest = largest_load(points);
    let first = points.iter().map(|p| p.offered_mpps).fold(largest, f64::min);
    let outline: Vec<(f64, f64)> = line.iter().copied().chain([(largest, largest), (first, first)]).collect();
    plot.area(&outline, "loss");
    plot.x_axis("Offered, Mpps", trimmed);
    plot.line(&[(0.0, 0.0), (largest, largest)], "ideal");
    plot.line(&line, "c-delivered");
    for point in points {
        let tip = format!(
            "{} Mpps offered: {} Mpps ({} Gbps) delivered, {} % lost",
            rate(point.offered_mpps),
            rate(point.delivered_mpps),
            rate(point.delivered_gbps),
            percent(known(point.drop_rate))
        );
        plot.mark((point.offered_mpps, point.delivered_mpps), "c-delivered", &tip);
    }
    label_largest_loss(&mut plot, points);
    Figure {
        title: "Throughput".into(),
        caption: caption(points),
        legend: vec![
            ("c-delivered".into(), "delivered".into()),
            ("ideal".into(), "everything delivered".into()),
            ("loss".into(), "lost".into()),
        ],
        svg: Some(plot.svg.finish(&ids.title, &ids.caption)),
        data: Data::by_load(
            points,
            &["Offered, Gbps", "Delivered, Mpps", "Delivered, Gbps", "Lost, %"],
            |p| {
                vec![
                    rate(p.offered_gbps),
                    rate(p.delivered_mpps),
                    rate(p.delivered_gbps),
                    percent(known(p.drop_rate)),
                ]
            },
        ),
    }
}

/// The loss at the right end, under the curve, or above it where the curve leaves no room.
fn label_largest_loss(plot: &mut Plot, points: &[&PointSummary]) {
    let Some(last) = points.last() else { return };
    let Some(ratio) = known(last.drop_rate).filter(|ratio| *ratio > 0.0) else { return };
    let line = plot.y(last.delivered_mpps);
    let y = if plot.floor() - line > 30.0 { line + 20.0 } else { line - 10.0 };
    let x = plot.x(last.offered_mpps) + 2.0;
    plot.svg.text((x, y), Anchor::End, "note", format!("{} lost", percent_label(ratio)));
}

fn caption(points: &[&PointSummary]) -> String {
    match most_delivered(points).filter(|best| best.delivered_mpps > 0.0) {
        Some(best) => format!(
            "Delivered against offered load. The most was {} Mpps, at {} Mpps offered.",
            rate(best.delivered_mpps),
            rate(best.offered_mpps)
        ),
        None => "Delivered against offered load. Nothing came back at any load.".to_owned(),
    }
}
