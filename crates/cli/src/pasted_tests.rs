//! Checks that commands in the documentation can be pasted: their options exist, and so do the files that
//! they name.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{CommandFactory, Parser};

use crate::trace_record_qemu::QemuArgs;
use crate::{Cli, Command, run_cmd};

/// Maximum number of lines of a short help text, at 100 columns.
const SCREEN_LINES: usize = 53;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The lines of a page that start with the command, joined with continuation lines and without comments.
fn commands(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).expect("the page is there").replace("\\\n", " ");
    let of_line = |line: &str| {
        let line = line.trim().trim_start_matches("$ ");
        // One of the commands is preceded by the creation of a disk on the same line.
        let line = line.rsplit("&& ").next().unwrap_or(line);
        let command = line.trim_start_matches("target/release/").strip_prefix("doorbell ")?;
        Some(command.split(" #").next().unwrap_or_default().trim().to_owned())
    };
    let mut whole: Vec<String> = Vec::new();
    for line in text.lines() {
        match whole.last_mut() {
            Some(command) if command.matches('\'').count() % 2 == 1 => *command += line,
            _ => whole.extend(of_line(line)),
        }
    }
    whole
}

/// Recording under QEMU has its own options, which `doorbell` selects by looking at all words.
#[derive(Parser)]
struct UnderQemu {
    #[command(flatten)]
    _args: QemuArgs,
}

/// Splits a command into words up to a pipe, replacing shell variables by 2.
fn words(command: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    let mut rest = command.chars();
    while let Some(c) = rest.next() {
        match (c, quote) {
            (c, Some(q)) if c == q => quote = None,
            ('\'' | '"', None) => quote = Some(c),
            (' ', None) => words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty())),
            ('|' | '>', None) if word.is_empty() => return Some(words),
            ('$', None) if rest.as_str().starts_with("((") => {
                rest = rest.as_str().split_once("))")?.1.chars();
                word.push('2');
            }
            ('$', None) => {
                let name = rest.as_str();
                rest = name.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').chars();
                word.push('2');
            }
            _ => word.push(c),
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    quote.is_none().then_some(words)
}

/// Describes the problem of a command shown on a page, if any.
fn problem(command: &str) -> Option<String> {
    let Some(mut words) = words(command) else { return Some("a quote is open".to_owned()) };
    for word in &mut words {
        let there = root().join(&*word);
        if word.contains('.') && there.is_file() {
            *word = there.display().to_string();
        }
    }
    if let Some(recording) = words.strip_prefix(&["trace".to_owned(), "record".to_owned()])
        && words.iter().any(|word| word == "--qemu")
    {
        let words = ["doorbell".to_owned()].into_iter().chain(recording.iter().cloned());
        return UnderQemu::try_parse_from(words).err().map(|answer| answer.to_string());
    }
    let parsed = Cli::try_parse_from(["doorbell".to_owned()].iter().chain(&words));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(answer) => return answer.use_stderr().then(|| answer.to_string()),
    };
    // Files created on the page or by the reader do not exist here.
    let needs = ["--machine", "--network", "--script", "--image"];
    let is_file = |pair: &[String]| pair[0] == "--preset" && pair[1].contains(['.', '/']);
    let needs_files =
        words.iter().any(|word| needs.contains(&word.as_str())) || words.windows(2).any(is_file);
    match cli.command {
        Command::Run(args) if !command.contains('$') && !needs_files => {
            run_cmd::resolve(&args).err().map(|error| format!("{error:#}"))
        }
        _ => None,
    }
}

#[test]
fn every_command_on_a_page_is_valid() {
    let mut pages: Vec<PathBuf> =
        ["README.md", "guest/README.md"].iter().map(|page| root().join(page)).collect();
    let docs = fs::read_dir(root().join("docs")).expect("there are pages").flatten();
    let scenarios = fs::read_dir(root().join("scenarios")).expect("there are scenarios").flatten();
    pages.extend(scenarios.map(|entry| entry.path().join("README.md")).filter(|page| page.exists()));
    pages.extend(
        docs.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "md")),
    );
    let (mut count, mut wrong) = (0, String::new());
    for page in pages {
        for command in commands(&page).iter().filter(|command| !command.contains('…')) {
            count += 1;
            if let Some(problem) = problem(command) {
                wrong += &format!("{}: doorbell {command}\n{problem}\n", page.display());
            }
        }
    }
    assert!(wrong.is_empty() && count > 150, "{count} commands\n{wrong}");
}

/// All values of a key at any depth.
fn values_of<'a>(key: &str, of: &'a toml::Value, into: &mut Vec<&'a str>) {
    match of {
        toml::Value::Table(table) => {
            into.extend(table.get(key).and_then(toml::Value::as_str));
            table.values().for_each(|value| values_of(key, value, into));
        }
        toml::Value::Array(values) => values.iter().for_each(|value| values_of(key, value, into)),
        _ => {}
    }
}

#[test]
fn commands_that_explain_claims_are_valid() {
    let (mut count, mut wrong) = (0, String::new());
    let studies = fs::read_dir(root().join("experiments")).expect("there are studies").flatten();
    let files = studies.filter_map(|study| fs::read_dir(study.path()).ok()).flatten().flatten();
    for file in files.map(|file| file.path()).filter(|file| file.extension().is_some_and(|end| end == "toml"))
    {
        let text = fs::read_to_string(&file).expect("the file is there");
        let tree: toml::Value = toml::from_str(&text).expect("it is TOML");
        let mut shown = Vec::new();
        values_of("shown_by", &tree, &mut shown);
        for command in shown.into_iter().filter_map(|command| command.strip_prefix("doorbell ")) {
            count += 1;
            if let Some(problem) = problem(command) {
                wrong += &format!("{}: doorbell {command}\n{problem}\n", file.display());
            }
        }
    }
    assert!(wrong.is_empty() && count > 50, "{count} commands\n{wrong}");
}

#[test]
fn files_named_in_the_readme_exist() {
    for command in commands(&root().join("README.md")) {
        let words = words(&command).expect("its quotes are closed");
        let files = words.iter().filter(|word| word.ends_with(".toml") || word.ends_with(".sh"));
        for file in files.filter(|file| !file.starts_with("results/")) {
            assert!(root().join(file).is_file(), "{command}: there is no {file}");
        }
    }
}

/// Collects the `-h` text of a command and all its subcommands.
fn short_helps(command: clap::Command, words: &str, into: &mut Vec<(String, String)>) {
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        short_helps(below.clone(), &format!("{words} {}", below.get_name()), into);
    }
    into.push((words.to_owned(), command.term_width(100).render_help().to_string()));
}

#[test]
fn short_help_fits_a_screen() {
    let mut whole = Cli::command();
    whole.build();
    let mut all = Vec::new();
    short_helps(whole, "doorbell", &mut all);
    for (words, help) in all {
        let lines = help.lines().count();
        assert!(lines <= SCREEN_LINES, "{words} -h has {lines} lines:\n{help}");
    }
}

#[test]
fn examples_match_the_pages_that_explain_them() {
    for (page, file) in [("docs/traffic.md", "mix.toml"), ("docs/experiments.md", "frequency.toml")] {
        let read = |path: &str| fs::read_to_string(root().join(path)).expect("it is there");
        assert!(read(page).contains(&format!("```toml\n{}```", read(&format!("examples/{file}")))), "{page}");
    }
}
