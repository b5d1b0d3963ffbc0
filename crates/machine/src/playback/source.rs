//! Source of a hart's blocks: a stream in our own format, or a ChampSim trace.

use doorbell_sim::Op;
use doorbell_sim::memory::Walk;
use doorbell_trace::champsim::Blocks;
use doorbell_trace::system::{Extent, HartReader, Step};

use super::PlaybackError;
use super::plan::{Input, TraceInput};

/// A reader of blocks.
pub(super) enum BlockSource {
    /// Reader, and number of ops read.
    Own(Box<HartReader>, u64),
    ChampSim(Box<Blocks>),
}

impl BlockSource {
    /// Opens a hart's stream at its beginning.
    pub fn open(input: &TraceInput, hart: u16) -> Result<BlockSource, PlaybackError> {
        Ok(match &input.from {
            Input::Own(file) => BlockSource::Own(Box::new(file.hart(hart, 0)?), 0),
            Input::ChampSim(trace) => BlockSource::ChampSim(Box::new(trace.blocks()?)),
        })
    }

    /// Instructions up to and including the block read last.
    #[inline]
    pub fn position(&self) -> u64 {
        match self {
            BlockSource::Own(reader, _) => reader.position(),
            BlockSource::ChampSim(blocks) => blocks.position(),
        }
    }

    /// Replaces `ops` by those of the next block; `None` at the end. Returns whether its step may differ from
    /// the last one.
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

    /// Ops read since the beginning.
    pub fn ops(&self) -> u64 {
        match self {
            BlockSource::Own(_, read) => *read,
            BlockSource::ChampSim(_) => 0,
        }
    }

    /// Step of the last block.
    pub fn step(&self) -> Step {
        match self {
            BlockSource::Own(reader, _) => reader.step(),
            BlockSource::ChampSim(_) => Step::default(),
        }
    }

    /// Address range of the memory accesses among the last block's changed ops.
    #[inline]
    pub fn accessed(&self) -> Extent {
        match self {
            BlockSource::Own(reader, _) => reader.accessed(),
            BlockSource::ChampSim(_) => Extent::default(),
        }
    }

    /// Ops of the last block that changed since its previous occurrence, with addresses as in the trace;
    /// `None` if all did.
    #[inline]
    pub fn differing(&self) -> Option<&[u16]> {
        match self {
            BlockSource::Own(reader, _) => reader.differing(),
            BlockSource::ChampSim(_) => None,
        }
    }

    /// Page-table entries that a walk for `virt` reads, as of the last block.
    pub fn walk(&self, virt: u64) -> Walk {
        match self {
            BlockSource::Own(reader, _) => reader.walk(virt),
            BlockSource::ChampSim(_) => Walk::default(),
        }
    }
}
