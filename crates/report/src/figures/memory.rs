//! Misses of the caches a delivered frame, a line a level: what a packet costs in the memory system as load grows.

use super::percentiles::{Row, bars};
use super::{Data, Figure, Ids, largest_load, unbroken};
use crate::number::{NONE, short, trimmed};
use crate::scale::Scale;
use crate::svg::Plot;
use doorbell_results::PointSummary;

/// Class, the line's name, and the figure's group and name in the file.
const LINES: [(&str, &str, &str, &str); 4] = [
    ("c-q1", "L1D misses", "L1D", "misses_per_packet"),
    ("c-q3", "L2 misses", "L2", "misses_per_packet"),
    ("c-q4", "LLC misses", "LLC", "misses_per_packet"),
    ("c-q5", "DMA leaks", "direct cache access", "leaks_per_packet"),
];

fn value(point: &PointSummary, group: &str, name: &str) -> Option<f64> {
    point.timing.as_ref()?.get(group, name)
}

pub(super) fn figure(ids: &Ids, points: &[&PointSummary]) -> Figure {
    let all: Vec<f64> = points
        .iter()
        .flat_map(|point| LINES.iter().filter_map(|(_, _, group, name)| value(point, group, name)))
        .collect();
    let pcie = [("up", "up_bytes_per_packet"), ("down", "down_bytes_per_packet")];
    let heads: Vec<String> = LINES.iter().map(|line| line.1.to_owned()).collect();
    let heads = heads.into_iter().chain(pcie.map(|(way, _)| format!("PCIe bytes {way}")));
    let heads: Vec<String> = std::iter::once("Offered, Mpps".to_owned()).chain(heads).collect();
    let rows = points.iter().map(|point| {
        let misses = LINES.iter().map(|(_, _, group, name)| value(point, group, name));
        let bytes = pcie.iter().map(|(_, name)| value(point, "PCI Express", name));
        let cells = misses.chain(bytes).map(|cell| cell.map_or(NONE.to_owned(), short));
        std::iter::once(crate::number::rate(point.offered_mpps)).chain(cells).collect()
    });
    Figure {
        title: "Caches and PCI Express a frame".to_owned(),
        caption: "Misses of each level a delivered frame, empty polls included, and lines that direct cache access placed and \
                  that were evicted before use; the data have the bytes over PCI Express as well."
            .to_owned(),
        legend: LINES.iter().map(|(class, label, ..)| ((*class).to_owned(), (*label).to_owned())).collect(),
        svg: match points {
            [] => None,
            [point] => Some(single(ids, point)),
            _ => (!all.is_empty()).then(|| draw(ids, points, &all)),
        },
        data: Data { heads, rows: rows.collect() },
    }
}

fn single(ids: &Ids, point: &PointSummary) -> String {
    let row = |(class, label, group, name): &(&'static str, &'static str, &str, &str)| {
        let lines = value(point, group, name).unwrap_or(0.0);
        let tip = format!("{} {label} a frame", short(lines));
        Row { name: label, class, value: lines, text: short(lines), tip }
    };
    bars(ids, &LINES.iter().map(row).collect::<Vec<_>>())
}

fn draw(ids: &Ids, points: &[&PointSummary], all: &[f64]) -> String {
    let largest = all.iter().copied().fold(0.0, f64::max);
    let mut plot = Plot::new(Scale::linear(largest_load(points), 6), Scale::linear(largest, 5), 56.0, 14.0);
    plot.y_axis("Lines a delivered frame", trimmed);
    plot.x_axis("Offered, Mpps", trimmed);
    for (class, label, group, name) in LINES {
        unbroken(points, |point| value(point, group, name)).iter().for_each(|run| plot.line(run, class));
        for point in points {
            let Some(lines) = value(point, group, name) else { continue };
            let tip =
                format!("{} Mpps offered: {} {label} a frame", trimmed(point.offered_mpps), short(lines));
            plot.mark((point.offered_mpps, lines), class, &tip);
        }
    }
    plot.finish(&ids.title, &ids.caption)
}
