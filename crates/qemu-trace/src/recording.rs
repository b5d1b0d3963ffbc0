//! Records a guest under QEMU.
//!
//! A recording contains the guest's external inputs (`-icount rr=record`): network data and its timing. It is
//! made without the plugin, at QEMU's normal speed. Every replay ([`replay`](crate::replay)) repeats the same
//! instructions, so a window is the same each time. A recording is a folder with the record, the description
//! of the guest, its console output, and the output of its companion programs.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use doorbell_image::{Image, ImageError};
use doorbell_trace::system::TraceError;
use serde::{Deserialize, Serialize};

use crate::error::StreamError;
use crate::made_with::MadeWith;
use crate::nic::{NicModel, nic};
use crate::target::{Target, target};
use crate::tools::Tools;

const RECORD_FILE: &str = "record";
const GUEST_FILE: &str = "guest.toml";
const CONSOLE_FILE: &str = "console";
const LOG_FILE: &str = "qemu.log";
/// Placeholder of the forwarded port in commands.
const PORT: &str = "{port}";
/// Console line that the guest's init prints after its command succeeds.
const ENDED_WELL: &str = "doorbell: exit 0";
/// Message of QEMU if it cannot write the record; it continues regardless.
const RECORD_LOST: &str = "replay write error";
/// Polling interval.
pub(crate) const LOOK: Duration = Duration::from_millis(20);
/// Time left to a server after all companion programs have ended.
const AFTER_ALL: Duration = Duration::from_millis(500);

/// Error of recording or replay.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A program or an image is not available.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The raw stream is invalid.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// Writing the trace fails.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The trace.
        path: PathBuf,
        /// The reason.
        source: TraceError,
    },
    /// The user interrupted the work.
    #[error("interrupted; nothing was written")]
    Interrupted,
    /// Operating on a file or program fails.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// The file or program.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// QEMU or the guest failed.
    #[error("{0}")]
    Failed(String),
}

impl RecordError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecordError {
        let path = path.to_owned();
        move |source| RecordError::Io { action, path, source }
    }
}

/// The recorded guest.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guest {
    /// Name of the machine in [`TARGETS`](crate::target::TARGETS).
    pub target: String,
    /// Name of the NIC in [`NICS`](crate::nic::NICS).
    pub nic: String,
    /// Folder of the image.
    pub image: PathBuf,
    /// Name of the image.
    pub name: String,
    /// Shell command that the guest executes.
    pub command: String,
    /// RAM, in MiB.
    pub ram_mib: u32,
    /// TCP port of the guest to which a free port of the host is forwarded.
    #[serde(default)]
    pub forward: Option<u16>,
}

/// A companion program on the host. `{port}` in its words and in the guest's command is replaced by the
/// forwarded host port, or by a free one.
#[derive(Clone, Debug)]
pub struct Beside {
    /// Name of the program in [`Tools`], and its arguments.
    pub words: Vec<String>,
    /// Console output after which it is started; `None` starts it immediately.
    pub after: Option<String>,
}

/// Parameters of a recording.
#[derive(Clone, Debug)]
pub struct RecordingRequest {
    /// The guest.
    pub guest: Guest,
    /// Companion programs.
    pub beside: Vec<Beside>,
    /// The guest's command does not end by itself: the recording ends when all companion programs have.
    pub is_server: bool,
    /// Time limit.
    pub at_most: Duration,
}

/// Progress output and interruption.
pub struct Watch<'a> {
    /// Set when the user interrupts.
    pub interrupted: &'a AtomicBool,
    /// Called with short progress messages.
    pub say: &'a mut dyn FnMut(&str),
}

impl Watch<'_> {
    /// Fails if the user has interrupted.
    pub fn check(&self) -> Result<(), RecordError> {
        if self.interrupted.load(Ordering::Relaxed) { Err(RecordError::Interrupted) } else { Ok(()) }
    }
}

