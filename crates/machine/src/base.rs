//! Base configuration of a machine: a preset or a user's file. A file names the preset or file that it
//! overrides in `base`, or is complete, as a result's `config.toml` is. Each file is read once, and its text
//! is kept.
//!
//! Precedence, lowest first: type defaults; the preset; values that a benchmark sets, such as the memory that
//! it needs; the files named in `base`; the user's file; traffic files and the command line. So a preset need
//! not consider benchmarks, and no benchmark overrides a value that the user wrote.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::config::{ConfigError, MachineConfig};
use crate::overlay::{Overlay, merge};
use crate::playback::Pages;
use crate::presets::{PRESETS, preset};
use crate::toml_comments::comment_on;

/// Key that names the preset or file that a file overrides.
const BASE: &str = "base";
/// First characters of a result's `config.toml`.
const RESULT_PREFIX: &str = "# config_hash = ";
/// Tables that a file without a base must contain completely.
const REQUIRED_TABLES: [&str; 3] = ["core", "pipeline", "memory"];
/// Maximum number of missing keys listed in an error message.
const LISTED_MAX: usize = 4;

/// A base configuration, with the files it came from.
#[derive(Clone, Debug)]
pub struct Base {
    name: String,
    preset: Table,
    /// Values of the user's files.
    user: Table,
    pages: Pages,
    is_result: bool,
    /// The files as read, the one with the highest precedence last.
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
    /// Returns the file's path if `given` looks like a path rather than a preset's name.
    pub fn path(given: &str) -> Option<&Path> {
        is_path(given).then(|| Path::new(given))
    }

    /// Finds the preset called `given`, or reads the file if `given` looks like a path.
    pub fn find(given: &str) -> Result<Base, ConfigError> {
        if is_path(given) {
            return Base::read(Path::new(given));
        }
        let preset_tree = preset(given).map_err(|error| match Path::new(given).is_file() {
            true => {
                let problem = format!("{}; to use the file of this name, write ./{given}", error.problem);
                ConfigError { problem, ..error }
            }
            false => error,
        })?;
        let entry = PRESETS.iter().find(|entry| entry.name == given);
        let files = entry.into_iter().map(|entry| MachineText {
            name: format!("preset {given}"),
            text: entry.toml.to_owned(),
            tree: preset_tree.table().clone(),
        });
        let files = files.collect();
        Ok(Base {
            name: given.to_owned(),
            preset: preset_tree.into_table(),
            user: Table::new(),
            pages: PRESETS
                .iter()
                .find(|entry| entry.name == given)
                .map_or(Pages::Identity, |entry| entry.pages),
            is_result: false,
            files,
        })
    }

    /// Reads a file and the files named in its `base`.
    pub fn read(path: &Path) -> Result<Base, ConfigError> {
        Base::read_chain(path, &mut Vec::new())
    }

    /// Type defaults only, for a configuration that sets every value.
    pub fn defaults_only(name: String) -> Base {
        Base {
            name,
            preset: Table::new(),
            user: Table::new(),
            pages: Pages::Identity,
            is_result: true,
            files: Vec::new(),
        }
    }

    /// Whether a configuration's text is that of a result.
    pub fn is_result_config(text: &str) -> bool {
        text.starts_with(RESULT_PREFIX)
    }

    /// Name in results: the preset's name, or the file's path as given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The preset, which a benchmark's values override.
    pub fn preset_overlay(&self) -> Overlay {
        Overlay::from_table(self.preset.clone())
    }

    /// Values of the user's files, which override a benchmark's values.
    pub fn user_table(&self) -> &Table {
        &self.user
    }

    /// Preset or file that sets a value, and the comment on the value there.
    pub fn source(&self, path: &str) -> Option<(&str, Option<String>)> {
        let file = self.files.iter().rev().find(|file| sets(&file.tree, path))?;
        Some((&file.name, comment_on(&file.text, path)))
    }

    /// Page tables for traces that contain only virtual addresses.
    pub fn pages(&self) -> Pages {
        self.pages
    }

    /// Whether this is a result's configuration: complete, with paths as given on the command line.
    pub fn is_result(&self) -> bool {
        self.is_result
    }

