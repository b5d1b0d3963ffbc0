//! Confines the host's programs that process input from recipes and archives (apt, dpkg-deb, xz, the
//! compiler): no new privileges, only the folders they are given, no network unless they need it, and
//! resource limits.
//!
//! Landlock restricts folders and network (Linux 5.19 or newer; kernel documentation,
//! userspace-api/landlock). It needs neither root nor namespaces, so it works in containers, too. On a kernel
//! without it, programs run unrestricted. A thread's restrictions are inherited by its children, so each
//! program is started by its own thread.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError,
};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use crate::interrupt;

/// Poll interval of a running program, and grace period after SIGTERM.
const POLL: Duration = Duration::from_millis(20);
const GRACE: Duration = Duration::from_secs(2);

/// Paths that every program may read: the usual folders of programs, libraries and compilers, and the dynamic
/// loader's files.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/dev/urandom",
    "/dev/random",
    "/dev/zero",
];

/// Files, network and resources that a program may use.
#[derive(Clone, Debug)]
pub(crate) struct Bounds<'a> {
    /// Paths it may read in addition to the system's folders; `None` allows everything.
    pub reads: Option<Vec<&'a Path>>,
    /// Folders it may write to. The first one is its home and holds its temporary files.
    pub writes: Vec<&'a Path>,
    pub network: bool,
    pub limits: Limits,
    /// A lock that stays held until the program ends, even if this process is killed.
    pub lock: Option<&'a File>,
}

impl<'a> Bounds<'a> {
    /// Bounds of a program that reads one file and writes only to its standard output.
    pub(crate) fn reader(file: &'a Path) -> Self {
        let limits = Limits::default();
        Self { reads: Some(vec![file]), writes: Vec::new(), network: false, limits, lock: None }
    }
}

/// Resource limits; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    pub cpu_s: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub file_bytes: Option<u64>,
}

/// Runs a command within its bounds and collects its output.
pub(crate) fn output(command: &mut Command, bounds: Option<&Bounds>) -> io::Result<Output> {
    if let Some(bounds) = bounds {
        if let Some(home) = bounds.writes.first() {
            command.env("HOME", home).env("TMPDIR", home);
        }
        if let Some(lock) = bounds.lock {
            // Passes the lock to the program as its standard input, which reads as empty: a lock lasts until
            // its file is closed in every process.
            command.stdin(Stdio::from(lock.try_clone()?));
        }
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let start = || -> io::Result<Child> {
        // Older kernels refuse requests that they do not support; the program then runs with this process's
        // rights.
        let _ = rustix::thread::set_no_new_privs(true);
        if let Some(bounds) = bounds {
            let _ = restrict(bounds);
        }
        let child = command.spawn()?;
        limit(&child, bounds.map(|bounds| bounds.limits).unwrap_or_default());
        Ok(child)
    };
    let child = std::thread::scope(|scope| match scope.spawn(start).join() {
        Ok(child) => child,
        Err(panic) => std::panic::resume_unwind(panic),
    });
    gather(child?, interrupt::is_requested)
}

/// Collects a program's output until it ends; ends it if `is_cancelled` returns true.
fn gather(mut child: Child, is_cancelled: impl Fn() -> bool) -> io::Result<Output> {
    let (sender, finished) = mpsc::channel();
    let read = |from: Option<Box<dyn io::Read + Send>>| {
        let sender = sender.clone();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = from.map_or(Ok(0), |mut from| from.read_to_end(&mut bytes));
            let _ = sender.send(());
            read.map(|_| bytes)
        })
    };
    let stdout = read(child.stdout.take().map(|from| Box::new(from) as _));
    let stderr = read(child.stderr.take().map(|from| Box::new(from) as _));
    drop(sender);
    // The channel disconnects when both readers have finished.
    while finished.recv_timeout(POLL) != Err(mpsc::RecvTimeoutError::Disconnected) {
        if is_cancelled() {
            return end(child);
        }
    }
    let whole = |reader: std::thread::JoinHandle<io::Result<Vec<u8>>>| match reader.join() {
        Ok(bytes) => bytes,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    let (stdout, stderr) = (whole(stdout)?, whole(stderr)?);
    Ok(Output { status: child.wait()?, stdout, stderr })
}