/// A child process, killed on drop.
#[derive(Debug)]
pub(crate) struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Guest {
    /// Its machine.
    pub fn target(&self) -> Result<&'static Target, RecordError> {
        target(&self.target).map_err(RecordError::Failed)
    }

    /// Its NIC.
    pub fn nic(&self) -> Result<&'static NicModel, RecordError> {
        nic(&self.nic).map_err(RecordError::Failed)
    }

    /// Guest of a recording.
    pub fn load(folder: &Path) -> Result<Guest, RecordError> {
        let path = folder.join(GUEST_FILE);
        if !path.exists() {
            return Err(RecordError::Failed(format!("{} is not a recording", folder.display())));
        }
        let text = fs::read_to_string(&path).map_err(RecordError::io("read", &path))?;
        let bad = |error: toml::de::Error| RecordError::Failed(format!("{}: {error}", path.display()));
        toml::from_str(&text).map_err(bad)
    }

    /// QEMU's options for the machine, independent of file locations and network.
    pub(crate) fn options(&self) -> Result<Vec<String>, RecordError> {
        let ram = format!("{}M", self.ram_mib);
        let mut options =
            ["-nodefaults", "-no-reboot", "-display", "none", "-smp", "1", "-seed", "1", "-m", &ram]
                .map(str::to_owned)
                .to_vec();
        options.extend(self.target()?.machine.iter().map(|word| (*word).to_owned()));
        let mut add = |option: &str, value: String| options.extend([option.to_owned(), value]);
        add("-rtc", "base=2025-01-01,clock=vm".to_owned());
        // The plugin finds the mapping by its name.
        add("-object", format!("memory-backend-memfd,id=ram,size={ram}"));
        // Without an option ROM, which is in another package.
        add("-device", format!("{},netdev=n0,mac=52:54:00:12:34:56,romfile=", self.nic()?.name));
        add("-object", "filter-replay,id=replay,netdev=n0".to_owned());
        Ok(options)
    }

    /// Kernel command line.
    pub(crate) fn command_line(&self, image: &Image) -> String {
        format!("{} -- {}", image.manifest().command_line, self.command)
    }

    /// Command for QEMU, without network, console and record.
    pub(crate) fn qemu(&self, tools: &Tools, plugin: Option<&Path>) -> Result<Command, RecordError> {
        let image = Image::open(&self.image)?;
        let mut command = tools.qemu(plugin);
        command.args(self.options()?);
        command.arg("-kernel").arg(image.dir().join("kernel"));
        command.arg("-initrd").arg(image.dir().join("initramfs.cpio"));
        command.args(["-append", &self.command_line(&image)]);
        command.stdin(Stdio::null());
        Ok(command)
    }
}

/// QEMU's option for writing or reading the record.
pub(crate) fn icount(how: &str, folder: &Path) -> String {
    in_folder(&format!("shift=1,rr={how},rrfile="), &folder.join(RECORD_FILE))
}

pub(crate) fn in_folder(option: &str, path: &Path) -> String {
    // QEMU reads two commas as one.
    format!("{option}{}", path.to_string_lossy().replace(',', ",,"))
}

/// The guest's console output.
pub fn console(folder: &Path) -> String {
    String::from_utf8_lossy(&fs::read(folder.join(CONSOLE_FILE)).unwrap_or_default()).into_owned()
}

/// Records a guest until it powers off, into an existing folder.
pub fn record(
    tools: &Tools,
    wanted: &RecordingRequest,
    folder: &Path,
    watch: &mut Watch,
) -> Result<(), RecordError> {
    let port = free_port()?;
    let command = wanted.guest.command.replace(PORT, &port.to_string());
    let guest = Guest { command, ..wanted.guest.clone() };
    let mut peers = Peers {
        tools,
        folder,
        port,
        waiting: wanted.beside.iter().enumerate().collect(),
        started: Vec::new(),
    };
    peers.start("")?;
    let console_file = folder.join(CONSOLE_FILE);
    let mut netdev = "user,id=n0".to_owned();
    if let Some(own) = guest.forward {
        netdev += &format!(",hostfwd=tcp:127.0.0.1:{port}-:{own}");
    }
    let mut command = guest.qemu(tools, None)?;
    command.args(["-netdev", &netdev, "-serial", &in_folder("file:", &console_file)]);
    command.args(["-icount", &icount("record", folder)]);
    let log = folder.join(LOG_FILE);
    let mut running = spawn(&mut command, &log)?;
    let start = Instant::now();
    let mut over = None;
    let status = loop {
        if let Some(status) = running.0.try_wait().map_err(RecordError::io("wait for", &log))? {
            break status;
        }
        watch.check()?;
        if start.elapsed() > wanted.at_most {
            return Err(RecordError::Failed(too_long(wanted) + &last_lines(&console_file)));
        }
        std::thread::sleep(LOOK);
        peers.start(&console(folder))?;
        if peers.have_ended()? && wanted.is_server && over.is_none() {
            over = Some(Instant::now());
        }
        if over.is_some_and(|since| since.elapsed() > AFTER_ALL) {
            break stop(&mut running).map_err(RecordError::io("stop", Path::new("QEMU")))?;
        }
    };
    watch.check()?;
    if !status.success() {
        return Err(RecordError::Failed(format!("QEMU ended with {status}{}", last_lines(&log))));
    }
    if fs::read_to_string(&log).is_ok_and(|text| text.contains(RECORD_LOST)) {
        let problem =
            format!("QEMU could not write the recording to {}: is the disk full?", folder.display());
        return Err(RecordError::Failed(problem));
    }
    if over.is_none() && !console(folder).contains(ENDED_WELL) {
        let what = if wanted.is_server { "ended before the companion programs" } else { "failed" };
        return Err(RecordError::Failed(format!("the guest's command {what}{}", last_lines(&console_file))));
    }
    MadeWith::now(tools, &guest)?.write(folder)?;
    let text = toml::to_string(&guest).expect("its fields are plain");
    let path = folder.join(GUEST_FILE);
    fs::write(&path, text).map_err(RecordError::io("write", &path))
}

