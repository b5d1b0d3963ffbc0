//! Main memory over the time of a measurement: total read and write bandwidth, and read latency.

use super::{Data, Figure, Ids};
use crate::number::{NONE, axis_label, duration_ns, fixed, trimmed};
use crate::scale::Scale;
use crate::svg::Plot;
use doorbell_results::{MemoryPart, PointSummary};

/// CSS class, name, and the value of a channel.
type Line = (&'static str, &'static str, fn(&MemoryPart) -> f64);

const LINES: [Line; 2] =
    [("c-q1", "read", |part| part.read_gbps), ("c-q3", "written", |part| part.write_gbps)];

/// Groups the channels by interval of the measurement.
fn by_time(points: &[&PointSummary]) -> Vec<Vec<MemoryPart>> {
    let all: &[MemoryPart] = points.first().map_or(&[], |point| &point.memory_over_time);
    all.chunk_by(|one, next| one.begin_ns == next.begin_ns).map(<[MemoryPart]>::to_vec).collect()
}

pub(super) fn figure(ids: &Ids, points: &[&PointSummary]) -> Figure {
    let parts = by_time(points);
    let latencies: Vec<f64> = parts.iter().flatten().filter_map(|part| part.read_latency_ns).collect();
    let extreme = |pick: fn(f64, f64) -> f64| latencies.iter().copied().reduce(pick);
    let loaded = match extreme(f64::min).zip(extreme(f64::max)) {
        Some((least, most)) => format!(
            "The average read latency of an interval and a channel, measured at the controller, was {} to {}.",
            duration_ns(least),
            duration_ns(most)
        ),
        None => "There were no reads.".to_owned(),
    };
    let channels = parts.first().map_or(0, Vec::len);
    let row = |part: &MemoryPart| {
        vec![
            fixed(part.begin_ns / 1e3, 3),
            part.channel.to_string(),
            fixed(part.read_gbps, 3),
            fixed(part.write_gbps, 3),
            part.read_latency_ns.map_or(NONE.to_owned(), |ns| fixed(ns, 1)),
        ]
    };
    let heads = ["From, µs", "Channel", "Read, Gbps", "Written, Gbps", "Latency of reads, ns"];
    Figure {
        title: "Memory over time".to_owned(),
        caption: format!(
            "Total read and write bandwidth of {channels} DRAM channel{} in each part of the measurement. {loaded}",
            if channels == 1 { "" } else { "s" }
        ),
        legend: LINES.iter().map(|(class, name, _)| ((*class).to_owned(), (*name).to_owned())).collect(),
        svg: (parts.len() > 1).then(|| draw(ids, &parts)),
        data: Data {
            heads: heads.map(str::to_owned).to_vec(),
            rows: parts.iter().flatten().map(row).collect(),
        },
    }
}

fn draw(ids: &Ids, parts: &[Vec<MemoryPart>]) -> String {
    let sum = |part: &[MemoryPart], of: fn(&MemoryPart) -> f64| part.iter().map(of).sum::<f64>();
    let largest = parts.iter().flat_map(|part| LINES.map(|(_, _, of)| sum(part, of))).fold(0.0, f64::max);
    let end = parts.last().and_then(|part| part.first()).map_or(0.0, |part| part.begin_ns + part.length_ns);
    let mut plot = Plot::new(Scale::linear(end / 1e3, 6), Scale::linear(largest, 5), 56.0, 14.0);
    plot.y_axis("Gbps", axis_label);
    plot.x_axis("Time in the measurement, µs", trimmed);
    for (class, name, of) in LINES {
        let middle = |part: &[MemoryPart]| (part[0].begin_ns + part[0].length_ns / 2.0) / 1e3;
        let line: Vec<(f64, f64)> = parts.iter().map(|part| (middle(part), sum(part, of))).collect();
        plot.line(&line, class);
        for (part, at) in parts.iter().zip(line) {
            let tip = format!("from {}: {} Gbps {name}", duration_ns(part[0].begin_ns), fixed(at.1, 2));
            plot.mark(at, class, &tip);
        }
    }
    plot.finish(&ids.title, &ids.caption)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn channels_are_summed_in_the_drawing_and_separate_in_the_data() {
        let mut summary = sample::single(0);
        let part = |begin_ns: f64, channel, read_gbps, read_latency_ns| MemoryPart {
            begin_ns,
            length_ns: 1e3,
            channel,
            read_gbps,
            write_gbps: 1.0,
            read_latency_ns,
        };
        summary.points[0].memory_over_time = vec![
            part(0.0, 0, 2.0, Some(60.0)),
            part(0.0, 1, 3.0, None),
            part(1e3, 0, 0.0, None),
            part(1e3, 1, 8.0, Some(90.0)),
        ];
        let points: Vec<&PointSummary> = summary.points.iter().collect();
        let figure = figure(&Ids { title: "t".into(), caption: "c".into() }, &points);
        assert!(
            figure.caption.contains("2 DRAM channels") && figure.caption.contains("60.0 ns to 90.0 ns"),
            "{}",
            figure.caption
        );
        let svg = figure.svg.expect("a drawing");
        assert!(
            svg.contains("5.00 Gbps read")
                && svg.contains("8.00 Gbps read")
                && svg.contains("2.00 Gbps written"),
            "{svg}"
        );
        assert_eq!(figure.data.rows[1], ["0.000", "1", "3.000", "1.000", "–"]);
    }
}
