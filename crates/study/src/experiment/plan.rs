//! The points of an experiment: enumeration, validation and identity.
//!
//! A point's identity is a hash of everything that its result depends on: the complete configuration with
//! load and seed, the kind of measurement, the benchmark, the guest and Doorbell's version. A finished point
//! therefore stays valid when other parts of the experiment file change.

use std::path::{Component, Path};

use doorbell_bench::{
    Benchmark, BenchmarkPlan, CachePaths, DriveConfig, DriveKind, Images, Layers, NETWORK, Nodes, Observe,
    PLAYED, Resolved, RunConfig, RunError, benchmark, driven_guests, resolve_played,
};
use doorbell_loadgen::Rate;
use doorbell_machine::overlay::nearest;
use doorbell_machine::{Base, ConfigError};
use xxhash_rust::xxh3::xxh3_128;

use super::at::values_at;
use super::duplicate_keys::reject_duplicate_keys;
use super::file::{ExperimentFile, SearchSpec};
use super::names;
use super::sample::draw;
use super::value::as_set;
use crate::search::{Goal, Precision, SEARCH_ARRIVALS, SearchRequest};

/// Maximum number of points; more are taken to be a mistake.
const POINTS_MAX: usize = 100_000;
/// Incremented when the contents of a point's folder change their meaning.
const SCHEMA: u32 = 1;

/// An error in an experiment.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// In its file.
    #[error("{0}")]
    File(String),
    /// At one of its points.
    #[error("point {index} ({parameters}): {error}")]
    Point {
        /// Index of the point.
        index: usize,
        /// Its parameters.
        parameters: String,
        /// Description of the error.
        error: ConfigError,
    },
    /// While running.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Kind of work at a point.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Measure at this rate.
    Measure(Rate),
    /// Search for the highest rate.
    Search(SearchRequest),
    /// Play a trace, at the configured rate.
    Play,
}

/// A point to be measured.
#[derive(Clone, Debug)]
pub struct PlannedPoint {
    /// Index, from 0.
    pub index: usize,
    /// Varied parameters: paths and values.
    pub parameters: Vec<(String, String)>,
    /// Kind of work.
    pub work: Work,
    /// Whether CPU cycles are profiled.
    pub profile: bool,
    /// Repetition, from 0.
    pub repetition: usize,
    /// Complete configuration.
    pub config: Resolved,
}

/// Identifies a point by a hash of everything that its result depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity(pub String);

/// An experiment with all its points, each of which has been validated.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The file.
    pub file: ExperimentFile,
    /// The benchmark.
    pub benchmark: &'static Benchmark,
    /// The points.
    pub points: Vec<PlannedPoint>,
}

impl Plan {
    /// Creates and validates all points.
    pub fn new(mut file: ExperimentFile) -> Result<Plan, ExperimentError> {
        let base = file.base().map_err(RunError::from)?;
        file.base = Some(base.clone());
        let wrong = |problem: &str| ExperimentError::File(format!("{}: {problem}", file.name()));
        let benchmark = match (&file.topology, &file.trace, file.benchmark.as_str()) {
            (Some(_), None, "") => &NETWORK,
            (None, Some(_), "") => &PLAYED,
            (None, None, name) if !name.is_empty() => benchmark(name).map_err(RunError::from)?,
            _ => return Err(wrong("set one of benchmark, network and trace")),
        };
        if !is_one_name(file.name()) {
            return Err(wrong(
                "name: it must be a folder name without \"/\"; choose the location with --out",
            ));
        }
        let works = works(&file)?;
        let seeds = seeds(&file)?;
        let combinations = combinations(&file)?;
        reject_duplicate_keys(&file, &combinations)?;
        if combinations.len().saturating_mul(works.len()).saturating_mul(seeds.len()) > POINTS_MAX {
            return Err(wrong(&format!("it has more than {POINTS_MAX} points; reduce the number of values")));
        }
        let mut points = Vec::new();
        for parameters in &combinations {
            for work in &works {
                for (repetition, seed) in seeds.iter().enumerate() {
                    let index = points.len();
                    let of_point =
                        |error| ExperimentError::Point { index, parameters: describe(parameters), error };
                    let config =
                        config(&file, &base, benchmark, parameters, work, *seed).map_err(of_point)?;
                    let profile = check_profile(&file, benchmark, &config).map_err(of_point)?;
                    let (parameters, work) = (parameters.clone(), work.clone());
                    points.push(PlannedPoint { index, parameters, work, profile, repetition, config });
                }
            }
        }
        let plan = Plan { file, benchmark, points };
        plan.check_plots()?;
        Ok(plan)
    }

