//! `doorbell compare`: results side by side.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use doorbell_bench::{Results, named};
use doorbell_report::{comparison_html, comparison_text};
use doorbell_study::compare::{CompareError, CompareRequest, Share, compare};

use crate::exit::{Asked, DIFFERS};
use crate::inputs;
use crate::out::{out, outln, tell};
use crate::run_args::command_line;

#[derive(Args)]
#[command(
    after_help = "docs/compare.md says which points are compared, what is judged, and what a difference outside both intervals is"
)]
pub struct CompareArgs {
    /// Result folders of run, trace run, search or sweep; the first one is the base
    #[arg(required = true, num_args = 2.., value_names = ["A", "B"])]
    results: Vec<PathBuf>,
    /// End with exit status 3 if a figure differs by more than this share of the base's, and not by chance
    #[arg(long, value_name = "SHARE")]
    fail_over: Option<Share>,
    /// List and judge this figure, or all whose names begin so, such as latency_ns (repeatable) [default: throughput, loss, latency, cost]
    #[arg(long = "figure", value_name = "NAME")]
    figures: Vec<String>,
    /// List every figure that differs
    #[arg(long)]
    all: bool,
    /// Also write comparison.json and report.html there
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the comparison as JSON on standard output, and nothing else there
    #[arg(long)]
    json: bool,
}

/// Compares, writes, prints, and judges.
pub fn run(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let wanted = CompareRequest { fail_over: args.fail_over, figures: args.figures.clone() };
    let comparison = match compare(&args.results, &wanted) {
        Err(error @ CompareError::Request(_)) => return Err(error).asked(),
        compared => compared?,
    };
    if let Some(path) = &args.out {
        inputs::keep(path, &args.results).asked()?;
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
            false => wanted.names(&figure.name),
        };
        out!("{}", comparison_text(&comparison, args.all, &listed));
        if let Some((path, names)) = written {
            outln!("\nComparison in {} ({}).", path.display(), named(&names));
        }
    }
    for failure in &comparison.failures {
        tell!("doorbell: {failure}");
    }
    Ok(if comparison.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERS) })
}
