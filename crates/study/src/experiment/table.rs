//! The results table: one row per point with the varied parameters and every figure of its summary. Column
//! names include units.

use doorbell_bench::csv_field;
use serde_json::Value;

use super::names::{in_tables, renamed};
use super::plan::{Identity, Plan, Work};
use super::store::Store;
use super::value::{Cell, in_one_unit};

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Name, with the unit.
    pub name: String,
    /// One cell per row.
    pub cells: Vec<Cell>,
    /// Path of the parameter in this column, if it is one.
    pub parameter: Option<String>,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The columns, all of the same length.
    pub columns: Vec<Column>,
}

/// Drop causes of a NIC that has no room for a frame.
pub(super) const CAUSES: [&str; 3] = ["dma", "core", "tx"];
/// Names that have columns of their own, or are not figures.
const LEFT_OUT: [&str; 4] = ["benchmark", "config_hash", "limit.text", "rate"];

impl Table {
    /// The table of all finished points.
    pub fn of(plan: &Plan, identities: &[Identity], store: &Store) -> Result<Table, String> {
        let mut rows = Vec::new();
        for point in &plan.points {
            let identity = &identities[point.index];
            if store.is_done(identity) {
                let damaged = |problem| format!("{}: {problem}", store.point(identity).display());
                let summary = store.read(identity, "summary.json").map_err(damaged)?;
                rows.push((point, figures(&summary).map_err(damaged)?));
            }
        }
        let mut table = Table::default();
        let mut own = |name: &str, cells: Vec<Cell>, parameter: Option<&str>| {
            let parameter = parameter.map(str::to_owned);
            table.columns.push(Column { name: name.to_owned(), cells, parameter });
        };
        own("index", rows.iter().map(|(point, _)| Cell::Int(point.index as i64)).collect(), None);
        let mut paths: Vec<&str> = Vec::new();
        for (path, _) in plan.points.iter().flat_map(|point| &point.parameters) {
            if !paths.contains(&path.as_str()) {
                paths.push(path);
            }
        }
        for path in paths {
            let value = |of: &[(String, String)]| {
                of.iter().find(|(own, _)| own == path).map(|(_, value)| value.clone())
            };
            let texts: Vec<Option<String>> = rows.iter().map(|(point, _)| value(&point.parameters)).collect();
            let (unit, cells) = quantities(texts);
            let name = if unit.is_empty() { path.to_owned() } else { format!("{path}_{unit}") };
            own(&name, cells, Some(path));
        }
        let rate = |work: &Work| match work {
            Work::Measure(rate) => Cell::Text(rate.to_string()),
            Work::Search(_) | Work::Play => Cell::None,
        };
        if plan.points.iter().any(|point| matches!(point.work, Work::Measure(_))) {
            own("rate", rows.iter().map(|(point, _)| rate(&point.work)).collect(), None);
        }
        own("repetition", rows.iter().map(|(point, _)| Cell::Int(point.repetition as i64)).collect(), None);
        own("seed", rows.iter().map(|(point, _)| Cell::Int(point.config.run.seed as i64)).collect(), None);
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in rows.iter().flat_map(|(_, figures)| figures) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        for name in names {
            let cell = |figures: &[(String, Cell)]| {
                figures.iter().find(|(own, _)| own == name).map(|(_, cell)| cell.clone())
            };
            own(name, rows.iter().map(|(_, figures)| cell(figures).unwrap_or(Cell::None)).collect(), None);
        }
        let name = |point: &Identity| Cell::Text(point.0.clone());
        own("point", rows.iter().map(|(point, _)| name(&identities[point.index])).collect(), None);
        Ok(table)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.cells.len())
    }

    /// Finds a column by its name, by its parameter, or by the name of the figure in a summary.
    pub fn column(&self, name: &str) -> Option<&Column> {
        let by_parameter = |column: &&Column| column.parameter.as_deref() == Some(name);
        let by_name = |name: &str| self.columns.iter().find(|column| column.name == name);
        by_name(name).or_else(|| self.columns.iter().find(by_parameter)).or_else(|| by_name(&in_tables(name)))
    }

    /// The table as comma-separated values (RFC 4180).
    pub fn to_csv(&self) -> String {
        let mut out = String::new();
        let mut line = |cells: &mut dyn Iterator<Item = String>| {
            out.push_str(&cells.map(|cell| csv_field(&cell)).collect::<Vec<_>>().join(","));
            out.push_str("\r\n");
        };
        line(&mut self.columns.iter().map(|column| column.name.clone()));
        for row in 0..self.rows() {
            line(&mut self.columns.iter().map(|column| column.cells[row].text()));
        }
        out
    }
}

/// Converts a parameter's values to numbers of one unit, or to text if that is not possible.
fn quantities(texts: Vec<Option<String>>) -> (&'static str, Vec<Cell>) {
    let given: Vec<String> = texts.iter().flatten().cloned().collect();
    match in_one_unit(&given) {
        Some((numbers, unit)) => {
            let whole = numbers.iter().all(|number| number.fract() == 0.0 && number.abs() < 9e15);
            let mut numbers = numbers.into_iter();
            let number = |value: f64| if whole { Cell::Int(value as i64) } else { Cell::Float(value) };
            (
                unit,
                texts
                    .iter()
                    .map(|text| text.as_ref().and_then(|_| numbers.next()).map_or(Cell::None, number))
                    .collect(),
            )
        }
        None => ("", texts.into_iter().map(|text| text.map_or(Cell::None, Cell::Text)).collect()),
    }
}

