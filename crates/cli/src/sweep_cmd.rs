//! `doorbell sweep`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{anyhow, bail};
use clap::{Args, Subcommand};
use doorbell_bench::CachePaths;
use doorbell_study::experiment::{State, Store, measure};

use crate::cluster::{self, ClusterArgs};
use crate::exit::OrUsageError;
use crate::experiment::Experiment;
use crate::out::{errln, outln};
use crate::screen::{Line, Screen, interrupt_flag};
use crate::search_cmd::jobs_or_cores;
use crate::sweep_page::{self, PAGES};
use crate::tally::Tally;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct SweepArgs {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    experiment: Option<ExperimentArgs>,
    /// Number of points measured at once [default: the host's cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Subcommand)]
enum Part {
    /// List the points, and which of them are finished
    Plan(ExperimentArgs),
    /// Measure one point, unless it is finished: for clusters, one job per index
    Run {
        #[command(flatten)]
        experiment: ExperimentArgs,
        /// Index of the point, from 0, as listed by `sweep plan`
        #[arg(long, value_name = "N")]
        index: usize,
        /// Fail unless the point has this identity
        #[arg(long, value_name = "HASH")]
        expect: Option<String>,
        /// End together with the parent process
        #[arg(long, hide = true)]
        with_parent: bool,
        /// Print the progress, one line per change
        #[arg(long, hide = true)]
        tell_progress: bool,
    },
    /// Run one task of a job array, as submitted by --on slurm
    #[command(hide = true)]
    Task {
        /// File with the array's tasks
        list: PathBuf,
        /// Index of the task, from 0
        #[arg(long, value_name = "N")]
        number: usize,
    },
    /// Write the table and the page of the finished points
    Table(ExperimentArgs),
}

#[derive(Args)]
struct ExperimentArgs {
    /// TOML file of the experiment (see docs/experiments.md)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Result folder [default: results/ and the experiment's name]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Do not show progress
    #[arg(short, long)]
    quiet: bool,
}

impl ExperimentArgs {
    fn read<'a>(&self, places: &'a CachePaths, screen: &Screen) -> anyhow::Result<Experiment<'a>> {
        Experiment::read(&self.file, self.out.as_deref(), places, screen)
    }
}

/// Runs a subcommand on an experiment, or the whole experiment.
pub fn run(args: &SweepArgs, places: &CachePaths) -> anyhow::Result<ExitCode> {
    match (&args.part, &args.experiment) {
        (Some(Part::Plan(args)), _) => plan(args, places),
        (Some(Part::Run { experiment, index, expect, with_parent, tell_progress }), _) => {
            if *with_parent {
                rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            }
            one(experiment, *index, expect.as_deref(), *tell_progress, places)
        }
        (Some(Part::Task { list, number }), _) => cluster::task(list, *number, places),
        (Some(Part::Table(args)), _) => {
            let screen = Screen::new(args.quiet);
            let experiment = args.read(places, &screen)?;
            let store = Store::open(&experiment.out)?;
            write(&experiment, &store)?;
            Ok(ExitCode::SUCCESS)
        }
        (None, Some(experiment)) => whole(experiment, args, places),
        (None, None) => bail!("nothing to do; give an experiment's file, or plan, run or table"),
    }
}

fn plan(args: &ExperimentArgs, places: &CachePaths) -> anyhow::Result<ExitCode> {
    let experiment = args.read(places, &Screen::new(args.quiet))?;
    // Without a folder, no point is finished; planning does not create one.
    let store = if experiment.out.is_dir() { Some(Store::open(&experiment.out)?) } else { None };
    outln!("{:>5}  {:<32}  {:<4}  parameters", "index", "hash", "done");
    let mut done = 0;
    for (point, identity) in experiment.plan.points.iter().zip(&experiment.identities) {
        let state = store.as_ref().map_or(State::Missing, |store| store.state(identity));
        done += usize::from(state == State::Done);
        let word = if state == State::Done { "yes" } else { "no" };
        outln!("{:>5}  {}  {word:<4}  {}", point.index, identity.0, point.describe());
        if let State::Damaged(problem) = state {
            errln!(
                "point {} would be measured again, because its results are damaged: {problem}",
                point.index
            );
        }
    }
    outln!("{done} of {} points are finished in {}", experiment.plan.points.len(), experiment.out.display());
    Ok(ExitCode::SUCCESS)
}

fn one(
    args: &ExperimentArgs,
    index: usize,
    expect: Option<&str>,
    tell_progress: bool,
    places: &CachePaths,
) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.quiet);
    let screen = if tell_progress { screen.printing() } else { screen };
    let experiment = args.read(places, &screen)?;
    let count = experiment.plan.points.len();
    let wrong = || anyhow!("--index {index}: the experiment has {count} points, 0 to {}", count - 1);
    let identity = experiment.identities.get(index).ok_or_else(wrong).or_usage_error()?;
    if expect.is_some_and(|expected| expected != identity.0) {
        bail!("point {index} has changed: {} was edited while the sweep ran", args.file.display());
    }
    let store = Store::open(&experiment.out)?;
    screen.simulating(None, |control| {
        Ok(measure(&experiment.plan, index, identity, &store, places, PAGES, control)?)
    })?;
    screen.clear();
    screen.say(&format!("point {index}: {}", store.point(identity).display()));
    Ok(ExitCode::SUCCESS)
}

fn whole(args: &ExperimentArgs, how: &SweepArgs, places: &CachePaths) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.quiet);
    // Registered early, so that Ctrl-C always ends the command cleanly.
    let interrupted = interrupt_flag()?;
    let cluster = how.cluster.cluster()?;
    let experiment = args.read(places, &screen)?;
    let store = Store::open(&experiment.out)?;
    let result = match &cluster {
        None => {
            let jobs = jobs_or_cores(how.jobs);
            let tally = Arc::new(Tally::new(experiment.plan.points.len(), jobs));
            screen.watch(Arc::clone(&tally) as Arc<dyn Line>);
            experiment.measure(&store, jobs, &screen, &tally, "", &interrupted)?
        }
        Some(cluster) => {
            let (folder, name) = (&experiment.out, experiment.plan.file.name());
            let work = [(&experiment, &store)];
            cluster.measure(&work, folder, name, &screen, &interrupted)?.remove(0)
        }
    };
    screen.clear();
    // Finished points are reported in any case, and failures even if writing fails.
    let written = write(&experiment, &store);
    experiment.ended(&result)?;
    written?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the table and the page of the finished points.
fn write(experiment: &Experiment, store: &Store) -> anyhow::Result<()> {
    let Experiment { plan, out, .. } = experiment;
    let table = experiment.table(store)?;
    let (rows, all) = (table.rows(), plan.points.len());
    if rows == 0 {
        outln!("No point is finished.");
        return Ok(());
    }
    let folder = store.folder();
    folder.write("table.csv", &table.to_csv())?;
    folder.write_bytes("table.parquet", &table.to_parquet())?;
    sweep_page::write(experiment, store, &table, None)?;
    if let Some(warning) = sweep_page::not_steady(&table) {
        outln!("{warning}");
    }
    outln!("{rows} of {all} points in {} (table.csv, table.parquet, report.html, points/).", out.display());
    Ok(())
}
