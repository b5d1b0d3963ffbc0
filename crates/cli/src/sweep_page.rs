//! The page of an experiment: its plots, and a table of its points with the main figures and links to their
//! pages.

use anyhow::Context;
use doorbell_bench::figure_keys::PACKET_COST;
use doorbell_machine::Base;
use doorbell_report::{
    ExperimentCell, ExperimentPage, ExperimentRow, ExperimentTable, PageLinks, html_with, search_html_with,
};
use doorbell_study::experiment::{Cell, Column, Pages, Store, Table};

use crate::experiment::Experiment;
use crate::plots::{chosen, displayed, distinct_values, is_time, plot};
use crate::run_args::command_line;

/// Figures shown in the page's table, if available.
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
    PACKET_COST.saturation.path,
    "limit.part",
    "not_steady",
];
/// If fewer than this many of them are available, up to `OWN` varying figures are added.
const FEW: usize = 3;
const OWN: usize = 6;

/// Links of a point's page.
pub fn point_links() -> PageLinks {
    PageLinks::up(2, "All points")
}

/// Renderers of the points' pages.
pub const PAGES: Pages = Pages {
    run: |summary, config| html_with(summary, config, &point_links()),
    search: |summary, config| search_html_with(summary, config, &point_links()),
};

/// Writes the page of the finished points.
pub fn write(
    experiment: &Experiment,
    store: &Store,
    table: &Table,
    up: Option<(String, String)>,
) -> anyhow::Result<()> {
    let plan = &experiment.plan;
    let (rows, all) = (table.rows(), plan.points.len());
    let text = std::fs::read_to_string(&experiment.file).context("cannot read the experiment again")?;
    let mut warnings = Vec::new();
    if rows < all {
        warnings.push(format!("{} of {all} points are not finished yet.", all - rows));
    }
    warnings.extend(not_steady(table));
    let plots = match plan.file.plot.as_slice() {
        [] => chosen(table),
        specs => specs.iter().map(|spec| plot(spec, plan, table, &mut warnings)).collect(),
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

/// A warning that lists the points that are not confirmed to be steady.
pub fn not_steady(table: &Table) -> Option<String> {
    let column = table.column("not_steady")?;
    let index = table.column("index")?;
    let marked = |(cell, index): (&Cell, &Cell)| (*cell != Cell::None).then(|| index.text());
    let points: Vec<String> = column.cells.iter().zip(&index.cells).filter_map(marked).collect();
    let noun = if points.len() == 1 { "point" } else { "points" };
    (!points.is_empty()).then(|| {
        format!(
            "Not steady, so their figures are not valid for a steady load (column not_steady): {noun} {}.",
            points.join(", ")
        )
    })
}

/// The table as shown on the page. Points of older versions have no page; their folder is linked instead.
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
        heads: columns.iter().map(|column| displayed(column).0).collect(),
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
            Some(number) => ExperimentCell::Number(number * displayed(column).1),
            None => ExperimentCell::None,
        },
    }
}

/// Columns shown: the varied parameters, then figures.
fn shown(table: &Table) -> Vec<&Column> {
    let is_varied = |name: &&str| table.column(name).is_some_and(|column| distinct_values(column) > 1);
    let parameters = table.columns.iter().filter(|column| column.parameter.is_some());
    let loads = ["rate", "repetition"].into_iter().filter(is_varied).filter_map(|name| table.column(name));
    let is_search = table.column("low_mpps").is_some();
    let sizes = is_varied(&"frame_size_bytes");
    let is_informative = |name: &&&str| match **name {
        // The lower end of a search that met its goal has no new information on offered and delivered rates.
        name if is_search && (name.starts_with("offered") || name.starts_with("delivered")) => false,
        // For frames of one size, Gbps repeat Mpps.
        name => sizes || !matches!(name, "low_gbps" | "delivered_gbps"),
    };
    let standard = SHOWN.iter().filter(is_informative);
    let mut figures: Vec<&Column> = standard.filter_map(|name| table.column(name)).collect();
    if figures.len() < FEW {
        let own = table.columns.iter().skip_while(|column| column.name != "seed").skip(1);
        let own = own.filter(|column| {
            distinct_values(column) > 1 && column.name != "point" && !SHOWN.contains(&column.name.as_str())
        });
        figures.extend(own.take(OWN));
    }
    parameters.chain(loads).chain(figures).collect()
}
