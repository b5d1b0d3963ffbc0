//! Where a fault simulator takes hold. If the environment variable [`SOCKET`] names a Unix socket, a process connects to it
//! when it begins and asks before each operation; the answer says how the operation goes. The controller runs one process at
//! a time, so the order of all operations of all processes is its choice alone and can be repeated from a seed.
//!
//! The protocol is lines of text. A process says `hello PID PARENT`, then for each step `OPERATION PATH`, and waits. An answer
//! is `go`; `full N` (the disk is full: of a write only N bytes arrive); or nothing, if the process is killed instead.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// The environment variable that names the controller's socket.
pub const SOCKET: &str = "DOORBELL_FILES_CONTROL";

/// How an operation is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// As it does.
    Go,
    /// There is no space: of what is written, only so many bytes arrive.
    Full(usize),
}

type Connection = Mutex<BufReader<UnixStream>>;

/// The connection to the controller, if there is one. It is made at the first call, which `main` makes before anything else.
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

/// Lets a controller, if there is one, know of this process before it does anything.
pub fn begin() {
    let _ = controller();
}

/// Asks the controller how an operation on a file goes. Without one, it goes.
pub fn step(operation: &str, path: &Path) -> Answer {
    let Some(connection) = controller() else { return Answer::Go };
    let mut connection = connection.lock().expect("nothing panics while it holds this");
    let shown = path.to_string_lossy().replace(['\n', '\r'], "?");
    let asked = writeln!(connection.get_mut(), "{operation} {shown}");
    let mut answer = String::new();
    let count = asked.and_then(|()| connection.read_line(&mut answer)).unwrap_or(0);
    if count == 0 {
        // A controller that has gone away ends what it controlled: nobody decides about the order any more.
        std::process::exit(125);
    }
    match answer.trim_end().split_once(' ') {
        Some(("full", bytes)) => Answer::Full(bytes.parse().expect("the controller says how many bytes")),
        _ => Answer::Go,
    }
}

/// As [`step`], for an operation that is done or not done.
pub(crate) fn allowed(operation: &str, path: &Path) -> io::Result<()> {
    match step(operation, path) {
        Answer::Go => Ok(()),
        Answer::Full(_) => Err(io::Error::from(io::ErrorKind::StorageFull)),
    }
}

/// Waits a little before something is looked at again. Under a controller it decides how long that is.
pub fn pause(duration: Duration) {
    match controller() {
        Some(_) => drop(step("pause", Path::new("-"))),
        None => std::thread::sleep(duration),
    }
}

/// Begins a process that is controlled as well.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    step("spawn", Path::new(command.get_program()));
    let child = command.spawn();
    step(if child.is_ok() { "spawned" } else { "not-spawned" }, Path::new(command.get_program()));
    child
}
