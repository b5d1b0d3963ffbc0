//! The TOML file of a figure.

use std::path::Path;

use doorbell_machine::is_path;
use serde::Deserialize;

use super::claim::{Claim, MeasuredPart, mean_at};
use crate::experiment::{ExperimentFile, Plan, values_at};

/// A figure: its topic, the experiments that measure it, and the paper's claims.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Name on the command line: the file's name without its extension.
    #[serde(skip)]
    pub name: String,
    /// Title.
    pub title: String,
    /// The quantity measured, and how the measurement differs from the paper's.
    pub about: String,
    /// Preset of all its experiments.
    preset: String,
    /// Settings of all its experiments, applied before each experiment's own.
    #[serde(default)]
    set: Vec<toml::Value>,
    /// The experiments, as [`ExperimentFile`]s, each with a name. When a coarse version is requested, keys in
    /// a part's `quick` table replace the part's own.
    #[serde(default, rename = "part")]
    parts: Vec<toml::Table>,
    /// The paper's claims.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
}

/// An experiment of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct PartFile {
    /// Name within the figure.
    pub name: String,
    /// Text of its experiment file; placeholder rates if the rates derive from another part.
    text: String,
    /// Source of its rates, if they derive from another part.
    of: Option<RatesOf>,
}

/// Rates that are multiples of a rate measured by another part of the figure: `measure.of` in the file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct RatesOf {
    /// Name of the other part.
    part: String,
    /// Column of its table, in Mpps.
    figure: String,
    /// Selects the points of the other part.
    #[serde(default)]
    at: toml::Table,
    /// The multiples.
    times: Vec<f64>,
}

impl RatesOf {
    /// Placeholder rates, used until the actual rates are measured.
    fn stand_ins(&self) -> Vec<f64> {
        self.times.iter().map(|times| times / 1000.0).collect()
    }

    fn check(&self, before: &[(PartFile, Plan)]) -> Result<(), String> {
        if self.times.is_empty() || self.times.iter().any(|times| !(0.001..=1000.0).contains(times)) {
            return Err("measure.of.times needs numbers from 0.001 to 1000".into());
        }
        if !self.figure.ends_with("_mpps") {
            return Err(format!("measure.of.figure = \"{}\" is not a column in Mpps", self.figure));
        }
        let Some((source, plan)) = before.iter().find(|(part, _)| part.name == self.part) else {
            return Err(format!("measure.of.part: there is no part \"{}\" before this one", self.part));
        };
        if source.of.is_some() {
            return Err(format!(
                "measure.of.part: the rates of \"{}\" themselves derive from another part",
                self.part
            ));
        }
        let at = values_at(&self.at)?;
        match plan.points.iter().any(|point| point.is_at(&at)) {
            true => Ok(()),
            false => Err(format!("measure.of.at: no point of \"{}\" is at {at:?}", self.part)),
        }
    }
}

impl PartFile {
    /// Whether its rates derive from the results of another part.
    pub fn follows(&self) -> bool {
        self.of.is_some()
    }

    /// Text of its experiment file, with rates computed from the results of earlier parts.
    pub fn text(&self, measured: &[&MeasuredPart]) -> Result<String, String> {
        let Some(of) = &self.of else { return Ok(self.text.clone()) };
        let source = measured.iter().find(|source| source.plan.file.name() == of.part);
        let rate = source.and_then(|source| mean_at(source, &values_at(&of.at).ok()?, &of.figure));
        let rate = rate.filter(|rate| *rate > 0.0).ok_or_else(|| {
            format!("its rates derive from {} of \"{}\", which is not measured", of.figure, of.part)
        })?;
        let mut table: toml::Table = self.text.parse().expect("serialized from a table");
        set_rates(&mut table, &of.times.iter().map(|times| times * rate).collect::<Vec<_>>());
        Ok(table.to_string())
    }
}

/// Sets the rates, rounded to four significant digits, which exceeds the precision of a measured rate.
fn set_rates(table: &mut toml::Table, mpps: &[f64]) {
    let written = |mpps: &f64| {
        let digits = 3 - mpps.log10().floor() as i32;
        toml::Value::from(format!("{:.*}Mpps", digits.max(0) as usize, mpps))
    };
    let rates = toml::Value::Array(mpps.iter().map(written).collect());
    let measure = table
        .get_mut("measure")
        .and_then(toml::Value::as_table_mut)
        .expect("a part with measure.of has a measure table");
    measure.insert("rates".to_owned(), rates);
}

/// An error in a figure's file.
#[derive(Debug, thiserror::Error)]
#[error("{figure}: {problem}")]
pub struct FigureError {
    /// Name of the figure.
    pub figure: String,
    /// Description of the error.
    pub problem: String,
}

impl Figure {
    /// Reads a figure's text, and checks that its claims refer to quantities that its experiments measure.
    pub fn read(name: &str, text: &str) -> Result<Figure, FigureError> {
        Figure::read_in(None, name, text)
    }