/// Figures of a point's `summary.json`: a run's only point, or a search's result and its point at the lower
/// end.
fn figures(summary: &[u8]) -> Result<Vec<(String, Cell)>, String> {
    let summary: Value =
        serde_json::from_slice(summary).map_err(|error| format!("summary.json cannot be read: {error}"))?;
    let mut all = Vec::new();
    if let Some(search) = summary.get("searches").and_then(|all| all.get(0)) {
        flatten("", search, &mut all);
        all.retain(|(name, _)| !name.starts_with("at_low"));
        search.get("at_low").into_iter().for_each(|point| flatten("", point, &mut all));
    } else if let Some(point) = summary.get("points").and_then(|all| all.get(0)) {
        flatten("", point, &mut all);
    } else {
        return Err("summary.json is not a summary".to_owned());
    }
    let mut figures: Vec<(String, Cell)> = Vec::new();
    for (name, cell) in all {
        let name = renamed(name);
        // Null values and a stage's position in the packet's path are left out.
        let is_figure = cell != Cell::None && !name.ends_with(".place") && !LEFT_OUT.contains(&name.as_str());
        if is_figure && !figures.iter().any(|(own, _)| *own == name) {
            figures.push((name, cell));
        }
    }
    figures.extend(shares(&figures));
    Ok(figures)
}

/// Share of each cause among frames that NICs dropped for lack of room, in percent.
fn shares(figures: &[(String, Cell)]) -> Vec<(String, Cell)> {
    let count = |cause: &str| {
        let name = format!("dropped_frames.{cause}");
        figures.iter().find(|(own, _)| *own == name).and_then(|(_, cell)| cell.number()).unwrap_or(0.0)
    };
    let all: f64 = CAUSES.iter().map(|cause| count(cause)).sum();
    let share = |cause: &&str| (format!("dropped_share.{cause}"), Cell::Float(100.0 * count(cause) / all));
    if all > 0.0 { CAUSES.iter().map(share).collect() } else { Vec::new() }
}

fn flatten(prefix: &str, value: &Value, all: &mut Vec<(String, Cell)>) {
    if let Value::Object(fields) = value {
        for (key, value) in fields {
            let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            match value {
                Value::Array(costs) if key == "kinds" => {
                    costs.iter().for_each(|cost| flatten_kind(prefix, cost, all));
                }
                _ => flatten(&name, value, all),
            }
        }
    } else if let Some(cell) = Cell::of_json(value) {
        all.push((prefix.to_owned(), cell));
    }
}

/// Flattens the cost of a kind of CPU time, under the kind's name.
fn flatten_kind(prefix: &str, cost: &Value, all: &mut Vec<(String, Cell)>) {
    let (Some(kind), Value::Object(fields)) = (cost["kind"].as_str(), cost) else { return };
    for (key, value) in fields.iter().filter(|(_, value)| value.is_number()) {
        flatten(&format!("{prefix}.{kind}.{key}"), value, all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_as_in_rfc_4180() {
        let column = |name: &str, cells| Column { name: name.to_owned(), cells, parameter: None };
        let table = Table {
            columns: vec![
                column("a,b", vec![Cell::Int(1), Cell::None]),
                column("c", vec![Cell::Text("say \"x\"\n".into()), Cell::Float(0.1)]),
            ],
        };
        assert_eq!(table.to_csv(), "\"a,b\",c\r\n1,\"say \"\"x\"\"\n\"\r\n,0.1\r\n");
    }

    #[test]
    fn a_parameter_is_empty_for_points_without_it() {
        let texts = vec![Some("1MiB".to_owned()), None, Some("512KiB".to_owned())];
        assert_eq!(quantities(texts), ("KiB", vec![Cell::Int(1024), Cell::None, Cell::Int(512)]));
        let texts = vec![Some("0-3".to_owned()), None];
        assert_eq!(quantities(texts), ("", vec![Cell::Text("0-3".into()), Cell::None]));
    }

    #[test]
    fn a_summary_is_flattened_to_dotted_names() {
        let json =
            r#"{"points":[{"rate":"x","drop_rate":0.5,"drops":{"dma":3},"ports":[1],"latency_ns":null}]}"#;
        let expected = [
            ("drop_rate", Cell::Float(0.5)),
            ("dropped_frames.dma", Cell::Int(3)),
            ("dropped_share.dma", Cell::Float(100.0)),
            ("dropped_share.core", Cell::Float(0.0)),
            ("dropped_share.tx", Cell::Float(0.0)),
        ];
        assert_eq!(figures(json.as_bytes()).unwrap(), expected.map(|(name, cell)| (name.to_owned(), cell)));
        let json =
            r#"{"points":[{"kinds":{"cycles":9,"kinds":[{"kind":"copy","meaning":"x","share":0.5}]}}]}"#;
        let expected = [("kinds.cycles", Cell::Int(9)), ("kinds.copy.share", Cell::Float(0.5))];
        assert_eq!(figures(json.as_bytes()).unwrap(), expected.map(|(name, cell)| (name.to_owned(), cell)));
        assert!(figures(b"{").unwrap_err().contains("summary.json"));
        assert!(figures(b"{}").unwrap_err().contains("not a summary"));
    }
}