    /// Reads a file and its bases. `before` holds the files that led to it, to detect cycles.
    fn read_chain(path: &Path, before: &mut Vec<PathBuf>) -> Result<Base, ConfigError> {
        let name = path.display().to_string();
        let wrong = |problem: String| ConfigError::new(name.clone(), problem);
        let text = read_text(path)?;
        let place =
            path.canonicalize().map_err(|error| wrong(format!("cannot resolve this path: {error}")))?;
        before.push(place.clone());
        if before[..before.len() - 1].contains(&place) {
            let chain: Vec<String> = before.iter().map(|path| path.display().to_string()).collect();
            return Err(wrong(format!("`base` forms a cycle: {}", chain.join(" -> "))));
        }
        let is_result = Base::is_result_config(&text);
        let mut user = Overlay::from_toml(&name, &text)?.into_table();
        let base = match user.remove(BASE) {
            None => None,
            Some(Value::String(base)) => Some(base),
            Some(other) => {
                let problem =
                    format!("{other} is not a string; name a preset, such as \"server\", or a file");
                return Err(ConfigError::new(format!("{name}: {BASE}"), problem));
            }
        };
        if !is_result {
            resolve_paths(&mut user, path);
        }
        let file = MachineText { name: name.clone(), text, tree: user.clone() };
        let Some(base) = base else {
            check_complete(&user, is_result).map_err(wrong)?;
            let files = vec![file];
            return Ok(Base { name, preset: Table::new(), user, pages: Pages::Identity, is_result, files });
        };
        let below = match is_path(&base) {
            true => Base::read_chain(&path.with_file_name(&base), before),
            false => Base::find(&base),
        };
        // An error about another file already names that file.
        let mut whole = below.map_err(|error| match error.key.as_str() {
            "preset" => ConfigError { key: format!("{name}: {BASE}"), ..error },
            _ => error,
        })?;
        merge(&mut whole.user, user);
        whole.files.push(file);
        Ok(Base { name, is_result: false, ..whole })
    }
}

/// Whether a tree sets the value at a dotted path, directly or by a string in place of a table on the path.
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
            wrong("there is no such file; `doorbell config presets` lists the built-in machines")
        }
        _ => wrong(&format!("it cannot be read: {error}")),
    })?;
    if kind.is_dir() {
        let within = path.join("config.toml");
        return Err(match within.is_file() {
            true => wrong(&format!("it is a folder; name the result's file {}", within.display())),
            false => wrong("it is a folder; name a file"),
        });
    }
    let bytes = doorbell_files::read_bounded(path, doorbell_files::TEXT_BYTES_MAX)
        .map_err(|error| wrong(&format!("it cannot be read: {error}")))?;
    String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8 text; a machine file is TOML"))
}

/// Whether the text names a file rather than a preset.
pub fn is_path(given: &str) -> bool {
    given.contains('/') || given.ends_with(".toml")
}

/// Makes paths in a machine file relative to that file's folder.
fn resolve_paths(tree: &mut Table, file: &Path) {
    let rebase = |value: &mut Value| {
        if let Value::String(path) = value {
            *path = file.with_file_name(&*path).display().to_string();
        }
    };
    if let Some(Value::Table(run)) = tree.get_mut("run") {
        run.get_mut("disks").and_then(Value::as_array_mut).into_iter().flatten().for_each(rebase);
        // A built-in image has a name and no path.
        run.get_mut("image").filter(|image| image.as_str().is_some_and(is_path)).into_iter().for_each(rebase);
    }
    let traces = tree.get_mut("beside").and_then(|beside| beside.get_mut("traces"));
    traces.and_then(Value::as_array_mut).into_iter().flatten().for_each(rebase);
    let traffic = tree.get_mut("loadgen").and_then(|loadgen| loadgen.get_mut("traffic"));
    let streams = traffic.and_then(|traffic| traffic.get_mut("streams")).and_then(Value::as_array_mut);
    streams.into_iter().flatten().filter_map(|stream| stream.get_mut("capture")).for_each(rebase);
}

/// Checks that a file without a base sets every value. A result was complete when written; keys added since
/// then take their defaults.
fn check_complete(tree: &Table, is_result: bool) -> Result<(), String> {
    let all = Table::try_from(MachineConfig::default()).expect("a configuration can be written as TOML");
    let mut missing = Vec::new();
    for part in REQUIRED_TABLES {
        match (tree.get(part), &all[part]) {
            (Some(Value::Table(_)), _) if is_result => {}
            (Some(Value::Table(given)), Value::Table(whole)) => {
                missing_keys(given, whole, part, &mut missing)
            }
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
        "incomplete machine; missing: {}{more}. Name a base in the first line, such as base = \"server\" \
         (`doorbell config presets` lists the presets), or set every key of [core], [pipeline] and [memory], as a result's config.toml does",
        missing.join(", ")
    ))
}

/// Collects the keys of `whole` that `given` lacks.
fn missing_keys(given: &Table, whole: &Table, path: &str, missing: &mut Vec<String>) {
    for (key, value) in whole {
        match (given.get(key), value) {
            (Some(Value::Table(given)), Value::Table(whole)) => {
                missing_keys(given, whole, &format!("{path}.{key}"), missing)
            }
            (Some(_), _) => {}
            (None, _) => missing.push(format!("{path}.{key}")),
        }
    }
}
