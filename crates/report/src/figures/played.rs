//! Figures of a played trace: use of dispatch slots and cycles.

use super::stacked::{self, Part, Stack};
use super::{Data, Figure, Ids};
use crate::number::{fixed, short};
use doorbell_results::figures::TOP_DOWN;
use doorbell_results::{FigureKey, PointSummary};

/// First level of the top-down method: the parts, and their figures.
const SLOTS: [(Part, FigureKey); 4] = [
    (("c-delivered", "retiring"), TOP_DOWN.retiring),
    (("c-corrupt", "bad speculation"), TOP_DOWN.bad_speculation),
    (("c-other", "frontend bound"), TOP_DOWN.frontend_bound),
    (("c-core", "backend bound"), TOP_DOWN.backend_bound),
];

fn bar(
    ids: &Ids,
    title: &str,
    caption: &str,
    unit: &str,
    parts: Vec<(Part, f64)>,
    point: &PointSummary,
) -> Figure {
    let named: Vec<Part> = parts.iter().map(|(part, _)| *part).collect();
    let sizes: Vec<f64> = parts.iter().map(|(_, size)| *size).collect();
    let stacks: [Stack; 1] = [(point, sizes)];
    let rows = parts.iter().map(|((_, name), size)| vec![(*name).to_owned(), fixed(*size, 3)]);
    Figure {
        title: title.to_owned(),
        caption: caption.to_owned(),
        legend: stacked::legend(&named),
        svg: stacked::draw(ids, &named, unit, &stacks),
        data: Data { heads: vec!["Part".to_owned(), unit.to_owned()], rows: rows.collect() },
    }
}

pub(super) fn top_down(ids: &Ids, points: &[&PointSummary]) -> Figure {
    let point = points[0];
    let share = |key: FigureKey| point.figure(key).unwrap_or(0.0);
    let parts: Vec<(Part, f64)> = SLOTS.iter().map(|(part, key)| (*part, 100.0 * share(*key))).collect();
    let caption =
        format!("Dispatch slots of the cores by outcome, in percent: {} retired.", short(parts[0].1));
    bar(ids, "Top-down", &caption, "% of the slots", parts, point)
}

pub(super) fn cpi(ids: &Ids, points: &[&PointSummary]) -> Figure {
    let point = points[0];
    let of = |key: &FigureKey| point.figure(*key).unwrap_or(0.0);
    let parts: Vec<(Part, f64)> =
        super::cycles::PARTS.iter().map(|(part, keys)| (*part, keys.iter().map(of).sum())).collect();
    let caption = "Core cycles per instruction by cause; sleep and waits for device writes are not \
                   included.";
    bar(ids, "Cycles per instruction", caption, "cycles per instruction", parts, point)
}
