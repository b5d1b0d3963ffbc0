//! `--on slurm`: points of sweeps, searches and reproductions as job arrays, and the task run on each node.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use doorbell_bench::CachePaths;
use doorbell_study::cluster::{
    ClusterEvent, ClusterExperiment, Job, PointId, Settings, Slurm, TaskList, failure_file, measure,
};
use doorbell_study::experiment::{self, Store, Sweep};

use crate::exit::{self, OrUsageError};
use crate::experiment::Experiment;
use crate::screen::{Line, Screen};
use crate::sweep_page::PAGES;
use crate::tally::Tally;

/// Minimum interval between queue messages if there is no progress line.
const QUEUE_MESSAGE_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, ValueEnum)]
enum On {
    Slurm,
}

/// Cluster options.
#[derive(Args)]
#[command(next_help_heading = "On a cluster")]
pub struct ClusterArgs {
    /// Measure the points as job arrays on a cluster: slurm
    ///
    /// After a kill, the same command continues on any login node (docs/clusters.md).
    #[arg(long, value_name = "CLUSTER", hide_possible_values = true, conflicts_with = "jobs")]
    on: Option<On>,
    /// sbatch's --partition
    ///
    /// This option and those below override [cluster] in the experiment's file.
    #[arg(long, value_name = "NAME", requires = "on")]
    partition: Option<String>,
    /// sbatch's --time for a point, such as 1:30:00
    #[arg(long, value_name = "TIME", requires = "on", hide_short_help = true)]
    time: Option<String>,
    /// sbatch's --mem for a point, such as 4G
    #[arg(long, value_name = "SIZE", requires = "on", hide_short_help = true)]
    memory: Option<String>,
    /// sbatch's --account
    #[arg(long, value_name = "NAME", requires = "on", hide_short_help = true)]
    account: Option<String>,
    /// Maximum number of points that run at once [default: no limit]
    #[arg(long, value_name = "N", requires = "on", hide_short_help = true)]
    concurrency: Option<u32>,
    /// Maximum number of submissions of a failing point [default: 3]
    #[arg(long, value_name = "N", requires = "on", hide_short_help = true)]
    attempts: Option<u32>,
    /// Additional sbatch option, such as --sbatch=--qos=low (repeatable)
    #[arg(long, value_name = "OPTION", requires = "on", hide_short_help = true, allow_hyphen_values = true)]
    sbatch: Vec<String>,
}

impl ClusterArgs {
    /// The cluster, if requested.
    pub fn cluster(&self) -> anyhow::Result<Option<Cluster>> {
        let Some(On::Slurm) = self.on else { return Ok(None) };
        let settings = Settings {
            partition: self.partition.clone(),
            time: self.time.clone(),
            memory: self.memory.clone(),
            account: self.account.clone(),
            concurrency: self.concurrency,
            attempts: self.attempts,
            settle_seconds: None,
            sbatch: self.sbatch.clone(),
        };
        settings.check().or_usage_error()?;
        Ok(Some(Cluster { settings, slurm: Slurm::find()? }))
    }
}

/// An available cluster.
pub struct Cluster {
    settings: Settings,
    slurm: Slurm,
}

impl Cluster {
    /// Measures all unfinished points of some experiments. The journal of jobs is in `folder`; jobs are named
    /// `name`.
    pub fn measure(
        &self,
        work: &[(&Experiment, &Store)],
        folder: &Path,
        name: &str,
        screen: &Screen,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<Vec<Sweep>> {
        let absolute = |path: &Path| -> anyhow::Result<PathBuf> {
            std::path::absolute(path).with_context(|| format!("cannot find {}", path.display()))
        };
        let (mut experiments, mut settings) = (Vec::new(), self.settings.clone());
        for (experiment, store) in work {
            settings = settings.over(&experiment.plan.file.cluster);
            let missing: Vec<usize> = (0..experiment.identities.len())
                .filter(|&index| !store.point(&experiment.identities[index]).exists())
                .collect();
            let boots = screen.simulating(None, |control| {
                Ok(experiment.plan.boots(&missing, experiment.places, control)?)
            })?;
            experiments.push(ClusterExperiment {
                file: absolute(&experiment.file)?,
                out: absolute(&experiment.out)?,
                identities: &experiment.identities,
                store,
                boots,
            });
        }
        settings.check().or_usage_error()?;
        let Some((first, _)) = work.first() else { return Ok(Vec::new()) };
        let job = Job {
            name,
            program: std::env::current_exe().context("cannot find this program's own file")?,
            cache: absolute(&first.places.cache)?,
        };
        let mut reporter = ClusterReporter {
            work,
            screen,
            tally: None,
            done: 0,
            to_do: 0,
            queue_reported: None,
            reasons: String::new(),
            why: String::new(),
        };
        let mut report = |event| reporter.report(event);
        let folder = absolute(folder)?;
        let result = measure(&experiments, &folder, &self.slurm, &settings, &job, interrupted, &mut report);
        screen.stop_watching();
        Ok(result?)
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Reports cluster events.
struct ClusterReporter<'a> {
    work: &'a [(&'a Experiment<'a>, &'a Store)],
    screen: &'a Screen,
    /// Set once the number of points to measure is known.
    tally: Option<Arc<Tally>>,
    done: usize,
    to_do: usize,
    queue_reported: Option<Instant>,
    reasons: String,
    /// Reason of the last resubmission: hundreds may have the same one.
    why: String,
}

