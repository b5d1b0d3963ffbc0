//! `doorbell config explain`: meaning, range and source of a parameter's value in a machine.

use clap::Args;
use doorbell_bench::{Parameter, RunConfig, explained, parameters};
use doorbell_machine::overlay::{plain_text, value_at};
use doorbell_machine::{Base, PRESETS};
use toml::{Table, Value};

use crate::out::outln;
use crate::run_args::CommonArgs;

#[derive(Args)]
pub struct ExplainArgs {
    /// Parameter or table, such as nic.rx_fifo; without one, lists the tables
    path: Option<String>,
    #[command(flatten)]
    common: CommonArgs,
}

/// Prints the explanation.
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
        print_keys(known, path, &tree);
        return Ok(());
    }
    outln!("");
    print_value(args.common.base()?, &args.common.overrides(&[]), path, known, &tree);
    Ok(())
}

/// Rejects a hart or port that the machine does not have, with the error for setting it.
fn refuse_missing_part(args: &ExplainArgs, path: &str) -> anyhow::Result<()> {
    let mut keys = path.split('.');
    let part = match (keys.next(), keys.next()) {
        (Some("hart"), Some(number)) => format!("hart.{number}.core={{}}"),
        (Some("port"), Some(number)) => format!("port.{number}.nic={{}}"),
        _ => return Ok(()),
    };
    args.common.resolve(&[part]).map(drop)
}

/// Path of the setting for all harts or ports, which applies to one without a setting of its own.
fn for_all(path: &str) -> Option<String> {
    let (_, rest) = path.strip_prefix("hart.").or_else(|| path.strip_prefix("port."))?.split_once('.')?;
    Some(if rest == "memory.llc_ways" { "memory.llc.core_ways".to_owned() } else { rest.to_owned() })
}

/// Effective path and value: of the hart or port itself, or of the setting for all.
fn effective<'t>(tree: &'t Table, path: &str) -> (String, Option<&'t Value>) {
    let own = value_at(tree, path);
    let Some(all) = for_all(path).filter(|_| own.is_none()) else { return (path.to_owned(), own) };
    // An attachment of another kind than the common one does not inherit its keys.
    let kind_is_own = all.strip_prefix("attach.").is_some_and(|key| {
        let own = value_at(tree, &format!("{}kind", path.strip_suffix(key).unwrap_or(path)));
        own.is_some_and(|own| Some(own) != value_at(tree, "attach.kind"))
    });
    if kind_is_own {
        return (path.to_owned(), None);
    }
    let value = value_at(tree, &all);
    (all, value)
}

/// Parses a configuration into a tree.
fn tree(config: &RunConfig) -> Table {
    config.to_toml().parse().expect("a configuration is TOML")
}

/// Prints the keys of a table, with their values.
fn print_keys(table: &Parameter, path: &str, tree: &Table) {
    for known in parameters().iter().filter(|known| known.table() == table.path) {
        let whole = format!("{path}.{}", known.name());
        let value = match effective(tree, &whole).1 {
            Some(Value::Table(_)) | None => String::new(),
            Some(value) => plain_text(value),
        };
        outln!("  {:<28} {:<14} {}", known.name(), value, known.in_short());
    }
}

/// Prints the range, the value and its source.
fn print_value(base: &Base, set: &[String], path: &str, known: &Parameter, tree: &Table) {
    let line = |name: &str, text: &str| outln!("  {name:<8} {text}");
    line("value", &known.value);
    if !known.units.is_empty() {
        line("units", &known.units.join(", "));
    }
    if let Some(range) = known.range_text() {
        line("range", &range);
    }
    line("default", known.default.as_deref().unwrap_or("none; see above"));
    let (effective_path, value) = effective(tree, path);
    let here = value.map_or_else(|| "not set".to_owned(), plain_text);
    let (source, remark) = source(base, set, &effective_path);
    let of_all = if effective_path == path { String::new() } else { format!(" ({effective_path})") };
    line("here", &format!("{here}, from {source}{of_all}"));
    if let Some(remark) = remark {
        line("remark", &remark);
        // The preset's header explains marks such as [G].
        if let Some(head) = head_of(&source).filter(|_| remark.contains('[')) {
            outln!("\n{}", folded(&head, "  "));
        }
    }
}

/// Source of the value at a path, and the comment there.
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

/// The comment at the start of a preset.
fn head_of(source: &str) -> Option<String> {
    let name = source.strip_prefix("preset ")?;
    let text = PRESETS.iter().find(|known| known.name == name)?.toml;
    let lines = text.lines().skip_while(|line| !line.starts_with('#'));
    let head: Vec<&str> = lines.map_while(|line| line.strip_prefix('#')).map(str::trim).collect();
    Some(head.join(" "))
}

/// Wraps text to the terminal's width.
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
