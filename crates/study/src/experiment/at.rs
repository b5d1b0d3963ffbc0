//! Points by the values of their parameters, as a plot's or a claim's `at` names them.

use super::file::PlotSpec;
use super::plan::{Plan, PlannedPoint, Work};
use super::table::Table;
use super::value::{Cell, as_set};

/// The values of a plot's or a claim's points as `--set` would take them.
pub(crate) fn values_at(at: &toml::Table) -> Result<Vec<(String, String)>, String> {
    at.iter()
        .map(|(path, value)| Ok((path.clone(), as_set(path, value).map_err(|error| error.to_string())?)))
        .collect()
}

impl Plan {
    /// The rows of a table of these points that a plot draws.
    pub fn rows_of(&self, plot: &PlotSpec, table: &Table) -> Vec<usize> {
        // A plan is of plots whose values can be.
        values_at(&plot.at).map(|at| self.rows_at(&at, table)).unwrap_or_default()
    }

    /// The rows of a table of these points that have some values; points that are not done have none.
    pub(crate) fn rows_at(&self, at: &[(String, String)], table: &Table) -> Vec<usize> {
        let Some(index) = table.column("index") else { return Vec::new() };
        let of = |cell: &Cell| self.points.iter().find(|point| cell.number() == Some(point.index as f64));
        let is_at = |cell: &Cell| of(cell).is_some_and(|point| point.is_at(at));
        (0..).zip(&index.cells).filter(|(_, cell)| is_at(cell)).map(|(row, _)| row).collect()
    }
}

impl PlannedPoint {
    /// Whether it has these values.
    pub(crate) fn is_at(&self, at: &[(String, String)]) -> bool {
        let rate = match &self.work {
            Work::Measure(rate) => rate.to_string(),
            Work::Search(_) | Work::Play => String::new(),
        };
        at.iter().all(|(path, value)| match path.as_str() {
            "rate" => *value == rate,
            path => self.parameters.iter().any(|(own, given)| own == path && given == value),
        })
    }
}
