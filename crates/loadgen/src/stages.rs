//! Breakdown of a round trip into stages. The NICs timestamp a frame's receive and transmit steps; the
//! generator adds its due, send and return times. The receive and transmit records are matched by the
//! sequence number in the signature, which the guest copies. Nothing simulated depends on this and no
//! checkpoint includes it. Frames in flight when a machine was saved have no stages after it is restored.
//!
//! Returned frames that did not pass a NIC in both directions with their signature (such as replies to
//! requests) have no stages.

use std::collections::BTreeMap;

use doorbell_results::{QueueStage, QueueStages};
pub use doorbell_results::{StageSummaries, StageSummary};
use doorbell_sim::{FrameId, Ps, RxStamps, TxStamps};

use crate::frame::Signature;
use crate::latency::Latency;

/// A stage of a frame's round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Its name in results.
    pub name: &'static str,
    /// Start and end of the stage.
    pub meaning: &'static str,
}

const fn stage(name: &'static str, meaning: &'static str) -> Stage {
    Stage { name, meaning }
}

/// The stages in path order. Each begins where the previous one ends, so they sum exactly to the round trip.
pub const STAGES: [Stage; 11] = [
    stage("send lag", "from the time a frame is due until its first bit leaves the generator"),
    stage("wire in", "until its last bit is at the NIC"),
    stage("RX FIFO", "until the NIC's engine begins to write it to memory"),
    stage("RX DMA", "until its last byte is in memory"),
    stage("RX write-back", "until software can see its descriptor"),
    stage(
        "core",
        "until the doorbell that covers it is at the NIC: waiting to be polled, the program, the store's path",
    ),
    stage("TX fetch", "until its transmit descriptor is on the chip"),
    stage("TX wait", "until the NIC's engine begins to read it"),
    stage("TX DMA", "until its last byte is at the NIC"),
    stage("TX FIFO", "until its first bit leaves the NIC"),
    stage("wire out", "until its last bit is back at the generator"),
];

/// The stage boundaries ([`STAGES`]) of one packet, from its due time to its return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketStamps {
    /// Sequence number of the packet.
    pub sequence: u64,
    /// Stage i lasts from time i to time i + 1.
    pub times: [Ps; STAGES.len() + 1],
    /// Receive and transmit queue in the NIC.
    pub queues: [u8; 2],
    /// Hart that sent it, if known.
    pub hart: Option<u8>,
}

/// A frame that returned unchanged to its generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// Sequence number of the frame.
    pub sequence: u64,
    /// When the frame was due.
    pub intended: Ps,
    /// When its first bit left.
    pub actual: Ps,
    /// When its last bit returned.
    pub returned: Ps,
    /// Whether its latency counts in the measurement window.
    pub measured: bool,
}

/// Observer of round trips; does nothing by default.
pub trait RoundTripObserver {
    /// A frame returned.
    fn frame_returned(&mut self, _trip: RoundTrip) {}
}

/// Number of frames whose stamps are kept, by sequence number. More are in flight only if most are dropped.
const SLOTS: usize = 1 << 16;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Sequence number plus one; zero for an empty slot.
    mark: u64,
    rx: RxStamps,
    tx: TxStamps,
}

doorbell_sim::stats! {
    /// Number of round trips of a window that are split into stages.
    pub struct StageStats {
        /// Returned frames of the window whose stages are known.
        known,
        /// Returned frames of the window that did not pass a NIC in both directions with their signature.
        unknown,
    }
}

/// Stages of the frames of one receive queue and one sending hart: sums and maxima.
#[derive(Clone, Copy, Debug, Default)]
struct QueueStageSums {
    frames: u64,
    sums: [u128; STAGES.len()],
    longest: [Ps; STAGES.len()],
}

/// Records the stages of one generator's frames.
#[derive(Clone, Debug, Default)]
pub struct StageRecorder {
    off: bool,
    /// Whether a measurement window has window_begun; earlier frames are not recorded.
    window_begun: bool,
    slots: Vec<Slot>,
    /// Durations greater than zero; zero durations, which are frequent, are only counted in `instant`.
    stages: [Latency; STAGES.len()],
    instant: [u64; STAGES.len()],
    /// By receive queue and sending hart.
    ways: BTreeMap<(u8, Option<u8>), QueueStageSums>,
    stats: StageStats,
    keep: usize,
    kept: Vec<PacketStamps>,
}

