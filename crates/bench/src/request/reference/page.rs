//! The reference of parameters as a page, `docs/parameters.md`.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::parameter::Parameter;
use super::parameters;

const HEAD: &str = "# Parameters

All that a configuration can say, made from the doc comments of the types that it is read into (`doorbell config reference` prints this page, and
`doorbell config schema` the same as a JSON schema for editors). `doorbell config explain PATH` tells one of them, with its value in a machine and
where that comes from. A path is what `--set` takes; in a file the parts before its last one are tables ([machines.md](machines.md)).

Defaults are the types' own, below any preset. `–` is a value that is not given: the meaning says what holds then. `N` is a number and `NAME` a name of
the user's choice, `[]` an entry of a list (`[[…]]` in a file).
";

/// A table's keys, their meanings and defaults: where two tables have the same, they are told once.
type Keys<'a> = Vec<(&'a str, &'a str, Option<&'a str>)>;

/// The page, as Markdown.
pub fn page() -> String {
    let mut out = HEAD.to_owned();
    let mut told: BTreeMap<Keys<'_>, &str> = BTreeMap::new();
    for table in parameters().iter().filter(|known| known.is_table && !is_repeated(known)) {
        let keys: Vec<&Parameter> =
            parameters().iter().filter(|known| known.table() == table.path && !is_repeated(known)).collect();
        let values: Vec<&Parameter> = keys.into_iter().filter(|known| !known.is_table).collect();
        let level = if table.path.contains('.') { "###" } else { "##" };
        let _ = write!(out, "\n{level} `{}`\n\n{}\n", table.path, whole(table));
        let alike =
            values.iter().map(|known| (known.name(), known.meaning.as_str(), known.default.as_deref()));
        let alike: Keys<'_> = alike.collect();
        if values.is_empty() {
            continue;
        }
        if let Some(first) = told.get(&alike).filter(|_| values.len() > 1) {
            let _ = write!(out, "\nIts keys are those of `{first}`.\n");
            continue;
        }
        told.insert(alike, &table.path);
        out.push_str("\n| Key | Meaning | Values | Default |\n|---|---|---|---|\n");
        for known in values {
            let default = known.default.as_deref().map_or("–".to_owned(), |default| format!("`{default}`"));
            let _ = writeln!(
                out,
                "| `{}` | {} | {} | {default} |",
                known.name(),
                cell(&whole(known)),
                cell(&values_of(known))
            );
        }
    }
    out
}

/// Keys that all machines have are not told again for each port, hart or member of a network; the table's meaning says whose they are.
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

/// What it means, with its words.
fn whole(known: &Parameter) -> String {
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
