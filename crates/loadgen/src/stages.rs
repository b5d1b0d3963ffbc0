//! A round trip split by where it was spent. The NICs tell when a frame passed their stations, the generator when it was
//! due, when it left and when it was back; both halves of a frame's way find each other by the number in its signature, as
//! the guest copies it. An observer: nothing simulated depends on it and no checkpoint keeps it, so frames that were on
//! their way when a machine was saved have no stages afterwards.
//!
//! What comes back without having passed a NIC twice under its own signature (answers to requests, say) has no stages.

use std::collections::BTreeMap;

use doorbell_results::{QueueStage, QueueStages};
pub use doorbell_results::{StageSummaries, StageSummary};
use doorbell_sim::{FrameId, Ps, RxStamps, TxStamps};

use crate::frame::Signature;
use crate::latency::Latency;

/// A part of a frame's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Its name in results.
    pub name: &'static str,
    /// From when to when it lasts.
    pub meaning: &'static str,
}

const fn stage(name: &'static str, meaning: &'static str) -> Stage {
    Stage { name, meaning }
}

/// The stages in the order in which a frame passes them: each begins where the one before ends, so that they sum exactly
/// to its round trip.
pub const STAGES: [Stage; 11] = [
    stage("send lag", "from the time a frame is due until its first bit leaves the generator"),
    stage("wire in", "until its last bit is at the NIC"),
    stage("RX FIFO", "until the NIC's engine begins to write it to memory"),
    stage("RX DMA", "until its last byte is in memory"),
    stage("RX write-back", "until software can see its descriptor"),
    stage(
        "core",
        "until the doorbell that covers it is at the NIC: waiting to be polled, the program, the store's way",
    ),
    stage("TX fetch", "until its transmit descriptor is on the chip"),
    stage("TX wait", "until the NIC's engine begins to read it"),
    stage("TX DMA", "until its last byte is at the NIC"),
    stage("TX FIFO", "until its first bit leaves the NIC"),
    stage("wire out", "until its last bit is back at the generator"),
];

/// When one packet passed what: the bounds of [`STAGES`], from the time it was due to the time it was back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketStamps {
    /// Which packet.
    pub sequence: u64,
    /// Each stage lasts from its index to the next one.
    pub times: [Ps; STAGES.len() + 1],
    /// The queues by which it came into the NIC and went out.
    pub queues: [u8; 2],
    /// The hart that had it sent, where that is known.
    pub hart: Option<u8>,
}

/// A frame is back at its generator, unharmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// Its number.
    pub sequence: u64,
    /// When it was due, when its first bit left, and when its last bit was back.
    pub intended: Ps,
    /// See `intended`.
    pub actual: Ps,
    /// See `intended`.
    pub returned: Ps,
    /// Whether its latency belongs to the measurement window.
    pub measured: bool,
}

/// Who wants to know of round trips; nobody, by default.
pub trait RoundTripObserver {
    /// A frame is back.
    fn frame_returned(&mut self, _trip: RoundTrip) {}
}

/// Frames of which stamps are kept: those received last by number. More are on their way only if most are dropped.
const SLOTS: usize = 1 << 16;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// One more than the frame's number; zero if there is none.
    mark: u64,
    rx: RxStamps,
    tx: TxStamps,
}

doorbell_sim::stats! {
    /// How many round trips of a window are split.
    pub struct StageStats {
        /// Frames of the window that came back and of which it is known where they spent their time.
        known,
        /// Frames of the window that came back without having passed a NIC twice under their signature.
        unknown,
    }
}

/// The stages of the frames that came by one queue and were sent by one hart: their sums, and the longest.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    frames: u64,
    sums: [u128; STAGES.len()],
    longest: [Ps; STAGES.len()],
}

/// The stages of one generator's frames.
#[derive(Clone, Debug, Default)]
pub struct StageBook {
    off: bool,
    /// Whether a measurement window has begun: no frame of before has stages, and none is looked at.
    begun: bool,
    slots: Vec<Slot>,
    /// Those that took some time, and how many took none: many do, and counting is cheaper.
    stages: [Latency; STAGES.len()],
    instant: [u64; STAGES.len()],
    /// By receive queue and the hart that had them sent.
    ways: BTreeMap<(u8, Option<u8>), Way>,
    stats: StageStats,
    keep: usize,
    kept: Vec<PacketStamps>,
}

