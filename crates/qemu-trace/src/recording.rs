//! Recording a guest under QEMU, and replaying a window of it with the plugin.
//!
//! The recording has what the guest takes from outside (`-icount rr=record`): what comes by the network, and when. It is made without
//! the plugin, at QEMU's own speed. Every replay then does the same, instruction by instruction, and so a window of it comes
//! out the same whenever it is written down. A recording is a folder: the record, what the guest is, and what its console said.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use doorbell_image::{Image, ImageError};
use serde::{Deserialize, Serialize};

use crate::error::StreamError;
use crate::nic::{NicModel, nic};
use crate::target::{Target, target};
use crate::tools::Tools;

const RECORD_FILE: &str = "record";
const GUEST_FILE: &str = "guest.toml";
const CONSOLE_FILE: &str = "console";
const REPLAYED_CONSOLE_FILE: &str = "console-replayed";
const LOG_FILE: &str = "qemu.log";
/// What stands for the forwarded port in commands.
const PORT: &str = "{port}";
/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A program or an image could not be had.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// What was written down cannot be understood.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// A file or program.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// QEMU or the guest did not do what it should.
    #[error("{0}")]
    Failed(String),
}

impl RecordError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecordError {
        let path = path.to_owned();
        move |source| RecordError::Io { action, path, source }
    }
}

/// What is recorded.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guest {
    /// The machine's name in [`TARGETS`](crate::target::TARGETS).
    pub target: String,
    /// The NIC's name in [`NICS`](crate::nic::NICS).
    pub nic: String,
    /// The image's folder.
    pub image: PathBuf,
    /// The shell command that the guest executes.
    pub command: String,
    /// RAM, in MiB: at most 2048.
    pub ram_mib: u32,
    /// A TCP port of the guest's that a free one of the host's leads to.
    #[serde(default)]
    pub forward: Option<u16>,
}

/// A program on the host beside the guest. `{port}` in its words, and in the guest's command, is the forwarded port of the host's, or a
/// free one.
#[derive(Clone, Debug)]
pub struct Beside {
    /// One of the programs of [`Tools`].
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// What the guest's console says before it is started; it is started at once without this.
    pub after: Option<String>,
}

/// What is written down of a recording.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// It begins when the console has printed this,
    pub mark: Option<String>,
    /// and so many instructions later.
    pub skip: u64,
    /// Its instructions.
    pub length: u64,
}

/// QEMU, stopped when nobody wants it any more.
#[derive(Debug)]
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Guest {
    /// What a recording in a folder is of.
    pub fn recorded(folder: &Path) -> Result<Guest, RecordError> {
        let path = folder.join(GUEST_FILE);
        if !path.exists() {
            let problem = format!("{} is no recording: make one with `record`", folder.display());
            return Err(RecordError::Failed(problem));
        }
        let text = fs::read_to_string(&path).map_err(RecordError::io("read", &path))?;
        let bad = |error: toml::de::Error| RecordError::Failed(format!("{}: {error}", path.display()));
        toml::from_str(&text).map_err(bad)
    }

    /// The machine.
    pub fn target(&self) -> Result<&'static Target, RecordError> {
        target(&self.target).map_err(RecordError::Failed)
    }

    /// The NIC.
    pub fn nic(&self) -> Result<&'static NicModel, RecordError> {
        nic(&self.nic).map_err(RecordError::Failed)
    }
}

fn qemu(tools: &Tools, guest: &Guest, plugin: Option<&Path>) -> Result<Command, RecordError> {
    let image = Image::open(&guest.image)?;
    let manifest = image.manifest();
    let mut command = tools.qemu(plugin);
    let ram = format!("{}M", guest.ram_mib);
    command.args(["-nodefaults", "-no-reboot", "-display", "none", "-smp", "1", "-seed", "1", "-m", &ram]);
    command.args(guest.target()?.machine).args(["-rtc", "base=2025-01-01,clock=vm"]);
    // A mapping by whose name the plugin finds it.
    command.args(["-object", &format!("memory-backend-memfd,id=ram,size={ram}")]);
    // Without firmware of its own to boot from, which comes in another package.
    command.args(["-device", &format!("{},netdev=n0,mac=52:54:00:12:34:56,romfile=", guest.nic()?.name)]);
    command.args(["-object", "filter-replay,id=replay,netdev=n0"]);
    command.arg("-kernel").arg(image.dir().join("kernel"));
    command.arg("-initrd").arg(image.dir().join("initramfs.cpio"));
    command.args(["-append", &format!("{} -- {}", manifest.command_line, guest.command)]);
    command.stdin(Stdio::null());
    Ok(command)
}

fn in_folder(option: &str, path: &Path) -> String {
    // QEMU takes two commas for one of a file's name.
    format!("{option}{}", path.to_string_lossy().replace(',', ",,"))
}