    /// Reads a figure's text from a file in `folder`; machine files are found relative to that folder.
    pub fn read_in(folder: Option<&Path>, name: &str, text: &str) -> Result<Figure, FigureError> {
        let fail = |problem: String| FigureError { figure: name.to_owned(), problem };
        let mut figure: Figure =
            toml::from_str(text).map_err(|error| fail(error.to_string().trim_end().to_owned()))?;
        figure.name = name.to_owned();
        if let Some(folder) = folder {
            figure.find_machines(folder);
        }
        for quick in [false, true] {
            let plans = figure.plans(quick)?;
            for claim in &figure.claims {
                // A coarse version may measure fewer points.
                claim
                    .check(&plans, quick)
                    .map_err(|problem| fail(format!("\"{}\": {problem}", claim.says)))?;
            }
        }
        Ok(figure)
    }

    /// Makes the paths of machine files absolute, because the experiment files of the parts are written to
    /// other folders.
    fn find_machines(&mut self, folder: &Path) {
        let found = |name: &str| {
            let path = folder.join(name);
            path.canonicalize().unwrap_or(path).display().to_string()
        };
        if is_path(&self.preset) {
            self.preset = found(&self.preset);
        }
        for part in &mut self.parts {
            for key in ["preset", "machine"] {
                if let Some(toml::Value::String(name)) = part.get_mut(key)
                    && (key == "machine" || is_path(name))
                {
                    *name = found(name);
                }
            }
        }
    }

    /// The figure's experiments, or their coarse versions.
    pub fn parts(&self, quick: bool) -> Result<Vec<PartFile>, FigureError> {
        let fail = |problem: &str| FigureError { figure: self.name.clone(), problem: problem.to_owned() };
        let part = |table: &toml::Table| {
            let mut table = table.clone();
            let coarse = table.remove("quick");
            if let Some(coarse) = coarse.filter(|_| quick) {
                let coarse = coarse.as_table().ok_or_else(|| fail("part.quick is not a table"))?.clone();
                table.extend(coarse);
            }
            let benchmark = table.get("benchmark").and_then(|name| name.as_str());
            let mut set: Vec<toml::Value> =
                self.set.iter().filter(|set| self.is_for(set, benchmark)).cloned().collect();
            set.extend(table.get("set").and_then(|set| set.as_array()).cloned().unwrap_or_default());
            table.insert("set".to_owned(), toml::Value::Array(set));
            if !table.contains_key("machine") {
                table.entry("preset").or_insert_with(|| self.preset.clone().into());
            }
            let name = table.get("name").and_then(|name| name.as_str());
            let name = name.ok_or_else(|| fail("a part has no name"))?.to_owned();
            let of = table.get_mut("measure").and_then(|measure| measure.as_table_mut()?.remove("of"));
            let of: Option<RatesOf> = of
                .map(|of| of.try_into().map_err(|error| fail(&format!("part {name}: measure.of: {error}"))))
                .transpose()?;
            if let Some(of) = &of {
                set_rates(&mut table, &of.stand_ins());
            }
            Ok(PartFile { name, text: table.to_string(), of })
        };
        self.parts.iter().map(part).collect()
    }

    /// Names of the parts whose coarse version differs from the full one, or whose rates derive from such a
    /// part.
    pub fn coarse_parts(&self) -> Vec<String> {
        let [Ok(coarse), Ok(full)] = [true, false].map(|quick| self.parts(quick)) else { return Vec::new() };
        let mut names: Vec<String> = Vec::new();
        for (coarse, full) in coarse.into_iter().zip(full) {
            let follows = coarse.of.as_ref().is_some_and(|of| names.contains(&of.part));
            if follows || coarse.text != full.text {
                names.push(coarse.name);
            }
        }
        names
    }

    /// Whether a shared setting applies to a part with this benchmark. A setting that only another part's
    /// benchmark accepts does not apply. A setting that no benchmark accepts does apply, so that the part
    /// reports the error.
    fn is_for(&self, set: &toml::Value, benchmark: Option<&str>) -> bool {
        let Some(set) = set.as_str().map(str::to_owned) else { return true };
        let takes = |name: &str| {
            doorbell_bench::benchmark(name).is_ok_and(|known| known.reject_foreign_settings([&set]).is_ok())
        };
        let of_parts = self.parts.iter().filter_map(|part| part.get("benchmark")?.as_str());
        benchmark.is_none_or(takes) || !of_parts.into_iter().any(takes)
    }

    /// Index of a part within the figure.
    pub fn order(&self, part: &str) -> usize {
        let named = |table: &toml::Table| table.get("name").and_then(|name| name.as_str()) == Some(part);
        self.parts.iter().position(named).unwrap_or(self.parts.len())
    }