impl StageRecorder {
    /// Creates a recorder that is on or off.
    pub fn new(on: bool) -> StageRecorder {
        StageRecorder { off: !on, ..StageRecorder::default() }
    }

    /// The frame ID, if the frame belongs to one of these recorders' generators and the recorder is on.
    pub fn recognise(recorders: &[StageRecorder], frame: &[u8]) -> Option<FrameId> {
        let Signature { stream, sequence } = Signature::read(frame)?;
        let recorder = recorders.get(stream as usize)?;
        (!recorder.off && recorder.window_begun).then_some(FrameId { stream, sequence })
    }

    /// Begins a measurement window and discards earlier records.
    pub fn begin_window(&mut self) {
        self.window_begun = true;
        (self.stages, self.instant) = Default::default();
        self.ways.clear();
        self.stats = StageStats::default();
        self.kept.clear();
    }

    /// Keeps the stamps of the first `packets` returned packets of each window, for a timeline.
    pub fn keep_packets(&mut self, packets: usize) {
        self.keep = packets;
    }

    /// Takes the kept packets, in the order of their return.
    pub fn take_packets(&mut self) -> Vec<PacketStamps> {
        std::mem::take(&mut self.kept)
    }

    /// Records that a NIC received a frame, now visible to software.
    pub fn received(&mut self, sequence: u64, rx: RxStamps) {
        if self.slots.is_empty() {
            self.slots = vec![Slot::default(); SLOTS];
        }
        self.slots[sequence as usize % SLOTS] =
            Slot { mark: sequence.wrapping_add(1), rx, tx: TxStamps::default() };
    }

    /// Records that a NIC sent a frame.
    pub fn sent(&mut self, sequence: u64, tx: TxStamps) {
        if let Some(slot) = self.slots.get_mut(sequence as usize % SLOTS)
            && slot.mark == sequence.wrapping_add(1)
        {
            slot.tx = tx;
        }
    }

    /// Records that a frame returned to its generator.
    pub fn returned(&mut self, trip: RoundTrip) {
        if self.off || !trip.measured {
            return;
        }
        let Some(packet) = self.join(trip) else {
            self.stats.unknown += 1;
            return;
        };
        self.stats.known += 1;
        let way = self.ways.entry((packet.queues[0], packet.hart)).or_default();
        way.frames += 1;
        for (stage, bounds) in packet.times.windows(2).enumerate() {
            let length = bounds[1] - bounds[0];
            way.sums[stage] += u128::from(length.0);
            way.longest[stage] = way.longest[stage].max(length);
            match length {
                Ps::ZERO => self.instant[stage] += 1,
                length => self.stages[stage].record(length),
            }
        }
        if self.kept.len() < self.keep {
            self.kept.push(packet);
        }
    }

    /// Joins the receive and transmit stamps; none if a stamp is missing or belongs to another frame.
    fn join(&self, trip: RoundTrip) -> Option<PacketStamps> {
        let slot = self.slots.get(trip.sequence as usize % SLOTS)?;
        let (rx, tx) = (slot.rx, slot.tx);
        let times = [
            trip.intended,
            trip.actual,
            rx.arrived,
            rx.dma_started,
            rx.in_memory,
            rx.visible,
            tx.doorbell,
            tx.fetched,
            tx.dma_started,
            tx.read,
            tx.first_bit,
            trip.returned,
        ];
        let whole = slot.mark == trip.sequence.wrapping_add(1) && times.is_sorted();
        let queues = [rx.queue, tx.queue];
        whole.then_some(PacketStamps { sequence: trip.sequence, times, queues, hart: tx.hart })
    }

    /// The distribution of each stage, in the order of [`STAGES`].
    pub fn stages(&self) -> [Latency; STAGES.len()] {
        let mut stages = self.stages.clone();
        for (stage, instant) in stages.iter_mut().zip(self.instant) {
            stage.record_many(Ps::ZERO, instant);
        }
        stages
    }

