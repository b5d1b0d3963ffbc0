//! A figure's file, as TOML.

use serde::Deserialize;

use super::claim::Claim;
use crate::experiment::{ExperimentFile, Plan};

/// A figure: what it is about, the experiments that measure it, and what the paper says of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Its name on the command line: the file's.
    #[serde(skip)]
    pub name: String,
    /// Its title.
    pub title: String,
    /// What is measured, and how that differs from what the paper did.
    pub about: String,
    /// The preset of all its experiments.
    preset: String,
    /// What is set for all its experiments, before what each sets itself.
    #[serde(default)]
    set: Vec<toml::Value>,
    /// The experiments, as [`ExperimentFile`]s with a name each; what stands in a part's `quick` takes the place of what
    /// stands in the part itself when a coarse version is asked for.
    #[serde(default, rename = "part")]
    parts: Vec<toml::Table>,
    /// What the paper says.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
}

/// An experiment of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct PartFile {
    /// Its name in the figure.
    pub name: String,
    /// The text of its experiment file.
    pub text: String,
}

/// What is wrong with a figure's file.
#[derive(Debug, thiserror::Error)]
#[error("{figure}: {problem}")]
pub struct FigureError {
    /// Which figure.
    pub figure: String,
    /// What is wrong.
    pub problem: String,
}

impl Figure {
    /// Reads a figure's text, and checks that its claims speak of what its experiments measure.
    pub fn read(name: &str, text: &str) -> Result<Figure, FigureError> {
        let fail = |problem: String| FigureError { figure: name.to_owned(), problem };
        let mut figure: Figure =
            toml::from_str(text).map_err(|error| fail(error.to_string().trim_end().to_owned()))?;
        figure.name = name.to_owned();
        for quick in [false, true] {
            let plans = figure.plans(quick)?;
            for claim in &figure.claims {
                // A coarse version need not measure everything.
                claim
                    .check(&plans, quick)
                    .map_err(|problem| fail(format!("\"{}\": {problem}", claim.says)))?;
            }
        }
        Ok(figure)
    }

    /// The figure's experiments, or coarse versions of them.
    pub fn parts(&self, quick: bool) -> Result<Vec<PartFile>, FigureError> {
        let fail = |problem: &str| FigureError { figure: self.name.clone(), problem: problem.to_owned() };
        let part = |table: &toml::Table| {
            let mut table = table.clone();
            let coarse = table.remove("quick");
            if let Some(coarse) = coarse.filter(|_| quick) {
                let coarse = coarse.as_table().ok_or_else(|| fail("part.quick is no table"))?.clone();
                table.extend(coarse);
            }
            let mut set = self.set.clone();
            set.extend(table.get("set").and_then(|set| set.as_array()).cloned().unwrap_or_default());
            table.insert("set".to_owned(), toml::Value::Array(set));
            table.entry("preset").or_insert_with(|| self.preset.clone().into());
            let name = table.get("name").and_then(|name| name.as_str());
            let name = name.ok_or_else(|| fail("a part has no name"))?.to_owned();
            Ok(PartFile { name, text: table.to_string() })
        };
        self.parts.iter().map(part).collect()
    }

    /// The place of a part among the others.
    pub fn order(&self, part: &str) -> usize {
        let named = |table: &toml::Table| table.get("name").and_then(|name| name.as_str()) == Some(part);
        self.parts.iter().position(named).unwrap_or(self.parts.len())
    }

    /// The points of its experiments.
    pub fn plans(&self, quick: bool) -> Result<Vec<Plan>, FigureError> {
        let fail = |problem: String| FigureError { figure: self.name.clone(), problem };
        let plan = |part: PartFile| {
            let file = ExperimentFile::from_toml(&part.text)
                .map_err(|error| fail(format!("part {}: {error}", part.name)))?;
            Plan::new(file).map_err(|error| fail(error.to_string()))
        };
        self.parts(quick)?.into_iter().map(plan).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "title = \"t\"\nabout = \"a\"\npreset = \"fast\"\nset = [\"run.warmup=1ms\"]\n[[part]]\nname = \"p\"\n\
        benchmark = \"testpmd\"\nset = [\"run.duration=1ms\"]\nmeasure.rates = [\"1Mpps\", \"2Mpps\"]\n\
        [part.quick]\nmeasure.rates = [\"2Mpps\"]\n";

    #[test]
    fn a_part_has_the_figures_settings_and_its_own_and_fewer_points_when_coarse() {
        let figure = Figure::read("f", TEXT).unwrap();
        let [full, quick] = [false, true].map(|quick| figure.plans(quick).unwrap().remove(0));
        assert_eq!((full.points.len(), quick.points.len()), (2, 1));
        assert_eq!(full.file.set, ["run.warmup=1ms", "run.duration=1ms"]);
        assert_eq!(full.file.preset, "fast");
    }

    #[test]
    fn a_wrong_claim_or_part_is_refused_when_the_figure_is_read() {
        let claim = "[[claim]]\nsays = \"more\"\npart = \"q\"\nconfirmed = [1, 2]\n";
        let problem = Figure::read("f", &format!("{TEXT}{claim}")).unwrap_err().to_string();
        assert!(problem.contains("f: \"more\": there is no part \"q\""), "{problem}");
        let problem = Figure::read("f", &TEXT.replace("testpmd", "testpdm")).unwrap_err().to_string();
        assert!(problem.contains("testpdm"), "{problem}");
    }
}
