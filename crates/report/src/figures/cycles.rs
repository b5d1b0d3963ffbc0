//! Core cycles per packet by cause, one bar per load: the CPI stack times the instructions per packet.

use super::stacked::{self, Part, Stack};
use super::{Data, Figure, Ids};
use crate::number::{rate, short};
use doorbell_results::figures::CPI_STACK;
use doorbell_results::{FigureKey, PointSummary, finite};

/// Parts of the stack, and the figures that are combined in each.
pub(super) const PARTS: [(Part, &[FigureKey]); 8] = [
    (("c-delivered", "commit"), &[CPI_STACK.base]),
    (("c-corrupt", "bad speculation"), &[CPI_STACK.branch, CPI_STACK.clear]),
    (("c-other", "front end"), &[CPI_STACK.misfetch, CPI_STACK.icache, CPI_STACK.itlb, CPI_STACK.fetch]),
    (("c-tx", "execution"), &[CPI_STACK.execute, CPI_STACK.divider, CPI_STACK.ports, CPI_STACK.serialise]),
    (("c-link", "L1, L2"), &[CPI_STACK.l1, CPI_STACK.l2]),
    (("c-dma", "LLC, other cores"), &[CPI_STACK.llc, CPI_STACK.peer]),
    (("c-core", "memory, TLB"), &[CPI_STACK.dram, CPI_STACK.dtlb]),
    (("c-guest", "stores, devices"), &[CPI_STACK.store, CPI_STACK.device]),
];

/// Cycles per packet in each part; `None` if the load was not timed or no frame came back.
fn parts(point: &PointSummary) -> Option<Vec<f64>> {
    let (timing, instructions) = (point.timing.as_ref()?, finite(point.instructions_per_frame)?);
    let of = |key: &FigureKey| timing.get(*key).unwrap_or(0.0);
    Some(PARTS.iter().map(|(_, keys)| keys.iter().map(of).sum::<f64>() * instructions).collect())
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
