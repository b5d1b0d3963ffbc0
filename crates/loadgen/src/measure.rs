//! A measurement window and its results.
//!
//! A window extends from [`begin_window`](crate::LoadGen::begin_window) to
//! [`end_window`](crate::LoadGen::end_window). It counts three groups of frames:
//!
//! | Group | Frames | Meaning |
//! |---|---|---|
//! | offered | first bit left in the window | the load |
//! | delivered | offered frames that returned unchanged, *at any time* | loss, frame by frame |
//! | arrived | returned unchanged in the window, whenever sent | throughput during the window |
//!
//! Latencies are those of the delivered frames. Loss is exact once no frame of the window is outstanding,
//! so let the machine drain before reading the results. No correction for buffered frames is needed, but
//! the loss is that of *these* frames. A window that begins while empty buffers fill up sees less loss than
//! one that begins when they are full, so warm up at the same rate first. If offered and arrived differ by
//! more than the loss, buffers were filling or emptying.
//!
//! A frame that leaves or arrives in the same picosecond as a call belongs to the period before the call if
//! its event was handled first; calls from the `Control` phase come last in their picosecond.

use std::collections::BTreeSet;

pub use doorbell_results::WindowSummary as Summary;
use doorbell_sim::Ps;
use doorbell_sim::snapshot::SnapshotError;
use serde::{Deserialize, Serialize};

use crate::arrival::Arrival;
use crate::batches::Batches;
use crate::in_flight::SendTimes;
use crate::latency::{Latency, TripAccumulator};
use crate::streams::StreamResults;
use crate::volume::Volume;

/// A window, open or closed. Its results change while its frames are outstanding. Saved as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    begin: Ps,
    end: Option<Ps>,
    /// Sequence numbers of the offered frames: first (inclusive) and end (exclusive).
    sequences: (u64, Option<u64>),
    offered: Volume,
    delivered: Volume,
    arrived: Volume,
    corrupt: u64,
    /// Offered frames that were given up.
    given_up: u64,
    duplicates: u64,
    reordered: u64,
    foreign: u64,
    late: u64,
    /// Given-up requests that exceeded the timeout while others waited.
    timed_out: u64,
    /// Number of frames of other generators lost or damaged like those of `spoilt`.
    spoilt_of_others: u64,
    /// Offered frames lost or damaged on the link after the NIC returned them, if no other copy arrived.
    spoilt: BTreeSet<u64>,
    lag_max: Ps,
    /// Contains the round trips from the intended time.
    batches: Batches,
    from_actual: Latency,
    /// Differences between the round trips of consecutively returned frames.
    variation: Latency,
    last: Option<Ps>,
    streams: Vec<StreamResults>,
}

/// A returned frame.
pub(crate) struct ReturnedFrame {
    pub sequence: u64,
    /// When it left.
    pub left: Ps,
    pub volume: Volume,
    /// None if the frame may be a copy of another one.
    pub times: Option<SendTimes>,
}

impl Measurement {
    pub(crate) fn begin(now: Ps, next_sequence: u64, streams: Vec<StreamResults>) -> Measurement {
        let (sequences, batches) = ((next_sequence, None), Batches::new(now));
        Measurement { begin: now, sequences, batches, streams, ..Measurement::default() }
    }

    pub(crate) fn close(&mut self, now: Ps, next_sequence: u64) {
        if self.end.is_none() {
            self.end = Some(now);
            self.sequences.1 = Some(next_sequence);
        }
    }

    /// Whether the window is still open.
    pub fn is_open(&self) -> bool {
        self.end.is_none()
    }

    /// Begin and, for a closed window, end.
    pub fn span(&self) -> (Ps, Option<Ps>) {
        (self.begin, self.end)
    }

    /// Offered, delivered and arrived volume, see the module documentation.
    pub fn volumes(&self) -> (Volume, Volume, Volume) {
        (self.offered, self.delivered, self.arrived)
    }

