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
//! | `books` | what became of them, by stream and by flow |

mod arrivals;
mod books;
mod clock;
mod config;
mod decimal;
mod sizes;
mod sweep;

use doorbell_sim::{Frame, Ps};
use doorbell_wire::LinkConfig;
use serde::{Deserialize, Serialize};

pub use arrivals::{Arrivals, Spacing};
pub(crate) use books::{BookState, StreamBook};
pub use books::{FlowSummary, StreamSummary};
use clock::{Clock, ClockState, Course, RampCourse};
pub(crate) use config::Addresses;
pub use config::{Network, Ramp, StreamConfig, Transport, Vlan};
pub use decimal::Decimal;
pub use sizes::{SizeOrder, Sizes, SizesError};
pub use sweep::{Field, Order, SweepConfig};
pub(crate) use sweep::{Sweep, Zipf};

use crate::config::TrafficConfig;
use crate::frame::{FrameMaker, hash};
use crate::measure::Volume;
use crate::rate::{Pacing, Rate};

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
    maker: FrameMaker,
    clock: Clock,
    start_after: Ps,
    /// One more than the highest number that came back; and of each flow, if they are kept.
    returned_below: u64,
    flows_returned_below: Vec<u64>,
}

/// What a snapshot keeps of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LaneState {
    clock: ClockState,
    returned_below: u64,
    flows_returned_below: Vec<u64>,
}

/// The streams of a run.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    lanes: Vec<Lane>,
    /// Which stream's frame is due first.
    next: usize,
    link: LinkConfig,
    key: u64,
}

impl Streams {
    /// The streams of validated traffic, if it has any. `key` decides what is random.
    pub(crate) fn new(
        traffic: &TrafficConfig,
        generator: u32,
        key: u64,
        link: &LinkConfig,
    ) -> Option<Streams> {
        if traffic.streams.is_empty() {
            return None;
        }
        let flows = flows_kept(&traffic.streams);
        let lanes = traffic.streams.iter().zip(courses(traffic, link)).zip(flows).zip(1u64..);
        let lane = |(((stream, course), flows), place): (((&StreamConfig, Course), u64), u64)| {
            let own_key = hash(key ^ hash(place));
            let ends = (stream.frames, stream.duration);
            Lane {
                maker: FrameMaker::of_stream(traffic, stream, generator, key, own_key),
                clock: Clock::new(course, stream.arrivals, hash(own_key ^ 1), ends, link.rate.0),
                start_after: stream.start_after,
                returned_below: 0,
                flows_returned_below: vec![0; flows as usize],
            }
        };
        Some(Streams { lanes: lanes.map(lane).collect(), next: 0, link: link.clone(), key })
    }

    pub(crate) fn stored_key(&self) -> u64 {
        self.key
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
        let mut ahead = Streams { lanes: self.lanes.clone(), link: self.link.clone(), ..*self };
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
        let volume = Volume::of_frame(lane.maker.frame_len(origin.index), &self.link);
        lane.clock.advance(volume.bytes_l1);
        self.find_next();
        (origin, volume)
    }

    fn lane(&self, origin: Origin) -> &Lane {
        &self.lanes[origin.stream]
    }

    pub(crate) fn maker(&self, origin: Origin) -> &FrameMaker {
        &self.lane(origin).maker
    }

    pub(crate) fn maker_mut(&mut self, origin: Origin) -> &mut FrameMaker {
        &mut self.lanes[origin.stream].maker
    }

