//! Runs the corpus files of a fuzz target once each, without a fuzzer. `fuzz/coverage` measures this program,
//! and it can be profiled like any other.
//!
//!     cargo run -p doorbell-harness --example replay -- mmio fuzz/seeds/mmio

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use doorbell_harness::targets::TARGETS;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let Some((_, run)) = TARGETS.iter().find(|(target, _)| *target == name) else {
        let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
        eprintln!("usage: replay TARGET FILE-OR-FOLDER...\ntargets: {}", names.join(", "));
        return ExitCode::FAILURE;
    };
    let files: Vec<PathBuf> = arguments.flat_map(|path| files(Path::new(&path))).collect();
    let begin = Instant::now();
    for file in &files {
        let bytes = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        run(&bytes);
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{name}: {} cases in {seconds:.1} s, {:.0} per second",
        files.len(),
        files.len() as f64 / seconds
    );
    ExitCode::SUCCESS
}

/// The file, or the files of a folder in name order.
fn files(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = path.read_dir() else { return vec![path.to_owned()] };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    files
}
