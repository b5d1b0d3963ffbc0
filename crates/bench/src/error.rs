//! Errors of a run. Each message gives the problem and a remedy.

use std::path::{Path, PathBuf};

use doorbell_image::ImageError;
use doorbell_machine::playback::PlaybackError;
use doorbell_machine::{BootError, CheckpointError, ConfigError, DiskError, Outcome};
use doorbell_sim::Ps;

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The guest image is missing or damaged.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The guest cannot be booted.
    #[error("cannot boot the image: {0}")]
    Boot(#[from] BootError),
    /// A file cannot be used as a disk image.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The checkpoint cannot be used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The checkpoint that the user named cannot be used.
    #[error("{}: {error}", path.display())]
    NamedCheckpoint {
        /// The file.
        path: PathBuf,
        /// The problem.
        error: CheckpointError,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// The attempted action, such as "write".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The host's error.
        error: std::io::Error,
    },
    /// Another process is writing to the result folder.
    #[error("{} is being written by another run: wait for its end, or name another folder with --out", path.display())]
    ResultsBusy {
        /// The folder.
        path: PathBuf,
    },
    /// The result folder would be replaced, but holds files that are not a run's results.
    #[error("{} cannot be the result folder: {problem}; name another one with --out, or move what is there", path.display())]
    ResultsForeign {
        /// The folder.
        path: PathBuf,
        /// Its foreign contents.
        problem: String,
    },
    /// The capture cannot be written.
    #[error(transparent)]
    Capture(#[from] doorbell_wire::pcap::PcapError),
    /// The trace cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// The problem.
        error: doorbell_trace::system::TraceError,
    },
    /// The drop counters sum to more frames than are missing: a bug in Doorbell.
    #[error(
        "frame accounting does not balance: the drop counters sum to {named} frames, but only {missing} frames of the measurement are missing (and \
         at most {others} other frames). This is a bug in Doorbell, and the figures of this run are not reliable: please report the command \
         with its configuration"
    )]
    Books {
        /// Frames of the measurement window that did not return.
        missing: u64,
        /// Frames that are not test frames, or not of the measurement window.
        others: u64,
        /// Frames dropped, over all causes.
        named: u64,
    },
    /// The rules that classify functions by kind of CPU time cannot be used.
    #[error("{}: {problem}", path.display())]
    Kinds {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// A trace cannot be played.
    #[error("{}: {error}", path.display())]
    Playback {
        /// The file.
        path: PathBuf,
        /// The problem.
        error: PlaybackError,
    },
    /// A trace in ChampSim's format cannot be played; the error names its file.
    #[error(transparent)]
    ChampSim(doorbell_trace::champsim::Error),
    /// A trace in DynamoRIO's format cannot be played; the error names its file.
    #[error(transparent)]
    Drmemtrace(#[from] doorbell_drmemtrace::Error),
    /// The playback did not cover the whole trace.
    #[error("{}: {problem}; run `doorbell trace check` to see whether the file is intact: if it is, this is a bug in Doorbell", path.display())]
    Unplayed {
        /// The trace.
        path: PathBuf,
        /// The missing part.
        problem: String,
    },
    /// The guest did not become ready.
    #[error("{why}\nThe console's last lines:\n{console}")]
    NotReady {
        /// The reason.
        why: String,
        /// The last console lines.
        console: String,
    },
    /// The guest ended during a measurement.
    #[error("the guest ended during the measurement ({why})\nThe console's last lines:\n{console}")]
    Ended {
        /// The reason.
        why: String,
        /// The last console lines.
        console: String,
    },
    /// A script cannot be run, or never printed an expected mark.
    #[error("{0}")]
    Script(String),
    /// A script did not finish.
    #[error("{why}\nThe console's last lines:\n{console}")]
    Unfinished {
        /// The reason.
        why: String,
        /// The last console lines.
        console: String,
    },
    /// The guest does not answer the generator's requests.
    #[error("{0}")]
    NoAnswer(String),
    /// Ctrl-C.
    #[error("interrupted; files written so far are complete")]
    Interrupted,
}

impl RunError {
    /// An error about playing the trace `path`, unless it names another one itself.
    pub(crate) fn playback(path: &Path) -> impl Fn(PlaybackError) -> RunError {
        move |error| match error {
            PlaybackError::ChampSim(error) => RunError::ChampSim(error),
            PlaybackError::Of { path, error } => RunError::Playback { path, error: *error },
            error => RunError::Playback { path: path.to_owned(), error },
        }
    }

    /// An I/O error about `path`.
    pub fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> RunError {
        let path = path.into();
        move |error| RunError::Io { action, path, error }
    }
}

/// Explains an unexpected outcome for an error message.
pub(crate) fn describe(outcome: Outcome, waited: Ps) -> String {
    match outcome {
        Outcome::Time => format!(
            "the guest was not ready within {:.3} simulated seconds (run.boot_timeout)",
            waited.as_secs_f64()
        ),
        Outcome::Reset => "the guest requested a reset: its kernel panicked, or a program rebooted it".into(),
        Outcome::PowerOff { code: 0 } => "the guest powered off".into(),
        Outcome::PowerOff { code } => format!("the guest powered off with the failure code {code}"),
        Outcome::Asleep => "the guest sleeps, and no pending event can wake it".into(),
        Outcome::CorunnerFailed => "the trace of a co-running core cannot be read further".into(),
        Outcome::M5Op { function, .. } => format!("the guest ended the run with the m5op {function:#x}"),
        Outcome::Instructions | Outcome::Marker | Outcome::Breakpoint { .. } => "the run ended early".into(),
    }
}