    /// Order in which points are measured: all points once, then all of them again. Host times to be compared
    /// are then measured close together, and a sweep that is stopped has results for all points.
    pub fn in_rounds(&self) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.points.len()).collect();
        all.sort_by_key(|&index| self.points[index].repetition);
        all
    }

    /// Identities of all points. They depend on the booted guest, so missing images are built.
    pub fn identities(
        &self,
        places: &CachePaths,
        say: &mut dyn FnMut(&str),
    ) -> Result<Vec<Identity>, ExperimentError> {
        if let Some(trace) = &self.file.trace {
            let Some(opened) = &self.file.opened else {
                return Err(ExperimentError::File(format!("{}: {trace} was not opened", self.file.name())));
            };
            let of = |point: &PlannedPoint| point.identity(self.benchmark.name, &opened.identity());
            return Ok(self.points.iter().map(of).collect());
        }
        let (name, mut images) = (self.benchmark.name, Images::new(places));
        let of = |point: &PlannedPoint| {
            let plan = BenchmarkPlan::new(self.benchmark, &point.config, name, 1)?;
            Ok(point.identity(name, &plan.identity(&mut images, say)?))
        };
        self.points.iter().map(of).collect()
    }

    /// Rejects a plot over a parameter that is not varied, or over a figure that no point can have.
    fn check_plots(&self) -> Result<(), ExperimentError> {
        for plot in &self.file.plot {
            for (axis, column) in
                [("x", Some(&plot.x)), ("y", Some(&plot.y)), ("series", plot.series.as_ref())]
            {
                if let Some((column, problem)) =
                    column.and_then(|column| Some((column, self.column_problem(column)?)))
                {
                    let name = self.file.name();
                    let problem = format!("{name}: plot.{axis} = \"{column}\" {problem}");
                    return Err(ExperimentError::File(problem));
                }
            }
            let at = values_at(&plot.at).map_err(ExperimentError::File)?;
            if !self.points.iter().any(|point| point.is_at(&at)) {
                let at: Vec<String> = at.iter().map(|(path, value)| format!("{path}={value}")).collect();
                let problem = format!(
                    "{}: plot.at selects points with {}, and there are none; use values of [grid], [[list]] or rates",
                    self.file.name(),
                    at.join(", ")
                );
                return Err(ExperimentError::File(problem));
            }
        }
        Ok(())
    }

    /// Why no row can have this column, or `None` if a row can.
    pub(crate) fn column_problem(&self, column: &str) -> Option<String> {
        let configuration =
            toml::Table::try_from(doorbell_bench::defaults()).expect("a configuration is TOML");
        let is_parameter = column.split_once('.').is_some_and(|(room, _)| configuration.contains_key(room));
        // A column name may have a unit appended to the parameter's name.
        let holds = |path: &str| {
            column.strip_prefix(path).is_some_and(|unit| unit.is_empty() || unit.starts_with('_'))
        };
        if self.points.iter().any(|point| point.parameters.iter().any(|(path, _)| holds(path))) {
            return None;
        }
        let mut figures = names::of_points(self.points.iter().any(|p| matches!(p.work, Work::Search(_))));
        if self.points.iter().all(|point| !matches!(point.work, Work::Measure(_))) {
            figures.own.retain(|name| name != "rate");
        }
        // A configuration section and a group of figures may share a name, for example `transfer`.
        if figures.have(column) {
            return None;
        }
        if is_parameter {
            return Some("is not a parameter that this experiment varies".into());
        }
        let paths = self.points.iter().flat_map(|point| &point.parameters).map(|(path, _)| path);
        let candidates: Vec<&String> = figures.own.iter().chain(paths).collect();
        let ends = format!(".{column}");
        let mut within: Vec<&str> =
            candidates.iter().map(|name| name.as_str()).filter(|name| name.ends_with(&ends)).collect();
        within.sort_by_key(|name| name.len());
        within.truncate(SUGGESTIONS_MAX);
        let near = match &within[..] {
            [] => nearest(column, candidates).map(|near| format!("; did you mean \"{near}\"?")),
            several => Some(format!("; did you mean \"{}\"?", several.join("\" or \""))),
        };
        let near = near.unwrap_or_default();
        Some(format!("is neither a figure of a point nor a varied parameter{near}"))
    }
}