/// Ends a program, first with SIGTERM. Its output is discarded, because its child processes may keep the
/// pipes open.
fn end(mut child: Child) -> io::Result<Output> {
    let _ = kill_process(Pid::from_child(&child), Signal::TERM);
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > GRACE {
            child.kill()?;
            break child.wait()?;
        }
        std::thread::sleep(POLL);
    };
    Ok(Output { status, stdout: Vec::new(), stderr: Vec::new() })
}

/// Restricts this thread to the bounds.
fn restrict(bounds: &Bounds) -> Result<(), RulesetError> {
    let abi = ABI::V5;
    // The right to move files between folders, which apt needs, came with version 2: a kernel without it is
    // not restricted.
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V2))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?;
    let ruleset =
        if bounds.network { ruleset } else { ruleset.handle_access(AccessNet::from_all(ABI::V4))? };
    let mut rules = ruleset.create()?;
    let system = SYSTEM.iter().map(Path::new);
    let reads: Vec<&Path> = match &bounds.reads {
        None => vec![Path::new("/")],
        Some(reads) => system.chain(reads.iter().copied()).collect(),
    };
    for (paths, access) in [
        (&reads, AccessFs::from_read(abi)),
        (&bounds.writes, AccessFs::from_all(abi)),
        (&vec![Path::new("/dev/null")], AccessFs::ReadFile | AccessFs::WriteFile),
    ] {
        for path in paths {
            // Paths that do not exist need no rule.
            let Ok(open) = PathFd::new(path) else { continue };
            let access = if path.is_dir() { access } else { access & AccessFs::from_file(abi) };
            rules = rules.add_rule(PathBeneath::new(open, access))?;
        }
    }
    rules.restrict_self().map(drop)
}

/// Limits a program that has just been started, and the processes that it starts from now on.
fn limit(child: &Child, limits: Limits) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let all = [
        (Resource::Core, Some(0)),
        (Resource::Cpu, limits.cpu_s),
        (Resource::As, limits.memory_bytes),
        (Resource::Fsize, limits.file_bytes),
    ];
    for (resource, most) in all {
        if most.is_some() {
            // Fails if the limit is already lower, which is fine.
            let _ = prlimit(pid, resource, Rlimit { current: most, maximum: most });
        }
    }
}

