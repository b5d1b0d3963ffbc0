//! Recording a guest under QEMU.
//!
//! The recording has what the guest takes from outside (`-icount rr=record`): what comes by the network, and when. It is made without
//! the plugin, at QEMU's own speed. Every replay ([`replay`](crate::replay)) then does the same, instruction by instruction, and so a
//! window of it comes out the same whenever it is written down. A recording is a folder: the record, what the guest is, what its console
//! said, and what the programs beside it said.

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
/// What stands for the forwarded port in commands.
const PORT: &str = "{port}";
/// What the guest's init says when its command has ended well.
const ENDED_WELL: &str = "doorbell: exit 0";
/// What QEMU says if it cannot write the record; it goes on nevertheless.
const RECORD_LOST: &str = "replay write error";
/// How often is looked at what goes on.
pub(crate) const LOOK: Duration = Duration::from_millis(20);
/// What a server may still do when all programs beside it have ended.
const AFTER_ALL: Duration = Duration::from_millis(500);

/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A program or an image could not be had.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// What was written down cannot be understood.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The trace cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Its name.
        path: PathBuf,
        /// Why not.
        source: TraceError,
    },
    /// The user wants to stop.
    #[error("interrupted; nothing was written")]
    Interrupted,
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
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecordError {
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
    /// The image's name.
    pub name: String,
    /// The shell command that the guest executes.
    pub command: String,
    /// RAM, in MiB.
    pub ram_mib: u32,
    /// A TCP port of the guest's that a free one of the host's leads to.
    #[serde(default)]
    pub forward: Option<u16>,
}

/// A program on the host beside the guest. `{port}` in its words, and in the guest's command, is the forwarded port of the host's, or a
/// free one.
#[derive(Clone, Debug)]
pub struct Beside {
    /// One of the programs of [`Tools`], and its arguments.
    pub words: Vec<String>,
    /// What the guest's console says before it is started; it is started at once without this.
    pub after: Option<String>,
}

/// A recording that is to be made.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The guest.
    pub guest: Guest,
    /// What runs beside it.
    pub beside: Vec<Beside>,
    /// The guest's command does not end by itself: the recording ends when all programs beside it have.
    pub is_server: bool,
    /// It may take so long.
    pub at_most: Duration,
}

/// How work is watched and stopped.
pub struct Watch<'a> {
    /// Set when the user wants to stop.
    pub interrupted: &'a AtomicBool,
    /// Told in a few words what is going on.
    pub say: &'a mut dyn FnMut(&str),
}

impl Watch<'_> {
    /// Whether the user wants to go on.
    pub fn check(&self) -> Result<(), RecordError> {
        if self.interrupted.load(Ordering::Relaxed) { Err(RecordError::Interrupted) } else { Ok(()) }
    }
}

/// A program, stopped when nobody wants it any more.
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

    /// Of a recording.
    pub fn load(folder: &Path) -> Result<Guest, RecordError> {
        let path = folder.join(GUEST_FILE);
        if !path.exists() {
            return Err(RecordError::Failed(format!("{} is no recording", folder.display())));
        }
        let text = fs::read_to_string(&path).map_err(RecordError::io("read", &path))?;
        let bad = |error: toml::de::Error| RecordError::Failed(format!("{}: {error}", path.display()));
        toml::from_str(&text).map_err(bad)
    }

    /// QEMU's options for the machine, wherever its files and its network are.
    pub(crate) fn options(&self) -> Result<Vec<String>, RecordError> {
        let ram = format!("{}M", self.ram_mib);
        let mut options =
            ["-nodefaults", "-no-reboot", "-display", "none", "-smp", "1", "-seed", "1", "-m", &ram]
                .map(str::to_owned)
                .to_vec();
        options.extend(self.target()?.machine.iter().map(|word| (*word).to_owned()));
        let mut add = |option: &str, value: String| options.extend([option.to_owned(), value]);
        add("-rtc", "base=2025-01-01,clock=vm".to_owned());
        // A mapping by whose name the plugin finds it.
        add("-object", format!("memory-backend-memfd,id=ram,size={ram}"));
        // Without firmware of its own to boot from, which comes in another package.
        add("-device", format!("{},netdev=n0,mac=52:54:00:12:34:56,romfile=", self.nic()?.name));
        add("-object", "filter-replay,id=replay,netdev=n0".to_owned());
        Ok(options)
    }

    /// What the kernel is told.
    pub(crate) fn command_line(&self, image: &Image) -> String {
        format!("{} -- {}", image.manifest().command_line, self.command)
    }

    /// QEMU, but for where the network leads, the console and the record.
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

