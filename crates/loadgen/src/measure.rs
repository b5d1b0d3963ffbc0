//! A measurement window and the figures that it yields.
//!
//! A window lies between two calls, [`begin_window`](crate::LoadGen::begin_window) and
//! [`end_window`](crate::LoadGen::end_window). Three groups of frames belong to it:
//!
//! | Group | Which frames | What it says |
//! |---|---|---|
//! | offered | whose first bit left in the window | the load |
//! | delivered | those of the offered that came back unharmed, *whenever* they did | loss, frame by frame |
//! | arrived | that came back unharmed in the window, whenever they were sent | the rate at which the machine worked then |
//!
//! Latencies are those of the delivered frames. Loss is exact once no frame of the window is outstanding:
//! let the machine drain before the figures are taken. It needs no correction for what buffers hold, but
//! it is the loss of *these* frames: a window that begins while empty buffers fill up sees less loss than one
//! that begins when they are full, so warm up at the same rate first. Where offered and arrived
//! differ by more than the loss explains, buffers were filling or emptying.
//!
//! A frame that leaves or arrives in the very picosecond of a call belongs to what was before it, if the event
//! was handled before; calls from the `Control` phase come last in their picosecond.

use std::collections::BTreeSet;

pub use doorbell_results::WindowSummary as Summary;
use doorbell_sim::Ps;
use doorbell_sim::snapshot::SnapshotError;
use serde::{Deserialize, Serialize};

use crate::batches::{Batches, BatchesState};
use crate::in_flight::SendTimes;
use crate::latency::{Latency, LatencyState};
use crate::streams::{BookState, StreamBook};
use crate::volume::Volume;

/// A window, open or closed. Its figures go on changing while frames of it are outstanding.
#[derive(Clone, Debug)]
pub struct Measurement {
    begin: Ps,
    end: Option<Ps>,
    /// The sequence numbers of the offered frames: from the first to before the second.
    sequences: (u64, Option<u64>),
    offered: Volume,
    delivered: Volume,
    arrived: Volume,
    corrupt: u64,
    /// Offered frames that were lost or damaged on the link behind the NIC that sent them back, and of which no other copy has come.
    spoilt: BTreeSet<u64>,
    /// The same of other generators.
    spoilt_of_others: u64,
    /// Offered frames that are no longer waited for.
    given_up: u64,
    /// Of these, requests that others waited for too long.
    timed_out: u64,
    duplicates: u64,
    reordered: u64,
    foreign: u64,
    late: u64,
    lag_max: Ps,
    /// Round trips from the intended time are in here.
    batches: Batches,
    from_actual: Latency,
    /// Differences between the round trips of frames that came back one after the other.
    variation: Latency,
    last: Option<Ps>,
    streams: Vec<StreamBook>,
}

/// What a snapshot keeps of a [`Measurement`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasurementState {
    begin: Ps,
    end: Option<Ps>,
    sequences: (u64, Option<u64>),
    offered: Volume,
    delivered: Volume,
    arrived: Volume,
    /// Corrupt, given up, duplicates, reordered, foreign, late, timed out, spoilt of others.
    counts: [u64; 8],
    spoilt: Vec<u64>,
    lag_max: Ps,
    batches: BatchesState,
    from_actual: LatencyState,
    variation: LatencyState,
    last: Option<Ps>,
    streams: Vec<BookState>,
}

impl Measurement {
    pub(crate) fn begin(now: Ps, next_sequence: u64, streams: Vec<StreamBook>) -> Measurement {
        Measurement {
            begin: now,
            end: None,
            sequences: (next_sequence, None),
            offered: Volume::default(),
            delivered: Volume::default(),
            arrived: Volume::default(),
            corrupt: 0,
            spoilt: BTreeSet::new(),
            spoilt_of_others: 0,
            given_up: 0,
            timed_out: 0,
            duplicates: 0,
            reordered: 0,
            foreign: 0,
            late: 0,
            lag_max: Ps::ZERO,
            batches: Batches::new(now),
            from_actual: Latency::default(),
            variation: Latency::default(),
            last: None,
            streams,
        }
    }

    pub(crate) fn close(&mut self, now: Ps, next_sequence: u64) {
        if self.end.is_none() {
            self.end = Some(now);
            self.sequences.1 = Some(next_sequence);
        }
    }

    /// Whether the window has not ended yet.
    pub fn is_open(&self) -> bool {
        self.end.is_none()
    }

    /// When the window began, and when it ended if it has.
    pub fn span(&self) -> (Ps, Option<Ps>) {
        (self.begin, self.end)
    }

    /// The load, what became of it, and what arrived, see the module's head.
    pub fn volumes(&self) -> (Volume, Volume, Volume) {
        (self.offered, self.delivered, self.arrived)
    }

    /// Offered frames that may still come back.
    pub fn outstanding(&self) -> u64 {
        self.offered.frames - self.delivered.frames - self.corrupt - self.given_up
    }

    /// Offered frames that were lost or damaged on the link behind the NIC that sent them back, and of which no other copy has come.
    pub fn spoilt(&self) -> u64 {
        self.spoilt.len() as u64 + self.spoilt_of_others
    }

    /// Round trips of the delivered frames from the time each was due.
    pub fn latency(&self) -> Latency {
        self.batches.latency()
    }

