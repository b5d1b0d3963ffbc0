//! `doorbell report`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use doorbell_bench::ResultFolder;
use doorbell_report::RunSummary;

use crate::screen::end_on_closed_pipe;

#[derive(Args)]
pub struct ReportArgs {
    /// Result folders
    #[arg(required = true)]
    folders: Vec<PathBuf>,
}

/// Makes each folder's page anew and prints its table.
pub fn report(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    end_on_closed_pipe()?;
    for path in &args.folders {
        let read = |name: &str| {
            let file = path.join(name);
            std::fs::read_to_string(&file)
                .with_context(|| format!("{} is not a result folder: cannot read {name}", path.display()))
        };
        let summary = RunSummary::from_json(&read("summary.json")?)
            .with_context(|| path.join("summary.json").display().to_string())?;
        let config = read("config.toml").or_else(|_| read("point-00/config.toml"))?;
        ResultFolder::create(path)?.write("report.html", &doorbell_report::html(&summary, &config))?;
        print!("{}", doorbell_report::table(&summary));
        println!("{}", path.join("report.html").display());
    }
    Ok(ExitCode::SUCCESS)
}
