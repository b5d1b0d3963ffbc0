//! A claim of a paper: the quantities compared, and the verdict.

use serde::Deserialize;

use crate::compare::student_97_5;
use crate::experiment::{Plan, Table, values_at};

/// A claim of a paper, and how our value for it is measured.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Claim {
    /// The claim, in our words.
    pub says: String,
    /// Its source: page, figure or table of the paper, or file and line of the scripts released with it.
    pub source: Option<String>,
    /// The paper's number, if the claim has one.
    paper: Option<f64>,
    /// Alternative to `paper`: the last step of the paper's load grid that was sustained. Two steps state a
    /// gain.
    steps: Option<Vec<f64>>,
    /// Divisor that converts our value to steps.
    per: Option<f64>,
    /// Unit of both numbers; a gain is in percent.
    pub unit: String,
    /// Name of the experiment that measures it.
    part: String,
    /// Column of that experiment's table.
    figure: String,
    /// Selects the points: parameters and their values, and `rate`. Several points are averaged.
    at: toml::Table,
    /// Compare with the points where these parameters have these values instead.
    over: Option<toml::Table>,
    /// Compare with the points of another experiment.
    over_part: Option<String>,
    /// Compare with this column instead of `figure`.
    over_figure: Option<String>,
    /// State the comparison as a ratio, not as a gain in percent.
    ratio: bool,
    /// Compare the position at which the figure first exceeds a threshold, not the figure itself.
    first: Option<First>,
    /// Interval in which our value confirms the claim. Default: within a fifth of the paper's number. If the
    /// paper has a number, the interval may not be wider than that.
    confirmed: Option<Vec<f64>>,
    /// Names the value of ours that was fitted to the paper's figures, if the claim follows from that value.
    /// The claim then confirms only the fit.
    circular: Option<String>,
    /// Reason for a difference: a finding, not an excuse.
    why: Option<String>,
    /// Category of that reason.
    pub cause: Option<Cause>,
    /// Command that demonstrates the reason.
    shown_by: Option<String>,
    /// Reason why the claim cannot be tested.
    untestable: Option<String>,
}

/// Cause of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The guest's driver, instruction set or NIC differs from the paper's.
    Driver,
    /// Our models omit a feature of the paper's machine.
    Model,
    /// The paper does not describe its machine or its measurement completely.
    Paper,
}

impl Cause {
    /// Short label for tables.
    pub fn in_words(self) -> &'static str {
        match self {
            Cause::Driver => "driver and NIC",
            Cause::Model => "model limit",
            Cause::Paper => "unknown in the paper",
        }
    }
}

/// A threshold that a figure crosses along an axis.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct First {
    /// Column that is the axis, in the claim's unit.
    along: String,
    /// The position is where the figure first exceeds this value, by linear interpolation between two points.
    above: f64,
}

/// Maximum relative difference from a number of the paper that still confirms it.
const TOLERANCE: f64 = 0.2;

/// Minimum number of pairs of host times for a verdict.
const PAIRS_MIN: usize = 3;

/// Verdict on a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Our value is in the interval.
    Confirmed,
    /// Our value is outside the interval; the reason, if the file states one.
    Differs(Option<String>),
    /// The difference may be due to chance, because host times vary between runs. Holds the explanation.
    Undecided(String),
    /// The claim cannot be tested, for this reason.
    NotTestable(String),
    /// Not all of its points are measured.
    NotMeasured,
}

/// An experiment's name, and the parameters that select its points.
type Points<'a> = (&'a str, Vec<(String, String)>);

/// Our value for a claim and the verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimVerdict {
    /// Our value.
    pub ours: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
}

/// An experiment with its results.
#[derive(Clone, Debug)]
pub struct MeasuredPart {
    /// The planned points.
    pub plan: Plan,
    /// The measured rows.
    pub table: Table,
}

