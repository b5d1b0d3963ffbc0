//! Plots of an experiment's table: those given in its file, or, by default, those that show most of the
//! varied parameters.

use std::collections::BTreeSet;

use doorbell_bench::figure_keys::{PACKET_COST, UNCORE};
use doorbell_report::{ExperimentCurve, ExperimentPlot, ExperimentPoint};
use doorbell_study::experiment::{Cell, Column, Plan, PlotSpec, Table};

/// Maximum number of curves in a plot.
const CURVES_MAX: usize = 8;
/// Maximum number of default plots.
const PLOTS_MAX: usize = 4;
/// Minimum ratio of the largest to the smallest value for a logarithmic axis.
const LOG_FROM_RATIO: f64 = 16.0;

/// Figures plotted by default if they vary, in order of importance. The first available alternative of each
/// is used.
const DRAWN: [&[&str]; 7] = [
    &["low_mpps", "transfer.transactions_per_second", "transfer.goodput_gbps", "delivered_mpps", "ipc"],
    &["low_gbps", "delivered_gbps"],
    &["drop_rate"],
    &["latency_ns.p99"],
    &[PACKET_COST.saturation.path],
    &["instructions_per_frame"],
    &["ipc"],
];

/// Display names of figures on axes and in heads, and their scale factors.
const DISPLAY_NAMES: [(&str, &str, f64); 22] = [
    ("low_mpps", "Rate that meets the goal, Mpps", 1.0),
    ("high_mpps", "Rate that misses it, Mpps", 1.0),
    ("low_gbps", "Rate that meets the goal, Gbps", 1.0),
    ("search.ended", "Search ended", 1.0),
    ("offered_mpps", "Offered, Mpps", 1.0),
    ("delivered_mpps", "Delivered, Mpps", 1.0),
    ("delivered_gbps", "Delivered, Gbps", 1.0),
    ("arrived_mpps", "Returned, Mpps", 1.0),
    ("arrived_gbps", "Returned, Gbps", 1.0),
    ("drop_rate", "Lost, %", 100.0),
    ("latency_ns.p50", "Median latency", 1.0),
    ("latency_ns.p99", "p99 latency", 1.0),
    ("transfer.goodput_gbps", "Goodput, Gbps", 1.0),
    ("transfer.transactions_per_second", "Transactions per second", 1.0),
    ("transfer.test_idle", "Idle share of the test node", 1.0),
    ("kinds.misses_per_kb", "LLC misses per KB", 1.0),
    (PACKET_COST.saturation.path, "Saturation of polling cores, %", 100.0),
    (PACKET_COST.busy_cycles.path, "Cycles per packet, no empty polls", 1.0),
    (UNCORE.itom_hit_percent.path, "NIC writes that hit, %", 1.0),
    ("instructions_per_frame", "Instructions per packet", 1.0),
    ("ipc", "Instructions per cycle", 1.0),
    ("rate", "Rate", 1.0),
];

/// Display name of a column, and the scale factor of its values.
pub fn displayed(column: &Column) -> (String, f64) {
    if let Some(parameter) = &column.parameter {
        let unit = column.name.strip_prefix(parameter.as_str()).and_then(|rest| rest.strip_prefix('_'));
        return (unit.map_or(parameter.clone(), |unit| format!("{parameter}, {unit}")), 1.0);
    }
    match DISPLAY_NAMES.iter().find(|(name, ..)| *name == column.name) {
        Some((_, displayed, factor)) => ((*displayed).to_owned(), *factor),
        None => (column.name.clone(), 1.0),
    }
}

/// Whether a column's values are nanoseconds.
pub fn is_time(column: &Column) -> bool {
    column.name.starts_with("latency_ns.")
}

/// Number of distinct values in a column.
pub fn distinct_values(column: &Column) -> usize {
    column.cells.iter().map(Cell::text).collect::<BTreeSet<String>>().len()
}

fn all(column: &Column) -> Vec<usize> {
    (0..column.cells.len()).collect()
}

/// Distinct values of a column in these rows, in order of appearance.
fn values(column: &Column, rows: &[usize]) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for row in rows {
        let text = column.cells[*row].text();
        if !values.contains(&text) {
            values.push(text);
        }
    }
    values
}

