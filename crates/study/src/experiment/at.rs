//! Points by the values of their parameters, as a plot's or a claim's `at` names them.

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
    /// The rows of a table of these points that are of some values.
    pub fn rows_at(&self, table: &Table, at: &toml::Table) -> Vec<usize> {
        let (Some(index), Ok(at)) = (table.column("index"), values_at(at)) else { return Vec::new() };
        let of = |cell: &Cell| self.points.iter().find(|point| cell.number() == Some(point.index as f64));
        let is_at = |cell: &Cell| of(cell).is_some_and(|point| point.is_at(&at));
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
