//! The `doorbell` command.

#![forbid(unsafe_code)]
// What is printed goes through `out`, which nothing behind it can make panic.
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
mod report_cmd;
mod reproduce_cmd;
mod run_args;
mod run_cmd;
mod screen;
mod script_cmd;
mod search_cluster;
mod search_cmd;
mod seeking;
mod shell_cmd;
mod signals;
mod sweep_cmd;
mod sweep_page;
mod tally;
mod terminal;
mod told;
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
use doorbell_bench::Places;

use crate::exit::Asked;
use crate::out::{out, outln, tell};

const EXIT_STATUS: &str = "Exit status: 0 done, 2 wrong use, 130 interrupted, 3 results differ (compare --fail-over), 1 any other failure (docs/commands.md)";

/// A full-system simulator for network-intensive computers.
#[derive(Parser)]
#[command(name = "doorbell", version, arg_required_else_help = true, max_term_width = 110, after_help = EXIT_STATUS)]
struct Cli {
    /// Folder for images, packages and checkpoints [default: ~/.cache/doorbell]
    ///
    /// $DOORBELL_CACHE, or $XDG_CACHE_HOME/doorbell, if there is such a variable.
    #[arg(long, global = true, env = "DOORBELL_CACHE", value_name = "DIR", hide_env = true, help_heading = log_args::EVERYWHERE)]
    cache: Option<PathBuf>,
    #[command(flatten)]
    log: log_args::LogArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a benchmark, or a script of your own, at one or several offered loads; print a summary and write a result folder
    Run(Box<run_args::RunArgs>),
    /// Find the highest rate at which a benchmark meets a goal
    Search(Box<search_cmd::SearchArgs>),
    /// Measure every point of an experiment, and tell them together as a table and plots
    Sweep(Box<sweep_cmd::SweepArgs>),
    /// Measure what a paper reports, and tell each of its claims beside what was measured
    Reproduce(reproduce_cmd::ReproduceArgs),
    /// Boot a guest with its console on this terminal
    Boot(Box<boot::BootArgs>),
    /// Build, list and show guest images
    #[command(subcommand)]
    Image(image_cmd::ImageCommand),
    /// List what the cache of images, checkpoints and packages holds, and remove what nobody uses
    #[command(subcommand)]
    Cache(cache_cmd::CacheCommand),
    /// Show presets and the resolved configuration
    #[command(subcommand)]
    Config(config_cmd::ConfigCommand),
    /// Make report.html again from a result folder
    Report(report_cmd::ReportArgs),
    /// Show results, searches or sweeps side by side: what differed in configuration, and every figure with its difference
    Compare(compare_cmd::CompareArgs),
    /// What --log can tell
    #[command(hide = true, after_help = log_args::help())]
    Log,
    /// Record what a machine executes and its devices do, look at such traces, and convert them
    #[command(subcommand)]
    Trace(trace_cmd::TraceCommand),
    /// Write the files that the documentation's commands name
    Examples(examples_cmd::ExamplesArgs),
    /// Print what completes the command's words in a shell
    Completions(shell_cmd::CompletionsArgs),
    /// Write the command's manual pages
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
            tell!("doorbell: {}", told(&error));
            if let Some(hint) = examples_cmd::hint(std::env::args()) {
                tell!("{hint}");
            }
            ExitCode::from(exit::status(&error))
        }
    }
}

/// Help and version go to standard output, what is wrong with the words to standard error.
fn help_or_usage(answer: &clap::Error) -> ExitCode {
    let text = answer.render();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is_refused = answer.use_stderr();
    if let Some(said) =
        usage_hint::negative_value(&words).filter(|_| answer.kind() == ErrorKind::UnknownArgument)
    {
        tell!("{said}");
    } else if is_refused {
        if std::io::stderr().is_terminal() { tell!("{}", text.ansi()) } else { tell!("{text}") }
    } else if std::io::stdout().is_terminal() {
        out!("{}", text.ansi());
    } else {
        out!("{text}");
    }
    usage_hint::of_words(&words).filter(|_| is_refused).into_iter().for_each(|tip| tell!("{tip}"));
    let wrong = is_refused || out::has_failed();
    ExitCode::from(if wrong { answer.exit_code().clamp(1, 255) as u8 } else { 0 })
}

/// An error and its causes, each said once: some errors quote their cause themselves.
fn told(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.as_str() {
        "" => cause,
        said if said.contains(&cause) => text,
        said => format!("{said}: {cause}"),
    })
}

fn execute(cli: Cli) -> anyhow::Result<ExitCode> {
    let places = Places { cache: cache_folder(cli.cache).asked()?, commit: env!("DOORBELL_COMMIT") };
    let log = cli.log.begin().asked()?;
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
