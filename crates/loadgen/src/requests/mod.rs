//! Request-reply traffic. A *protocol* builds the nth request, finds the request that a frame answers, and
//! checks the reply byte by byte. Sending, waiting and accounting are common code in the generator.
//!
//! A new protocol needs a file here, a variant of [`Kind`](crate::config::Kind) and one of `Source`
//! (`streams/source.rs`).

mod arp;
pub(crate) mod keyspace;
mod memcached;
mod ping;

pub(crate) use arp::{arp_request, station_in_reply};
pub use keyspace::{Lengths, MemcachedConfig, Popularity};
pub(crate) use memcached::{Memcached, Operation, request_len};
pub(crate) use ping::Ping;
