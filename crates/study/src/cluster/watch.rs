//! The points' way through the queue: what is missing is submitted, what ends is looked at, what failed is submitted again.
//!
//! Only results count: a point is done when its folder is in place, whatever the queue says, and nothing that the queue
//! has is submitted again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::ClusterError;
use super::journal::{Journal, TaskList};
use super::points::{End, Key, Phase, Points, Share, Verdict};
use super::settings::Settings;
use super::slurm::{Array, Queue, Refusal, Slurm};
use crate::experiment::Sweep;

/// How often the queue is looked at: soon after something happened, and then more and more rarely, as the controller has others to serve.
const FIRST_LOOK: Duration = Duration::from_millis(250);
const LAST_LOOK: Duration = Duration::from_secs(15);
/// How often it is looked whether the user ends it.
const STEP: Duration = Duration::from_millis(50);
/// A task that failed has at most this much time until its words are seen.
const WORDS: Duration = Duration::from_secs(5);

/// What a task runs.
pub struct Program {
    /// Doorbell's own program.
    pub path: PathBuf,
    /// Its cache.
    pub cache: PathBuf,
}

/// What happens on the way. Points are told by the number of their experiment and their own.
#[derive(Debug)]
pub enum Told {
    /// Somebody else submits and watches the same points.
    Held(String),
    /// So many points are to be measured, of which so many are in the queue already.
    ToDo(usize, usize),
    /// A point is measured again, because its results are damaged in this way.
    Damaged((usize, usize), String),
    /// A job of so many tasks was submitted; whether they make boots.
    Submitted(String, usize, bool),
    /// So many tasks run and so many wait, for these reasons.
    Queue(usize, usize, String),
    /// A point is done.
    Done((usize, usize)),
    /// A point is submitted again, for this reason.
    Again((usize, usize), String),
    /// A point is given up.
    Failed((usize, usize)),
    /// The queue cannot be asked, or takes no more, at the moment.
    Trouble(String),
    /// The user ends it; these jobs stay in the queue.
    Left(Vec<String>),
}

/// How it goes on while somebody else has the journal.
enum Waited {
    Interrupted,
    Error(ClusterError),
}

impl From<ClusterError> for Waited {
    fn from(error: ClusterError) -> Waited {
        Waited::Error(error)
    }
}

/// Measures all points that are not done as tasks of the cluster; `folder` has what is known of them.
pub fn measure(
    shares: &[Share],
    (folder, name): (&Path, &str),
    (slurm, settings, program): (&Slurm, &Settings, &Program),
    interrupted: &AtomicBool,
    tell: &mut dyn FnMut(Told),
) -> Result<Vec<Sweep>, ClusterError> {
    let mut told = false;
    let journal = Journal::take(folder, |holder| {
        if !std::mem::replace(&mut told, true) {
            tell(Told::Held(holder.to_owned()));
        }
        if interrupted.load(Ordering::Relaxed) { Err(Waited::Interrupted) } else { Ok(()) }
    });
    let journal = match journal {
        Ok(journal) => journal,
        Err(Waited::Error(error)) => return Err(error),
        Err(Waited::Interrupted) => {
            let sweep = Sweep { interrupted: true, ..Sweep::default() };
            return Ok(vec![sweep; shares.len()]);
        }
    };
    // Only now, as whoever had it may have done it all.
    let points = Points::new(shares, settings.attempts(), &mut |share, index, problem| {
        tell(Told::Damaged((share, index), problem));
    });
    let chunk = slurm.array_max;
    let watch = Watch {
        shares,
        name,
        slurm,
        settings,
        program,
        journal,
        points,
        chunk,
        full_at: None,
        looked: false,
        boots_begun: false,
        shown: None,
        troubled: None,
    };
    watch.run(interrupted, tell)
}

struct Watch<'a> {
    shares: &'a [Share<'a>],
    name: &'a str,
    slurm: &'a Slurm,
    settings: &'a Settings,
    program: &'a Program,
    journal: Journal,
    points: Points,
    /// How many tasks the next array has at most.
    chunk: usize,
    /// With so many in the queue it took no more.
    full_at: Option<usize>,
    /// Whether the queue has answered.
    looked: bool,
    boots_begun: bool,
    shown: Option<(usize, usize, String)>,
    troubled: Option<String>,
}

type Tell<'t> = &'t mut dyn FnMut(Told);