    /// Expanded points of each of its experiments.
    pub fn plans(&self, quick: bool) -> Result<Vec<Plan>, FigureError> {
        let fail = |problem: String| FigureError { figure: self.name.clone(), problem };
        let mut plans: Vec<(PartFile, Plan)> = Vec::new();
        for part in self.parts(quick)? {
            let of_part = |problem: String| fail(format!("part {}: {problem}", part.name));
            let file = ExperimentFile::from_toml(&part.text).map_err(of_part)?;
            if let Some(of) = &part.of {
                of.check(&plans).map_err(of_part)?;
            }
            let plan = Plan::new(file).map_err(|error| of_part(error.to_string()))?;
            plans.push((part, plan));
        }
        Ok(plans.into_iter().map(|(_, plan)| plan).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Cell, Column, Table};

    const TEXT: &str = "title = \"t\"\nabout = \"a\"\npreset = \"fast\"\nset = [\"run.warmup=1ms\"]\n[[part]]\nname = \"p\"\n\
        benchmark = \"testpmd\"\nset = [\"run.duration=1ms\"]\nmeasure.rates = [\"1Mpps\", \"2Mpps\"]\n\
        [part.quick]\nmeasure.rates = [\"2Mpps\"]\n";

    #[test]
    fn a_part_combines_figure_and_own_settings_and_has_fewer_points_when_coarse() {
        let figure = Figure::read("f", TEXT).unwrap();
        let [full, quick] = [false, true].map(|quick| figure.plans(quick).unwrap().remove(0));
        assert_eq!((full.points.len(), quick.points.len()), (2, 1));
        assert_eq!(full.file.set, ["run.warmup=1ms", "run.duration=1ms"]);
        assert_eq!(full.file.preset, "fast");
    }

    #[test]
    fn shared_settings_apply_only_to_parts_whose_benchmark_accepts_them() {
        let other = "[[part]]\nname = \"q\"\nbenchmark = \"redis\"\nmeasure.rates = [\"100%\"]\n";
        let text = |set: &str| format!("{TEXT}{other}").replacen("run.warmup=1ms", set, 1);
        let sets = |set: &str| {
            let plans = Figure::read("f", &text(set))?.plans(false)?;
            Ok::<_, FigureError>(plans.iter().map(|plan| plan.file.set.len()).collect::<Vec<_>>())
        };
        assert_eq!(sets("core.frequency=2GHz").unwrap(), [2, 1]);
        assert_eq!(sets("testpmd.mode=io").unwrap(), [2, 0]);
        assert_eq!(sets("kernel.mtu=9000").unwrap(), [1, 1]);
        assert!(
            sets("web.file=100")
                .unwrap_err()
                .to_string()
                .contains("part p: point 0 (): web.file: it is for web")
        );
    }

    /// A second part, at 0.5 and 1.5 times the rate that the first part delivers.
    const FOLLOWING: &str = "[[part]]\nname = \"q\"\nbenchmark = \"touchdrop\"\n\
        measure.of = { part = \"p\", figure = \"arrived_mpps\", at = { rate = \"2Mpps\" }, times = [0.5, 1.5] }\n";

    #[test]
    fn rates_derive_from_the_results_of_another_part() {
        let figure = Figure::read("f", &format!("{TEXT}{FOLLOWING}")).unwrap();
        let parts = figure.parts(false).unwrap();
        assert_eq!(parts.iter().map(PartFile::follows).collect::<Vec<_>>(), [false, true]);
        assert_eq!(figure.plans(false).unwrap()[1].points.len(), 2);
        let problem = parts[1].text(&[]).unwrap_err();
        assert!(problem.contains("\"p\", which is not measured"), "{problem}");
        let column = |name: &str, cells| Column { name: name.to_owned(), cells, parameter: None };
        let columns = vec![
            column("index", [0, 1].map(Cell::Int).to_vec()),
            column("arrived_mpps", [1.0, 1.33337].map(Cell::Float).to_vec()),
        ];
        let measured =
            MeasuredPart { plan: figure.plans(false).unwrap().remove(0), table: Table { columns } };
        let text = parts[1].text(&[&measured]).unwrap();
        let file = ExperimentFile::from_toml(&text).unwrap();
        assert_eq!(file.measure.unwrap().rates, ["0.6667Mpps", "2.000Mpps"]);
    }

    #[test]
    fn derived_rates_without_a_valid_source_are_rejected() {
        for (from, to, word) in [
            ("part = \"p\"", "part = \"r\"", "no part \"r\""),
            ("arrived_mpps", "arrived_gbps", "Mpps"),
            ("2Mpps", "3Mpps", "no point"),
            ("[0.5, 1.5]", "[]", "times"),
            ("times", "tmies", "tmies"),
        ] {
            let text = format!("{TEXT}{}", FOLLOWING.replace(from, to));
            let problem = Figure::read("f", &text).unwrap_err().to_string();
            assert!(problem.contains(word), "{problem}");
        }
    }

    #[test]
    fn an_invalid_claim_or_part_is_rejected_when_the_figure_is_read() {
        let claim = "[[claim]]\nsays = \"more\"\npart = \"q\"\nconfirmed = [1, 2]\n";
        let problem = Figure::read("f", &format!("{TEXT}{claim}")).unwrap_err().to_string();
        assert!(problem.contains("f: \"more\": there is no part \"q\""), "{problem}");
        let problem = Figure::read("f", &TEXT.replace("testpmd", "testpdm")).unwrap_err().to_string();
        assert!(problem.contains("testpdm"), "{problem}");
    }
}
