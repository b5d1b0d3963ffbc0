//! Runs a command on a pseudo-terminal; the check types keys and reads the screen at the other end.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, tcgetattr};

/// Timeout for an expected text and for the command's exit.
const PATIENCE: Duration = Duration::from_secs(120);

/// A command on a pseudo-terminal.
pub struct Pty {
    near: File,
    far: File,
    child: Child,
    output: Vec<u8>,
    /// Bytes of `output` already searched by `wait_for`.
    searched: usize,
}

impl Pty {
    /// Starts a command with its three standard streams on a new terminal.
    pub fn start(mut command: Command) -> Pty {
        let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("the host has pseudo-terminals");
        grantpt(&near).and_then(|()| unlockpt(&near)).expect("a new terminal can be opened");
        let name = ptsname(&near, Vec::new()).expect("a terminal has a name");
        let name = name.to_str().expect("a terminal's name is UTF-8").to_owned();
        let far = OpenOptions::new().read(true).write(true).open(name).expect("a new terminal can be opened");
        let end = || Stdio::from(far.try_clone().expect("a file can be cloned"));
        // The progress display needs TERM, which the check's own environment may lack.
        command.stdin(end()).stdout(end()).stderr(end()).env("TERM", "xterm");
        let child = command.spawn().expect("the command starts");
        fcntl_setfl(&near, OFlags::NONBLOCK).expect("a terminal can be polled");
        Pty { near: near.into(), far, child, output: Vec::new(), searched: 0 }
    }

    /// Types keys.
    pub fn type_keys(&mut self, keys: &str) {
        self.near.write_all(keys.as_bytes()).expect("a terminal takes a few keys");
    }

    /// Waits for a text after the previous match; returns the output between the two.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) -> String {
        let started = Instant::now();
        loop {
            let new = &self.output[self.searched..];
            if let Some(at) = new.windows(text.len()).position(|window| window == text.as_bytes()) {
                let before = String::from_utf8_lossy(&new[..at]).into_owned();
                self.searched += at + text.len();
                return before;
            }
            let waited = started.elapsed();
            assert!(
                waited < PATIENCE,
                "no \"{text}\" within {waited:?}; the screen shows:\n{}",
                self.screen()
            );
            self.read_output(Duration::from_millis(50));
        }
    }

    /// Reads available output, waiting at most `wait`.
    fn read_output(&mut self, wait: Duration) {
        let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
        let mut buffer = [0; 4096];
        let ready = poll(&mut [PollFd::new(&self.near, PollFlags::IN)], Some(&wait)).unwrap_or(0);
        if ready > 0
            && let Ok(count) = self.near.read(&mut buffer)
        {
            self.output.extend_from_slice(&buffer[..count]);
        }
    }

    /// All output so far.
    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }

    /// Sends the command a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the process is ours");
    }

    /// Terminal attributes.
    pub fn mode(&self) -> Termios {
        tcgetattr(&self.far).expect("a terminal has a mode")
    }

    /// Whether the terminal is in canonical mode with echo and signals, as for a shell, and not in raw mode.
    pub fn is_cooked(&self) -> bool {
        self.mode().local_modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// Reads output until the command exits.
    #[track_caller]
    pub fn end(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            self.read_output(Duration::from_millis(20));
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                self.read_output(Duration::from_millis(20));
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "the command does not exit; it shows:\n{}", self.screen());
        }
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        // A failed check must not leave its command running. `kill` fails if the command has exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
