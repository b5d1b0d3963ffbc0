//! Core cycles a packet by what they went into, a bar a load: the CPI stack times the instructions a packet.

use super::{Data, Figure, Ids};
use crate::number::{NONE, rate, short};
use crate::summary::PointSummary;
use crate::svg::{Anchor, Svg, WIDTH};

/// Parts of the stack that are drawn together: class, name, and their names in the file.
const PARTS: [(&str, &str, &[&str]); 8] = [
    ("c-delivered", "commit", &["base"]),
    ("c-corrupt", "bad speculation", &["branch", "clear"]),
    ("c-other", "front end", &["misfetch", "icache", "itlb", "fetch"]),
    ("c-tx", "execution", &["execute", "serialise"]),
    ("c-link", "L1, L2", &["l1", "l2"]),
    ("c-dma", "LLC, other cores", &["llc", "peer"]),
    ("c-core", "memory, TLB", &["dram", "dtlb"]),
    ("c-guest", "stores, devices", &["store", "device"]),
];
const ROW_HEIGHT: f64 = 34.0;
const BAR_HEIGHT: f64 = 20.0;
const NAMES: f64 = 84.0;
const VALUES: f64 = 64.0;

/// Cycles a packet of each part; none if the load was not timed or nothing came back.
fn parts(point: &PointSummary) -> Option<Vec<f64>> {
    let (timing, instructions) = (point.timing.as_ref()?, point.instructions_per_frame?);
    let of = |name: &&str| timing.get("CPI stack", name).unwrap_or(0.0);
    Some(PARTS.iter().map(|(_, _, names)| names.iter().map(of).sum::<f64>() * instructions).collect())
}

pub(super) fn figure(ids: &Ids, points: &[&PointSummary]) -> Figure {
    let stacks: Vec<(&PointSummary, Vec<f64>)> =
        points.iter().filter_map(|point| parts(point).map(|parts| (*point, parts))).collect();
    let heads = ["Offered, Mpps"].into_iter().chain(PARTS.iter().map(|part| part.1)).chain(["all"]);
    let row = |(point, parts): &(&PointSummary, Vec<f64>)| {
        let cells = parts.iter().map(|cycles| short(*cycles)).chain([short(parts.iter().sum())]);
        [rate(point.offered_mpps)].into_iter().chain(cells).collect()
    };
    let caption = match stacks.is_empty() {
        true => "This run was not timed, or nothing came back.".to_owned(),
        false => "Core cycles a delivered frame by what they went into; empty polls are among them, sleep is not. At \
                  low load a polling core fills its time with polls that find nothing."
            .to_owned(),
    };
    Figure {
        title: "Where the cycles went".into(),
        caption,
        legend: PARTS.iter().map(|(class, name, _)| ((*class).to_owned(), (*name).to_owned())).collect(),
        svg: (!stacks.is_empty()).then(|| draw(ids, &stacks)),
        data: Data { heads: heads.map(str::to_owned).collect(), rows: stacks.iter().map(row).collect() },
    }
}

fn draw(ids: &Ids, stacks: &[(&PointSummary, Vec<f64>)]) -> String {
    let total = |parts: &[f64]| parts.iter().sum::<f64>();
    let largest = stacks.iter().map(|(_, parts)| total(parts)).fold(f64::MIN_POSITIVE, f64::max);
    let mut svg = Svg::new(ROW_HEIGHT * stacks.len() as f64 + 8.0);
    for (index, (point, parts)) in stacks.iter().enumerate() {
        let top = 4.0 + ROW_HEIGHT * index as f64 + (ROW_HEIGHT - BAR_HEIGHT) / 2.0;
        let name = if point.rate.is_empty() { NONE } else { &point.rate };
        svg.text((NAMES - 10.0, top + 15.0), Anchor::End, "bar-name", name);
        let mut left = NAMES;
        for ((class, name, _), cycles) in PARTS.iter().zip(parts).filter(|(_, cycles)| **cycles > 0.0) {
            let width = cycles / largest * (WIDTH - NAMES - VALUES);
            svg.bar([left, top, width, BAR_HEIGHT], class, &format!("{name}: {} cycles", short(*cycles)));
            left += width;
        }
        svg.text((left + 8.0, top + 15.0), Anchor::Start, "value", short(total(parts)));
    }
    svg.rule((NAMES, 4.0), (NAMES, ROW_HEIGHT * stacks.len() as f64 + 4.0), "axis");
    svg.finish(&ids.title, &ids.caption)
}