/// A plot requested in the file. A missing column adds a warning.
pub fn plot(spec: &PlotSpec, plan: &Plan, table: &Table, warnings: &mut Vec<String>) -> ExperimentPlot {
    let mut column = |name: &str| -> Option<&Column> {
        let column = table.column(name);
        if column.is_none() {
            warnings.push(format!(
                "A plot needs the column \"{name}\", which is not in the table; table.csv lists the columns."
            ));
        }
        column
    };
    let (x, y) = (column(&spec.x), column(&spec.y));
    let series = spec.series.as_ref().and_then(|name| column(name));
    // Published curves use the column's own unit.
    let label = |column: Option<&Column>, name: &str| match column.map(|column| (column, displayed(column))) {
        Some((_, (name, 1.0))) => name,
        Some((column, _)) => column.name.clone(),
        None => name.to_owned(),
    };
    let (x_label, y_label) = (label(x, &spec.x), label(y, &spec.y));
    let mut drawn = match x.zip(y) {
        Some((x, y)) => {
            let rows = plan.rows_of(spec, table);
            PlotData { table, x, y, factor: 1.0, series: series.into_iter().collect(), rows }.plot()
        }
        None => ExperimentPlot::default(),
    };
    let published = |published: &doorbell_study::experiment::Published| ExperimentCurve {
        name: published.name.clone(),
        points: published
            .points
            .iter()
            .map(|(x, y)| ExperimentPoint { x: *x, y: *y, interval: None })
            .collect(),
        source: Some(published.source.clone()),
    };
    drawn.curves.extend(spec.published.iter().map(published));
    let title = spec.title.clone().unwrap_or_else(|| format!("{y_label} against {x_label}"));
    let (log_x, log_y) = (spec.log_x && drawn.names.is_empty(), spec.log_y);
    ExperimentPlot { title, x: x_label, y: y_label, log_x, log_y, ..drawn }
}

/// The default plots of a table.
pub fn chosen(table: &Table) -> Vec<ExperimentPlot> {
    let Some(x) = x_axis(table) else { return Vec::new() };
    let mut series = series_columns(table, x);
    let rows = all(x);
    // If there are too many curves for one plot, they are split into several plots.
    let mut apart: Vec<&Column> = Vec::new();
    while groups(&series, &rows).len() > CURVES_MAX && series.len() > 1 {
        apart.push(series.remove(0));
    }
    let panels = groups(&apart, &rows);
    let ys = DRAWN.iter().filter_map(|names| names.iter().find_map(|name| varied(table, name)));
    let mut ys: Vec<&Column> = ys.collect();
    ys.dedup_by(|one, other| one.name == other.name);
    // For a search, the rate delivered at its lower end equals its result.
    if ys.first().is_some_and(|first| first.name == "low_mpps") {
        ys.retain(|y| !y.name.starts_with("delivered"));
    }
    let sizes = table.column("frame_size_bytes").is_some_and(|column| distinct_values(column) > 1);
    ys.retain(|y| sizes || !y.name.ends_with("low_gbps") && y.name != "delivered_gbps");
    ys.truncate(if panels.len() > 1 { 1 } else { PLOTS_MAX });
    let plots = ys.into_iter().flat_map(|y| panels.iter().map(move |panel| (y, panel)));
    plots
        .take(PLOTS_MAX.max(panels.len().min(2 * PLOTS_MAX)))
        .map(|(y, (name, rows))| {
            let factor = displayed(y).1;
            let plot = PlotData { table, x, y, factor, series: series.clone(), rows: rows.clone() }.plot();
            let title = if name.is_empty() { plot.title.clone() } else { format!("{}: {name}", plot.title) };
            ExperimentPlot { title, ..plot }
        })
        .collect()
}

/// A figure with several distinct values.
fn varied<'a>(table: &'a Table, name: &str) -> Option<&'a Column> {
    table.column(name).filter(|column| {
        distinct_values(column) > 1 && column.cells.iter().any(|cell| cell.number().is_some())
    })
}

/// The varied parameters; for rates, the offered rate.
fn parameters(table: &Table) -> impl Iterator<Item = &Column> {
    let rate = table
        .column("rate")
        .filter(|rate| distinct_values(rate) > 1)
        .and_then(|_| table.column("offered_mpps"));
    rate.into_iter()
        .chain(table.columns.iter().filter(|column| column.parameter.is_some()))
        .filter(|column| distinct_values(column) > 1)
}

fn is_numeric(column: &Column) -> bool {
    column.cells.iter().all(|cell| cell.number().is_some())
}

/// The horizontal axis: the numeric parameter with the most values, or else a textual one.
fn x_axis(table: &Table) -> Option<&Column> {
    let most = |numeric: bool| {
        let own = parameters(table).filter(move |column| is_numeric(column) == numeric);
        // Offered rates deviate slightly from the requested ones, so the requested rates are counted.
        let count = |column: &Column| match column.parameter {
            Some(_) => distinct_values(column),
            None => table.column("rate").map_or(0, distinct_values),
        };
        // For equal counts, the first one.
        own.fold(None, |best: Option<(&Column, usize)>, column| match best {
            Some((_, most)) if most >= count(column) => best,
            _ => Some((column, count(column))),
        })
    };
    most(true).or_else(|| most(false)).map(|(column, _)| column)
}

