//! A claim of a paper: what is compared, and what comes of it.

use serde::Deserialize;

use crate::experiment::{Plan, PlannedPoint, Table, Work, as_set};

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
    /// As a ratio, not as a gain in percent.
    ratio: bool,
    /// It is confirmed if ours is in this interval.
    confirmed: Option<[f64; 2]>,
    /// Why ours differs, where it does: a finding, not an excuse.
    why: Option<String>,
    /// Why it cannot be tested.
    untestable: Option<String>,
}

/// What became of a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Our number is where it must be.
    Confirmed,
    /// Our number is elsewhere; why, if that is known.
    Differs(Option<String>),
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
        let Some([from, to]) = self.confirmed else { return Err("confirmed = [from, to] is missing".into()) };
        if from > to {
            return Err(format!("confirmed = [{from}, {to}] is no interval"));
        }
        for (part, at) in [Some(self.numerator()?), self.denominator()?].into_iter().flatten() {
            let plan = plans.iter().find(|plan| plan.file.name() == part);
            let plan = plan.ok_or_else(|| format!("there is no part \"{part}\""))?;
            if !may_be_missing && !plan.points.iter().any(|point| is_at(point, &at)) {
                return Err(format!("no point of \"{part}\" is at {at:?}"));
            }
        }
        Ok(())
    }

    /// Judges it by what was measured.
    pub fn judge(&self, parts: &[&Measured]) -> Judged {
        if let Some(reason) = &self.untestable {
            return Judged { ours: None, verdict: Verdict::NotTestable(reason.clone()) };
        }
        let (Some(ours), Some([from, to])) = (self.ours(parts), self.confirmed) else {
            return Judged { ours: None, verdict: Verdict::NotMeasured };
        };
        let verdict = match (from..=to).contains(&ours) {
            true => Verdict::Confirmed,
            false => Verdict::Differs(self.why.clone()),
        };
        Judged { ours: Some(ours), verdict }
    }

    /// The unit of its numbers.
    pub fn unit(&self) -> &str {
        match (&self.over, &self.over_part, self.ratio) {
            (None, None, _) => &self.unit,
            (.., true) => "times",
            (.., false) => "%",
        }
    }

    fn ours(&self, parts: &[&Measured]) -> Option<f64> {
        let mean = |(part, at): Points| {
            let measured = parts.iter().find(|measured| measured.plan.file.name() == part)?;
            mean_at(measured, &at, &self.figure)
        };
        let value = mean(self.numerator().ok()?)?;
        match self.denominator().ok()? {
            None => Some(value),
            Some(base) => {
                let base = mean(base)?;
                let ratio = (base != 0.0).then(|| value / base)?;
                Some(if self.ratio { ratio } else { (ratio - 1.0) * 100.0 })
            }
        }
    }

    fn numerator(&self) -> Result<Points<'_>, String> {
        Ok((&self.part, parameters(&self.at)?))
    }

    fn denominator(&self) -> Result<Option<Points<'_>>, String> {
        if self.over.is_none() && self.over_part.is_none() {
            return Ok(None);
        }
        let mut at = self.at.clone();
        at.extend(self.over.clone().unwrap_or_default());
        Ok(Some((self.over_part.as_ref().unwrap_or(&self.part), parameters(&at)?)))
    }
}

fn parameters(at: &toml::Table) -> Result<Vec<(String, String)>, String> {
    at.iter()
        .map(|(path, value)| Ok((path.clone(), as_set(path, value).map_err(|error| error.to_string())?)))
        .collect()
}

fn is_at(point: &PlannedPoint, at: &[(String, String)]) -> bool {
    let rate = match &point.work {
        Work::Measure(rate) => rate.to_string(),
        Work::Search(_) => String::new(),
    };
    at.iter().all(|(path, value)| match path.as_str() {
        "rate" => *value == rate,
        path => point.parameters.iter().any(|(own, given)| own == path && given == value),
    })
}

/// The mean of a column over the rows of these points; nothing unless all of them are done and have a number.
fn mean_at(measured: &Measured, at: &[(String, String)], column: &str) -> Option<f64> {
    let (index, values) = (measured.table.column("index")?, measured.table.column(column)?);
    let row_of =
        |point: &PlannedPoint| index.cells.iter().position(|cell| cell.number() == Some(point.index as f64));
    let points: Vec<&PlannedPoint> = measured.plan.points.iter().filter(|point| is_at(point, at)).collect();
    let numbers: Vec<f64> =
        points.iter().map(|point| values.cells[row_of(point)?].number()).collect::<Option<_>>()?;
    (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64)
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
                column("gbps", [30.0, 20.0, 50.0].map(Cell::Float).to_vec()),
            ],
        };
        Measured { plan, table }
    }

    fn claim(text: &str) -> Claim {
        let head = "says = \"x\"\npart = \"p\"\nfigure = \"gbps\"\n";
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
    fn gains_are_percent_and_ratios_are_times() {
        let over = "over = { \"testpmd.mode\" = \"macswap\" }\nconfirmed = [0, 60]\n";
        assert!((judged(&format!("{IO_64}{over}")).ours.unwrap() - 50.0).abs() < 1e-9);
        assert_eq!(judged(&format!("{IO_64}{over}ratio = true")).ours, Some(1.5));
        assert_eq!(claim(&format!("{IO_64}{over}")).unit(), "%");
        assert_eq!(claim(&format!("{IO_64}{over}ratio = true")).unit(), "times");
    }

    #[test]
    fn points_that_are_not_all_there_are_not_judged() {
        let at = "at = { \"loadgen.traffic.frame_size\" = \"128B\" }\nconfirmed = [0, 100]";
        assert_eq!(judged(at), Judged { ours: None, verdict: Verdict::NotMeasured });
        assert_eq!(judged("untestable = \"no silicon\"").verdict, Verdict::NotTestable("no silicon".into()));
    }

    #[test]
    fn a_claim_about_nothing_is_refused() {
        let plans = [measured().plan];
        for (text, word) in [
            ("confirmed = [2, 1]", "no interval"),
            ("at = { \"testpmd.mode\" = \"mac\" }\nconfirmed = [1, 2]", "no point"),
            ("over_part = \"q\"\nconfirmed = [1, 2]", "\"q\""),
            ("", "confirmed"),
        ] {
            let problem = claim(text).check(&plans, false).unwrap_err();
            assert!(problem.contains(word), "{problem}");
        }
    }
}