    /// The flow of a frame, if its stream's flows are kept.
    pub(crate) fn flow(&self, origin: Origin) -> Option<usize> {
        let lane = self.lane(origin);
        (!lane.flows_returned_below.is_empty()).then(|| lane.maker.flow(origin.index) as usize)
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

    /// An empty book for each stream.
    pub(crate) fn books(&self, traffic: &TrafficConfig) -> Vec<StreamBook> {
        let lanes = self.lanes.iter().zip(&traffic.streams).enumerate();
        lanes
            .map(|(place, (lane, stream))| {
                StreamBook::new(stream.name(place), lane.flows_returned_below.len())
            })
            .collect()
    }

    pub(crate) fn save(&self) -> Vec<LaneState> {
        let lanes = self.lanes.iter().map(|lane| LaneState {
            clock: lane.clock.state,
            returned_below: lane.returned_below,
            flows_returned_below: lane.flows_returned_below.clone(),
        });
        lanes.collect()
    }

    /// Takes up what was saved, unless no streams can have been so.
    pub(crate) fn restore(&mut self, states: Vec<LaneState>) -> Option<()> {
        if states.len() != self.lanes.len() {
            return None;
        }
        for (lane, state) in self.lanes.iter_mut().zip(states) {
            if state.flows_returned_below.len() != lane.flows_returned_below.len()
                || state.clock.index > INDEX_MAX
            {
                return None;
            }
            lane.clock.state = state.clock;
            lane.returned_below = state.returned_below;
            lane.flows_returned_below = state.flows_returned_below;
        }
        self.find_next();
        Some(())
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

fn round_lens(stream: &StreamConfig) -> Vec<usize> {
    stream.size.round().into_iter().map(|size| size.0 as usize - Frame::FCS_BYTES).collect()
}

/// The courses of validated streams: their own rates, or those that sum to the traffic's `total`.
fn courses(traffic: &TrafficConfig, link: &LinkConfig) -> Vec<Course> {
    let own = |stream: &StreamConfig| {
        let round = round_lens(stream);
        let ramp = stream.ramp.map(|ramp| RampCourse {
            over: ramp.over,
            after: Pacing::of_round(Ps::ZERO, ramp.to, &round, link),
        });
        Course { begin: Pacing::of_round(Ps::ZERO, stream.rate, &round, link), ramp }
    };
    let mut courses: Vec<Course> = traffic.streams.iter().map(own).collect();
    let scale = |courses: &mut [Course], faster: &dyn Fn(Pacing) -> Pacing| {
        for course in courses {
            course.begin = faster(course.begin);
            course.ramp.iter_mut().for_each(|ramp| ramp.after = faster(ramp.after));
        }
    };
    match (traffic.total, courses.as_mut_slice()) {
        (None, _) => {}
        (Some(Rate::Times(times)), all) => scale(all, &|pacing| pacing.times(times)),
        // Exactly, where nothing has to be shared out.
        (Some(total), [only]) if only.ramp.is_none() => {
            only.begin = Pacing::of_round(Ps::ZERO, total, &round_lens(&traffic.streams[0]), link);
        }
        (Some(total), all) => {
            let mix = Mix::of(traffic, all, link);
            let factor = mix.frames_a_second(total, link) / mix.rate;
            scale(all, &|pacing| pacing.faster(factor));
        }
    }
    courses
}

/// All streams' frames together, for rates and reports.
struct Mix {
    /// Frames a second.
    rate: f64,
    /// Mean bits of a frame at both layers.
    bits_l2: f64,
    bits_l1: f64,
}

impl Mix {
    fn of(traffic: &TrafficConfig, courses: &[Course], link: &LinkConfig) -> Mix {
        let mut mix = Mix { rate: 0.0, bits_l2: 0.0, bits_l1: 0.0 };
        for (stream, course) in traffic.streams.iter().zip(courses) {
            let (rate, round) = (course.begin.frames_per_second(), round_lens(stream));
            let mut sum = Volume::default();
            round.iter().for_each(|frame_len| sum.add(Volume::of_frame(*frame_len, link)));
            mix.rate += rate;
            mix.bits_l2 += rate * 8.0 * sum.bytes_l2 as f64 / sum.frames as f64;
            mix.bits_l1 += rate * 8.0 * sum.bytes_l1 as f64 / sum.frames as f64;
        }
        Mix { bits_l2: mix.bits_l2 / mix.rate, bits_l1: mix.bits_l1 / mix.rate, ..mix }
    }

    /// The frame rate that a rate of the mix is.
    fn frames_a_second(&self, rate: Rate, link: &LinkConfig) -> f64 {
        match rate {
            Rate::Frames(frames) => frames as f64,
            Rate::BitsL2(bits) => bits.0 as f64 / self.bits_l2,
            Rate::BitsL1(bits) => bits.0 as f64 / self.bits_l1,
            Rate::Line(share) => link.rate.0 as f64 / self.bits_l1 * share as f64 / 1e8,
            Rate::Times(times) => self.rate * times as f64 / Rate::ONCE as f64,
        }
    }
}

/// The mean frame size of all streams, weighted by their rates, with FCS, to the byte.
pub(crate) fn mean_size(traffic: &TrafficConfig, link: &LinkConfig) -> u64 {
    (Mix::of(traffic, &courses(traffic, link), link).bits_l2 / 8.0).round() as u64
}

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
