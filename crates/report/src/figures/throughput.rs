//! Delivered against offered load: frames are lost where the curve is below the diagonal.

use super::{Data, Figure, Ids, largest_load, unbroken};
use crate::generator_notes::nothing_back;
use crate::number::{percent, percent_label, rate, trimmed};
use crate::scale::Scale;
use crate::summary::most_delivered;
use crate::svg::{Anchor, Plot};
use doorbell_results::{PointSummary, finite};

pub(super) fn figure(ids: &Ids, points: &[&PointSummary]) -> Figure {
    // The same scale on both axes, so that the diagonal has a slope of one.
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
            percent(finite(point.drop_rate))
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
        svg: Some(plot.finish(&ids.title, &ids.caption)),
        data: Data::by_load(
            points,
            &["Offered, Gbps", "Delivered, Mpps", "Delivered, Gbps", "Lost, %"],
            |p| {
                vec![
                    rate(p.offered_gbps),
                    rate(p.delivered_mpps),
                    rate(p.delivered_gbps),
                    percent(finite(p.drop_rate)),
                ]
            },
        ),
    }
}

/// Approximate width of a character of a note.
const NOTE_LETTER: f64 = 7.5;

/// Labels the loss at the right end: below the curve over the width of the text, or above the diagonal if
/// there is no room.
fn label_largest_loss(plot: &mut Plot, points: &[&PointSummary]) {
    let Some(last) = points.last() else { return };
    let Some(ratio) = finite(last.drop_rate).filter(|ratio| *ratio > 0.0) else { return };
    let label = format!("{} lost", percent_label(ratio));
    let end = plot.x(last.offered_mpps) + 2.0;
    let begin = end - NOTE_LETTER * label.chars().count() as f64;
    let path: Vec<(f64, f64)> =
        points.iter().map(|point| (plot.x(point.offered_mpps), plot.y(point.delivered_mpps))).collect();
    // SVG coordinates increase downwards.
    let lowest = heights(&path, begin).fold(plot.y(last.delivered_mpps), f64::max);
    let y = match plot.floor() - lowest > 30.0 {
        true => lowest + 20.0,
        false => plot.y(last.offered_mpps) - 10.0,
    };
    plot.svg.text(end, y, Anchor::End, "note", label);
}

/// Heights of a path from `begin` on: at its points, and where it crosses `begin`.
fn heights(path: &[(f64, f64)], begin: f64) -> impl Iterator<Item = f64> {
    path.windows(2).flat_map(move |ends| {
        let [(x, y), (next, then)] = [ends[0], ends[1]];
        let passes = (x < begin && begin < next).then(|| y + (then - y) * (begin - x) / (next - x));
        passes.into_iter().chain((next >= begin).then_some(then)).chain((x >= begin).then_some(y))
    })
}

fn caption(points: &[&PointSummary]) -> String {
    match most_delivered(points).filter(|best| best.delivered_mpps > 0.0) {
        Some(best) => format!(
            "Delivered against offered load. The maximum was {} Mpps, at {} Mpps offered.",
            rate(best.delivered_mpps),
            rate(best.offered_mpps)
        ),
        None => format!("Delivered against offered load. {} at any load.", nothing_back(points)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loss_label_does_not_overlap_the_curve() {
        let point = |offered_mpps: f64, delivered_mpps: f64| PointSummary {
            offered_mpps,
            delivered_mpps,
            drop_rate: 1.0 - delivered_mpps / offered_mpps,
            frames_offered: 1000,
            ..PointSummary::default()
        };
        // The points of `make run`, and a curve without room below it.
        let kinked = [(1.0, 1.0), (8.0, 8.0), (16.0, 16.0), (24.0, 24.0), (28.0, 28.0), (32.0, 28.199)];
        for (loads, above) in [(&kinked[..], false), (&[(1.0, 1.0), (32.0, 0.3)][..], true)] {
            let all: Vec<PointSummary> =
                loads.iter().map(|(offered, delivered)| point(*offered, *delivered)).collect();
            let points: Vec<&PointSummary> = all.iter().collect();
            let scale = Scale::linear(largest_load(&points), 6);
            let mut plot = Plot::new(scale, scale, 34.0, 14.0);
            label_largest_loss(&mut plot, &points);
            let (begin, lines): (f64, Vec<f64>) = {
                let end = plot.x(32.0) + 2.0;
                let begin = end - NOTE_LETTER * 11.0;
                let path: Vec<_> =
                    all.iter().map(|p| (plot.x(p.offered_mpps), plot.y(p.delivered_mpps))).collect();
                (begin, heights(&path, begin).collect())
            };
            assert!(begin > 0.0 && !lines.is_empty());
            let text = plot.svg.finish("t", "d");
            let y: f64 = text.split(" y=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
            // Characters reach about twelve units above the base line.
            assert!(lines.iter().all(|line| y - 12.0 > *line || y < *line), "{y} {lines:?}");
            assert_eq!(lines.iter().all(|line| y < *line), above, "{y} {lines:?}");
        }
    }
}
