//! Pages and tables in pages that are generated from the program's lists are up to date. After a change of
//! these lists, `DOORBELL_GENERATE=1 cargo test -p doorbell generated` writes them again.

use std::fs;
use std::path::PathBuf;

use clap::CommandFactory;
use doorbell_bench::{BENCHMARKS, Benchmark, Nodes, defaults};
use doorbell_image::{BUILTIN, Recipe};
use doorbell_loadgen::Returned;
use doorbell_machine::PRESETS;
use doorbell_study::reproduce::STUDIES;

use crate::Cli;

/// Begins a generated table; its name and [`MARK_END`] follow. The table ends with [`TABLE_END`].
const MARK: &str = "<!-- generated: ";
const MARK_END: &str = " -->\n";
const TABLE_END: &str = "<!-- end -->";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Pages that are generated as a whole.
fn whole_pages() -> [(&'static str, String); 3] {
    [
        ("docs/parameters.md", doorbell_bench::page()),
        ("docs/nic-registers.md", doorbell_nic::e82540::register_reference()),
        ("docs/nic-82576-registers.md", doorbell_nic::e82576::register_reference()),
    ]
}

/// The pages with generated tables, and the way from their folders to the repository's.
const PAGES: &[(&str, &str)] = &[
    ("docs/benchmarks.md", "../"),
    ("docs/commands.md", "../"),
    ("docs/experiments.md", "../"),
    ("docs/machines.md", "../"),
    ("guest/README.md", "../"),
];

/// A link to a file of the repository from a page in a folder; plain text if the file does not exist.
fn link(text: &str, file: &str, up: &str) -> String {
    match root().join(file).exists() {
        true => format!("[`{text}`]({up}{file})"),
        false => format!("`{text}`"),
    }
}

fn table(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let heads = line(heads.iter().map(|&head| head.to_owned()).collect());
    let rule = format!("|{}\n", "---|".repeat(heads.matches('|').count() - 1));
    rows.map(line).fold(heads + &rule, |table, row| table + &row)
}

/// Definition of delivered traffic.
fn delivered(benchmark: &Benchmark) -> &'static str {
    let returned = (benchmark.returned)(&defaults());
    match benchmark.nodes {
        Nodes::Joined { .. } => "payload, transactions",
        _ if benchmark.silent => "–",
        _ if benchmark.counting.is_some() => "frames that the program has processed",
        _ if returned == Returned::Sink => "frames complete in the guest's memory",
        _ if returned == Returned::Any => "answers",
        _ => "frames that come back, byte for byte",
    }
}

fn benchmarks(up: &str) -> String {
    let rows = BENCHMARKS.iter().map(|benchmark| {
        let page = format!("scenarios/{}/README.md", benchmark.name.replace('-', "_"));
        assert!(root().join(&page).is_file(), "{page}");
        let sections: Vec<String> =
            benchmark.options.iter().map(|section| format!("`{}`", section.name)).collect();
        let delivered = delivered(benchmark).to_owned();
        vec![link(benchmark.name, &page, up), benchmark.summary.to_owned(), delivered, sections.join(", ")]
    });
    table(&["Name", "Guest program and load", "Counts as delivered", "Options"], rows)
}

fn commands() -> String {
    let command = Cli::command();
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    let rows = shown.map(|command| {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        vec![format!("`{}`", command.get_name()), about]
    });
    table(&["Command", "Purpose"], rows)
}

fn images(up: &str) -> String {
    let rows = BUILTIN.iter().map(|builtin| {
        let recipe = Recipe::load(builtin.name).expect("a built-in recipe is valid");
        let (about, ram) = (recipe.description().to_owned(), recipe.ram_min().to_string());
        vec![link(builtin.name, builtin.path, up), about, ram]
    });
    table(&["Image", "Contents", "Least RAM"], rows)
}

fn presets(up: &str) -> String {
    let rows = PRESETS.iter().map(|preset| {
        let file = format!("crates/machine/presets/{}.toml", preset.name);
        vec![link(preset.name, &file, up), preset.summary.to_owned()]
    });
    table(&["Preset", "Machine"], rows)
}

fn studies(up: &str) -> String {
    let rows = STUDIES.iter().map(|study| {
        let page = link(study.name, &format!("experiments/{}/README.md", study.name), up);
        let figures: Vec<&str> = study.files.iter().map(|(name, _)| *name).collect();
        vec![page, study.title.to_owned(), figures.join(", ")]
    });
    table(&["Study", "Paper", "Figures"], rows)
}

/// A page with its tables generated again.
fn generated(page: &str, text: &str, up: &str) -> String {
    let mut parts = text.split(MARK);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(MARK_END).unwrap_or_else(|| panic!("{page}: a mark has no end"));
        let (_, rest) =
            rest.split_once(TABLE_END).unwrap_or_else(|| panic!("{page}: {name} has no {TABLE_END}"));
        let table = match name {
            "benchmarks" => benchmarks(up),
            "commands" => commands(),
            "images" => images(up),
            "presets" => presets(up),
            "studies" => studies(up),
            _ => panic!("{page}: there is no table {name}"),
        };
        out += &format!("{MARK}{name}{MARK_END}\n{table}\n{TABLE_END}{rest}");
    }
    out
}

#[test]
fn generated_pages_and_tables_are_up_to_date() {
    let with_tables = PAGES.iter().map(|&(page, up)| {
        let text = fs::read_to_string(root().join(page)).expect("the page can be read");
        assert!(text.contains(MARK), "{page} has no table");
        (page, generated(page, &text, up))
    });
    let mut stale = Vec::new();
    for (page, expected) in whole_pages().into_iter().chain(with_tables) {
        let path = root().join(page);
        if fs::read_to_string(&path).unwrap_or_default() != expected {
            stale.push(page);
            if std::env::var_os("DOORBELL_GENERATE").is_some() {
                fs::write(&path, expected).expect("the page can be written");
            }
        }
    }
    assert!(stale.is_empty(), "stale: {stale:?}; DOORBELL_GENERATE=1 cargo test -p doorbell generated");
}
