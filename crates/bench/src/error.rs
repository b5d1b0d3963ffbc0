//! What can go wrong in a run, each with what to do about it.

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
    /// A file cannot be a disk.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The checkpoint cannot be used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The checkpoint that the user named cannot be used.
    #[error("{}: {error}", path.display())]
    NamedCheckpoint {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        error: CheckpointError,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the host said.
        error: std::io::Error,
    },
    /// Another process is writing to the result folder.
    #[error("{} is being written by another run: wait for its end, or name another folder with --out", path.display())]
    ResultsBusy {
        /// Which folder.
        path: PathBuf,
    },
    /// The result folder would be replaced, and holds something else.
    #[error("{} cannot be the result folder: {problem}; name another one with --out, or move what is there", path.display())]
    ResultsForeign {
        /// Which folder.
        path: PathBuf,
        /// What is there.
        problem: String,
    },
    /// The capture cannot be written.
    #[error(transparent)]
    Capture(#[from] doorbell_wire::pcap::PcapError),
    /// The trace cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Trace {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        error: doorbell_trace::system::TraceError,
    },
    /// More frames were lost under a name than are missing: a fault of ours.
    #[error(
        "the books do not balance: {named} frames were dropped under a name, and only {missing} of the window's are missing (and {others} others may \
         be). This is a fault of Doorbell's, and no figure of the run is to be trusted: please report the command with its configuration"
    )]
    Books {
        /// Frames of the window that did not come back.
        missing: u64,
        /// Frames that were no test frames, or no frames of the window.
        others: u64,
        /// Frames dropped by cause.
        named: u64,
    },
    /// Rules of kinds cannot be used.
    #[error("{}: {problem}", path.display())]
    Kinds {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A trace cannot be played.
    #[error("{}: {error}", path.display())]
    Playback {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        error: PlaybackError,
    },
    /// A trace in ChampSim's format cannot be played; the error names its file.
    #[error(transparent)]
    ChampSim(doorbell_trace::champsim::Error),
    /// One of DynamoRIO's cannot be; the error names its file.
    #[error(transparent)]
    Drmemtrace(#[from] doorbell_drmemtrace::Error),
    /// What was played is not what the trace holds.
    #[error("{}: {problem}; `doorbell trace check` says whether the file is whole, and if it is, this is a fault of Doorbell's", path.display())]
    Unplayed {
        /// Which file.
        path: PathBuf,
        /// What is missing.
        problem: String,
    },
    /// The guest did not get ready.
    #[error("{why}\nThe console's last lines:\n{console}")]
    NotReady {
        /// What happened instead.
        why: String,
        /// What the guest printed last.
        console: String,
    },
    /// The guest ended in the middle of a measurement.
    #[error("the guest ended during the measurement ({why})\nThe console's last lines:\n{console}")]
    Ended {
        /// What happened.
        why: String,
        /// What the guest printed last.
        console: String,
    },
    /// A script that cannot be run, or a mark that never came.
    #[error("{0}")]
    Script(String),
    /// A script that did not come to its end.
    #[error("{why}\nThe console's last lines:\n{console}")]
    Unfinished {
        /// What happened.
        why: String,
        /// What the guest printed last.
        console: String,
    },
    /// The guest does not answer what the generator asks.
    #[error("{0}")]
    NoAnswer(String),
    /// Ctrl-C.
    #[error("interrupted; what was already written is whole")]
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

/// What an outcome that should not have come means, in words.
pub(crate) fn describe(outcome: Outcome, waited: Ps) -> String {
    match outcome {
        Outcome::Time => format!(
            "the guest was not ready after {:.3} simulated seconds (run.boot_timeout)",
            waited.as_secs_f64()
        ),
        Outcome::Reset => "the guest asked for a reset: its kernel panicked, or a program rebooted it".into(),
        Outcome::PowerOff { code: 0 } => "the guest powered off".into(),
        Outcome::PowerOff { code } => format!("the guest powered off with the failure code {code}"),
        Outcome::Asleep => "the guest sleeps and nothing is left that would wake it".into(),
        Outcome::Beside => "a trace that is played beside the machine cannot be read further".into(),
        Outcome::M5Op { function, .. } => format!("the guest ended the run with the m5op {function:#x}"),
        Outcome::Instructions | Outcome::Marker | Outcome::Breakpoint { .. } => "the run ended early".into(),
    }
}
