//! The TOML file of an experiment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use doorbell_bench::{CachePaths, NetworkFile, RunError, Traces};
use doorbell_machine::{Base, ConfigError, is_path};
use serde::{Deserialize, Serialize};

use super::plan::ExperimentError;
use crate::cluster::Settings;

/// Contents of the file. Parameter values are written as for `--set`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentFile {
    /// Name in reports; default: the file's name without its extension.
    pub name: Option<String>,
    /// Name of the benchmark.
    #[serde(default)]
    pub benchmark: String,
    /// Path of a network file, used instead of a benchmark (docs/networks.md), relative to this file.
    pub network: Option<String>,
    /// The parsed network.
    #[serde(skip)]
    pub topology: Option<NetworkFile>,
    /// Name of a trace file, used instead of a benchmark: relative to this file, or in the folder `traces` of
    /// the cache.
    pub trace: Option<String>,
    /// Traces played concurrently with it, each on its own cores.
    #[serde(default)]
    pub neighbours: Vec<String>,
    /// Whether ChampSim traces among these use its variant with 96 bytes per instruction.
    #[serde(default)]
    pub cloudsuite: bool,
    /// The opened traces; a plan can be made without them.
    #[serde(skip)]
    pub opened: Option<Arc<Traces>>,
    /// Base machine: a preset, or the path of a machine file relative to this file.
    #[serde(default)]
    pub preset: String,
    /// Path of a machine file, used instead of a preset, relative to this file.
    pub machine: Option<String>,
    /// The parsed machine.
    #[serde(skip)]
    pub base: Option<Base>,
    /// Overrides for all points, each as `path=value`.
    #[serde(default)]
    pub set: Vec<String>,
    /// Every combination of these values; the last parameter varies fastest.
    pub grid: Option<Parameters>,
    /// Exactly these points: each a table of parameters and values.
    pub list: Option<Vec<toml::Table>>,
    /// Randomly drawn points.
    pub random: Option<Random>,
    /// Rates to measure at.
    pub measure: Option<Measure>,
    /// Search for a rate, instead of measuring at given rates.
    pub search: Option<SearchSpec>,
    /// Number of measurements per point, each with a different seed.
    pub repetitions: Option<u32>,
    /// Seed of the first repetition; incremented by one for each further repetition.
    pub seed: Option<u64>,
    /// Explicit list of seeds, instead of `repetitions` and `seed`.
    pub seeds: Option<Vec<u64>>,
    /// Cluster settings; they do not affect results.
    #[serde(default)]
    pub cluster: Settings,
    /// Plots in the report.
    #[serde(default)]
    pub plot: Vec<PlotSpec>,
}

/// Parameters by path, in the order of the file.
pub type Parameters = toml::Table;

/// Rates to measure at.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Rates, each as for `--rate`.
    pub rates: Vec<String>,
    /// Whether to profile CPU cycles, as `doorbell run --profile` does.
    #[serde(default)]
    pub profile: bool,
}

/// Search at every point; fields correspond to the options of `doorbell search`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SearchSpec {
    /// msb, ndr, pdr or a share.
    pub goal: String,
    /// Width of the resulting interval.
    pub precision: Option<String>,
    /// Bound on round trips.
    pub latency_max: Option<String>,
    /// The lowest rate.
    pub min: Option<String>,
    /// The highest rate.
    pub max: Option<String>,
    /// Minimum number of frames per window.
    pub frames: Option<u64>,
}

/// A random sample of points.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Random {
    /// Number of points.
    pub points: u32,
    /// Random seed.
    #[serde(default = "one")]
    pub seed: u64,
    /// A list of values or a range for each parameter.
    pub parameters: BTreeMap<String, Choice>,
}

fn one() -> u64 {
    1
}

/// Values from which a parameter is drawn.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Choice {
    /// One of a list.
    Values(Vec<toml::Value>),
    /// A number in a range.
    Range(Range),
}

