//! Errors of trace playback.

use std::path::PathBuf;

use doorbell_trace::champsim;
use doorbell_trace::system::TraceError;

use crate::config::ConfigError;

/// Why a trace cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum PlaybackError {
    /// An error of one of several traces.
    #[error("{}: {error}", path.display())]
    Of {
        /// The trace's file.
        path: PathBuf,
        /// The error.
        error: Box<PlaybackError>,
    },
    /// The configuration does not suit the traces.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The file cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The file cannot be read as a ChampSim trace.
    #[error(transparent)]
    ChampSim(#[from] champsim::Error),
    /// An event follows an instruction that the trace does not have.
    #[error(
        "the trace is inconsistent: a device event follows instruction {after} of hart {hart}, which has {has}; record the trace again"
    )]
    Contradiction {
        /// The event's hart.
        hart: u16,
        /// Its instruction.
        after: u64,
        /// Instructions of the hart in the trace.
        has: u64,
    },
    /// A hart waits for a write that never starts.
    #[error(
        "the trace is inconsistent: hart {hart} waits at instruction {after} for a device write that follows a later instruction; record the trace again"
    )]
    CircularWait {
        /// The hart.
        hart: usize,
        /// Its position in the trace, in instructions.
        after: u64,
    },
    /// The trace cannot be played at this pace.
    #[error("the trace cannot be played at this pace: {0}")]
    Pace(String),
    /// A closed loop deadlocks.
    #[error(
        "a window of {window} deadlocks: after instruction {after} the program waits for more requests before it answers one (at most {in_flight} were in flight when recorded); use a larger window"
    )]
    Window {
        /// The window.
        window: u32,
        /// The hart's position in the trace, in instructions.
        after: u64,
        /// Most requests in flight when recorded.
        in_flight: u64,
    },
    /// A trace touches more pages than the machine has RAM for.
    #[error(
        "the pages that the trace touches do not fit in RAM; increase it (--set platform.ram=…, up to 12GiB)"
    )]
    Ram,
    /// The traces touch more memory than the player can place.
    #[error(
        "the traces touch more than 110 GiB of memory in units of 64 MiB; play fewer of them, or map virtual addresses to pages \
         (playback.pages=kernel; for co-runners, beside.pages=kernel)"
    )]
    Memory,
    /// The trace cannot be played on a co-runner core.
    #[error("it cannot be played as a co-runner: it {0}")]
    Corunner(String),
}

impl PlaybackError {
    /// Whether the error concerns one trace but does not name it.
    pub(super) fn is_of_one(&self) -> bool {
        use PlaybackError::{ChampSim, Config, Memory, Of, Pace, Ram, Window};
        !matches!(self, ChampSim(_) | Config(_) | Memory | Of { .. } | Pace(_) | Ram | Window { .. })
    }
}
