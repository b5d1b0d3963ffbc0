//! A claim of a paper: what is compared, and what comes of it.

use serde::Deserialize;

use crate::compare::student_97_5;
use crate::experiment::{Plan, Table, values_at};

/// What a paper says, and where our number for it comes from.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Claim {
    /// What it says, in our words.
    pub says: String,
    /// Where it was read: page, figure or table of the paper, or file and line of the scripts that were released with it.
    pub source: Option<String>,
    /// Its number, if it has one.
    paper: Option<f64>,
    /// In place of a number: the last step of the paper's grid that it sustained. With two of them the claim is of a gain.
    steps: Option<Vec<f64>>,
    /// Ours is divided by this, to be in steps.
    per: Option<f64>,
    /// The unit of its number and ours; a gain's is percent.
    pub unit: String,
    /// The experiment that measures it.
    part: String,
    /// The column of that experiment's table.
    figure: String,
    /// At which points: parameters and their values, and `rate`. Of several points the mean counts.
    at: toml::Table,
    /// Compared with the points at which these parameters have these values instead.
    over: Option<toml::Table>,
    /// Compared with another experiment's points.
    over_part: Option<String>,
    /// Compared with this column, where it is another one.
    over_figure: Option<String>,
    /// As a ratio, not as a gain in percent.
    ratio: bool,
    /// Not the figure itself, but where along the points it first comes above a value.
    first: Option<First>,
    /// It is confirmed if ours is in this interval: without one, within a fifth of the paper's number. Where the paper has a
    /// number, no interval is wider.
    confirmed: Option<Vec<f64>>,
    /// Which value of ours was fitted to the paper's figures, where the claim follows from it: then it confirms nothing but that.
    circular: Option<String>,
    /// Why ours differs, where it does: a finding, not an excuse.
    why: Option<String>,
    /// What kind of reason that is.
    pub cause: Option<Cause>,
    /// The command that shows why.
    shown_by: Option<String>,
    /// Why it cannot be tested.
    untestable: Option<String>,
}

/// What a difference comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The guest's driver, instruction set or card is another than the paper's.
    Driver,
    /// Our models leave out what the paper's machine has.
    Model,
    /// The paper does not say enough of its machine or its measurement.
    Paper,
}

impl Cause {
    /// In a word or two, for tables.
    pub fn in_words(self) -> &'static str {
        match self {
            Cause::Driver => "driver and NIC",
            Cause::Model => "model limit",
            Cause::Paper => "unknown in the paper",
        }
    }
}

/// Where something begins: a threshold that a figure crosses along an axis.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct First {
    /// The column along which it is looked for, in the claim's unit.
    along: String,
    /// It begins where the figure is greater than this; between two points, on the straight line that joins them.
    above: f64,
}

/// So much may ours differ from a number of the paper and still confirm it.
const TOLERANCE: f64 = 0.2;

/// So many pairs of host times say something.
const PAIRS_MIN: usize = 3;

/// What became of a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Our number is where it must be.
    Confirmed,
    /// Our number is elsewhere; why, if that is known.
    Differs(Option<String>),
    /// Chance may have put it on this side: a time of the host is never the same twice.
    Undecided(String),
    /// For this reason.
    NotTestable(String),
    /// Its points are not all there.
    NotMeasured,
}

/// An experiment's name, and the parameters of its points.
type Points<'a> = (&'a str, Vec<(String, String)>);

/// A claim with our number and its verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Our number.
    pub ours: Option<f64>,
    /// What follows.
    pub verdict: Verdict,
}

/// An experiment with what was measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Its points.
    pub plan: Plan,
    /// Its rows.
    pub table: Table,
}

impl Claim {
    /// Finds a claim that nothing measures, before anything is measured.
    pub(super) fn check(&self, plans: &[Plan], may_be_missing: bool) -> Result<(), String> {
        if self.says.is_empty() {
            return Err("a claim must say something".into());
        }
        if self.untestable.is_some() {
            return Ok(());
        }
        self.check_steps()?;
        let Some([from, to]) = self.interval() else {
            return Err("confirmed = [from, to] is missing, or is not two numbers".into());
        };
        if from > to {
            return Err(format!("confirmed = [{from}, {to}] is no interval"));
        }
        if let Some([least, most]) = self.widest().filter(|most| from < most[0] || to > most[1]) {
            let paper = self.paper().unwrap_or_default();
            return Err(format!(
                "confirmed = [{from}, {to}] is wider than a fifth of the paper's {paper}, [{least}, {most}]"
            ));
        }
        if self.first.is_some() && (self.over.is_some() || self.over_part.is_some()) {
            return Err("where something begins (first) cannot be compared (over, over_part)".into());
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
            return Err("a claim has a number (paper) or steps, not both".into());
        }
        if steps.len() != wanted || steps.iter().any(|step| *step < 1.0) {
            return Err(format!("steps = {steps:?} is not {wanted} steps from 1, as the claim needs"));
        }
        Ok(())
    }

