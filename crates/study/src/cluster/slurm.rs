//! Slurm commands and their output.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

use super::ClusterError;
use super::settings::Settings;

/// Default of MaxArraySize in slurm.conf(5).
const MAX_ARRAY_SIZE: usize = 1001;
/// Maximum length of a command's error output that is passed on.
const MESSAGE_MAX: usize = 600;

/// Slurm on this machine.
#[derive(Debug)]
pub struct Slurm {
    /// Maximum number of tasks in an array.
    pub array_max: usize,
}

/// An array to be submitted.
pub(super) struct Array<'a> {
    /// Job name, by which the queue is queried.
    pub name: &'a str,
    pub script: &'a Path,
    /// Number of tasks, numbered from 0.
    pub count: usize,
    /// Maximum number of tasks that run at once.
    pub at_once: Option<u32>,
    /// Jobs that must end before it starts.
    pub after: &'a [String],
    /// Path pattern of the tasks' output, in the format of sbatch's --output.
    pub log: String,
    pub settings: &'a Settings,
}

/// Why an array was rejected.
#[derive(Debug)]
pub(super) enum Refusal {
    /// Too many tasks: a smaller array, or a later submission, may be accepted.
    TooMany(ClusterError),
    /// The controller does not answer.
    Unreachable(ClusterError),
    /// The request is invalid.
    Wrong(ClusterError),
}

/// A task in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Queued {
    /// Slurm's job state, such as PENDING.
    pub state: String,
    /// Reason why it is pending.
    pub reason: String,
}

impl Queued {
    /// Whether the task has ended. An unknown state counts as not ended.
    pub fn has_ended(&self) -> bool {
        has_ended(&self.state)
    }

    pub fn is_pending(&self) -> bool {
        self.state.starts_with("PENDING") || self.state.starts_with("REQUEUE")
    }
}

/// Final job states, from squeue(1).
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

/// Tasks in the queue, by job name and task number.
pub(super) type Queue = BTreeMap<String, BTreeMap<usize, Queued>>;

impl Slurm {
    /// Checks that Slurm is available, and reads its limits.
    pub fn find() -> Result<Slurm, ClusterError> {
        // Run first because it has no side effects.
        output("squeue", Command::new("squeue").arg("--version"))?;
        output("sbatch", Command::new("sbatch").arg("--version"))?;
        let shown = output("scontrol", Command::new("scontrol").args(["show", "config"]));
        let array_max = shown.ok().and_then(|text| array_size(&text)).unwrap_or(MAX_ARRAY_SIZE);
        Ok(Slurm { array_max: array_max.max(1) })
    }

