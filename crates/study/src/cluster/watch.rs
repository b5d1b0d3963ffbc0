//! Life of the points in the queue: submits missing points, checks the results of finished tasks, and
//! resubmits failed ones.
//!
//! Only results count: a point is done when its result folder exists, whatever the queue reports. A point
//! with a task in the queue is not submitted again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::ClusterError;
use super::journal::{Journal, TaskList};
use super::points::{ClusterExperiment, End, Key, Phase, PointId, Points, Verdict};
use super::settings::Settings;
use super::slurm::{Array, Queue, Refusal, Slurm};
use crate::experiment::Sweep;

/// Interval between queue polls: short after a change, then increasing, to limit the load on the Slurm
/// controller.
const POLL_MIN: Duration = Duration::from_millis(250);
const POLL_MAX: Duration = Duration::from_secs(15);
/// Interval between checks for the user's interrupt.
const STEP: Duration = Duration::from_millis(50);
/// Maximum wait for the output of a failed task.
const OUTPUT_WAIT: Duration = Duration::from_secs(5);

/// The jobs to submit: arrays of tasks that run one program.
pub struct Job<'a> {
    /// Name of the arrays.
    pub name: &'a str,
    /// Path of the Doorbell executable.
    pub program: PathBuf,
    /// Path of its cache.
    pub cache: PathBuf,
}

/// Progress events.
#[derive(Debug)]
pub enum ClusterEvent {
    /// Another process submits and watches the same points; its name.
    Locked(String),
    /// Number of points to be measured, and how many of them are in the queue already.
    ToDo(usize, usize),
    /// A point's stored results are damaged as described; it is measured again.
    Damaged(PointId, String),
    /// A job was submitted: its ID, its number of tasks, and whether they create boot checkpoints.
    Submitted(String, usize, bool),
    /// Number of running tasks, number of pending tasks, and the reasons why they are pending.
    Queue(usize, usize, String),
    /// A point is done.
    Done(PointId),
    /// A point is resubmitted, for this reason.
    Resubmitted(PointId, String),
    /// A point has failed for good.
    Failed(PointId),
    /// The queue cannot be queried, or accepts no more jobs, at the moment.
    QueueError(String),
    /// The user ends the command; these jobs stay in the queue.
    Detached(Vec<String>),
}

/// Measures all unfinished points as tasks of the cluster; `folder` holds the journal.
pub fn measure(
    experiments: &[ClusterExperiment],
    folder: &Path,
    slurm: &Slurm,
    settings: &Settings,
    job: &Job,
    interrupted: &AtomicBool,
    report: &mut dyn FnMut(ClusterEvent),
) -> Result<Vec<Sweep>, ClusterError> {
    let mut announced = false;
    let journal = Journal::take(folder, |holder| {
        if !std::mem::replace(&mut announced, true) {
            report(ClusterEvent::Locked(holder.to_owned()));
        }
        if interrupted.load(Ordering::Relaxed) { Err(None) } else { Ok(()) }
    });
    let journal = match journal {
        Ok(journal) => journal,
        Err(Some(error)) => return Err(error),
        // The user ended the wait.
        Err(None) => {
            let sweep = Sweep { interrupted: true, ..Sweep::default() };
            return Ok(vec![sweep; experiments.len()]);
        }
    };
    // Read the points only now, because the previous holder of the journal may have completed them.
    let points = Points::new(experiments, settings.attempts(), &mut |id, problem| {
        report(ClusterEvent::Damaged(id, problem));
    });
    let watch = Watch {
        experiments,
        slurm,
        settings,
        job,
        journal,
        points,
        chunk: slurm.array_max,
        full_at: None,
        polled: false,
        boots_submitted: false,
        shown: None,
        last_problem: None,
    };
    watch.run(interrupted, report)
}

struct Watch<'a> {
    experiments: &'a [ClusterExperiment<'a>],
    slurm: &'a Slurm,
    settings: &'a Settings,
    job: &'a Job<'a>,
    journal: Journal,
    points: Points,
    /// Maximum number of tasks of the next array.
    chunk: usize,
    /// Number of queued tasks at which the queue rejected more.
    full_at: Option<usize>,
    /// Whether the queue has been queried successfully.
    polled: bool,
    boots_submitted: bool,
    shown: Option<(usize, usize, String)>,
    last_problem: Option<String>,
}

