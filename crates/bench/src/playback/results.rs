//! A played trace's files in the result folder.

use serde_json::{Map, json};

use super::run::PlayedRun;
use crate::config::RunConfig;
use crate::error::RunError;
use crate::folder::{ResultFolder, pretty};
use crate::tables;

/// What results call it in place of a benchmark.
pub const TRACE: &str = "trace";

/// Writes configuration and counters, and what else was observed.
pub fn write_played(folder: &ResultFolder, config: &RunConfig, run: &PlayedRun) -> Result<(), RunError> {
    for (name, contents) in &run.observed.files {
        folder.write(name, contents)?;
    }
    let hash = folder.write_config(config)?;
    if !run.summary.memory_over_time.is_empty() {
        folder.write("memory.csv", &tables::memory(&run.summary.memory_over_time))?;
    }
    let counters: Map<_, _> = run
        .counters
        .iter()
        .map(|(name, counter)| {
            (name.clone(), json!({ "value": counter.value, "description": counter.description }))
        })
        .collect();
    folder.write("stats.json", &pretty(&json!({ "config_hash": hash, "counters": counters })))
}
