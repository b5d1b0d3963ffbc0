//! Files of a played trace in the result folder.

use serde_json::Value;

use super::run::PlayedRun;
use crate::error::RunError;
use crate::figures::counters::stats_json;
use crate::plan::config::RunConfig;
use crate::store::folder::{ResultFolder, pretty};
use crate::store::tables;

/// Benchmark name of a played trace in results.
pub const TRACE: &str = "trace";

/// Writes the configuration, counters and observations.
pub fn write_played(folder: &ResultFolder, config: &RunConfig, run: &PlayedRun) -> Result<(), RunError> {
    for (name, contents) in &run.observed.files {
        folder.write(name, contents)?;
    }
    let hash = folder.write_config(config)?;
    if !run.summary.memory_over_time.is_empty() {
        folder.write("memory.csv", &tables::memory(&run.summary.memory_over_time))?;
    }
    let stats = stats_json(&hash, [(String::new(), &run.measured, run.counters.clone())]);
    folder.write("stats.json", &pretty(&Value::Object(stats)))
}