impl StageBook {
    /// A book that is kept, or none.
    pub fn new(on: bool) -> StageBook {
        StageBook { off: !on, ..StageBook::default() }
    }

    /// Which frame of the generators that have these books it is.
    pub fn recognise(books: &[StageBook], frame: &[u8]) -> Option<FrameId> {
        let Signature { stream, sequence } = Signature::read(frame)?;
        let book = books.get(stream as usize)?;
        (!book.off && book.begun).then_some(FrameId { stream, sequence })
    }

    /// A measurement window begins: its frames only are counted and kept from now on.
    pub fn begin_window(&mut self) {
        self.begun = true;
        (self.stages, self.instant) = Default::default();
        self.ways.clear();
        self.stats = StageStats::default();
        self.kept.clear();
    }

    /// Keeps the stamps of the first `packets` packets of each window that come back, for a timeline.
    pub fn keep_packets(&mut self, packets: usize) {
        self.keep = packets;
    }

    /// The packets kept, in the order in which they came back; they are kept no longer.
    pub fn take_packets(&mut self) -> Vec<PacketStamps> {
        std::mem::take(&mut self.kept)
    }

    /// A frame was received by a NIC and is visible to software.
    pub fn received(&mut self, sequence: u64, rx: RxStamps) {
        if self.slots.is_empty() {
            self.slots = vec![Slot::default(); SLOTS];
        }
        self.slots[sequence as usize % SLOTS] =
            Slot { mark: sequence.wrapping_add(1), rx, tx: TxStamps::default() };
    }

    /// A frame was handed to a wire by a NIC.
    pub fn sent(&mut self, sequence: u64, tx: TxStamps) {
        if let Some(slot) = self.slots.get_mut(sequence as usize % SLOTS)
            && slot.mark == sequence.wrapping_add(1)
        {
            slot.tx = tx;
        }
    }

    /// A frame is back at its generator.
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

    /// Both halves of a frame's way, unless a stamp is missing or belongs to another frame.
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

    /// The stages of the frames by each receive queue of the port of this number, and each hart that had them sent; nothing if
    /// there is one of both.
    pub fn by_queue(&self, port: u32) -> Vec<QueueStages> {
        let stage = |way: &Way, at: usize| QueueStage {
            name: STAGES[at].name.to_owned(),
            mean: way.sums[at] as f64 / way.frames as f64 / 1e3,
            max: way.longest[at].0 as f64 / 1e3,
        };
        let of = |(&(queue, hart), way): (&(u8, Option<u8>), &Way)| QueueStages {
            port,
            queue: queue.into(),
            hart: hart.map(u32::from),
            frames: way.frames,
            stages_ns: (0..STAGES.len()).map(|at| stage(way, at)).collect(),
        };
        if self.ways.len() > 1 { self.ways.iter().map(of).collect() } else { Vec::new() }
    }

    /// How many frames of the window have stages.
    pub fn stats(&self) -> &StageStats {
        &self.stats
    }

    /// Adds another generator's window.
    pub fn merge(&mut self, other: &StageBook) {
        self.stages.iter_mut().zip(&other.stages).for_each(|(stage, more)| stage.merge(more));
        self.instant.iter_mut().zip(other.instant).for_each(|(instant, more)| *instant += more);
        self.stats.known += other.stats.known;
        self.stats.unknown += other.stats.unknown;
    }

