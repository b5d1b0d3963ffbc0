//! Presets and overrides: TOML trees merged in order, later values winning, then read as a configuration with
//! errors that name the key.

use doorbell_attach::{PLACEMENTS, placement};
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::config::ConfigError;

/// A configuration under construction.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    tree: Table,
}

impl Overlay {
    /// Starts from the text of a preset or configuration file called `name`.
    pub fn from_toml(name: &str, text: &str) -> Result<Overlay, ConfigError> {
        let tree = text.parse::<Table>().map_err(|e| ConfigError::new(name, e.to_string().trim_end()))?;
        Ok(Overlay { tree })
    }

    /// Starts from a tree.
    pub fn from_table(tree: Table) -> Overlay {
        Overlay { tree }
    }

    /// The tree so far.
    pub fn table(&self) -> &Table {
        &self.tree
    }

    /// The tree.
    pub fn into_table(self) -> Table {
        self.tree
    }

    /// Merges another tree, whose values win.
    pub fn merge(&mut self, other: Table) {
        merge(&mut self.tree, other);
    }

    /// Merges the text of a file into the part at a dotted path.
    pub fn merge_toml_at(&mut self, path: &str, name: &str, text: &str) -> Result<(), ConfigError> {
        let part = Overlay::from_toml(name, text)?.tree;
        let nest = |inner: Table, key: &str| Table::from_iter([(key.to_owned(), Value::Table(inner))]);
        merge(&mut self.tree, path.rsplit('.').fold(part, nest));
        Ok(())
    }

    /// Applies one `path=value` in the form that `--set` takes. The value is read as TOML if it is a number,
    /// a boolean, a list or a quoted string, and otherwise as text, so that units need no quotes.
    pub fn set(&mut self, assignment: &str) -> Result<(), ConfigError> {
        let Some((path, value)) = assignment.split_once('=') else {
            return Err(ConfigError::new(
                assignment,
                "is not of the form path=value, such as nic.rx_fifo=48KiB",
            ));
        };
        let (path, value) = (path.trim(), value.trim());
        let parsed = format!("v = {value}").parse::<Table>().ok().and_then(|mut table| table.remove("v"));
        self.insert(path, parsed.unwrap_or_else(|| Value::String(value.to_owned())))
    }

    /// Puts a value at a dotted path.
    pub fn insert(&mut self, path: &str, value: Value) -> Result<(), ConfigError> {
        let mut keys: Vec<&str> = path.split('.').collect();
        if keys.iter().any(|key| key.is_empty()) {
            return Err(ConfigError::new(path, "is not a path of names joined by dots, such as nic.rx_fifo"));
        }
        let last = keys.pop().expect("a split has at least one part");
        let value = match value {
            Value::String(word) if last == ATTACH => {
                Value::Table(placement_table(&word).ok_or_else(|| {
                    let names: Vec<_> = PLACEMENTS.iter().map(|placement| placement.name).collect();
                    let example = "attach.kind=bus";
                    ConfigError::new(
                        path,
                        format!(
                            "\"{word}\" is not a placement; use one of {}, or set keys such as {example}",
                            names.join(", ")
                        ),
                    )
                })?)
            }
            value => value,
        };
        let mut table = &mut self.tree;
        for key in keys {
            let entry = table.entry(key).or_insert_with(|| Value::Table(Table::new()));
            if let (ATTACH, Some(place)) = (key, entry.as_str().and_then(placement_table)) {
                *entry = Value::Table(place);
            }
            table = match entry {
                Value::Table(inner) => inner,
                _ => return Err(ConfigError::new(path, format!("\"{key}\" is a value, not a table"))),
            };
        }
        table.insert(last.to_owned(), value);
        Ok(())
    }

    /// Reads the tree as a configuration. An error about an unknown key suggests the nearest valid one.
    /// Missing values come from the default of the whole configuration, which may differ from the part's: the
    /// L2 cache, for example, has another default number of ports than an L1 cache.
    pub fn resolve<T: DeserializeOwned + Serialize + Default>(&self) -> Result<T, ConfigError> {
        let mut whole = Table::try_from(T::default()).expect("a configuration can be written as TOML");
        merge(&mut whole, self.tree.clone());
        read(whole)
    }
}

/// Reads a complete part of a configuration; an error names the key.
pub fn read<T: DeserializeOwned>(whole: Table) -> Result<T, ConfigError> {
    read_with_siblings(whole, &[])
}

