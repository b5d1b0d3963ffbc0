//! All points of an experiment that are not done, on several cores: each in a process of its own, so that one that crashes takes no
//! other along.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::plan::{Identity, Plan};
use super::store::{State, Store};

/// How often the processes are looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Of what a process said, so much is kept for its failure.
const SAID_MAX: usize = 2000;

/// A point that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which point.
    pub index: usize,
    /// How its process ended, and what it said last.
    pub problem: String,
}

/// How a sweep went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    /// Points that were done before.
    pub skipped: usize,
    /// Points that were measured.
    pub measured: usize,
    /// Points that failed.
    pub failures: Vec<Failure>,
    /// Whether the user stopped it.
    pub interrupted: bool,
}

/// What happens on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A point was measured, but its results are damaged in this way: it is measured again.
    Damaged(usize, String),
    /// So many points are to be measured.
    ToDo(usize),
    /// A point was begun.
    Began(usize),
    /// What a point's process last said on its standard output of how far it is.
    At(usize, String),
    /// A point is done.
    Done(usize),
    /// A point failed.
    Failed(usize),
}

struct Running {
    index: usize,
    child: Child,
    /// What it says on standard error, taken by a thread so that it never waits for us.
    said: std::thread::JoinHandle<String>,
    /// The last line that it printed and that was not told yet, taken by another thread.
    at: Arc<Mutex<Option<String>>>,
}

/// Measures every point that is not done, `jobs` at once; `command` makes the process of a point.
pub fn sweep(
    plan: &Plan,
    identities: &[Identity],
    store: &Store,
    jobs: usize,
    command: &dyn Fn(usize) -> Command,
    interrupted: &AtomicBool,
    tell: &mut dyn FnMut(Progress),
) -> Sweep {
    let mut result = Sweep::default();
    // Two points of one identity are measured once.
    let mut begun = std::collections::BTreeSet::new();
    let mut waiting: VecDeque<usize> = plan
        .in_rounds()
        .into_iter()
        .filter(|&index| match store.state(&identities[index]) {
            State::Done => false,
            State::Missing => begun.insert(&identities[index]),
            State::Damaged(problem) => {
                let first = begun.insert(&identities[index]);
                if first {
                    tell(Progress::Damaged(index, problem));
                }
                first
            }
        })
        .collect();
    result.skipped = plan.points.len() - waiting.len();
    tell(Progress::ToDo(waiting.len()));
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
                    tell(Progress::Began(index));
                    running.push(process);
                }
                Err(error) => {
                    tell(Progress::Failed(index));
                    result.failures.push(Failure { index, problem: format!("cannot be begun: {error}") });
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
                tell(Progress::At(*index, line));
            }
        }
        if ended.is_empty() {
            doorbell_files::pause(LOOK);
        }
        for (status, process) in ended {
            let said = process.said.join().unwrap_or_default();
            let index = process.index;
            // What counts is the result, not what the process says of itself.
            if store.is_done(&identities[index]) {
                result.measured += 1;
                tell(Progress::Done(index));
            } else if !interrupted.load(Ordering::Relaxed) {
                let status = status.map_or_else(
                    |error| error.to_string(),
                    |status| status.map_or_else(String::new, |status| status.to_string()),
                );
                tell(Progress::Failed(index));
                result.failures.push(Failure { index, problem: format!("{status}\n{}", said.trim_end()) });
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
    let said = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = stderr.read(&mut chunk) {
            bytes.extend_from_slice(&chunk[..count]);
            let over = bytes.len().saturating_sub(SAID_MAX);
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
    Ok(Running { index, child, said, at })
}

/// A point that is not done has left nothing behind that counts, so its process need not be asked.
fn stop(running: Vec<Running>) {
    for mut process in running {
        // It may have ended just now.
        let _ = process.child.kill();
        let _ = process.child.wait();
        let _ = process.said.join();
    }
}
