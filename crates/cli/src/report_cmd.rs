//! `doorbell report`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use doorbell_bench::{ResultFolder, write_sealed};
use doorbell_report::{Links, RunSummary, SearchSummary, linked_html, linked_search_html, search_table};

use crate::loads::{ALL_LOADS, load};
use crate::out::{out, outln};
use crate::sweep_page::point_links;

#[derive(Args)]
pub struct ReportArgs {
    /// Result folders
    #[arg(required = true)]
    folders: Vec<PathBuf>,
}

/// Makes each folder's page again and prints its table.
pub fn report(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    for path in &args.folders {
        let read = |name: &str| {
            let file = path.join(name);
            std::fs::read_to_string(&file)
                .with_context(|| format!("{} is not a result folder: cannot read {name}", path.display()))
        };
        let json = read("summary.json")?;
        let named = || path.join("summary.json").display().to_string();
        let config = read("config.toml").or_else(|_| read("point-00/config.toml"))?;
        let (page, table) = if SearchSummary::is_in(&json) {
            let summary = SearchSummary::from_json(&json).with_context(named)?;
            (linked_search_html(&summary, &config, &links(path, 0)), search_table(&summary))
        } else {
            let summary = RunSummary::from_json(&json).with_context(named)?;
            let links = links(path, summary.points.len());
            (linked_html(&summary, &config, &links), doorbell_report::table(&summary))
        };
        write_sealed(&ResultFolder::create(path)?, "report.html", &page)?;
        out!("{table}");
        outln!("{}", path.join("report.html").display());
    }
    Ok(ExitCode::SUCCESS)
}

/// What the page in a folder leads to: found by where the folder lies, as the command that wrote it had it.
fn links(path: &Path, points: usize) -> Links {
    let pages = (0..points).map(|index| format!("{}/report.html", load(index)));
    let loads: Vec<String> = pages.filter(|page| path.join(page).is_file()).collect();
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let is_named = |path: Option<&Path>, prefix: &str| {
        path.and_then(Path::file_name).is_some_and(|name| name.to_string_lossy().starts_with(prefix))
    };
    let above = absolute.parent();
    if is_named(Some(&absolute), "point-") && above.is_some_and(|above| above.join("report.html").is_file()) {
        return Links::up(1, ALL_LOADS);
    }
    if is_named(above, "points")
        && above.and_then(Path::parent).is_some_and(|up| up.join("table.csv").is_file())
    {
        return point_links();
    }
    Links { up: None, loads }
}
