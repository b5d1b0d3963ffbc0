//! What a script can check of the house style.

use std::path::{Path, PathBuf};

/// The aim is 400 lines a file; beyond this a newcomer no longer knows where to look.
const FILE_LINES_MAX: usize = 500;
/// The aim is 70 lines a function.
const FUNCTION_LINES_MAX: usize = 90;
/// Files whose one long function is a table.
const TABLES: &[&str] = &["riscv/src/engine/table.rs"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_test = name == "tests" || name.ends_with("_tests.rs") || name == "examples";
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
