//! A comparison of results as a page.

use std::fmt::Write;

use crate::comparison::{describe_side, figure, outside, percent_of, signed, value};
use crate::escape::Esc;
use crate::html_table::HtmlTable;
use crate::number::NONE;
use crate::page;
use doorbell_results::{ComparedFigure, ComparedPoint, ComparedValue, ComparedWords, Comparison};

/// The comparison as a page, with every figure.
pub fn comparison_html(comparison: &Comparison, command: &str) -> String {
    let names: Vec<&str> = comparison.sides.iter().map(|side| side.path.as_str()).collect();
    let points = match comparison.points.len() {
        1 => "1 point compared".to_owned(),
        count => format!("{count} points compared"),
    };
    let facts = [format!("{} results", names.len()), points];
    let mut out = page::begin(&names.join(" and "), "comparison", &[&facts[0], &facts[1]]);
    warnings(comparison, &mut out);
    let mut table = section_table("sides", "Results compared", &["Side", "Result", "Description"], &mut out);
    for side in &comparison.sides {
        table.row(&side.name, [&side.path, &describe_side(side)]);
    }
    table.end();
    out.push_str("</section>\n");
    words("configuration", "Configuration", comparison, &comparison.configuration, &mut out);
    words("ran", "Software", comparison, &comparison.ran, &mut out);
    if comparison.configuration.is_empty() && comparison.ran.is_empty() {
        out.push_str("<p class=\"nothing\">Configuration and software are the same.</p>\n");
    }
    for (index, point) in comparison.points.iter().enumerate() {
        figures(index, point, comparison, &mut out);
    }
    if !comparison.unmatched.is_empty() {
        let mut table = section_table("unmatched", "Not matched", &["Side", "Point"], &mut out);
        comparison.unmatched.iter().for_each(|point| table.row(&point.side, [&point.at]));
        table.end();
        out.push_str("</section>\n");
    }
    out.push_str(&page::section("provenance", "Command"));
    let _ = write!(out, "<pre class=\"command\">{}</pre>\n</section>\n", Esc(command));
    let note = "Differences are to the first result, in percent of its value. 95 %: a figure is outside if each of the two values is outside \
                the other's confidence interval (for a search, outside the rate interval of the other), and within if one is not. If the \
                cell is empty, the uncertainty is unknown: a simulation of one configuration and seed always gives the same result.";
    page::end(&[&note], &mut out);
    out
}

fn warnings(comparison: &Comparison, out: &mut String) {
    let notes = comparison.failures.iter().chain(&comparison.notes);
    page::warning(notes.map(|note| format!("{}.", note.trim_end_matches('.'))), out);
}

/// Begins a section with a table.
fn section_table<'a>(id: &str, title: &str, heads: &[&str], out: &'a mut String) -> HtmlTable<'a> {
    out.push_str(&page::section(id, title));
    table(title, heads, out)
}

fn table<'a>(title: &str, heads: &[&str], out: &'a mut String) -> HtmlTable<'a> {
    HtmlTable::begin(format!("{title}, table"), "numbers few compared", heads, out)
}

fn words(id: &str, title: &str, comparison: &Comparison, all: &[ComparedWords], out: &mut String) {
    if all.is_empty() {
        return;
    }
    let heads: Vec<&str> =
        ["What"].into_iter().chain(comparison.sides.iter().map(|side| side.name.as_str())).collect();
    let mut table = section_table(id, title, &heads, out);
    for words in all {
        table.row(&words.name, words.values.iter().map(|own| own.as_deref().unwrap_or(NONE)));
    }
    table.end();
    out.push_str("</section>\n");
}

/// Tables of a point's figures: headline figures first, the others folded.
fn figures(index: usize, point: &ComparedPoint, comparison: &Comparison, out: &mut String) {
    let id = format!("figures-{index}");
    let title = if point.at.is_empty() { "Figures".to_owned() } else { format!("At {}", point.at) };
    let mut heads = vec!["Figure".to_owned(), "A".to_owned()];
    for side in &comparison.sides[1..] {
        let name = &side.name;
        heads.extend([name.clone(), format!("{name} \u{2212} A"), "%".to_owned(), "95 %".to_owned()]);
    }
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut shown = section_table(&id, &title, &heads, out);
    let (first, others): (Vec<&ComparedFigure>, Vec<&ComparedFigure>) =
        point.figures.iter().partition(|figure| figure.headline);
    first.iter().for_each(|figure| figure_row(figure, &mut shown));
    shown.end();
    if point.same_state {
        out.push_str("<p>The machines ended in the same state.</p>\n");
    }
    for words in &point.words {
        let values: Vec<&str> = words.values.iter().map(|own| own.as_deref().unwrap_or(NONE)).collect();
        let _ = writeln!(out, "<p>{}: {}</p>", Esc(&words.name), Esc(values.join(", ")));
    }
    let (differ, same): (Vec<_>, Vec<_>) = others.into_iter().partition(|figure| figure.differs());
    for (what, figures) in [("others differ", differ), ("others are the same", same)] {
        if !figures.is_empty() {
            let _ = write!(out, "<details>\n<summary>{} {what}</summary>\n", figures.len());
            let mut table = table(&format!("{title}: {} {what}", figures.len()), &heads, out);
            figures.iter().for_each(|figure| figure_row(figure, &mut table));
            table.end();
            out.push_str("</details>\n");
        }
    }
    out.push_str("</section>\n");
}

fn figure_row(figure: &ComparedFigure, table: &mut HtmlTable) {
    table.name(&figure.name).html([with_interval(figure.values[0])]);
    for (other, difference) in figure.values[1..].iter().zip(&figure.differences) {
        let by = difference.map_or(NONE.to_owned(), |own| signed(own.difference));
        table.html([with_interval(*other)]).cells([
            by,
            percent_of(*difference),
            outside(*difference).to_owned(),
        ]);
    }
    table.end_row();
}

/// A value, and below it its interval: next to it, a table of two sides would not fit a screen.
fn with_interval(own: Option<ComparedValue>) -> String {
    let value = Esc(value(own)).to_string();
    let Some(interval) = own.and_then(|own| own.interval) else { return value };
    let low = figure(interval.low);
    let range = interval.high.map_or("or more".to_owned(), |high| format!("{low} to {}", figure(high)));
    format!("{value} <span class=\"interval\">({})</span>", Esc(range))
}
