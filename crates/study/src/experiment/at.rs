//! Selection of points by parameter values: the `at` table of a plot or a claim.

use super::file::PlotSpec;
use super::plan::{Plan, PlannedPoint, Work};
use super::table::Table;
use super::value::{Cell, as_set};

/// Converts the values of an `at` table to the format of `--set`.
pub(crate) fn values_at(at: &toml::Table) -> Result<Vec<(String, String)>, String> {
    at.iter()
        .map(|(path, value)| Ok((path.clone(), as_set(path, value).map_err(|error| error.to_string())?)))
        .collect()
}

impl Plan {
    /// Rows of this plan's table that a plot draws.
    pub fn rows_of(&self, plot: &PlotSpec, table: &Table) -> Vec<usize> {
        // A plan accepts only plots whose `at` table is valid.
        values_at(&plot.at).map(|at| self.rows_at(&at, table)).unwrap_or_default()
    }

    /// Rows of this plan's table whose points have these values; unfinished points have no row.
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