    /// Judges it by what was measured.
    pub fn judge(&self, parts: &[&Measured]) -> Judged {
        if let Some(reason) = &self.untestable {
            return Judged { ours: None, verdict: Verdict::NotTestable(reason.clone()) };
        }
        let (Some(ours), Some([from, to])) = (self.ours(parts), self.interval()) else {
            return Judged { ours: None, verdict: Verdict::NotMeasured };
        };
        if self.figure.starts_with("host_") {
            return self.judge_pairs(parts, [from, to]);
        }
        let verdict = match ours {
            Some(ours) if (from..=to).contains(&ours) => Verdict::Confirmed,
            _ => Verdict::Differs(self.why.clone()),
        };
        Judged { ours, verdict }
    }

    /// Judges host times: by pairs of repetitions, and only if the 95 % interval of their mean lies on one side of every bound.
    fn judge_pairs(&self, parts: &[&Measured], [from, to]: [f64; 2]) -> Judged {
        let pairs = self.pairs(parts).unwrap_or_default();
        let count = pairs.len() as f64;
        let mean = pairs.iter().sum::<f64>() / count;
        if pairs.len() < PAIRS_MIN {
            let reason = format!(
                "of a time of the host {PAIRS_MIN} pairs of measurements are needed (repetitions), and there are {count}"
            );
            return Judged {
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
                "the mean of {count} pairs is {low:.0} to {high:.0} {} with 95 %",
                self.unit()
            ))
        };
        Judged { ours: Some(mean), verdict }
    }

    /// Our number of each repetition by itself.
    fn pairs(&self, parts: &[&Measured]) -> Option<Vec<f64>> {
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

    /// The interval in which our number confirms the claim.
    pub fn interval(&self) -> Option<[f64; 2]> {
        match self.confirmed.as_deref() {
            Some([from, to]) => Some([*from, *to]),
            Some(_) => None,
            None => self.widest(),
        }
    }

    /// Its number, if it has one: of steps, that step or the gain between two.
    pub fn paper(&self) -> Option<f64> {
        match self.steps.as_deref() {
            Some([step]) => Some(*step),
            Some([step, base]) => Some(self.gain(step / base)),
            _ => self.paper,
        }
    }

    /// The widest interval that may confirm it: a fifth around the paper's number; of steps, a fifth around what lies between the last one
    /// sustained and the next, and of a gain at least what two steps leave open.
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

    /// The experiments that it is judged by.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        [Some(&self.part), self.over_part.as_ref()].into_iter().flatten().map(String::as_str)
    }

    /// Whether it has a number of the paper's, and not only a direction.
    pub fn is_numeric(&self) -> bool {
        self.paper().is_some()
    }

    fn gain(&self, ratio: f64) -> f64 {
        if self.ratio { ratio } else { (ratio - 1.0) * 100.0 }
    }

    /// What stands in the file beside the verdict: which fitted value makes the claim circular, and the command that shows why
    /// ours differs.
    pub fn notes(&self) -> (Option<&str>, Option<&str>) {
        (self.circular.as_deref(), self.shown_by.as_deref())
    }

    /// The unit of its numbers.
    pub fn unit(&self) -> &str {
        match (&self.over, &self.over_part, self.ratio) {
            (None, None, _) if self.over_figure.is_none() && self.steps.is_some() => "steps",
            (None, None, _) if self.over_figure.is_none() => &self.unit,
            (.., true) => "times",
            (.., false) => "%",
        }
    }

    /// Our number, if its points are all there; or that there is none.
    fn ours(&self, parts: &[&Measured]) -> Option<Option<f64>> {
        if let Some(first) = &self.first {
            let (part, at) = self.numerator().ok()?;
            let measured = parts.iter().find(|measured| measured.plan.file.name() == part)?;
            return first.of(&rows_at(measured, &at)?, [&self.figure, &first.along], &measured.table);
        }
        // Points that are done without the figure, such as shares of drops where nothing is dropped, have no number.
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

/// The interval around a number that confirms it; around 0 there is none.
fn around(paper: f64) -> Option<[f64; 2]> {
    let far = paper.abs() * TOLERANCE;
    // Written as decimals, a bound may miss the product by its last bit.
    (paper != 0.0).then_some([paper - far - far * 1e-9, paper + far + far * 1e-9])
}

impl First {
    /// Where along the rows the figure comes above the value; inside, nothing if it never does.
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

/// The table's rows of these points; nothing unless there are any and all of them are done.
fn rows_at(measured: &Measured, at: &[(String, String)]) -> Option<Vec<usize>> {
    let points = measured.plan.points.iter().filter(|point| point.is_at(at)).count();
    let rows = measured.plan.rows_at(at, &measured.table);
    (!rows.is_empty() && rows.len() == points).then_some(rows)
}

/// The mean of a column over the rows of these points; nothing unless all of them are done and have a number.
pub(super) fn mean_at(measured: &Measured, at: &[(String, String)], column: &str) -> Option<f64> {
    let values = measured.table.column(column)?;
    let rows = rows_at(measured, at)?;
    let numbers: Vec<f64> = rows.iter().map(|&row| values.cells[row].number()).collect::<Option<_>>()?;
    Some(numbers.iter().sum::<f64>() / numbers.len() as f64)
}

#[cfg(test)]
#[path = "claim_tests.rs"]
mod tests;
