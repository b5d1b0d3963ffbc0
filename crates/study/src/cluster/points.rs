//! The points of several experiments, and where each is on its way: to be submitted, in the queue, done, given up.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use super::journal::{Task, TaskList};
use crate::experiment::{Failure, Identity, Plan, State, Store, Sweep};

/// So often a point may be lost to nodes that fail and jobs that matter more.
const LOST_MAX: u32 = 10;
/// If so many have failed and none is done, something is wrong with all of them, and none is tried again.
const FAILED_MAX: usize = 10;

/// An experiment whose points are to be measured.
pub struct Share<'a> {
    /// Its file.
    pub file: PathBuf,
    /// Its results.
    pub out: PathBuf,
    /// Its points.
    pub plan: &'a Plan,
    /// Their identities.
    pub identities: &'a [Identity],
    /// Its results.
    pub store: &'a Store,
    /// Points whose boots are to be made before.
    pub boots: Vec<usize>,
}

impl Share<'_> {
    pub(super) fn task(&self, index: usize, boot: bool) -> Task {
        let point = self.identities[index].0.clone();
        Task { file: self.file.clone(), out: self.out.clone(), point, boot }
    }
}

/// Where a point is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It is to be submitted.
    Waiting,
    /// It is a task of the array of this name.
    Queued { name: String, task: usize },
    /// Its results are there.
    Done,
    /// It is given up.
    Failed(String),
}

/// A point.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub share: usize,
    pub index: usize,
    pub phase: Phase,
    /// When its task was first seen to have ended.
    pub ended: Option<Instant>,
    /// How often it has failed, and how often it was lost for no fault of its own.
    failed: u32,
    lost: u32,
}

/// What is to become of a point whose task ended without results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is submitted again, for this reason.
    Again(String),
    /// It is given up.
    GivenUp(String),
}

/// How a task ended without results.
pub(super) struct End {
    /// Slurm's word; empty if nobody knows it.
    pub state: String,
    /// The exit status that it told itself.
    pub status: Option<u8>,
    /// What it said last.
    pub said: String,
}

/// A point is named by where its results go and its identity.
pub(super) type Key = (PathBuf, String);

pub(super) struct Points {
    pub all: BTreeMap<Key, Point>,
    skipped: Vec<usize>,
    measured: Vec<usize>,
    attempts: u32,
}

impl Points {
    /// Looks at which are done; a damaged one is told.
    pub fn new(shares: &[Share], attempts: u32, damaged: &mut dyn FnMut(usize, usize, String)) -> Points {
        let mut all = BTreeMap::new();
        let mut skipped = vec![0; shares.len()];
        for (share, own) in shares.iter().enumerate() {
            for (index, identity) in own.identities.iter().enumerate() {
                let key = (own.out.clone(), identity.0.clone());
                if all.contains_key(&key) {
                    // Two points of one identity are measured once.
                    skipped[share] += 1;
                    continue;
                }
                let phase = match own.store.state(identity) {
                    State::Done => Phase::Done,
                    State::Missing => Phase::Waiting,
                    State::Damaged(problem) => {
                        damaged(share, index, problem);
                        Phase::Waiting
                    }
                };
                skipped[share] += usize::from(phase == Phase::Done);
                all.insert(key, Point { share, index, phase, ended: None, failed: 0, lost: 0 });
            }
        }
        Points { all, skipped, measured: vec![0; shares.len()], attempts }
    }