fn too_long(wanted: &RecordingRequest) -> String {
    let waits_for =
        if wanted.is_server { "its companion programs have not ended" } else { "it has not powered off" };
    format!(
        "the guest was recorded for {} s, but {waits_for}; a server needs --server, and --timeout \
         gives more time",
        wanted.at_most.as_secs()
    )
}

/// Ends QEMU so that it completes the record.
fn stop(running: &mut Running) -> io::Result<ExitStatus> {
    let id = rustix::process::Pid::from_child(&running.0);
    rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
    running.0.wait()
}

/// Companion programs of a guest.
struct Peers<'a> {
    tools: &'a Tools,
    folder: &'a Path,
    port: u16,
    waiting: Vec<(usize, &'a Beside)>,
    started: Vec<(usize, Running)>,
}

impl Peers<'_> {
    /// Starts the programs that the console output allows to start.
    fn start(&mut self, output: &str) -> Result<(), RecordError> {
        let is_due = |one: &Beside| one.after.as_ref().is_none_or(|mark| output.contains(mark));
        let due: Vec<_> = self.waiting.iter().copied().filter(|(_, one)| is_due(one)).collect();
        self.waiting.retain(|(_, one)| !is_due(one));
        for (number, one) in due {
            let program = one.words.first().map_or("", String::as_str);
            if !self.tools.has(program) {
                let problem = format!(
                    "{program:?} is not one of the companion programs, such as iperf3, redis-benchmark and redis-cli"
                );
                return Err(RecordError::Failed(problem));
            }
            let mut command = self.tools.program(program);
            command.args(one.words[1..].iter().map(|word| word.replace(PORT, &self.port.to_string())));
            let output = self.output(number);
            let file = fs::File::create(&output).map_err(RecordError::io("create", &output))?;
            let twice = file.try_clone().map_err(RecordError::io("create", &output))?;
            command.stdin(Stdio::null()).stdout(file).stderr(twice);
            let child = command.spawn().map_err(RecordError::io("start", Path::new(program)))?;
            self.started.push((number, Running(child)));
        }
        Ok(())
    }

    /// Output file of a program.
    fn output(&self, number: usize) -> PathBuf {
        self.folder.join(format!("beside-{number}"))
    }

    /// Returns whether all have ended; an error if one has failed.
    fn have_ended(&mut self) -> Result<bool, RecordError> {
        let mut all = self.waiting.is_empty();
        for at in 0..self.started.len() {
            let (number, running) = &mut self.started[at];
            let number = *number;
            match running
                .0
                .try_wait()
                .map_err(RecordError::io("wait for", Path::new("a companion program")))?
            {
                None => all = false,
                Some(status) if status.success() => {}
                Some(status) => {
                    let output = last_lines(&self.output(number));
                    let problem = format!("companion program {} failed with {status}{output}", number + 1);
                    return Err(RecordError::Failed(problem));
                }
            }
        }
        Ok(all)
    }
}

pub(crate) fn spawn(command: &mut Command, log: &Path) -> Result<Running, RecordError> {
    let file = fs::File::create(log).map_err(RecordError::io("create", log))?;
    let child = command.stderr(file).spawn().map_err(RecordError::io("start", Path::new("QEMU")))?;
    Ok(Running(child))
}

fn free_port() -> Result<u16, RecordError> {
    let none = |source| RecordError::Io { action: "find a free port of", path: "127.0.0.1".into(), source };
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(none)?;
    Ok(listener.local_addr().map_err(none)?.port())
}

/// The last lines of a program's output.
pub(crate) fn last_lines(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(8)..];
    if last.is_empty() { String::new() } else { format!("; the last lines:\n{}", last.join("\n")) }
}