/// A range of numbers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// Lower bound.
    pub from: f64,
    /// Upper bound.
    pub to: f64,
    /// Unit appended to the number.
    #[serde(default)]
    pub unit: String,
    /// Whether the distribution is uniform in the logarithm.
    #[serde(default)]
    pub log: bool,
    /// Whether only whole numbers are drawn.
    #[serde(default)]
    pub whole: bool,
}

/// A plot of the table's columns.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlotSpec {
    /// Title; default: made of the column names.
    pub title: Option<String>,
    /// Column of the horizontal axis; a parameter's path is also accepted.
    pub x: String,
    /// Column of the vertical axis.
    pub y: String,
    /// One curve per value of this column.
    pub series: Option<String>,
    /// Restricts the plot to the points with these values.
    #[serde(default)]
    pub at: toml::Table,
    /// Logarithmic horizontal axis.
    #[serde(default)]
    pub log_x: bool,
    /// Logarithmic vertical axis.
    #[serde(default)]
    pub log_y: bool,
    /// Published curves to plot for comparison.
    #[serde(default)]
    pub published: Vec<Published>,
}

/// A published curve.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Name in the legend.
    pub name: String,
    /// Citation.
    pub source: String,
    /// Points, in the units of the axes.
    pub points: Vec<(f64, f64)>,
}

impl ExperimentFile {
    /// Reads an experiment file and the files that it refers to.
    pub fn read(path: &Path, places: &CachePaths) -> Result<ExperimentFile, ExperimentError> {
        let text = doorbell_files::read_text(path).map_err(RunError::io("read", path))?;
        let mut file = ExperimentFile::from_toml(&text)
            .map_err(|error| ExperimentError::File(format!("{}: {error}", path.display())))?;
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        file.name = file.name.or(stem);
        file.base = Some(file.machine_relative_to(Some(path)).map_err(RunError::from)?);
        if let Some(network) = &file.network {
            file.topology = Some(NetworkFile::read(&path.with_file_name(network))?);
        }
        if let Some(trace) = &file.trace {
            let all = std::iter::once(trace).chain(&file.neighbours);
            let found: Vec<PathBuf> =
                all.map(|name| find_trace(path, name, places)).collect::<Result<_, _>>()?;
            file.opened = Some(Arc::new(Traces::open(&found, file.cloudsuite)?));
        }
        Ok(file)
    }

    /// The machine named by the experiment; its path is relative to the experiment's file, if there is one.
    fn machine_relative_to(&self, file: Option<&Path>) -> Result<Base, ConfigError> {
        let beside = |name: &str| file.map_or_else(|| PathBuf::from(name), |file| file.with_file_name(name));
        match (&self.machine, self.preset.as_str()) {
            (Some(machine), "") => Base::read(&beside(machine)),
            (None, path) if is_path(path) => Base::read(&beside(path)),
            (None, name) if !name.is_empty() => Base::find(name),
            (Some(_), _) => {
                Err(ConfigError::new("machine", "machine and preset are both set; set only one of them"))
            }
            (None, _) => Err(ConfigError::new(
                "preset",
                "no machine is given; set preset = \"server\", or machine = \"FILE\"",
            )),
        }
    }

    /// The base machine.
    pub fn base(&self) -> Result<Base, ConfigError> {
        self.base.clone().map_or_else(|| self.machine_relative_to(None), Ok)
    }

    /// Parses the text of a file.
    pub fn from_toml(text: &str) -> Result<ExperimentFile, String> {
        toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())
    }

    /// Name of the experiment.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("experiment")
    }
}

/// Finds the path of a trace named in an experiment file.
fn find_trace(experiment: &Path, name: &str, places: &CachePaths) -> Result<PathBuf, ExperimentError> {
    let candidates = [experiment.with_file_name(name), places.traces().join(name)];
    match candidates.iter().find(|candidate| candidate.exists()) {
        Some(found) => Ok(found.clone()),
        None => Err(ExperimentError::File(format!(
            "{}: there is no trace {name}: neither {} nor {}; `make traces` records those of the built-in studies, `doorbell trace record` records any other",
            experiment.display(),
            candidates[0].display(),
            candidates[1].display()
        ))),
    }
}
