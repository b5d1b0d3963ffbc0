//! Core cycles per packet by cause, one bar per load: the CPI stack times the instructions per packet.

use super::stacked::{self, Part, Stack};
use super::{Data, Figure, Ids};
use crate::number::{rate, short};
use doorbell_results::{PointSummary, finite};

/// Parts of the stack that are combined, and their names in the file.
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

/// Cycles per packet in each part; `None` if the load was not timed or no frame came back.
fn parts(point: &PointSummary) -> Option<Vec<f64>> {
    let (timing, instructions) = (point.timing.as_ref()?, finite(point.instructions_per_frame)?);
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
        true => "This run was not timed, or no frame came back.".to_owned(),
        false => format!(
            "Core cycles per delivered packet by cause, including empty polls but not sleep. At low load a \
             polling core spends its time on polls that find no packet.{}",
            stacked::note(&stacks)
        ),
    };
    Figure {
        title: "Cycles per packet".into(),
        caption,
        legend: stacked::legend(&named),
        svg: stacked::draw(ids, &named, "cycles", &stacks),
        data: Data { heads: heads.map(str::to_owned).collect(), rows: stacks.iter().map(row).collect() },
    }
}