type Report<'t> = &'t mut dyn FnMut(ClusterEvent);

impl Watch<'_> {
    fn run(mut self, interrupted: &AtomicBool, report: Report) -> Result<Vec<Sweep>, ClusterError> {
        self.adopt();
        let to_do = self.points.count(|phase| *phase != Phase::Done);
        let (mut first, mut announced) = (true, false);
        let mut pause = POLL_MIN;
        loop {
            let before = self.points.all.values().map(|point| point.phase.clone()).collect::<Vec<_>>();
            let queue = self.poll(report)?;
            if let Some(queue) = &queue {
                self.follow(queue, std::mem::take(&mut first), report);
            }
            if to_do > 0 && !std::mem::replace(&mut announced, true) {
                report(ClusterEvent::ToDo(to_do, self.points.queued()));
            }
            if interrupted.load(Ordering::Relaxed) {
                return Ok(self.detach(report));
            }
            if let Some(queue) = &queue {
                self.submit(queue, report)?;
                self.show(queue, report);
                self.forget(queue)?;
            }
            if self.points.queued() == 0 && self.points.waiting().is_empty() {
                return Ok(self.points.sweeps(false));
            }
            let after = self.points.all.values().map(|point| point.phase.clone());
            pause = if before.into_iter().eq(after) { (pause * 3 / 2).min(POLL_MAX) } else { POLL_MIN };
            let until = Instant::now() + pause;
            while Instant::now() < until && !interrupted.load(Ordering::Relaxed) {
                doorbell_files::pause(STEP);
            }
        }
    }

    /// Adopts the tasks submitted earlier, by this command or another.
    fn adopt(&mut self) {
        for submission in self.journal.submissions().to_vec() {
            let list = TaskList::read(&self.journal.list(&submission.name)).unwrap_or_default();
            self.points.adopt(&submission.name, &list);
            self.boots_submitted |= list.tasks.iter().any(|task| task.boot);
        }
    }

    /// The queue, or `None` if it cannot be queried at the moment. It is an error if no query has succeeded
    /// yet.
    fn poll(&mut self, report: Report) -> Result<Option<Queue>, ClusterError> {
        let names: Vec<&str> = self.journal.submissions().iter().map(|own| own.name.as_str()).collect();
        match self.slurm.queue(&names) {
            Ok(queue) => {
                self.polled = true;
                self.last_problem = None;
                Ok(Some(queue))
            }
            Err(error) if !self.polled => Err(error),
            Err(error) => {
                self.trouble(&error, report);
                Ok(None)
            }
        }
    }

    /// Reports a problem once, not at every poll.
    fn trouble(&mut self, error: &ClusterError, report: Report) {
        let problem = error.to_string();
        if self.last_problem.as_ref() != Some(&problem) {
            report(ClusterEvent::QueueError(problem.clone()));
            self.last_problem = Some(problem);
        }
    }

    /// Updates the points from the queue. On the first poll, tasks that ended earlier without results do not
    /// count as failures; their points are resubmitted.
    fn follow(&mut self, queue: &Queue, first: bool, report: Report) {
        let keys: Vec<Key> = self.points.all.keys().cloned().collect();
        for key in keys {
            let point = &self.points.all[&key];
            let Phase::Queued { name, task } = point.phase.clone() else { continue };
            let id = point.id;
            let experiment = &self.experiments[id.experiment];
            let found = queue.get(&name).and_then(|tasks| tasks.get(&task));
            if found.is_some_and(|task| task.is_pending()) {
                continue;
            }
            let identity = &experiment.identities[id.index];
            if experiment.store.point(identity).exists() && experiment.store.is_done(identity) {
                self.points.done(&key);
                report(ClusterEvent::Done(id));
                continue;
            }
            if found.is_some_and(|task| !task.has_ended()) {
                continue;
            }
            if first {
                self.points.all.get_mut(&key).expect("it is one of them").phase = Phase::Waiting;
                continue;
            }
            let state = found.map(|task| task.state.clone());
            let Some(end) = self.end(&key, &name, task, state) else { continue };
            match self.points.ended(&key, &end, &self.describe_settings()) {
                Verdict::Retry(why) => report(ClusterEvent::Resubmitted(id, why)),
                Verdict::GivenUp(_) => report(ClusterEvent::Failed(id)),
            }
        }
    }

    /// How a task without results ended; `None` while its results or its output may still arrive.
    fn end(&mut self, key: &Key, name: &str, task: usize, state: Option<String>) -> Option<End> {
        let (status, output) = self.journal.task_output(name, task);
        let point = self.points.all.get_mut(key).expect("it is one of them");
        let since = point.ended.get_or_insert_with(Instant::now).elapsed();
        let settle = self.settings.settle();
        let patience = match state.as_deref() {
            Some("COMPLETED") | None => settle,
            _ => settle.min(OUTPUT_WAIT),
        };
        if output.is_empty() && since < patience {
            return None;
        }
        let job = self.journal.submissions().iter().find(|own| own.name == name)?.job.clone();
        let state = state.or_else(|| self.slurm.ended(&job?, task)).unwrap_or_default();
        Some(End { state, status, output })
    }

    /// The cluster settings as text.
    fn describe_settings(&self) -> String {
        let options = self.settings.options();
        if options.is_empty() { "cluster defaults".to_owned() } else { options.join(" ") }
    }

    /// Submits waiting points, as far as the cluster accepts them.
    fn submit(&mut self, queue: &Queue, report: Report) -> Result<(), ClusterError> {
        self.submit_boots(report)?;
        loop {
            let (waiting, queued) = (self.points.waiting(), self.points.queued());
            if waiting.is_empty() || self.full_at.is_some_and(|full| queued >= full) {
                return Ok(());
            }
            let at_once = self.settings.concurrency.map(|most| most.saturating_sub(queued as u32));
            if at_once == Some(0) {
                return Ok(());
            }
            let chosen = &waiting[..waiting.len().min(self.chunk)];
            let tasks = chosen.iter().map(|key| {
                let PointId { experiment, index } = self.points.all[key].id;
                self.experiments[experiment].task(index, false)
            });
            let list = TaskList { tasks: tasks.collect() };
            match self.array(self.job.name, list, at_once, &self.boot_jobs(queue), report)? {
                Ok(name) => {
                    for (task, key) in chosen.iter().enumerate() {
                        let phase = Phase::Queued { name: name.clone(), task };
                        self.points.all.get_mut(key).expect("it is one of them").phase = phase;
                    }
                    self.full_at = None;
                    self.chunk = (self.chunk * 2).min(self.slurm.array_max);
                }
                Err(Refusal::Wrong(error)) => return Err(error),
                Err(Refusal::TooMany(_)) if chosen.len() > 1 => self.chunk = chosen.len() / 2,
                Err(Refusal::TooMany(error) | Refusal::Unreachable(error)) => {
                    if queued == 0 && !self.has_submitted() {
                        return Err(error);
                    }
                    self.full_at = (queued > 0).then_some(queued);
                    self.trouble(&error, report);
                    return Ok(());
                }
            }
        }
    }

    fn has_submitted(&self) -> bool {
        self.points.count(|phase| matches!(phase, Phase::Done)) > 0 || !self.journal.submissions().is_empty()
    }

    /// Submits the boots that several points share, each once, as its own task.
    fn submit_boots(&mut self, report: Report) -> Result<(), ClusterError> {
        if std::mem::replace(&mut self.boots_submitted, true) {
            return Ok(());
        }
        let of = |(experiment, index): (&ClusterExperiment, usize)| {
            let key = (experiment.out.clone(), experiment.identities[index].0.clone());
            (self.points.all[&key].phase == Phase::Waiting).then(|| experiment.task(index, true))
        };
        let boots = self
            .experiments
            .iter()
            .flat_map(|experiment| experiment.boots.iter().map(move |index| (experiment, *index)));
        let tasks: Vec<_> = boots.filter_map(of).take(self.slurm.array_max).collect();
        if tasks.is_empty() {
            return Ok(());
        }
        let name = format!("{}-boot", self.job.name);
        // If they are rejected, the first point to need a boot creates it. The points would be rejected as
        // well, and that is reported.
        let _ = self.array(&name, TaskList { tasks }, self.settings.concurrency, &[], report)?;
        Ok(())
    }

    /// Jobs that create boots and have not ended.
    fn boot_jobs(&self, queue: &Queue) -> Vec<String> {
        let makes_boots = |name: &str| {
            TaskList::read(&self.journal.list(name)).is_ok_and(|list| list.tasks.iter().any(|task| task.boot))
        };
        // A job submitted after the last query is not in the queue yet.
        let is_active =
            |name: &str| queue.get(name).is_none_or(|tasks| tasks.values().any(|task| !task.has_ended()));
        let own = self.journal.submissions().iter();
        own.filter(|own| is_active(&own.name) && makes_boots(&own.name))
            .filter_map(|own| own.job.clone())
            .collect()
    }

    fn array(
        &mut self,
        name: &str,
        list: TaskList,
        at_once: Option<u32>,
        after: &[String],
        report: Report,
    ) -> Result<Result<String, Refusal>, ClusterError> {
        let (count, boot) = (list.tasks.len(), list.tasks.iter().any(|task| task.boot));
        let (name, script) = self.journal.record(name, list, |list| script(self.job, list))?;
        let array = Array {
            name: &name,
            script: &script,
            count,
            at_once,
            after,
            log: self.journal.log_pattern(&name),
            settings: self.settings,
        };
        match self.slurm.submit(&array, self.journal.lock()) {
            Ok(job) => {
                report(ClusterEvent::Submitted(job.clone(), count, boot));
                self.journal.submitted(&name, job)?;
                Ok(Ok(name))
            }
            Err(refusal) => {
                self.journal.forget(&BTreeSet::from([name]))?;
                Ok(Err(refusal))
            }
        }
    }

    fn show(&mut self, queue: &Queue, report: Report) {
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        let (mut running, mut waiting) = (0, 0);
        for task in queue.values().flat_map(|tasks| tasks.values()).filter(|task| !task.has_ended()) {
            if task.is_pending() {
                waiting += 1;
                *reasons.entry(&task.reason).or_default() += 1;
            } else {
                running += 1;
            }
        }
        reasons.remove("None");
        let reasons = reasons.into_keys().collect::<Vec<_>>().join(", ");
        let now = (running, waiting, reasons);
        // Tasks submitted after the last query are not in the queue yet, and finished ones are reported
        // elsewhere.
        if running + waiting > 0 && self.shown.as_ref() != Some(&now) {
            report(ClusterEvent::Queue(now.0, now.1, now.2.clone()));
            self.shown = Some(now);
        }
    }

    /// Removes arrays whose tasks are all complete.
    fn forget(&mut self, queue: &Queue) -> Result<(), ClusterError> {
        let awaited: BTreeSet<&String> = self
            .points
            .all
            .values()
            .filter_map(|point| match &point.phase {
                Phase::Queued { name, .. } => Some(name),
                _ => None,
            })
            .collect();
        let is_over = |name: &String| {
            let active = queue.get(name).is_some_and(|tasks| tasks.values().any(|task| !task.has_ended()));
            !awaited.contains(name) && !active
        };
        // A boot job submitted after the last query is not in the queue yet.
        let is_listed = |name: &String| queue.contains_key(name) || self.points.queued() == 0;
        let names = self.journal.submissions().iter().map(|own| own.name.clone());
        let over = names.filter(|name| is_over(name) && is_listed(name)).collect();
        self.journal.forget(&over)
    }

    /// Ends on the user's request.
    fn detach(&self, report: Report) -> Vec<Sweep> {
        let awaited = |name: &str| {
            self.points
                .all
                .values()
                .any(|point| matches!(&point.phase, Phase::Queued { name: own, .. } if own == name))
        };
        let own = self.journal.submissions().iter();
        let jobs: Vec<String> =
            own.filter(|own| awaited(&own.name)).filter_map(|own| own.job.clone()).collect();
        if !jobs.is_empty() {
            report(ClusterEvent::Detached(jobs));
        }
        self.points.sweeps(true)
    }
}

/// The batch script of each task: replaces the shell by this program, so that it receives signals.
fn script(job: &Job, list: &Path) -> String {
    let quoted = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', r"'\''"));
    format!(
        "#!/bin/sh\nexec {} --cache {} sweep task {} --number \"$SLURM_ARRAY_TASK_ID\"\n",
        quoted(&job.program),
        quoted(&job.cache),
        quoted(list)
    )
}
