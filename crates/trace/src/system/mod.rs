//! Our own traces: what a whole machine executed, and what its devices did beside it (`docs/trace-format.md`).
//!
//! A file has a stream of blocks for each hart and one of all devices' events. Each stream is cut into chunks ([`chunk`]) that can be read
//! without those before; an index says where they are. So memory while writing and reading does not grow with the file, and
//! reading begins anywhere. An event names the instruction of a hart after which it happened, and the time since.

mod ahead;
mod bytes;
mod chunk;
mod device;
mod hart;
mod reader;
mod shape;
#[cfg(test)]
mod tests;
mod writer;

use std::io;

use serde::{Deserialize, Serialize};

pub use ahead::HartReader;
pub use chunk::{Kind, VERSION};
pub use device::{DeviceEvent, Dma, Happening};
pub use hart::{Again, Step, instructions};
pub use reader::{ChunkPlace, Counts, DeviceReader, TraceFile};
pub use writer::{CHUNK_INSTRUCTIONS, TraceWriter};

/// What a trace is of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// What recorded it.
    pub recorder: String,
    /// What was recorded, in words.
    pub recorded: String,
    /// The instruction set.
    pub isa: String,
    /// Harts, each with a stream.
    pub harts: u16,
    /// Whether the machine was timed in detail, so that times between events mean something.
    pub timed: bool,
    /// Whether physical addresses are known; else they are as the virtual ones.
    pub physical: bool,
    /// The recorded machine's configuration (TOML), if there is one.
    pub config: String,
}

/// Why a trace cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The host said so.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is no trace.
    #[error("this is not a trace of Doorbell's: {what}")]
    Foreign {
        /// What it seems to be.
        what: &'static str,
    },
    /// It has another version.
    #[error(
        "the trace has version {found} of the format, and this program reads version {VERSION}; record it again, or take the Doorbell that wrote it"
    )]
    Version {
        /// The file's version.
        found: u32,
    },
    /// It was not written to its end.
    #[error("the trace is cut off: its index is missing; copy it again, or record it again")]
    CutOff,
    /// It holds what cannot be.
    #[error("the trace is damaged at byte {at}: {what}; copy it again, or record it again")]
    Damaged {
        /// Where in the file.
        at: u64,
        /// What is wrong.
        what: String,
    },
    /// It has no such hart.
    #[error("the trace has no hart {hart}: it has {harts}")]
    NoHart {
        /// Which was asked for.
        hart: u16,
        /// How many there are.
        harts: u16,
    },
}