    /// Takes what an array that was submitted before has of them.
    pub fn take_up(&mut self, name: &str, list: &TaskList) {
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

    /// The points that are to be submitted, in the order of their experiments.
    pub fn waiting(&self) -> Vec<Key> {
        let mut waiting: Vec<(&Key, &Point)> =
            self.all.iter().filter(|(_, point)| point.phase == Phase::Waiting).collect();
        waiting.sort_by_key(|(_, point)| (point.share, point.index));
        waiting.into_iter().map(|(key, _)| key.clone()).collect()
    }

    pub fn done(&mut self, key: &Key) {
        let point = self.all.get_mut(key).expect("it is one of them");
        point.phase = Phase::Done;
        self.measured[point.share] += 1;
    }

    /// A task ended without results.
    pub fn ended(&mut self, key: &Key, end: &End, settings: &str) -> Verdict {
        let hopeless = self.measured.iter().sum::<usize>() == 0
            && self.count(|phase| matches!(phase, Phase::Failed(_))) >= FAILED_MAX;
        let attempts = self.attempts;
        let point = self.all.get_mut(key).expect("it is one of them");
        point.ended = None;
        let verdict = judge(point, end, if hopeless { 1 } else { attempts }, settings);
        point.phase = match &verdict {
            Verdict::Again(_) => Phase::Waiting,
            Verdict::GivenUp(problem) => Phase::Failed(problem.clone()),
        };
        verdict
    }

    /// How each experiment went.
    pub fn sweeps(&self, interrupted: bool) -> Vec<Sweep> {
        let sweep = |share: usize| {
            let mut failures: Vec<Failure> = self
                .all
                .values()
                .filter(|point| point.share == share)
                .filter_map(|point| match &point.phase {
                    Phase::Failed(problem) => Some(Failure { index: point.index, problem: problem.clone() }),
                    _ => None,
                })
                .collect();
            failures.sort_by_key(|failure| failure.index);
            Sweep { skipped: self.skipped[share], measured: self.measured[share], failures, interrupted }
        };
        (0..self.skipped.len()).map(sweep).collect()
    }
}

fn judge(point: &mut Point, end: &End, attempts: u32, settings: &str) -> Verdict {
    let said = if end.said.is_empty() { String::new() } else { format!("\n{}", end.said) };
    let known = |what: &str| format!("{what} ({}){said}", end.state);
    match word(end).as_str() {
        "TIMEOUT" | "DEADLINE" => Verdict::GivenUp(format!(
            "it took longer than a job may; say more with time in [cluster] or --time ({settings}){said}"
        )),
        "OUT_OF_MEMORY" => Verdict::GivenUp(format!(
            "it took more memory than a job may; say more with memory in [cluster] or --memory ({settings}){said}"
        )),
        "CANCELLED" => Verdict::GivenUp(known("somebody cancelled it")),
        lost @ ("PREEMPTED" | "NODE_FAIL" | "BOOT_FAIL" | "REVOKED") => {
            point.lost += 1;
            let why = if lost == "PREEMPTED" { "another job took its node" } else { "its node failed" };
            if point.lost > LOST_MAX {
                return Verdict::GivenUp(format!("{}, {} times", known(why), point.lost));
            }
            Verdict::Again(known(why))
        }
        _ => {
            point.failed += 1;
            let state = if end.state.is_empty() { "nobody says how" } else { &end.state };
            let problem = match end.said.as_str() {
                "" => format!(
                    "its task ended ({state}) and left neither results nor a word. Are the results' folder, Doorbell's program and \
                     its cache on a file system that compute nodes see? Name others with --out and --cache"
                ),
                said => format!("its task ended ({state}):\n{said}"),
            };
            // Wrong use is wrong however often it is tried.
            if end.status == Some(2) || point.failed >= attempts {
                Verdict::GivenUp(problem)
            } else {
                Verdict::Again(problem)
            }
        }
    }
}

/// Slurm's word for how a task ended; where nobody keeps accounts, slurmstepd has written it where the task wrote.
fn word(end: &End) -> String {
    if !end.state.is_empty() {
        return end.state.clone();
    }
    let said = |part: &str| end.said.contains(part);
    let word = match () {
        () if said("DUE TO TIME LIMIT") => "TIMEOUT",
        () if said("DUE TO PREEMPTION") => "PREEMPTED",
        () if said("DUE TO NODE FAILURE") => "NODE_FAIL",
        () if said("oom_kill") || said("oom-kill") => "OUT_OF_MEMORY",
        () if said("slurmstepd") && said("CANCELLED AT") => "CANCELLED",
        () => "",
    };
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point() -> Point {
        Point { share: 0, index: 0, phase: Phase::Waiting, ended: None, failed: 0, lost: 0 }
    }

    fn end(state: &str, status: Option<u8>, said: &str) -> End {
        End { state: state.to_owned(), status, said: said.to_owned() }
    }

    fn is_tried_again(point: &mut Point, end: &End) -> bool {
        matches!(judge(point, end, 3, "as the cluster has it"), Verdict::Again(_))
    }

    #[test]
    fn what_fails_is_tried_three_times_and_what_is_wrong_once() {
        let mut own = point();
        let failed = end("FAILED", Some(1), "no space");
        assert_eq!([0; 3].map(|_| is_tried_again(&mut own, &failed)), [true, true, false]);
        assert!(!is_tried_again(&mut point(), &end("FAILED", Some(2), "no such key")));
        for state in ["TIMEOUT", "OUT_OF_MEMORY", "CANCELLED", "DEADLINE"] {
            assert!(!is_tried_again(&mut point(), &end(state, Some(130), "interrupted")), "{state}");
        }
    }

    #[test]
    fn what_is_lost_for_no_fault_of_its_own_is_tried_longer_but_not_for_ever() {
        let mut own = point();
        let again = (0..).take_while(|_| is_tried_again(&mut own, &end("PREEMPTED", None, ""))).count();
        assert_eq!(again as u32, LOST_MAX);
        assert_eq!(own.failed, 0);
    }

    #[test]
    fn where_no_accounts_are_kept_the_log_says_it() {
        for (said, state) in [
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
            assert_eq!(word(&end("", None, said)), state, "{said}");
        }
        assert_eq!(word(&end("FAILED", None, "DUE TO TIME LIMIT")), "FAILED");
    }
}