/// The other parameters, except those determined by earlier ones.
fn series_columns<'a>(table: &'a Table, x: &'a Column) -> Vec<&'a Column> {
    let rows = all(x);
    let mut kept = vec![if x.parameter.is_some() { x } else { table.column("rate").unwrap_or(x) }];
    // Different rates at the same value of the axis are not repetitions.
    let rate = table.column("rate").filter(|rate| x.parameter.is_some() && distinct_values(rate) > 1);
    let parameters = parameters(table).filter(|column| column.name != x.name && column.parameter.is_some());
    for column in rate.into_iter().chain(parameters) {
        let more: Vec<&Column> = kept.iter().copied().chain([column]).collect();
        if groups(&more, &rows).len() > groups(&kept, &rows).len() {
            kept = more;
        }
    }
    kept.remove(0);
    kept
}

/// Groups rows by the values of some columns, with these values as text.
fn groups(columns: &[&Column], rows: &[usize]) -> Vec<(String, Vec<usize>)> {
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for row in rows {
        let name: Vec<String> = columns.iter().map(|column| value(column, &column.cells[*row])).collect();
        let name = name.join(", ");
        match groups.iter_mut().find(|group| group.0 == name) {
            Some(group) => group.1.push(*row),
            None => groups.push((name, vec![*row])),
        }
    }
    groups
}

/// "rx_fifo = 24 KiB": the last component of a parameter's path is sufficient in a legend.
fn value(column: &Column, cell: &Cell) -> String {
    if column.name == "rate" {
        return format!("{} offered", cell.text());
    }
    let (name, _) = displayed(column);
    let (path, unit) = name.split_once(", ").unwrap_or((&name, ""));
    let last = path.rsplit('.').next().unwrap_or(path);
    format!("{last} = {} {unit}", cell.text()).trim_end().to_owned()
}

/// The data of a plot.
struct PlotData<'a> {
    table: &'a Table,
    x: &'a Column,
    y: &'a Column,
    factor: f64,
    series: Vec<&'a Column>,
    rows: Vec<usize>,
}

impl PlotData<'_> {
    fn plot(&self) -> ExperimentPlot {
        let names = match self.rows.iter().any(|row| self.x.cells[*row].number().is_some()) {
            true => Vec::new(),
            false => values(self.x, &self.rows),
        };
        let curves = groups(&self.series, &self.rows).into_iter().map(|(name, rows)| ExperimentCurve {
            name: if name.is_empty() { displayed(self.y).0 } else { name },
            points: rows.iter().filter_map(|row| self.point(*row, &names)).collect(),
            source: None,
        });
        let curves: Vec<ExperimentCurve> = curves.filter(|curve| !curve.points.is_empty()).collect();
        let ((x, _), (y, _)) = (displayed(self.x), displayed(self.y));
        let before = |text: &str| text.split(", ").next().unwrap_or(text).to_owned();
        // Within a title a figure's name is in lower case; a parameter's path is unchanged.
        let x_axis = match self.x.parameter {
            Some(_) => before(&x),
            None => before(&x).to_lowercase(),
        };
        let points = || curves.iter().flat_map(|curve| &curve.points);
        ExperimentPlot {
            title: format!("{} against {x_axis}", before(&y)),
            log_x: names.is_empty() && wide(points().map(|point| point.x)),
            log_y: is_time(self.y) && wide(points().map(|point| point.y)),
            is_time: is_time(self.y),
            x,
            y,
            names,
            curves,
        }
    }

    fn point(&self, row: usize, names: &[String]) -> Option<ExperimentPoint> {
        let x = match names.is_empty() {
            true => self.x.cells[row].number()?,
            false => 1.0 + names.iter().position(|name| *name == self.x.cells[row].text())? as f64,
        };
        let y = self.y.cells[row].number()?;
        let interval = interval(self.table, self.y, row);
        let interval = interval.map(|(low, high)| (low.max(0.0) * self.factor, high * self.factor));
        Some(ExperimentPoint { x, y: y * self.factor, interval })
    }
}

/// The interval of a figure: for a search, its two ends; otherwise, the 95 % confidence interval.
fn interval(table: &Table, y: &Column, row: usize) -> Option<(f64, f64)> {
    let value = y.cells[row].number()?;
    let other = |name: &str| table.column(name).and_then(|column| column.cells[row].number());
    match y.name.strip_prefix("low_") {
        Some(unit) => other(&format!("high_{unit}")).map(|high| (value, high)),
        None => other(&format!("confidence_95.{}", y.name)).map(|half| (value - half, value + half)),
    }
}

