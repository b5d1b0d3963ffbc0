//! The ground floor of Doorbell: simulated time, the event queue, random streams, statistics,
//! snapshots, units, and the vocabulary that neighbouring rooms share (frames, memory requests,
//! ports). This crate knows no hardware and must stay small.

#![deny(unsafe_code)]

pub mod clock;
pub mod event;
pub mod frame;
pub mod log;
pub mod ports;
pub mod ram;
pub mod rng;
pub mod snapshot;
pub mod stats;
pub mod time;
pub mod units;

pub use clock::Clock;
pub use event::{EventQueue, Phase};
pub use frame::Frame;
pub use ports::{AccessSize, Done, PhysAddr};
pub use ram::Ram;
pub use time::Ps;
pub use units::{BitsPerSec, Bytes, Hertz};
