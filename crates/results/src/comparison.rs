//! Results side by side: what differed in configuration and in what ran, and every figure with its difference. The first side is the
//! base; each other one is compared with it.

use serde::Serialize;

/// The comparison, as `comparison.json` holds it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// What is compared; the first one is the base.
    pub sides: Vec<ComparedSide>,
    /// Keys of the configuration that differ. Those that vary within a side tell its points apart and are not here.
    pub configuration: Vec<ComparedWords>,
    /// What ran where it differs: simulator, images, packages, boots, traces.
    pub ran: Vec<ComparedWords>,
    /// Points that all sides have, or the base and some.
    pub points: Vec<ComparedPoint>,
    /// Points that have no partner.
    pub unmatched: Vec<UnmatchedPoint>,
    /// What is to be known of all this.
    pub notes: Vec<String>,
    /// What differs by more than was allowed, in words; empty if nothing was asked.
    pub failures: Vec<String>,
}

/// One of the results.
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
    /// How many points it has.
    pub points: usize,
    /// What is missing of it, if it was ended early.
    pub incomplete: Option<String>,
}

/// Something in words, on each side; `null` where it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ComparedWords {
    /// What it is: a key's path.
    pub name: String,
    /// One for each side.
    pub values: Vec<Option<String>>,
}

/// A point without a partner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UnmatchedPoint {
    /// The side's name.
    pub side: String,
    /// The point.
    pub at: String,
}

/// A point on all sides that have it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ComparedPoint {
    /// What tells it from others of its side, in words; empty if there is no other.
    pub at: String,
    /// How many repetitions each side has of it; 0 where it has not the point.
    pub repetitions: Vec<usize>,
    /// Whether all machines ended in the same state, so that every figure of the guest is the same.
    pub same_state: bool,
    /// The figures: those that say how well the machine did, then the others in the order of a summary.
    pub figures: Vec<ComparedFigure>,
    /// What is said in words and differs.
    pub words: Vec<ComparedWords>,
}

/// A figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ComparedFigure {
    /// Its name, with its unit, as columns of an experiment's table have it.
    pub name: String,
    /// Whether it is one of the few that say how well the machine did.
    pub headline: bool,
    /// Whether it depends on the host, so that two runs of one configuration differ.
    pub of_host: bool,
    /// On each side; `null` where it has none.
    pub values: Vec<Option<ComparedValue>>,
    /// Of each side but the first: to the first; `null` where one of the two is missing.
    pub differences: Vec<Option<FigureDifference>>,
}

/// A figure's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ComparedValue {
    /// The value; of repetitions the mean.
    pub value: f64,
    /// Where it lies at a confidence of 95 %, or between which rates a search has it; `null` where nothing is known of that.
    pub interval: Option<Interval>,
}

/// From and to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end; `null` if there is none.
    pub high: Option<f64>,
}

impl Interval {
    /// Whether a value lies in it.
    pub fn holds(&self, value: f64) -> bool {
        value >= self.low && self.high.is_none_or(|high| value <= high)
    }
}

/// How far a figure is from the base's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FigureDifference {
    /// This side's value less the base's.
    pub difference: f64,
    /// The same as a share of the base's; `null` if that is zero.
    pub relative: Option<f64>,
    /// Whether each value lies outside the other's interval; `null` if one has none.
    pub outside_both: Option<bool>,
}

impl ComparedFigure {
    /// Whether any side has another value than the base, or none where others have one.
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
