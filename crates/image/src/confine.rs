//! Keeping the host's programs that work on a recipe's and an archive's input (apt, dpkg-deb, xz, the compiler) to what their work
//! takes: no new privileges, only the folders that they are given, no network unless it is their task, and limits.
//!
//! Folders and network are Landlock's (Linux 5.19 or newer; kernel documentation, userspace-api/landlock), which needs neither root nor
//! namespaces and so works in containers, too. Where the kernel has none a program runs without that fence. What a thread
//! gave up its children have not either: so each program is started by a thread of its own.

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

/// How often a program at work is asked about, and how long it has to end when it is asked to.
const LOOK: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(2);

/// What every program may read: where systems keep programs, libraries and compilers, and what the dynamic loader reads.
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

/// What a program may touch.
#[derive(Clone, Debug)]
pub(crate) struct Bounds<'a> {
    /// What it may read besides the system's folders; nothing means that it may read everything.
    pub reads: Option<Vec<&'a Path>>,
    /// Where it may write. The first is its home and keeps its temporary files.
    pub writes: Vec<&'a Path>,
    pub network: bool,
    pub limits: Limits,
    /// A lock that must last as long as the program, even if this process is killed.
    pub held: Option<&'a File>,
}

impl<'a> Bounds<'a> {
    /// For a program that reads one file and prints what it makes of it.
    pub(crate) fn reader(file: &'a Path) -> Self {
        let limits = Limits::default();
        Self { reads: Some(vec![file]), writes: Vec::new(), network: false, limits, held: None }
    }
}

/// What a program may use up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    pub cpu_s: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub file_bytes: Option<u64>,
}

/// Runs a command within its bounds and gathers what it prints.
pub(crate) fn output(command: &mut Command, bounds: Option<&Bounds>) -> io::Result<Output> {
    if let Some(bounds) = bounds {
        if let Some(home) = bounds.writes.first() {
            command.env("HOME", home).env("TMPDIR", home);
        }
        if let Some(lock) = bounds.held {
            // A lock lasts until the last process that has its file open is gone, and this file is empty.
            command.stdin(Stdio::from(lock.try_clone()?));
        }
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let start = || -> io::Result<Child> {
        // Older kernels refuse what they do not know, and the program runs with the rights that it would have had.
        let _ = rustix::thread::set_no_new_privs(true);
        if let Some(bounds) = bounds {
            let _ = fence(bounds);
        }
        let child = command.spawn()?;
        limit(&child, bounds.map(|bounds| bounds.limits).unwrap_or_default());
        Ok(child)
    };
    let child = std::thread::scope(|scope| match scope.spawn(start).join() {
        Ok(child) => child,
        Err(panic) => std::panic::resume_unwind(panic),
    });
    gather(child?, interrupt::is_asked)
}

/// Gathers what a program prints until it ends, and ends it if `is_asked` says that nobody wants it any more.
fn gather(mut child: Child, is_asked: impl Fn() -> bool) -> io::Result<Output> {
    let (tell, told) = mpsc::channel();
    let read = |from: Option<Box<dyn io::Read + Send>>| {
        let tell = tell.clone();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = from.map_or(Ok(0), |mut from| from.read_to_end(&mut bytes));
            let _ = tell.send(());
            read.map(|_| bytes)
        })
    };
    let stdout = read(child.stdout.take().map(|from| Box::new(from) as _));
    let stderr = read(child.stderr.take().map(|from| Box::new(from) as _));
    drop(tell);
    // It is over when both readers are: then nobody can tell more.
    while told.recv_timeout(LOOK) != Err(mpsc::RecvTimeoutError::Disconnected) {
        if is_asked() {
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

/// Ends a program, at first politely. What it has begun itself may have its pipes still, so that nothing is read any more.
fn end(mut child: Child) -> io::Result<Output> {
    let _ = kill_process(Pid::from_child(&child), Signal::TERM);
    let asked = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if asked.elapsed() > PATIENCE {
            child.kill()?;
            break child.wait()?;
        }
        std::thread::sleep(LOOK);
    };
    Ok(Output { status, stdout: Vec::new(), stderr: Vec::new() })
}

/// Takes from this thread what is out of bounds.
fn fence(bounds: &Bounds) -> Result<(), RulesetError> {
    let abi = ABI::V5;
    // Without the right to move files between folders, which came with the second version, apt could not work.
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V2))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?;
    let ruleset =
        if bounds.network { ruleset } else { ruleset.handle_access(AccessNet::from_all(ABI::V4))? };
    let mut fence = ruleset.create()?;
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
            // What is not there need not be allowed.
            let Ok(open) = PathFd::new(path) else { continue };
            let access = if path.is_dir() { access } else { access & AccessFs::from_file(abi) };
            fence = fence.add_rule(PathBeneath::new(open, access))?;
        }
    }
    fence.restrict_self().map(drop)
}

