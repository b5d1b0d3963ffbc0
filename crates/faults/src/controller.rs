//! The controller's side of `doorbell_files::control`: processes that are held at each of their file operations, and told one by
//! one how it goes. While one works all others are held, so what they do has one order.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

/// No process computes longer between two operations; one that does hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// Of what a process tells, so much is kept: the end.
const TOLD_BYTES_MAX: usize = 4000;

/// What happens to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is done.
    Go,
    /// The disk is full: of a write so many bytes arrive.
    Full(usize),
    /// The process is killed instead.
    Kill,
    /// The process is asked to end, as by Ctrl-C, and the operation is done.
    Interrupt,
}

/// A process, held at an operation.
struct Held {
    /// Which of the history's processes it is, or belongs to.
    root: usize,
    pid: i32,
    parent: i32,
    connection: BufReader<UnixStream>,
    /// The operation at which it is held.
    step: String,
}

/// A process that the history began.
struct Root {
    child: Child,
    told: PathBuf,
}

/// All processes under way.
pub struct Controller {
    listener: UnixListener,
    socket: PathBuf,
    held: Vec<Held>,
    roots: Vec<Option<Root>>,
    /// Every operation so far, for a log.
    pub log: Vec<String>,
}

impl Controller {
    /// A controller whose socket is in this folder.
    pub fn new(folder: &Path) -> anyhow::Result<Controller> {
        let socket = folder.join("control.socket");
        let listener = UnixListener::bind(&socket).context("the controller's socket")?;
        Ok(Controller { listener, socket, held: Vec::new(), roots: Vec::new(), log: Vec::new() })
    }

    /// Begins a process, and holds it at its first operation. Its number counts from zero.
    pub fn begin(&mut self, mut command: Command, told: &Path) -> anyhow::Result<usize> {
        let root = self.roots.len();
        let output = std::fs::File::create(told)?;
        command.env(doorbell_files::control::SOCKET, &self.socket);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let child = command.spawn().context("beginning a process")?;
        self.roots.push(Some(Root { child, told: told.to_owned() }));
        self.accept(root)?;
        Ok(root)
    }

    /// How many processes are held.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// The operation at which a process is held, and which of the history's processes it belongs to.
    pub fn step(&self, held: usize) -> (usize, &str) {
        (self.held[held].root, &self.held[held].step)
    }

    /// Lets an operation happen, and waits until its process is held at its next one or has ended.
    pub fn decide(&mut self, held: usize, event: Event) -> anyhow::Result<()> {
        let Held { root, pid, step, .. } = &self.held[held];
        let (root, pid) = (*root, *pid);
        self.log.push(format!("{root} {step}: {event:?}"));
        let answer = match event {
            Event::Go => "go\n".to_owned(),
            Event::Full(bytes) => format!("full {bytes}\n"),
            Event::Kill | Event::Interrupt => {
                let signal = if event == Event::Kill { Signal::KILL } else { Signal::INT };
                let process = Pid::from_raw(pid).context("a process has a number")?;
                let gone = match kill_process(process, signal) {
                    // A sweep that ends has killed and reaped its helper while that was held.
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
        let told = self.held[held].connection.get_mut().write_all(answer.as_bytes());
        if told.is_err() || !self.hear(held)? {
            return self.ended(held);
        }
        // A process that has begun another one says so, and that one is then held at its first operation.
        if spawns && self.held[held].step.starts_with("spawned ") {
            self.accept(root)?;
        }
        Ok(())
    }

    /// The processes that have ended: their numbers, how they ended, and what they told.
    pub fn reap(&mut self) -> anyhow::Result<Vec<(usize, ExitStatus, String)>> {
        let mut ended = Vec::new();
        for (number, slot) in self.roots.iter_mut().enumerate() {
            if self.held.iter().any(|held| held.root == number && held.parent == std::process::id() as i32) {
                continue;
            }
            if let Some(mut root) = slot.take() {
                let status = root.child.wait()?;
                let told = std::fs::read(&root.told)?;
                let told = &told[told.len().saturating_sub(TOLD_BYTES_MAX)..];
                let told = String::from_utf8_lossy(told).into_owned();
                ended.push((number, status, told));
            }
        }
        Ok(ended)
    }

    /// Takes up the connection of a process that was just begun. One that ends before it is held was killed from outside.
    fn accept(&mut self, root: usize) -> anyhow::Result<()> {
        let (stream, _) = self.listener.accept()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut connection = BufReader::new(stream);
        let mut hello = String::new();
        connection.read_line(&mut hello)?;
        let numbers: Vec<i32> = hello.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [pid, parent] = numbers[..] else { bail!("a process says {hello:?} instead of hello") };
        self.held.push(Held { root, pid, parent, connection, step: String::new() });
        let held = self.held.len() - 1;
        if self.hear(held)? { Ok(()) } else { self.ended(held) }
    }

    /// Hears at which operation a process is held next; `false` if it has ended.
    fn hear(&mut self, held: usize) -> anyhow::Result<bool> {
        let process = &mut self.held[held];
        process.step.clear();
        let heard = process.connection.read_line(&mut process.step);
        let count = match heard {
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
            Err(error) => {
                let log = self.log.iter().rev().take(20).rev().cloned().collect::<Vec<_>>().join("\n");
                bail!("process {} does nothing any more: {error}; the last operations:\n{log}", process.root)
            }
        };
        process.step.truncate(process.step.trim_end().len());
        Ok(count > 0)
    }

    /// A process has ended, or is about to: waits until it is gone with all that it held, and those it took along.
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

/// Waits until a process is dead, whether or not its parent has noticed: then its locks and files are free.
fn wait_until_gone(pid: i32) -> anyhow::Result<()> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return Ok(()) };
        // The state stands behind the program's name, which is in brackets.
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
