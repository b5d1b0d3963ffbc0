//! `doorbell report`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use doorbell_bench::{ResultFolder, write_sealed};
use doorbell_report::{RunSummary, SearchSummary, search_html, search_table};

use crate::out::{out, outln};

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
            (search_html(&summary, &config), search_table(&summary))
        } else {
            let summary = RunSummary::from_json(&json).with_context(named)?;
            (doorbell_report::html(&summary, &config), doorbell_report::table(&summary))
        };
        write_sealed(&ResultFolder::create(path)?, "report.html", &page)?;
        out!("{table}");
        outln!("{}", path.join("report.html").display());
    }
    Ok(ExitCode::SUCCESS)
}
