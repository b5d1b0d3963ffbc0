//! What a generator sends: one stream or several at one port. Each has a rate, an arrival process, frame sizes and headers of its own; they
//! are merged by when their frames are due (of several at once, the first stream's comes first), and the link
//! serialises them. A frame is known by its number among all of the generator's, which is in its signature; its stream and
//! its number there, from which it can be made again, are kept while it is on its way (`in_flight`). Traffic that names no
//! streams is one, of test frames or of requests, without a book of its own.
//!
//! | File | What lives there |
//! |---|---|
//! | `config` | a stream as files write it |
//! | `arrivals`, `clock` | when its frames are due |
//! | `sizes`, `sweep` | how large they are, and how their headers change |
//! | `replay`, `replay_config`, `packet` | a capture as a stream, how it is sent, and its packets' addresses |
//! | `source` | where its frames come from, and what checks them |
//! | `due` | the same for frames that somebody else makes |
//! | `mix` | the rates of all streams together |
//! | `books` | what became of them, by stream and by flow |

mod arrivals;
mod books;
mod clock;
mod config;
mod decimal;
mod due;
mod mix;
mod packet;
mod replay;
mod replay_config;
mod sizes;
mod source;
mod sweep;

use std::sync::Arc;

use doorbell_sim::{Bytes, Ps};
use doorbell_wire::{LinkConfig, MacAddr};
use serde::{Deserialize, Serialize};

pub use arrivals::{Arrivals, Spacing};
pub(crate) use books::BookState;
pub use books::{FlowBook, FlowSummary, StreamBook, StreamSummary};
use clock::{Clock, ClockState, Course};
pub(crate) use config::Addresses;
pub use config::{Network, Ramp, StreamConfig, Transport, Vlan};
pub use decimal::Decimal;
pub use due::DueTimes;
use mix::{Mix, Shape, courses};
pub use packet::{Net, NetError};
pub use replay::ReplayStats;
use replay::{OnTheirWay, Replay};
pub use replay_config::{EthernetHeader, Filter, Protocol, ReplayConfig, Stations, Timing, Truncated};
pub use sizes::{SizeOrder, Sizes, SizesError};
use source::Source;
pub use sweep::{Field, Order, SweepConfig};
pub(crate) use sweep::{Sweep, Zipf};

use crate::config::{ConfigError, TrafficConfig};
use crate::frame::{FCS_BYTES, FrameMaker, Mismatch, Signature, hash};
use crate::in_flight::InFlight;
use crate::rate::Pacing;

/// Streams of a generator at most.
pub(crate) const STREAMS_MAX: usize = 64;
/// Flows of a generator that have books of their own at most.
pub(crate) const FLOWS_MAX: u64 = 1 << 16;

/// Which frame of which stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) stream: usize,
    pub(crate) index: u64,
}

impl Origin {
    /// Both in one number, small while the index is.
    pub(crate) fn packed(self) -> u64 {
        self.index * STREAMS_MAX as u64 + self.stream as u64
    }

    pub(crate) fn unpacked(packed: u64) -> Origin {
        let streams = STREAMS_MAX as u64;
        Origin { stream: (packed % streams) as usize, index: packed / streams }
    }
}

/// A stream that is being sent.
#[derive(Clone, Debug)]
struct Lane {
    source: Source,
    clock: Clock,
    start_after: Ps,
    /// One more than the highest number that came back; and of each flow, if they are kept.
    returned_below: u64,
    flows_returned_below: Vec<u64>,
}

/// What a snapshot keeps of a stream. A capture is only named, in the traffic: its file must be there again, and the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LaneState {
    clock: ClockState,
    returned_below: u64,
    flows_returned_below: Vec<u64>,
    capture: Option<u64>,
}

impl Lane {
    /// The one stream that traffic without streams is. What ends it is what ends the traffic.
    fn of(traffic: &TrafficConfig, generator: u32, key: u64, link: &LinkConfig) -> Lane {
        let begin = Pacing::new(Ps::ZERO, traffic.rate, traffic.frame_len(), link);
        let course = Course { begin, ramp: None, stamps: None };
        Lane {
            source: Source::of(traffic, generator, key),
            // Due as the frames of a first stream are.
            clock: Clock::new(
                course,
                traffic.arrivals,
                clock_key(stream_key(key, 1)),
                (None, None),
                link.rate.0,
            ),
            start_after: Ps::ZERO,
            returned_below: 0,
            flows_returned_below: Vec::new(),
        }
    }
}

