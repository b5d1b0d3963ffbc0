//! The commands of Slurm's, and what they say.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

use super::ClusterError;
use super::settings::Settings;

/// slurm.conf(5): MaxArraySize, where nobody says otherwise.
const MAX_ARRAY_SIZE: usize = 1001;
/// Of what a command says, so much is passed on.
const SAID_MAX: usize = 600;

/// The Slurm of this machine.
#[derive(Debug)]
pub struct Slurm {
    /// How many tasks an array may have.
    pub array_max: usize,
}

/// An array that is to be submitted.
pub(super) struct Array<'a> {
    /// The jobs' name, by which the queue is asked for them.
    pub name: &'a str,
    pub script: &'a Path,
    /// Tasks, from 0.
    pub count: usize,
    /// How many run at once.
    pub at_once: Option<u32>,
    /// Jobs after whose ends it begins.
    pub after: &'a [String],
    /// Where a task's output goes, as sbatch's --output has it.
    pub log: String,
    pub settings: &'a Settings,
}

/// Why an array was not taken.
#[derive(Debug)]
pub(super) enum Refusal {
    /// So many tasks are not taken, but fewer may be, or these later.
    TooMany(ClusterError),
    /// Nobody answers.
    Unreachable(ClusterError),
    /// It never will be.
    Wrong(ClusterError),
}

/// A task as the queue has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Queued {
    /// Slurm's word, such as PENDING.
    pub state: String,
    /// Why it waits.
    pub reason: String,
}

impl Queued {
    /// Whether Slurm has done with it. A word that is not known is taken for one of a task that is still under way.
    pub fn has_ended(&self) -> bool {
        has_ended(&self.state)
    }

    pub fn is_pending(&self) -> bool {
        self.state.starts_with("PENDING") || self.state.starts_with("REQUEUE")
    }
}

/// squeue(1), job state codes: those after which nothing comes.
fn has_ended(state: &str) -> bool {
    [
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    ]
    .contains(&state)
}

/// What the queue has of jobs by their names, by task.
pub(super) type Queue = BTreeMap<String, BTreeMap<usize, Queued>>;

impl Slurm {
    /// Finds out whether there is one, and what it takes.
    pub fn find() -> Result<Slurm, ClusterError> {
        // Asked first, as it changes nothing.
        output("squeue", Command::new("squeue").arg("--version"))?;
        output("sbatch", Command::new("sbatch").arg("--version"))?;
        let shown = output("scontrol", Command::new("scontrol").args(["show", "config"]));
        let array_max = shown.ok().and_then(|text| array_size(&text)).unwrap_or(MAX_ARRAY_SIZE);
        Ok(Slurm { array_max: array_max.max(1) })
    }

    /// Submits an array; its job's number. If this process is killed meanwhile, sbatch has the lock until it ends.
    pub(super) fn submit(&self, array: &Array, lock: &File) -> Result<String, Refusal> {
        let at_once = array.at_once.map_or(String::new(), |count| format!("%{count}"));
        let mut command = Command::new("sbatch");
        command.arg("--parsable").arg(format!("--job-name={}", array.name));
        command.arg(format!("--array=0-{}{at_once}", array.count - 1));
        command.arg(format!("--output={}", array.log)).args(["--open-mode=append", "--requeue"]);
        if !array.after.is_empty() {
            command.arg(format!("--dependency=afterany:{}", array.after.join(":")));
        }
        command.args(array.settings.options()).arg(array.script);
        let shared = lock.try_clone().map_err(|error| {
            Refusal::Wrong(ClusterError::Io { action: "share", path: array.script.into(), error })
        })?;
        command.stdin(shared);
        let said = output("sbatch", &mut command).map_err(refusal)?;
        // The job's number, and behind a semicolon the cluster's name; warnings may stand before.
        let last = said.lines().last().unwrap_or_default();
        let job = last.split(';').next().unwrap_or_default().trim();
        if job.is_empty() || !job.bytes().all(|byte| byte.is_ascii_digit()) {
            let said = format!("it says no job's number, but {last:?}");
            return Err(Refusal::Wrong(failed("sbatch", said)));
        }
        Ok(job.to_owned())
    }

