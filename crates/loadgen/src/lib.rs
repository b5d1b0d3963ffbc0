//! The hardware load generator: the far end of the wire, as a traffic tester stands there.
//!
//! A [`LoadGen`] sends frames, of one size at a constant rate or in streams of any kind, each with a signature and a
//! payload that no other frame has, or requests; takes the time of each that comes back or is answered, checks it byte by byte, and
//! accounts for all of them. It is a component like any other: driven by events, seeing the machine only through its
//! ports, with a state of its own in snapshots. It takes no simulated time to decide anything and is
//! never the bottleneck; only its link is.
//!
//! | File | What lives there |
//! |---|---|
//! | `config` | what a user can set |
//! | `rate` | rates, and the exact time at which the nth frame is due |
//! | `frame`, `freely`, `template` | making a frame from its number, and checking one that came back |
//! | `streams` | several streams with arrival processes, sizes, headers and flows |
//! | `in_flight` | the send times of frames on their way |
//! | `latency` | a distribution of round trips |
//! | `batches` | a window in parts: loss over time, confidence |
//! | `hgrm` | a distribution as files for other tools |
//! | `measure`, `volume` | a measurement window, and the figures that it yields |
//! | `arrival` | what an arrived frame can be, and all counters |
//! | `requests` | traffic that asks and is answered: ICMP echo, memcached over UDP |
//! | `responder` | answers to ARP and ICMP echo, and the mirror |
//! | `generator`, `receive` | the generator itself: what it sends, and what arrives |
//! | `stages` | where the time of a round trip was spent |
//! | `state` | its saved state |

#![forbid(unsafe_code)]

pub mod arrival;
pub mod batches;
pub mod config;
pub mod frame;
mod freely;
pub mod generator;
pub mod latency;
pub mod measure;
pub mod rate;
pub mod requests;
pub mod responder;
pub mod stages;
pub mod state;
pub mod streams;

mod hgrm;
mod in_flight;
mod receive;
mod template;
mod volume;

#[cfg(test)]
mod testbench;
#[cfg(test)]
mod testdist;

pub use arrival::{Arrival, LoadGenStats};
pub use batches::{BatchSummary, Confidence, LatencyConfidence};
pub use config::{ConfigError, Kind, LoadGenConfig, Returned, TrafficConfig};
pub use frame::{Mismatch, Signature};
pub use generator::{Event, LoadGen, LoadGenPorts};
pub use latency::{Latency, LatencySummary};
pub use measure::{Measurement, Summary};
pub use rate::{Pacing, Rate};
pub use requests::{Lengths, MemcachedConfig, Popularity};
pub use responder::{Answered, ResponderConfig};
pub use stages::{
    PacketStamps, RoundTrip, RoundTripObserver, STAGES, Stage, StageBook, StageStats, StageSummaries,
    StageSummary,
};
pub use state::LoadGenState;
pub use streams::{
    Arrivals, Decimal, DueTimes, EthernetHeader, Field, Filter, FlowBook, FlowSummary, Net, Network, Order,
    Protocol, Ramp, ReplayConfig, ReplayStats, SizeOrder, Sizes, Spacing, Stations, StreamBook, StreamConfig,
    StreamSummary, SweepConfig, Timing, Transport, Truncated, Vlan,
};
pub use template::{Flow, FlowHeaders};
pub use volume::{Throughput, Volume};
