//! `doorbell compare`: comparison of results.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use doorbell_bench::{Results, list_names};
use doorbell_report::{comparison_html, comparison_text};
use doorbell_study::compare::{CompareError, CompareRequest, Share, compare};

use crate::exit::{DIFFERS, OrUsageError};
use crate::inputs;
use crate::out::{errln, out, outln};
use crate::run_args::command_line;

#[derive(Args)]
#[command(
    after_help = "docs/compare.md explains which points are compared, which figures are judged, and when a difference is significant"
)]
pub struct CompareArgs {
    /// Result folders of run, trace run, search or sweep; the first one is the base
    #[arg(required = true, num_args = 2.., value_names = ["A", "B"])]
    results: Vec<PathBuf>,
    /// End with exit status 3 if a figure differs significantly from the base by more than this share
    #[arg(long, value_name = "SHARE")]
    fail_over: Option<Share>,
    /// List and judge this figure, or all whose names start with it, such as latency_ns (repeatable)
    /// [default: throughput, loss, latency, cost]
    #[arg(long = "figure", value_name = "NAME")]
    figures: Vec<String>,
    /// List every figure that differs
    #[arg(long)]
    all: bool,
    /// Also write comparison.json and report.html to this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print only the comparison as JSON, on standard output
    #[arg(long)]
    json: bool,
}

/// Compares, writes and prints the results, and applies the limit.
pub fn run(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let request = CompareRequest { fail_over: args.fail_over, figures: args.figures.clone() };
    let comparison = match compare(&args.results, &request) {
        Err(error @ CompareError::Request(_)) => return Err(error).or_usage_error(),
        compared => compared?,
    };
    if let Some(path) = &args.out {
        inputs::keep(path, &args.results).or_usage_error()?;
    }
    let json = comparison.to_json();
    let mut written = None;
    if let Some(path) = &args.out {
        let results = Results::begin(path)?;
        results.folder().write("comparison.json", &json)?;
        results.folder().write("report.html", &comparison_html(&comparison, &command_line()))?;
        written = Some((path, results.publish()?));
    }
    if args.json {
        out!("{json}");
    } else {
        let listed = |figure: &doorbell_report::ComparedFigure| match args.figures.is_empty() {
            true => figure.headline,
            false => request.names(&figure.name),
        };
        out!("{}", comparison_text(&comparison, args.all, &listed));
        if let Some((path, names)) = written {
            outln!("\nComparison in {} ({}).", path.display(), list_names(&names));
        }
    }
    for failure in &comparison.failures {
        errln!("doorbell: {failure}");
    }
    Ok(if comparison.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERS) })
}