    /// Offered frames that may still return.
    pub fn outstanding(&self) -> u64 {
        self.offered.frames - self.delivered.frames - self.corrupt - self.given_up
    }

    /// Offered frames lost or damaged on the link after the NIC returned them, if no other copy arrived.
    pub fn lost_after_nic(&self) -> u64 {
        self.spoilt.len() as u64 + self.spoilt_of_others
    }

    /// Round trips of the delivered frames, measured from their due times.
    pub fn latency(&self) -> Latency {
        self.batches.latency()
    }

    pub(crate) fn has(&self, sequence: u64) -> bool {
        sequence >= self.sequences.0 && self.sequences.1.is_none_or(|end| sequence < end)
    }

    pub(crate) fn on_sent(&mut self, volume: Volume, times: SendTimes) {
        if self.is_open() {
            self.offered.add(volume);
            self.batches.on_sent(times.actual);
            self.lag_max = self.lag_max.max(times.actual.saturating_sub(times.intended));
        }
    }

    /// Records a returned frame.
    pub(crate) fn on_returned(&mut self, now: Ps, frame: &ReturnedFrame, reordered: bool) {
        let ReturnedFrame { sequence, left, volume, times } = *frame;
        if self.is_open() {
            self.arrived.add(volume);
            self.reordered += u64::from(reordered);
        }
        if self.has(sequence) {
            self.spoilt.remove(&sequence);
            self.delivered.add(volume);
            let trip = times.map(|times| now.saturating_sub(times.intended));
            self.batches.on_returned(left, trip);
            if let (Some(trip), Some(times)) = (trip, times) {
                if let Some(last) = self.last.replace(trip) {
                    self.variation.record(Ps(last.0.abs_diff(trip.0)));
                }
                self.from_actual.record(now.saturating_sub(times.actual));
            }
        }
    }

    /// Per-stream results, if there are streams.
    pub fn streams(&self) -> &[StreamResults] {
        &self.streams
    }

    /// Results of one stream. None if the traffic changed within the window and has more streams now.
    pub(crate) fn stream(&mut self, stream: usize) -> Option<&mut StreamResults> {
        self.streams.get_mut(stream)
    }

    /// Records a returned frame in its stream and flow. `behind`: whether it came after a later frame of the
    /// stream and of the flow.
    pub(crate) fn on_stream_returned(
        &mut self,
        now: Ps,
        frame: &ReturnedFrame,
        stream: usize,
        flow: Option<usize>,
        behind: (bool, bool),
    ) {
        let ReturnedFrame { sequence, left, volume, times } = *frame;
        let (open, has) = (self.is_open(), self.has(sequence));
        let Some(book) = self.stream(stream) else { return };
        if open {
            book.on_reordered(behind.0, behind.1, flow);
        }
        if has {
            let latency = times.map(|times| now.saturating_sub(times.intended));
            book.on_delivered(left, volume, latency, flow);
        }
    }

    pub(crate) fn on_corrupt(&mut self, sequence: u64) {
        self.corrupt += u64::from(self.has(sequence));
        self.spoilt.remove(&sequence);
    }

    pub(crate) fn on_lost_after_nic(&mut self, sequence: u64) {
        if self.has(sequence) {
            self.spoilt.insert(sequence);
        }
    }

    pub(crate) fn on_given_up(&mut self, sequence: u64) {
        self.given_up += u64::from(self.has(sequence));
    }

    /// Records a request given up because of its timeout.
    pub(crate) fn on_timed_out(&mut self, sequence: u64) {
        self.timed_out += u64::from(self.has(sequence));
        self.on_given_up(sequence);
    }

    /// Gives up all outstanding frames when the run ends.
    pub(crate) fn give_up_all(&mut self) {
        self.given_up += self.outstanding();
    }

    /// Counts a frame that is not the first return of a frame in flight.
    pub(crate) fn on_unexpected(&mut self, arrival: &Arrival) {
        let counter = match arrival {
            _ if !self.is_open() => return,
            Arrival::Duplicate => &mut self.duplicates,
            Arrival::Foreign => &mut self.foreign,
            Arrival::Late => &mut self.late,
            _ => return,
        };
        *counter += 1;
    }

