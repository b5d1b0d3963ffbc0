//! The machine to start from: a preset, or a file of the user's own, which names in `base` what it is laid over, or is whole by itself.
//! A result's `config.toml` is such a file. It is read once, and kept as it was read.
//!
//! What is said of a machine has an order, the last word winning: the defaults of the types; the preset at the bottom; what a benchmark
//! sets, as memory that it needs; the user's file, and before it the files that it is laid over; then traffic files and the command line.
//! So a preset need not know of benchmarks, and no benchmark overrules what the user wrote down.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::config::{ConfigError, MachineConfig};
use crate::overlay::{Overlay, merge};
use crate::playback::Pages;
use crate::presets::{PRESETS, preset};
use crate::toml_comments::comment_on;

/// The key by which a file names what it is laid over.
const BASE: &str = "base";
/// With this a result's `config.toml` begins.
const RESULT_PREFIX: &str = "# config_hash = ";
/// The tables that a machine is made of. A file that names no base has them whole.
const REQUIRED_TABLES: [&str; 3] = ["core", "pipeline", "memory"];
/// More missing keys than so many are not told by name.
const LISTED_MAX: usize = 4;

/// A machine to start from.
#[derive(Clone, Debug)]
pub struct Base {
    name: String,
    preset: Table,
    own: Table,
    pages: Pages,
    is_result: bool,
    /// Each file as it was read, the topmost last.
    files: Vec<MachineText>,
}

/// The text of a preset or of a file.
#[derive(Clone, Debug)]
struct MachineText {
    name: String,
    text: String,
    tree: Table,
}

impl Base {
    /// The file that is meant, where a preset's name looks like a path.
    pub fn path(given: &str) -> Option<&Path> {
        is_path(given).then(|| Path::new(given))
    }

    /// The preset of this name; or, where it looks like a path, the file.
    pub fn find(given: &str) -> Result<Base, ConfigError> {
        if is_path(given) {
            return Base::read(Path::new(given));
        }
        let preset_tree = preset(given).map_err(|error| match Path::new(given).is_file() {
            true => {
                let problem = format!("{}; the file of this name is ./{given}", error.problem);
                ConfigError { problem, ..error }
            }
            false => error,
        })?;
        let known = PRESETS.iter().filter(|known| known.name == given);
        let files = known.map(|known| MachineText {
            name: format!("preset {given}"),
            text: known.toml.to_owned(),
            tree: preset_tree.table().clone(),
        });
        let files = files.collect();
        Ok(Base {
            name: given.to_owned(),
            preset: preset_tree.into_table(),
            own: Table::new(),
            pages: PRESETS
                .iter()
                .find(|known| known.name == given)
                .map_or(Pages::Identity, |known| known.pages),
            is_result: false,
            files,
        })
    }

    /// A file.
    pub fn read(path: &Path) -> Result<Base, ConfigError> {
        Base::read_chain(path, &mut Vec::new())
    }

    /// Nothing but the defaults of the types, for a configuration in which everything is said.
    pub fn defaults_only(name: String) -> Base {
        Base {
            name,
            preset: Table::new(),
            own: Table::new(),
            pages: Pages::Identity,
            is_result: true,
            files: Vec::new(),
        }
    }

    /// Whether a configuration's text is that of a result.
    pub fn is_result_config(text: &str) -> bool {
        text.starts_with(RESULT_PREFIX)
    }

    /// What it is called in results: the preset's name, or the file's path as it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What lies below what a benchmark sets: the preset.
    pub fn preset_overlay(&self) -> Overlay {
        Overlay::from_table(self.preset.clone())
    }

    /// What the user's files say, which lies above it.
    pub fn user_table(&self) -> &Table {
        &self.own
    }

    /// Where a value is said: in which file or preset, and what is remarked on it there.
    pub fn source(&self, path: &str) -> Option<(&str, Option<String>)> {
        let file = self.files.iter().rev().find(|file| sets(&file.tree, path))?;
        Some((&file.name, comment_on(&file.text, path)))
    }

    /// Which page tables traces get there that tell virtual addresses alone.
    pub fn pages(&self) -> Pages {
        self.pages
    }

    /// Whether it is the configuration of a result, in which everything is said and paths are as they were on the command line.
    pub fn is_result(&self) -> bool {
        self.is_result
    }