    /// Submits an array and returns its job ID. sbatch inherits the lock, so that the lock is held until
    /// sbatch ends even if this process is killed.
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
        let message = output("sbatch", &mut command).map_err(refusal)?;
        // Output is the job ID, optionally followed by a semicolon and the cluster's name. Warnings may
        // precede it.
        let last = message.lines().last().unwrap_or_default();
        let job = last.split(';').next().unwrap_or_default().trim();
        if job.is_empty() || !job.bytes().all(|byte| byte.is_ascii_digit()) {
            let message = format!("expected a job ID, got {last:?}");
            return Err(Refusal::Wrong(failed("sbatch", message)));
        }
        Ok(job.to_owned())
    }

    /// Queries the tasks of jobs with these names.
    pub(super) fn queue(&self, names: &[&str]) -> Result<Queue, ClusterError> {
        let mut queue = Queue::new();
        if names.is_empty() {
            return Ok(queue);
        }
        let mut command = Command::new("squeue");
        // The user's SQUEUE_ variables must not hide any tasks.
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

    /// Final state of a task that is no longer in the queue, if Slurm accounting is enabled.
    pub(super) fn ended(&self, job: &str, task: usize) -> Option<String> {
        let mut command = Command::new("sacct");
        command.args(["--noheader", "--parsable2", "--allocations", "--format=State"]);
        command.arg(format!("--jobs={job}_{task}"));
        let message = output("sacct", &mut command).ok()?;
        // The state may be "CANCELLED by 1000". A requeued task has several lines, of which the last counts.
        let word = message.lines().last()?.split_whitespace().next()?.to_owned();
        has_ended(&word).then_some(word)
    }

    /// Names of the available partitions.
    fn partitions() -> Option<String> {
        let message = output("sinfo", Command::new("sinfo").args(["--noheader", "--format=%R"])).ok()?;
        let names: Vec<&str> = message.split_whitespace().collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

fn array_size(config: &str) -> Option<usize> {
    let line = config.lines().find(|line| line.trim_start().starts_with("MaxArraySize"))?;
    line.split('=').nth(1)?.trim().parse().ok()
}

fn failed(command: &'static str, message: String) -> ClusterError {
    ClusterError::Slurm { command, message, hint: String::new() }
}

/// Runs a command and returns its output.
fn output(name: &'static str, command: &mut Command) -> Result<String, ClusterError> {
    // The output is parsed, so it must not depend on the user's locale or time format.
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
    let message = String::from_utf8_lossy(&done.stderr);
    let prefix = format!("{name}: error: ");
    let lines = message.trim().lines().map(|line| line.strip_prefix(&prefix).unwrap_or(line));
    let message: String = lines.collect::<Vec<_>>().join("; ").chars().take(MESSAGE_MAX).collect();
    Err(failed(name, if message.is_empty() { done.status.to_string() } else { message }))
}

/// Classifies an error of sbatch; the texts are those of Slurm's slurm_errno.c.
fn refusal(error: ClusterError) -> Refusal {
    let ClusterError::Slurm { command, message, .. } = &error else { return Refusal::Wrong(error) };
    let any = |words: &[&str]| words.iter().any(|word| message.contains(word));
    let hinted = |hint: String| ClusterError::Slurm { command, message: message.clone(), hint };
    if any(&["Unable to contact", "Socket timed out", "Connection refused", "Zero Bytes were transmitted"]) {
        return Refusal::Unreachable(hinted(
            "\nThe cluster's controller does not answer; check it with `sinfo`.".to_owned(),
        ));
    }
    if any(&["Invalid job array", "SubmitLimit", "SubmitJob", "job submit limit", "MaxJobCount", "Too many"])
    {
        return Refusal::TooMany(hinted(
            "\nThe cluster takes no more jobs of this user at once (MaxSubmitJobs, MaxJobCount) or no arrays \
             (MaxArraySize); repeat the same command when some have ended."
                .to_owned(),
        ));
    }
    let key = |what: &str| {
        format!("Set {what} in [cluster] of the experiment's file, or with the option --{what}.")
    };
    let hint = if any(&["Invalid account"]) {
        format!("\n{} `sacctmgr show associations user=$USER` lists your accounts.", key("account"))
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
    fn sbatch_errors_are_classified() {
        let refused = |message: &str| refusal(failed("sbatch", message.to_owned()));
        let failed = "Batch job submission failed: ";
        for message in ["Invalid job array specification", "AssocMaxSubmitJobLimit"] {
            assert!(matches!(refused(&format!("{failed}{message}")), Refusal::TooMany(_)), "{message}");
        }
        let message = "Unable to contact slurm controller (connect failure)";
        assert!(matches!(refused(&format!("{failed}{message}")), Refusal::Unreachable(_)));
        let Refusal::Wrong(error) =
            refused(&format!("{failed}Requested time limit is invalid (missing or exceeds some limit)"))
        else {
            panic!("expected Refusal::Wrong");
        };
        assert!(error.to_string().contains("--time"), "{error}");
    }

    #[test]
    fn job_states_and_the_array_size_are_parsed() {
        let config = "MaxArraySize            = 501\nMaxJobCount             = 10000\n";
        assert_eq!(array_size(config), Some(501));
        let queued = |state: &str| Queued { state: state.to_owned(), reason: String::new() };
        assert!(queued("TIMEOUT").has_ended() && !queued("COMPLETING").has_ended());
        assert!(queued("PENDING").is_pending() && !queued("RUNNING").is_pending());
        assert!(!queued("A_NEW_WORD").has_ended());
    }
}
