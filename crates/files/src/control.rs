//! Interface to a fault simulator. If the environment variable [`SOCKET`] names a Unix socket, a process
//! connects to it at start and requests each operation, and the response decides its outcome. The controller
//! runs one process at a time, so it alone determines the order of all operations of all processes,
//! reproducibly from a seed.
//!
//! The protocol is lines of text. A process sends `hello PID PARENT`, then `OPERATION PATH` for each step,
//! and waits. The response is `go`; `full N` (disk full: only N bytes of a write arrive); or none, if the
//! process is killed instead.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// Environment variable with the controller's socket.
pub const SOCKET: &str = "DOORBELL_FILES_CONTROL";

/// Outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The operation proceeds.
    Go,
    /// The disk is full: only this many bytes are written.
    Full(usize),
}

type Connection = Mutex<BufReader<UnixStream>>;

/// Connection to the controller, if any. The first call connects; `main` makes it before anything else.
fn controller() -> Option<&'static Connection> {
    static CONTROLLER: OnceLock<Option<Connection>> = OnceLock::new();
    CONTROLLER
        .get_or_init(|| {
            let socket = std::env::var_os(SOCKET)?;
            let mut stream = UnixStream::connect(&socket)
                .unwrap_or_else(|error| panic!("{SOCKET} names {}: {error}", socket.display()));
            let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
            writeln!(stream, "hello {} {parent}", std::process::id()).expect("the controller listens");
            Some(Mutex::new(BufReader::new(stream)))
        })
        .as_ref()
}

/// Registers this process with the controller, if any, before it does anything else.
pub fn begin() {
    let _ = controller();
}

/// Requests an operation on a file. Without a controller, it proceeds.
pub fn step(operation: &str, path: &Path) -> Answer {
    let Some(connection) = controller() else { return Answer::Go };
    let mut connection = connection.lock().expect("nothing panics while it holds this");
    let shown = path.to_string_lossy().replace(['\n', '\r'], "?");
    let sent = writeln!(connection.get_mut(), "{operation} {shown}");
    let mut answer = String::new();
    let count = sent.and_then(|()| connection.read_line(&mut answer)).unwrap_or(0);
    if count == 0 {
        // Without its controller, a process must end, because the order of operations is no longer
        // determined.
        std::process::exit(125);
    }
    match answer.trim_end().split_once(' ') {
        Some(("full", bytes)) => Answer::Full(bytes.parse().expect("the controller says how many bytes")),
        _ => Answer::Go,
    }
}

/// As [`step`], for an operation that succeeds or fails as a whole.
pub(crate) fn request(operation: &str, path: &Path) -> io::Result<()> {
    match step(operation, path) {
        Answer::Go => Ok(()),
        Answer::Full(_) => Err(io::Error::from(io::ErrorKind::StorageFull)),
    }
}

/// Waits before polling again. A controller determines the duration.
pub fn pause(duration: Duration) {
    match controller() {
        Some(_) => drop(step("pause", Path::new("-"))),
        None => std::thread::sleep(duration),
    }
}

/// Starts a process under the same controller.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    step("spawn", Path::new(command.get_program()));
    let child = command.spawn();
    step(if child.is_ok() { "spawned" } else { "not-spawned" }, Path::new(command.get_program()));
    child
}