/// The install folder of a program outside the system's folders, such as a compiler, so that it can read its
/// own files.
pub(crate) fn install_folder(program: &str, search_path: &std::ffi::OsStr) -> Option<PathBuf> {
    let found =
        std::env::split_paths(search_path).map(|dir| dir.join(program)).find(|path| path.is_file())?;
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let folder = found.canonicalize().ok()?.parent()?.parent()?.to_owned();
    (folder != Path::new("/") && Some(&folder) != home.as_ref()).then_some(folder)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use crate::host::{self, Tool};

    const SHELL: Tool = Tool { name: "sh", package: "dash" };

    fn bounds<'a>(reads: &[&'a Path], writes: &[&'a Path]) -> Bounds<'a> {
        Bounds {
            reads: Some(reads.to_vec()),
            writes: writes.to_vec(),
            network: false,
            limits: Limits { cpu_s: Some(60), memory_bytes: None, file_bytes: Some(4096) },
            lock: None,
        }
    }

    fn shell(script: &str, bounds: &Bounds) -> (bool, String) {
        let output = output(host::command(SHELL).args(["-c", script]), Some(bounds)).unwrap();
        (
            output.status.success(),
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
        )
    }

    /// Whether the kernel has Landlock. Without it these tests only check that programs run.
    fn has_landlock() -> bool {
        std::thread::spawn(|| restrict(&bounds(&[], &[])).is_ok()).join().unwrap()
    }

    #[test]
    fn a_program_reads_and_writes_where_it_may_and_nowhere_else() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let secret = outside.path().join("secret");
        fs::write(&secret, "the secret").unwrap();
        let bounds = bounds(&[], &[inside.path()]);
        let (ok, printed) = shell(
            "echo one >$TMPDIR/a && mv $HOME/a $HOME/b && cat $HOME/b >/dev/null && cat $HOME/b",
            &bounds,
        );
        assert!(ok && printed == "one\n", "{printed}");
        // tests/short skips this test by name on kernels without Landlock.
        assert!(has_landlock(), "the kernel has no Landlock");
        for script in [
            format!("cat {}", secret.display()),
            format!("echo changed >{}", secret.display()),
            format!("touch {}", outside.path().join("new").display()),
            format!("ls {}", outside.path().display()),
            "cat /etc/passwd".to_owned(),
        ] {
            let (ok, printed) = shell(&script, &bounds);
            assert!(
                !ok && printed.contains("ermission denied") && !printed.contains("the secret"),
                "{script}: {printed}"
            );
        }
        assert_eq!(fs::read(&secret).unwrap(), b"the secret");
        // This process is not restricted.
        fs::write(&secret, "changed").unwrap();
    }

    #[test]
    fn a_cancelled_program_is_ended_even_if_it_ignores_sigterm() {
        let started = |script: &str| {
            let mut command = host::command(SHELL);
            command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let start = Instant::now();
        // The second program ignores SIGTERM; the third one's child keeps the pipes open.
        for (script, signal) in [
            ("exec sleep 60", 15),
            ("trap '' TERM; while :; do sleep 1; done", 9),
            ("sleep 60 & exec sleep 60", 15),
        ] {
            let output = gather(started(script), || true).unwrap();
            assert_eq!(output.status.signal(), Some(signal), "{script}");
        }
        assert!(start.elapsed() < Duration::from_secs(20));
        // Output larger than a pipe, on both streams, is read to the end.
        let script =
            "i=0; while [ $i -lt 9000 ]; do echo 0123456789; echo 0123456789 >&2; i=$((i + 1)); done; exit 3";
        let output = gather(started(script), || false).unwrap();
        assert_eq!(
            (output.status.code(), output.stdout.len(), output.stderr.len()),
            (Some(3), 99_000, 99_000)
        );
    }

    #[test]
    fn a_program_gets_no_new_privileges_a_minimal_environment_and_limits() {
        let home = tempfile::tempdir().unwrap();
        let (_, printed) = shell(
            // Limits are set from outside, shortly after the start.
            "n=0; until [ \"$(ulimit -f)\" = 8 ] || [ $n = 1000 ]; do n=$((n + 1)); sleep 0.01; done; unset n
             cat /proc/self/status || grep NoNewPrivs /proc/$$/status; env; ulimit -c; ulimit -f",
            &bounds(&[Path::new("/proc")], &[home.path()]),
        );
        assert!(printed.contains("NoNewPrivs:\t1"), "{printed}");
        let names: Vec<&str> = printed.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
        let known = ["PATH", "LC_ALL", "HOME", "TMPDIR", "PWD", "OLDPWD", "_", "SHLVL"];
        assert!(names.iter().all(|name| known.contains(name)) && names.contains(&"PATH"), "{names:?}");
        assert!(printed.ends_with("\n0\n8\n"), "{printed}");
    }

    #[test]
    fn a_program_keeps_the_lock_that_it_was_given() {
        use rustix::fs::{FlockOperation, flock};
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("lock");
        let open = || {
            fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).unwrap()
        };
        let lock = open();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        let mut bounds = bounds(&[], &[home.path()]);
        bounds.lock = Some(&lock);
        // The background process outlives the shell; the lock's file reads as empty.
        let (ok, _) = shell("cat; exec 3<&0; (exec >/dev/null 2>&1; exec sleep 2) &", &bounds);
        assert!(ok);
        drop(lock);
        assert!(flock(open(), FlockOperation::NonBlockingLockExclusive).is_err(), "it still runs");
        flock(open(), FlockOperation::LockExclusive).unwrap();
    }
}
