//! The mean round trip by stage, one bar per load. Related stages are combined; the table below the figures
//! lists each stage.

use super::stacked::{self, Part, Stack};
use super::{Data, Figure, Ids};
use crate::number::{fixed, rate};
use doorbell_results::PointSummary;

/// Parts of the path and the stages in them.
const PARTS: [(Part, &[&str]); 6] = [
    (("c-link", "wire"), &["send lag", "wire in", "wire out"]),
    (("c-dma", "receive: FIFO and DMA"), &["RX FIFO", "RX DMA", "RX write-back"]),
    (("c-delivered", "ring and core"), &["core"]),
    (("c-tx", "transmit: DMA"), &["TX fetch", "TX wait", "TX DMA"]),
    (("c-other", "transmit FIFO"), &["TX FIFO"]),
    // Stages from a newer generator that this page does not list.
    (("c-unknown", "other"), &[]),
];

/// Time in each part, in microseconds.
fn parts(point: &PointSummary) -> Option<Vec<f64>> {
    let mut parts = vec![0.0; PARTS.len()];
    for (name, stage) in &point.latency_stages_ns.as_ref()?.0 {
        let part = PARTS.iter().position(|(_, names)| names.contains(&name.as_str()));
        parts[part.unwrap_or(PARTS.len() - 1)] += stage.mean / 1e3;
    }
    Some(parts)
}

pub(super) fn figure(ids: &Ids, points: &[&PointSummary]) -> Figure {
    let stacks: Vec<Stack> = points.iter().filter_map(|point| Some((*point, parts(point)?))).collect();
    let named = PARTS.map(|(part, _)| part);
    let heads = ["Offered, Mpps"].into_iter().chain(named.iter().map(|part| part.1)).chain(["all, µs"]);
    let row = |(point, parts): &Stack| {
        let cells = parts.iter().map(|us| fixed(*us, 3)).chain([fixed(parts.iter().sum(), 3)]);
        [rate(point.offered_mpps)].into_iter().chain(cells).collect()
    };
    Figure {
        title: "Latency by stage".to_owned(),
        caption: format!(
            "Mean latency of a delivered packet in microseconds by stage; the table below lists every stage.{}",
            stacked::note(&stacks)
        ),
        legend: stacked::legend(&named),
        svg: stacked::draw(ids, &named, "µs", &stacks),
        data: Data { heads: heads.map(str::to_owned).collect(), rows: stacks.iter().map(row).collect() },
    }
}