/// Reads a configuration whose `siblings` are read separately: a misspelt key may be one of these.
pub fn read_with_siblings<T: DeserializeOwned>(whole: Table, siblings: &[&str]) -> Result<T, ConfigError> {
    serde_path_to_error::deserialize(Value::Table(whole)).map_err(|error| {
        let path = error.path().to_string();
        let mut text = error.into_inner().to_string().trim_end().replace('\n', " ");
        if text.starts_with("invalid type") && text.contains("expected a string") {
            let problem = "a number without a unit; append one, such as 10ns, 48KiB, 3GHz or 10Gbps";
            return ConfigError::new(path, problem);
        }
        if let Some(problem) = integer_problem(&text) {
            return ConfigError::new(path, problem);
        }
        let unknown = unknown_field(&text);
        let is_unknown_key = unknown.is_some();
        let (key, hint) = match unknown {
            Some((field, mut known)) => {
                let parent = path.rsplit_once('.').map(|(parent, _)| format!("{parent}."));
                let at_top = path == "." || path == field;
                if at_top && !siblings.is_empty() {
                    known = siblings.iter().map(|&name| name.to_owned()).chain(known).collect();
                    text = format!("unknown field `{field}`, expected one of `{}`", known.join("`, `"));
                }
                let parent = if at_top { String::new() } else { parent.unwrap_or_default() };
                (format!("{parent}{field}"), nearest(&field, &known).map(str::to_owned))
            }
            None => (path, None),
        };
        let hint = hint.map_or(String::new(), |name| format!("{DID_YOU_MEAN}{name}\"?"));
        ConfigError { is_unknown_key, ..ConfigError::new(key, format!("{text}{hint}")) }
    })
}

/// End of the message about a number that is not an unsigned integer.
pub const INTEGER_PROBLEM: &str = "a whole number from 0 up";

/// Describes a number that is negative, too large or malformed, from serde's "invalid value: integer `-1`,
/// expected u32".
fn integer_problem(text: &str) -> Option<String> {
    const TYPES: [(&str, u64); 4] = [
        ("u8", u8::MAX as u64),
        ("u16", u16::MAX as u64),
        ("u32", u32::MAX as u64),
        ("u64", i64::MAX as u64),
    ];
    let (given, expected) = text.strip_prefix("invalid ")?.split_once(", expected ")?;
    let expected = expected.split_whitespace().next()?;
    let (_, most) = TYPES.iter().find(|(name, _)| *name == expected)?;
    let given = given.split('`').nth(1)?;
    match given.parse::<i64>() {
        Ok(number) if number > 0 => Some(format!("{number} is too large; it takes at most {most}")),
        _ => Some(format!("{given} is not {INTEGER_PROBLEM}")),
    }
}

/// Text before a suggested key.
const DID_YOU_MEAN: &str = "; did you mean \"";

/// Replaces the suggestion in an unknown-key error by `paths`: full paths of keys with a similar name.
pub fn with_suggestions(error: ConfigError, paths: &[String]) -> ConfigError {
    let Some((last, others)) = paths.split_last() else { return error };
    let problem = error.problem.split(DID_YOU_MEAN).next().unwrap_or_default().to_owned();
    let others = if others.is_empty() { String::new() } else { format!("{}\" or \"", others.join("\", \"")) };
    ConfigError { problem: format!("{problem}{DID_YOU_MEAN}{others}{last}\"?"), ..error }
}

/// Similarity of two names, from 0 to 1 for equal ones.
pub fn similarity(one: &str, other: &str) -> f64 {
    strsim::normalized_damerau_levenshtein(one, other)
}

/// The value at a dotted path.
pub fn value_at<'t>(tree: &'t Table, path: &str) -> Option<&'t Value> {
    match path.split_once('.') {
        Some((first, rest)) => value_at(tree.get(first)?.as_table()?, rest),
        None => tree.get(path),
    }
}

/// A value as `--set` takes it: a text without quotes.
pub fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Key whose value may be a placement's name instead of a table.
const ATTACH: &str = "attach";

/// Keys of a placement, by its name.
fn placement_table(word: &str) -> Option<Table> {
    placement(word).map(|placement| placement.toml.parse().expect("a placement's keys are TOML"))
}

/// Merges a tree into another; its values win. A placement's name is expanded to its keys, which replace the
/// earlier ones.
pub(crate) fn merge(into: &mut Table, from: Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(old)), Value::Table(new)) => merge(old, new),
            (None, Value::Table(new)) => {
                let mut table = Table::new();
                merge(&mut table, new);
                into.insert(key, Value::Table(table));
            }
            (_, Value::String(word)) if key == ATTACH => {
                let value = placement_table(&word).map_or(Value::String(word), Value::Table);
                into.insert(key, value);
            }
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

/// Merges one instance's overrides into the common configuration. An error names the key below `path`.
pub fn with_overrides<T: Serialize + DeserializeOwned + Clone>(
    all: &T,
    own: &Table,
    path: &str,
) -> Result<T, ConfigError> {
    if own.is_empty() {
        return Ok(all.clone());
    }
    let mut whole = Table::try_from(all).expect("a configuration can be written as TOML");
    merge(&mut whole, own.clone());
    read(whole).map_err(|error| ConfigError {
        key: format!("{path}.{}", error.key.trim_start_matches('.')),
        ..error
    })
}