    /// The figures for a report; `None` if no frame's stages are known.
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
    fn the_stages_of_a_frame_are_the_differences_of_its_stamps_and_sum_to_its_round_trip() {
        let mut book = StageBook::new(true);
        book.keep_packets(1);
        book.received(7, rx(1000));
        book.sent(7, tx(2000));
        book.returned(trip(7, 500, 3000));
        let lengths: Vec<u64> = book.stages().iter().map(|stage| stage.extremes().unwrap().0.0).collect();
        assert_eq!(lengths, [2, 498, 1, 2, 3, 994, 5, 6, 7, 8, 974]);
        assert_eq!(lengths.iter().sum::<u64>(), 3000 - 500);
        let [packet] = book.take_packets()[..] else { panic!("one packet is kept") };
        assert_eq!((packet.sequence, packet.times[0], packet.times[11]), (7, Ps(500), Ps(3000)));
        assert_eq!(book.take_packets(), []);
        assert_eq!(*book.stats(), StageStats { known: 1, unknown: 0 });
    }

    #[test]
    fn a_frame_without_all_stamps_or_with_those_of_another_is_unknown() {
        let mut book = StageBook::new(true);
        book.returned(trip(1, 0, 9000));
        book.received(2, rx(100));
        book.returned(trip(2, 0, 9000));
        book.received(3, rx(100));
        book.received(3 + SLOTS as u64, rx(200));
        book.sent(3, tx(300));
        book.returned(trip(3, 0, 9000));
        // A doorbell of before the frame was there.
        book.received(4, rx(100));
        book.sent(4, tx(50));
        book.returned(trip(4, 0, 9000));
        assert_eq!((book.stats().known, book.stats().unknown, book.summary()), (0, 4, None));
        book.returned(RoundTrip { measured: false, ..trip(5, 0, 9000) });
        assert_eq!(book.stats().unknown, 4, "what is not measured is not counted");
        book.begin_window();
        assert_eq!(*book.stats(), StageStats::default());
    }

    #[test]
    fn frames_of_two_queues_and_cores_are_told_apart_and_one_queue_is_none_of_several() {
        let mut book = StageBook::new(true);
        book.begin_window();
        let mut forward = |sequence: u64, queue: u8, hart: u8, core: u64| {
            book.received(sequence, RxStamps { queue, ..rx(1000) });
            book.sent(sequence, TxStamps { hart: Some(hart), ..tx(1006 + core) });
            book.returned(trip(sequence, 0, 900_000));
            book.by_queue(5)
        };
        assert_eq!(forward(1, 0, 1, 1000), []);
        forward(2, 0, 1, 3000);
        let two = forward(3, 9, 4, 70_000);
        let of = |at: usize| (two[at].port, two[at].queue, two[at].hart, two[at].frames);
        assert_eq!((two.len(), of(0), of(1)), (2, (5, 0, Some(1), 2), (5, 9, Some(4), 1)));
        let core = |at: usize| two[at].stages_ns.iter().find(|stage| stage.name == "core").unwrap().clone();
        assert_eq!([core(0).mean, core(0).max, core(1).mean], [2.0, 3.0, 70.0]);
        book.begin_window();
        assert!(book.ways.is_empty());
    }

    #[test]
    fn a_book_that_is_not_kept_recognises_nothing() {
        let mut frame = vec![0; 60];
        frame[42..58].copy_from_slice(&Signature { stream: 1, sequence: 9 }.to_bytes());
        let mut books = [true, true].map(StageBook::new);
        assert_eq!(StageBook::recognise(&books, &frame), None, "no window has begun");
        books.iter_mut().for_each(StageBook::begin_window);
        assert_eq!(StageBook::recognise(&books, &frame), Some(FrameId { stream: 1, sequence: 9 }));
        assert_eq!(StageBook::recognise(&books[..1], &frame), None, "a generator that is not there");
        assert_eq!(StageBook::recognise(&books, &frame[..57]), None);
        books[1] = StageBook::new(false);
        books[1].begin_window();
        assert_eq!(StageBook::recognise(&books, &frame), None);
    }

    #[test]
    fn summaries_are_a_map_in_the_order_of_the_way() {
        let mut books = [StageBook::new(true), StageBook::new(true)];
        for (book, sequence) in books.iter_mut().zip(1..) {
            book.received(sequence, rx(1000 * sequence));
            book.sent(sequence, tx(3000 * sequence));
            book.returned(trip(sequence, 0, 9000 * sequence));
        }
        let [mut all, other] = books;
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