/// Maximum number of suggested figure names.
const SUGGESTIONS_MAX: usize = 3;

impl PlannedPoint {
    fn identity(&self, benchmark: &str, guest: &str) -> Identity {
        let (version, configuration) = (env!("CARGO_PKG_VERSION"), self.config.to_toml());
        let work = format!("{:?}{}", self.work, if self.profile { " with a profile" } else { "" });
        let all = format!("{SCHEMA}\n{version}\n{benchmark}\n{guest}\n{work}\n{configuration}");
        Identity(format!("{:032x}", xxh3_128(all.as_bytes())))
    }

    /// Its parameters, load and seed as text.
    pub fn describe(&self) -> String {
        let mut words = describe(&self.parameters);
        if let Work::Measure(rate) = &self.work {
            words += &format!("{}rate={rate}", if words.is_empty() { "" } else { " " });
        }
        format!("{words} seed={}", self.config.run.seed)
    }
}

/// Whether points are profiled; an error if the machine or benchmark cannot be profiled.
fn check_profile(
    file: &ExperimentFile,
    benchmark: &'static Benchmark,
    config: &Resolved,
) -> Result<bool, ConfigError> {
    let profile = file.measure.as_ref().is_some_and(|measure| measure.profile);
    if profile {
        let observe = Observe { profile, ..Observe::default() };
        let plan = BenchmarkPlan::new(benchmark, config, benchmark.name, 1);
        let checked = plan.and_then(|plan| plan.check(&observe));
        checked.map_err(|error| ConfigError::new("measure.profile", error.to_string()))?;
    }
    Ok(profile)
}

/// Whether this is a single folder name.
fn is_one_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(only)), None) if only == name)
}

fn describe(parameters: &[(String, String)]) -> String {
    parameters.iter().map(|(path, value)| format!("{path}={value}")).collect::<Vec<_>>().join(" ")
}

fn works(file: &ExperimentFile) -> Result<Vec<Work>, ExperimentError> {
    let wrong = |problem: String| ExperimentError::File(format!("{}: {problem}", file.name()));
    if file.trace.is_some() && (file.measure.is_some() || file.search.is_some()) {
        return Err(wrong(
            "[measure] and [search] do not apply to a trace, which is played; remove them, and for several rates \
             write \"playback.rate\" = [\"4Mpps\", \"8Mpps\"] under [grid]"
                .into(),
        ));
    }
    match (&file.measure, &file.search) {
        (Some(measure), None) => {
            if measure.rates.is_empty() {
                return Err(wrong("measure.rates is empty".into()));
            }
            let rate = |text: &String| text.parse().map_err(|error| wrong(format!("measure.rates: {error}")));
            let rates: Vec<Rate> = measure.rates.iter().map(rate).collect::<Result<_, _>>()?;
            if let Some(rate) = first_repeated(&rates) {
                return Err(wrong(format!("measure.rates has {rate} twice; give each rate once")));
            }
            Ok(rates.into_iter().map(Work::Measure).collect())
        }
        (None, Some(search)) => search
            .request()
            .map(|request| vec![Work::Search(request)])
            .map_err(|problem| wrong(format!("search.{problem}"))),
        (None, None) if file.trace.is_some() => Ok(vec![Work::Play]),
        // A network's generators have their own rates.
        (None, None) if file.network.is_some() => Ok(vec![Work::Measure(Rate::Times(Rate::ONCE))]),
        _ => Err(wrong("it needs either [measure] with rates or [search] with a goal".into())),
    }
}

