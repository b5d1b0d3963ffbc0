//! A transfer between two nodes over time: the ramp to its steady rate, and the measurement.

use super::{Data, Figure, Ids};
use crate::number::{NONE, duration_ns, fixed, trimmed};
use crate::scale::Scale;
use crate::svg::Plot;
use doorbell_results::{PointSummary, TransferPart};

/// CSS class and name of each phase.
const PHASES: [(&str, &str); 3] = [("c-q1", "warmup"), ("c-q2", "settle"), ("c-q3", "measured")];

fn parts<'a>(points: &[&'a PointSummary]) -> &'a [TransferPart] {
    points.first().and_then(|point| point.transfer.as_ref()).map_or(&[], |transfer| &transfer.over_time)
}

/// The plotted value of a part: thousands of transactions per second, or Gbps.
fn value(part: &TransferPart) -> f64 {
    part.transactions_per_second.map_or(part.gbps, |rate| rate / 1e3)
}

pub(super) fn figure(ids: &Ids, points: &[&PointSummary]) -> Figure {
    let parts = parts(points);
    let transactions = parts.iter().any(|part| part.transactions_per_second.is_some());
    let (what, unit) = if transactions {
        ("Transactions", "thousands per second")
    } else {
        ("Payload that arrived", "Gbps")
    };
    let idle = points.first().and_then(|point| point.transfer.as_ref()).map_or(String::new(), |transfer| {
        let (node, idle) = transfer.busiest_drive();
        format!(
            " In the measurement the test node was idle for {:.1}\u{a0}% of the time, the {node} for {:.1}\u{a0}%.",
            transfer.test_idle * 100.0,
            idle * 100.0
        )
    });
    let row = |part: &TransferPart| {
        vec![
            part.phase.clone(),
            fixed(part.begin_ns / 1e3, 3),
            fixed(part.length_ns / 1e3, 3),
            fixed(part.gbps, 3),
            part.transactions_per_second.map_or(NONE.to_owned(), |rate| fixed(rate, 0)),
        ]
    };
    Figure {
        title: "Transfer over time".to_owned(),
        caption: format!(
            "{what}, from the start of cache warm-up to the end of the measurement, in {unit}.{idle}"
        ),
        legend: PHASES.iter().map(|(class, name)| ((*class).to_owned(), (*name).to_owned())).collect(),
        svg: (parts.len() > 1).then(|| draw(ids, parts, what, unit)),
        data: Data {
            heads: ["Phase", "From, µs", "Length, µs", "Gbps", "Transactions per second"]
                .map(str::to_owned)
                .to_vec(),
            rows: parts.iter().map(row).collect(),
        },
    }
}

fn draw(ids: &Ids, parts: &[TransferPart], what: &str, unit: &str) -> String {
    let end = parts.last().map_or(0.0, |part| part.begin_ns + part.length_ns) / 1e6;
    let largest = parts.iter().map(value).fold(0.0, f64::max);
    let mut plot = Plot::new(Scale::linear(end, 6), Scale::linear(largest, 5), 56.0, 14.0);
    plot.y_axis(if unit == "Gbps" { unit } else { "1000/s" }, trimmed);
    plot.x_axis("Time, ms", trimmed);
    for (class, phase) in PHASES {
        let own = parts.iter().filter(|part| part.phase == phase);
        let marks = own.map(|part| (((part.begin_ns + part.length_ns / 2.0) / 1e6, value(part)), part));
        let marks: Vec<((f64, f64), &TransferPart)> = marks.collect();
        let line: Vec<(f64, f64)> = marks.iter().map(|(at, _)| *at).collect();
        plot.line(&line, class);
        for (at, part) in marks {
            let tip =
                format!("{phase}, from {}: {what} {} {unit}", duration_ns(part.begin_ns), fixed(at.1, 2));
            plot.mark(at, class, &tip);
        }
    }
    plot.finish(&ids.title, &ids.caption)
}

#[cfg(test)]
mod tests {
    use doorbell_results::TransferFigures;

    use super::*;
    use crate::sample;

    #[test]
    fn all_phases_are_drawn_and_idle_shares_are_in_the_caption() {
        let mut summary = sample::single(0);
        let part = |phase: &str, begin_ns, rate: Option<f64>| TransferPart {
            phase: phase.to_owned(),
            begin_ns,
            length_ns: 1e6,
            gbps: 4.0,
            transactions_per_second: rate,
        };
        let mut drawn = |rate| {
            summary.points[0].transfer = Some(TransferFigures {
                test_idle: 0.25,
                drive_idle: 0.75,
                over_time: vec![part("warmup", 0.0, rate), part("measured", 1e6, rate)],
                ..TransferFigures::default()
            });
            let points: Vec<&PointSummary> = summary.points.iter().collect();
            figure(&Ids { title: "t".into(), caption: "c".into() }, &points)
        };
        let stream = drawn(None);
        assert!(
            stream.caption.contains("75.0\u{a0}%") && stream.caption.contains("Gbps"),
            "{}",
            stream.caption
        );
        assert_eq!(stream.data.rows[1], ["measured", "1,000.000", "1,000.000", "4.000", "–"]);
        let requests = drawn(Some(20_000.0)).svg.expect("a drawing");
        assert!(requests.contains("Transactions 20.00 thousands per second"), "{requests}");
    }
}
