//! The streams that a generator sends at one port.
//!
//! Each stream has its own rate, arrival process, frame sizes and headers. Streams are merged by due time (on
//! a tie, the earlier stream in the list comes first), and the link serialises them. The signature carries a
//! frame's number in the generator; its stream and index, from which it can be rebuilt, are kept while it is
//! in flight (`in_flight`). Traffic without configured streams is a single stream of test frames or requests,
//! without per-stream results.
//!
//! | File | Contents |
//! |---|---|
//! | `config` | a stream's configuration |
//! | `arrivals`, `clock` | due times |
//! | `sizes`, `sweep` | frame sizes, and header fields that vary |
//! | `replay`, `replay_config`, `packet` | a capture as a stream, its configuration, and address rewriting |
//! | `source` | generation and checking of frames |
//! | `due` | due times of frames that another component builds |
//! | `mix` | the total rate of all streams |
//! | `results` | results per stream and per flow |

mod arrivals;
mod clock;
mod config;
mod decimal;
mod due;
mod mix;
mod packet;
mod replay;
mod replay_config;
mod results;
mod sizes;
mod source;
mod sweep;

use std::sync::Arc;

use doorbell_sim::{Bytes, Ps};
use doorbell_wire::{LinkConfig, MacAddr};
use serde::{Deserialize, Serialize};

pub use arrivals::{Arrivals, Spacing};
use clock::{Clock, ClockState, RateProfile};
pub(crate) use config::Addresses;
pub use config::{Network, Ramp, StreamConfig, Transport, Vlan};
pub use decimal::Decimal;
pub use due::DueTimes;
use mix::{Mix, Shape, profiles};
pub use packet::{Net, NetError};
pub use replay::ReplayStats;
use replay::{CapturedInFlight, Replay};
pub use replay_config::{EthernetHeader, Filter, Protocol, ReplayConfig, Stations, Timing, Truncated};
pub use results::{FlowCounts, FlowSummary, StreamResults, StreamSummary};
pub use sizes::{SizeOrder, Sizes, SizesError};
use source::Source;
pub use sweep::{Field, Order, SweepConfig};
pub(crate) use sweep::{Sweep, Zipf};

use crate::config::{ConfigError, TrafficConfig};
use crate::frame::{FCS_BYTES, FrameMaker, Mismatch, Signature, hash};
use crate::in_flight::InFlight;
use crate::rate::Pacing;

/// Maximum number of streams per generator.
pub(crate) const STREAMS_MAX: usize = 64;
/// Maximum number of flows per generator with results of their own.
pub(crate) const FLOWS_MAX: u64 = 1 << 16;

/// Stream and index of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) stream: usize,
    pub(crate) index: u64,
}

impl Origin {
    /// Both in one number, which is small for a small index.
    pub(crate) fn packed(self) -> u64 {
        self.index * STREAMS_MAX as u64 + self.stream as u64
    }

    pub(crate) fn unpacked(packed: u64) -> Origin {
        let streams = STREAMS_MAX as u64;
        Origin { stream: (packed % streams) as usize, index: packed / streams }
    }
}

/// A stream being sent.
#[derive(Clone, Debug)]
struct Lane {
    source: Source,
    clock: Clock,
    start_after: Ps,
    /// Highest returned index plus one; and the same per flow, if flows are tracked.
    returned_below: u64,
    flows_returned_below: Vec<u64>,
}

/// Saved state of a stream. A capture is only referenced by the traffic; its file must exist on restore,
/// unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LaneState {
    clock: ClockState,
    returned_below: u64,
    flows_returned_below: Vec<u64>,
    capture: Option<u64>,
}

impl Lane {
    /// The single stream of traffic without configured streams. The traffic's limits end it.
    fn from_traffic(traffic: &TrafficConfig, generator: u32, key: u64, link: &LinkConfig) -> Lane {
        let begin = Pacing::new(Ps::ZERO, traffic.rate, traffic.frame_len(), link);
        let profile = RateProfile { begin, ramp: None, stamps: None };
        Lane {
            source: Source::from_traffic(traffic, generator, key),
            // Same due times as the first configured stream would have.
            clock: Clock::new(
                profile,
                traffic.arrivals,
                clock_key(stream_key(key, 1)),
                None,
                None,
                link.rate.0,
            ),
            start_after: Ps::ZERO,
            returned_below: 0,
            flows_returned_below: Vec::new(),
        }
    }
}

