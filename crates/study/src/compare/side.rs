//! One side of a comparison, read from the folder of a run, a search or a sweep.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use doorbell_bench::{SEAL, read_verified, verify_listed};
use doorbell_files::{Kind, kind, list, read};
use doorbell_machine::SwitchConfig;
use doorbell_results::{ComparedSide, RunSummary, SearchSummary};
use serde_json::Value;

use super::CompareError;
use super::figures::{Figures, of_point, of_search};

/// Configuration keys that may hold the offered load and the frame size of a point.
const OFFERED: [&str; 3] = ["loadgen.traffic.frame_size", "loadgen.traffic.rate", "loadgen.traffic.total"];
const SUMMARY: &str = "summary.json";
const CONFIG: &str = "config.toml";
const TABLE: &str = "table.csv";

/// A result.
#[derive(Clone, Debug, Default)]
pub(super) struct Side {
    pub facts: ComparedSide,
    /// Provenance of the result: name and version of the software, by name.
    pub ran: BTreeMap<String, String>,
    pub points: Vec<Point>,
    pub notes: Vec<String>,
}

/// One point of a result.
#[derive(Clone, Debug, Default)]
pub(super) struct Point {
    /// Complete configuration, and the request parameters from the summary.
    pub config: BTreeMap<String, String>,
    /// Offered-load keys removed from `config`. Network generators without settings of their own inherit
    /// them.
    pub offered: BTreeMap<String, String>,
    pub figures: Figures,
    pub repetitions: usize,
}

impl Side {
    pub fn read(path: &Path) -> Result<Side, CompareError> {
        let there = |name: &str| kind(&path.join(name)).ok().flatten();
        if !path.is_dir() {
            return Err(CompareError::Missing { path: path.to_owned() });
        }
        let mut side = match (there(SUMMARY), there("points")) {
            (Some(Kind::File), _) => Side::of_result(path)?,
            (_, Some(Kind::Folder)) => Side::of_sweep(path)?,
            _ => return Err(CompareError::Foreign { path: path.to_owned(), inside: sweeps_in(path) }),
        };
        side.facts.path = path.display().to_string();
        side.facts.points = side.points.len();
        Ok(side)
    }

    /// Reads a run or a search.
    fn of_result(path: &Path) -> Result<Side, CompareError> {
        let broken = |problem: String| CompareError::Broken { path: path.to_owned(), problem };
        if let Some(above) = is_one_of_several(path) {
            return Err(CompareError::OneOfSeveral { path: path.to_owned(), above });
        }
        verify_listed(path).map_err(broken)?;
        let text = |name: &str| {
            let bytes = read_verified(path, name).map_err(broken)?;
            String::from_utf8(bytes).map_err(|_| broken(format!("{name} is not text")))
        };
        let json = text(SUMMARY)?;
        let in_summary = |error: doorbell_results::SummaryError| broken(format!("{SUMMARY}: {error}"));
        let is_search = SearchSummary::is_in(&json);
        let incomplete = match is_search {
            true => SearchSummary::from_json(&json).map_err(in_summary)?.incomplete,
            false => RunSummary::from_json(&json).map_err(in_summary)?.incomplete,
        };
        let value: Value =
            serde_json::from_str(&json).map_err(|error| broken(format!("{SUMMARY}: {error}")))?;
        let word = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let parts = value.get(if is_search { "searches" } else { "points" }).and_then(Value::as_array);
        let parts = parts.cloned().unwrap_or_default();
        let several = path.join("point-00").is_dir();
        let mut points = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let name = if several { format!("point-{index:02}/{CONFIG}") } else { CONFIG.to_owned() };
            let mut config =
                configuration(&text(&name)?).map_err(|error| broken(format!("{name}: {error}")))?;
            let offered = move_request_keys(&value, part, &mut config);
            let figures = if is_search { of_search(part) } else { of_point(part) };
            points.push(Point { config, offered, figures, repetitions: 1 });
        }
        let mut ran = BTreeMap::new();
        value.get("ran").into_iter().for_each(|all| flat_words("", all, &mut ran));
        let facts = ComparedSide {
            kind: if is_search { "search" } else { "run" }.to_owned(),
            benchmark: word("benchmark"),
            preset: word("preset"),
            doorbell_version: word("doorbell_version"),
            incomplete,
            ..ComparedSide::default()
        };
        Ok(Side { facts, ran, points, notes: Vec::new() })
    }

    /// Reads a sweep, each point of which is a result of its own.
    fn of_sweep(path: &Path) -> Result<Side, CompareError> {
        let folder = path.join("points");
        let broken = |problem: String| CompareError::Broken { path: path.to_owned(), problem };
        let names = list(&folder).map_err(|error| broken(format!("points/ cannot be read: {error}")))?;
        let mut names: Vec<PathBuf> = names.into_iter().map(PathBuf::from).collect();
        names.sort();
        let mut side = Side::default();
        // Editing an experiment leaves points that no longer belong to it. A sweep that was killed has no
        // table yet.
        let table = read(&path.join(TABLE)).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let row = |name: &Path| table.as_ref()?.find(&format!(",{}\r\n", name.display()));
        let (mut names, left): (Vec<_>, Vec<_>) = names
            .iter()
            .filter(|name| !name.to_string_lossy().starts_with('.'))
            .partition(|name| table.is_none() || row(name).is_some());
        // In the order of the experiment; folder names are hashes.
        names.sort_by_key(|name| row(name));
        if !left.is_empty() {
            side.notes.push(format!(
                "left out: {} of the points in {} that its {TABLE} does not list; `doorbell sweep table FILE` lists those that its \
                 experiment has now",
                left.len(),
                folder.display()
            ));
        }
        for name in names {
            match Side::of_result(&folder.join(name)) {
                Ok(point) => side.take(point),
                Err(error) => side.notes.push(format!("left out: {error}")),
            }
        }
        if side.points.is_empty() {
            let problem = side.notes.pop().unwrap_or_else(|| "no point of the sweep is finished".to_owned());
            return Err(broken(problem));
        }
        side.facts.kind = "sweep".to_owned();
        Ok(side)
    }

    /// Adds a point of a sweep.
    fn take(&mut self, point: Side) {
        if self.points.is_empty() {
            (self.facts, self.ran) = (point.facts, point.ran);
        } else if self.ran != point.ran && !self.notes.iter().any(|note| note.starts_with("its points")) {
            self.notes.push("its points did not all run with the same simulator and software".to_owned());
        }
        self.points.extend(point.points);
    }
}

