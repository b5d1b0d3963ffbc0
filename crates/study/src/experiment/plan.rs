//! The points of an experiment: which there are, whether each can be run, and what its identity is.
//!
//! A point's identity is a hash of all that its result depends on: the whole configuration with load and seed, what is
//! measured, the benchmark, the guest and Doorbell's version. So a point that is done stays done when the file that names it is
//! edited around it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use doorbell_bench::{
    Benchmark, DriveConfig, DriveKind, Layers, NETWORK, Nodes, PLAYED, Places, RunConfig, RunError,
    benchmark, driven_guests, guest_identity, resolve_played,
};
use doorbell_loadgen::Rate;
use doorbell_machine::{Base, ConfigError};
use xxhash_rust::xxh3::xxh3_128;

use super::file::{ExperimentFile, SearchSpec};
use super::sample::draw;
use super::value::as_set;
use crate::search::{Goal, Precision, SearchRequest};

/// More points than this are a mistake.
const POINTS_MAX: usize = 100_000;
/// Raised when what a point's folder holds changes its meaning.
const SCHEMA: u32 = 1;

/// What is wrong with an experiment.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// In its file.
    #[error("{0}")]
    File(String),
    /// At a point.
    #[error("point {index} ({parameters}): {error}")]
    Point {
        /// Which one.
        index: usize,
        /// Its parameters.
        parameters: String,
        /// What is wrong.
        error: ConfigError,
    },
    /// While running.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// What is done at a point.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Measure at a rate.
    Measure(Rate),
    /// Search for one.
    Search(SearchRequest),
    /// Play a trace, at the pace that the configuration says.
    Play,
}

/// A point.
#[derive(Clone, Debug)]
pub struct PlannedPoint {
    /// Its number, from 0.
    pub index: usize,
    /// What was varied: paths and values.
    pub parameters: Vec<(String, String)>,
    /// What is done.
    pub work: Work,
    /// Whether it is told what cycles were for.
    pub profile: bool,
    /// Which repetition, from 0.
    pub repetition: usize,
    /// The whole configuration.
    pub config: RunConfig,
}

/// Names a point by all that its result depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity(pub String);

/// An experiment with all its points, every one of which has been checked.
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
    /// Makes all points and checks each.
    pub fn new(mut file: ExperimentFile) -> Result<Plan, ExperimentError> {
        let base = file.base().map_err(RunError::from)?;
        file.base = Some(base.clone());
        let wrong = |problem: &str| ExperimentError::File(format!("{}: {problem}", file.name()));
        let known = match (&file.topology, &file.trace, file.benchmark.as_str()) {
            (Some(_), None, "") => &NETWORK,
            (None, Some(_), "") => &PLAYED,
            (None, None, name) if !name.is_empty() => benchmark(name).map_err(RunError::from)?,
            _ => return Err(wrong("it needs either a benchmark, or the file of a network or of a trace")),
        };
        let works = works(&file)?;
        let seeds = seeds(&file)?;
        let combinations = combinations(&file)?;
        if combinations.len().saturating_mul(works.len()).saturating_mul(seeds.len()) > POINTS_MAX {
            return Err(wrong(&format!("it has more than {POINTS_MAX} points; vary less at once")));
        }
        let profile = file.measure.as_ref().is_some_and(|measure| measure.profile);
        let mut points = Vec::new();
        for parameters in &combinations {
            for work in &works {
                for (repetition, seed) in seeds.iter().enumerate() {
                    let index = points.len();
                    let config = config(&file, (&base, known), parameters, work, *seed).map_err(|error| {
                        let parameters = describe(parameters);
                        ExperimentError::Point { index, parameters, error }
                    })?;
                    let (parameters, work) = (parameters.clone(), work.clone());
                    points.push(PlannedPoint { index, parameters, work, profile, repetition, config });
                }
            }
        }
        let plan = Plan { file, benchmark: known, points };
        plan.check_plots()?;
        Ok(plan)
    }

    /// Each point's identity, which belongs to the guest that it boots: images that are missing are built.
    pub fn identities(
        &self,
        places: &Places,
        say: &mut dyn FnMut(&str),
    ) -> Result<Vec<Identity>, ExperimentError> {
        if let Some(trace) = &self.file.trace {
            let Some(opened) = &self.file.opened else {
                return Err(ExperimentError::File(format!("{}: {trace} was not opened", self.file.name())));
            };
            let of = |point: &PlannedPoint| point.identity(self.benchmark.name, &opened.identity());
            return Ok(self.points.iter().map(of).collect());
        }
        let mut images = BTreeMap::new();
        let mut identities = Vec::with_capacity(self.points.len());
        for point in &self.points {
            if let Nodes::Network = self.benchmark.nodes {
                identities.push(network_identity(point, places, say)?);
                continue;
            }
            let image = match images.entry(&point.config.run.image) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(places.build_image_for(
                    self.benchmark.image,
                    point.config.run.image.as_deref(),
                    say,
                )?),
            };
            let words = format!("{} {}", image.command_line(), (self.benchmark.guest_words)(&point.config));
            let guest = guest_identity(image, &words);
            identities.push(point.identity(self.benchmark.name, &guest));
        }
        Ok(identities)
    }

    /// A plot over a parameter that nobody varies is a slip of the pen.
    fn check_plots(&self) -> Result<(), ExperimentError> {
        let configuration = toml::Table::try_from(RunConfig::default()).expect("a configuration is TOML");
        let is_parameter =
            |column: &str| column.split_once('.').is_some_and(|(room, _)| configuration.contains_key(room));
        let varies =
            |column: &str| self.points.iter().any(|p| p.parameters.iter().any(|(path, _)| path == column));
        for plot in &self.file.plot {
            for (axis, column) in
                [("x", Some(&plot.x)), ("y", Some(&plot.y)), ("series", plot.series.as_ref())]
            {
                if let Some(column) = column.filter(|column| is_parameter(column) && !varies(column)) {
                    let name = self.file.name();
                    let problem = format!(
                        "{name}: plot.{axis} = \"{column}\" is no parameter that this experiment varies"
                    );
                    return Err(ExperimentError::File(problem));
                }
            }
        }
        Ok(())
    }
}

