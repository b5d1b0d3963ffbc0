//! Core cycles a packet by what they went into, a bar a load: the CPI stack times the instructions a packet.

use super::stacked::{self, Part, Stack};
use super::{Data, Figure, Ids};
use crate::number::{rate, short};
use doorbell_results::{PointSummary, known};

/// Parts of the stack that are drawn together, and their names in the file.
pub(super) const PARTS: [(Part, &[&str]); 8] = [
    (("c-delivered", "commit"), &["base"]),
    (("c-corrupt", "bad speculation"), &["branch", "clear"]),
    (("c-other", "front end"), &["misfetch", "icache", "itlb", "fetch"]),
    (("c-tx", "execution"), &["execute", "divider", "ports", "serialise"]),
    (("c-link", "L1, L2"), &["l1", "l2"]),
    (("c-dma", "LLC, other cores"), &["llc", "peer"]),
    (("c-core", "memory, TLB"), &["dram", "dtlb"]),
    (("c-guest", "stores, devices"), &["store", "device"]),
];

/// Cycles a packet of each part; none if the load was not timed or nothing came back.
fn parts(point: &PointSummary) -> Option<Vec<f64>> {
    let (timing, instructions) = (point.timing.as_ref()?, known(point.instructions_per_frame)?);
    let of = |name: &&str| timing.get("CPI stack", name).unwrap_or(0.0);
    Some(PARTS.iter().map(|(_, names)| names.iter().map(of).sum::<f64>() * instructions).collect())
}

pub(super) fn figure(ids: &Ids, points: &[&PointSummary]) -> Figure {
    let stacks: Vec<Stack> = points.iter().filter_map(|point| Some((*point, parts(point)?))).collect();
    let named = PARTS.map(|(part, _)| part);
    let heads = ["Offered, Mpps"].into_iter().chain(named.iter().map(|part| part.1)).chain(["all"]);
    let row = |(point, parts): &Stack| {
        let cells = parts.iter().map(|cycles| short(*cycles)).chain([short(parts.iter().sum())]);
        [rate(point.offered_mpps)].into_iter().chain(cells).collect()
    };
    let caption = match stacks.is_empty() {
        true => "This run was not timed, or nothing came back.".to_owned(),
        false => format!(
            "Core cycles a delivered packet by what they went into; empty polls are among them, sleep is not. At low load a \
             polling core fills its time with polls that find nothing.{}",
            stacked::note(&stacks)
        ),
    };
    Figure {
        title: "Where the cycles went".into(),
        caption,
        legend: stacked::legend(&named),
        svg: stacked::draw(ids, &named, "cycles", &stacks),
        data: Data { heads: heads.map(str::to_owned).collect(), rows: stacks.iter().map(row).collect() },
    }
}