impl SearchSpec {
    /// Parses the parameters; an error begins with the name of the wrong one.
    pub fn request(&self) -> Result<SearchRequest, String> {
        let rate = |key: &str, text: &Option<String>| -> Result<Option<Rate>, String> {
            let Some(text) = text else { return Ok(None) };
            match text.parse() {
                Ok(Rate::Times(_)) => Err(format!(
                    "{key}: \"{text}\" needs a base rate; give an absolute rate such as \"5Mpps\""
                )),
                rate => rate.map(Some).map_err(|error| format!("{key}: {error}")),
            }
        };
        let bound = self.latency_max.as_ref().map(|text| text.parse());
        let bound = bound.transpose().map_err(|error| format!("latency_max: {error}"))?;
        let goal: Goal = self.goal.parse().map_err(|error| format!("goal: {error}"))?;
        let precision = self.precision.as_deref().unwrap_or("2%");
        let precision: Precision = precision.parse().map_err(|error| format!("precision: {error}"))?;
        Ok(SearchRequest {
            goal: Goal { latency: bound, ..goal },
            precision,
            min: rate("min", &self.min)?,
            max: rate("max", &self.max)?,
            frames: self.frames,
        })
    }
}

/// The first repeated element of a list.
fn first_repeated<T: PartialEq>(list: &[T]) -> Option<&T> {
    list.iter().enumerate().find(|(place, one)| list[..*place].contains(one)).map(|(_, one)| one)
}

fn seeds(file: &ExperimentFile) -> Result<Vec<u64>, ExperimentError> {
    let wrong = |problem: &str| Err(ExperimentError::File(format!("{}: {problem}", file.name())));
    match (&file.seeds, file.repetitions, file.seed) {
        (Some(seeds), None, None) if !seeds.is_empty() => match first_repeated(seeds) {
            Some(seed) => wrong(&format!(
                "seeds has {seed} twice, which gives the same result twice; give each seed once"
            )),
            None => Ok(seeds.clone()),
        },
        (Some(_), None, None) => wrong("seeds is empty"),
        (Some(_), ..) => wrong("seeds replaces repetitions and seed; remove repetitions and seed, or seeds"),
        (None, Some(0), _) => wrong("repetitions = 0 measures nothing; set at least 1"),
        (None, repetitions, seed) => {
            let first = seed.unwrap_or(1);
            Ok((0..u64::from(repetitions.unwrap_or(1))).map(|n| first.wrapping_add(n)).collect())
        }
    }
}

/// The parameters of a point: paths and values.
pub(super) type Combination = Vec<(String, String)>;

