//! Suggestions for unknown configuration keys. In order of preference: a similarly spelt key of the same table; a key of this
//! name in another table (`pipeline.rob` for `core.rob`); a similarly spelt key in the same section, or in any section if
//! the path names none.

use doorbell_machine::ConfigError;
use doorbell_machine::overlay::{INTEGER_PROBLEM, similarity, with_suggestions};
use toml::{Table, Value};

use super::parameter::Parameter;
use super::{parameter, parameters};

/// Maximum number of suggestions.
const SUGGESTIONS_MAX: usize = 3;
/// Candidates whose similarity is this much below the best one are dropped.
const SIMILARITY_GAP_MAX: f64 = 0.2;
/// Minimum similarity of a misspelt name: one wrong letter in five, or two swapped letters.
const SIMILARITY_MIN: f64 = 0.75;

/// Adds suggestions to an error about an unknown key of a configuration that was read from `tree`, or the range to an error
/// about a number.
pub(crate) fn with_hint(error: ConfigError, tree: &Table) -> ConfigError {
    if error.problem.ends_with(INTEGER_PROBLEM) {
        return with_range(error);
    }
    if !error.is_unknown_key {
        return error;
    }
    let whole = with_first_key(&error.key, tree);
    let paths = suggestions(&error.key, &whole);
    with_suggestions(error, &paths)
}

/// Adds the accepted range to an error about a number.
fn with_range(error: ConfigError) -> ConfigError {
    let range = parameter(&error.key).and_then(Parameter::range_text);
    let range = range.map_or(String::new(), |range| format!("; it takes {range}"));
    ConfigError { problem: format!("{}{range}", error.problem), ..error }
}

/// Adds suggestions to an error about an unknown path that comes from no configuration.
pub(super) fn with_path_hint(error: ConfigError) -> ConfigError {
    let (member, inner) = of_member(&error.key);
    let sibling = spelt_alike(inner).map(|near| format!("{member}{}", near.path));
    match sibling {
        Some(path) => with_suggestions(error, &[path]),
        None => with_hint(error, &Table::new()),
    }
}

/// The most similarly spelt key of the same table, if it is similar enough.
fn spelt_alike(path: &str) -> Option<&'static Parameter> {
    let (table, name) = path.rsplit_once('.').unwrap_or(("", path));
    let here = parameters().iter().filter(|known| !known.path.contains(['N', '[']) && known.table() == table);
    let scored =
        here.map(|near| (similarity(near.name(), name), near)).filter(|(score, _)| *score >= SIMILARITY_MIN);
    scored.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, near)| near)
}

/// Extends the path of an unknown table by the table's first key, which shows which table was meant.
fn with_first_key(path: &str, tree: &Table) -> String {
    let mut at = tree;
    for part in path.split('.') {
        match at.get(part) {
            Some(Value::Table(table)) => at = table,
            _ => return path.to_owned(),
        }
    }
    at.keys().next().map_or(path.to_owned(), |key| format!("{path}.{key}"))
}

/// Suggested paths for `key`; `whole` is its path with the first inner key. Empty if nothing is similar, or if the error
/// already suggests a key of the same table.
fn suggestions(key: &str, whole: &str) -> Vec<String> {
    let (member, inner) = of_member(key);
    let whole = &whole[member.len()..];
    let known = || parameters().iter().filter(|known| !known.path.contains(['N', '[']));
    // Entries of a list have their own table, and the error already suggests its keys.
    if spelt_alike(inner).is_some() || inner.contains('[') {
        return Vec::new();
    }
    let last = whole.rsplit('.').next().unwrap_or(whole);
    let ends = |known: &&Parameter, part: &str| {
        known.path.strip_suffix(part).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    let mut found: Vec<&Parameter> = known().filter(|known| ends(known, whole)).collect();
    // An inner table may have been left out of the path.
    if found.is_empty() && whole.contains('.') {
        found = known().filter(|known| has_parts(&known.path, whole)).collect();
    }
    if found.is_empty() {
        found = known().filter(|known| known.name() == last).collect();
    }
    if found.is_empty() {
        // A similar name in another section is probably unrelated.
        let part = |path: &str| path.split_once('.').map(|(part, _)| part.to_owned());
        let near = |known: &&Parameter| part(whole).is_none() || part(whole) == part(&known.path);
        found =
            known().filter(|known| similarity(known.name(), last) >= SIMILARITY_MIN).filter(near).collect();
    }
    let score = |known: &&Parameter| similarity(&known.path, whole);
    found.sort_by(|a, b| score(b).total_cmp(&score(a)));
    let best = found.first().map_or(0.0, score);
    found.retain(|known| score(known) > best - SIMILARITY_GAP_MAX);
    let paths = found.into_iter().map(|known| format!("{member}{}", known.path));
    paths.filter(|path| parameter(path).is_some()).take(SUGGESTIONS_MAX).collect()
}

/// Whether a path ends with the last of `parts` and contains the others in order.
fn has_parts(path: &str, parts: &str) -> bool {
    let (mut own, mut wanted) = (path.rsplit('.'), parts.rsplit('.'));
    own.next() == wanted.next() && wanted.all(|part| own.any(|own| own == part))
}

/// Splits a path into the member's prefix, such as `hart.1.`, and the rest.
fn of_member(path: &str) -> (&str, &str) {
    let mut parts = path.splitn(3, '.');
    match (parts.next(), parts.next(), parts.next()) {
        (Some("port" | "hart" | "node"), Some(_), Some(rest)) => path.split_at(path.len() - rest.len()),
        _ => ("", path),
    }
}
