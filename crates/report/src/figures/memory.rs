//! Cost of a delivered packet in the memory system and over PCI Express against load: one line per cache
//! level or direction. Values of different orders of magnitude are in separate figures.

use super::percentiles::{Row, bars};
use super::{Data, Figure, Ids, largest_load, unbroken};
use crate::number::{NONE, axis_label, short, trimmed};
use crate::scale::Scale;
use crate::svg::Plot;
use doorbell_results::figures::{DCA, L1D, L2, LLC, PCIE};
use doorbell_results::{FigureKey, PointSummary};

/// CSS class, label, and the figure.
type Line = (&'static str, &'static str, FigureKey);

/// Definition of a figure.
struct Costs {
    title: &'static str,
    caption: &'static str,
    /// The counted unit.
    unit: &'static str,
    lines: &'static [Line],
}

const CACHES: Costs = Costs {
    title: "L1D and L2 misses per packet",
    caption: "Misses of the cores' caches per delivered packet, empty polls included.",
    unit: "Lines",
    lines: &[("c-q1", "L1D misses", L1D.misses_per_packet), ("c-q3", "L2 misses", L2.misses_per_packet)],
};
const LAST_LEVEL: Costs = Costs {
    title: "LLC misses and DMA leaks per packet",
    caption: "Misses of the last-level cache per delivered packet, empty polls included, and lines placed by direct cache access that \
              were evicted before use.",
    unit: "Lines",
    lines: &[("c-q4", "LLC misses", LLC.misses_per_packet), ("c-q5", "DMA leaks", DCA.leaks_per_packet)],
};
const PCIE_BYTES: Costs = Costs {
    title: "PCI Express bytes per packet",
    caption: "Bytes over PCI Express per delivered packet, headers and framing included: up from the NIC to the host, down from the host to \
              the NIC.",
    unit: "Bytes",
    lines: &[("c-q2", "up", PCIE.up_bytes_per_packet), ("c-q4", "down", PCIE.down_bytes_per_packet)],
};

pub(super) fn caches(ids: &Ids, points: &[&PointSummary]) -> Figure {
    CACHES.figure(ids, points)
}

pub(super) fn last_level(ids: &Ids, points: &[&PointSummary]) -> Figure {
    LAST_LEVEL.figure(ids, points)
}

pub(super) fn pcie(ids: &Ids, points: &[&PointSummary]) -> Figure {
    PCIE_BYTES.figure(ids, points)
}

/// Whether anything crossed PCI Express.
pub(super) fn has_pcie(point: &PointSummary) -> bool {
    PCIE_BYTES.lines.iter().any(|(_, _, key)| point.figure(*key).is_some_and(|bytes| bytes > 0.0))
}

impl Costs {
    fn figure(&self, ids: &Ids, points: &[&PointSummary]) -> Figure {
        let values = |point: &PointSummary| -> Vec<Option<f64>> {
            self.lines.iter().map(|(_, _, key)| point.figure(*key)).collect()
        };
        let all: Vec<f64> = points.iter().flat_map(|point| values(point).into_iter().flatten()).collect();
        let heads: Vec<&str> = self.lines.iter().map(|line| line.1).collect();
        let cell = |cell: Option<f64>| cell.map_or(NONE.to_owned(), short);
        Figure {
            title: self.title.to_owned(),
            caption: self.caption.to_owned(),
            legend: self
                .lines
                .iter()
                .map(|(class, label, ..)| ((*class).to_owned(), (*label).to_owned()))
                .collect(),
            svg: match points {
                [] => None,
                [point] => Some(self.single(ids, point)),
                _ => (!all.is_empty()).then(|| self.draw(ids, points, &all)),
            },
            data: Data::by_load(points, &heads, |point| values(point).into_iter().map(cell).collect()),
        }
    }

    fn single(&self, ids: &Ids, point: &PointSummary) -> String {
        let row = |(class, label, key): &Line| {
            let value = point.figure(*key).unwrap_or(0.0);
            let tip = format!("{label}: {} {} per packet", short(value), self.unit.to_lowercase());
            Row { name: label, class, value, text: short(value), tip }
        };
        bars(ids, &self.lines.iter().map(row).collect::<Vec<_>>())
    }

    fn draw(&self, ids: &Ids, points: &[&PointSummary], all: &[f64]) -> String {
        let largest = all.iter().copied().fold(0.0, f64::max);
        let mut plot =
            Plot::new(Scale::linear(largest_load(points), 6), Scale::linear(largest, 5), 56.0, 14.0);
        plot.y_axis(&format!("{} per delivered packet", self.unit), axis_label);
        plot.x_axis("Offered, Mpps", trimmed);
        for (class, label, key) in self.lines {
            unbroken(points, |point| point.figure(*key)).iter().for_each(|run| plot.line(run, class));
            for point in points {
                let Some(value) = point.figure(*key) else { continue };
                let offered = trimmed(point.offered_mpps);
                let tip = format!(
                    "{offered} Mpps offered: {label}: {} {} per packet",
                    short(value),
                    self.unit.to_lowercase()
                );
                plot.mark((point.offered_mpps, value), class, &tip);
            }
        }
        plot.finish(&ids.title, &ids.caption)
    }
}