/// QEMU's option for the record, to write or read it.
pub(crate) fn icount(how: &str, folder: &Path) -> String {
    in_folder(&format!("shift=1,rr={how},rrfile="), &folder.join(RECORD_FILE))
}

pub(crate) fn in_folder(option: &str, path: &Path) -> String {
    // QEMU takes two commas for one of a file's name.
    format!("{option}{}", path.to_string_lossy().replace(',', ",,"))
}

/// What the guest's console said.
pub fn console(folder: &Path) -> String {
    String::from_utf8_lossy(&fs::read(folder.join(CONSOLE_FILE)).unwrap_or_default()).into_owned()
}

/// Records a guest until it powers off, into a folder that is there.
pub fn record(tools: &Tools, wanted: &Wanted, folder: &Path, watch: &mut Watch) -> Result<(), RecordError> {
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
    let begun = Instant::now();
    let mut over = None;
    let status = loop {
        if let Some(status) = running.0.try_wait().map_err(RecordError::io("wait for", &log))? {
            break status;
        }
        watch.check()?;
        if begun.elapsed() > wanted.at_most {
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
        let what = if wanted.is_server { "ended before the programs beside it" } else { "failed" };
        return Err(RecordError::Failed(format!(
            "the guest's command has {what}{}",
            last_lines(&console_file)
        )));
    }
    MadeWith::now(tools, &guest)?.write(folder)?;
    let text = toml::to_string(&guest).expect("its fields are plain");
    let path = folder.join(GUEST_FILE);
    fs::write(&path, text).map_err(RecordError::io("write", &path))
}

fn too_long(wanted: &Wanted) -> String {
    let waits_for =
        if wanted.is_server { "what runs beside it has not ended" } else { "it has not powered off" };
    format!(
        "the guest was recorded for {} s, and {waits_for}: is its command waiting for something? A server needs --server; --timeout \
         gives more time",
        wanted.at_most.as_secs()
    )
}

/// Ends QEMU in the way in which it writes the record to its end.
fn stop(running: &mut Running) -> io::Result<ExitStatus> {
    let id = rustix::process::Pid::from_child(&running.0);
    rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
    running.0.wait()
}

/// The programs beside a guest.
struct Peers<'a> {
    tools: &'a Tools,
    folder: &'a Path,
    port: u16,
    waiting: Vec<(usize, &'a Beside)>,
    started: Vec<(usize, Running)>,
}

impl Peers<'_> {
    /// Starts those programs that wait for nothing more than what the console has said.
    fn start(&mut self, said: &str) -> Result<(), RecordError> {
        let is_due = |one: &Beside| one.after.as_ref().is_none_or(|mark| said.contains(mark));
        let due: Vec<_> = self.waiting.iter().copied().filter(|(_, one)| is_due(one)).collect();
        self.waiting.retain(|(_, one)| !is_due(one));
        for (number, one) in due {
            let program = one.words.first().map_or("", String::as_str);
            if !self.tools.has(program) {
                let problem = format!(
                    "{program:?} is none of the programs beside the guest, such as iperf3, redis-benchmark and redis-cli"
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

    /// What a program says goes there.
    fn output(&self, number: usize) -> PathBuf {
        self.folder.join(format!("beside-{number}"))
    }

    /// Whether all have ended; an error if one has failed.
    fn have_ended(&mut self) -> Result<bool, RecordError> {
        let mut all = self.waiting.is_empty();
        for at in 0..self.started.len() {
            let (number, running) = &mut self.started[at];
            let number = *number;
            match running
                .0
                .try_wait()
                .map_err(RecordError::io("wait for", Path::new("a program beside the guest")))?
            {
                None => all = false,
                Some(status) if status.success() => {}
                Some(status) => {
                    let said = last_lines(&self.output(number));
                    let problem =
                        format!("program {} beside the guest has failed with {status}{said}", number + 1);
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

/// Of what a program has said.
pub(crate) fn last_lines(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(8)..];
    if last.is_empty() { String::new() } else { format!("; the last lines:\n{}", last.join("\n")) }
}
