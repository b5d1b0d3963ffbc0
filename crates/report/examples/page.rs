//! Makes the page of a result folder again: `cargo run -p doorbell-report --example page -- FOLDER > report.html`.

use std::error::Error;
use std::path::Path;

use doorbell_report::{PageLinks, RunSummary, html_with, table};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: page FOLDER (a result folder with summary.json)")?;
    let text = std::fs::read_to_string(Path::new(&folder).join("summary.json"))?;
    let summary = RunSummary::from_json(&text)?;
    let config = std::fs::read_to_string(Path::new(&folder).join("config.toml"))?;
    eprint!("{}", table(&summary));
    print!("{}", html_with(&summary, &config, &PageLinks::default()));
    Ok(())
}
