//! The hardware load generator: a traffic tester at the far end of the link.
//!
//! A [`LoadGen`] sends test frames (one size at a constant rate, or streams of any kind) or requests. Each
//! test frame has a unique signature and payload. The generator timestamps each returned frame or reply,
//! checks it byte by byte, and accounts for every frame sent. It is event-driven, accesses the machine only
//! through ports, and has its own snapshot state. It takes no simulated time itself; only its link limits the
//! rate.
//!
//! | File | Contents |
//! |---|---|
//! | `config` | user configuration |
//! | `rate` | rates, and the exact due time of the nth frame |
//! | `frame`, `any_headers`, `template` | building a frame from its number, and checking a returned one |
//! | `streams` | several streams with arrival processes, sizes, headers and flows |
//! | `in_flight` | send times of the frames in flight |
//! | `latency` | latency distributions |
//! | `batches` | parts of a window: loss over time, confidence intervals |
//! | `hgrm` | distributions as files for other tools |
//! | `measure`, `volume` | a measurement window and its results |
//! | `arrival` | classes of received frames, and all counters |
//! | `requests` | request-reply traffic: ICMP echo, memcached over UDP |
//! | `responder` | replies to ARP and ICMP echo, and the mirror |
//! | `generator`, `receive` | the generator itself: transmit and receive |
//! | `stages` | breakdown of round-trip time |
//! | `state` | saved state |

#![forbid(unsafe_code)]

mod any_headers;
pub mod arrival;
pub mod batches;
pub mod config;
pub mod frame;
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
pub use responder::{ReplyKind, ResponderConfig};
pub use stages::{
    PacketStamps, RoundTrip, RoundTripObserver, STAGES, Stage, StageRecorder, StageStats, StageSummaries,
    StageSummary,
};
pub use state::LoadGenState;
pub use streams::{
    Arrivals, Decimal, DueTimes, EthernetHeader, Field, Filter, FlowCounts, FlowSummary, Net, Network, Order,
    Protocol, Ramp, ReplayConfig, ReplayStats, SizeOrder, Sizes, Spacing, Stations, StreamConfig,
    StreamResults, StreamSummary, SweepConfig, Timing, Transport, Truncated, Vlan,
};
pub use template::{Flow, FlowHeaders};
pub use volume::{Throughput, Volume};