impl Watch<'_> {
    fn run(mut self, interrupted: &AtomicBool, tell: Tell) -> Result<Vec<Sweep>, ClusterError> {
        self.take_up();
        let to_do = self.points.count(|phase| *phase != Phase::Done);
        let (mut first, mut told) = (true, false);
        let mut pause = FIRST_LOOK;
        loop {
            let before = self.points.all.values().map(|point| point.phase.clone()).collect::<Vec<_>>();
            let queue = self.look(tell)?;
            if let Some(queue) = &queue {
                self.follow(queue, std::mem::take(&mut first), tell);
            }
            if to_do > 0 && !std::mem::replace(&mut told, true) {
                tell(Told::ToDo(to_do, self.points.queued()));
            }
            if interrupted.load(Ordering::Relaxed) {
                return Ok(self.left(tell));
            }
            if let Some(queue) = &queue {
                self.submit(queue, tell)?;
                self.show(queue, tell);
                self.forget(queue)?;
            }
            if self.points.queued() == 0 && self.points.waiting().is_empty() {
                return Ok(self.points.sweeps(false));
            }
            let after = self.points.all.values().map(|point| point.phase.clone());
            pause = if before.into_iter().eq(after) { (pause * 3 / 2).min(LAST_LOOK) } else { FIRST_LOOK };
            let until = Instant::now() + pause;
            while Instant::now() < until && !interrupted.load(Ordering::Relaxed) {
                doorbell_files::pause(STEP);
            }
        }
    }

    /// What was submitted before, by this command or another.
    fn take_up(&mut self) {
        for submission in self.journal.submissions().to_vec() {
            let list = TaskList::read(&self.journal.list(&submission.name)).unwrap_or_default();
            self.points.take_up(&submission.name, &list);
            self.boots_begun |= list.tasks.iter().any(|task| task.boot);
        }
    }

    /// The queue, unless it cannot be asked just now. That it never could is an error.
    fn look(&mut self, tell: Tell) -> Result<Option<Queue>, ClusterError> {
        let names: Vec<&str> = self.journal.submissions().iter().map(|own| own.name.as_str()).collect();
        match self.slurm.queue(&names) {
            Ok(queue) => {
                self.looked = true;
                self.troubled = None;
                Ok(Some(queue))
            }
            Err(error) if !self.looked => Err(error),
            Err(error) => {
                self.trouble(&error, tell);
                Ok(None)
            }
        }
    }

    /// Said once, not at every look.
    fn trouble(&mut self, error: &ClusterError, tell: Tell) {
        let said = error.to_string();
        if self.troubled.as_ref() != Some(&said) {
            tell(Told::Trouble(said.clone()));
            self.troubled = Some(said);
        }
    }

    /// What became of the tasks. At the first look, those that ended before are submitted again and not held to have failed.
    fn follow(&mut self, queue: &Queue, first: bool, tell: Tell) {
        let keys: Vec<Key> = self.points.all.keys().cloned().collect();
        for key in keys {
            let point = &self.points.all[&key];
            let Phase::Queued { name, task } = point.phase.clone() else { continue };
            let told = (point.share, point.index);
            let (share, index) = (&self.shares[point.share], point.index);
            let found = queue.get(&name).and_then(|tasks| tasks.get(&task));
            if found.is_some_and(|task| task.is_pending()) {
                continue;
            }
            let identity = &share.identities[index];
            if share.store.point(identity).exists() && share.store.is_done(identity) {
                self.points.done(&key);
                tell(Told::Done(told));
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
            let Some(end) = self.end(&key, (&name, task), state) else { continue };
            match self.points.ended(&key, &end, &self.asked()) {
                Verdict::Again(why) => tell(Told::Again(told, why)),
                Verdict::GivenUp(_) => tell(Told::Failed(told)),
            }
        }
    }

    /// How a task ended that left no results; `None` while they, or its words, may still come.
    fn end(&mut self, key: &Key, (name, task): (&str, usize), state: Option<String>) -> Option<End> {
        let (status, said) = self.journal.said(name, task);
        let point = self.points.all.get_mut(key).expect("it is one of them");
        let since = point.ended.get_or_insert_with(Instant::now).elapsed();
        let settle = self.settings.settle();
        let patience = match state.as_deref() {
            Some("COMPLETED") | None => settle,
            _ => settle.min(WORDS),
        };
        if said.is_empty() && since < patience {
            return None;
        }
        let job = self.journal.submissions().iter().find(|own| own.name == name)?.job.clone();
        let state = state.or_else(|| self.slurm.ended(&job?, task)).unwrap_or_default();
        Some(End { state, status, said })
    }

    /// What was asked of the cluster, in words.
    fn asked(&self) -> String {
        let options = self.settings.options();
        if options.is_empty() { "as the cluster has it".to_owned() } else { options.join(" ") }
    }

    /// Submits what waits, as far as the cluster takes it.
    fn submit(&mut self, queue: &Queue, tell: Tell) -> Result<(), ClusterError> {
        self.submit_boots(tell)?;
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
                let point = &self.points.all[key];
                self.shares[point.share].task(point.index, false)
            });
            let list = TaskList { tasks: tasks.collect() };
            match self.array(self.name, list, at_once, &self.boot_jobs(queue), tell)? {
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
                    self.trouble(&error, tell);
                    return Ok(());
                }
            }
        }
    }

    fn has_submitted(&self) -> bool {
        self.points.count(|phase| matches!(phase, Phase::Done)) > 0 || !self.journal.submissions().is_empty()
    }

    /// The boots that points share, each as a task of its own, once.
    fn submit_boots(&mut self, tell: Tell) -> Result<(), ClusterError> {
        if std::mem::replace(&mut self.boots_begun, true) {
            return Ok(());
        }
        let of = |(share, index): (&Share, usize)| {
            let key = (share.out.clone(), share.identities[index].0.clone());
            (self.points.all[&key].phase == Phase::Waiting).then(|| share.task(index, true))
        };
        let boots = self.shares.iter().flat_map(|share| share.boots.iter().map(move |index| (share, *index)));
        let tasks: Vec<_> = boots.filter_map(of).take(self.slurm.array_max).collect();
        if tasks.is_empty() {
            return Ok(());
        }
        let name = format!("{}-boot", self.name);
        // If they are not taken, whichever point comes first boots, and the points' refusal is told.
        let _ = self.array(&name, TaskList { tasks }, self.settings.concurrency, &[], tell)?;
        Ok(())
    }

    /// Jobs that make boots and have not ended.
    fn boot_jobs(&self, queue: &Queue) -> Vec<String> {
        let makes_boots = |name: &str| {
            TaskList::read(&self.journal.list(name)).is_ok_and(|list| list.tasks.iter().any(|task| task.boot))
        };
        // One that was submitted a moment ago is not in what the queue said before.
        let goes_on =
            |name: &str| queue.get(name).is_none_or(|tasks| tasks.values().any(|task| !task.has_ended()));
        let own = self.journal.submissions().iter();
        own.filter(|own| goes_on(&own.name) && makes_boots(&own.name))
            .filter_map(|own| own.job.clone())
            .collect()
    }

    fn array(
        &mut self,
        name: &str,
        list: TaskList,
        at_once: Option<u32>,
        after: &[String],
        tell: Tell,
    ) -> Result<Result<String, Refusal>, ClusterError> {
        let (count, boot) = (list.tasks.len(), list.tasks.iter().any(|task| task.boot));
        let (name, script) = self.journal.intend(name, list, |list| script(self.program, list))?;
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
                tell(Told::Submitted(job.clone(), count, boot));
                self.journal.submitted(&name, job)?;
                Ok(Ok(name))
            }
            Err(refusal) => {
                self.journal.forget(&BTreeSet::from([name]))?;
                Ok(Err(refusal))
            }
        }
    }

    fn show(&mut self, queue: &Queue, tell: Tell) {
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
        // What was submitted a moment ago is not in what the queue said before, and what has ended is told elsewhere.
        if running + waiting > 0 && self.shown.as_ref() != Some(&now) {
            tell(Told::Queue(now.0, now.1, now.2.clone()));
            self.shown = Some(now);
        }
    }

    /// Forgets the arrays that nothing is to be heard of any more.
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
        // A boot that was submitted a moment ago is not in what the queue said before.
        let seen = |name: &String| queue.contains_key(name) || self.points.queued() == 0;
        let names = self.journal.submissions().iter().map(|own| own.name.clone());
        let over = names.filter(|name| is_over(name) && seen(name)).collect();
        self.journal.forget(&over)
    }

    /// The user ends it.
    fn left(&self, tell: Tell) -> Vec<Sweep> {
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
            tell(Told::Left(jobs));
        }
        self.points.sweeps(true)
    }
}

/// What Slurm runs as each task: this program, in the shell's place, so that signals reach it.
fn script(program: &Program, list: &Path) -> String {
    let quoted = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', r"'\''"));
    format!(
        "#!/bin/sh\nexec {} --cache {} sweep task {} --number \"$SLURM_ARRAY_TASK_ID\"\n",
        quoted(&program.path),
        quoted(&program.cache),
        quoted(list)
    )
}