    /// Stages by receive queue of port `port` and sending hart; empty if there is only one of each.
    pub fn by_queue(&self, port: u32) -> Vec<QueueStages> {
        let stage = |way: &QueueStageSums, at: usize| QueueStage {
            name: STAGES[at].name.to_owned(),
            mean: way.sums[at] as f64 / way.frames as f64 / 1e3,
            max: way.longest[at].0 as f64 / 1e3,
        };
        let of = |(&(queue, hart), way): (&(u8, Option<u8>), &QueueStageSums)| QueueStages {
            port,
            queue: queue.into(),
            hart: hart.map(u32::from),
            frames: way.frames,
            stages_ns: (0..STAGES.len()).map(|at| stage(way, at)).collect(),
        };
        if self.ways.len() > 1 { self.ways.iter().map(of).collect() } else { Vec::new() }
    }

    /// Number of frames of the window with and without stages.
    pub fn stats(&self) -> &StageStats {
        &self.stats
    }

    /// Adds another generator's window.
    pub fn merge(&mut self, other: &StageRecorder) {
        self.stages.iter_mut().zip(&other.stages).for_each(|(stage, more)| stage.merge(more));
        self.instant.iter_mut().zip(other.instant).for_each(|(instant, more)| *instant += more);
        self.stats.known += other.stats.known;
        self.stats.unknown += other.stats.unknown;
    }