impl Claim {
    /// Rejects a claim that refers to points or columns that no experiment measures. Called before measuring.
    pub(super) fn check(&self, plans: &[Plan], may_be_missing: bool) -> Result<(), String> {
        if self.says.is_empty() {
            return Err("a claim needs a text (says)".into());
        }
        if self.untestable.is_some() {
            return Ok(());
        }
        self.check_steps()?;
        let Some([from, to]) = self.interval() else {
            return Err("confirmed = [from, to] is missing, or is not two numbers".into());
        };
        if from > to {
            return Err(format!("confirmed = [{from}, {to}] is not an interval"));
        }
        if let Some([least, most]) = self.widest().filter(|most| from < most[0] || to > most[1]) {
            let paper = self.paper().unwrap_or_default();
            return Err(format!(
                "confirmed = [{from}, {to}] is wider than a fifth of the paper's {paper}, [{least}, {most}]"
            ));
        }
        if self.first.is_some() && (self.over.is_some() || self.over_part.is_some()) {
            return Err(
                "a threshold crossing (first) cannot be combined with a comparison (over, over_part)".into(),
            );
        }
        let columns =
            [("figure", Some(&self.figure)), ("first.along", self.first.as_ref().map(|f| &f.along))];
        let over = [("over_figure", self.over_figure.as_ref().or(Some(&self.figure)))];
        let numerator = (self.numerator()?, &columns[..]);
        let denominator = self.denominator()?.map(|points| (points, &over[..]));
        for ((part, at), columns) in [Some(numerator), denominator].into_iter().flatten() {
            let plan = plans.iter().find(|plan| plan.file.name() == part);
            let plan = plan.ok_or_else(|| format!("there is no part \"{part}\""))?;
            if may_be_missing {
                continue;
            }
            if !plan.points.iter().any(|point| point.is_at(&at)) {
                let at: Vec<String> = at.iter().map(|(path, value)| format!("{path}={value}")).collect();
                return Err(format!("no point of \"{part}\" is at {}", at.join(" ")));
            }
            for (key, column) in columns {
                if let Some((column, problem)) =
                    column.and_then(|name| Some((name, plan.column_problem(name)?)))
                {
                    return Err(format!("{key} = \"{column}\" {problem}"));
                }
            }
        }
        Ok(())
    }

    fn check_steps(&self) -> Result<(), String> {
        let Some(steps) = &self.steps else { return Ok(()) };
        let gain = self.denominator()?.is_some();
        let wanted = if gain { 2 } else { 1 };
        if self.paper.is_some() {
            return Err("a claim may have a number (paper) or steps, not both".into());
        }
        if steps.len() != wanted || steps.iter().any(|step| *step < 1.0) {
            return Err(format!("steps = {steps:?} is not {wanted} steps from 1, which this claim needs"));
        }
        Ok(())
    }

    /// Compares the measured value with the claim.
    pub fn judge(&self, parts: &[&MeasuredPart]) -> ClaimVerdict {
        if let Some(reason) = &self.untestable {
            return ClaimVerdict { ours: None, verdict: Verdict::NotTestable(reason.clone()) };
        }
        let (Some(ours), Some([from, to])) = (self.ours(parts), self.interval()) else {
            return ClaimVerdict { ours: None, verdict: Verdict::NotMeasured };
        };
        if self.figure.starts_with("host_") {
            return self.judge_pairs(parts, [from, to]);
        }
        let verdict = match ours {
            Some(ours) if (from..=to).contains(&ours) => Verdict::Confirmed,
            _ => Verdict::Differs(self.why.clone()),
        };
        ClaimVerdict { ours, verdict }
    }

