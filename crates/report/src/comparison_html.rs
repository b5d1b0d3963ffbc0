//! A comparison of results as a page.

use std::fmt::Write;

use crate::comparison::{describe_side, figure, outside, percent_of, signed, value};
use crate::escape::Esc;
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
    begin_table("sides", "Results compared", &["Side", "Result", "Description"], &mut out);
    for side in &comparison.sides {
        row(&side.name, &[side.path.clone(), describe_side(side)], &mut out);
    }
    out.push_str("</tbody>\n</table></div>\n</section>\n");
    words("configuration", "Configuration", comparison, &comparison.configuration, &mut out);
    words("ran", "Software", comparison, &comparison.ran, &mut out);
    if comparison.configuration.is_empty() && comparison.ran.is_empty() {
        out.push_str("<p class=\"nothing\">Configuration and software are the same.</p>\n");
    }
    for (index, point) in comparison.points.iter().enumerate() {
        figures(index, point, comparison, &mut out);
    }
    if !comparison.unmatched.is_empty() {
        begin_table("unmatched", "Not matched", &["Side", "Point"], &mut out);
        for point in &comparison.unmatched {
            row(&point.side, std::slice::from_ref(&point.at), &mut out);
        }
        out.push_str("</tbody>\n</table></div>\n</section>\n");
    }
    let _ = write!(
        out,
        "<section aria-labelledby=\"provenance\">\n<h2 id=\"provenance\">Command</h2>\n\
         <pre class=\"command\">{}</pre>\n</section>\n",
        Esc(command)
    );
    let note = "Differences are to the first result, in percent of its value. 95 %: a figure is outside if each of the two values is outside \
                the other's confidence interval (for a search, outside the rate interval of the other), and within if one is not. If the \
                cell is empty, the uncertainty is unknown: a simulation of one configuration and seed always gives the same result.";
    page::end(&[&note], &mut out);
    out
}

fn warnings(comparison: &Comparison, out: &mut String) {
    if comparison.notes.is_empty() && comparison.failures.is_empty() {
        return;
    }
    out.push_str("<div class=\"warning\" role=\"note\">\n");
    for note in comparison.failures.iter().chain(&comparison.notes) {
        let _ = writeln!(out, "<p>{}.</p>", Esc(note.trim_end_matches('.')));
    }
    out.push_str("</div>\n");
}

fn begin_table(id: &str, title: &str, heads: &[&str], out: &mut String) {
    let _ = write!(out, "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{}</h2>\n", Esc(title));
    scrolled_table(title, heads, out);
}

fn scrolled_table(title: &str, heads: &[&str], out: &mut String) {
    let _ = write!(
        out,
        "<div class=\"scroll\" role=\"region\" aria-label=\"{}, table\" tabindex=\"0\">\n<table class=\"numbers few compared\">\n<thead><tr>",
        Esc(title)
    );
    head_cells(heads, out);
}

fn head_cells(heads: &[&str], out: &mut String) {
    for head in heads {
        let _ = write!(out, "<th scope=\"col\">{}</th>", Esc(head));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
}

fn row(name: &str, cells: &[String], out: &mut String) {
    let _ = write!(out, "<tr><th scope=\"row\">{}</th>", Esc(name));
    for cell in cells {
        let _ = write!(out, "<td>{}</td>", Esc(cell));
    }
    out.push_str("</tr>\n");
}

fn words(id: &str, title: &str, comparison: &Comparison, all: &[ComparedWords], out: &mut String) {
    if all.is_empty() {
        return;
    }
    let heads: Vec<&str> =
        ["What"].into_iter().chain(comparison.sides.iter().map(|side| side.name.as_str())).collect();
    begin_table(id, title, &heads, out);
    for words in all {
        let cells: Vec<String> =
            words.values.iter().map(|own| own.clone().unwrap_or_else(|| NONE.to_owned())).collect();
        row(&words.name, &cells, out);
    }
    out.push_str("</tbody>\n</table></div>\n</section>\n");
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
    begin_table(&id, &title, &heads, out);
    let (first, others): (Vec<&ComparedFigure>, Vec<&ComparedFigure>) =
        point.figures.iter().partition(|figure| figure.headline);
    first.iter().for_each(|figure| figure_row(figure, out));
    out.push_str("</tbody>\n</table></div>\n");
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
            scrolled_table(&format!("{title}: {} {what}", figures.len()), &heads, out);
            figures.iter().for_each(|figure| figure_row(figure, out));
            out.push_str("</tbody>\n</table></div>\n</details>\n");
        }
    }
    out.push_str("</section>\n");
}

fn figure_row(figure: &ComparedFigure, out: &mut String) {
    let _ = write!(out, "<tr><th scope=\"row\">{}</th>", Esc(&figure.name));
    with_interval(figure.values[0], out);
    for (other, difference) in figure.values[1..].iter().zip(&figure.differences) {
        with_interval(*other, out);
        let by = difference.map_or(NONE.to_owned(), |own| signed(own.difference));
        for cell in [by, percent_of(*difference), outside(*difference).to_owned()] {
            let _ = write!(out, "<td>{}</td>", Esc(&cell));
        }
    }
    out.push_str("</tr>\n");
}

/// A cell with a value, and below it its interval: next to it, a table of two sides would not fit a screen.
fn with_interval(own: Option<ComparedValue>, out: &mut String) {
    let _ = write!(out, "<td>{}", Esc(&value(own)));
    if let Some(interval) = own.and_then(|own| own.interval) {
        let low = figure(interval.low);
        let range = interval.high.map_or("or more".to_owned(), |high| format!("{low} to {}", figure(high)));
        let _ = write!(out, " <span class=\"interval\">({})</span>", Esc(&range));
    }
    out.push_str("</td>");
}
