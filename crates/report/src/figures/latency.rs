//! Round trips against offered load, one line per percentile. The scale is logarithmic if the range requires
//! it.

use super::{Data, Figure, Ids, largest_load, unbroken};
use crate::generator_notes::nothing_back;
use crate::number::{NONE, duration_ns, fixed, trimmed};
use crate::scale::Scale;
use crate::svg::{Anchor, Plot, spread};
use doorbell_results::{LatencySummary, PointSummary};

/// A percentile: its CSS class, its name, and the function that reads its value.
type Percentile = (&'static str, &'static str, fn(&LatencySummary) -> f64);

/// Ordered from the longest to the shortest, as the labels at the ends of the lines.
const PERCENTILES: [Percentile; 5] = [
    ("c-q5", "max", |l| l.max),
    ("c-q4", "p99.9", |l| l.p99_9),
    ("c-q3", "p99", |l| l.p99),
    ("c-q2", "p90", |l| l.p90),
    ("c-q1", "p50", |l| l.p50),
];
const LABEL_GAP: f64 = 17.0;

pub(super) fn figure(ids: &Ids, points: &[&PointSummary]) -> Figure {
    let all: Vec<f64> = points
        .iter()
        .filter_map(|p| p.latency_ns.as_ref())
        .flat_map(|l| PERCENTILES.iter().map(|(_, _, of)| of(l)))
        .collect();
    let y = Scale::fitting(&all, 5);
    let caption = match (all.is_empty(), y.is_log()) {
        (true, _) => {
            format!("{} at any of these loads, so no latency was measured.", nothing_back(points))
        }
        (false, true) => {
            "Latency of the delivered frames, from the time each was due; the vertical axis is logarithmic."
                .to_owned()
        }
        (false, false) => "Latency of the delivered frames, from the time each was due.".to_owned(),
    };
    Figure {
        title: "Latency".into(),
        caption,
        legend: PERCENTILES.iter().rev().map(|(class, name, _)| ((*class).into(), (*name).into())).collect(),
        svg: (!all.is_empty()).then(|| draw(ids, points, y)),
        data: Data::by_load(points, &["p50, µs", "p90, µs", "p99, µs", "p99.9, µs", "max, µs"], |p| {
            let cell = |(_, _, of): &Percentile| {
                p.latency_ns.as_ref().map_or(NONE.to_owned(), |l| fixed(of(l) / 1e3, 3))
            };
            PERCENTILES.iter().rev().map(cell).collect()
        }),
    }
}

fn draw(ids: &Ids, points: &[&PointSummary], y: Scale) -> String {
    let mut plot = Plot::new(Scale::linear(largest_load(points), 6), y, 56.0, 64.0).of_time();
    plot.y_axis("Latency", tick);
    plot.x_axis("Offered, Mpps", trimmed);
    for (class, _, of) in PERCENTILES {
        for run in unbroken(points, |p| p.latency_ns.as_ref().map(of)) {
            plot.line(&run, class);
        }
    }
    for (class, name, of) in PERCENTILES {
        for point in points {
            let Some(latency) = &point.latency_ns else { continue };
            let (load, time) = (trimmed(point.offered_mpps), duration_ns(of(latency)));
            plot.mark(
                (point.offered_mpps, of(latency)),
                class,
                &format!("{load} Mpps offered: {name} {time}"),
            );
        }
    }
    // Labels at the right ends of the lines, moved apart where necessary.
    if let Some((last, latency)) = points.iter().rev().find_map(|p| Some((p, p.latency_ns.as_ref()?))) {
        let wanted: Vec<f64> = PERCENTILES.iter().map(|(_, _, of)| plot.y(of(latency))).collect();
        let places = spread(&wanted, LABEL_GAP, plot.floor() - 4.0);
        let x = plot.x(last.offered_mpps);
        for ((class, name, _), (wanted, place)) in PERCENTILES.iter().zip(wanted.into_iter().zip(places)) {
            plot.svg.rule(x + 5.0, wanted, x + 14.0, place, &format!("leader {class}"));
            plot.svg.text(x + 17.0, place + 4.5, Anchor::Start, &format!("name {class}"), name);
        }
    }
    plot.finish(&ids.title, &ids.caption)
}

/// Formats a tick's time without unnecessary digits: 500 ns, 2 µs, 1 ms.
pub(super) fn tick(ns: f64) -> String {
    let (scale, unit) = match ns {
        ns if ns < 999.5 => (1.0, "ns"),
        ns if ns < 999.5e3 => (1e3, "µs"),
        ns if ns < 999.5e6 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    if ns == 0.0 { "0".to_owned() } else { format!("{} {unit}", trimmed(ns / scale)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn ticks_of_time_carry_their_unit() {
        let labels: Vec<String> = [0.0, 500.0, 2e3, 1e6, 2.5e9].into_iter().map(tick).collect();
        assert_eq!(labels, ["0", "500 ns", "2 µs", "1 ms", "2.5 s"]);
    }

    #[test]
    fn every_percentile_of_every_point_has_a_mark() {
        let summary = sample::loads();
        let points: Vec<&PointSummary> = summary.points.iter().collect();
        let svg = figure(&Ids { title: "t".into(), caption: "c".into() }, &points).svg.expect("a drawing");
        assert_eq!(svg.matches("class=\"mark").count(), 30);
        assert!(svg.contains("<title>14.88 Mpps offered: p99 192 µs</title>"), "{svg}");
    }

    #[test]
    fn without_round_trips_the_caption_gives_the_reason_for_no_drawing() {
        let mut summary = sample::loads();
        summary.points.iter_mut().for_each(|p| p.latency_ns = None);
        let points: Vec<&PointSummary> = summary.points.iter().collect();
        let figure = figure(&Ids { title: "t".into(), caption: "c".into() }, &points);
        assert!(figure.svg.is_none() && figure.caption.starts_with("No frame came back"));
        assert_eq!(figure.data.rows[0], ["1.000", "–", "–", "–", "–", "–"]);
    }
}
