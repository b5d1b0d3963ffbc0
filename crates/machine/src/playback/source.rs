//! What a hart's blocks are read from: a stream of our own format, or a ChampSim trace.

use doorbell_sim::Op;
use doorbell_sim::memory::Walk;
use doorbell_trace::champsim::{Again, OpStream};
use doorbell_trace::system::{HartReader, Step};

use super::PlaybackError;
use super::plan::{Input, TraceInput};

/// A ChampSim trace's ops are cut into blocks where a branch is, as a machine's are, or behind so many.
const BLOCK_OPS: usize = 64;

/// Reads blocks.
pub(super) enum BlockSource {
    Own(Box<HartReader>),
    ChampSim { ops: Box<OpStream<Again>>, position: u64 },
}

impl BlockSource {
    /// From the beginning.
    pub fn open(input: &TraceInput, hart: u16) -> Result<BlockSource, PlaybackError> {
        Ok(match &input.0 {
            Input::Own(file) => BlockSource::Own(Box::new(file.hart(hart, 0)?)),
            Input::ChampSim(trace) => BlockSource::ChampSim { ops: Box::new(trace.ops()?), position: 0 },
        })
    }

    /// Instructions before the next block.
    #[inline]
    pub fn position(&self) -> u64 {
        match self {
            BlockSource::Own(reader) => reader.position(),
            BlockSource::ChampSim { position, .. } => *position,
        }
    }

    /// Appends the next block's ops; `None` at the end.
    #[inline]
    pub fn next(&mut self, ops: &mut Vec<Op>) -> Result<Option<Step>, PlaybackError> {
        match self {
            BlockSource::Own(reader) => Ok(reader.next(ops)?),
            BlockSource::ChampSim { ops: stream, position } => {
                let before = *position;
                let mut first = ops.len();
                while ops.len() < BLOCK_OPS && stream.instruction(ops)? {
                    *position += 1;
                    if ops[first..].iter().any(|op| op.class.is_branch()) {
                        break;
                    }
                    first = ops.len();
                }
                Ok((*position > before).then(Step::default))
            }
        }
    }

    /// Which page-table entries a walk for `virt` reads, as of the last block.
    pub fn walk(&self, virt: u64) -> Walk {
        match self {
            BlockSource::Own(reader) => reader.walk(virt),
            BlockSource::ChampSim { .. } => Walk::default(),
        }
    }
}