/// The identity of a network's point, which belongs to all guests that it boots.
fn network_identity(
    point: &PlannedPoint,
    places: &Places,
    say: &mut dyn FnMut(&str),
) -> Result<Identity, ExperimentError> {
    let mut guests = String::new();
    for guest in point.config.topology().map_err(RunError::from)?.guests {
        let image = places.build_image_for(&guest.image, guest.instead.as_deref(), say)?;
        let words = format!("{} {}", image.command_line(), guest.words);
        guests += &format!("{} {:?}\n", guest_identity(&image, &words), guest.script);
    }
    Ok(point.identity("network", &guests))
}

impl PlannedPoint {
    fn identity(&self, benchmark: &str, guest: &str) -> Identity {
        let (version, configuration) = (env!("CARGO_PKG_VERSION"), self.config.to_toml());
        let work = format!("{:?}{}", self.work, if self.profile { " with a profile" } else { "" });
        let all = format!("{SCHEMA}\n{version}\n{benchmark}\n{guest}\n{work}\n{configuration}");
        Identity(format!("{:032x}", xxh3_128(all.as_bytes())))
    }

    /// Its parameters, load and repetition in words.
    pub fn describe(&self) -> String {
        let mut words = describe(&self.parameters);
        if let Work::Measure(rate) = &self.work {
            words += &format!("{}rate={rate}", if words.is_empty() { "" } else { " " });
        }
        format!("{words} seed={}", self.config.run.seed)
    }
}

fn describe(parameters: &[(String, String)]) -> String {
    parameters.iter().map(|(path, value)| format!("{path}={value}")).collect::<Vec<_>>().join(" ")
}

fn works(file: &ExperimentFile) -> Result<Vec<Work>, ExperimentError> {
    let wrong = |problem: String| ExperimentError::File(format!("{}: {problem}", file.name()));
    if file.trace.is_some() && (file.measure.is_some() || file.search.is_some()) {
        return Err(wrong(
            "a trace is played: [measure] and [search] have no meaning for it; leave them out, and for several rates \
             write \"playback.rate\" = [\"4Mpps\", \"8Mpps\"] under [grid]"
                .into(),
        ));
    }
    match (&file.measure, &file.search) {
        (Some(measure), None) => {
            if measure.rates.is_empty() {
                return Err(wrong("measure.rates has no rates".into()));
            }
            let rate = |text: &String| text.parse().map_err(|error| wrong(format!("measure.rates: {error}")));
            measure.rates.iter().map(|text| rate(text).map(Work::Measure)).collect()
        }
        (None, Some(search)) => search
            .request()
            .map(|request| vec![Work::Search(request)])
            .map_err(|problem| wrong(format!("search.{problem}"))),
        (None, None) if file.trace.is_some() => Ok(vec![Work::Play]),
        // A network's generators have rates of their own.
        (None, None) if file.network.is_some() => Ok(vec![Work::Measure(Rate::Times(Rate::ONCE))]),
        _ => Err(wrong("it needs either [measure] with rates or [search] with a goal".into())),
    }
}