/// The key of all that is random of a stream, by its place from 1.
fn stream_key(key: u64, place: u64) -> u64 {
    hash(key ^ hash(place))
}

/// The key of a stream's arrivals.
fn clock_key(stream_key: u64) -> u64 {
    hash(stream_key ^ 1)
}

/// The lanes of the traffic's streams, and the mean size of all their frames with FCS.
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
    let courses = courses(traffic, &shapes, link);
    let mean_size = Bytes((Mix::of(&shapes, &courses, link).bits_l2 / 8.0).round() as u64);
    let parts =
        traffic.streams.iter().zip(courses).zip(replays).zip(flows_kept(&traffic.streams)).zip(1u64..);
    let lane =
        |((((stream, course), replay), flows), place): ((((&StreamConfig, _), Option<_>), u64), u64)| {
            let own_key = stream_key(key, place);
            let ends = (frames_at_most(stream, replay.as_deref()), stream.duration);
            let made = || FrameMaker::of_stream(traffic, stream, generator, key, own_key);
            Lane {
                source: replay.map_or_else(|| Source::Made(made()), Source::Replay),
                clock: Clock::new(
                    course,
                    stream.arrivals.unwrap_or(traffic.arrivals),
                    clock_key(own_key),
                    ends,
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
    /// Which stream's frame is due first.
    next: usize,
    on_their_way: OnTheirWay,
    mean_size: Bytes,
    link: LinkConfig,
    key: u64,
}

impl Streams {
    /// The streams of validated traffic; their captures are read. `key` decides what is random.
    pub(crate) fn new(
        traffic: &TrafficConfig,
        generator: u32,
        key: u64,
        link: &LinkConfig,
    ) -> Result<Streams, ConfigError> {
        let (lanes, mean_size) = if traffic.streams.is_empty() {
            let mean_size = Bytes((traffic.frame_len() + FCS_BYTES) as u64);
            (vec![Lane::of(traffic, generator, key, link)], mean_size)
        } else {
            lanes(traffic, generator, key, link)?
        };
        let on_their_way = OnTheirWay::new(lanes.iter().filter_map(|lane| lane.source.replay()));
        Ok(Streams { lanes, next: 0, on_their_way, mean_size, link: link.clone(), key })
    }

    pub(crate) fn stored_key(&self) -> u64 {
        self.key
    }

    /// The mean size of all streams' frames with FCS, to the byte.
    pub(crate) fn mean_size(&self) -> Bytes {
        self.mean_size
    }

    /// Begins at this time.
    pub(crate) fn begin(&mut self, first: Ps) {
        self.lanes.iter_mut().for_each(|lane| lane.clock.begin(first.saturating_add(lane.start_after)));
        self.find_next();
    }

    fn find_next(&mut self) {
        let dues = self.lanes.iter().map(|lane| lane.clock.state.due);
        self.next = dues.enumerate().min_by_key(|(place, due)| (*due, *place)).map_or(0, |(place, _)| place);
    }

    /// When the next frame of any stream is due; [`Ps::MAX`] if there is none.
    pub(crate) fn next_due(&self) -> Ps {
        self.lanes[self.next].clock.state.due
    }

    /// When the nth of the frames to come is due, from 0.
    pub(crate) fn due_after(&self, frames: u64) -> Ps {
        self.ahead(frames).0.next_due()
    }

    /// How many frames are still to come, as far as there are no more than `most`.
    pub(crate) fn to_come(&self, most: u64) -> u64 {
        self.ahead(most).1
    }

    /// The streams when so many frames more have gone, or all if there are fewer; and how many that is.
    fn ahead(&self, frames: u64) -> (Streams, u64) {
        let (mut ahead, mut gone) = (self.clone(), 0);
        while gone < frames && ahead.next_due() != Ps::MAX {
            let origin = ahead.next_frame();
            let frame_len = ahead.lane(origin).source.frame_len(origin.index);
            ahead.advance(frame_len.map_or(0, |frame_len| self.link.wire_bytes(frame_len)));
            gone += 1;
        }
        (ahead, gone)
    }

    /// The frame that is due next.
    pub(crate) fn next_frame(&self) -> Origin {
        Origin { stream: self.next, index: self.lanes[self.next].clock.state.index }
    }

    /// The frame that was due takes so many bytes of the line; the one after it is the next one then.
    pub(crate) fn advance(&mut self, wire_bytes: u64) {
        self.lanes[self.next].clock.advance(wire_bytes);
        if self.lanes.len() > 1 {
            self.find_next();
        }
    }

    /// Whether frames are of more streams than one.
    pub(crate) fn are_several(&self) -> bool {
        self.lanes.len() > 1
    }

    /// How many streams there are, at least one.
    pub(crate) fn count(&self) -> usize {
        self.lanes.len()
    }

    /// Writes a frame, number `sequence` of the generator's, into `bytes`.
    pub(crate) fn make(&self, sequence: u64, origin: Origin, bytes: &mut Vec<u8>) {
        self.lane(origin).source.make(sequence, origin.index, bytes);
    }

    /// Whose frame this is: the generator, and the number of the request that it is or answers. `next` is the number
    /// of the next request of this one, `generator`.
    pub(crate) fn read(&self, generator: u32, next: u64, frame: &[u8]) -> Option<Signature> {
        let answered = || self.lanes.iter().find_map(|lane| lane.source.read(next, frame));
        Signature::read(frame)
            .or_else(|| answered().map(|sequence| Signature { stream: generator, sequence }))
    }

    /// Compares what came back, or answers, and arrived at `station`, with what is expected for what was sent.
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

    /// Notes that a frame is sent under this number. `is_awaited` says of which numbers frames are on their way.
    pub(crate) fn sent(&mut self, origin: Origin, sequence: u64, is_awaited: impl Fn(u64) -> bool) {
        if let Source::Replay(replay) = &self.lanes[origin.stream].source {
            self.on_their_way.sent(replay, origin.index, sequence, is_awaited);
        }
    }

    /// Which packet of a capture a frame is that arrived, and whether it can be no other.
    pub(crate) fn recognise(&mut self, frame: &[u8], in_flight: &InFlight) -> Option<(u64, bool)> {
        let candidates = self.on_their_way.candidates(frame, |sequence| in_flight.is_awaited(sequence));
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

    /// The flow of a frame, if its stream's flows are kept.
    pub(crate) fn flow(&self, origin: Origin) -> Option<usize> {
        let lane = self.lane(origin);
        match &lane.source {
            Source::Made(maker) if !lane.flows_returned_below.is_empty() => {
                Some(maker.flow(origin.index) as usize)
            }
            _ => None,
        }
    }

    /// Notes that a frame is back, and says whether it came behind a later one of its stream, and of its flow.
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

    /// An empty book for each stream, of a window that begins now.
    pub(crate) fn books(&self, begin: Ps, traffic: &TrafficConfig) -> Vec<StreamBook> {
        let book = |(place, (lane, stream)): (usize, (&Lane, &StreamConfig))| {
            let replay = lane.source.replay().map(|replay| {
                // Without an end, all of it once.
                let planned = frames_at_most(stream, Some(replay)).unwrap_or(replay.count());
                let sent_before = lane.clock.state.index;
                ReplayStats {
                    sent_before,
                    not_sent: planned.saturating_sub(sent_before),
                    ..replay.stats.clone()
                }
            });
            StreamBook::new(begin, stream.name(place), lane.flows_returned_below.len(), replay)
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

    /// Takes up what was saved, and what is on its way of it, unless no streams can have been so.
    pub(crate) fn restore(
        &mut self,
        states: Vec<LaneState>,
        in_flight: &InFlight,
    ) -> Result<(), &'static str> {
        const OTHERS: &str = "its streams are others";
        if states.len() != self.lanes.len() {
            return Err(OTHERS);
        }
        for (lane, state) in self.lanes.iter_mut().zip(states) {
            if state.flows_returned_below.len() != lane.flows_returned_below.len()
                || state.clock.index > INDEX_MAX
            {
                return Err(OTHERS);
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

/// No stream sends more.
const INDEX_MAX: u64 = 1 << 56;

/// How many flows of each stream have books, none of a stream whose flows would be too many beside those before it.
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

/// How many frames a stream sends, if that is what ends it.
fn frames_at_most(stream: &StreamConfig, replay: Option<&Replay>) -> Option<u64> {
    let times = stream.replay.as_ref().map_or(1, |replay| replay.times);
    let of_capture = replay.filter(|_| times > 0).map(|replay| replay.count().saturating_mul(times));
    [stream.frames, of_capture].into_iter().flatten().min()
}

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
