//! The points of several experiments, and the state of each: waiting, in the queue, done or failed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use super::journal::{Task, TaskList};
use crate::experiment::{Failure, Identity, State, Store, Sweep};

/// Maximum number of times that a point's task may be lost to node failures and preemption.
const LOST_MAX: u32 = 10;
/// If this many points have failed and none is done, the cause is probably common, and points are not
/// retried.
const FAILED_MAX: usize = 10;

/// An experiment to be measured on the cluster.
pub struct ClusterExperiment<'a> {
    /// Path of its file.
    pub file: PathBuf,
    /// Path of its result folder.
    pub out: PathBuf,
    /// Identities of its points.
    pub identities: &'a [Identity],
    /// Its result store.
    pub store: &'a Store,
    /// Points whose boots must be created first.
    pub boots: Vec<usize>,
}

impl ClusterExperiment<'_> {
    pub(super) fn task(&self, index: usize, boot: bool) -> Task {
        let point = self.identities[index].0.clone();
        Task { file: self.file.clone(), out: self.out.clone(), point, boot }
    }
}

/// State of a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// To be submitted.
    Waiting,
    /// A task of the array with this name.
    Queued { name: String, task: usize },
    /// Its results exist.
    Done,
    /// Failed for good, with the reason.
    Failed(String),
}

/// Position of a point in a list of experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PointId {
    /// Index of its experiment.
    pub experiment: usize,
    /// Its index in the experiment.
    pub index: usize,
}

/// A point.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub id: PointId,
    pub phase: Phase,
    /// When the end of its task was first observed.
    pub ended: Option<Instant>,
    /// Number of failures, and number of losses caused by the cluster.
    failed: u32,
    lost: u32,
}

/// Decision for a point whose task ended without results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Resubmit it; the reason.
    Retry(String),
    /// Give it up; the reason.
    GivenUp(String),
}

/// How a task ended without results.
pub(super) struct End {
    /// Slurm's job state; empty if unknown.
    pub state: String,
    /// Exit status that the task recorded.
    pub status: Option<u8>,
    /// End of its output.
    pub output: String,
}

/// A point is identified by its result folder and its identity.
pub(super) type Key = (PathBuf, String);

pub(super) struct Points {
    pub all: BTreeMap<Key, Point>,
    skipped: Vec<usize>,
    measured: Vec<usize>,
    attempts: u32,
}

impl Points {
    /// Determines which points are done. Damaged results are reported through `damaged`.
    pub fn new(
        experiments: &[ClusterExperiment],
        attempts: u32,
        damaged: &mut dyn FnMut(PointId, String),
    ) -> Points {
        let mut all = BTreeMap::new();
        let mut skipped = vec![0; experiments.len()];
        for (experiment, own) in experiments.iter().enumerate() {
            for (index, identity) in own.identities.iter().enumerate() {
                let id = PointId { experiment, index };
                let key = (own.out.clone(), identity.0.clone());
                if all.contains_key(&key) {
                    // Points with the same identity are measured once.
                    skipped[experiment] += 1;
                    continue;
                }
                let phase = match own.store.state(identity) {
                    State::Done => Phase::Done,
                    State::Missing => Phase::Waiting,
                    State::Damaged(problem) => {
                        damaged(id, problem);
                        Phase::Waiting
                    }
                };
                skipped[experiment] += usize::from(phase == Phase::Done);
                all.insert(key, Point { id, phase, ended: None, failed: 0, lost: 0 });
            }
        }
        Points { all, skipped, measured: vec![0; experiments.len()], attempts }
    }

    /// Marks the points that an earlier array contains as queued.
    pub fn adopt(&mut self, name: &str, list: &TaskList) {
        for (number, task) in list.tasks.iter().enumerate().filter(|(_, task)| !task.boot) {
            if let Some(point) = self.all.get_mut(&(task.out.clone(), task.point.clone()))
                && point.phase != Phase::Done
            {
                point.phase = Phase::Queued { name: name.to_owned(), task: number };
            }
        }
    }

    pub fn count(&self, is: impl Fn(&Phase) -> bool) -> usize {
        self.all.values().filter(|point| is(&point.phase)).count()
    }

    pub fn queued(&self) -> usize {
        self.count(|phase| matches!(phase, Phase::Queued { .. }))
    }

    /// The points to be submitted, in the order of their experiments.
    pub fn waiting(&self) -> Vec<Key> {
        let mut waiting: Vec<(&Key, &Point)> =
            self.all.iter().filter(|(_, point)| point.phase == Phase::Waiting).collect();
        waiting.sort_by_key(|(_, point)| point.id);
        waiting.into_iter().map(|(key, _)| key.clone()).collect()
    }

    pub fn done(&mut self, key: &Key) {
        let point = self.all.get_mut(key).expect("it is one of them");
        point.phase = Phase::Done;
        self.measured[point.id.experiment] += 1;
    }

    /// Handles a task that ended without results.
    pub fn ended(&mut self, key: &Key, end: &End, settings: &str) -> Verdict {
        let all_failed = self.measured.iter().sum::<usize>() == 0
            && self.count(|phase| matches!(phase, Phase::Failed(_))) >= FAILED_MAX;
        let attempts = self.attempts;
        let point = self.all.get_mut(key).expect("it is one of them");
        point.ended = None;
        let verdict = judge(point, end, if all_failed { 1 } else { attempts }, settings);
        point.phase = match &verdict {
            Verdict::Retry(_) => Phase::Waiting,
            Verdict::GivenUp(problem) => Phase::Failed(problem.clone()),
        };
        verdict
    }

