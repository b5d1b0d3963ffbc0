//! A comparison of results for the terminal: the differences, and the main figures.

use std::fmt::Write;

use crate::number::one_line;
use crate::number::{NONE, group_digits};
use doorbell_results::{
    ComparedFigure, ComparedPoint, ComparedSide, ComparedValue, ComparedWords, Comparison, FigureDifference,
};

/// Maximum width of a text cell; the page has the full text.
const WORDS_MAX: usize = 24;

/// The comparison as text. Lists the figures that `is_listed` selects, and with `all` also every other figure
/// that differs.
pub fn comparison_text(
    comparison: &Comparison,
    all: bool,
    is_listed: &dyn Fn(&ComparedFigure) -> bool,
) -> String {
    let mut out = String::new();
    for side in &comparison.sides {
        let _ = writeln!(out, "{}  {}  ({})", side.name, one_line(&side.path), describe_side(side));
    }
    words("Configuration", comparison, &comparison.configuration, &mut out);
    words("Software", comparison, &comparison.ran, &mut out);
    if comparison.configuration.is_empty() && comparison.ran.is_empty() {
        out.push_str("\nConfiguration and software are the same.\n");
    }
    for point in &comparison.points {
        point_lines(point, comparison, all, is_listed, &mut out);
    }
    if !comparison.unmatched.is_empty() {
        out.push_str("\nNot matched\n\n");
    }
    for point in &comparison.unmatched {
        let _ = writeln!(out, "{}  {}", point.side, one_line(&point.at));
    }
    for note in &comparison.notes {
        let _ = writeln!(out, "\n{}.", one_line(note.trim_end_matches('.')));
    }
    out
}

/// A short description of a side.
pub(crate) fn describe_side(side: &ComparedSide) -> String {
    let points = if side.points == 1 { "1 point".to_owned() } else { format!("{} points", side.points) };
    format!(
        "{} of {}, preset {}, Doorbell {}, {points}",
        side.kind,
        one_line(&side.benchmark),
        one_line(&side.preset),
        side.doorbell_version
    )
}

fn words(head: &str, comparison: &Comparison, all: &[ComparedWords], out: &mut String) {
    if all.is_empty() {
        return;
    }
    let width = all.iter().map(|words| words.name.chars().count()).max().unwrap_or(0).clamp(head.len(), 44);
    let _ = write!(out, "\n{head:<width$}");
    for side in &comparison.sides {
        let _ = write!(out, "  {:<WORDS_MAX$}", side.name);
    }
    end_line(out);
    for words in all {
        let _ = write!(out, "{:<width$}", words.name);
        for value in &words.values {
            let _ = write!(out, "  {:<WORDS_MAX$}", cut(value.as_deref().unwrap_or(NONE)));
        }
        end_line(out);
    }
}

/// Ends the line, without trailing spaces.
fn end_line(out: &mut String) {
    out.truncate(out.trim_end_matches(' ').len());
    out.push('\n');
}

fn cut(text: &str) -> String {
    let text = one_line(text);
    match text.chars().count() {
        count if count > WORDS_MAX => text.chars().take(WORDS_MAX - 1).chain(['…']).collect(),
        _ => text,
    }
}

