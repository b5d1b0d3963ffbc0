//! Traffic that asks and is answered. A *protocol* here makes the nth request, tells which request a frame answers,
//! and checks the answer byte by byte; sending, waiting and accounting are the generator's, the same for all.
//!
//! A new protocol is a file here, a variant of [`Kind`](crate::config::Kind) and one of `Source` (`streams/source.rs`).

pub(crate) mod keyspace;
mod memcached;
mod neighbour;
mod ping;

pub use keyspace::{Lengths, MemcachedConfig, Popularity};
pub(crate) use memcached::{Memcached, Operation, request_len};
pub(crate) use neighbour::{reply_from, request_for};
pub(crate) use ping::Ping;