/// Key of all randomness of a stream; `place` counts from 1.
fn stream_key(key: u64, place: u64) -> u64 {
    hash(key ^ hash(place))
}

/// Key of a stream's arrivals.
fn clock_key(stream_key: u64) -> u64 {
    hash(stream_key ^ 1)
}

/// Sets up the traffic's streams; also returns the mean frame size with FCS.
fn lanes(
    traffic: &TrafficConfig,
    generator: u32,
    key: u64,
    link: &LinkConfig,
) -> Result<(Vec<Lane>, Bytes), ConfigError> {
    let read = |(place, stream): (usize, &StreamConfig)| match &stream.capture {
        None => Ok(None),
        Some(path) => match Replay::read(path, stream, traffic, link) {
            Ok(replay) => Ok(Some(Arc::new(replay))),
            Err(problem) => Err(ConfigError::Stream(place, format!("capture: {problem}"))),
        },
    };
    let replays = traffic.streams.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
    let shapes = traffic.streams.iter().zip(&replays);
    let shapes: Vec<Shape> = shapes.map(|(stream, replay)| Shape::new(stream, replay.clone())).collect();
    let profiles = profiles(traffic, &shapes, link);
    let mean_size = Bytes((Mix::of(&shapes, &profiles, link).bits_l2 / 8.0).round() as u64);
    let parts =
        traffic.streams.iter().zip(profiles).zip(replays).zip(flows_kept(&traffic.streams)).zip(1u64..);
    let lane =
        |((((stream, profile), replay), flows), place): ((((&StreamConfig, _), Option<_>), u64), u64)| {
            let own_key = stream_key(key, place);
            let frames = frames_at_most(stream, replay.as_deref());
            let made = || FrameMaker::of_stream(traffic, stream, generator, key, own_key);
            Lane {
                source: replay.map_or_else(|| Source::Generated(made()), Source::Replay),
                clock: Clock::new(
                    profile,
                    stream.arrivals.unwrap_or(traffic.arrivals),
                    clock_key(own_key),
                    frames,
                    stream.duration,
                    link.rate.0,
                ),
                start_after: stream.start_after,
                returned_below: 0,
                flows_returned_below: vec![0; flows as usize],
            }
        };
    Ok((parts.map(lane).collect(), mean_size))
}

/// The streams of a run.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    lanes: Vec<Lane>,
    /// The stream whose frame is due first.
    next: usize,
    captured_in_flight: CapturedInFlight,
    mean_size: Bytes,
    link: LinkConfig,
    key: u64,
}

impl Streams {
    /// Sets up the streams of validated traffic and reads their captures. `key` seeds all randomness.
    pub(crate) fn new(
        traffic: &TrafficConfig,
        generator: u32,
        key: u64,
        link: &LinkConfig,
    ) -> Result<Streams, ConfigError> {
        let (lanes, mean_size) = if traffic.streams.is_empty() {
            let mean_size = Bytes((traffic.frame_len() + FCS_BYTES) as u64);
            (vec![Lane::from_traffic(traffic, generator, key, link)], mean_size)
        } else {
            lanes(traffic, generator, key, link)?
        };
        let captured_in_flight = CapturedInFlight::new(lanes.iter().filter_map(|lane| lane.source.replay()));
        Ok(Streams { lanes, next: 0, captured_in_flight, mean_size, link: link.clone(), key })
    }

    pub(crate) fn stored_key(&self) -> u64 {
        self.key
    }

    /// The rounded mean frame size of all streams, with FCS.
    pub(crate) fn mean_size(&self) -> Bytes {
        self.mean_size
    }

    /// Starts all streams; `first` is the traffic's start.
    pub(crate) fn begin(&mut self, first: Ps) {
        self.lanes.iter_mut().for_each(|lane| lane.clock.begin(first.saturating_add(lane.start_after)));
        self.find_next();
    }

    fn find_next(&mut self) {
        let dues = self.lanes.iter().map(|lane| lane.clock.state.due);
        self.next = dues.enumerate().min_by_key(|(place, due)| (*due, *place)).map_or(0, |(place, _)| place);
    }

