//! Checks of the house style: lengths of files and functions, and plain words.

mod parameters;
mod words;

use std::path::{Path, PathBuf};

use parameters::{functions, has_tuple_pattern};

/// The aim is 400 lines a file; beyond this a newcomer cannot find things.
const FILE_LINES_MAX: usize = 500;
/// The aim is 70 lines a function.
const FUNCTION_LINES_MAX: usize = 90;
/// Files whose one long function is a table.
const TABLES: &[&str] = &["riscv/src/engine/table.rs"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_test = ["tests", "examples", "acceptance", "acceptance.rs"].contains(&name)
            || name.ends_with("_tests.rs");
        if path.is_dir() && !is_test && name != "target" {
            sources(&path, found);
        } else if name.ends_with(".rs") && !is_test {
            found.push(path);
        }
    }
}

/// A file's lines without its test module.
fn production_lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().take_while(|line| *line != "#[cfg(test)]").map(str::to_owned).collect()
}

fn all_sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for entry in std::fs::read_dir(crates).unwrap() {
        sources(&entry.unwrap().path().join("src"), &mut found);
    }
    sources(&crates.join("../scenarios"), &mut found);
    assert!(found.len() > 80, "only {} source files were found", found.len());
    found
}

#[test]
fn files_are_short_and_begin_by_saying_what_they_are() {
    let mut wrong = Vec::new();
    for path in all_sources() {
        let lines = production_lines(&path);
        if lines.len() > FILE_LINES_MAX {
            wrong.push(format!("{}: {} lines", path.display(), lines.len()));
        }
        if !lines.first().is_some_and(|line| line.starts_with("//!")) {
            wrong.push(format!("{}: does not begin with a //! comment", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn functions_are_short() {
    let mut wrong = Vec::new();
    for path in all_sources() {
        if TABLES.iter().any(|table| path.ends_with(table)) {
            continue;
        }
        let mut begun: Option<(usize, usize, String)> = None;
        for (number, line) in production_lines(&path).iter().enumerate() {
            let indent = line.len() - line.trim_start().len();
            let words = line.trim_start();
            if begun.is_none()
                && (words.starts_with("fn ") || words.contains(" fn "))
                && !words.starts_with("//")
            {
                begun = Some((number, indent, words.to_owned()));
            }
            let Some((first, depth, name)) = &begun else { continue };
            let ended = indent == *depth && (words == "}" || words.ends_with("}") || words.ends_with(';'));
            if ended {
                if number - first > FUNCTION_LINES_MAX {
                    wrong.push(format!("{}:{}: {} lines: {name}", path.display(), first + 1, number - first));
                }
                begun = None;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Folders, relative to `crates`, whose functions have no tuple parameters. The other crates follow.
const WITHOUT_TUPLES: &[&str] = &[
    "attach/src",
    "bench/src",
    "cli/src",
    "core/src",
    "drmemtrace/src",
    "files/src",
    "gdb/src",
    "image/src",
    "loadgen/src",
    "machine/src",
    "memory/src",
    "nic/src",
    "pcie/src",
    "platform/src",
    "qemu-trace/src",
    "report/src",
    "results/src",
    "riscv/src",
    "sim/src",
    "study/src",
    "symbols/src",
    "trace/src",
    "wire/src",
    "../scenarios",
];

/// Functions on hot paths with more values than clippy allows parameters: file and name.
const TUPLES_LEFT: &[(&str, &str)] = &[
    ("machine/src/timed/watch.rs", "block"),
    ("memory/src/core_side.rs", "account"),
    ("riscv/src/engine/recorded.rs", "emit"),
    ("riscv/src/engine/recorded.rs", "emit_in_full"),
    ("riscv/src/engine/recorded.rs", "block_end"),
];

#[test]
fn functions_have_no_tuple_parameters() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut paths = Vec::new();
    WITHOUT_TUPLES.iter().for_each(|folder| sources(&crates.join(folder), &mut paths));
    assert!(paths.len() > 300, "only {} source files were found", paths.len());
    let mut wrong = Vec::new();
    for path in paths {
        let source = production_lines(&path).join("\n");
        for (line, name, parameters) in functions(&source) {
            let is_left = TUPLES_LEFT.iter().any(|(file, left)| path.ends_with(file) && *left == name);
            if !is_left && has_tuple_pattern(parameters) {
                wrong.push(format!("{}:{line}: {name}", path.display()));
            }
        }
    }
    let advice = "a parameter is a tuple: use a parameter for each value, a struct with a name, or a reference to the \
                  struct that has both";
    assert!(wrong.is_empty(), "{advice}\n{}", wrong.join("\n"));
}

/// Texts that enter stored identities, and a user name.
const KEPT: &[&str] = &[" beside {}", "{beside:?}", "-u nobody"];
/// Its name enters the identity of recordings.
const KEPT_NAME: &str = "Beside";

/// Files below `folder` with one of these extensions.
fn files(folder: &Path, extensions: &[&str], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            files(&path, extensions, found);
        } else if path.extension().is_some_and(|own| extensions.iter().any(|extension| own == *extension)) {
            found.push(path);
        }
    }
}

#[test]
fn comments_messages_names_and_pages_have_plain_words() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = Vec::new();
    files(&repository.join("crates"), &["rs"], &mut all);
    files(&repository.join("scenarios"), &["rs", "md", "toml"], &mut all);
    files(&repository.join("docs"), &["md"], &mut all);
    files(&repository.join("guest"), &["md", "toml"], &mut all);
    files(&repository.join("experiments"), &["md", "toml"], &mut all);
    files(&repository.join("examples"), &["md", "toml", "py", "sh"], &mut all);
    files(&repository.join("crates/machine/presets"), &["toml"], &mut all);
    all.retain(|path| !path.starts_with(repository.join("guest/debian")));
    all.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|page| repository.join(page)));
    assert!(all.len() > 900, "only {} files were found", all.len());
    let mut wrong = Vec::new();
    for path in all.iter().filter(|path| !path.ends_with("style/words.rs")) {
        let source = std::fs::read_to_string(path).unwrap();
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let is_rust = extension == "rs";
        let texts = match extension {
            "rs" => words::texts_of_rust(&source),
            "md" => words::texts_of_page(&source),
            _ => words::texts_of_hash_comments(&source),
        };
        for (line, text) in texts.iter().filter(|(_, text)| !KEPT.iter().any(|kept| text.contains(kept))) {
            let hits = words::avoided(text);
            wrong.extend(hits.into_iter().map(|hit| format!("{}:{line}: {hit}", path.display())));
        }
        let names = if is_rust { words::names_of_rust(&source) } else { Vec::new() };
        for (line, name) in names.iter().filter(|(_, name)| words::is_avoided_name(name) && name != KEPT_NAME)
        {
            wrong.push(format!("{}:{line}: {name}: name the thing or the action", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