/// Number of one of several like parts as a configuration key, such as `[hart.1.core]`. Only one spelling is
/// accepted, so that two tables cannot configure the same part.
macro_rules! part_number {
    ($(#[$doc:meta])* $name:ident, $part:literal, $key:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(pub usize);

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<$name, String> {
                text.parse().ok().filter(|number: &usize| number.to_string() == text).map($name).ok_or_else(|| {
                    format!(
                        concat!(
                            "\"{}\" is not a ", $part, " number; write ", $part, ".0.", $key,
                            " for one ", $part, ", ", $key, " for all"
                        ),
                        text
                    )
                })
            }
        }

        impl From<$name> for String {
            fn from($name(number): $name) -> String {
                number.to_string()
            }
        }
    };
}
pub(crate) use part_number;

/// Parses serde's "unknown field `x`, expected one of `a`, `b`".
fn unknown_field(text: &str) -> Option<(String, Vec<String>)> {
    let rest = text.split_once("unknown field `")?.1;
    let mut names = rest.split('`').step_by(2);
    let field = names.next()?.to_owned();
    let known = rest.split('`').skip(2).step_by(2).map(str::to_owned).collect();
    Some((field, known))
}

/// Minimum Jaro-Winkler similarity of a suggestion. Less similar names merely share letters, such as `share`
/// and `source` (0.73).
const SIMILARITY_MIN: f64 = 0.75;

/// The name most similar to `wanted`, if any is similar enough.
pub fn nearest<'a>(
    wanted: &str,
    known: impl IntoIterator<Item = &'a (impl AsRef<str> + ?Sized + 'a)>,
) -> Option<&'a str> {
    let scored = known.into_iter().map(|name| (strsim::jaro_winkler(wanted, name.as_ref()), name.as_ref()));
    scored
        .filter(|(score, _)| *score > SIMILARITY_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::MachineConfig;

    fn with(assignments: &[&str]) -> Result<MachineConfig, String> {
        let mut overlay = Overlay::default();
        for assignment in assignments {
            overlay.set(assignment).map_err(|e| e.to_string())?;
        }
        overlay.resolve().map_err(|e| e.to_string())
    }

    #[test]
    fn set_accepts_units_numbers_and_booleans_without_quotes() {
        let config =
            with(&["nic.rx_fifo=48KiB", "core.ipc=2", "platform.sstc=false", "link.rate = 10Gbps"]).unwrap();
        assert_eq!(config.nic.rx_fifo.unwrap().0, 48 << 10);
        assert_eq!((config.core.ipc, config.platform.sstc, config.link.rate.0), (2.0, false, 10_000_000_000));
    }

    #[test]
    fn errors_in_a_file_merged_at_a_path_name_the_full_path() {
        let mut overlay = Overlay::default();
        overlay.set("loadgen.traffic.frame_size=128B").unwrap();
        let text = "rate = \"2Mpps\"\n[[streams]]\nrate = \"5Mpps\"";
        overlay.merge_toml_at("loadgen.traffic", "my.toml", text).unwrap();
        let traffic = overlay.resolve::<MachineConfig>().unwrap().loadgen.traffic;
        assert_eq!(
            (traffic.frame_size.0, traffic.rate.to_string(), traffic.streams.len()),
            (128, "2Mpps".into(), 1)
        );
        let mut wrong = overlay.clone();
        wrong.merge_toml_at("loadgen.traffic", "my.toml", "[[streams]]\nrates = \"5Mpps\"").unwrap();
        let error = wrong.resolve::<MachineConfig>().unwrap_err().to_string();
        assert!(
            error.starts_with("loadgen.traffic.streams[0].rates: ") && error.contains("\"rate\"?"),
            "{error}"
        );
        let error = overlay.merge_toml_at("loadgen.traffic", "my.toml", "[[streams").unwrap_err().to_string();
        assert!(error.starts_with("my.toml: "), "{error}");
    }

    #[test]
    fn misspelt_key_error_suggests_the_valid_key() {
        let error = with(&["nic.rx_fifi=48KiB"]).unwrap_err();
        assert!(error.starts_with("nic.rx_fifi: ") && error.contains("did you mean \"rx_fifo\"?"), "{error}");
        let error = with(&["nik.rx_fifo=48KiB"]).unwrap_err();
        assert!(error.starts_with("nik: ") && error.contains("did you mean \"nic\"?"), "{error}");
    }

    #[test]
    fn wrong_unit_error_names_the_key_and_the_units() {
        let error = with(&["link.rate=10Gb"]).unwrap_err();
        assert!(error.starts_with("link.rate: ") && error.contains("Gbps"), "{error}");
        let error = with(&["core.frequency=3"]).unwrap_err();
        assert!(error.starts_with("core.frequency: ") && error.contains("unit"), "{error}");
    }
}