fn point_lines(
    point: &ComparedPoint,
    comparison: &Comparison,
    all: bool,
    is_listed: &dyn Fn(&ComparedFigure) -> bool,
    out: &mut String,
) {
    if !point.at.is_empty() {
        let _ = writeln!(out, "\nAt {}", one_line(&point.at));
    }
    if point.repetitions.iter().any(|count| *count > 1) {
        let counts: Vec<String> = point.repetitions.iter().map(usize::to_string).collect();
        let _ = writeln!(out, "\nMeans of {} repetitions", counts.join(" and "));
    }
    let shown = |figure: &&ComparedFigure| is_listed(figure) || all && figure.differs();
    let figures: Vec<&ComparedFigure> = point.figures.iter().filter(shown).collect();
    let width = figures.iter().map(|figure| figure.name.chars().count()).max().unwrap_or(0).clamp(24, 60);
    let two = comparison.sides.len() == 2;
    let _ = write!(out, "\n{:<width$} {:>11}", "", "A");
    for side in &comparison.sides[1..] {
        let _ = write!(out, " {:>11}", side.name);
        if two {
            let _ = write!(out, " {:>11}", format!("{} - A", side.name));
        }
        let _ = write!(out, " {:>8}  {:<7}", "%", "95 %");
    }
    end_line(out);
    for figure in &figures {
        let _ = write!(out, "{:<width$} {:>11}", figure.name, value(figure.values[0]));
        for (other, difference) in figure.values[1..].iter().zip(&figure.differences) {
            let _ = write!(out, " {:>11}", value(*other));
            if two {
                let by = difference.map_or(NONE.to_owned(), |own| signed(own.difference));
                let _ = write!(out, " {by:>11}");
            }
            let _ = write!(out, " {:>8}  {:<7}", percent_of(*difference), outside(*difference));
        }
        end_line(out);
    }
    for words in &point.words {
        let values: Vec<String> =
            words.values.iter().map(|own| cut(own.as_deref().unwrap_or(NONE))).collect();
        let _ = writeln!(out, "{}: {}", words.name, values.join(", "));
    }
    rest(point, all, is_listed, out);
}

/// Number of figures that are not listed.
fn rest(point: &ComparedPoint, all: bool, is_listed: &dyn Fn(&ComparedFigure) -> bool, out: &mut String) {
    let others = || point.figures.iter().filter(|figure| !is_listed(figure));
    let differ = others().filter(|figure| figure.differs()).count();
    let same = others().count() - differ;
    if point.same_state {
        out.push_str("The machines ended in the same state.\n");
    }
    match (all, differ) {
        (true, _) => {
            let _ = writeln!(out, "{same} other figures are the same.");
        }
        (false, 0) => {
            let _ = writeln!(out, "All {same} other figures are the same.");
        }
        (false, _) => {
            let _ = writeln!(out, "{differ} other figures differ (--all lists them), {same} are the same.");
        }
    }
}

pub(crate) fn value(value: Option<ComparedValue>) -> String {
    value.map_or(NONE.to_owned(), |own| figure(own.value))
}

/// Formats a number with five significant digits; whole numbers keep all digits.
pub(crate) fn figure(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e12).contains(&size) {
        return format!("{value:.3e}");
    }
    let decimals = if value.fract() == 0.0 { 0 } else { (4.0 - size.log10().floor()).max(0.0) as usize };
    let text = format!("{size:.decimals$}");
    let grouped = match text.split_once('.') {
        Some((whole, fraction)) => format!("{}.{fraction}", group_digits(whole)),
        None => group_digits(&text),
    };
    format!("{}{grouped}", if value < 0.0 { "-" } else { "" })
}

pub(crate) fn signed(value: f64) -> String {
    format!("{}{}", if value > 0.0 { "+" } else { "" }, figure(value))
}

/// The difference in percent of the base; none for a base of zero.
pub(crate) fn percent_of(difference: Option<FigureDifference>) -> String {
    match difference.map(|own| (own.difference, own.relative)) {
        None | Some((_, None)) if difference.is_none_or(|own| own.difference != 0.0) => NONE.to_owned(),
        Some((_, Some(relative))) if relative != 0.0 => {
            let percent = relative * 100.0;
            match percent.abs() {
                size if size < 0.01 => format!("{}0.01", if percent > 0.0 { "<+" } else { ">-" }),
                size if size < 1000.0 => format!("{percent:+.2}"),
                _ => format!("{percent:+.0}"),
            }
        }
        _ => "0".to_owned(),
    }
}

