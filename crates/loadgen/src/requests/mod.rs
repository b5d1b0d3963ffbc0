//! Traffic that asks and is answered. A *protocol* here makes the nth request, tells which request a frame answers,
//! and checks the answer byte by byte; sending, waiting and accounting are the generator's, the same for all.
//! The plain test frames are one of them: what comes back is the request itself.
//!
//! A new protocol is a file here, a variant of [`Kind`](crate::config::Kind) and one of [`Maker`].

mod keyspace;
mod memcached;
mod neighbour;
mod ping;

pub(crate) use neighbour::{reply_from, request_for};

use doorbell_wire::{LinkConfig, MacAddr};

use crate::config::{ConfigError, Kind, TrafficConfig};
use crate::frame::{FrameMaker, Mismatch, Signature};
use crate::streams::{Origin, Streams};

pub use keyspace::{Lengths, MemcachedConfig, Popularity};
use memcached::Memcached;
pub(crate) use memcached::{Operation, request_len};
use ping::Ping;

/// Makes requests and checks what comes back, for one stream.
#[derive(Clone, Debug)]
pub(crate) enum Maker {
    Frames(FrameMaker),
    Streams(Streams),
    Ping(Ping),
    Memcached(Memcached),
}

impl Maker {
    /// A maker for validated traffic. `key` decides the bytes that nothing else does.
    pub(crate) fn new(
        traffic: &TrafficConfig,
        stream: u32,
        key: u64,
        link: &LinkConfig,
    ) -> Result<Maker, ConfigError> {
        if let Some(streams) = Streams::new(traffic, stream, key, link)? {
            return Ok(Maker::Streams(streams));
        }
        Ok(match traffic.kind {
            Kind::Frames => Maker::Frames(FrameMaker::new(traffic, stream, key)),
            Kind::Ping => Maker::Ping(Ping::new(traffic, stream, key)),
            Kind::MemcachedSet => Maker::Memcached(Memcached::new(traffic, Operation::Set, stream, key)),
            Kind::MemcachedGet => Maker::Memcached(Memcached::new(traffic, Operation::Get, stream, key)),
        })
    }

    pub(crate) fn stored_key(&self) -> u64 {
        match self {
            Maker::Frames(maker) => maker.stored_key(),
            Maker::Streams(streams) => streams.stored_key(),
            Maker::Ping(ping) => ping.stored_key(),
            Maker::Memcached(memcached) => memcached.stored_key(),
        }
    }

    /// The streams, if there are any.
    pub(crate) fn streams(&self) -> Option<&Streams> {
        if let Maker::Streams(streams) = self { Some(streams) } else { None }
    }

    /// The streams, if there are any.
    pub(crate) fn streams_mut(&mut self) -> Option<&mut Streams> {
        if let Maker::Streams(streams) = self { Some(streams) } else { None }
    }

    /// Writes request `sequence` into `bytes`, whatever was there.
    pub(crate) fn make(&self, sequence: u64, origin: Origin, bytes: &mut Vec<u8>) {
        match self {
            Maker::Frames(maker) => maker.make(sequence, sequence, bytes),
            Maker::Streams(streams) => streams.source(origin).make(sequence, origin.index, bytes),
            Maker::Ping(ping) => ping.make(sequence, bytes),
            Maker::Memcached(memcached) => memcached.make(sequence, bytes),
        }
    }

    /// Whose frame this is: the generator, and the number of the request that it is or answers. `next` is the number
    /// of the next request.
    pub(crate) fn read(&self, stream: u32, next: u64, frame: &[u8]) -> Option<Signature> {
        Signature::read(frame).or_else(|| match self {
            Maker::Frames(_) | Maker::Streams(_) | Maker::Ping(_) => None,
            Maker::Memcached(memcached) => {
                memcached.read(next, frame).map(|sequence| Signature { stream, sequence })
            }
        })
    }

    /// Compares what answers number `sequence` and arrived at `station` with what was expected.
    pub(crate) fn check(
        &mut self,
        sequence: u64,
        origin: Origin,
        frame: &[u8],
        station: MacAddr,
    ) -> Result<(), Mismatch> {
        match self {
            Maker::Frames(maker) => maker.check(sequence, sequence, frame, station),
            Maker::Streams(streams) => {
                streams.source_mut(origin).check(sequence, origin.index, frame, station)
            }
            Maker::Ping(ping) => ping.check(sequence, frame),
            Maker::Memcached(memcached) => memcached.check(sequence, frame),
        }
    }
}
