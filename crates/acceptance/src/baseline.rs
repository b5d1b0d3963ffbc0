//! Figures of a benchmark beside those that were stored.

use std::path::Path;

use serde_json::{Map, Value};

/// Prints a line a figure with its ratio to the stored one, and stores them all if asked to. `file` stands in this
/// crate's folder.
pub fn print_and_store(figures: &Map<String, Value>, file: &str, store: bool) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let baseline: Value = std::fs::read_to_string(&path)
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    println!("{:<42} {:>12} {:>12}", "", "now", "of baseline");
    for (name, value) in figures {
        let now = value.as_f64().unwrap_or_default();
        let ratio = baseline[name].as_f64().map_or("-".to_owned(), |before| format!("{:.2}", now / before));
        println!("{name:<42} {now:>12.2} {ratio:>12}");
    }
    if store {
        let text = serde_json::to_string_pretty(figures).expect("figures are JSON");
        std::fs::write(&path, text + "\n").expect("the baseline can be written");
        println!("stored in {}", path.display());
    }
}

/// The middle one of some figures.
pub fn median(all: impl IntoIterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = all.into_iter().collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}
