//! Commands that documents show can be pasted as they stand: they are the command's own words, and the files that they name are there.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;

use crate::Cli;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The command lines in the blocks for a shell, without comments.
fn commands(page: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(page)).expect("the page is there");
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines =
        blocks.flat_map(str::lines).map(|line| line.split(" #").next().unwrap_or_default().trim().to_owned());
    lines.filter(|line| line.contains("doorbell ")).collect()
}

/// A line's words after `doorbell`; quotes go around whole values only.
fn words(line: &str) -> Vec<String> {
    let (_, words) = line.split_once("doorbell ").expect("it is our command");
    words.split_whitespace().map(|word| word.replace('\'', "")).collect()
}

#[test]
fn every_command_of_the_readme_is_one_and_what_it_needs_is_there() {
    let all = commands("README.md");
    assert!(all.len() > 25, "{all:?}");
    for line in &all {
        let words = words(line);
        let asked = Cli::try_parse_from(["doorbell".to_owned()].iter().chain(&words));
        let is_help = matches!(&asked, Err(answer) if !answer.use_stderr());
        assert!(asked.is_ok() || is_help, "{line}: {}", asked.err().expect("an error"));
        let files = words.iter().filter(|word| word.ends_with(".toml") || word.ends_with(".sh"));
        for file in files.filter(|file| !file.starts_with("results/")) {
            assert!(root().join(file).is_file(), "{line}: there is no {file}");
        }
    }
}

#[test]
fn the_examples_are_what_the_pages_explain() {
    for (page, file) in [("docs/traffic.md", "mix.toml"), ("docs/experiments.md", "frequency.toml")] {
        let read = |path: &str| fs::read_to_string(root().join(path)).expect("it is there");
        assert!(read(page).contains(&format!("```toml\n{}```", read(&format!("examples/{file}")))), "{page}");
    }
}