impl ClusterReporter<'_> {
    /// Description of a point.
    fn point(&self, PointId { experiment, index }: PointId) -> String {
        let experiment = self.work[experiment].0;
        let of =
            if self.work.len() == 1 { String::new() } else { format!(" of {}", experiment.plan.file.name()) };
        format!("point {index}{of}: {}", experiment.plan.points[index].describe())
    }

    fn report(&mut self, event: ClusterEvent) {
        let screen = self.screen;
        match event {
            ClusterEvent::Locked(holder) => screen
                .say(&format!("{holder} submits and watches these points already; waiting until it ends")),
            ClusterEvent::ToDo(to_do, queued) => {
                let all: usize = self.work.iter().map(|(experiment, _)| experiment.plan.points.len()).sum();
                let taken_up = if queued == 0 {
                    String::new()
                } else {
                    format!(", {queued} of them in the queue already")
                };
                screen.say(&format!("{all} points, {to_do} to measure{taken_up}"));
                let tally = Arc::new(Tally::new(all, to_do));
                tally.leave_out(all - to_do);
                screen.watch(Arc::clone(&tally) as Arc<dyn Line>);
                self.tally = Some(tally);
                self.to_do = to_do;
            }
            ClusterEvent::Damaged(point, problem) => {
                screen.say(&format!("measured again, because {problem}: {}", self.point(point)));
            }
            ClusterEvent::Submitted(job, count, true) => {
                screen.say(&format!("job {job}: {}, shared by points", counted(count, "boot")))
            }
            ClusterEvent::Submitted(job, count, false) => {
                screen.say(&format!("job {job}: {}", counted(count, "point")))
            }
            ClusterEvent::Queue(running, waiting, reasons) => self.queue(running, waiting, reasons),
            ClusterEvent::Done(point) => {
                self.done += 1;
                self.ended(point, true);
                screen.say(&format!("{}/{} {}", self.done, self.to_do, self.point(point)));
            }
            ClusterEvent::Resubmitted(point, why) => {
                let reason = if why == self.why { "same reason" } else { &why };
                screen.say(&format!("submitted again: {}: {reason}", self.point(point)));
                self.why = why;
            }
            ClusterEvent::Failed(point) => {
                self.ended(point, false);
                screen.say(&format!("failed: {}", self.point(point)));
            }
            ClusterEvent::QueueError(problem) => screen.say(&format!("{problem}\nTrying again.")),
            ClusterEvent::Detached(jobs) => screen.say(&format!(
                "The submitted jobs stay in the queue; remove them with `scancel {}`.",
                jobs.join(" ")
            )),
        }
    }

    fn ended(&self, point: PointId, is_done: bool) {
        if let Some(tally) = &self.tally {
            tally.ended(&self.point(point), is_done);
        }
    }

    fn queue(&mut self, running: usize, waiting: usize, reasons: String) {
        let why = if reasons.is_empty() { String::new() } else { format!(" ({reasons})") };
        let line = format!("queue: {} running, {waiting} pending{why}", counted(running, "task"));
        if let Some(tally) = &self.tally {
            tally.note(line.clone());
        }
        let due = self.queue_reported.is_none_or(|time| time.elapsed() > QUEUE_MESSAGE_INTERVAL);
        if !self.screen.moves() && (due || (reasons != self.reasons && !reasons.is_empty())) {
            self.screen.say(&line);
            self.queue_reported = Some(Instant::now());
            self.reasons = reasons;
        }
    }
}

/// Runs one task of an array. The reason of a failure is left in a file for the process that watches the
/// queue.
pub fn task(list: &Path, number: usize, places: &CachePaths) -> anyhow::Result<ExitCode> {
    let failure = failure_file(list, number);
    // Removes the file of an earlier attempt, which was lost with its node.
    let _ = std::fs::remove_file(&failure);
    let tasks = TaskList::read(list)?;
    let task = tasks.tasks.get(number).with_context(|| {
        format!("{} has {} tasks and no task {number}", list.display(), tasks.tasks.len())
    })?;
    let screen = Screen::new(true);
    let done = (|| {
        let experiment = Experiment::read(&task.file, Some(&task.out), places, &screen)?;
        let index = experiment.identities.iter().position(|identity| identity.0 == task.point);
        let index = index.ok_or_else(|| {
            anyhow!("{} was changed after submission and no longer contains this point", task.file.display())
        })?;
        screen.simulating(None, |control| {
            if task.boot {
                return Ok(experiment.plan.boot(index, places, control)?);
            }
            let store = Store::open(&experiment.out)?;
            Ok(experiment::measure(
                &experiment.plan,
                index,
                &experiment.identities[index],
                &store,
                places,
                PAGES,
                control,
            )?)
        })
    })();
    if let Err(error) = &done {
        let text = format!("{}\n{}\n", exit::status(error), crate::error_text(error));
        // If it cannot be written, the task's own output and Slurm's state have the reason.
        let _ = std::fs::write(&failure, text);
    }
    done.map(|()| ExitCode::SUCCESS)
}
