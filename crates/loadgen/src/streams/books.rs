//! What became of a window's frames, by stream and by flow. Which frames belong to a window, and what its groups mean, is
//! said in `measure`.

pub use doorbell_results::{FlowSummary, StreamSummary};
use doorbell_sim::Ps;
use serde::{Deserialize, Serialize};

use super::replay::ReplayStats;
use crate::batches::{Batches, BatchesState};
use crate::latency::{Latency, LatencyState, Mean};
use crate::volume::Volume;

/// The books of one stream.
#[derive(Clone, Debug)]
pub struct StreamBook {
    name: String,
    offered: Volume,
    delivered: Volume,
    corrupt: u64,
    reordered: u64,
    latency: Latency,
    batches: Batches<Mean>,
    /// Empty if there are no flows, or too many.
    flows: Vec<FlowBook>,
    /// What was made of the capture that is sent; `not_sent` is of the window's begin.
    replay: Option<ReplayStats>,
}

/// The books of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowBook {
    /// Frames whose first bit left in the window.
    pub offered: u64,
    /// Of these, those that came back unharmed.
    pub delivered: u64,
    /// Of these, those that came back changed.
    pub corrupt: u64,
    /// Unharmed frames that arrived in the window after a later one of the flow.
    pub reordered: u64,
}

impl FlowBook {
    /// Of the offered frames, those that have not come back.
    pub fn lost(&self) -> u64 {
        self.offered.saturating_sub(self.delivered).saturating_sub(self.corrupt)
    }
}

/// What a snapshot keeps of a [`StreamBook`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BookState {
    name: String,
    offered: Volume,
    delivered: Volume,
    corrupt: u64,
    reordered: u64,
    latency: LatencyState,
    batches: BatchesState<Mean>,
    flows: Vec<FlowBook>,
    replay: Option<ReplayStats>,
}

impl StreamBook {
    pub(crate) fn new(begin: Ps, name: String, flows: usize, replay: Option<ReplayStats>) -> StreamBook {
        StreamBook {
            name,
            offered: Volume::default(),
            delivered: Volume::default(),
            corrupt: 0,
            reordered: 0,
            latency: Latency::default(),
            batches: Batches::new(begin),
            flows: vec![FlowBook::default(); flows],
            replay,
        }
    }

    fn flow(&mut self, flow: Option<usize>) -> Option<&mut FlowBook> {
        self.flows.get_mut(flow?)
    }

    /// A frame left at `time`.
    pub(crate) fn on_sent(&mut self, time: Ps, volume: Volume, flow: Option<usize>) {
        self.offered.add(volume);
        self.batches.on_sent(time);
        self.flow(flow).into_iter().for_each(|flow| flow.offered += 1);
    }

    /// A frame is back that had left at `time`; if it may have been another, its latency is not known.
    pub(crate) fn on_delivered(
        &mut self,
        time: Ps,
        volume: Volume,
        latency: Option<Ps>,
        flow: Option<usize>,
    ) {
        self.delivered.add(volume);
        self.batches.on_returned(time, latency);
        latency.into_iter().for_each(|latency| self.latency.record(latency));
        self.flow(flow).into_iter().for_each(|flow| flow.delivered += 1);
    }

    pub(crate) fn on_corrupt(&mut self, flow: Option<usize>) {
        self.corrupt += 1;
        self.flow(flow).into_iter().for_each(|flow| flow.corrupt += 1);
    }

    pub(crate) fn on_reordered(&mut self, (in_stream, in_flow): (bool, bool), flow: Option<usize>) {
        self.reordered += u64::from(in_stream);
        self.flow(flow).into_iter().for_each(|flow| flow.reordered += u64::from(in_flow));
    }

    /// Adds the books of the same stream at another port.
    pub(crate) fn merge(&mut self, other: &StreamBook) {
        self.offered.add(other.offered);
        self.delivered.add(other.delivered);
        self.corrupt += other.corrupt;
        self.reordered += other.reordered;
        self.latency.merge(&other.latency);
        self.batches.merge(&other.batches);
        if let (Some(replay), Some(more)) = (&mut self.replay, &other.replay) {
            replay.sent_before += more.sent_before;
            replay.not_sent += more.not_sent;
        }
        for (flow, more) in self.flows.iter_mut().zip(&other.flows) {
            flow.offered += more.offered;
            flow.delivered += more.delivered;
            flow.corrupt += more.corrupt;
            flow.reordered += more.reordered;
        }
    }