    /// Result of each experiment.
    pub fn sweeps(&self, interrupted: bool) -> Vec<Sweep> {
        let sweep = |experiment: usize| {
            let mut failures: Vec<Failure> = self
                .all
                .values()
                .filter(|point| point.id.experiment == experiment)
                .filter_map(|point| match &point.phase {
                    Phase::Failed(problem) => {
                        Some(Failure { index: point.id.index, problem: problem.clone() })
                    }
                    _ => None,
                })
                .collect();
            failures.sort_by_key(|failure| failure.index);
            Sweep {
                skipped: self.skipped[experiment],
                measured: self.measured[experiment],
                failures,
                interrupted,
            }
        };
        (0..self.skipped.len()).map(sweep).collect()
    }
}

fn judge(point: &mut Point, end: &End, attempts: u32, settings: &str) -> Verdict {
    let output = if end.output.is_empty() { String::new() } else { format!("\n{}", end.output) };
    let with_state = |what: &str| format!("{what} ({}){output}", end.state);
    match final_state(end).as_str() {
        "TIMEOUT" | "DEADLINE" => Verdict::GivenUp(format!(
            "it took longer than a job may; raise the limit with time in [cluster] or --time ({settings}){output}"
        )),
        "OUT_OF_MEMORY" => Verdict::GivenUp(format!(
            "it used more memory than a job may; raise the limit with memory in [cluster] or --memory ({settings}){output}"
        )),
        "CANCELLED" => Verdict::GivenUp(with_state("it was cancelled")),
        lost @ ("PREEMPTED" | "NODE_FAIL" | "BOOT_FAIL" | "REVOKED") => {
            point.lost += 1;
            let why = if lost == "PREEMPTED" { "another job took its node" } else { "its node failed" };
            if point.lost > LOST_MAX {
                return Verdict::GivenUp(format!("{}, {} times", with_state(why), point.lost));
            }
            Verdict::Retry(with_state(why))
        }
        _ => {
            point.failed += 1;
            let state = if end.state.is_empty() { "unknown state" } else { &end.state };
            let problem = match end.output.as_str() {
                "" => format!(
                    "its task ended ({state}) and left neither results nor output. Are the result folder, Doorbell's program and \
                     its cache on a file system that the compute nodes share? Choose others with --out and --cache"
                ),
                output => format!("its task ended ({state}):\n{output}"),
            };
            // Usage errors are permanent.
            if end.status == Some(2) || point.failed >= attempts {
                Verdict::GivenUp(problem)
            } else {
                Verdict::Retry(problem)
            }
        }
    }
}

/// Slurm's final state of a task. Without accounting, it is derived from the message that slurmstepd writes
/// to the task's log.
fn final_state(end: &End) -> String {
    if !end.state.is_empty() {
        return end.state.clone();
    }
    let output = |part: &str| end.output.contains(part);
    let state = match () {
        () if output("DUE TO TIME LIMIT") => "TIMEOUT",
        () if output("DUE TO PREEMPTION") => "PREEMPTED",
        () if output("DUE TO NODE FAILURE") => "NODE_FAIL",
        () if output("oom_kill") || output("oom-kill") => "OUT_OF_MEMORY",
        () if output("slurmstepd") && output("CANCELLED AT") => "CANCELLED",
        () => "",
    };
    state.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point() -> Point {
        Point {
            id: PointId { experiment: 0, index: 0 },
            phase: Phase::Waiting,
            ended: None,
            failed: 0,
            lost: 0,
        }
    }

    fn end(state: &str, status: Option<u8>, output: &str) -> End {
        End { state: state.to_owned(), status, output: output.to_owned() }
    }

    fn is_retried(point: &mut Point, end: &End) -> bool {
        matches!(judge(point, end, 3, "cluster defaults"), Verdict::Retry(_))
    }

    #[test]
    fn failures_are_retried_up_to_the_limit_and_usage_errors_are_not() {
        let mut own = point();
        let failed = end("FAILED", Some(1), "no space");
        assert_eq!([0; 3].map(|_| is_retried(&mut own, &failed)), [true, true, false]);
        assert!(!is_retried(&mut point(), &end("FAILED", Some(2), "no such key")));
        for state in ["TIMEOUT", "OUT_OF_MEMORY", "CANCELLED", "DEADLINE"] {
            assert!(!is_retried(&mut point(), &end(state, Some(130), "interrupted")), "{state}");
        }
    }

    #[test]
    fn tasks_lost_to_the_cluster_are_retried_more_often_but_finitely() {
        let mut own = point();
        let again = (0..).take_while(|_| is_retried(&mut own, &end("PREEMPTED", None, ""))).count();
        assert_eq!(again as u32, LOST_MAX);
        assert_eq!(own.failed, 0);
    }

    #[test]
    fn without_accounting_the_state_is_read_from_the_log() {
        for (output, state) in [
            (
                "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***",
                "TIMEOUT",
            ),
            (
                "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO PREEMPTION ***",
                "PREEMPTED",
            ),
            ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***", "CANCELLED"),
            ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch", "OUT_OF_MEMORY"),
            ("doorbell: no space", ""),
        ] {
            assert_eq!(final_state(&end("", None, output)), state, "{output}");
        }
        assert_eq!(final_state(&end("FAILED", None, "DUE TO TIME LIMIT")), "FAILED");
    }
}
