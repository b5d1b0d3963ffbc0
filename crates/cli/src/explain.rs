//! `doorbell config explain`: what a parameter means, what it can be, and where its value in a machine comes from.

use clap::Args;
use doorbell_bench::{Parameter, RunConfig, explained, parameters};
use doorbell_machine::{Base, PRESETS};
use toml::{Table, Value};

use crate::out::outln;
use crate::run_args::CommonArgs;

#[derive(Args)]
pub struct ExplainArgs {
    /// Which parameter or table, such as nic.rx_fifo; without one, the tables
    path: Option<String>,
    #[command(flatten)]
    common: CommonArgs,
}

/// Tells what was asked for.
pub fn explain(args: &ExplainArgs) -> anyhow::Result<()> {
    let config = args.common.resolve(&[])?;
    let Some(path) = &args.path else {
        for known in parameters().iter().filter(|known| known.is_table && !known.path.contains('.')) {
            outln!("{:<16} {}", known.path, known.in_short());
        }
        return Ok(());
    };
    let known = explained(path)?;
    refuse_missing_part(args, path)?;
    outln!("{path}");
    for paragraph in known.meaning.split("\n\n") {
        outln!("{}", folded(paragraph, "  "));
    }
    for word in &known.words {
        outln!(
            "{}",
            folded(&format!("{}: {}", word.name, word.meaning), "      ").replacen("      ", "    ", 1)
        );
    }
    let tree = tree(&config);
    if known.is_table {
        outln!("");
        tell_keys(known, path, &tree);
        return Ok(());
    }
    outln!("");
    tell_value(args.common.base()?, &args.common.overrides(&[]), (path, known), &tree);
    Ok(())
}

/// A hart or port that the machine does not have is refused as one that is set.
fn refuse_missing_part(args: &ExplainArgs, path: &str) -> anyhow::Result<()> {
    let mut keys = path.split('.');
    let part = match (keys.next(), keys.next()) {
        (Some("hart"), Some(number)) => format!("hart.{number}.core={{}}"),
        (Some("port"), Some(number)) => format!("port.{number}.nic={{}}"),
        _ => return Ok(()),
    };
    args.common.resolve(&[part]).map(drop)
}

/// Where the same stands for all harts or ports: what is said there holds for one that has nothing of its own.
fn for_all(path: &str) -> Option<String> {
    let (_, rest) = path.strip_prefix("hart.").or_else(|| path.strip_prefix("port."))?.split_once('.')?;
    Some(if rest == "memory.llc_ways" { "memory.llc.core_ways".to_owned() } else { rest.to_owned() })
}

/// The path at which a value is said, and the value: a hart's or port's own one, or that of all.
fn said<'t>(tree: &'t Table, path: &str) -> (String, Option<&'t Value>) {
    let own = at(tree, path);
    let Some(all) = for_all(path).filter(|_| own.is_none()) else { return (path.to_owned(), own) };
    // An attachment of another kind than that of all has nothing from there.
    let kind_is_own = all.strip_prefix("attach.").is_some_and(|key| {
        let own = at(tree, &format!("{}kind", path.strip_suffix(key).unwrap_or(path)));
        own.is_some_and(|own| Some(own) != at(tree, "attach.kind"))
    });
    if kind_is_own {
        return (path.to_owned(), None);
    }
    let value = at(tree, &all);
    (all, value)
}

/// A configuration as a tree.
fn tree(config: &RunConfig) -> Table {
    config.to_toml().parse().expect("a configuration is TOML")
}

/// The keys of a table, with their values.
fn tell_keys(table: &Parameter, path: &str, tree: &Table) {
    for known in parameters().iter().filter(|known| known.table() == table.path) {
        let whole = format!("{path}.{}", known.name());
        let value = match said(tree, &whole).1 {
            Some(Value::Table(_)) | None => String::new(),
            Some(value) => plain(value),
        };
        outln!("  {:<28} {:<14} {}", known.name(), value, known.in_short());
    }
}

/// What a value can be, what it is, and where it comes from.
fn tell_value(base: &Base, set: &[String], (path, known): (&str, &Parameter), tree: &Table) {
    let line = |name: &str, text: &str| outln!("  {name:<8} {text}");
    line("value", &known.value);
    if !known.units.is_empty() {
        line("units", &known.units.join(", "));
    }
    if let Some(range) = known.range_text() {
        line("range", &range);
    }
    line("default", known.default.as_deref().unwrap_or("none; see above"));
    let (said_at, value) = said(tree, path);
    let here = value.map_or_else(|| "not given".to_owned(), plain);
    let (source, remark) = source(base, set, &said_at);
    let of_all = if said_at == path { String::new() } else { format!(" ({said_at})") };
    line("here", &format!("{here}, from {source}{of_all}"));
    if let Some(remark) = remark {
        line("remark", &remark);
        // Marks such as [G] are told at the head of a preset.
        if let Some(head) = head_of(&source).filter(|_| remark.contains('[')) {
            outln!("\n{}", folded(&head, "  "));
        }
    }
}

/// Where the value at a path comes from, and what is remarked on it there.
fn source(base: &Base, set: &[String], path: &str) -> (String, Option<String>) {
    let sets = |assignment: &&String| {
        assignment.split('=').next().is_some_and(|key| {
            let key = key.trim();
            path == key || path.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'))
        })
    };
    if let Some(assignment) = set.iter().rev().find(sets) {
        return (format!("--set {assignment}"), None);
    }
    match base.source(path) {
        Some((name, remark)) => (name.to_owned(), remark),
        None => ("the defaults".to_owned(), None),
    }
}

/// What a preset begins by saying of itself.
fn head_of(source: &str) -> Option<String> {
    let name = source.strip_prefix("preset ")?;
    let text = PRESETS.iter().find(|known| known.name == name)?.toml;
    let lines = text.lines().skip_while(|line| !line.starts_with('#'));
    let head: Vec<&str> = lines.map_while(|line| line.strip_prefix('#')).map(str::trim).collect();
    Some(head.join(" "))
}

/// What stands at a dotted path.
fn at<'t>(tree: &'t Table, path: &str) -> Option<&'t Value> {
    match path.split_once('.') {
        Some((first, rest)) => at(tree.get(first)?.as_table()?, rest),
        None => tree.get(path),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Text in lines of a terminal's width.
fn folded(text: &str, indent: &str) -> String {
    const WIDTH: usize = 96;
    let mut lines = vec![indent.to_owned()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a line");
        if line.trim().is_empty() {
            line.push_str(word);
        } else if line.len() + 1 + word.len() > WIDTH {
            lines.push(format!("{indent}{word}"));
        } else {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.join("\n")
}
