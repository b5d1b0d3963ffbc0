//! Source of a stream's frames: generated, replayed from a capture, or protocol requests. A source also
//! checks what returns.

use std::sync::Arc;

use doorbell_wire::MacAddr;

use super::replay::Replay;
use crate::config::{Kind, TrafficConfig};
use crate::frame::{FrameMaker, Mismatch};
use crate::requests::{Memcached, Operation, Ping};

/// Builds frames and checks their returns. A frame has two numbers: `sequence` in the generator and `index`
/// in its stream. Size and headers of test frames depend on `index`; requests depend only on `sequence`.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Generated(FrameMaker),
    Replay(Arc<Replay>),
    Ping(Ping),
    Memcached(Memcached),
}

impl Source {
    /// The source of validated traffic without streams.
    pub(crate) fn from_traffic(traffic: &TrafficConfig, generator: u32, key: u64) -> Source {
        let memcached = |operation| Source::Memcached(Memcached::new(traffic, operation, generator, key));
        match traffic.kind {
            Kind::Frames => Source::Generated(FrameMaker::new(traffic, generator, key)),
            Kind::Ping => Source::Ping(Ping::new(traffic, generator, key)),
            Kind::MemcachedSet => memcached(Operation::Set),
            Kind::MemcachedGet => memcached(Operation::Get),
        }
    }

    /// Bytes of frame `index` without FCS; none for requests, whose length does not affect due times.
    pub(crate) fn frame_len(&self, index: u64) -> Option<usize> {
        match self {
            Source::Generated(maker) => Some(maker.frame_len(index)),
            Source::Replay(replay) => Some(replay.frame_len(index)),
            Source::Ping(_) | Source::Memcached(_) => None,
        }
    }

    /// Writes a frame into `bytes`, overwriting its contents.
    pub(crate) fn make(&self, sequence: u64, index: u64, bytes: &mut Vec<u8>) {
        match self {
            Source::Generated(maker) => maker.make(sequence, index, bytes),
            Source::Replay(replay) => replay.make(index, bytes),
            Source::Ping(ping) => ping.make(sequence, bytes),
            Source::Memcached(memcached) => memcached.make(sequence, bytes),
        }
    }

    /// The number of the request that a frame without a signature answers, if recognised. `next` is the
    /// number of the next request.
    pub(crate) fn read(&self, next: u64, frame: &[u8]) -> Option<u64> {
        match self {
            Source::Generated(_) | Source::Replay(_) | Source::Ping(_) => None,
            Source::Memcached(memcached) => memcached.read(next, frame),
        }
    }

    /// Compares a returned frame or reply that arrived at `station` with the frame sent under these numbers.
    pub(crate) fn check(
        &mut self,
        sequence: u64,
        index: u64,
        bytes: &[u8],
        station: MacAddr,
    ) -> Result<(), Mismatch> {
        match self {
            Source::Generated(maker) => maker.check(sequence, index, bytes, station),
            Source::Replay(replay) => replay.check(index, bytes, station),
            Source::Ping(ping) => ping.check(sequence, bytes),
            Source::Memcached(memcached) => memcached.check(sequence, bytes),
        }
    }

    pub(crate) fn replay(&self) -> Option<&Replay> {
        if let Source::Replay(replay) = self { Some(replay) } else { None }
    }
}