    /// The file, with what it is laid over. `before` are the files that led to it.
    fn read_chain(path: &Path, before: &mut Vec<PathBuf>) -> Result<Base, ConfigError> {
        let name = path.display().to_string();
        let wrong = |problem: String| ConfigError::new(name.clone(), problem);
        let text = read_text(path)?;
        let place =
            path.canonicalize().map_err(|error| wrong(format!("it cannot be found again: {error}")))?;
        before.push(place.clone());
        if before[..before.len() - 1].contains(&place) {
            let chain: Vec<String> = before.iter().map(|path| path.display().to_string()).collect();
            return Err(wrong(format!("its base leads back to itself: {}", chain.join(" -> "))));
        }
        let is_result = Base::is_result_config(&text);
        let mut own = Overlay::from_toml(&name, &text)?.into_table();
        let base = match own.remove(BASE) {
            None => None,
            Some(Value::String(base)) => Some(base),
            Some(other) => {
                let problem = format!("{other} is no text; name a preset, such as \"server\", or a file");
                return Err(ConfigError::new(format!("{name}: {BASE}"), problem));
            }
        };
        if !is_result {
            resolve_paths(&mut own, path);
        }
        let file = MachineText { name: name.clone(), text, tree: own.clone() };
        let Some(base) = base else {
            check_complete(&own, is_result).map_err(wrong)?;
            let files = vec![file];
            return Ok(Base { name, preset: Table::new(), own, pages: Pages::Identity, is_result, files });
        };
        let below = match is_path(&base) {
            true => Base::read_chain(&path.with_file_name(&base), before),
            false => Base::find(&base),
        };
        // An error of another file names that file already.
        let mut whole = below.map_err(|error| match error.key.as_str() {
            "preset" => ConfigError { key: format!("{name}: {BASE}"), ..error },
            _ => error,
        })?;
        merge(&mut whole.own, own);
        whole.files.push(file);
        Ok(Base { name, is_result: false, ..whole })
    }
}

/// Whether a tree says something at a dotted path, or a word that stands for all that is there.
fn sets(tree: &Table, path: &str) -> bool {
    match path.split_once('.') {
        None => tree.contains_key(path),
        Some((first, rest)) => match tree.get(first) {
            Some(Value::Table(part)) => sets(part, rest),
            other => other.is_some(),
        },
    }
}

fn read_text(path: &Path) -> Result<String, ConfigError> {
    let wrong = |problem: &str| ConfigError::new(path.display().to_string(), problem);
    let kind = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            wrong("there is no such file; `doorbell config presets` lists the machines that come along")
        }
        _ => wrong(&format!("it cannot be read: {error}")),
    })?;
    if kind.is_dir() {
        let within = path.join("config.toml");
        return Err(match within.is_file() {
            true => {
                wrong(&format!("it is a folder; the machine of a result is its file {}", within.display()))
            }
            false => wrong("it is a folder; name a file"),
        });
    }
    let bytes = doorbell_files::read_bounded(path, doorbell_files::TEXT_BYTES_MAX)
        .map_err(|error| wrong(&format!("it cannot be read: {error}")))?;
    String::from_utf8(bytes).map_err(|_| wrong("it is no text; a machine's file is TOML"))
}

/// Whether it names a file and no preset.
pub fn is_path(given: &str) -> bool {
    given.contains('/') || given.ends_with(".toml")
}

/// Makes the paths of files that stand in a machine's file those of files beside it.
fn resolve_paths(tree: &mut Table, file: &Path) {
    let moved = |value: &mut Value| {
        if let Value::String(path) = value {
            *path = file.with_file_name(&*path).display().to_string();
        }
    };
    if let Some(Value::Table(run)) = tree.get_mut("run") {
        run.get_mut("disks").and_then(Value::as_array_mut).into_iter().flatten().for_each(moved);
        // A built-in image has a name and no path.
        run.get_mut("image").filter(|image| image.as_str().is_some_and(is_path)).into_iter().for_each(moved);
    }
    let traces = tree.get_mut("beside").and_then(|beside| beside.get_mut("traces"));
    traces.and_then(Value::as_array_mut).into_iter().flatten().for_each(moved);
    let traffic = tree.get_mut("loadgen").and_then(|loadgen| loadgen.get_mut("traffic"));
    let streams = traffic.and_then(|traffic| traffic.get_mut("streams")).and_then(Value::as_array_mut);
    streams.into_iter().flatten().filter_map(|stream| stream.get_mut("capture")).for_each(moved);
}

/// Whether a file without a base says all that a machine is. A result's was whole when it was written; what has come into being since has
/// its default.
fn check_complete(tree: &Table, is_result: bool) -> Result<(), String> {
    let all = Table::try_from(MachineConfig::default()).expect("a configuration can be written as TOML");
    let mut missing = Vec::new();
    for part in REQUIRED_TABLES {
        match (tree.get(part), &all[part]) {
            (Some(Value::Table(_)), _) if is_result => {}
            (Some(Value::Table(own)), Value::Table(whole)) => missing_keys(own, whole, part, &mut missing),
            _ => missing.push(format!("[{part}]")),
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let rest = missing.len().saturating_sub(LISTED_MAX);
    missing.truncate(LISTED_MAX);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    Err(format!(
        "it is no whole machine: {}{more} are missing. Write what it is laid over in its first line, such as base = \"server\" \
         (`doorbell config presets` lists what there is), or say everything of [core], [pipeline] and [memory], as a result's config.toml does",
        missing.join(", ")
    ))
}

/// The keys of a whole table that another one lacks.
fn missing_keys(own: &Table, whole: &Table, path: &str, missing: &mut Vec<String>) {
    for (key, value) in whole {
        match (own.get(key), value) {
            (Some(Value::Table(own)), Value::Table(whole)) => {
                missing_keys(own, whole, &format!("{path}.{key}"), missing)
            }
            (Some(_), _) => {}
            (None, _) => missing.push(format!("{path}.{key}")),
        }
    }
}
