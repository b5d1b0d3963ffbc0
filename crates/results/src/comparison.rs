//! Comparison of results: differences in configuration and in software, and every figure with its difference.
//! The first side is the base; each other side is compared with it.

use serde::Serialize;

/// The comparison, as in `comparison.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// The compared results; the first one is the base.
    pub sides: Vec<ComparedSide>,
    /// Configuration keys that differ between sides. Keys that vary within a side identify its points
    /// instead.
    pub configuration: Vec<ComparedWords>,
    /// Differences in simulator, images, packages, boots and traces.
    pub ran: Vec<ComparedWords>,
    /// Points that all sides have, or the base and some others.
    pub points: Vec<ComparedPoint>,
    /// Points without a match on another side.
    pub unmatched: Vec<UnmatchedPoint>,
    /// Remarks on the comparison.
    pub notes: Vec<String>,
    /// Differences above the allowed limits, in words; empty without limits.
    pub failures: Vec<String>,
}

/// One of the compared results.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ComparedSide {
    /// A, B, C…
    pub name: String,
    /// Its folder.
    pub path: String,
    /// `run`, `search` or `sweep`.
    pub kind: String,
    /// The benchmark.
    pub benchmark: String,
    /// The preset.
    pub preset: String,
    /// The version of Doorbell.
    pub doorbell_version: String,
    /// Number of points.
    pub points: usize,
    /// Missing parts, if the run ended early.
    pub incomplete: Option<String>,
}

/// A text on each side; `null` if a side has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ComparedWords {
    /// The subject: a key's path.
    pub name: String,
    /// The text of each side.
    pub values: Vec<Option<String>>,
}

/// A point without a match on another side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UnmatchedPoint {
    /// The side's name.
    pub side: String,
    /// The point's distinguishing settings.
    pub at: String,
}

/// A point on all sides that have it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ComparedPoint {
    /// The settings that distinguish it from other points of its side, in words; empty if there is only one.
    pub at: String,
    /// Number of repetitions on each side; 0 if a side does not have the point.
    pub repetitions: Vec<usize>,
    /// Whether all machines ended in the same state, which makes every guest figure equal.
    pub same_state: bool,
    /// The figures: the main results first, then the others in the order of a summary.
    pub figures: Vec<ComparedFigure>,
    /// Texts that differ.
    pub words: Vec<ComparedWords>,
}

/// A figure of a point.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ComparedFigure {
    /// Its name with the unit, as in the columns of an experiment's table.
    pub name: String,
    /// Whether it is one of the main results.
    pub headline: bool,
    /// Whether it depends on the host, and so differs between runs of the same configuration.
    pub of_host: bool,
    /// The value on each side; `null` if a side has none.
    pub values: Vec<Option<ComparedValue>>,
    /// The difference of each further side from the first; `null` if one of the two values is missing.
    pub differences: Vec<Option<FigureDifference>>,
}

/// A figure's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ComparedValue {
    /// The value; the mean of repetitions.
    pub value: f64,
    /// Its 95 % confidence interval, or the interval of rates found by a search; `null` if unknown.
    pub interval: Option<Interval>,
}

/// An interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end; `null` if there is none.
    pub high: Option<f64>,
}

impl Interval {
    /// Whether a value is inside the interval.
    pub fn holds(&self, value: f64) -> bool {
        value >= self.low && self.high.is_none_or(|high| value <= high)
    }
}

/// The difference of a figure from the base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FigureDifference {
    /// This side's value minus the base's.
    pub difference: f64,
    /// The difference as a share of the base's value; `null` if that is zero.
    pub relative: Option<f64>,
    /// Whether each value is outside the other's interval; `null` if one has none.
    pub outside_both: Option<bool>,
}

impl ComparedFigure {
    /// Whether any side has a different value than the base, or lacks a value that others have.
    pub fn differs(&self) -> bool {
        let missing = self.values.iter().any(Option::is_none) && self.values.iter().any(Option::is_some);
        missing || self.differences.iter().flatten().any(|difference| difference.difference != 0.0)
    }
}

impl Comparison {
    /// The text of `comparison.json`.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a comparison serialises");
        text.push('\n');
        text
    }
}
