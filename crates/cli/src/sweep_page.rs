//! The page of an experiment: its plots, and its points with the figures that matter and a link to each one's own page.

use anyhow::Context;
use doorbell_machine::Base;
use doorbell_report::{
    ExperimentCell, ExperimentPage, ExperimentRow, ExperimentTable, PageLinks, html_with, search_html_with,
};
use doorbell_study::experiment::{Cell, Column, Pages, Store, Table};

use crate::experiment::Experiment;
use crate::plots::{called, chosen, different, is_time, plot};
use crate::run_args::command_line;

/// Figures that a page's table shows where an experiment has them.
const SHOWN: [&str; 16] = [
    "low_mpps",
    "high_mpps",
    "low_gbps",
    "search.ended",
    "offered_mpps",
    "delivered_mpps",
    "delivered_gbps",
    "drop_rate",
    "latency_ns.p50",
    "latency_ns.p99",
    "transfer.goodput_gbps",
    "transfer.transactions_per_second",
    "ipc",
    "timing.packet cost.saturation",
    "limit.part",
    "not_steady",
];
/// Of an experiment that has fewer of them, so many of its own that vary are shown as well.
const FEW: usize = 3;
const OWN: usize = 6;

/// What a point's page leads to.
pub fn point_links() -> PageLinks {
    PageLinks::up(2, "All points")
}

/// How points' pages are made.
pub const PAGES: Pages = Pages {
    run: |summary, config| html_with(summary, config, &point_links()),
    search: |summary, config| search_html_with(summary, config, &point_links()),
};

/// Writes the page of what is done.
pub fn write(
    experiment: &Experiment,
    store: &Store,
    table: &Table,
    up: Option<(String, String)>,
) -> anyhow::Result<()> {
    let plan = &experiment.plan;
    let (rows, all) = (table.rows(), plan.points.len());
    let text = std::fs::read_to_string(&experiment.file).context("reading the experiment again")?;
    let mut warnings = Vec::new();
    if rows < all {
        warnings.push(format!("{} of {all} points are not done yet.", all - rows));
    }
    warnings.extend(not_steady(table));
    let plots = match plan.file.plot.as_slice() {
        [] => chosen(table),
        asked => asked.iter().map(|spec| plot(spec, plan, table, &mut warnings)).collect(),
    };
    let page = ExperimentPage {
        name: plan.file.name().to_owned(),
        facts: vec![
            plan.benchmark.name.to_owned(),
            format!("machine {}", plan.file.base.as_ref().map_or(plan.file.preset.as_str(), Base::name)),
            format!("{rows} of {all} points"),
            format!("version {}", env!("CARGO_PKG_VERSION")),
        ],
        command: command_line(),
        file: text,
        plots,
        table: rows_of(table, |point| store.folder().path().join(point).is_file()),
        warnings,
        links: PageLinks { up, ..PageLinks::default() },
    };
    Ok(store.folder().write("report.html", &page.html())?)
}

/// The points of a table that are not shown to be steady.
pub fn not_steady(table: &Table) -> Option<String> {
    let column = table.column("not_steady")?;
    let index = table.column("index")?;
    let marked = |(cell, index): (&Cell, &Cell)| (*cell != Cell::None).then(|| index.text());
    let points: Vec<String> = column.cells.iter().zip(&index.cells).filter_map(marked).collect();
    let noun = if points.len() == 1 { "point" } else { "points" };
    (!points.is_empty()).then(|| {
        format!(
            "Not steady, so that their figures belong to no load (column not_steady): {noun} {}.",
            points.join(", ")
        )
    })
}

/// The table as the page has it. Points of older versions have no page: a browser shows their folder.
fn rows_of(table: &Table, has: impl Fn(&str) -> bool) -> ExperimentTable {
    let columns = shown(table);
    let row = |row: usize| {
        let text = |name: &str| table.column(name).map_or(String::new(), |column| column.cells[row].text());
        let folder = format!("points/{}/", text("point"));
        let page = format!("{folder}report.html");
        let cells = columns.iter().map(|column| cell(column, row));
        ExperimentRow {
            page: if has(&page) { page } else { folder },
            index: text("index"),
            cells: cells.collect(),
        }
    };
    ExperimentTable {
        heads: columns.iter().map(|column| called(column).0).collect(),
        rows: (0..table.rows()).map(row).collect(),
    }
}

fn cell(column: &Column, row: usize) -> ExperimentCell {
    match &column.cells[row] {
        Cell::None => ExperimentCell::None,
        Cell::Text(text) => ExperimentCell::Text(text.clone()),
        value if column.parameter.is_some() || column.name == "repetition" => {
            ExperimentCell::Text(value.text())
        }
        value => match value.number() {
            Some(ns) if is_time(column) => ExperimentCell::Time(ns),
            Some(number) => ExperimentCell::Number(number * called(column).1),
            None => ExperimentCell::None,
        },
    }
}

/// What was varied, then figures.
fn shown(table: &Table) -> Vec<&Column> {
    let is_varied = |name: &&str| table.column(name).is_some_and(|column| different(column) > 1);
    let parameters = table.columns.iter().filter(|column| column.parameter.is_some());
    let told = ["rate", "repetition"].into_iter().filter(is_varied).filter_map(|name| table.column(name));
    let is_search = table.column("low_mpps").is_some();
    let sizes = is_varied(&"frame_size_bytes");
    let says = |name: &&&str| match **name {
        // At the end of a search that met its goal nothing new is offered or delivered.
        name if is_search && (name.starts_with("offered") || name.starts_with("delivered")) => false,
        // Of frames of one size Mpps say what Gbps do.
        name => sizes || !matches!(name, "low_gbps" | "delivered_gbps"),
    };
    let known = SHOWN.iter().filter(says);
    let mut figures: Vec<&Column> = known.filter_map(|name| table.column(name)).collect();
    if figures.len() < FEW {
        let own = table.columns.iter().skip_while(|column| column.name != "seed").skip(1);
        let own = own.filter(|column| {
            different(column) > 1 && column.name != "point" && !SHOWN.contains(&column.name.as_str())
        });
        figures.extend(own.take(OWN));
    }
    parameters.chain(told).chain(figures).collect()
}
