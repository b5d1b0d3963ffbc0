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
    /// Its number, if it has one.
    pub paper: Option<f64>,
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
    /// The command that shows why.
    shown_by: Option<String>,
    /// Why it cannot be tested.
    untestable: Option<String>,
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
        let Some([from, to]) = self.interval() else {
            return Err("confirmed = [from, to] is missing, or is not two numbers".into());
        };
        if from > to {
            return Err(format!("confirmed = [{from}, {to}] is no interval"));
        }
        if let Some([least, most]) = self.paper.and_then(around).filter(|most| from < most[0] || to > most[1])
        {
            let paper = self.paper.unwrap_or_default();
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
        let gain = |ratio: f64| if self.ratio { ratio } else { (ratio - 1.0) * 100.0 };
        (values.len() == base.len())
            .then(|| values.iter().zip(&base).map(|(value, base)| gain(value / base)).collect())
    }

    /// The interval in which our number confirms the claim.
    pub fn interval(&self) -> Option<[f64; 2]> {
        match self.confirmed.as_deref() {
            Some([from, to]) => Some([*from, *to]),
            Some(_) => None,
            None => self.paper.and_then(around),
        }
    }

    /// What stands in the file beside the verdict: which fitted value makes the claim circular, and the command that shows why
    /// ours differs.
    pub fn notes(&self) -> (Option<&str>, Option<&str>) {
        (self.circular.as_deref(), self.shown_by.as_deref())
    }

    /// The unit of its numbers.
    pub fn unit(&self) -> &str {
        match (&self.over, &self.over_part, self.ratio) {
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
        let Some(base) = self.denominator().ok()? else { return Some(value) };
        let base = mean(base, self.over_figure.as_ref().unwrap_or(&self.figure))?;
        let ratio = value.zip(base.filter(|base| *base != 0.0)).map(|(value, base)| value / base);
        Some(ratio.map(|ratio| if self.ratio { ratio } else { (ratio - 1.0) * 100.0 }))
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
mod tests {
    use super::*;
    use crate::experiment::{Cell, Column, ExperimentFile};

    /// Rates of two frame sizes with and without something, of which the last is not done.
    fn measured() -> Measured {
        let text = "name = \"p\"\nbenchmark = \"testpmd\"\npreset = \"fast\"\nmeasure.rates = [\"1Mpps\"]\n[grid]\n\
                    \"loadgen.traffic.frame_size\" = [\"64B\", \"128B\"]\n\"testpmd.mode\" = [\"io\", \"macswap\"]\n";
        let plan = Plan::new(ExperimentFile::from_toml(text).unwrap()).unwrap();
        let column = |name: &str, cells| Column { name: name.to_owned(), cells, parameter: None };
        let table = Table {
            columns: vec![
                column("index", [0, 1, 2].map(Cell::Int).to_vec()),
                column("delivered_gbps", [30.0, 20.0, 50.0].map(Cell::Float).to_vec()),
            ],
        };
        Measured { plan, table }
    }

    fn measured_without() -> Measured {
        let Measured { plan, mut table } = measured();
        table.columns.retain(|column| column.name != "delivered_gbps");
        Measured { plan, table }
    }

    fn claim(text: &str) -> Claim {
        let head = "says = \"x\"\npart = \"p\"\nfigure = \"delivered_gbps\"\n";
        toml::from_str(&format!("{head}{text}")).unwrap()
    }

    fn judged(text: &str) -> Judged {
        let measured = measured();
        let claim = claim(text);
        claim.check(std::slice::from_ref(&measured.plan), false).unwrap();
        claim.judge(&[&measured])
    }

    const IO_64: &str = "at = { \"loadgen.traffic.frame_size\" = \"64B\", \"testpmd.mode\" = \"io\" }\n";

    #[test]
    fn a_number_is_confirmed_inside_its_interval_and_differs_outside_with_the_reason() {
        let inside = judged(&format!("{IO_64}confirmed = [25, 30]"));
        assert_eq!(inside, Judged { ours: Some(30.0), verdict: Verdict::Confirmed });
        let outside = judged(&format!("{IO_64}confirmed = [0, 29.9]\nwhy = \"because\""));
        assert_eq!(outside, Judged { ours: Some(30.0), verdict: Verdict::Differs(Some("because".into())) });
    }

    #[test]
    fn a_number_of_the_paper_is_confirmed_within_a_fifth() {
        for (paper, verdict) in [
            ("25", Verdict::Confirmed),
            ("37.5", Verdict::Confirmed),
            ("24.9", Verdict::Differs(None)),
            ("37.6", Verdict::Differs(None)),
        ] {
            assert_eq!(judged(&format!("{IO_64}paper = {paper}")).verdict, verdict, "{paper}");
        }
        assert_eq!(claim("paper = -10").interval().unwrap().map(|bound| bound.round()), [-12.0, -8.0]);
    }

    #[test]
    fn where_something_begins_is_between_the_points_around_the_threshold() {
        let text = "name = \"p\"\nbenchmark = \"testpmd\"\npreset = \"fast\"\nmeasure.rates = [\"1Mpps\", \"2Mpps\", \"4Mpps\"]\n";
        let plan = Plan::new(ExperimentFile::from_toml(text).unwrap()).unwrap();
        let column = |name: &str, cells: Vec<Cell>| Column { name: name.to_owned(), cells, parameter: None };
        let table = |loss: [f64; 3]| Table {
            columns: vec![
                column("index", [2, 0, 1].map(Cell::Int).to_vec()),
                column("offered_mpps", [4.0, 1.0, 2.0].map(Cell::Float).to_vec()),
                column("delivered_gbps", loss.map(Cell::Float).to_vec()),
            ],
        };
        let claim = claim("first = { along = \"offered_mpps\", above = 0.01 }\npaper = 2.5");
        claim.check(std::slice::from_ref(&plan), false).unwrap();
        let judged = |loss| claim.judge(&[&Measured { plan: plan.clone(), table: table(loss) }]);
        assert_eq!(judged([0.04, 0.0, 0.0]), Judged { ours: Some(2.5), verdict: Verdict::Confirmed });
        assert_eq!(judged([0.5, 0.1, 0.2]), Judged { ours: Some(1.0), verdict: Verdict::Differs(None) });
        assert_eq!(judged([0.0, 0.0, 0.0]), Judged { ours: None, verdict: Verdict::Differs(None) });
    }

    #[test]
    fn gains_are_percent_and_ratios_are_times() {
        let over = "over = { \"testpmd.mode\" = \"macswap\" }\nconfirmed = [0, 60]\n";
        assert!((judged(&format!("{IO_64}{over}")).ours.unwrap() - 50.0).abs() < 1e-9);
        assert_eq!(judged(&format!("{IO_64}{over}ratio = true")).ours, Some(1.5));
        assert_eq!(claim(&format!("{IO_64}{over}")).unit(), "%");
        assert_eq!(claim(&format!("{IO_64}{over}ratio = true")).unit(), "times");
    }

    #[test]
    fn a_time_of_the_host_is_judged_by_pairs_and_only_where_chance_cannot_turn_it() {
        let judged = |node: &[f64], generator: &[f64]| {
            let text = format!(
                "name = \"p\"\nbenchmark = \"testpmd\"\npreset = \"fast\"\nmeasure.rates = [\"1Mpps\"]\nrepetitions = {}\n[grid]\n\
                 \"drive.kind\" = [\"generator\", \"node\"]\n",
                node.len()
            );
            let plan = Plan::new(ExperimentFile::from_toml(&text).unwrap()).unwrap();
            let column = |name: &str, cells| Column { name: name.to_owned(), cells, parameter: None };
            let times = generator.iter().chain(node).map(|time| Cell::Float(*time));
            let indices = 0..2 * node.len() as i64;
            let columns = vec![
                column("index", indices.clone().map(Cell::Int).collect()),
                column("repetition", indices.map(|index| Cell::Int(index % node.len() as i64)).collect()),
                column("host_seconds", times.collect()),
            ];
            let claim: Claim = toml::from_str(
                "says = \"x\"\npart = \"p\"\nfigure = \"host_seconds\"\npaper = 70\nat = { \"drive.kind\" = \"node\" }\n\
                 over = { \"drive.kind\" = \"generator\" }\n",
            )
            .unwrap();
            claim.judge(&[&Measured { plan, table: Table { columns } }])
        };
        // Pairs vary less than times do: the host was twice as slow in the second one.
        let sure = judged(&[1.71, 3.40, 1.69], &[1.0, 2.0, 1.0]);
        assert_eq!(sure.verdict, Verdict::Confirmed);
        assert!((sure.ours.unwrap() - 70.0).abs() < 0.1, "{sure:?}");
        assert_eq!(judged(&[1.0, 1.01, 0.99], &[1.0; 3]).verdict, Verdict::Differs(None));
        let Verdict::Undecided(why) = judged(&[1.2, 1.7, 2.2], &[1.0; 3]).verdict else { panic!() };
        assert!(why.starts_with("the mean of 3 pairs is "), "{why}");
        let once = judged(&[1.7], &[1.0]);
        assert!(matches!(&once.verdict, Verdict::Undecided(why) if why.contains("3 pairs")), "{once:?}");
    }

    #[test]
    fn points_that_are_not_all_there_are_not_judged() {
        let at = "at = { \"loadgen.traffic.frame_size\" = \"128B\" }\nconfirmed = [0, 100]";
        assert_eq!(judged(at), Judged { ours: None, verdict: Verdict::NotMeasured });
        // A column that is not in the table: no such thing was there to be counted.
        let none = claim("at = { \"loadgen.traffic.frame_size\" = \"64B\" }\npaper = 93")
            .judge(&[&measured_without()]);
        assert_eq!(none, Judged { ours: None, verdict: Verdict::Differs(None) });
        assert_eq!(judged("untestable = \"no silicon\"").verdict, Verdict::NotTestable("no silicon".into()));
    }

    #[test]
    fn a_claim_about_nothing_is_refused() {
        let plans = [measured().plan];
        for (text, word) in [
            ("confirmed = [2, 1]", "no interval"),
            ("at = { \"testpmd.mode\" = \"mac\" }\nconfirmed = [1, 2]", "no point"),
            (
                "over_figure = \"delivered_gbs\"\nconfirmed = [1, 2]",
                "over_figure = \"delivered_gbs\" is no figure of a point",
            ),
            ("first = { along = \"ofered_mpps\", above = 1 }\npaper = 1", "did you mean \"offered_mpps\"?"),
            ("over_part = \"q\"\nconfirmed = [1, 2]", "\"q\""),
            ("", "confirmed"),
            ("confirmed = [0, 1e5, 3]", "not two numbers"),
            ("paper = 10\nconfirmed = [7.9, 12]", "wider than a fifth"),
            ("paper = 0", "confirmed"),
            ("first = { along = \"rate\", above = 1 }\nover_part = \"p\"\nconfirmed = [1, 2]", "begins"),
        ] {
            let problem = claim(text).check(&plans, false).unwrap_err();
            assert!(problem.contains(word), "{problem}");
        }
    }
}