    /// Due time of the next frame of any stream; [`Ps::MAX`] if there is none.
    pub(crate) fn next_due(&self) -> Ps {
        self.lanes[self.next].clock.state.due
    }

    /// Due time of the nth next frame, counted from 0.
    pub(crate) fn due_after(&self, frames: u64) -> Ps {
        self.advanced_by(frames).0.next_due()
    }

    /// Number of frames left, at most `most`.
    pub(crate) fn to_come(&self, most: u64) -> u64 {
        self.advanced_by(most).1
    }

    /// The streams advanced by `frames` frames, or to the end if fewer are left; and the number of frames
    /// advanced.
    fn advanced_by(&self, frames: u64) -> (Streams, u64) {
        let (mut ahead, mut advanced) = (self.clone(), 0);
        while advanced < frames && ahead.next_due() != Ps::MAX {
            let origin = ahead.next_frame();
            let frame_len = ahead.lane(origin).source.frame_len(origin.index);
            ahead.advance(frame_len.map_or(0, |frame_len| self.link.wire_bytes(frame_len)));
            advanced += 1;
        }
        (ahead, advanced)
    }

    /// The next due frame.
    pub(crate) fn next_frame(&self) -> Origin {
        Origin { stream: self.next, index: self.lanes[self.next].clock.state.index }
    }

    /// Advances past the due frame, which takes `wire_bytes` bytes on the line.
    pub(crate) fn advance(&mut self, wire_bytes: u64) {
        self.lanes[self.next].clock.advance(wire_bytes);
        if self.lanes.len() > 1 {
            self.find_next();
        }
    }

    /// Whether there is more than one stream.
    pub(crate) fn are_several(&self) -> bool {
        self.lanes.len() > 1
    }

    /// Number of streams, at least one.
    pub(crate) fn count(&self) -> usize {
        self.lanes.len()
    }

    /// Writes the frame with generator number `sequence` into `bytes`.
    pub(crate) fn make(&self, sequence: u64, origin: Origin, bytes: &mut Vec<u8>) {
        self.lane(origin).source.make(sequence, origin.index, bytes);
    }

    /// The generator and number of a frame, or of the request that it answers. `next` is the number of the
    /// next request of this generator, `generator`.
    pub(crate) fn read(&self, generator: u32, next: u64, frame: &[u8]) -> Option<Signature> {
        let answered = || self.lanes.iter().find_map(|lane| lane.source.read(next, frame));
        Signature::read(frame)
            .or_else(|| answered().map(|sequence| Signature { stream: generator, sequence }))
    }

    /// Compares a returned frame or reply that arrived at `station` with the expected one.
    pub(crate) fn check(
        &mut self,
        sequence: u64,
        origin: Origin,
        frame: &[u8],
        station: MacAddr,
    ) -> Result<(), Mismatch> {
        self.lanes[origin.stream].source.check(sequence, origin.index, frame, station)
    }

    fn lane(&self, origin: Origin) -> &Lane {
        &self.lanes[origin.stream]
    }

    /// Records that a frame is sent with this number. `is_awaited` returns whether a number is in flight.
    pub(crate) fn sent(&mut self, origin: Origin, sequence: u64, is_awaited: impl Fn(u64) -> bool) {
        if let Source::Replay(replay) = &self.lanes[origin.stream].source {
            self.captured_in_flight.sent(replay, origin.index, sequence, is_awaited);
        }
    }

    /// Matches an arrived frame to a captured packet in flight; also returns whether the match is unique.
    pub(crate) fn recognise(&mut self, frame: &[u8], in_flight: &InFlight) -> Option<(u64, bool)> {
        let candidates = self.captured_in_flight.candidates(frame, |sequence| in_flight.is_awaited(sequence));
        let is_ahead = |sequence: &&u64| {
            let origin = in_flight.origin(**sequence);
            origin.index >= self.lanes[origin.stream].returned_below
        };
        let mut ahead = candidates.iter().filter(is_ahead);
        match (ahead.next(), ahead.next()) {
            (Some(only), None) => Some((*only, true)),
            (Some(oldest), Some(_)) => Some((*oldest, false)),
            (None, _) => candidates.first().map(|late| (*late, candidates.len() == 1)),
        }
    }

