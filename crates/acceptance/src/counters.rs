//! Checks `stats.json` against `summary.json`: both cover the measured window.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::number;

/// Checks that each counter in `stats.json` is at most its total and that warm-up counted too.
///
/// Also recomputes MPKI and compares it with `summary`: a machine's, or that of the node whose counters begin
/// with `prefix`. The machine must have one hart.
pub fn check_counters(folder: &Path, prefix: &str, summary: &Value) {
    let text = fs::read_to_string(folder.join("stats.json")).expect("stats.json was written");
    let stats: Value = serde_json::from_str(&text).expect("it is JSON");
    let of = |part: &str| stats[part].as_object().unwrap_or_else(|| panic!("no {part}"));
    let (counters, totals) = (of("counters"), of("totals"));
    let value = |counter: &Value| counter["value"].as_u64().expect("a counter has a value");
    assert!(counters.len() > 100, "only {} counters", counters.len());
    for (name, counter) in counters {
        let total = value(totals.get(name).unwrap_or_else(|| panic!("{name} has no total")));
        assert!(value(counter) <= total, "{name}: {counter} of {total}");
    }
    // Peaks are the only totals without a counter for the window.
    assert!(totals.keys().filter(|name| !counters.contains_key(*name)).all(|name| name.contains("_peak_")));
    let count = |name: &str| value(&counters[&format!("{prefix}{name}")]) as f64;
    let instructions = count("hart0.core.instructions");
    for (level, path) in [("L1D", "hart0.l1d"), ("L2", "hart0.l2"), ("LLC", "llc")] {
        let (own, theirs) =
            (count(&format!("{path}.misses")) * 1e3 / instructions, format!("/timing/{level}/mpki"));
        let theirs = number(summary, &theirs);
        assert!((own - theirs).abs() <= 1e-9 * theirs.max(1.0), "{level}: {own} is not {theirs}");
    }
    let misses = format!("{prefix}llc.accesses");
    assert!(
        value(&counters[&misses]) < value(&totals[&misses]),
        "the caches warmed up before the measurement"
    );
}
