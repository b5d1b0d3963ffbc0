//! Base crate of Doorbell: simulated time, the event queue, random streams, statistics, snapshots, units, and
//! the types shared by the model crates (frames, memory requests, ports). It contains no hardware model and
//! must stay small.

#![deny(unsafe_code)]

pub mod calendar;
pub mod clock;
pub mod config;
pub mod event;
pub mod frame;
pub mod future_bookings;
pub mod learn;
pub mod log;
pub mod memory;
pub mod numbered;
pub mod op;
pub mod pool;
pub mod ports;
pub mod ram;
pub mod rng;
pub mod sharing;
pub mod snapshot;
pub mod source;
pub mod stamps;
pub mod stats;
mod text_schema;
pub mod time;
pub mod units;

pub use calendar::Calendar;
pub use clock::Clock;
pub use clock::cycle::{CoreCycle, CoreDomain, Cycle, Domain, DomainClock, UncoreCycle, UncoreDomain};
pub use event::{EventQueue, Phase};
pub use frame::Frame;
pub use future_bookings::FutureBookings;
pub use learn::Learner;
pub use numbered::{Allowance, NumberedBlocks};
pub use op::{Op, OpClass};
pub use pool::Pool;
pub use ports::{AccessSize, PhysAddr};
pub use ram::Ram;
pub use source::{BlockEnd, OpSource, TranslationFence, Until};
pub use stamps::{FrameId, FrameObserver, Observed, RxStamps, TxStamps};
pub use time::Ps;
pub use units::{BitsPerSec, Bytes, Hertz};
