//! Stacked bars, one per load. Bar lengths show the sums, or are all equal if one sum is much larger than the
//! others.

use super::Ids;
use crate::number::{NONE, percent_label, short};
use crate::svg::{Anchor, Svg, WIDTH};
use doorbell_results::PointSummary;

/// A part: its CSS class and name.
pub(super) type Part<'a> = (&'a str, &'a str);

/// A load and the sizes of its parts.
pub(super) type Stack<'a> = (&'a PointSummary, Vec<f64>);

const ROW_HEIGHT: f64 = 34.0;
const BAR_HEIGHT: f64 = 20.0;
/// Width reserved for the labels, increased for long labels.
const NAMES: f64 = 84.0;
const LETTER: f64 = 7.0;
const VALUES: f64 = 64.0;

/// Minimum ratio between sums for drawing the bars as shares.
const FLAT_FROM_RATIO: f64 = 4.0;
/// Addition to the caption in that case.
const SHARES: &str =
    " The sums differ by a large factor, so the parts are drawn as shares; the sum is next to each bar.";

fn total(sizes: &[f64]) -> f64 {
    sizes.iter().sum()
}

/// Whether the longest bar would make the others too short.
fn in_shares<'a>(all: impl Iterator<Item = &'a Vec<f64>>) -> bool {
    let totals: Vec<f64> = all.map(|sizes| total(sizes)).filter(|sum| *sum > 0.0).collect();
    let smallest = totals.iter().copied().fold(f64::INFINITY, f64::min);
    totals.iter().any(|sum| *sum > FLAT_FROM_RATIO * smallest)
}

/// Addition to the caption about the length of the bars.
pub(super) fn note(stacks: &[Stack]) -> &'static str {
    if in_shares(stacks.iter().map(|(_, sizes)| sizes)) { SHARES } else { "" }
}

/// The drawing; `None` if there is no load with parts.
pub(super) fn draw(ids: &Ids, parts: &[Part], unit: &str, stacks: &[Stack]) -> Option<String> {
    let name =
        |point: &PointSummary| if point.rate.is_empty() { NONE.to_owned() } else { point.rate.clone() };
    let named: Vec<(String, Vec<f64>)> =
        stacks.iter().map(|(point, sizes)| (name(point), sizes.clone())).collect();
    draw_named(ids, parts, unit, &named)
}

/// The same with explicit labels.
pub(super) fn draw_named(
    ids: &Ids,
    parts: &[Part],
    unit: &str,
    stacks: &[(String, Vec<f64>)],
) -> Option<String> {
    let shares = in_shares(stacks.iter().map(|(_, sizes)| sizes));
    let largest = stacks.iter().map(|(_, sizes)| total(sizes)).fold(f64::MIN_POSITIVE, f64::max);
    let letters = stacks.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let names = NAMES.max(LETTER * letters as f64 + 16.0);
    let mut svg = Svg::new(ROW_HEIGHT * stacks.len() as f64 + 8.0);
    for (index, (name, sizes)) in stacks.iter().enumerate() {
        let top = 4.0 + ROW_HEIGHT * index as f64 + (ROW_HEIGHT - BAR_HEIGHT) / 2.0;
        svg.text(names - 10.0, top + 15.0, Anchor::End, "bar-name", name);
        let mut left = names;
        let longest = if shares { total(sizes) } else { largest };
        for ((class, name), size) in parts.iter().zip(sizes).filter(|(_, size)| **size > 0.0) {
            let width = size / longest * (WIDTH - names - VALUES);
            let share = if shares { format!(", {}", percent_label(size / longest)) } else { String::new() };
            svg.bar(
                [left, top, width, BAR_HEIGHT],
                class,
                &format!("{name}: {} {unit}{share}", short(*size)),
            );
            left += width;
        }
        svg.text(left + 8.0, top + 15.0, Anchor::Start, "value", short(total(sizes)));
    }
    svg.rule(names, 4.0, names, ROW_HEIGHT * stacks.len() as f64 + 4.0, "axis");
    (!stacks.is_empty()).then(|| svg.finish(&ids.title, &ids.caption))
}

/// The legend of the parts.
pub(super) fn legend(parts: &[Part]) -> Vec<(String, String)> {
    parts.iter().map(|(class, name)| ((*class).to_owned(), (*name).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_shares_if_one_sum_is_much_larger() {
        let point = PointSummary::default();
        let drawn = |sums: [f64; 2]| {
            let stacks: Vec<Stack> = sums.iter().map(|sum| (&point, vec![sum * 0.25, sum * 0.75])).collect();
            let svg = draw(&Ids::of("a"), &[("c-tx", "one"), ("c-dma", "two")], "µs", &stacks).unwrap();
            (note(&stacks), svg)
        };
        let (caption, svg) = drawn([10.0, 20.0]);
        assert_eq!((caption, svg.contains("7.50 µs<")), ("", true), "{svg}");
        let (caption, svg) = drawn([3.0, 3_000.0]);
        assert!(caption.contains("drawn as shares") && svg.contains(">3,000<"), "{svg}");
        for part in ["2.25 µs, 75.0\u{a0}%", "2,250 µs, 75.0\u{a0}%"] {
            assert!(svg.contains(part), "{svg}");
        }
        assert_eq!(drawn([0.0, 1.0]).0, "", "a load without parts has no bar");
    }
}
