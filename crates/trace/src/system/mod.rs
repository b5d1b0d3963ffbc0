//! Doorbell's own trace format: the instructions of a whole machine and its devices' events
//! (`docs/trace-format.md`).
//!
//! A file has one stream of blocks per hart and one stream of events for all devices. Each stream is divided
//! into chunks ([`chunk`]) that are decodable on their own and listed in an index. Memory use is therefore
//! independent of file size, and reading can begin anywhere. An event is anchored to the last instruction of
//! a hart before it, plus the time since.

mod ahead;
mod batch;
mod bytes;
mod chunk;
mod chunk_state;
mod cut;
mod device;
#[cfg(test)]
mod edit_tests;
mod encoder;
mod encoding;
mod hart;
mod merge;
mod reader;
#[cfg(test)]
mod repeat_tests;
mod shape;
#[cfg(test)]
mod tests;
mod writer;
mod written_shapes;

use std::io;
use std::ops::Range;

use serde::{Deserialize, Serialize};

pub use ahead::HartReader;
pub use chunk::{Kind, OLDEST, VERSION};
pub use cut::{Cut, Window, cut};
pub use device::{DMA_BYTES_MAX, DeviceEvent, Dma, EventKind, StoreOrigin};
pub use encoder::BlockHint;
pub use hart::{Step, instructions};
pub use merge::{Extent, Placement, merge};
pub use reader::{ChunkPlace, Counts, DeviceReader, TraceFile};
pub use writer::{CHUNK_INSTRUCTIONS, TraceWriter};

/// Description of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Program that recorded it.
    pub recorder: String,
    /// Recorded workload, in words.
    pub recorded: String,
    /// Instruction set.
    pub isa: String,
    /// Harts, each with a stream.
    pub harts: u16,
    /// Whether the machine had a detailed timing model, so that times between events are meaningful.
    pub timed: bool,
    /// Whether physical addresses were recorded; otherwise they equal the virtual ones.
    pub physical: bool,
    /// Configuration of the recorded machine (TOML); may be empty.
    pub config: String,
    /// Merged traces only: number of harts of each, in order; otherwise empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<u16>,
}

impl Description {
    /// Hart ranges of the merged traces; one range if the trace is not merged or the numbers are
    /// inconsistent.
    pub fn parts(&self) -> Vec<Range<u16>> {
        if self.beside.iter().map(|harts| u64::from(*harts)).sum::<u64>() != u64::from(self.harts) {
            return std::iter::once(0..self.harts).collect();
        }
        let parts = self.beside.iter().scan(0, |end, harts| {
            let first = *end;
            *end += *harts;
            Some(first..*end)
        });
        // Traces without harts are left out.
        parts.filter(|harts| !harts.is_empty()).collect()
    }
}

/// Error in writing or reading a trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Input or output error of the host.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Not a regular file.
    #[error(
        "a trace must be a regular file, because its index is at the end; write the output to a file first"
    )]
    NoFile,
    /// A device event refers to an instruction that does not exist.
    #[error(
        "the trace's streams contradict each other: a device's event refers to instruction {after} of hart {hart}, which does not exist; record it again"
    )]
    Contradiction {
        /// The event's hart.
        hart: u16,
        /// Its instruction.
        after: u64,
    },
    /// Not a Doorbell trace.
    #[error("this is not a Doorbell trace: {what}")]
    Foreign {
        /// Detected file type.
        what: &'static str,
    },
    /// Unsupported format version.
    #[error(
        "the trace has format version {found}, and this program reads {OLDEST} to {VERSION}; record it again, or use the Doorbell version that wrote it"
    )]
    Version {
        /// Version in the file.
        found: u32,
    },
    /// The file is incomplete.
    #[error("the trace is cut off: its index is missing; copy it again, or record it again")]
    CutOff,
    /// The contents are invalid.
    #[error("the trace is damaged at byte {at}: {what}; copy it again, or record it again")]
    Damaged {
        /// File offset.
        at: u64,
        /// Description of the damage.
        what: String,
    },
    /// One of several input files cannot be read.
    #[error("{error}")]
    Input {
        /// Index of the file, from 0.
        number: usize,
        /// Its error.
        error: Box<TraceError>,
    },
    /// No such hart.
    #[error("the trace has no hart {hart}: it has {harts}")]
    NoHart {
        /// Requested hart.
        hart: u16,
        /// Number of harts.
        harts: u16,
    },
    /// The window to cut is empty.
    #[error(
        "hart {hart} has {has} instructions: the window of {count} from number {from} is empty; count instructions from 0, or by another hart (--hart)"
    )]
    NoInstruction {
        /// Hart whose instructions are counted.
        hart: u16,
        /// First requested instruction.
        from: u64,
        /// Requested number of instructions.
        count: u64,
        /// Instructions of the hart.
        has: u64,
    },
    /// Limit of harts or devices exceeded by a merge.
    #[error("the traces have more than {most} {what} together; merge fewer")]
    TooMany {
        /// Kind of item.
        what: &'static str,
        /// The limit.
        most: u32,
    },
    /// The merged memory exceeds the address space.
    #[error(
        "no address space is left for {from:#x} to {to:#x} above {above:#x}, where the previous trace ends; merge the traces in another order"
    )]
    NoRoom {
        /// Last address in use.
        above: u64,
        /// First address needed.
        from: u64,
        /// Last address needed.
        to: u64,
    },
}