/// Limits a program that has just been started, and what it starts from then on.
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
            // A limit that is lower already cannot be raised, and need not be.
            let _ = prlimit(pid, resource, Rlimit { current: most, maximum: most });
        }
    }
}

/// Where a program lies, so that it can read what is beside it: a compiler that is not among the system's.
pub(crate) fn beside(program: &str, search_path: &std::ffi::OsStr) -> Option<PathBuf> {
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
            held: None,
        }
    }

    fn shell(script: &str, bounds: &Bounds) -> (bool, String) {
        let output = output(host::command(SHELL).args(["-c", script]), Some(bounds)).unwrap();
        (
            output.status.success(),
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
        )
    }

    /// Whether the kernel fences; without it these tests can only see that programs run all the same.
    fn has_fence() -> bool {
        std::thread::spawn(|| fence(&bounds(&[], &[])).is_ok()).join().unwrap()
    }

    #[test]
    fn a_program_reads_and_writes_where_it_may_and_nowhere_else() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let secret = outside.path().join("secret");
        fs::write(&secret, "the secret").unwrap();
        let bounds = bounds(&[], &[inside.path()]);
        let (ok, said) = shell(
            "echo one >$TMPDIR/a && mv $HOME/a $HOME/b && cat $HOME/b >/dev/null && cat $HOME/b",
            &bounds,
        );
        assert!(ok && said == "one\n", "{said}");
        // tests/short leaves this check out by name where the kernel has none.
        assert!(has_fence(), "the kernel has no Landlock");
        for script in [
            format!("cat {}", secret.display()),
            format!("echo changed >{}", secret.display()),
            format!("touch {}", outside.path().join("new").display()),
            format!("ls {}", outside.path().display()),
            "cat /etc/passwd".to_owned(),
        ] {
            let (ok, said) = shell(&script, &bounds);
            assert!(
                !ok && said.contains("ermission denied") && !said.contains("the secret"),
                "{script}: {said}"
            );
        }
        assert_eq!(fs::read(&secret).unwrap(), b"the secret");
        // This process has lost nothing.
        fs::write(&secret, "changed").unwrap();
    }

    #[test]
    fn a_program_that_nobody_wants_any_more_is_ended_whether_it_likes_it_or_not() {
        let started = |script: &str| {
            let mut command = host::command(SHELL);
            command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let begun = Instant::now();
        // The second one does not listen, and the third one's child has its pipes.
        for (script, signal) in [
            ("exec sleep 60", 15),
            ("trap '' TERM; while :; do sleep 1; done", 9),
            ("sleep 60 & exec sleep 60", 15),
        ] {
            let output = gather(started(script), || true).unwrap();
            assert_eq!(output.status.signal(), Some(signal), "{script}");
        }
        assert!(begun.elapsed() < Duration::from_secs(20));
        // One that prints more than a pipe holds, both ways, is read to its end.
        let script =
            "i=0; while [ $i -lt 9000 ]; do echo 0123456789; echo 0123456789 >&2; i=$((i + 1)); done; exit 3";
        let output = gather(started(script), || false).unwrap();
        assert_eq!(
            (output.status.code(), output.stdout.len(), output.stderr.len()),
            (Some(3), 99_000, 99_000)
        );
    }

    #[test]
    fn a_program_gets_no_new_privileges_little_of_the_environment_and_limits() {
        let home = tempfile::tempdir().unwrap();
        let (_, said) = shell(
            // Limits come from outside, in the moment after the start.
            "n=0; until [ \"$(ulimit -f)\" = 8 ] || [ $n = 1000 ]; do n=$((n + 1)); sleep 0.01; done; unset n
             cat /proc/self/status || grep NoNewPrivs /proc/$$/status; env; ulimit -c; ulimit -f",
            &bounds(&[Path::new("/proc")], &[home.path()]),
        );
        assert!(said.contains("NoNewPrivs:\t1"), "{said}");
        let names: Vec<&str> = said.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
        let known = ["PATH", "LC_ALL", "HOME", "TMPDIR", "PWD", "OLDPWD", "_", "SHLVL"];
        assert!(names.iter().all(|name| known.contains(name)) && names.contains(&"PATH"), "{names:?}");
        assert!(said.ends_with("\n0\n8\n"), "{said}");
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
        bounds.held = Some(&lock);
        // The program outlives what it was started from; it reads nothing from the lock's file.
        let (ok, _) = shell("cat; exec 3<&0; (exec >/dev/null 2>&1; exec sleep 2) &", &bounds);
        assert!(ok);
        drop(lock);
        assert!(flock(open(), FlockOperation::NonBlockingLockExclusive).is_err(), "it still runs");
        flock(open(), FlockOperation::LockExclusive).unwrap();
    }
}