    /// Round trips of the delivered frames from the time the first bit of each left.
    pub fn latency_from_actual(&self) -> &Latency {
        &self.from_actual
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

    /// A frame is back that had left at the time given. Its round trip is not known if it may have been another one.
    pub(crate) fn on_returned(
        &mut self,
        now: Ps,
        (sequence, left): (u64, Ps),
        volume: Volume,
        times: Option<SendTimes>,
        reordered: bool,
    ) {
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

    /// The books of the streams, if there are any.
    pub fn streams(&self) -> &[StreamBook] {
        &self.streams
    }

    /// The book of a stream. Traffic that began in the middle of the window may have streams that have none.
    pub(crate) fn stream(&mut self, stream: usize) -> Option<&mut StreamBook> {
        self.streams.get_mut(stream)
    }

    /// The same for the books of its stream and flow. `behind` says whether it came after a later one of either.
    pub(crate) fn on_stream_returned(
        &mut self,
        now: Ps,
        (sequence, left): (u64, Ps),
        volume: Volume,
        times: Option<SendTimes>,
        (stream, flow, behind): (usize, Option<usize>, (bool, bool)),
    ) {
        let (open, has) = (self.is_open(), self.has(sequence));
        let Some(book) = self.stream(stream) else { return };
        if open {
            book.on_reordered(behind, flow);
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

    pub(crate) fn on_spoilt(&mut self, sequence: u64) {
        if self.has(sequence) {
            self.spoilt.insert(sequence);
        }
    }

    pub(crate) fn on_given_up(&mut self, sequence: u64) {
        self.given_up += u64::from(self.has(sequence));
    }

    /// A request is given up, for others wait.
    pub(crate) fn on_timed_out(&mut self, sequence: u64) {
        self.timed_out += u64::from(self.has(sequence));
        self.on_given_up(sequence);
    }

    /// Frames of the run that ends are no longer waited for.
    pub(crate) fn give_up_all(&mut self) {
        self.given_up += self.outstanding();
    }

    pub(crate) fn on_duplicate(&mut self) {
        self.duplicates += u64::from(self.is_open());
    }

    pub(crate) fn on_foreign(&mut self) {
        self.foreign += u64::from(self.is_open());
    }

    pub(crate) fn on_late(&mut self) {
        self.late += u64::from(self.is_open());
    }

    /// Adds another generator's window over the same time, for the sum over a machine's ports.
    pub fn merge(&mut self, other: &Measurement) {
        self.begin = self.begin.min(other.begin);
        self.end = self.end.max(other.end);
        self.offered.add(other.offered);
        self.delivered.add(other.delivered);
        self.arrived.add(other.arrived);
        self.corrupt += other.corrupt;
        self.spoilt_of_others += other.spoilt();
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

    /// The figures so far; for a window that is still open, up to `now`.
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

    pub(crate) fn save(&self) -> MeasurementState {
        MeasurementState {
            begin: self.begin,
            end: self.end,
            sequences: self.sequences,
            offered: self.offered,
            delivered: self.delivered,
            arrived: self.arrived,
            counts: [
                self.corrupt,
                self.given_up,
                self.duplicates,
                self.reordered,
                self.foreign,
                self.late,
                self.timed_out,
                self.spoilt_of_others,
            ],
            spoilt: self.spoilt.iter().copied().collect(),
            lag_max: self.lag_max,
            batches: self.batches.save(),
            from_actual: self.from_actual.save(),
            variation: self.variation.save(),
            last: self.last,
            streams: self.streams.iter().map(StreamBook::save).collect(),
        }
    }

    pub(crate) fn restore(state: &MeasurementState) -> Result<Measurement, SnapshotError> {
        let wrong = |problem: &str| SnapshotError::Inconsistent {
            name: "loadgen".to_owned(),
            problem: problem.to_owned(),
        };
        let [corrupt, given_up, duplicates, reordered, foreign, late, timed_out, spoilt_of_others] =
            state.counts;
        let known =
            [state.delivered.frames, corrupt, given_up].iter().try_fold(0u64, |a, b| a.checked_add(*b));
        if known.is_none_or(|known| known > state.offered.frames) {
            return Err(wrong("a window has more frames back than were sent"));
        }
        let volumes = [state.offered, state.delivered, state.arrived].map(Volume::parts);
        if volumes.iter().flatten().chain(&state.counts).any(|count| *count > u64::MAX / 64) {
            return Err(wrong("a window's counts are impossibly high"));
        }
        let counted = (state.offered.frames, state.delivered.frames);
        let batches = Batches::restore(state.begin, &state.batches, counted);
        let restore = |book| StreamBook::restore(state.begin, book);
        let books: Option<Vec<StreamBook>> = state.streams.iter().map(restore).collect();
        let latency = |state| Latency::restore(state).ok_or_else(|| wrong("a histogram is not one"));
        Ok(Measurement {
            begin: state.begin,
            end: state.end,
            sequences: state.sequences,
            offered: state.offered,
            delivered: state.delivered,
            arrived: state.arrived,
            corrupt,
            spoilt: state.spoilt.iter().copied().collect(),
            spoilt_of_others,
            given_up,
            timed_out,
            duplicates,
            reordered,
            foreign,
            late,
            lag_max: state.lag_max,
            batches: batches.ok_or_else(|| wrong("a window's batches do not add up"))?,
            from_actual: latency(&state.from_actual)?,
            variation: latency(&state.variation)?,
            last: state.last,
            streams: books.ok_or_else(|| wrong("a stream's books do not add up"))?,
        })
    }
}