/// Whether the difference is outside both intervals.
pub(crate) fn outside(difference: Option<FigureDifference>) -> &'static str {
    match difference.and_then(|own| own.outside_both) {
        Some(true) => "outside",
        Some(false) => "within",
        None => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison_html;
    use doorbell_results::{Interval, UnmatchedPoint};

    fn of(base: f64, other: Option<f64>, outside_both: Option<bool>) -> ComparedFigure {
        let interval = outside_both.map(|_| Interval { low: base - 1.0, high: Some(base + 1.0) });
        let relative = |value: f64| (base != 0.0).then(|| (value - base) / base);
        let difference =
            |value| FigureDifference { difference: value - base, relative: relative(value), outside_both };
        ComparedFigure {
            name: "drops".into(),
            headline: true,
            of_host: false,
            values: vec![
                Some(ComparedValue { value: base, interval }),
                other.map(|value| ComparedValue { value, interval: None }),
            ],
            differences: vec![other.map(difference)],
        }
    }

    fn comparison(figures: Vec<ComparedFigure>) -> Comparison {
        let side = |name: &str, path: &str| ComparedSide {
            name: name.into(),
            path: path.into(),
            ..ComparedSide::default()
        };
        Comparison {
            sides: vec![side("A", "one"), side("B", "<two>")],
            configuration: vec![ComparedWords {
                name: "nic.rx_fifo".into(),
                values: vec![None, Some("<48KiB>".into())],
            }],
            points: vec![ComparedPoint {
                at: "rate 1Mpps".into(),
                repetitions: vec![1, 1],
                figures,
                ..ComparedPoint::default()
            }],
            unmatched: vec![UnmatchedPoint { side: "B".into(), at: "rate 2Mpps".into() }],
            failures: vec!["B: drops is 5 instead of 4".into()],
            ..Comparison::default()
        }
    }

    #[test]
    fn figures_have_five_digits_and_percentages_a_sign() {
        for (value, text) in [
            (0.0, "0"),
            (1_234_567.0, "1,234,567"),
            (-5.0, "-5"),
            (28.199_123, "28.199"),
            (1_234.56, "1,234.6"),
            (0.012_345_6, "0.012346"),
            (3e-7, "3.000e-7"),
            (1.5e15, "1.500e15"),
        ] {
            assert_eq!(figure(value), text);
        }
        let percent = |base, other| percent_of(of(base, Some(other), None).differences[0]);
        assert_eq!([percent(4.0, 5.0), percent(4.0, 3.0), percent(4.0, 4.0)], ["+25.00", "-25.00", "0"]);
        assert_eq!([percent(0.0, 5.0), percent(0.0, 0.0), percent(1.0, 100.0)], [NONE, "0", "+9900"]);
        assert_eq!([percent(1e6, 1e6 + 1.0), percent(1e6, 1e6 - 1.0)], ["<+0.01", ">-0.01"]);
        assert_eq!(percent_of(None), NONE);
    }

    #[test]
    fn the_text_and_the_page_show_differences_and_missing_values() {
        let figures = vec![of(4.0, Some(5.0), Some(true)), of(4.0, None, None), of(0.0, Some(1.0), None)];
        let comparison = comparison(figures);
        let text = comparison_text(&comparison, false, &|figure| figure.headline);
        for line in [
            "nic.rx_fifo    \u{2013}                         <48KiB>\n",
            "At rate 1Mpps\n",
            "drops                              4           5          +1   +25.00  outside\n",
            "drops                              4           \u{2013}           \u{2013}        \u{2013}\n",
            "drops                              0           1          +1        \u{2013}\n",
            "B  rate 2Mpps\n",
        ] {
            assert!(text.contains(line), "no {line}in\n{text}");
        }
        let page = comparison_html(&comparison, "doorbell compare one \"<two>\"");
        for part in [
            "&lt;48KiB&gt;",
            "4 <span class=\"interval\">(3 to 5)</span>",
            "<td>outside</td>",
            "B: drops is 5 instead of 4.",
            "rate 2Mpps",
            "</html>",
        ] {
            assert!(page.contains(part), "no {part}");
        }
        assert!(!page.contains("<two>"));
    }
}
