//! Our own traces: what a whole machine executed, and what its devices did beside it (`docs/trace-format.md`).
//!
//! A file has a stream of blocks for each hart and one of all devices' events. Each stream is cut into chunks ([`chunk`]) that can be read
//! without those before; an index says where they are. So memory while writing and reading does not grow with the file, and
//! reading begins anywhere. An event names the instruction of a hart after which it happened, and the time since.

#[cfg(test)]
mod again_tests;
mod ahead;
mod batch;
mod bytes;
mod chunk;
mod cut;
mod device;
#[cfg(test)]
mod edit_tests;
mod encoder;
mod encoding;
mod hart;
mod merge;
mod reader;
mod shape;
#[cfg(test)]
mod tests;
mod told;
mod writer;
mod written;

use std::io;
use std::ops::Range;

use serde::{Deserialize, Serialize};

pub use ahead::HartReader;
pub use chunk::MAGIC;
pub use chunk::{Kind, OLDEST, VERSION};
pub use cut::{Cut, Window, cut};
pub use device::{DMA_BYTES_MAX, DeviceEvent, Dma, Happening, Stored};
pub use encoder::Again;
pub use hart::{Step, instructions};
pub use merge::{Extent, Placed, merge};
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
    /// Of traces that were put side by side: how many harts each has, in order. Empty of one alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<u16>,
}

impl Description {
    /// Which harts are of which of the traces that were put side by side; all are of one, if nothing is said that they are.
    pub fn parts(&self) -> Vec<Range<u16>> {
        if self.beside.iter().map(|harts| u64::from(*harts)).sum::<u64>() != u64::from(self.harts) {
            return std::iter::once(0..self.harts).collect();
        }
        let parts = self.beside.iter().scan(0, |end, harts| {
            let first = *end;
            *end += *harts;
            Some(first..*end)
        });
        // One without harts has nothing.
        parts.filter(|harts| !harts.is_empty()).collect()
    }
}

/// Why a trace cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The host said so.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is a pipe, a device or the like.
    #[error(
        "this is no file, and a trace is read from one, as its index stands at its end; write what comes out of it to a file first"
    )]
    NoFile,
    /// An event comes after an instruction that there is not.
    #[error(
        "the trace's streams contradict each other: a device's event comes after instruction {after} of hart {hart}, which is not there; record it again"
    )]
    Contradiction {
        /// The event's hart.
        hart: u16,
        /// Its instruction.
        after: u64,
    },
    /// It is no trace.
    #[error("this is not a trace of Doorbell's: {what}")]
    Foreign {
        /// What it seems to be.
        what: &'static str,
    },
    /// It has another version.
    #[error(
        "the trace has version {found} of the format, and this program reads {OLDEST} to {VERSION}; record it again, or take the Doorbell that wrote it"
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
    /// One of several that are read cannot be.
    #[error("{error}")]
    Input {
        /// Which of them, counted from 0.
        number: usize,
        /// What is wrong.
        error: Box<TraceError>,
    },
    /// It has no such hart.
    #[error("the trace has no hart {hart}: it has {harts}")]
    NoHart {
        /// Which was asked for.
        hart: u16,
        /// How many there are.
        harts: u16,
    },
    /// There is nothing to cut out.
    #[error(
        "hart {hart} has {has} instructions, and none are {count} from number {from} on; number them from 0, or by another hart's (--hart)"
    )]
    NoInstruction {
        /// By which hart's instructions.
        hart: u16,
        /// The first that was asked for.
        from: u64,
        /// How many were.
        count: u64,
        /// How many there are.
        has: u64,
    },
    /// More than can stand side by side.
    #[error("the traces have more than {most} {what} together; merge fewer")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        most: u32,
    },
    /// Memory ends where there are no more addresses.
    #[error(
        "there is no room for addresses {from:#x} to {to:#x} behind {behind:#x}, where the trace before ends; merge them in another order"
    )]
    NoRoom {
        /// The last byte that is taken.
        behind: u64,
        /// The first that is needed.
        from: u64,
        /// The last.
        to: u64,
    },
}
