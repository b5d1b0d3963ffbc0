//! Results of a window's frames per stream and per flow. The groups of frames are defined in `measure`.

pub use doorbell_results::{FlowSummary, StreamSummary};
use doorbell_sim::Ps;
use serde::{Deserialize, Serialize};

use super::replay::ReplayStats;
use crate::batches::Batches;
use crate::latency::{Latency, Mean, TripAccumulator};
use crate::volume::Volume;

/// Results of one stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamResults {
    name: String,
    offered: Volume,
    delivered: Volume,
    corrupt: u64,
    reordered: u64,
    latency: Latency,
    batches: Batches<Mean>,
    /// Empty if there are no flows or too many.
    flows: Vec<FlowCounts>,
    /// Statistics of the replayed capture; `not_sent` counts from the begin of the window.
    replay: Option<ReplayStats>,
}

/// Results of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowCounts {
    /// Frames whose first bit left in the window.
    pub offered: u64,
    /// Offered frames that returned unchanged.
    pub delivered: u64,
    /// Offered frames that returned changed.
    pub corrupt: u64,
    /// Unchanged frames that arrived in the window after a later one of the flow.
    pub reordered: u64,
}

impl FlowCounts {
    /// Offered frames that have not returned.
    pub fn lost(&self) -> u64 {
        self.offered.saturating_sub(self.delivered).saturating_sub(self.corrupt)
    }
}

impl StreamResults {
    pub(crate) fn new(begin: Ps, name: String, flows: usize, replay: Option<ReplayStats>) -> StreamResults {
        let flows = vec![FlowCounts::default(); flows];
        StreamResults { name, batches: Batches::new(begin), flows, replay, ..StreamResults::default() }
    }

    fn flow(&mut self, flow: Option<usize>) -> Option<&mut FlowCounts> {
        self.flows.get_mut(flow?)
    }

    /// Counts a frame that left at `time`.
    pub(crate) fn on_sent(&mut self, time: Ps, volume: Volume, flow: Option<usize>) {
        self.offered.add(volume);
        self.batches.on_sent(time);
        self.flow(flow).into_iter().for_each(|flow| flow.offered += 1);
    }

    /// Counts the return of a frame that left at `time`. `latency` is none if the frame may be a copy of
    /// another one.
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

    pub(crate) fn on_reordered(&mut self, in_stream: bool, in_flow: bool, flow: Option<usize>) {
        self.reordered += u64::from(in_stream);
        self.flow(flow).into_iter().for_each(|flow| flow.reordered += u64::from(in_flow));
    }

    /// Adds the results of the same stream at another port.
    pub(crate) fn merge(&mut self, other: &StreamResults) {
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

    /// The stream's name and its tracked flows.
    pub fn flows(&self) -> (&str, &[FlowCounts]) {
        (&self.name, &self.flows)
    }

    /// Results of a window of length `span`; `all` is the window's own batches, whose length is used.
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
            |count: fn(&FlowCounts) -> u64| self.flows.iter().filter(|flow| count(flow) > 0).count() as u64;
        FlowSummary {
            count: self.flows.len() as u64,
            offered: with(|flow| flow.offered),
            with_loss: self.flows.iter().filter(|flow| flow.lost() > 0).count() as u64,
            with_corruption: with(|flow| flow.corrupt),
            with_reordering: with(|flow| flow.reordered),
            frames_reordered: self.flows.iter().map(|flow| flow.reordered).sum(),
            frames_offered_max: self.flows.iter().map(|flow| flow.offered).max().unwrap_or(0),
            frames_lost_max: self.flows.iter().map(FlowCounts::lost).max().unwrap_or(0),
        }
    }

    /// Continues restored results of a window that began at `begin`. Returns whether they are consistent.
    pub(crate) fn resume(&mut self, begin: Ps) -> bool {
        let adds_up = |offered: u64, delivered: u64, corrupt: u64| {
            delivered.checked_add(corrupt).is_some_and(|back| back <= offered) && offered < u64::MAX / 64
        };
        let flow_is_sound = |flow: &FlowCounts| {
            adds_up(flow.offered, flow.delivered, flow.corrupt) && flow.reordered < u64::MAX / 64
        };
        let (offered, delivered) = (self.offered, self.delivered);
        let counts =
            [offered.bytes_l1, offered.bytes_l2, delivered.bytes_l1, delivered.bytes_l2, self.reordered];
        adds_up(offered.frames, delivered.frames, self.corrupt)
            && counts.iter().all(|count| *count <= u64::MAX / 64)
            && self.flows.len() as u64 <= super::FLOWS_MAX
            && self.flows.iter().all(flow_is_sound)
            && self.latency.is_consistent()
            && self.batches.resume(begin, (offered.frames, delivered.frames))
    }
}