    /// The results for a report; `None` if no frame has stages.
    pub fn summary(&self) -> Option<StageSummaries> {
        let figures = |(place, (stage, latency)): (u32, (&Stage, &Latency))| {
            let all = latency.summary()?;
            let (mean, p50, p99, max) = (all.mean, all.p50, all.p99, all.max);
            Some((stage.name.to_owned(), StageSummary { place, mean, p50, p99, max }))
        };
        let stages = self.stages();
        let all = (1..).zip(STAGES.iter().zip(&stages)).map(figures);
        all.collect::<Option<Vec<_>>>().map(StageSummaries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rx(at: u64) -> RxStamps {
        let [arrived, dma_started, in_memory, visible] = [0, 1, 3, 6].map(|step| Ps(at + step));
        RxStamps { arrived, dma_started, in_memory, visible, queue: 3 }
    }

    fn tx(at: u64) -> TxStamps {
        let [doorbell, fetched, dma_started, read, first_bit] = [0, 5, 11, 18, 26].map(|step| Ps(at + step));
        TxStamps { doorbell, fetched, dma_started, read, first_bit, queue: 2, hart: Some(1) }
    }

    fn trip(sequence: u64, sent: u64, returned: u64) -> RoundTrip {
        let (intended, actual, returned) = (Ps(sent), Ps(sent + 2), Ps(returned));
        RoundTrip { sequence, intended, actual, returned, measured: true }
    }

    #[test]
    fn stages_are_stamp_differences_and_sum_to_the_round_trip() {
        let mut recorder = StageRecorder::new(true);
        recorder.keep_packets(1);
        recorder.received(7, rx(1000));
        recorder.sent(7, tx(2000));
        recorder.returned(trip(7, 500, 3000));
        let lengths: Vec<u64> = recorder.stages().iter().map(|stage| stage.extremes().unwrap().0.0).collect();
        assert_eq!(lengths, [2, 498, 1, 2, 3, 994, 5, 6, 7, 8, 974]);
        assert_eq!(lengths.iter().sum::<u64>(), 3000 - 500);
        let [packet] = recorder.take_packets()[..] else { panic!("one packet is kept") };
        assert_eq!((packet.sequence, packet.times[0], packet.times[11]), (7, Ps(500), Ps(3000)));
        assert_eq!(recorder.take_packets(), []);
        assert_eq!(*recorder.stats(), StageStats { known: 1, unknown: 0 });
    }

    #[test]
    fn frame_with_missing_or_foreign_stamps_is_unknown() {
        let mut recorder = StageRecorder::new(true);
        recorder.returned(trip(1, 0, 9000));
        recorder.received(2, rx(100));
        recorder.returned(trip(2, 0, 9000));
        recorder.received(3, rx(100));
        recorder.received(3 + SLOTS as u64, rx(200));
        recorder.sent(3, tx(300));
        recorder.returned(trip(3, 0, 9000));
        // A doorbell from before the frame's arrival.
        recorder.received(4, rx(100));
        recorder.sent(4, tx(50));
        recorder.returned(trip(4, 0, 9000));
        assert_eq!((recorder.stats().known, recorder.stats().unknown, recorder.summary()), (0, 4, None));
        recorder.returned(RoundTrip { measured: false, ..trip(5, 0, 9000) });
        assert_eq!(recorder.stats().unknown, 4, "frames outside the window are not counted");
        recorder.begin_window();
        assert_eq!(*recorder.stats(), StageStats::default());
    }

    #[test]
    fn stages_are_split_by_queue_and_hart_if_there_are_several() {
        let mut recorder = StageRecorder::new(true);
        recorder.begin_window();
        let mut forward = |sequence: u64, queue: u8, hart: u8, core: u64| {
            recorder.received(sequence, RxStamps { queue, ..rx(1000) });
            recorder.sent(sequence, TxStamps { hart: Some(hart), ..tx(1006 + core) });
            recorder.returned(trip(sequence, 0, 900_000));
            recorder.by_queue(5)
        };
        assert_eq!(forward(1, 0, 1, 1000), []);
        forward(2, 0, 1, 3000);
        let two = forward(3, 9, 4, 70_000);
        let of = |at: usize| (two[at].port, two[at].queue, two[at].hart, two[at].frames);
        assert_eq!((two.len(), of(0), of(1)), (2, (5, 0, Some(1), 2), (5, 9, Some(4), 1)));
        let core = |at: usize| two[at].stages_ns.iter().find(|stage| stage.name == "core").unwrap().clone();
        assert_eq!([core(0).mean, core(0).max, core(1).mean], [2.0, 3.0, 70.0]);
        recorder.begin_window();
        assert!(recorder.ways.is_empty());
    }

    #[test]
    fn disabled_recorder_recognises_no_frame() {
        let mut frame = vec![0; 60];
        frame[42..58].copy_from_slice(&Signature { stream: 1, sequence: 9 }.to_bytes());
        let mut recorders = [true, true].map(StageRecorder::new);
        assert_eq!(StageRecorder::recognise(&recorders, &frame), None, "no window has window_begun");
        recorders.iter_mut().for_each(StageRecorder::begin_window);
        assert_eq!(StageRecorder::recognise(&recorders, &frame), Some(FrameId { stream: 1, sequence: 9 }));
        assert_eq!(
            StageRecorder::recognise(&recorders[..1], &frame),
            None,
            "a generator that does not exist"
        );
        assert_eq!(StageRecorder::recognise(&recorders, &frame[..57]), None);
        recorders[1] = StageRecorder::new(false);
        recorders[1].begin_window();
        assert_eq!(StageRecorder::recognise(&recorders, &frame), None);
    }

    #[test]
    fn summary_is_a_map_in_path_order() {
        let mut recorders = [StageRecorder::new(true), StageRecorder::new(true)];
        for (recorder, sequence) in recorders.iter_mut().zip(1..) {
            recorder.received(sequence, rx(1000 * sequence));
            recorder.sent(sequence, tx(3000 * sequence));
            recorder.returned(trip(sequence, 0, 9000 * sequence));
        }
        let [mut all, other] = recorders;
        all.merge(&other);
        let summary = all.summary().unwrap();
        let sum: f64 = summary.0.iter().map(|(_, stage)| stage.mean).sum();
        assert!((sum - 13.5).abs() < 1e-9, "{sum}");
        let json = serde_json::to_string(&summary).unwrap();
        let at = |name: &str| json.find(name).unwrap();
        assert!(
            at("send lag") < at("wire in") && at("wire in") < at("RX FIFO") && at("TX FIFO") < at("wire out")
        );
    }
}
