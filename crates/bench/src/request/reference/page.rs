//! Renders the parameter reference as the page `docs/parameters.md`.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::parameter::Parameter;
use super::parameters;

const HEAD: &str = "# Parameters

All configuration parameters, generated from the doc comments of the configuration types. `doorbell config reference` prints this page, and
`doorbell config schema` prints a JSON schema for editors. `doorbell config explain PATH` shows one parameter, its value in a machine and
the origin of that value. Paths are those of `--set`; in a file all parts of a path but the last are tables ([machines.md](machines.md)).

Defaults are those of the types; presets override them. `–` means that the key is unset by default; its meaning describes this case. `N` is a
number and `NAME` a name of the user's choice, `[]` an entry of a list (`[[…]]` in a file).
";

/// A table's keys with meanings and defaults. Tables with equal keys are listed once.
type Keys<'a> = Vec<(&'a str, &'a str, Option<&'a str>)>;

/// The page, as Markdown.
pub fn page() -> String {
    let mut out = HEAD.to_owned();
    let mut listed: BTreeMap<Keys<'_>, &str> = BTreeMap::new();
    for table in parameters().iter().filter(|known| known.is_table && !is_repeated(known)) {
        let keys: Vec<&Parameter> =
            parameters().iter().filter(|known| known.table() == table.path && !is_repeated(known)).collect();
        let values: Vec<&Parameter> = keys.into_iter().filter(|known| !known.is_table).collect();
        let level = if table.path.contains('.') { "###" } else { "##" };
        let _ = write!(out, "\n{level} `{}`\n\n{}\n", table.path, meaning_with_words(table));
        let keys =
            values.iter().map(|known| (known.name(), known.meaning.as_str(), known.default.as_deref()));
        let keys: Keys<'_> = keys.collect();
        if values.is_empty() {
            continue;
        }
        if let Some(first) = listed.get(&keys).filter(|_| values.len() > 1) {
            let _ = write!(out, "\nThe keys are those of `{first}`.\n");
            continue;
        }
        listed.insert(keys, &table.path);
        out.push_str("\n| Key | Meaning | Values | Default |\n|---|---|---|---|\n");
        for known in values {
            let default = known.default.as_deref().map_or("–".to_owned(), |default| format!("`{default}`"));
            let _ = writeln!(
                out,
                "| `{}` | {} | {} | {default} |",
                known.name(),
                cell(&meaning_with_words(known)),
                cell(&values_of(known))
            );
        }
    }
    out
}

/// Whether a key repeats a key of the machine for a port, hart or network member. The page omits these; the meaning of their
/// table refers to the machine's keys.
fn is_repeated(known: &Parameter) -> bool {
    let mut parts = known.path.splitn(3, '.');
    let (Some(first), Some(_), Some(rest)) = (parts.next(), parts.next(), parts.next()) else { return false };
    let at = |path: &str| parameters().iter().any(|other| other.path == path);
    match first {
        "port" | "hart" | "node" => at(rest.split('.').next().unwrap_or(rest)),
        "generator" => at(&format!("loadgen.{rest}")),
        "cable" => at(&format!("link.{rest}")),
        _ => false,
    }
}

/// The meaning with the list of words.
fn meaning_with_words(known: &Parameter) -> String {
    let words = known.words.iter().map(|word| match word.meaning.as_str() {
        "" => format!("`{}`", word.name),
        meaning => format!("`{}`: {}", word.name, without_end(meaning)),
    });
    let words = words.collect::<Vec<_>>().join("; ");
    match words.is_empty() {
        true => known.meaning.clone(),
        false => format!("{}\n\n{words}.", known.meaning),
    }
}

fn without_end(text: &str) -> &str {
    text.strip_suffix('.').unwrap_or(text)
}

fn values_of(known: &Parameter) -> String {
    match (known.range_text(), known.words.is_empty()) {
        (Some(range), _) => range,
        (None, true) => known.value.clone(),
        (None, false) => "a word".to_owned(),
    }
}

fn cell(text: &str) -> String {
    text.replace("\n\n", "<br>").replace('\n', " ").replace('|', "\\|")
}