    /// What the queue has of jobs with these names.
    pub(super) fn queue(&self, names: &[&str]) -> Result<Queue, ClusterError> {
        let mut queue = Queue::new();
        if names.is_empty() {
            return Ok(queue);
        }
        let mut command = Command::new("squeue");
        // The user's own habits must not hide any.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("SQUEUE_") {
                command.env_remove(name);
            }
        }
        command.args(["--noheader", "--array", "--states=all", "--format=%i|%T|%j|%r"]);
        command.arg(format!("--name={}", names.join(",")));
        for line in output("squeue", &mut command)?.lines() {
            let mut fields = line.trim().splitn(4, '|');
            let mut next = || fields.next().unwrap_or_default().trim().to_owned();
            let (task, state, name, reason) = (next(), next(), next(), next());
            let number = task.rsplit_once('_').and_then(|(_, number)| number.parse().ok());
            if let Some(number) = number {
                queue.entry(name).or_default().insert(number, Queued { state, reason });
            }
        }
        Ok(queue)
    }

    /// How a task of a job ended that the queue no longer has, where accounts are kept.
    pub(super) fn ended(&self, job: &str, task: usize) -> Option<String> {
        let mut command = Command::new("sacct");
        command.args(["--noheader", "--parsable2", "--allocations", "--format=State"]);
        command.arg(format!("--jobs={job}_{task}"));
        let said = output("sacct", &mut command).ok()?;
        // "CANCELLED by 1000"; of one that was begun again, the last counts.
        let word = said.lines().last()?.split_whitespace().next()?.to_owned();
        has_ended(&word).then_some(word)
    }

    /// What an array could not be submitted to, and what there is.
    fn partitions() -> Option<String> {
        let said = output("sinfo", Command::new("sinfo").args(["--noheader", "--format=%R"])).ok()?;
        let names: Vec<&str> = said.split_whitespace().collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

fn array_size(config: &str) -> Option<usize> {
    let line = config.lines().find(|line| line.trim_start().starts_with("MaxArraySize"))?;
    line.split('=').nth(1)?.trim().parse().ok()
}

fn failed(command: &'static str, said: String) -> ClusterError {
    ClusterError::Slurm { command, said, hint: String::new() }
}

/// What a command prints.
fn output(name: &'static str, command: &mut Command) -> Result<String, ClusterError> {
    // What it says is read here, and must not be in the user's language or form.
    command.env("LC_ALL", "C").env_remove("SLURM_TIME_FORMAT");
    if name != "sbatch" {
        command.stdin(Stdio::null());
    }
    let done = command.output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => ClusterError::NoSlurm(name),
        _ => failed(name, error.to_string()),
    })?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let prefix = format!("{name}: error: ");
    let lines = said.trim().lines().map(|line| line.strip_prefix(&prefix).unwrap_or(line));
    let said: String = lines.collect::<Vec<_>>().join("; ").chars().take(SAID_MAX).collect();
    Err(failed(name, if said.is_empty() { done.status.to_string() } else { said }))
}

/// What is to be done about an array that sbatch did not take; the words are those of Slurm's slurm_errno.c.
fn refusal(error: ClusterError) -> Refusal {
    let ClusterError::Slurm { command, said, .. } = &error else { return Refusal::Wrong(error) };
    let any = |words: &[&str]| words.iter().any(|word| said.contains(word));
    let hinted = |hint: String| ClusterError::Slurm { command, said: said.clone(), hint };
    if any(&["Unable to contact", "Socket timed out", "Connection refused", "Zero Bytes were transmitted"]) {
        return Refusal::Unreachable(hinted(
            "\nThe cluster's controller does not answer: `sinfo` says whether it does.".to_owned(),
        ));
    }
    if any(&["Invalid job array", "SubmitLimit", "SubmitJob", "job submit limit", "MaxJobCount", "Too many"])
    {
        return Refusal::TooMany(hinted(
            "\nThe cluster takes no more jobs of this user at once (MaxSubmitJobs, MaxJobCount) or no arrays \
             (MaxArraySize); the same command goes on when some have ended."
                .to_owned(),
        ));
    }
    let key = |what: &str| {
        format!("{what} stands in [cluster] of the experiment's file, or in the option --{what}.")
    };
    let hint = if any(&["Invalid account"]) {
        format!("\n{} `sacctmgr show associations user=$USER` tells yours.", key("account"))
    } else if any(&["artition"]) {
        let there = Slurm::partitions().map_or(String::new(), |names| format!(" There are: {names}."));
        format!("\n{}{there}", key("partition"))
    } else if any(&["ime limit"]) {
        format!("\n{}", key("time"))
    } else if any(&["emory"]) {
        format!("\n{}", key("memory"))
    } else {
        String::new()
    };
    Refusal::Wrong(hinted(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sbatch_says_decides_what_is_done() {
        let refused = |said: &str| refusal(failed("sbatch", said.to_owned()));
        let failed = "Batch job submission failed: ";
        for said in ["Invalid job array specification", "AssocMaxSubmitJobLimit"] {
            assert!(matches!(refused(&format!("{failed}{said}")), Refusal::TooMany(_)), "{said}");
        }
        let said = "Unable to contact slurm controller (connect failure)";
        assert!(matches!(refused(&format!("{failed}{said}")), Refusal::Unreachable(_)));
        let Refusal::Wrong(error) =
            refused(&format!("{failed}Requested time limit is invalid (missing or exceeds some limit)"))
        else {
            panic!("it is wrong");
        };
        assert!(error.to_string().contains("--time"), "{error}");
    }

    #[test]
    fn states_and_the_size_of_arrays_are_read() {
        let config = "MaxArraySize            = 501\nMaxJobCount             = 10000\n";
        assert_eq!(array_size(config), Some(501));
        let queued = |state: &str| Queued { state: state.to_owned(), reason: String::new() };
        assert!(queued("TIMEOUT").has_ended() && !queued("COMPLETING").has_ended());
        assert!(queued("PENDING").is_pending() && !queued("RUNNING").is_pending());
        assert!(!queued("A_NEW_WORD").has_ended());
    }
}