/// The sweeps in a reproduction's folder: one folder per figure, with one folder per experiment.
fn sweeps_in(path: &Path) -> Vec<PathBuf> {
    let folders = |path: &Path| -> Vec<PathBuf> {
        let names = list(path).unwrap_or_default();
        let mut all: Vec<PathBuf> = names.into_iter().map(|name| path.join(name)).collect();
        all.retain(|folder| folder.is_dir());
        all.sort();
        all
    };
    let parts = folders(path).into_iter().flat_map(|part| folders(&part));
    parts.filter(|sweep| sweep.join("points").is_dir()).collect()
}

/// The folder of a run with several loads, if this is one of the loads: a load has no seal file of its own.
fn is_one_of_several(path: &Path) -> Option<PathBuf> {
    let whole = path.canonicalize().ok()?;
    let is_load =
        whole.file_name()?.to_str()?.starts_with("point-") && kind(&path.join(SEAL)).ok()?.is_none();
    // Keeps the path in the form given by the user, if possible.
    let named = path.file_name().and(path.parent()).filter(|above| !above.as_os_str().is_empty());
    let above = named.or(whole.parent())?;
    (is_load && kind(&above.join(SEAL)).ok()?.is_some()).then(|| above.to_owned())
}

impl Point {
    /// Value of a network member's key that its own table does not set: inherited from the common
    /// configuration, or the default.
    pub fn of_member(&self, key: &str) -> Option<String> {
        let (kind, rest) = key.split_once('.')?;
        let (name, rest) = rest.split_once('.')?;
        let member = format!("{kind}.{name}.");
        self.config.keys().find(|own| own.starts_with(&member))?;
        let of_all = |key: &str| self.config.get(key).or_else(|| self.offered.get(key)).cloned();
        match kind {
            "generator" => of_all(&format!("loadgen.{rest}")),
            "node" => of_all(rest),
            "switch" => {
                let default = toml::Table::try_from(SwitchConfig::default()).ok()?;
                let mut keys = BTreeMap::new();
                flat_keys("", &default, &mut keys);
                keys.remove(rest)
            }
            _ => None,
        }
    }
}

/// Copies the request parameters from the summary to the configuration; those of a search are only in the
/// summary. Removes the configuration's offered-load keys, and returns them.
fn move_request_keys(
    summary: &Value,
    part: &Value,
    config: &mut BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut offered = BTreeMap::new();
    let word = |of: &Value, name: &str| match of.get(name)? {
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    };
    let benchmark = word(summary, "benchmark").unwrap_or_default();
    let mut set = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            config.insert(name.to_owned(), value);
        }
    };
    set("goal", word(summary, "goal"));
    set("precision", word(summary, "precision"));
    set("search.min", word(summary, "min"));
    set("search.max", word(summary, "max"));
    set("search.frames", word(summary, "frames"));
    // A played trace has the rate given in its configuration.
    if benchmark != doorbell_bench::TRACE {
        set("rate", word(part, "rate"));
        set("frame_size", word(part, "frame_size").map(|bytes| format!("{bytes}B")));
        offered.extend(OFFERED.iter().filter_map(|key| config.remove_entry(*key)));
    }
    config.insert("benchmark".to_owned(), benchmark);
    offered
}

/// Parses a configuration and returns its keys by path.
fn configuration(text: &str) -> Result<BTreeMap<String, String>, String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
    let mut keys = BTreeMap::new();
    flat_keys("", &table, &mut keys);
    Ok(keys)
}

fn flat_keys(prefix: &str, table: &toml::Table, keys: &mut BTreeMap<String, String>) {
    for (name, value) in table {
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match value {
            toml::Value::Table(inner) => flat_keys(&path, inner, keys),
            toml::Value::String(text) => drop(keys.insert(path, text.clone())),
            other => drop(keys.insert(path, other.to_string())),
        }
    }
}

/// Flattens a JSON value to paths; array elements with a name use it as their key.
fn flat_words(prefix: &str, value: &Value, words: &mut BTreeMap<String, String>) {
    let below = |name: &str| if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| flat_words(&below(name), value, words))
        }
        Value::Array(parts) => {
            for (index, part) in parts.iter().enumerate() {
                let name = part.get("name").and_then(Value::as_str);
                flat_words(&below(name.unwrap_or(&index.to_string())), part, words);
            }
        }
        Value::Null => {}
        Value::String(text) => drop(words.insert(prefix.to_owned(), text.clone())),
        other => drop(words.insert(prefix.to_owned(), other.to_string())),
    }
}
