//! An experiment's file, as TOML.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use doorbell_bench::{NetworkFile, Places, RunError, Traces};
use doorbell_machine::{Base, ConfigError, is_path};
use serde::Deserialize;

use super::plan::ExperimentError;
use crate::cluster::Settings;

/// What stands in the file. Values of parameters are written as `--set` takes them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentFile {
    /// What it is called in reports; the file's own name if there is none.
    pub name: Option<String>,
    /// Which benchmark.
    #[serde(default)]
    pub benchmark: String,
    /// A network's file instead (docs/networks.md), beside this one.
    pub network: Option<String>,
    /// The network, read.
    #[serde(skip)]
    pub topology: Option<NetworkFile>,
    /// A trace's file instead: beside this one, or in the folder `traces` of the cache.
    pub trace: Option<String>,
    /// Traces that are played beside it, on cores of their own.
    #[serde(default)]
    pub neighbours: Vec<String>,
    /// Whether ChampSim's traces among these are of its variant with 96 bytes an instruction.
    #[serde(default)]
    pub cloudsuite: bool,
    /// The traces, opened; a plan can be made without them.
    #[serde(skip)]
    pub opened: Option<Arc<Traces>>,
    /// The machine to start from: a preset, or the path of a machine's file beside this one.
    #[serde(default)]
    pub preset: String,
    /// A machine's file instead, beside this one.
    pub machine: Option<String>,
    /// The machine, read.
    #[serde(skip)]
    pub base: Option<Base>,
    /// Overrides for all points, each a `path=value`.
    #[serde(default)]
    pub set: Vec<String>,
    /// Every combination of these values; the last parameter varies fastest.
    pub grid: Option<Parameters>,
    /// Just these points: each a table of parameters and values.
    pub list: Option<Vec<toml::Table>>,
    /// Points drawn at random.
    pub random: Option<Random>,
    /// Measure at these rates.
    pub measure: Option<Measure>,
    /// Search for a rate instead.
    pub search: Option<SearchSpec>,
    /// How often each point is measured, each time with another seed.
    pub repetitions: Option<u32>,
    /// The seed of the first repetition; the next has the next number.
    pub seed: Option<u64>,
    /// All seeds instead.
    pub seeds: Option<Vec<u64>>,
    /// How a cluster is asked to measure it; no result depends on it.
    #[serde(default)]
    pub cluster: Settings,
    /// What is drawn.
    #[serde(default)]
    pub plot: Vec<PlotSpec>,
}

/// Parameters by path, in the order in which the file has them.
pub type Parameters = toml::Table;

/// Rates to measure at.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Each a rate as `--rate` takes it.
    pub rates: Vec<String>,
    /// With what cycles were for, as `doorbell run --profile` finds it.
    #[serde(default)]
    pub profile: bool,
}

/// What is sought at every point; fields as the options of `doorbell search`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchSpec {
    /// msb, ndr, pdr or a share.
    pub goal: String,
    /// How narrow the interval is to be.
    pub precision: Option<String>,
    /// A bound on round trips.
    pub latency_max: Option<String>,
    /// The lowest rate.
    pub min: Option<String>,
    /// The highest rate.
    pub max: Option<String>,
    /// The least number of frames of a window.
    pub frames: Option<u64>,
}

/// Points at random.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Random {
    /// How many.
    pub points: u32,
    /// From this they are drawn.
    #[serde(default = "one")]
    pub seed: u64,
    /// For each parameter, a list of values or a range.
    pub parameters: BTreeMap<String, Choice>,
}

fn one() -> u64 {
    1
}

/// What a parameter's value is drawn from.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Choice {
    /// One of these.
    Values(Vec<toml::Value>),
    /// A number between two.
    Range(Range),
}

/// A range of numbers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The least.
    pub from: f64,
    /// The greatest.
    pub to: f64,
    /// What is written behind the number.
    #[serde(default)]
    pub unit: String,
    /// Whether equal ratios are equally likely, rather than equal differences.
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
    /// Its title; without one, it is made of the columns' names.
    pub title: Option<String>,
    /// The column along the horizontal axis; a parameter's path will do.
    pub x: String,
    /// The column along the vertical axis.
    pub y: String,
    /// A curve for each value of this column.
    pub series: Option<String>,
    /// Only the points with these values, as claims are about some.
    #[serde(default)]
    pub at: toml::Table,
    /// Whether equal distances are equal ratios.
    #[serde(default)]
    pub log_x: bool,
    /// The same.
    #[serde(default)]
    pub log_y: bool,
    /// Other people's curves beside ours.
    #[serde(default)]
    pub published: Vec<Published>,
}

/// A published curve.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// What it is called in the legend.
    pub name: String,
    /// Where it was published.
    pub source: String,
    /// Its points in the axes' units.
    pub points: Vec<(f64, f64)>,
}

impl ExperimentFile {
    /// Reads a file, and what it names.
    pub fn read(path: &Path, places: &Places) -> Result<ExperimentFile, ExperimentError> {
        let text = doorbell_files::read_text(path).map_err(RunError::io("read", path))?;
        let mut file = ExperimentFile::from_toml(&text)
            .map_err(|error| ExperimentError::File(format!("{}: {error}", path.display())))?;
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        file.name = file.name.or(stem);
        file.base = Some(file.machine_beside(Some(path)).map_err(RunError::from)?);
        if let Some(network) = &file.network {
            file.topology = Some(NetworkFile::read(&path.with_file_name(network))?);
        }
        if let Some(trace) = &file.trace {
            let all = std::iter::once(trace).chain(&file.neighbours);
            let found: Vec<PathBuf> = all.map(|name| found(path, name, places)).collect::<Result<_, _>>()?;
            file.opened = Some(Arc::new(Traces::open(&found, file.cloudsuite)?));
        }
        Ok(file)
    }

    /// The machine that it names, beside the experiment's file if that has one.
    fn machine_beside(&self, file: Option<&Path>) -> Result<Base, ConfigError> {
        let beside = |name: &str| file.map_or_else(|| PathBuf::from(name), |file| file.with_file_name(name));
        match (&self.machine, self.preset.as_str()) {
            (Some(machine), "") => Base::read(&beside(machine)),
            (None, path) if is_path(path) => Base::read(&beside(path)),
            (None, name) if !name.is_empty() => Base::find(name),
            (Some(_), _) => Err(ConfigError::new("machine", "it stands beside preset; give one of the two")),
            (None, _) => Err(ConfigError::new(
                "preset",
                "name the machine: preset = \"server\", or machine = \"FILE\"",
            )),
        }
    }

    /// The machine to start from.
    pub fn base(&self) -> Result<Base, ConfigError> {
        self.base.clone().map_or_else(|| self.machine_beside(None), Ok)
    }

    /// Reads the text of a file.
    pub fn from_toml(text: &str) -> Result<ExperimentFile, String> {
        toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("experiment")
    }
}

/// Where a trace is that an experiment's file names.
fn found(experiment: &Path, name: &str, places: &Places) -> Result<PathBuf, ExperimentError> {
    let candidates = [experiment.with_file_name(name), places.traces().join(name)];
    match candidates.iter().find(|candidate| candidate.exists()) {
        Some(found) => Ok(found.clone()),
        None => Err(ExperimentError::File(format!(
            "{}: there is no trace {name}: neither {} nor {}; `make traces` records those of the studies that come along, `doorbell trace record` any",
            experiment.display(),
            candidates[0].display(),
            candidates[1].display()
        ))),
    }
}