    /// Judges host times by pairs of repetitions. Decides only if the 95 % confidence interval of their mean
    /// does not contain a bound.
    fn judge_pairs(&self, parts: &[&MeasuredPart], [from, to]: [f64; 2]) -> ClaimVerdict {
        let pairs = self.pairs(parts).unwrap_or_default();
        let count = pairs.len() as f64;
        let mean = pairs.iter().sum::<f64>() / count;
        if pairs.len() < PAIRS_MIN {
            let reason = format!(
                "a host time needs at least {PAIRS_MIN} pairs of measurements (repetitions), and there are {count}"
            );
            return ClaimVerdict {
                ours: Some(mean).filter(|mean| mean.is_finite()),
                verdict: Verdict::Undecided(reason),
            };
        }
        let variance = pairs.iter().map(|pair| (pair - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let half = student_97_5(pairs.len() - 1) * (variance / count).sqrt();
        let (low, high) = (mean - half, mean + half);
        let verdict = if low >= from && high <= to {
            Verdict::Confirmed
        } else if high < from || low > to {
            Verdict::Differs(self.why.clone())
        } else {
            Verdict::Undecided(format!(
                "the mean of {count} pairs is {low:.0} to {high:.0} {} at 95 % confidence",
                self.unit()
            ))
        };
        ClaimVerdict { ours: Some(mean), verdict }
    }

    /// Our value for each repetition.
    fn pairs(&self, parts: &[&MeasuredPart]) -> Option<Vec<f64>> {
        let each = |(part, at): Points, figure: &str| -> Option<Vec<f64>> {
            let measured = parts.iter().find(|measured| measured.plan.file.name() == part)?;
            let (values, repetitions) =
                (measured.table.column(figure)?, measured.table.column("repetition")?);
            let mut all: Vec<(f64, f64)> = rows_at(measured, &at)?
                .into_iter()
                .map(|row| Some((repetitions.cells[row].number()?, values.cells[row].number()?)))
                .collect::<Option<_>>()?;
            all.sort_by(|a, b| a.0.total_cmp(&b.0));
            Some(all.into_iter().map(|(_, value)| value).collect())
        };
        let values = each(self.numerator().ok()?, &self.figure)?;
        let Some(base) = self.denominator().ok()? else { return Some(values) };
        let base = each(base, self.over_figure.as_ref().unwrap_or(&self.figure))?;
        (values.len() == base.len())
            .then(|| values.iter().zip(&base).map(|(value, base)| self.gain(value / base)).collect())
    }

    /// The interval in which our value confirms the claim.
    pub fn interval(&self) -> Option<[f64; 2]> {
        match self.confirmed.as_deref() {
            Some([from, to]) => Some([*from, *to]),
            Some(_) => None,
            None => self.widest(),
        }
    }

    /// The paper's number, if it has one: the number itself, the last sustained step, or the gain between two
    /// steps.
    pub fn paper(&self) -> Option<f64> {
        match self.steps.as_deref() {
            Some([step]) => Some(*step),
            Some([step, base]) => Some(self.gain(step / base)),
            _ => self.paper,
        }
    }

    /// The widest interval that may be configured: a fifth around the paper's number. For a step, from a
    /// fifth below it to a fifth above the next one. For a gain, at least the range left open by the two
    /// steps.
    fn widest(&self) -> Option<[f64; 2]> {
        match self.steps.as_deref() {
            Some([step]) => Some([around(*step)?[0], around(step + 1.0)?[1]]),
            Some([step, base]) => {
                let open = [step / (base + 1.0), (step + 1.0) / base].map(|ratio| self.gain(ratio));
                let fifth = around(self.gain(step / base)).unwrap_or(open);
                Some([open[0].min(fifth[0]), open[1].max(fifth[1])])
            }
            _ => self.paper.and_then(around),
        }
    }

    /// The experiments whose results it uses.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        [Some(&self.part), self.over_part.as_ref()].into_iter().flatten().map(String::as_str)
    }

    /// Whether the paper states a number, and not only a direction.
    pub fn is_numeric(&self) -> bool {
        self.paper().is_some()
    }

    fn gain(&self, ratio: f64) -> f64 {
        if self.ratio { ratio } else { (ratio - 1.0) * 100.0 }
    }

    /// Further notes from the file: the fitted value that makes the claim circular, and the command that
    /// demonstrates why our value differs.
    pub fn file_notes(&self) -> (Option<&str>, Option<&str>) {
        (self.circular.as_deref(), self.shown_by.as_deref())
    }

    /// Unit of its numbers.
    pub fn unit(&self) -> &str {
        match (&self.over, &self.over_part, self.ratio) {
            (None, None, _) if self.over_figure.is_none() && self.steps.is_some() => "steps",
            (None, None, _) if self.over_figure.is_none() => &self.unit,
            (.., true) => "times",
            (.., false) => "%",
        }
    }

    /// Our value. The outer option is `None` if points are missing, the inner one if the points have no
    /// value.
    fn ours(&self, parts: &[&MeasuredPart]) -> Option<Option<f64>> {
        if let Some(first) = &self.first {
            let (part, at) = self.numerator().ok()?;
            let measured = parts.iter().find(|measured| measured.plan.file.name() == part)?;
            return first.of(&rows_at(measured, &at)?, [&self.figure, &first.along], &measured.table);
        }
        // Finished points may lack the figure: for example, shares of drops where nothing was dropped.
        let mean = |(part, at): Points, figure: &str| {
            let measured = parts.iter().find(|measured| measured.plan.file.name() == part)?;
            rows_at(measured, &at).map(|_| mean_at(measured, &at, figure))
        };
        let value = mean(self.numerator().ok()?, &self.figure)?;
        let Some(base) = self.denominator().ok()? else {
            return Some(value.map(|value| value / self.per.unwrap_or(1.0)));
        };
        let base = mean(base, self.over_figure.as_ref().unwrap_or(&self.figure))?;
        let ratio = value.zip(base.filter(|base| *base != 0.0)).map(|(value, base)| value / base);
        Some(ratio.map(|ratio| self.gain(ratio)))
    }

    fn numerator(&self) -> Result<Points<'_>, String> {
        Ok((&self.part, values_at(&self.at)?))
    }