    /// The flow of a frame, if its stream's flows are tracked.
    pub(crate) fn flow(&self, origin: Origin) -> Option<usize> {
        let lane = self.lane(origin);
        match &lane.source {
            Source::Generated(maker) if !lane.flows_returned_below.is_empty() => {
                Some(maker.flow(origin.index) as usize)
            }
            _ => None,
        }
    }

    /// Records a returned frame; returns whether it came after a later frame of its stream, and of its flow.
    pub(crate) fn returned(&mut self, origin: Origin) -> (bool, bool) {
        let flow = self.flow(origin);
        let lane = &mut self.lanes[origin.stream];
        let is_behind = |below: &mut u64| {
            let behind = origin.index < *below;
            *below = (*below).max(origin.index + 1);
            behind
        };
        let in_stream = is_behind(&mut lane.returned_below);
        (in_stream, flow.is_some_and(|flow| is_behind(&mut lane.flows_returned_below[flow])))
    }

    /// Empty results for each stream, for a window that begins now.
    pub(crate) fn empty_results(&self, begin: Ps, traffic: &TrafficConfig) -> Vec<StreamResults> {
        let book = |(place, (lane, stream)): (usize, (&Lane, &StreamConfig))| {
            let replay = lane.source.replay().map(|replay| {
                // Without a limit, one pass.
                let planned = frames_at_most(stream, Some(replay)).unwrap_or(replay.count());
                let sent_before = lane.clock.state.index;
                ReplayStats {
                    sent_before,
                    not_sent: planned.saturating_sub(sent_before),
                    ..replay.stats.clone()
                }
            });
            StreamResults::new(begin, stream.name(place), lane.flows_returned_below.len(), replay)
        };
        self.lanes.iter().zip(&traffic.streams).enumerate().map(book).collect()
    }

    pub(crate) fn save(&self) -> Vec<LaneState> {
        let lanes = self.lanes.iter().map(|lane| LaneState {
            clock: lane.clock.state,
            returned_below: lane.returned_below,
            flows_returned_below: lane.flows_returned_below.clone(),
            capture: lane.source.replay().map(|replay| replay.hash),
        });
        lanes.collect()
    }

    /// Restores a saved state and the matching of captured packets in flight; fails if the state is
    /// inconsistent.
    pub(crate) fn restore(
        &mut self,
        states: Vec<LaneState>,
        in_flight: &InFlight,
    ) -> Result<(), &'static str> {
        const DIFFERENT: &str = "its streams differ from the traffic's";
        if states.len() != self.lanes.len() {
            return Err(DIFFERENT);
        }
        for (lane, state) in self.lanes.iter_mut().zip(states) {
            if state.flows_returned_below.len() != lane.flows_returned_below.len()
                || state.clock.index > INDEX_MAX
            {
                return Err(DIFFERENT);
            }
            if state.capture != lane.source.replay().map(|replay| replay.hash) {
                return Err("the capture of a stream has changed since it was saved");
            }
            lane.clock.state = state.clock;
            lane.returned_below = state.returned_below;
            lane.flows_returned_below = state.flows_returned_below;
        }
        self.find_next();
        for sequence in in_flight.outstanding_frames() {
            self.sent(in_flight.origin(sequence), sequence, |_| true);
        }
        Ok(())
    }
}

/// Maximum frame index of a stream.
const INDEX_MAX: u64 = 1 << 56;

/// Number of tracked flows per stream; zero if the stream's flows would exceed what earlier streams left of
/// the limit.
fn flows_kept(streams: &[StreamConfig]) -> Vec<u64> {
    let mut left = FLOWS_MAX;
    let mut kept = |stream: &StreamConfig| match stream.flows() {
        flows if stream.sweeps.is_empty() || flows > left => 0,
        flows => {
            left -= flows;
            flows
        }
    };
    streams.iter().map(&mut kept).collect()
}

/// Maximum number of frames that a stream sends, if limited.
fn frames_at_most(stream: &StreamConfig, replay: Option<&Replay>) -> Option<u64> {
    let times = stream.replay.as_ref().map_or(1, |replay| replay.times);
    let of_capture = replay.filter(|_| times > 0).map(|replay| replay.count().saturating_mul(times));
    [stream.frames, of_capture].into_iter().flatten().min()
}

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
