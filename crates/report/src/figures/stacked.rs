//! Bars of parts: a load each, as long as their sum.

use super::Ids;
use crate::number::{NONE, short};
use crate::svg::{Anchor, Svg, WIDTH};
use doorbell_results::PointSummary;

/// A part: its class and name.
pub(super) type Part<'a> = (&'a str, &'a str);

/// A load and its parts' sizes.
pub(super) type Stack<'a> = (&'a PointSummary, Vec<f64>);

const ROW_HEIGHT: f64 = 34.0;
const BAR_HEIGHT: f64 = 20.0;
/// Room for the loads' names, which takes more where one is long.
const NAMES: f64 = 84.0;
const LETTER: f64 = 7.0;
const VALUES: f64 = 64.0;

/// The drawing; none if there is no load with parts.
pub(super) fn draw(ids: &Ids, parts: &[Part], unit: &str, stacks: &[Stack]) -> Option<String> {
    let name =
        |point: &PointSummary| if point.rate.is_empty() { NONE.to_owned() } else { point.rate.clone() };
    let named: Vec<(String, Vec<f64>)> =
        stacks.iter().map(|(point, sizes)| (name(point), sizes.clone())).collect();
    draw_named(ids, parts, unit, &named)
}

/// The same of bars with these names.
pub(super) fn draw_named(
    ids: &Ids,
    parts: &[Part],
    unit: &str,
    stacks: &[(String, Vec<f64>)],
) -> Option<String> {
    let total = |sizes: &[f64]| sizes.iter().sum::<f64>();
    let largest = stacks.iter().map(|(_, sizes)| total(sizes)).fold(f64::MIN_POSITIVE, f64::max);
    let letters = stacks.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let names = NAMES.max(LETTER * letters as f64 + 16.0);
    let mut svg = Svg::new(ROW_HEIGHT * stacks.len() as f64 + 8.0);
    for (index, (name, sizes)) in stacks.iter().enumerate() {
        let top = 4.0 + ROW_HEIGHT * index as f64 + (ROW_HEIGHT - BAR_HEIGHT) / 2.0;
        svg.text((names - 10.0, top + 15.0), Anchor::End, "bar-name", name);
        let mut left = names;
        for ((class, name), size) in parts.iter().zip(sizes).filter(|(_, size)| **size > 0.0) {
            let width = size / largest * (WIDTH - names - VALUES);
            svg.bar([left, top, width, BAR_HEIGHT], class, &format!("{name}: {} {unit}", short(*size)));
            left += width;
        }
        svg.text((left + 8.0, top + 15.0), Anchor::Start, "value", short(total(sizes)));
    }
    svg.rule((names, 4.0), (names, ROW_HEIGHT * stacks.len() as f64 + 4.0), "axis");
    (!stacks.is_empty()).then(|| svg.finish(&ids.title, &ids.caption))
}

/// The parts as a legend.
pub(super) fn legend(parts: &[Part]) -> Vec<(String, String)> {
    parts.iter().map(|(class, name)| ((*class).to_owned(), (*name).to_owned())).collect()
}
