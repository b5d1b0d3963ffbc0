//! Several streams of test frames at one port. Each has a rate, an arrival process, frame sizes and headers of its own; they
//! are merged by when their frames are due (of several at once, the first stream's comes first), and the link
//! serialises them. A frame is known by its number among all of the generator's, which is in its signature; its stream and
//! its number there, from which it can be made again, are kept while it is on its way (`in_flight`).
//!
//! | File | What lives there |
//! |---|---|
//! | `config` | a stream as files write it |
//! | `arrivals`, `clock` | when its frames are due |
//! | `sizes`, `sweep` | how large they are, and how their headers change |
//! | `replay`, `replay_config`, `packet` | a capture as a stream, how it is sent, and its packets' addresses |
//! | `mix` | the rates of all streams together |
//! | `books` | what became of them, by stream and by flow |

mod arrivals;
mod books;
mod clock;
mod config;
mod decimal;
mod mix;
mod packet;
mod replay;
mod replay_config;
mod sizes;
mod sweep;

use std::sync::Arc;

use doorbell_sim::{Bytes, Ps};
use doorbell_wire::{LinkConfig, MacAddr};
use serde::{Deserialize, Serialize};

pub use arrivals::{Arrivals, Spacing};
pub(crate) use books::BookState;
pub use books::{FlowBook, FlowSummary, StreamBook, StreamSummary};
use clock::{Clock, ClockState};
pub(crate) use config::Addresses;
pub use config::{Network, Ramp, StreamConfig, Transport, Vlan};
pub use decimal::Decimal;
use mix::{Mix, Shape, courses};
pub use packet::{Net, NetError};
pub use replay::ReplayStats;
use replay::{OnTheirWay, Replay};
pub use replay_config::{Filter, Protocol, ReplayConfig, Stations, Timing, Truncated};
pub use sizes::{SizeOrder, Sizes, SizesError};
pub use sweep::{Field, Order, SweepConfig};
pub(crate) use sweep::{Sweep, Zipf};

use crate::config::{ConfigError, TrafficConfig};
use crate::frame::{FrameMaker, Mismatch, hash};
use crate::in_flight::InFlight;
use crate::volume::Volume;

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

/// Where a stream's frames come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Made(FrameMaker),
    Replay(Arc<Replay>),
}

impl Source {
    fn frame_len(&self, index: u64) -> usize {
        match self {
            Source::Made(maker) => maker.frame_len(index),
            Source::Replay(replay) => replay.frame_len(index),
        }
    }

    /// Writes frame `index`, number `sequence` of the generator's, into `bytes`.
    pub(crate) fn make(&self, sequence: u64, index: u64, bytes: &mut Vec<u8>) {
        match self {
            Source::Made(maker) => maker.make(sequence, index, bytes),
            Source::Replay(replay) => replay.make(index, bytes),
        }
    }

    /// Compares what came back with what was sent under these numbers.
    pub(crate) fn check(
        &mut self,
        sequence: u64,
        index: u64,
        bytes: &[u8],
        station: MacAddr,
    ) -> Result<(), Mismatch> {
        match self {
            Source::Made(maker) => maker.check(sequence, index, bytes, station),
            Source::Replay(replay) => replay.check(index, bytes, station),
        }
    }

    fn replay(&self) -> Option<&Replay> {
        if let Source::Replay(replay) = self { Some(replay) } else { None }
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
    /// The streams of validated traffic, if it has any; their captures are read. `key` decides what is random.
    pub(crate) fn new(
        traffic: &TrafficConfig,
        generator: u32,
        key: u64,
        link: &LinkConfig,
    ) -> Result<Option<Streams>, ConfigError> {
        if traffic.streams.is_empty() {
            return Ok(None);
        }
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
                let own_key = hash(key ^ hash(place));
                let ends = (frames_at_most(stream, replay.as_deref()), stream.duration);
                let made = || FrameMaker::of_stream(traffic, stream, generator, key, own_key);
                Lane {
                    source: replay.map_or_else(|| Source::Made(made()), Source::Replay),
                    clock: Clock::new(course, stream.arrivals, hash(own_key ^ 1), ends, link.rate.0),
                    start_after: stream.start_after,
                    returned_below: 0,
                    flows_returned_below: vec![0; flows as usize],
                }
            };
        let lanes: Vec<Lane> = parts.map(lane).collect();
        let on_their_way = OnTheirWay::new(lanes.iter().filter_map(|lane| lane.source.replay()));
        Ok(Some(Streams { lanes, next: 0, on_their_way, mean_size, link: link.clone(), key }))
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
        let mut ahead = self.clone();
        for _ in 0..frames {
            if ahead.next_due() == Ps::MAX {
                break;
            }
            ahead.take();
        }
        ahead.next_due()
    }

    /// The next frame: which it is, and its volume. The one after it is the next one then.
    pub(crate) fn take(&mut self) -> (Origin, Volume) {
        let lane = &mut self.lanes[self.next];
        let origin = Origin { stream: self.next, index: lane.clock.state.index };
        let volume = Volume::of_frame(lane.source.frame_len(origin.index), &self.link);
        lane.clock.advance(volume.bytes_l1);
        self.find_next();
        (origin, volume)
    }

    fn lane(&self, origin: Origin) -> &Lane {
        &self.lanes[origin.stream]
    }

    pub(crate) fn source(&self, origin: Origin) -> &Source {
        &self.lane(origin).source
    }

    pub(crate) fn source_mut(&mut self, origin: Origin) -> &mut Source {
        &mut self.lanes[origin.stream].source
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
            let replay = lane.source.replay().map(|replay| replay.stats.clone());
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