impl SearchSpec {
    fn request(&self) -> Result<SearchRequest, String> {
        let rate = |key: &str, text: &Option<String>| -> Result<Option<Rate>, String> {
            text.as_ref().map(|text| text.parse().map_err(|error| format!("{key}: {error}"))).transpose()
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

fn seeds(file: &ExperimentFile) -> Result<Vec<u64>, ExperimentError> {
    let wrong = |problem: &str| Err(ExperimentError::File(format!("{}: {problem}", file.name())));
    match (&file.seeds, file.repetitions, file.seed) {
        (Some(seeds), None, None) if !seeds.is_empty() => Ok(seeds.clone()),
        (Some(_), None, None) => wrong("seeds has no seeds"),
        (Some(_), ..) => wrong("seeds already says what repetitions and seed say; write either"),
        (None, Some(0), _) => wrong("repetitions = 0 measures nothing"),
        (None, repetitions, seed) => {
            let first = seed.unwrap_or(1);
            Ok((0..u64::from(repetitions.unwrap_or(1))).map(|n| first.wrapping_add(n)).collect())
        }
    }
}

type Combination = Vec<(String, String)>;

fn combinations(file: &ExperimentFile) -> Result<Vec<Combination>, ExperimentError> {
    let wrong = |problem: String| ExperimentError::File(format!("{}: {problem}", file.name()));
    match (&file.grid, &file.list, &file.random) {
        (None, None, None) => Ok(vec![Vec::new()]),
        (Some(grid), None, None) => {
            let mut all: Vec<Combination> = vec![Vec::new()];
            for (path, values) in grid {
                let Some(values) = values.as_array().filter(|values| !values.is_empty()) else {
                    return Err(wrong(format!(
                        "grid.\"{path}\" needs a list of values, such as \"{path}\" = [\"1MiB\", \"2MiB\"]; a path of \
                         names and dots stands in quotes"
                    )));
                };
                if all.len().saturating_mul(values.len()) > POINTS_MAX {
                    return Err(wrong(format!(
                        "the grid has more than {POINTS_MAX} points; vary less at once"
                    )));
                }
                let values: Vec<String> =
                    values.iter().map(|value| as_set(path, value)).collect::<Result<_, _>>()?;
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
        _ => Err(wrong("only one of [grid], [[list]] and [random] can say what is varied".into())),
    }
}

/// Whether a second node takes the load generator's place.
fn has_two_nodes(benchmark: &Benchmark, config: &RunConfig) -> bool {
    matches!(benchmark.nodes, Nodes::Two { .. } | Nodes::Network)
        || config.options::<DriveConfig>().kind == DriveKind::Node
}

/// A point's configuration, with everything that its result depends on in it.
fn config(
    file: &ExperimentFile,
    (base, known): (&Base, &Benchmark),
    parameters: &Combination,
    work: &Work,
    seed: u64,
) -> Result<RunConfig, ConfigError> {
    let mut overrides: Vec<String> = file.set.clone();
    overrides.extend(parameters.iter().map(|(path, value)| format!("{path}={value}")));
    overrides.push(format!("run.seed={seed}"));
    if file.trace.is_some() {
        // Where the file is not there yet, one hart stands for those that it has.
        let harts = file.opened.as_ref().map_or(1, |traces| traces.harts());
        return resolve_played(base, harts, &overrides);
    }
    if let Some(network) = &file.topology {
        return match work {
            Work::Measure(Rate::Times(Rate::ONCE)) => network.resolve(base, &overrides),
            Work::Measure(rate) => network.resolve_at(base, &overrides, *rate),
            Work::Search(_) | Work::Play => {
                let problem =
                    "a network has no rate to seek; use [measure], or nothing for the generators' own rates";
                Err(ConfigError::new("search", problem))
            }
        };
    }
    if let Work::Measure(rate) = work {
        overrides.push(format!("loadgen.traffic.rate={rate}"));
    }
    let config = Layers { defaults: known.defaults, ..Layers::of(base, &overrides) }.resolve()?;
    if config.options::<DriveConfig>().kind == DriveKind::Node {
        driven_guests(known, &config)?;
    }
    if matches!(work, Work::Search(_)) && (known.silent || has_two_nodes(known, &config)) {
        let problem = "without a load generator there is no rate to seek; use [measure]";
        return Err(ConfigError::new("search", problem));
    }
    if let Work::Search(request) = work {
        request.validate(&config, &[config.loadgen.traffic.frame_size])?;
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use doorbell_bench::DpdkConfig;

    use super::*;

    fn plan(text: &str) -> Result<Plan, String> {
        let head = "name = \"x\"\nbenchmark = \"testpmd\"\npreset = \"fast\"\n";
        let file = ExperimentFile::from_toml(&format!("{head}{text}"))?;
        Plan::new(file).map_err(|error| error.to_string())
    }

    #[test]
    fn a_grid_is_every_combination_and_the_last_parameter_varies_fastest() {
        let plan = plan(
            "repetitions = 2\nseed = 5\n[measure]\nrates = [\"1Mpps\", \"50%\"]\n[grid]\n\
             \"core.ipc\" = [1, 2]\n\"loadgen.traffic.frame_size\" = [\"64B\", \"512B\"]\n",
        )
        .unwrap();
        assert_eq!(plan.points.len(), 2 * 2 * 2 * 2);
        let words: Vec<String> = plan.points.iter().map(PlannedPoint::describe).collect();
        assert_eq!(words[0], "core.ipc=1 loadgen.traffic.frame_size=64B rate=1Mpps seed=5");
        assert_eq!(words[1], "core.ipc=1 loadgen.traffic.frame_size=64B rate=1Mpps seed=6");
        assert_eq!(words[2], "core.ipc=1 loadgen.traffic.frame_size=64B rate=50% seed=5");
        assert_eq!(words[4], "core.ipc=1 loadgen.traffic.frame_size=512B rate=1Mpps seed=5");
        assert_eq!((plan.points[15].config.core.ipc, plan.points[15].config.run.seed), (2.0, 6));
    }

    #[test]
    fn a_list_is_its_points_and_a_sample_is_drawn() {
        let text = "[search]\ngoal = \"ndr\"\n[[list]]\n\"core.ipc\" = 1\n[[list]]\n\"core.ipc\" = 2\n\"dpdk.burst\" = 8\n";
        let points = plan(text).unwrap().points;
        assert_eq!((points.len(), points[1].config.options::<DpdkConfig>().burst), (2, 8));
        assert!(matches!(&points[0].work, Work::Search(request) if request.goal.loss == 0.0));
        let text = "[measure]\nrates = [\"1Mpps\"]\n[random]\npoints = 5\n[random.parameters]\n\"dpdk.burst\" = [8, 16]\n";
        assert_eq!(plan(text).unwrap().points.len(), 5);
    }

    #[test]
    fn a_trace_is_played_at_every_combination_and_what_has_no_meaning_for_it_is_refused() {
        let plan = |text: &str| {
            let text = format!("name = \"x\"\ntrace = \"t.dbt\"\npreset = \"server\"\n{text}");
            Plan::new(ExperimentFile::from_toml(&text)?).map_err(|error| error.to_string())
        };
        let varied =
            plan("[grid]\n\"memory.llc.size\" = [\"2MiB\", \"4MiB\"]\n\"playback.warmup\" = [0, \"10%\"]\n")
                .unwrap();
        let words: Vec<String> = varied.points.iter().map(PlannedPoint::describe).collect();
        assert_eq!((words.len(), words[3].as_str()), (4, "memory.llc.size=4MiB playback.warmup=10% seed=1"));
        assert!(varied.points.iter().all(|point| point.work == Work::Play && point.config.is_played()));
        for (text, part) in [
            ("[measure]\nrates = [\"1Mpps\"]\n", "no meaning for it"),
            ("[search]\ngoal = \"ndr\"\n", "no meaning for it"),
            ("[grid]\n\"dpdk.burst\" = [8]\n", "no meaning for a played trace"),
        ] {
            let error = plan(text).map(|plan| plan.points.len()).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn every_wrong_file_is_answered_with_what_to_write() {
        let measure = "[measure]\nrates = [\"1Mpps\"]\n";
        for (text, part) in [
            ("", "either [measure] with rates or [search]"),
            ("[measure]\nrates = []\n", "no rates"),
            ("[measure]\nrates = [\"5\"]\n", "5Mpps"),
            ("[search]\ngoal = \"mbs\"\n", "search.goal"),
            ("[search]\ngoal = \"msb\"\nmin = \"200Mpps\"\n", "min: "),
            ("trace = \"t.dbt\"\n", "either a benchmark, or the file"),
            ("repetition = 2\n", "unknown field `repetition`"),
            (&format!("repetitions = 0\n{measure}"), "repetitions = 0"),
            (&format!("seeds = [1]\nseed = 2\n{measure}"), "write either"),
            (&format!("{measure}[grid]\nnic = {{ rx_fifo = [\"1KiB\"] }}\n"), "in quotes"),
            (&format!("{measure}[grid]\n\"core.ipc\" = []\n"), "a list of values"),
            (&format!("{measure}[grid]\n\"core.frequenzy\" = [1]\n"), "did you mean \"frequency\""),
            (&format!("{measure}[grid]\n\"dpdk.burst\" = [32, 0]\n"), "point 1 (dpdk.burst=0)"),
            (&format!("{measure}[grid]\n\"core.ipc\" = [1]\n[[list]]\n\"core.ipc\" = 1\n"), "only one of"),
            (
                &format!("{measure}[[plot]]\nx = \"core.ipc\"\ny = \"ipc\"\n"),
                "no parameter that this experiment varies",
            ),
        ] {
            let error = plan(text).map(|plan| plan.points.len()).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
