//! Renders the tables of microbenchmarks as Markdown.

use std::fmt::Write;

use doorbell_core::CoreKind;

use super::Row;

/// Rows as a Markdown table. The rows of both cores for the same loop and unit share one line.
pub fn rows_as_markdown(rows: &[Row]) -> String {
    let mut text = String::from(
        "| loop | unit | out-of-order | closed form | in-order | closed form |\n|---|---|---|---|---|---|\n",
    );
    let (wide, narrow): (Vec<&Row>, Vec<&Row>) =
        rows.iter().partition(|row| row.core == CoreKind::OutOfOrder);
    for row in &wide {
        let twin = narrow.iter().find(|other| other.what == row.what && other.unit == row.unit);
        let (measured, form) = twin.map_or((String::new(), String::new()), |row| cells(row));
        let own = cells(row);
        let form = if twin.is_some_and(|twin| twin.form == row.form && twin.expected == row.expected) {
            "the same".to_owned()
        } else {
            form
        };
        writeln!(text, "| {} | {} | {} | {} | {measured} | {form} |", row.what, row.unit, own.0, own.1)
            .expect("writing to a string cannot fail");
    }
    text
}

/// Table cells of the measured value and of the closed form with its value.
fn cells(row: &Row) -> (String, String) {
    let (low, high) = (number(row.expected.0), number(row.expected.1));
    let value = if low == high { low } else { format!("{low} to {high}") };
    let miss = if row.holds() { "" } else { " **(off)**" };
    (format!("{}{miss}", number(row.measured)), format!("{value}: {}", row.form))
}

fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// All groups of loops as one document, each under its heading.
pub fn document(groups: &[(&str, Vec<Row>)]) -> String {
    let mut text = String::new();
    for (heading, rows) in groups {
        writeln!(text, "### {heading}\n\n{}", rows_as_markdown(rows))
            .expect("writing to a string cannot fail");
    }
    text
}
