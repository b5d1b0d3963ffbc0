//! Figures of a played trace: use of dispatch slots and cycles.

use super::stacked::{self, Part, Stack};
use super::{Data, Figure, Ids};
use crate::number::{fixed, short};
use doorbell_results::PointSummary;

/// First level of the top-down method: the parts, and their names in the file.
const SLOTS: [(Part, &str); 4] = [
    (("c-delivered", "retiring"), "retiring"),
    (("c-corrupt", "bad speculation"), "bad_speculation"),
    (("c-other", "frontend bound"), "frontend_bound"),
    (("c-core", "backend bound"), "backend_bound"),
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
    let share =
        |name: &str| point.timing.as_ref().and_then(|timing| timing.get("top-down", name)).unwrap_or(0.0);
    let parts: Vec<(Part, f64)> = SLOTS.iter().map(|(part, name)| (*part, 100.0 * share(name))).collect();
    let caption =
        format!("Dispatch slots of the cores by outcome, in percent: {} retired.", short(parts[0].1));
    bar(ids, "Top-down", &caption, "% of the slots", parts, point)
}

pub(super) fn cpi(ids: &Ids, points: &[&PointSummary]) -> Figure {
    let point = points[0];
    let of =
        |name: &&str| point.timing.as_ref().and_then(|timing| timing.get("CPI stack", name)).unwrap_or(0.0);
    let parts: Vec<(Part, f64)> =
        super::cycles::PARTS.iter().map(|(part, names)| (*part, names.iter().map(of).sum())).collect();
    let caption = "Core cycles per instruction by cause; sleep and waits for device writes are not \
                   included.";
    bar(ids, "Cycles per instruction", caption, "cycles per instruction", parts, point)
}
