//! Runs the `doorbell` command as a child process.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Timeout of a command, above the longest run time on the slowest host.
const PATIENCE: Duration = Duration::from_secs(300);

/// Exit code and output of a command.
#[derive(Debug)]
pub struct CommandOutput {
    /// Exit code; `None` if a signal ended the command.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl CommandOutput {
    /// Asserts success and returns standard output.
    #[track_caller]
    pub fn success(self) -> String {
        assert_eq!(self.code, Some(0), "the command failed:\n{}\n{}", self.stdout, self.stderr);
        self.stdout
    }

    /// Asserts that the command exited with an error code (no signal, no panic) and that standard error
    /// contains each of `texts`.
    #[track_caller]
    pub fn assert_failure(&self, texts: &[&str]) {
        let code = self.code.unwrap_or_else(|| panic!("a signal ended the command:\n{}", self.stderr));
        assert!(code != 0, "the command should have failed:\n{}\n{}", self.stdout, self.stderr);
        let panicked = code == 101 || self.stderr.contains("panicked at ");
        assert!(!panicked, "the command panicked:\n{}", self.stderr);
        for text in texts {
            assert!(self.stderr.contains(text), "no \"{text}\" in:\n{}", self.stderr);
        }
    }
}

impl CommandOutput {
    /// Asserts that the command failed with the exit code of a usage error.
    #[track_caller]
    pub fn assert_usage_error(&self, texts: &[&str]) {
        self.assert_failure(texts);
        assert_eq!(self.code, Some(2), "{}", self.stderr);
    }

    /// Asserts that the command exited because of an interrupt.
    #[track_caller]
    pub fn assert_interrupted(&self, texts: &[&str]) {
        self.assert_failure(&[&["interrupted"], texts].concat());
        assert_eq!(self.code, Some(130), "{}", self.stderr);
    }
}

/// A running command.
pub struct Running {
    child: Child,
    readers: [std::thread::JoinHandle<String>; 2],
}

impl Running {
    /// Starts a command with empty standard input.
    pub fn start(mut command: Command) -> Running {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        let read = |mut from: Box<dyn Read + Send>| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                from.read_to_end(&mut bytes).expect("a pipe can be read");
                String::from_utf8_lossy(&bytes).into_owned()
            })
        };
        let stdout = read(Box::new(child.stdout.take().expect("it is piped")));
        let stderr = read(Box::new(child.stderr.take().expect("it is piped")));
        Running { child, readers: [stdout, stderr] }
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the process is ours");
    }

    /// Waits for the command to exit.
    pub fn end(mut self) -> CommandOutput {
        let status = wait(&mut self.child);
        let [stdout, stderr] = self.readers.map(|reader| reader.join().expect("a reader does not panic"));
        CommandOutput { code: status.code(), stdout, stderr }
    }
}

/// Waits for a process; kills it and panics after [`PATIENCE`].
pub(crate) fn wait(child: &mut Child) -> std::process::ExitStatus {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return status;
        }
        if started.elapsed() > PATIENCE {
            child.kill().expect("a child can be killed");
            child.wait().expect("a child can be waited for");
            panic!("the command did not end within {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs `doorbell` with these arguments and waits for its exit.
pub fn doorbell<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> CommandOutput {
    let mut command = Command::new(doorbell_path());
    command.args(arguments);
    // Most checks are not about timing, and the functional machine is the fastest.
    let words = || arguments.iter().map(|word| word.as_ref());
    if words().any(|word| word == "run") && !words().any(|word| word == "--preset") {
        command.args(["--preset", "fast"]);
    }
    Running::start(command).end()
}

/// Path of the `doorbell` binary: `DOORBELL_BIN` if set, else built from this source in the calling program's
/// profile.
pub fn doorbell_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        if let Some(given) = std::env::var_os("DOORBELL_BIN") {
            return given.into();
        }
        let own = std::env::current_exe().expect("the path of the running program is available");
        let folder = own.ancestors().nth(2).expect("tests and examples are two levels below target/PROFILE");
        let profile = folder.file_name().and_then(|name| name.to_str()).expect("profiles have plain names");
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", "doorbell", "--bin", "doorbell"]);
        build.args(["--profile", if profile == "debug" { "dev" } else { profile }]);
        build.arg("--target-dir").arg(folder.parent().expect("a profile's folder is in the target folder"));
        build.current_dir(env!("CARGO_MANIFEST_DIR"));
        assert!(build.status().expect("cargo runs").success(), "doorbell does not build");
        folder.join("doorbell")
    })
}