    /// Adds another generator's window over the same time, for totals over a machine's ports.
    pub fn merge(&mut self, other: &Measurement) {
        self.begin = self.begin.min(other.begin);
        self.end = self.end.max(other.end);
        self.offered.add(other.offered);
        self.delivered.add(other.delivered);
        self.arrived.add(other.arrived);
        self.corrupt += other.corrupt;
        self.spoilt_of_others += other.lost_after_nic();
        self.given_up += other.given_up;
        self.timed_out += other.timed_out;
        self.duplicates += other.duplicates;
        self.reordered += other.reordered;
        self.foreign += other.foreign;
        self.late += other.late;
        self.lag_max = self.lag_max.max(other.lag_max);
        self.batches.merge(&other.batches);
        self.from_actual.merge(&other.from_actual);
        self.variation.merge(&other.variation);
        self.streams.iter_mut().zip(&other.streams).for_each(|(book, more)| book.merge(more));
    }

    /// The results so far; an open window extends to `now`.
    pub fn summary(&self, now: Ps) -> Summary {
        let span = self.end.unwrap_or(now).saturating_sub(self.begin);
        let (offered, delivered) = (self.offered.frames, self.delivered.frames);
        Summary {
            seconds: span.as_secs_f64(),
            frames_offered: offered,
            frames_delivered: delivered,
            frames_corrupt: self.corrupt,
            frames_lost: offered - delivered - self.corrupt,
            frames_timed_out: self.timed_out,
            frames_outstanding: self.outstanding(),
            frames_arrived: self.arrived.frames,
            frames_duplicate: self.duplicates,
            frames_reordered: self.reordered,
            frames_foreign: self.foreign,
            frames_late: self.late,
            drop_rate: if offered == 0 { 0.0 } else { (offered - delivered) as f64 / offered as f64 },
            offered: self.offered.over(span),
            delivered: self.delivered.over(span),
            arrived: self.arrived.over(span),
            send_lag_ns_max: self.lag_max.as_ns_f64(),
            latency_ns: self.latency().summary(),
            latency_from_actual_ns: self.from_actual.summary(),
            delay_variation_ns: self.variation.summary(),
            confidence_95: self.batches.confidence(span),
            batches: self.batches.summaries(),
            streams: self.streams.iter().map(|book| book.summary(span, &self.batches)).collect(),
        }
    }

    /// Continues a restored window, if it is consistent.
    pub(crate) fn resume(&mut self) -> Result<(), SnapshotError> {
        let wrong = |problem: &str| {
            let (name, problem) = ("loadgen".to_owned(), problem.to_owned());
            Err(SnapshotError::Inconsistent { name, problem })
        };
        let settled = [self.delivered.frames, self.corrupt, self.given_up];
        let accounted = settled.iter().try_fold(0u64, |sum, count| sum.checked_add(*count));
        if accounted.is_none_or(|accounted| accounted > self.offered.frames) {
            return wrong("a window has more returned than sent frames");
        }
        let volumes = [self.offered, self.delivered, self.arrived].map(Volume::parts);
        let Measurement { duplicates, reordered, foreign, late, timed_out, spoilt_of_others, .. } = *self;
        let others = [duplicates, reordered, foreign, late, timed_out, spoilt_of_others];
        if volumes.iter().flatten().chain(&settled).chain(&others).any(|count| *count > u64::MAX / 64) {
            return wrong("a window's counts are too large");
        }
        if !self.batches.resume(self.begin, (self.offered.frames, self.delivered.frames)) {
            return wrong("a window's batches do not add up");
        }
        if !self.from_actual.is_consistent() || !self.variation.is_consistent() {
            return wrong("a histogram is inconsistent");
        }
        if !self.streams.iter_mut().all(|book| book.resume(self.begin)) {
            return wrong("a stream's books do not add up");
        }
        Ok(())
    }
}
