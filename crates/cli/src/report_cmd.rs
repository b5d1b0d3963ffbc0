//! `doorbell report`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use doorbell_bench::{ResultFolder, write_sealed};
use doorbell_report::{PageLinks, RunSummary, SearchSummary, html_with, search_html_with, search_table};

use crate::loads::{ALL_LOADS, load, stacks};
use crate::out::{out, outln};
use crate::sweep_page::point_links;

#[derive(Args)]
pub struct ReportArgs {
    /// Result folders
    #[arg(required = true)]
    folders: Vec<PathBuf>,
}

/// Regenerates each folder's page and prints its table.
pub fn report(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    for path in &args.folders {
        let read = |name: &str| {
            let file = path.join(name);
            doorbell_files::read_text(&file)
                .with_context(|| format!("{} is not a result folder: cannot read {name}", path.display()))
        };
        let json = read("summary.json")?;
        let named = || path.join("summary.json").display().to_string();
        let folder = ResultFolder::create(path)?;
        let config = folder.config_text()?;
        let (page, table) = if SearchSummary::is_in(&json) {
            let summary = SearchSummary::from_json(&json).with_context(named)?;
            (search_html_with(&summary, &config, &page_links(path, 0)), search_table(&summary))
        } else {
            let summary = RunSummary::from_json(&json).with_context(named)?;
            let links = page_links(path, summary.points.len());
            (html_with(&summary, &config, &links), doorbell_report::table(&summary))
        };
        write_sealed(&folder, "report.html", &page)?;
        out!("{table}");
        outln!("{}", path.join("report.html").display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Related pages and files of a folder's page, derived from the folder's path and contents, with the same
/// result as for the command that wrote it.
fn page_links(path: &Path, points: usize) -> PageLinks {
    let pages = (0..points).map(|index| format!("{}/report.html", load(index)));
    let loads: Vec<String> = pages.filter(|page| path.join(page).is_file()).collect();
    let stacks = stacks(path);
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let is_named = |path: Option<&Path>, prefix: &str| {
        path.and_then(Path::file_name).is_some_and(|name| name.to_string_lossy().starts_with(prefix))
    };
    let above = absolute.parent();
    if is_named(Some(&absolute), "point-") && above.is_some_and(|above| above.join("report.html").is_file()) {
        return PageLinks { stacks, ..PageLinks::up(1, ALL_LOADS) };
    }
    if is_named(above, "points")
        && above.and_then(Path::parent).is_some_and(|up| up.join("table.csv").is_file())
    {
        return point_links();
    }
    PageLinks { up: None, loads, stacks }
}
