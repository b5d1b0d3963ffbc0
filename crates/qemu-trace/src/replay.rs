//! Replays a window of a recording, and converts it to a trace.
//!
//! Four stages run concurrently: QEMU, conversion to ops, encoding of the trace, and compression.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use doorbell_sim::Ps;
use doorbell_trace::{Scratch, system};

use crate::ahead::Ahead;
use crate::error::StreamError;
use crate::execution::{Counts, Execution};
use crate::made_with;
use crate::nic::{EVENTS, NicModel};
use crate::recording::{
    Guest, LOOK, RecordError, Running, Watch, console, icount, in_folder, last_lines, spawn,
};
use crate::target::Target;
use crate::tools::Tools;
use crate::trace::ToTrace;

/// Window of a recording.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Console output after which it begins; `None` for reset.
    pub mark: Option<String>,
    /// Instructions to skip after that.
    pub skip: u64,
    /// Length in instructions.
    pub length: u64,
}

impl Window {
    /// Description in words.
    pub fn describe(&self) -> String {
        let mark =
            self.mark.as_ref().map_or_else(|| "reset".to_owned(), |mark| format!("{mark:?} on the console"));
        format!("{} instructions from {} instructions after {mark}", self.length, self.skip)
    }
}

/// A replay in progress. It writes into a scratch folder, so that several may run concurrently.
#[derive(Debug)]
pub struct Replay {
    running: Running,
    log: PathBuf,
    _folder: Scratch,
}

/// Replays a recording with the plugin, up to the end of a window.
pub fn replay(
    tools: &Tools,
    plugin: &Path,
    folder: &Path,
    window: &Window,
) -> Result<(Replay, ChildStdout), RecordError> {
    let guest = Guest::load(folder)?;
    made_with::check(tools, &guest, folder)?;
    if let Some(mark) = window.mark.as_ref().filter(|mark| !console(folder).contains(*mark)) {
        let problem =
            format!("the guest's console never printed {mark:?}{}", last_lines(&folder.join("console")));
        return Err(RecordError::Failed(problem));
    }
    let own = Scratch::new().map_err(|error| RecordError::Failed(error.to_string()))?;
    let mut command = guest.qemu(tools, Some(plugin))?;
    // External input comes from the record, so no port needs to be free.
    command.args(["-netdev", "user,id=n0"]);
    command.args(["-serial", &in_folder("file:", &own.path().join("console"))]);
    command.args(["-icount", &icount("replay", folder)]);
    let mut options = in_folder("", plugin);
    options += &format!(",out=/dev/stdout,skip={},length={}", window.skip, window.length);
    if let Some(mark) = &window.mark {
        options += &format!(",mark={}", mark.replace(',', ",,"));
    }
    command.args(["-plugin", &options, "-D", "/dev/null"]);
    for event in EVENTS.iter().chain([&guest.target()?.console]) {
        command.args(["-trace", event]);
    }
    command.stdout(Stdio::piped());
    let log = own.path().join("qemu.log");
    let mut running = spawn(&mut command, &log)?;
    let stream = running.0.stdout.take().expect("stdout is piped");
    Ok((Replay { running, log, _folder: own }, stream))
}

/// Result of tracing.
#[derive(Clone, Debug)]
pub struct Traced {
    /// Totals of decoding.
    pub executed: Counts,
    /// Totals of the trace.
    pub trace: system::Counts,
    /// Time that the processor slept.
    pub slept: Ps,
    /// Host time from the window's first block to the end.
    pub took: Duration,
}

/// Converts a raw stream to a trace.
pub fn trace(
    target: &Target,
    nic: &'static NicModel,
    stream: impl std::io::Read,
    recorded: String,
    out: &Path,
) -> Result<Traced, StreamError> {
    let recorder = format!("Doorbell {}, from QEMU's record and replay", env!("CARGO_PKG_VERSION"));
    // The header arrives when the window begins, so the time before it is not counted.
    let mut execution = Execution::new(target, nic, stream)?;
    let start = Instant::now();
    let mut to = Ahead::of(ToTrace::create(out, target, recorder, recorded)?)?;
    let executed = execution.run(&mut to)?;
    let to = to.finish()?;
    let slept = to.slept();
    let trace = to.finish()?;
    Ok(Traced { executed, trace, slept, took: start.elapsed() })
}

/// Replays a window of a recording into a trace, which appears when it is complete.
pub fn trace_window(
    tools: &Tools,
    plugin: &Path,
    folder: &Path,
    window: &Window,
    out: &Path,
    watch: &mut Watch,
) -> Result<Traced, RecordError> {
    let guest = Guest::load(folder)?;
    let (target, nic) = (guest.target()?, guest.nic()?);
    let recorded = format!("{}: {}; {}", guest.name, guest.command, window.describe());
    let (mut replay, stream) = replay(tools, plugin, folder, window)?;
    let result = thread::scope(|scope| {
        let decoder = thread::Builder::new().name("decoder".to_owned());
        let decoder = decoder.spawn_scoped(scope, || trace(target, nic, stream, recorded, out));
        let decoder = decoder.map_err(RecordError::io("start", Path::new("a thread")))?;
        while !decoder.is_finished() {
            if watch.check().is_err() {
                replay.stop();
            }
            thread::sleep(LOOK);
        }
        Ok::<_, RecordError>(decoder.join().expect("the decoder does not panic"))
    })?;
    watch.check()?;
    replay.explain(result, out)
}

impl Replay {
    fn stop(&mut self) {
        let _ = self.running.0.kill();
    }

    /// Combines the results of the stream and of QEMU; an error of QEMU includes its output.
    pub fn explain<T>(mut self, result: Result<T, StreamError>, out: &Path) -> Result<T, RecordError> {
        let ended = self.running.0.wait();
        match (result, ended) {
            (Ok(_) | Err(StreamError::Truncated { .. } | StreamError::Foreign), Ok(status))
                if !status.success() =>
            {
                let output = fs::read_to_string(&self.log).unwrap_or_default();
                Err(RecordError::Failed(format!(
                    "QEMU ended with {status}{}{}",
                    hint(&output),
                    last_lines(&self.log)
                )))
            }
            (Err(StreamError::Write(source)), _) => Err(RecordError::Write { path: out.to_owned(), source }),
            (result, _) => Ok(result?),
        }
    }
}

/// Advice for an error message of QEMU.
fn hint(output: &str) -> &'static str {
    if output.contains("-plugin: invalid option") || output.contains("plugin support not") {
        ": it was built without plugin support; Debian's QEMU has it"
    } else if output.contains("Could not load plugin") {
        ": its version differs from that of the plugin's header"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qemu_without_plugin_support_is_reported() {
        assert!(hint("qemu-system-x86_64: -plugin: invalid option").contains("without plugin support"));
        assert_eq!(hint("qemu-system-x86_64: terminating on signal 15"), "");
    }

    #[test]
    fn window_description_names_its_start() {
        let window = Window { mark: Some("ready".to_owned()), skip: 5, length: 7 };
        assert_eq!(window.describe(), "7 instructions from 5 instructions after \"ready\" on the console");
        assert_eq!(Window::default().describe(), "0 instructions from 0 instructions after reset");
    }
}
