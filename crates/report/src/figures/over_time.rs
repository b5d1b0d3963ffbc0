//! A single load over the time of its measurement: round trips and losses of the frames sent in each
//! interval.

use super::{Data, Figure, Ids};
use crate::number::{NONE, duration_ns, fixed, grouped, percent, trimmed};
use crate::scale::Scale;
use crate::svg::Plot;
use doorbell_results::{BatchSummary, PointSummary};

/// CSS class, name, and the value of an interval in microseconds.
type Line = (&'static str, &'static str, fn(&BatchSummary) -> Option<f64>);

const LINES: [Line; 2] = [
    ("c-q1", "mean", |batch| batch.latency_ns_mean.map(|ns| ns / 1e3)),
    ("c-q3", "p99", |batch| batch.latency_ns_p99.map(|ns| ns / 1e3)),
];

fn lost(batch: &BatchSummary) -> f64 {
    batch.offered.saturating_sub(batch.delivered) as f64 / (batch.offered.max(1)) as f64
}

pub(super) fn figure(ids: &Ids, points: &[&PointSummary]) -> Figure {
    let batches: &[BatchSummary] = points.first().map_or(&[], |point| &point.batches);
    let losses = batches.iter().map(lost).fold(0.0, f64::max);
    let caption = match losses > 0.0 {
        true => format!(
            "Latency of the frames that left in each part of the measurement. In the shaded parts frames were lost, {} % at most.",
            percent(Some(losses))
        ),
        false => "Latency of the frames that left in each part of the measurement. No part lost a frame."
            .to_owned(),
    };
    let some = |value: Option<f64>| value.map_or(NONE.to_owned(), |us| fixed(us, 3));
    let row = |batch: &BatchSummary| {
        let lines = LINES.iter().map(|(_, _, of)| some(of(batch)));
        let counts = [grouped(batch.offered), grouped(batch.delivered)];
        std::iter::once(fixed(batch.begin_ns / 1e3, 3)).chain(counts).chain(lines).collect()
    };
    let heads = ["From, µs", "Offered", "Delivered", "Mean, µs", "p99, µs"];
    Figure {
        title: "Over time".to_owned(),
        caption,
        legend: LINES.iter().map(|(class, name, _)| ((*class).to_owned(), (*name).to_owned())).collect(),
        svg: (batches.len() > 1).then(|| draw(ids, batches, losses)),
        data: Data { heads: heads.map(str::to_owned).to_vec(), rows: batches.iter().map(row).collect() },
    }
}

fn draw(ids: &Ids, batches: &[BatchSummary], losses: f64) -> String {
    let length = batches[1].begin_ns / 1e3;
    let largest =
        batches.iter().flat_map(|batch| LINES.iter().filter_map(|(_, _, of)| of(batch))).fold(0.0, f64::max);
    let x = Scale::linear(length * batches.len() as f64, 6);
    let mut plot = Plot::new(x, Scale::linear(largest, 5), 56.0, 14.0);
    let top = Scale::linear(largest, 5).ticks(trimmed).last().map_or(largest, |tick| tick.value);
    for batch in batches.iter().filter(|batch| lost(batch) > 0.0) {
        let (left, height) = (batch.begin_ns / 1e3, top * lost(batch) / losses.max(f64::MIN_POSITIVE));
        let right = left + length;
        plot.area(&[(left, 0.0), (left, height), (right, height), (right, 0.0)], "loss");
    }
    plot.y_axis("Latency, µs", trimmed);
    plot.x_axis("Time in the measurement, µs", trimmed);
    for (class, name, of) in LINES {
        let line: Vec<(f64, f64)> = batches
            .iter()
            .filter_map(|batch| Some((batch.begin_ns / 1e3 + length / 2.0, of(batch)?)))
            .collect();
        plot.line(&line, class);
        for batch in batches {
            let Some(us) = of(batch) else { continue };
            let from = duration_ns(batch.begin_ns);
            let tip = format!(
                "from {from}: {name} {}, {} % lost",
                duration_ns(us * 1e3),
                percent(Some(lost(batch)))
            );
            plot.mark((batch.begin_ns / 1e3 + length / 2.0, us), class, &tip);
        }
    }
    plot.finish(&ids.title, &ids.caption)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn intervals_with_losses_are_shaded_and_the_caption_has_the_maximum() {
        let mut summary = sample::single(0);
        let batch = |index: u32, delivered| BatchSummary {
            begin_ns: 1e6 * f64::from(index),
            offered: 100,
            delivered,
            latency_ns_mean: Some(3e3),
            latency_ns_p99: (delivered > 0).then_some(4e3),
        };
        summary.points[0].batches = vec![batch(0, 100), batch(1, 75), batch(2, 0)];
        let points: Vec<&PointSummary> = summary.points.iter().collect();
        let figure = figure(&Ids { title: "t".into(), caption: "c".into() }, &points);
        let svg = figure.svg.expect("a drawing");
        assert_eq!(svg.matches("class=\"loss\"").count(), 2);
        assert!(figure.caption.contains("100.000 % at most"), "{}", figure.caption);
        assert!(svg.contains("from 1.00 ms: mean 3.00 µs, 25.000 % lost"), "{svg}");
        assert_eq!(figure.data.rows[2], ["2,000.000", "100", "0", "3.000", "–"]);
    }
}
