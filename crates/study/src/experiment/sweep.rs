//! Measures all unfinished points of an experiment on several cores. Each runs in its own process, so that a
//! crash does not affect the others.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::plan::{Identity, Plan};
use super::store::{State, Store};

/// Interval at which the processes are polled.
const LOOK: Duration = Duration::from_millis(20);
/// Maximum length of standard error kept for a failure report, in bytes.
const STDERR_MAX: usize = 2000;

/// A point that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Index of the point.
    pub index: usize,
    /// Exit status of its process, and its last output.
    pub problem: String,
}

/// Result of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    /// Number of points that were already finished.
    pub skipped: usize,
    /// Number of points measured.
    pub measured: usize,
    /// Points that failed.
    pub failures: Vec<Failure>,
    /// Whether the user interrupted it.
    pub interrupted: bool,
}

/// Progress of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A point's stored results are damaged as described; it is measured again.
    Damaged(usize, String),
    /// Number of points to be measured.
    ToDo(usize),
    /// Measuring a point has started.
    Started(usize),
    /// The last progress line on the standard output of a point's process.
    At(usize, String),
    /// A point is finished.
    Done(usize),
    /// A point failed.
    Failed(usize),
}

struct Running {
    index: usize,
    child: Child,
    /// Standard error, read by a thread so that the process never blocks on it.
    stderr_reader: std::thread::JoinHandle<String>,
    /// The last line on standard output that was not reported yet, read by another thread.
    at: Arc<Mutex<Option<String>>>,
}

/// Measures every unfinished point, at most `jobs` at once; `command` creates the process of a point.
pub fn sweep(
    plan: &Plan,
    identities: &[Identity],
    store: &Store,
    jobs: usize,
    command: &dyn Fn(usize) -> Command,
    interrupted: &AtomicBool,
    report: &mut dyn FnMut(Progress),
) -> Sweep {
    let mut result = Sweep::default();
    // Points with the same identity are measured once.
    let mut queued = std::collections::BTreeSet::new();
    let mut waiting: VecDeque<usize> = plan
        .in_rounds()
        .into_iter()
        .filter(|&index| match store.state(&identities[index]) {
            State::Done => false,
            State::Missing => queued.insert(&identities[index]),
            State::Damaged(problem) => {
                let first = queued.insert(&identities[index]);
                if first {
                    report(Progress::Damaged(index, problem));
                }
                first
            }
        })
        .collect();
    result.skipped = plan.points.len() - waiting.len();
    report(Progress::ToDo(waiting.len()));
    let mut running: Vec<Running> = Vec::new();
    while !(waiting.is_empty() && running.is_empty()) {
        if interrupted.load(Ordering::Relaxed) {
            result.interrupted = true;
            stop(running);
            break;
        }
        while running.len() < jobs.max(1)
            && let Some(index) = waiting.pop_front()
        {
            match begin(index, command(index)) {
                Ok(process) => {
                    report(Progress::Started(index));
                    running.push(process);
                }
                Err(error) => {
                    report(Progress::Failed(index));
                    result.failures.push(Failure { index, problem: format!("cannot be started: {error}") });
                }
            }
        }
        let (ended, still): (Vec<_>, Vec<_>) = running
            .into_iter()
            .map(|mut r| (r.child.try_wait(), r))
            .partition(|(status, _)| !matches!(status, Ok(None)));
        running = still.into_iter().map(|(_, process)| process).collect();
        for Running { index, at, .. } in &running {
            if let Some(line) = at.lock().unwrap_or_else(PoisonError::into_inner).take() {
                report(Progress::At(*index, line));
            }
        }
        if ended.is_empty() {
            doorbell_files::pause(LOOK);
        }
        for (status, process) in ended {
            let stderr = process.stderr_reader.join().unwrap_or_default();
            let index = process.index;
            // The stored result decides, not the exit status of the process.
            if store.is_done(&identities[index]) {
                result.measured += 1;
                report(Progress::Done(index));
            } else if !interrupted.load(Ordering::Relaxed) {
                let status = status.map_or_else(
                    |error| error.to_string(),
                    |status| status.map_or_else(String::new, |status| status.to_string()),
                );
                report(Progress::Failed(index));
                result.failures.push(Failure { index, problem: format!("{status}\n{}", stderr.trim_end()) });
            }
        }
    }
    result.interrupted |= interrupted.load(Ordering::Relaxed);
    result
}

fn begin(index: usize, mut command: Command) -> std::io::Result<Running> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = doorbell_files::spawn(&mut command)?;
    let mut stderr = child.stderr.take().expect("it was piped");
    let stderr_reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = stderr.read(&mut chunk) {
            bytes.extend_from_slice(&chunk[..count]);
            let over = bytes.len().saturating_sub(STDERR_MAX);
            bytes.drain(..over);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let at = Arc::new(Mutex::new(None));
    let (stdout, last) = (child.stdout.take().expect("it was piped"), Arc::clone(&at));
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
        }
    });
    Ok(Running { index, child, stderr_reader, at })
}

/// Kills the processes. An unfinished point leaves no valid data, so they need not stop cleanly.
fn stop(running: Vec<Running>) {
    for mut process in running {
        // The process may have just exited.
        let _ = process.child.kill();
        let _ = process.child.wait();
        let _ = process.stderr_reader.join();
    }
}
