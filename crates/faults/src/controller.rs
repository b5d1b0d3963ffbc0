//! The controller's side of `doorbell_files::control`: each process is held at every file operation until the
//! controller decides the outcome. All other processes are held while one works, so operations have a total
//! order.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

/// Maximum time between two operations of a process; a longer one means a hang.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum number of bytes kept of a process's output: its end.
const OUTPUT_BYTES_MAX: usize = 4000;

/// Outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is performed.
    Go,
    /// The disk is full: a write stores only this number of bytes.
    Full(usize),
    /// The process is killed instead.
    Kill,
    /// The process is interrupted, as by Ctrl-C, and the operation is performed.
    Interrupt,
}

/// A process held at an operation.
struct HeldProcess {
    /// Number of the history's process that it is or belongs to.
    root: usize,
    pid: i32,
    parent: i32,
    connection: BufReader<UnixStream>,
    /// The operation at which it is held.
    step: String,
}

/// A process started by the history.
struct Root {
    child: Child,
    output: PathBuf,
}

/// All running processes.
pub struct Controller {
    listener: UnixListener,
    socket: PathBuf,
    held: Vec<HeldProcess>,
    roots: Vec<Option<Root>>,
    /// Log of all operations so far.
    pub log: Vec<String>,
}

impl Controller {
    /// Creates a controller with its socket in this folder.
    pub fn new(folder: &Path) -> anyhow::Result<Controller> {
        let socket = folder.join("control.socket");
        let listener = UnixListener::bind(&socket).context("the controller's socket")?;
        Ok(Controller { listener, socket, held: Vec::new(), roots: Vec::new(), log: Vec::new() })
    }

    /// Starts a process and holds it at its first operation. Numbers count from zero.
    pub fn begin(&mut self, mut command: Command, output: &Path) -> anyhow::Result<usize> {
        let root = self.roots.len();
        let file = std::fs::File::create(output)?;
        command.env(doorbell_files::control::SOCKET, &self.socket);
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().context("starting a process")?;
        self.roots.push(Some(Root { child, output: output.to_owned() }));
        self.accept(root)?;
        Ok(root)
    }

    /// Number of held processes.
    pub fn held_count(&self) -> usize {
        self.held.len()
    }

    /// Process number and operation of a held process.
    pub fn step(&self, held: usize) -> (usize, &str) {
        (self.held[held].root, &self.held[held].step)
    }

    /// Decides an operation, and waits until its process is held at the next one or has ended.
    pub fn decide(&mut self, held: usize, event: Event) -> anyhow::Result<()> {
        let HeldProcess { root, pid, step, .. } = &self.held[held];
        let (root, pid) = (*root, *pid);
        self.log.push(format!("{root} {step}: {event:?}"));
        let answer = match event {
            Event::Go => "go\n".to_owned(),
            Event::Full(bytes) => format!("full {bytes}\n"),
            Event::Kill | Event::Interrupt => {
                let signal = if event == Event::Kill { Signal::KILL } else { Signal::INT };
                let process = Pid::from_raw(pid).context("a process ID is not zero")?;
                let gone = match kill_process(process, signal) {
                    // A sweep that ends kills and reaps its helper, possibly while the helper is held.
                    Err(rustix::io::Errno::SRCH) => true,
                    sent => sent.map(|()| false).context("sending a signal")?,
                };
                if gone || event == Event::Kill {
                    return self.ended(held);
                }
                "go\n".to_owned()
            }
        };
        let spawns = step.starts_with("spawn ");
        let sent = self.held[held].connection.get_mut().write_all(answer.as_bytes());
        if sent.is_err() || !self.read_step(held)? {
            return self.ended(held);
        }
        // A process reports a spawned process, which is then held at its first operation.
        if spawns && self.held[held].step.starts_with("spawned ") {
            self.accept(root)?;
        }
        Ok(())
    }

    /// The ended processes: number, exit status and output.
    pub fn reap(&mut self) -> anyhow::Result<Vec<(usize, ExitStatus, String)>> {
        let mut ended = Vec::new();
        for (number, slot) in self.roots.iter_mut().enumerate() {
            if self.held.iter().any(|held| held.root == number && held.parent == std::process::id() as i32) {
                continue;
            }
            if let Some(mut root) = slot.take() {
                let status = root.child.wait()?;
                let output = std::fs::read(&root.output)?;
                let output = &output[output.len().saturating_sub(OUTPUT_BYTES_MAX)..];
                let output = String::from_utf8_lossy(output).into_owned();
                ended.push((number, status, output));
            }
        }
        Ok(ended)
    }

    /// Accepts the connection of a new process. A process that ends before it is held was killed from
    /// outside.
    fn accept(&mut self, root: usize) -> anyhow::Result<()> {
        let (stream, _) = self.listener.accept()?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let mut connection = BufReader::new(stream);
        let mut hello = String::new();
        connection.read_line(&mut hello)?;
        let numbers: Vec<i32> = hello.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [pid, parent] = numbers[..] else { bail!("a process sent {hello:?} instead of its IDs") };
        self.held.push(HeldProcess { root, pid, parent, connection, step: String::new() });
        let held = self.held.len() - 1;
        if self.read_step(held)? { Ok(()) } else { self.ended(held) }
    }

    /// Reads the next operation of a process; `false` if the process has ended.
    fn read_step(&mut self, held: usize) -> anyhow::Result<bool> {
        let process = &mut self.held[held];
        process.step.clear();
        let line = process.connection.read_line(&mut process.step);
        let count = match line {
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
            Err(error) => {
                let log = self.log.iter().rev().take(20).rev().cloned().collect::<Vec<_>>().join("\n");
                bail!("process {} makes no progress: {error}; the last operations:\n{log}", process.root)
            }
        };
        process.step.truncate(process.step.trim_end().len());
        Ok(count > 0)
    }

    /// Removes an ending process: waits until it and its dependent processes are dead.
    fn ended(&mut self, held: usize) -> anyhow::Result<()> {
        let gone = self.held.remove(held);
        wait_until_gone(gone.pid)?;
        while let Some(orphan) = self.held.iter().position(|held| held.parent == gone.pid) {
            // It dies with its parent.
            self.ended(orphan)?;
        }
        Ok(())
    }
}

/// Waits until a process is dead, even if not yet reaped; its locks and files are then released.
fn wait_until_gone(pid: i32) -> anyhow::Result<()> {
    let began = Instant::now();
    while began.elapsed() < TIMEOUT {
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return Ok(()) };
        // The state follows the program's name, which is in parentheses.
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        if matches!(state, Some('Z' | 'X')) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    bail!("process {pid} does not end")
}

impl Drop for Controller {
    fn drop(&mut self) {
        for root in self.roots.iter_mut().flatten() {
            let _ = root.child.kill();
            let _ = root.child.wait();
        }
    }
}