fn combinations(file: &ExperimentFile) -> Result<Vec<Combination>, ExperimentError> {
    let wrong = |problem: String| ExperimentError::File(format!("{}: {problem}", file.name()));
    match (&file.grid, &file.list, &file.random) {
        (None, None, None) => Ok(vec![Vec::new()]),
        (Some(grid), None, None) => {
            let mut all: Vec<Combination> = vec![Vec::new()];
            for (path, values) in grid {
                let Some(values) = values.as_array().filter(|values| !values.is_empty()) else {
                    return Err(wrong(format!(
                        "grid.\"{path}\" needs a list of values, such as \"{path}\" = [\"1MiB\", \"2MiB\"]; quote a path that \
                         names and dots stands in quotes"
                    )));
                };
                if all.len().saturating_mul(values.len()) > POINTS_MAX {
                    return Err(wrong(format!(
                        "the grid has more than {POINTS_MAX} points; reduce the number of values"
                    )));
                }
                let values: Vec<String> =
                    values.iter().map(|value| as_set(path, value)).collect::<Result<_, _>>()?;
                if let Some(value) = first_repeated(&values) {
                    return Err(wrong(format!(
                        "grid.\"{path}\" has {value} twice, which gives the same points twice; give each value once"
                    )));
                }
                let longer = |point: &Combination| -> Vec<Combination> {
                    let with = |value: &String| [point.clone(), vec![(path.clone(), value.clone())]].concat();
                    values.iter().map(with).collect()
                };
                all = all.iter().flat_map(longer).collect();
            }
            Ok(all)
        }
        (None, Some(list), None) => {
            let point = |table: &toml::Table| -> Result<Combination, ExperimentError> {
                table.iter().map(|(path, value)| Ok((path.clone(), as_set(path, value)?))).collect()
            };
            list.iter().map(point).collect()
        }
        (None, None, Some(random)) => draw(random),
        _ => Err(wrong("use only one of [grid], [[list]] and [random]".into())),
    }
}

/// Whether a second node replaces the load generator.
fn has_two_nodes(benchmark: &Benchmark, config: &RunConfig) -> bool {
    matches!(benchmark.nodes, Nodes::Joined { .. } | Nodes::Network)
        || config.options::<DriveConfig>().kind == DriveKind::Node
}

/// The configuration of a point, with everything that its result depends on.
fn config(
    file: &ExperimentFile,
    base: &Base,
    benchmark: &Benchmark,
    parameters: &Combination,
    work: &Work,
    seed: u64,
) -> Result<Resolved, ConfigError> {
    let mut overrides: Vec<String> = file.set.clone();
    overrides.extend(parameters.iter().map(|(path, value)| format!("{path}={value}")));
    overrides.push(format!("run.seed={seed}"));
    if file.trace.is_some() {
        // If the file is not open, its number of harts is unknown and one is assumed.
        let shape = file.opened.as_ref().map_or(1.into(), |traces| traces.shape());
        return resolve_played(base, shape, &overrides);
    }
    if let Some(network) = &file.topology {
        return match work {
            Work::Measure(Rate::Times(Rate::ONCE)) => network.resolve(base, &overrides),
            Work::Measure(rate) => network.resolve_at(base, &overrides, *rate),
            Work::Search(_) | Work::Play => {
                let problem = "a network has no single rate to search for; use [measure], or nothing for the generators' own rates";
                Err(ConfigError::new("search", problem))
            }
        };
    }
    benchmark.reject_foreign_settings(&overrides)?;
    if let Work::Measure(rate) = work {
        // A multiple of the streams' own rates is a total, not a rate of a single stream.
        let key = if matches!(rate, Rate::Times(_)) { "total" } else { "rate" };
        overrides.push(format!("loadgen.traffic.{key}={rate}"));
    }
    let mut defaults = benchmark.defaults.to_vec();
    defaults.extend(matches!(work, Work::Search(_)).then_some(SEARCH_ARRIVALS));
    let config = Layers { defaults: &defaults, ..Layers::of(base, &overrides) }.resolve()?;
    (benchmark.check)(&config)?;
    if config.options::<DriveConfig>().kind == DriveKind::Node {
        driven_guests(benchmark, &config)?;
    }
    if matches!(work, Work::Search(_)) && (benchmark.silent || has_two_nodes(benchmark, &config)) {
        let problem = "a search needs a load generator; use [measure]";
        return Err(ConfigError::new("search", problem));
    }
    if let Work::Search(request) = work {
        request.validate(&config, &[config.loadgen.traffic.frame_size])?;
    }
    Ok(config)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