    /// The stream's name, and its flows as far as they have books.
    pub fn flows(&self) -> (&str, &[FlowBook]) {
        (&self.name, &self.flows)
    }

    /// The figures of a window that is `span` long and has these batches.
    pub(crate) fn summary(&self, span: Ps, all: &Batches) -> StreamSummary {
        let (offered, delivered) = (self.offered.frames, self.delivered.frames);
        StreamSummary {
            name: self.name.clone(),
            frames_offered: offered,
            frames_delivered: delivered,
            frames_corrupt: self.corrupt,
            frames_lost: offered.saturating_sub(delivered).saturating_sub(self.corrupt),
            frames_reordered: self.reordered,
            drop_rate: if offered == 0 {
                0.0
            } else {
                offered.saturating_sub(delivered) as f64 / offered as f64
            },
            offered: self.offered.over(span),
            delivered: self.delivered.over(span),
            latency_ns: self.latency.summary(),
            confidence_95: self.batches.confidence(span),
            batches: self.batches.as_long_as(all).summaries(),
            flows: (!self.flows.is_empty()).then(|| self.flow_summary()),
            replay: self
                .replay
                .clone()
                .map(|replay| ReplayStats { not_sent: replay.not_sent.saturating_sub(offered), ..replay }),
        }
    }

    fn flow_summary(&self) -> FlowSummary {
        let with =
            |count: fn(&FlowBook) -> u64| self.flows.iter().filter(|flow| count(flow) > 0).count() as u64;
        FlowSummary {
            count: self.flows.len() as u64,
            offered: with(|flow| flow.offered),
            with_loss: self.flows.iter().filter(|flow| flow.lost() > 0).count() as u64,
            with_corruption: with(|flow| flow.corrupt),
            with_reordering: with(|flow| flow.reordered),
            frames_reordered: self.flows.iter().map(|flow| flow.reordered).sum(),
            frames_offered_max: self.flows.iter().map(|flow| flow.offered).max().unwrap_or(0),
            frames_lost_max: self.flows.iter().map(FlowBook::lost).max().unwrap_or(0),
        }
    }

    pub(crate) fn save(&self) -> BookState {
        BookState {
            name: self.name.clone(),
            offered: self.offered,
            delivered: self.delivered,
            corrupt: self.corrupt,
            reordered: self.reordered,
            latency: self.latency.save(),
            batches: self.batches.save(),
            flows: self.flows.clone(),
            replay: self.replay.clone(),
        }
    }

    /// The books of a window that began at `begin` as they were saved, unless none can have been so.
    pub(crate) fn restore(begin: Ps, state: &BookState) -> Option<StreamBook> {
        let adds_up = |offered: u64, delivered: u64, corrupt: u64| {
            delivered.checked_add(corrupt).is_some_and(|back| back <= offered) && offered < u64::MAX / 64
        };
        let flow_is_sound = |flow: &FlowBook| {
            adds_up(flow.offered, flow.delivered, flow.corrupt) && flow.reordered < u64::MAX / 64
        };
        let bytes = [
            state.offered.bytes_l1,
            state.offered.bytes_l2,
            state.delivered.bytes_l1,
            state.delivered.bytes_l2,
        ];
        let sound = adds_up(state.offered.frames, state.delivered.frames, state.corrupt)
            && bytes.into_iter().chain([state.reordered]).all(|count| count <= u64::MAX / 64)
            && state.flows.len() as u64 <= super::FLOWS_MAX
            && state.flows.iter().all(flow_is_sound);
        let latency = Latency::restore(&state.latency).filter(|_| sound)?;
        let counted = (state.offered.frames, state.delivered.frames);
        Some(StreamBook {
            name: state.name.clone(),
            offered: state.offered,
            delivered: state.delivered,
            corrupt: state.corrupt,
            reordered: state.reordered,
            latency,
            batches: Batches::restore(begin, &state.batches, counted)?,
            flows: state.flows.clone(),
            replay: state.replay.clone(),
        })
    }
}
