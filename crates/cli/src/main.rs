//! The `doorbell` command.

#![forbid(unsafe_code)]
// All output goes through `out`, which does not panic on write errors.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod boot;
mod cache_cmd;
mod cluster;
mod compare_cmd;
mod config_cmd;
mod examples_cmd;
mod exit;
mod experiment;
mod explain;
mod frame_sizes;
#[cfg(test)]
mod generated_tests;
mod image_cmd;
mod inputs;
mod loads;
mod log_args;
mod network_cmd;
mod observe_args;
mod out;
#[cfg(test)]
mod pasted_tests;
mod plots;
mod point_text;
mod report_cmd;
mod reproduce_cmd;
mod run_args;
mod run_cmd;
mod screen;
mod script_cmd;
mod search_cluster;
mod search_cmd;
mod search_progress;
mod shell_cmd;
mod signals;
mod sweep_cmd;
mod sweep_page;
mod tally;
mod terminal;
mod trace_cmd;
mod trace_edit;
mod trace_info;
mod trace_record_qemu;
mod trace_run;
mod traffic_args;
mod two_nodes_cmd;
mod usage_hint;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use doorbell_bench::CachePaths;

use crate::exit::OrUsageError;
use crate::out::{errln, out, outln};

const EXIT_STATUS: &str = "Exit status: 0 success, 2 usage error, 130 interrupted, 3 results differ (compare --fail-over), 1 any other failure (docs/commands.md)";

/// A full-system simulator for network-intensive computers.
#[derive(Parser)]
#[command(name = "doorbell", version, arg_required_else_help = true, max_term_width = 110, after_help = EXIT_STATUS)]
struct Cli {
    /// Folder for images, packages and checkpoints [default: ~/.cache/doorbell]
    ///
    /// $DOORBELL_CACHE, or $XDG_CACHE_HOME/doorbell, if the variable is set.
    #[arg(long, global = true, env = "DOORBELL_CACHE", value_name = "DIR", hide_env = true, help_heading = log_args::EVERYWHERE)]
    cache: Option<PathBuf>,
    #[command(flatten)]
    log: log_args::LogArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a benchmark or a script at one or several offered loads; print a summary and write a result folder
    Run(Box<run_args::RunArgs>),
    /// Find the highest rate at which a benchmark meets a goal
    Search(Box<search_cmd::SearchArgs>),
    /// Measure every point of an experiment, and report all as a table and plots
    Sweep(Box<sweep_cmd::SweepArgs>),
    /// Measure the figures of a paper, and compare its claims with the results
    Reproduce(reproduce_cmd::ReproduceArgs),
    /// Boot a guest with its console on this terminal
    Boot(Box<boot::BootArgs>),
    /// Build, list and show guest images
    #[command(subcommand)]
    Image(image_cmd::ImageCommand),
    /// List the images, checkpoints and packages in the cache, and remove unused ones
    #[command(subcommand)]
    Cache(cache_cmd::CacheCommand),
    /// Show presets and the resolved configuration
    #[command(subcommand)]
    Config(config_cmd::ConfigCommand),
    /// Regenerate report.html of a result folder
    Report(report_cmd::ReportArgs),
    /// Compare results, searches or sweeps: differences in configuration and in every figure
    Compare(compare_cmd::CompareArgs),
    /// Components and levels of --log
    #[command(hide = true, after_help = log_args::help())]
    Log,
    /// Record, inspect and convert traces of a machine's instructions and device activity
    #[command(subcommand)]
    Trace(trace_cmd::TraceCommand),
    /// Write the files named in the documentation's commands
    Examples(examples_cmd::ExamplesArgs),
    /// Print shell completions
    Completions(shell_cmd::CompletionsArgs),
    /// Write manual pages
    Man(shell_cmd::ManArgs),
}

fn main() -> ExitCode {
    doorbell_files::control::begin();
    signals::begin();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(answer) => return help_or_usage(&answer),
    };
    match execute(cli) {
        Ok(code) if code == ExitCode::SUCCESS && out::has_failed() => ExitCode::FAILURE,
        Ok(code) => code,
        Err(error) => {
            errln!("doorbell: {}", error_text(&error));
            if let Some(hint) = examples_cmd::hint(std::env::args()) {
                errln!("{hint}");
            }
            ExitCode::from(exit::status(&error))
        }
    }
}

/// Help and version go to standard output, usage errors to standard error.
fn help_or_usage(answer: &clap::Error) -> ExitCode {
    let text = answer.render();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is_refused = answer.use_stderr();
    if let Some(message) =
        usage_hint::negative_value(&words).filter(|_| answer.kind() == ErrorKind::UnknownArgument)
    {
        errln!("{message}");
    } else if is_refused {
        if std::io::stderr().is_terminal() { errln!("{}", text.ansi()) } else { errln!("{text}") }
    } else if std::io::stdout().is_terminal() {
        out!("{}", text.ansi());
    } else {
        out!("{text}");
    }
    usage_hint::of_words(&words).filter(|_| is_refused).into_iter().for_each(|tip| errln!("{tip}"));
    let wrong = is_refused || out::has_failed();
    ExitCode::from(if wrong { answer.exit_code().clamp(1, 255) as u8 } else { 0 })
}

/// Text of an error and its causes, without repetition: some errors quote their cause themselves.
fn error_text(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.as_str() {
        "" => cause,
        shown if shown.contains(&cause) => text,
        shown => format!("{shown}: {cause}"),
    })
}

fn execute(cli: Cli) -> anyhow::Result<ExitCode> {
    let places =
        CachePaths { cache: cache_folder(cli.cache).or_usage_error()?, commit: env!("DOORBELL_COMMIT") };
    let log = cli.log.begin().or_usage_error()?;
    let code = match cli.command {
        Command::Run(args) => run_cmd::run(&args, &places),
        Command::Search(args) => search_cmd::run(&args, &places),
        Command::Sweep(args) => sweep_cmd::run(&args, &places),
        Command::Reproduce(args) => reproduce_cmd::run(&args, &places),
        Command::Boot(args) => boot::boot(&args, &places),
        Command::Image(command) => image_cmd::image(&command, &places),
        Command::Cache(command) => cache_cmd::cache(&command, &places),
        Command::Config(command) => config_cmd::config(&command),
        Command::Report(args) => report_cmd::report(&args),
        Command::Compare(args) => compare_cmd::run(&args),
        Command::Log => {
            outln!("{}", log_args::help());
            Ok(ExitCode::SUCCESS)
        }
        Command::Trace(command) => trace_cmd::trace(command, &places),
        Command::Examples(args) => examples_cmd::run(&args),
        Command::Completions(args) => shell_cmd::completions(&args),
        Command::Man(args) => shell_cmd::man(&args),
    }?;
    log.end()?;
    Ok(code)
}

fn cache_folder(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    given.or_else(|| doorbell_image::user_cache(|name| std::env::var_os(name))).ok_or_else(|| {
        anyhow::anyhow!("there is no home folder to keep images in; name one with --cache DIR")
    })
}