fn wide(values: impl Iterator<Item = f64> + Clone) -> bool {
    let (least, most) = (values.clone().fold(f64::INFINITY, f64::min), values.fold(0.0, f64::max));
    least > 0.0 && most >= LOG_FROM_RATIO * least
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, parameter: Option<&str>, cells: &[Cell]) -> Column {
        Column { name: name.to_owned(), cells: cells.to_vec(), parameter: parameter.map(str::to_owned) }
    }

    fn numbers(values: &[f64]) -> Vec<Cell> {
        values.iter().map(|value| Cell::Float(*value)).collect()
    }

    fn words(values: &[&str]) -> Vec<Cell> {
        values.iter().map(|value| Cell::Text((*value).to_owned())).collect()
    }

    #[test]
    fn the_parameter_with_most_values_is_the_axis_and_dependent_ones_are_not_curves() {
        let table = Table {
            columns: vec![
                column("testpmd.cores", Some("testpmd.cores"), &numbers(&[1.0, 4.0, 16.0, 1.0, 4.0, 16.0])),
                column("platform.harts", Some("platform.harts"), &numbers(&[1.0, 4.0, 16.0, 1.0, 4.0, 16.0])),
                column(
                    "nic.rx_fifo_KiB",
                    Some("nic.rx_fifo"),
                    &numbers(&[24.0, 24.0, 24.0, 48.0, 48.0, 48.0]),
                ),
                column("low_mpps", None, &numbers(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])),
                column("high_mpps", None, &numbers(&[1.5, 2.5, 3.5, 4.5, 5.5, 6.5])),
                column("delivered_mpps", None, &numbers(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])),
            ],
        };
        let plots = chosen(&table);
        let [plot] = plots.as_slice() else { panic!("{plots:?}") };
        assert_eq!(
            (plot.title.as_str(), plot.log_x),
            ("Rate that meets the goal against testpmd.cores", true)
        );
        let names: Vec<&str> = plot.curves.iter().map(|curve| curve.name.as_str()).collect();
        assert_eq!(names, ["rx_fifo = 24 KiB", "rx_fifo = 48 KiB"]);
        let first = plot.curves[1].points[0];
        assert_eq!((first.x, first.y, first.interval), (1.0, 4.0, Some((4.0, 4.5))));
    }

    #[test]
    fn rates_at_each_value_become_curves_not_repetitions() {
        let table = Table {
            columns: vec![
                column("size", Some("size"), &numbers(&[64.0, 64.0, 512.0, 512.0, 1518.0, 1518.0])),
                column("rate", None, &words(&["1Mpps", "2Mpps", "1Mpps", "2Mpps", "1Mpps", "2Mpps"])),
                column("offered_mpps", None, &numbers(&[1.0, 2.0, 1.0, 2.0, 1.0, 2.0])),
                column("delivered_mpps", None, &numbers(&[1.0, 2.0, 1.0, 1.8, 1.0, 1.5])),
            ],
        };
        let plots = chosen(&table);
        let [plot] = plots.as_slice() else { panic!("{plots:?}") };
        let curves: Vec<(&str, usize)> =
            plot.curves.iter().map(|curve| (curve.name.as_str(), curve.points.len())).collect();
        assert_eq!(curves, [("1Mpps offered", 3), ("2Mpps offered", 3)]);
    }

    #[test]
    fn textual_parameters_label_the_axis_and_losses_are_in_percent() {
        let table = Table {
            columns: vec![
                column("attach", Some("attach"), &words(&["pcie", "occ"])),
                column("delivered_mpps", None, &numbers(&[4.0, 4.0])),
                column("drop_rate", None, &numbers(&[0.02, 0.5])),
                column("confidence_95.drop_rate", None, &numbers(&[0.03, 0.1])),
            ],
        };
        let plots = chosen(&table);
        let [plot] = plots.as_slice() else { panic!("{plots:?}") };
        assert_eq!((plot.y.as_str(), &plot.names), ("Lost, %", &vec!["pcie".to_owned(), "occ".to_owned()]));
        assert_eq!(plot.curves[0].points[0], ExperimentPoint { x: 1.0, y: 2.0, interval: Some((0.0, 5.0)) });
    }

    #[test]
    fn many_curves_are_split_into_plots_and_an_empty_table_has_none() {
        let grid = |of: fn(usize) -> usize| numbers(&(0..60).map(|n| of(n) as f64).collect::<Vec<_>>());
        let table = Table {
            columns: vec![
                column("a", Some("a"), &grid(|n| n / 30)),
                column("b", Some("b"), &grid(|n| n / 6 % 5)),
                column("c", Some("c"), &grid(|n| n % 6)),
                column("ipc", None, &grid(|n| n)),
            ],
        };
        let titles: Vec<String> = chosen(&table).into_iter().map(|plot| plot.title).collect();
        assert_eq!(
            titles,
            ["Instructions per cycle against c: a = 0", "Instructions per cycle against c: a = 1"]
        );
        assert!(chosen(&Table::default()).is_empty());
    }
}
