//! Delivered against offered: where the curve leaves the diagonal, frames are lost.

use super::{Data, Figure, Ids, largest_load, unbroken};
use crate::number::{percent, percent_label, rate, trimmed};
use crate::scale::Scale;
use crate::summary::PointSummary;
use crate::svg::{Anchor, Plot};

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
            percent(point.drop_rate)
        );
        plot.mark((point.offered_mpps, point.delivered_mpps), "c-delivered", &tip);
    }
    label_largest_loss(&mut plot, points);
    Figure {
        title: "Throughput",
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
                    percent(p.drop_rate),
                ]
            },
        ),
    }
}

/// The loss at the right end, in the area that shows it, if there is room for it.
fn label_largest_loss(plot: &mut Plot, points: &[&PointSummary]) {
    let Some(last) = points.last() else { return };
    let (above, below) = (plot.y(last.offered_mpps), plot.y(last.delivered_mpps));
    if let Some(ratio) = last.drop_rate.filter(|_| below - above > 40.0) {
        // Two thirds down, where the wedge is wide enough for the words.
        let place = (plot.x(last.offered_mpps) - 7.0, above + (below - above) * 0.75);
        plot.svg.text(place, Anchor::End, "note", format!("{} lost", percent_label(ratio)));
    }
}

fn caption(points: &[&PointSummary]) -> String {
    let best = points.iter().max_by(|a, b| a.delivered_mpps.total_cmp(&b.delivered_mpps));
    match best.filter(|best| best.delivered_mpps > 0.0) {
        Some(best) => format!(
            "Delivered against offered load. The most was {} Mpps, at {} Mpps offered.",
            rate(best.delivered_mpps),
            rate(best.offered_mpps)
        ),
        None => "Delivered against offered load. Nothing came back at any load.".to_owned(),
    }
}