    fn denominator(&self) -> Result<Option<Points<'_>>, String> {
        if self.over.is_none() && self.over_part.is_none() && self.over_figure.is_none() {
            return Ok(None);
        }
        let mut at = self.at.clone();
        at.extend(self.over.clone().unwrap_or_default());
        Ok(Some((self.over_part.as_ref().unwrap_or(&self.part), values_at(&at)?)))
    }
}

/// The interval around a number that confirms it; `None` for 0.
fn around(paper: f64) -> Option<[f64; 2]> {
    let far = paper.abs() * TOLERANCE;
    // Allows for rounding: a bound written in decimal may differ from the product in its last bit.
    (paper != 0.0).then_some([paper - far - far * 1e-9, paper + far + far * 1e-9])
}

impl First {
    /// Position along the rows at which the figure first exceeds the threshold. The inner option is `None` if
    /// it never does.
    fn of(&self, rows: &[usize], columns: [&str; 2], table: &Table) -> Option<Option<f64>> {
        let [figure, along] = columns.map(|name| table.column(name));
        let (figure, along) = (figure?, along?);
        let number = |row: usize| Some((along.cells[row].number()?, figure.cells[row].number()?));
        let mut points: Vec<(f64, f64)> = rows.iter().map(|&row| number(row)).collect::<Option<_>>()?;
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let Some(place) = points.iter().position(|point| point.1 > self.above) else { return Some(None) };
        let (x, y) = points[place];
        let Some((before, below)) = place.checked_sub(1).map(|place| points[place]) else {
            return Some(Some(x));
        };
        Some(Some(before + (x - before) * (self.above - below) / (y - below)))
    }
}

/// Table rows of the selected points; `None` if there are no such points or not all of them are finished.
fn rows_at(measured: &MeasuredPart, at: &[(String, String)]) -> Option<Vec<usize>> {
    let points = measured.plan.points.iter().filter(|point| point.is_at(at)).count();
    let rows = measured.plan.rows_at(at, &measured.table);
    (!rows.is_empty() && rows.len() == points).then_some(rows)
}

/// Mean of a column over the selected points; `None` unless all of them are finished and have a number.
pub(super) fn mean_at(measured: &MeasuredPart, at: &[(String, String)], column: &str) -> Option<f64> {
    let values = measured.table.column(column)?;
    let rows = rows_at(measured, at)?;
    let numbers: Vec<f64> = rows.iter().map(|&row| values.cells[row].number()).collect::<Option<_>>()?;
    Some(numbers.iter().sum::<f64>() / numbers.len() as f64)
}

#[cfg(test)]
#[path = "claim_tests.rs"]
mod tests;
