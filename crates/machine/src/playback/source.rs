//! What a hart's blocks are read from: a stream of our own format, or a ChampSim trace.

use doorbell_sim::Op;
use doorbell_sim::memory::Walk;
use doorbell_trace::champsim::Blocks;
use doorbell_trace::system::{Extent, HartReader, Step};

use super::PlaybackError;
use super::plan::{Input, TraceInput};

/// Reads blocks.
pub(super) enum BlockSource {
    /// A reader, and the ops that it has read.
    Own(Box<HartReader>, u64),
    ChampSim(Box<Blocks>),
}

impl BlockSource {
    /// From the beginning.
    pub fn open(input: &TraceInput, hart: u16) -> Result<BlockSource, PlaybackError> {
        Ok(match &input.from {
            Input::Own(file) => BlockSource::Own(Box::new(file.hart(hart, 0)?), 0),
            Input::ChampSim(trace) => BlockSource::ChampSim(Box::new(trace.blocks()?)),
        })
    }

    /// Instructions before the next block.
    #[inline]
    pub fn position(&self) -> u64 {
        match self {
            BlockSource::Own(reader, _) => reader.position(),
            BlockSource::ChampSim(blocks) => blocks.position(),
        }
    }

    /// Puts the next block's ops in the place of the last one's; `None` at the end. Tells whether its step may be another.
    #[inline]
    pub fn next(&mut self, ops: &mut Vec<Op>) -> Result<Option<bool>, PlaybackError> {
        match self {
            BlockSource::Own(reader, read) => {
                reader.take_back(std::mem::take(ops));
                let is_new = reader.advance()?;
                *ops = reader.lend();
                *read += if is_new.is_some() { ops.len() as u64 } else { 0 };
                Ok(is_new)
            }
            BlockSource::ChampSim(blocks) => Ok(blocks.next(ops)?.then_some(true)),
        }
    }

    /// Ops read from the beginning on.
    pub fn ops(&self) -> u64 {
        match self {
            BlockSource::Own(_, read) => *read,
            BlockSource::ChampSim(_) => 0,
        }
    }

    /// What is told of the last block.
    pub fn step(&self) -> Step {
        match self {
            BlockSource::Own(reader, _) => reader.step(),
            BlockSource::ChampSim(_) => Step::default(),
        }
    }

    /// Where the memory lies that the last block's differing ops access.
    #[inline]
    pub fn accessed(&self) -> Extent {
        match self {
            BlockSource::Own(reader, _) => reader.accessed(),
            BlockSource::ChampSim(_) => Extent::default(),
        }
    }

    /// Which of the last block's ops are others than when it came before, and so are as the trace has them; `None` if all are.
    #[inline]
    pub fn differing(&self) -> Option<&[u16]> {
        match self {
            BlockSource::Own(reader, _) => reader.differing(),
            BlockSource::ChampSim(_) => None,
        }
    }

    /// Which page-table entries a walk for `virt` reads, as of the last block.
    pub fn walk(&self, virt: u64) -> Walk {
        match self {
            BlockSource::Own(reader, _) => reader.walk(virt),
            BlockSource::ChampSim(_) => Walk::default(),
        }
    }
}