/// Records a guest until it powers off, at most for so long, into a folder.
pub fn record(
    tools: &Tools,
    guest: &Guest,
    beside: &[Beside],
    folder: &Path,
    at_most: Duration,
) -> Result<(), RecordError> {
    fs::create_dir_all(folder).map_err(RecordError::io("create", folder))?;
    let port = free_port()?;
    let guest = Guest { command: guest.command.replace(PORT, &port.to_string()), ..guest.clone() };
    let console = folder.join(CONSOLE_FILE);
    let mut netdev = "user,id=n0".to_owned();
    if let Some(own) = guest.forward {
        netdev += &format!(",hostfwd=tcp:127.0.0.1:{port}-:{own}");
    }
    let mut waiting: Vec<&Beside> = beside.iter().collect();
    let mut started = Vec::new();
    start(tools, &mut waiting, "", port, &mut started)?;
    let mut command = qemu(tools, &guest, None)?;
    command.args(["-netdev", &netdev, "-serial", &in_folder("file:", &console)]);
    command.args(["-icount", &in_folder("shift=1,rr=record,rrfile=", &folder.join(RECORD_FILE))]);
    let log = folder.join(LOG_FILE);
    let mut running = spawn(&mut command, &log)?;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = running.0.try_wait().map_err(RecordError::io("wait for", &log))? {
            break status;
        }
        if begun.elapsed() > at_most {
            let problem = format!(
                "the guest has not powered off within {} s: is its command waiting for something?",
                at_most.as_secs()
            );
            return Err(RecordError::Failed(problem + &last_lines(&console)));
        }
        std::thread::sleep(Duration::from_millis(20));
        let said = fs::read(&console).unwrap_or_default();
        start(tools, &mut waiting, &String::from_utf8_lossy(&said), port, &mut started)?;
    };
    if !status.success() {
        return Err(RecordError::Failed(format!("QEMU ended with {status}{}", last_lines(&log))));
    }
    let said = String::from_utf8_lossy(&fs::read(&console).unwrap_or_default()).into_owned();
    if !said.contains("doorbell: exit 0") {
        return Err(RecordError::Failed(format!("the guest's command has failed{}", last_lines(&console))));
    }
    let text = toml::to_string(&guest).expect("its fields are plain");
    let path = folder.join(GUEST_FILE);
    fs::write(&path, text).map_err(RecordError::io("write", &path))
}

/// Starts those programs that wait for nothing more.
fn start(
    tools: &Tools,
    waiting: &mut Vec<&Beside>,
    said: &str,
    port: u16,
    started: &mut Vec<Running>,
) -> Result<(), RecordError> {
    let is_due = |one: &&Beside| one.after.as_ref().is_none_or(|mark| said.contains(mark));
    let due: Vec<&Beside> = waiting.iter().copied().filter(is_due).collect();
    waiting.retain(|one| !is_due(one));
    for one in due {
        if !tools.has(&one.program) {
            let problem = format!(
                "{:?} is none of the programs beside the guest, such as iperf3, redis-benchmark and redis-cli",
                one.program
            );
            return Err(RecordError::Failed(problem));
        }
        let mut command = tools.program(&one.program);
        command.args(one.arguments.iter().map(|word| word.replace(PORT, &port.to_string())));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(RecordError::io("start", Path::new(&one.program)))?;
        started.push(Running(child));
    }
    Ok(())
}

fn spawn(command: &mut Command, log: &Path) -> Result<Running, RecordError> {
    let file = fs::File::create(log).map_err(RecordError::io("create", log))?;
    let child = command.stderr(file).spawn().map_err(RecordError::io("start", Path::new("QEMU")))?;
    Ok(Running(child))
}

fn free_port() -> Result<u16, RecordError> {
    let none = |source| RecordError::Io { action: "find a free port of", path: "127.0.0.1".into(), source };
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(none)?;
    Ok(listener.local_addr().map_err(none)?.port())
}

fn last_lines(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(8)..];
    if last.is_empty() { String::new() } else { format!("; the last lines:\n{}", last.join("\n")) }
}

/// A replay under way: what it executes in the window.
#[derive(Debug)]
pub struct Replay {
    running: Running,
    log: PathBuf,
}

/// Replays a recording, with the plugin's library, up to the end of a window.
pub fn replay(
    tools: &Tools,
    plugin: &Path,
    folder: &Path,
    window: &Window,
) -> Result<(Replay, ChildStdout), RecordError> {
    let guest = Guest::recorded(folder)?;
    let mut command = qemu(tools, &guest, Some(plugin))?;
    // What came from outside comes from the record; a port need not be free again.
    command.args(["-netdev", "user,id=n0"]);
    command.args(["-serial", &in_folder("file:", &folder.join(REPLAYED_CONSOLE_FILE))]);
    command.args(["-icount", &in_folder("shift=1,rr=replay,rrfile=", &folder.join(RECORD_FILE))]);
    let mut options = in_folder("", plugin);
    options += &format!(",out=/dev/stdout,skip={},length={}", window.skip, window.length);
    if let Some(mark) = &window.mark {
        options += &format!(",mark={}", mark.replace(',', ",,"));
    }
    command.args(["-plugin", &options, "-D", "/dev/null"]);
    for event in guest.nic()?.events.iter().chain([&guest.target()?.console]) {
        command.args(["-trace", event]);
    }
    command.stdout(Stdio::piped());
    let log = folder.join(LOG_FILE);
    let mut running = spawn(&mut command, &log)?;
    let stream = running.0.stdout.take().expect("it was asked for");
    Ok((Replay { running, log }, stream))
}

impl Replay {
    /// What reading the stream came to; if QEMU has failed, what it said.
    pub fn explain<T>(mut self, result: Result<T, StreamError>) -> Result<T, RecordError> {
        let ended = self.running.0.wait();
        match (result, ended) {
            (Ok(_) | Err(StreamError::Truncated { .. } | StreamError::Foreign), Ok(status))
                if !status.success() =>
            {
                Err(RecordError::Failed(format!("QEMU ended with {status}{}", last_lines(&self.log))))
            }
            (result, _) => Ok(result?),
        }
    }
}
