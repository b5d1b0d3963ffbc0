//! Which key may have been meant by one that there is not. A key that is spelt almost like another one of its table is that one; a name that
//! stands in another table is that table's, as `core.rob` is `pipeline.rob`; and else what is spelt alike in the same
//! part of the configuration, or anywhere if none is named.

use doorbell_machine::ConfigError;
use doorbell_machine::overlay::{WHOLE, likeness, meant};
use toml::{Table, Value};

use super::parameter::Parameter;
use super::{parameter, parameters};

/// More than so many are no help.
const TOLD_MAX: usize = 3;
/// What is so much less like the whole path than the likest one is not meant.
const BEHIND_MAX: f64 = 0.2;
/// Names from which on are spelt almost alike: one letter of five, or two that changed places.
const ALMOST: f64 = 0.75;

/// An error about a configuration, which was read from `tree`: of a key that there is not, with those that may have been meant.
pub(crate) fn instead_of(error: ConfigError, tree: &Table) -> ConfigError {
    if error.problem.ends_with(WHOLE) {
        return with_range(error);
    }
    if !error.is_unknown_key {
        return error;
    }
    let whole = with_first_key(&error.key, tree);
    let paths = meant_by(&error.key, &whole);
    meant(error, &paths)
}

/// An error about a number, with what the key takes.
fn with_range(error: ConfigError) -> ConfigError {
    let range = parameter(&error.key).and_then(Parameter::range_text);
    let range = range.map_or(String::new(), |range| format!("; it takes {range}"));
    ConfigError { problem: format!("{}{range}", error.problem), ..error }
}

/// The same of a path that is asked about: nobody has told yet which keys stand beside it.
pub(super) fn instead_of_path(error: ConfigError) -> ConfigError {
    let (member, inner) = of_member(&error.key);
    let beside = spelt_alike(inner).map(|near| format!("{member}{}", near.path));
    match beside {
        Some(path) => meant(error, &[path]),
        None => instead_of(error, &Table::new()),
    }
}

/// The key of the same table that is spelt almost alike.
fn spelt_alike(path: &str) -> Option<&'static Parameter> {
    let (table, name) = path.rsplit_once('.').unwrap_or(("", path));
    let here = parameters().iter().filter(|known| !known.path.contains(['N', '[']) && known.table() == table);
    let scored = here.map(|near| (likeness(near.name(), name), near)).filter(|(score, _)| *score >= ALMOST);
    scored.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, near)| near)
}

/// A path, and behind it the first key of what stands there: which table was meant follows from its keys.
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

/// The paths of what may have been meant by `key`, whose first key's path is `whole`; none where the nearest one of its own table is told
/// already, or where nothing is like it.
fn meant_by(key: &str, whole: &str) -> Vec<String> {
    let (member, inner) = of_member(key);
    let whole = &whole[member.len()..];
    let known = || parameters().iter().filter(|known| !known.path.contains(['N', '[']));
    // A list's members have a table of their own, whose keys are told already.
    if spelt_alike(inner).is_some() || inner.contains('[') {
        return Vec::new();
    }
    let last = whole.rsplit('.').next().unwrap_or(whole);
    let ends = |known: &&Parameter, part: &str| {
        known.path.strip_suffix(part).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    let mut found: Vec<&Parameter> = known().filter(|known| ends(known, whole)).collect();
    // A table between may be left out.
    if found.is_empty() && whole.contains('.') {
        found = known().filter(|known| has_parts(&known.path, whole)).collect();
    }
    if found.is_empty() {
        found = known().filter(|known| known.name() == last).collect();
    }
    if found.is_empty() {
        // What is neither the same nor in the same part of the configuration is another thing that happens to be called alike.
        let part = |path: &str| path.split_once('.').map(|(part, _)| part.to_owned());
        let near = |known: &&Parameter| part(whole).is_none() || part(whole) == part(&known.path);
        found = known().filter(|known| likeness(known.name(), last) >= ALMOST).filter(near).collect();
    }
    let score = |known: &&Parameter| likeness(&known.path, whole);
    found.sort_by(|a, b| score(b).total_cmp(&score(a)));
    let best = found.first().map_or(0.0, score);
    found.retain(|known| score(known) > best - BEHIND_MAX);
    let paths = found.into_iter().map(|known| format!("{member}{}", known.path));
    paths.filter(|path| parameter(path).is_some()).take(TOLD_MAX).collect()
}

/// Whether a path ends as another one, and has its other parts in their order.
fn has_parts(path: &str, parts: &str) -> bool {
    let (mut own, mut wanted) = (path.rsplit('.'), parts.rsplit('.'));
    own.next() == wanted.next() && wanted.all(|part| own.any(|own| own == part))
}

/// Whose keys they are, such as `hart.1.`, and the rest.
fn of_member(path: &str) -> (&str, &str) {
    let mut parts = path.splitn(3, '.');
    match (parts.next(), parts.next(), parts.next()) {
        (Some("port" | "hart" | "node"), Some(_), Some(rest)) => path.split_at(path.len() - rest.len()),
        _ => ("", path),
    }
}
