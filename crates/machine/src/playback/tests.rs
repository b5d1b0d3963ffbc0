//! Playback of synthetic traces: programs that poll a ring of eight descriptors, or sleep until an interrupt.

use std::collections::VecDeque;
use std::path::Path;

use doorbell_loadgen::Arrivals;
use doorbell_sim::ports::{DmaDirection, DmaPurpose};
use doorbell_sim::stats::Stats;
use doorbell_sim::{Op, OpClass, PhysAddr, Ps};
use doorbell_trace::system::{
    Description, DeviceEvent, Dma, EventKind, Step, StoreOrigin, TraceFile, TraceWriter,
};

use super::*;
use crate::overlay::Overlay;

pub(super) const RAM: u64 = 0x8000_0000;
const CODE: u64 = RAM + 0x1_0000;
const RECEIVE: u64 = RAM + 0x10_0000;
pub(super) const TRANSMIT: u64 = RAM + 0x20_0000;
pub(super) const BUFFERS: u64 = RAM + 0x30_0000;
pub(super) const RING: u64 = 8;
const REGISTERS: u64 = 0x4000_0000;
pub(super) const RDT: u64 = 0x2818;
pub(super) const TDT: u64 = 0x3818;

/// Kind of a DMA request.
type Kind = (DmaPurpose, DmaDirection);
pub(super) const RX_FETCH: Kind = (DmaPurpose::RxDescriptor, DmaDirection::Read);
pub(super) const RX_WRITE_BACK: Kind = (DmaPurpose::RxDescriptor, DmaDirection::Write);
pub(super) const RX_DATA: Kind = (DmaPurpose::RxData, DmaDirection::Write);
pub(super) const TX_FETCH: Kind = (DmaPurpose::TxDescriptor, DmaDirection::Read);
pub(super) const TX_WRITE_BACK: Kind = (DmaPurpose::TxDescriptor, DmaDirection::Write);
pub(super) const TX_DATA: Kind = (DmaPurpose::TxData, DmaDirection::Read);

pub(super) fn config(set: &[&str]) -> MachineConfig {
    let mut overlay = Overlay::default();
    let all = ["platform.nics=1", "platform.ram=64MiB", "core.model=timed", "link.latency=1us"];
    all.iter().chain(set).for_each(|assignment| overlay.set(assignment).unwrap());
    overlay.resolve().unwrap()
}

/// Writer of a trace with one hart.
pub(super) struct Maker {
    writer: TraceWriter,
    pub done: u64,
    /// Address of the transmit buffers, 2 KiB each.
    pub sends_from: u64,
    /// Register stores in flight, and their limit; whether the trace records their instructions.
    stores: VecDeque<EventKind>,
    pub stores_lag: usize,
    pub with_origins: bool,
    /// Device of the next events.
    pub device: u8,
}

impl Maker {
    pub fn new(path: &Path) -> Maker {
        let description = Description {
            recorder: "a test".into(),
            isa: "riscv64".into(),
            harts: 1,
            timed: true,
            physical: true,
            ..Description::default()
        };
        let writer = TraceWriter::create(path, &description).unwrap();
        let (stores, stores_lag) = (VecDeque::new(), 0);
        Maker { writer, done: 0, sends_from: BUFFERS, stores, stores_lag, with_origins: false, device: 0 }
    }

    fn step(&mut self, step: Step, ops: &[Op]) {
        self.writer.block(0, &step, ops, &mut |_| doorbell_sim::memory::Walk::default()).unwrap();
        self.done += ops.len() as u64;
    }

    pub fn block(&mut self, ops: &[Op]) {
        self.step(Step::default(), ops);
    }

    pub fn event(&mut self, after: u64, since: u64, what: EventKind) {
        let event = DeviceEvent { device: self.device, hart: 0, after, since: Ps::from_ns(since), what };
        self.writer.event(&event).unwrap();
    }

    pub fn dma(&mut self, (purpose, direction): Kind, addr: u64, len: u32, frame: u64, visible: u64) {
        let (addr, took) = (PhysAddr(addr), Ps::ZERO);
        let dma = Dma { purpose, direction, addr, len, frame, offset: 0, took, visible };
        self.event(self.done, 0, EventKind::Dma(dma));
    }

    /// Stores a tail. The store arrives at the device at once, or after `stores_lag` later ones.
    pub fn ring(&mut self, register: u64, value: u64) {
        let addr = PhysAddr(REGISTERS + register);
        let store = Op { class: OpClass::Device, phys: addr, size: 4, flags: Op::WRITES, ..int(0x900) };
        self.block(&[store]);
        let stored = self.with_origins.then_some(StoreOrigin { hart: 0, after: self.done });
        self.stores.push_back(EventKind::Register { addr, size: 4, value, stored });
        if self.stores.len() > self.stores_lag {
            let first = self.stores.pop_front().expect("not empty");
            self.event(self.done, 100, first);
        }
    }

    /// Writes frame `number` to memory, visible `later` instructions from now.
    pub fn receive(&mut self, number: u64, later: u64) {
        let slot = number % RING;
        if number.is_multiple_of(4) {
            self.dma(RX_FETCH, RECEIVE + 16 * slot, 64, 0, 0);
        }
        self.event(self.done, 0, EventKind::FrameIn { bytes: 64 });
        self.dma(RX_DATA, BUFFERS + 2048 * slot, 60, number, self.done + later);
        self.dma(RX_WRITE_BACK, RECEIVE + 16 * slot, 16, 0, self.done + later);
    }

    /// Polls frame `number`'s descriptor, in a block of four instructions.
    pub fn poll(&mut self, number: u64) {
        self.block(&[load(0, RECEIVE + 16 * (number % RING)), int(4), int(8), branch(12, CODE)]);
    }

    /// Processes frame `number` and returns its descriptor.
    pub fn take(&mut self, number: u64) {
        self.block(&[
            load(0x100, BUFFERS + 2048 * (number % RING)),
            int(0x104),
            int(0x108),
            branch(0x10c, CODE + 0x900),
        ]);
        self.ring(RDT, number % RING);
    }

    /// Receives `frames` frames in batches, each after `empty` empty polls, and answers each frame, or none.
    pub fn poll_for(&mut self, frames: u64, empty: u64, batch: u64, answers: bool) {
        // Initially the driver posts all descriptors but one.
        self.ring(RDT, RING - 1);
        for first in (0..frames).step_by(batch as usize) {
            (0..empty).for_each(|_| self.poll(first));
            (first..first + batch).for_each(|number| self.receive(number, 0));
            for number in first..first + batch {
                self.poll(number);
                self.take(number);
            }
            if answers {
                self.send(first..first + batch);
            }
        }
        self.block(&[int(0), int(4)]);
    }

    /// Ends the trace and opens it.
    pub fn finish(self, path: &Path) -> TraceInput {
        self.writer.finish().unwrap();
        TraceInput::own(TraceFile::open(path).unwrap())
    }

    /// Sends these frames with one doorbell.
    pub fn send(&mut self, frames: std::ops::Range<u64>) {
        self.ring(TDT, frames.end % RING);
        for number in frames {
            let slot = number % RING;
            self.dma(TX_FETCH, TRANSMIT + 16 * slot, 16, 0, 0);
            self.dma(TX_DATA, self.sends_from + 2048 * slot, 60, number, 0);
            self.event(self.done, 0, EventKind::FrameOut { bytes: 64 });
            self.dma(TX_WRITE_BACK, TRANSMIT + 16 * slot, 16, 0, self.done + 1);
        }
    }
}

pub(super) fn int(at: u64) -> Op {
    Op { pc: CODE + at, fetch: PhysAddr(CODE + at), length: 4, ..Op::default() }
}

fn load(at: u64, addr: u64) -> Op {
    Op { class: OpClass::Load, virt: addr, phys: PhysAddr(addr), size: 8, destination: 5, ..int(at) }
}

fn branch(at: u64, to: u64) -> Op {
    Op { class: OpClass::Jump, virt: to, flags: Op::TAKEN, ..int(at) }
}

/// A polling program, with the parameters of [`Maker::poll_for`].
pub(super) fn polling(path: &Path, frames: u64, empty: u64, batch: u64, answers: bool) -> TraceInput {
    let mut maker = Maker::new(path);
    maker.poll_for(frames, empty, batch, answers);
    maker.finish(path)
}

pub(super) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

pub(super) fn played(config: &MachineConfig, plan: &Plan) -> Player {
    let mut player = Player::new(config, plan).unwrap();
    assert!(!player.run(u64::MAX).unwrap(), "the trace has ended");
    player
}

pub(super) fn refused(config: &MachineConfig, plan: &Plan) -> String {
    let outcome = Player::new(config, plan).and_then(|mut player| player.run(u64::MAX));
    outcome.expect_err("playback fails").to_string()
}

pub(super) fn rate(text: &str) -> Pace {
    Pace::Rate { rate: text.parse().unwrap(), arrivals: Arrivals::Constant }
}

#[test]
fn recorded_playback_has_all_frames_and_bytes() {
    let folder = folder();
    let plan = Plan::of(polling(&folder.path().join("a"), 40, 3, 1, true));
    let player = played(&config(&[]), &plan);
    let counts = plan.traces[0].trace.file().unwrap().counts().clone();
    let devices = player.played().devices;
    assert_eq!((devices.frames_in, devices.frames_out), (40, 40));
    assert_eq!(
        (devices.dma_read_bytes, devices.dma_written_bytes),
        (counts.dma_read_bytes, counts.dma_written_bytes)
    );
    assert_eq!([player.played().instructions], counts.instructions[..]);
    assert!(devices.waits >= 40, "each frame is seen by the next poll: {devices:?}");
    let survey = player.survey(0);
    assert_eq!(survey.batches.counts.iter().map(|(a, b)| (*a, *b)).collect::<Vec<_>>(), [(1, 40)]);
    assert_eq!(survey.devices[&0].receive.descriptors(), Some(RING));
    assert_eq!(survey.pairing_problem(), None);
}

#[test]
fn restart_after_the_warming_pass_begins_with_warm_caches() {
    let folder = folder();
    let trace = polling(&folder.path().join("a"), 40, 3, 1, true);
    for pace in [Pace::Recorded, rate("1Mpps"), Pace::Closed { window: 2 }] {
        let mut player = Player::new(&config(&[]), &Plan::of(trace.clone()).at_pace(pace)).unwrap();
        player.begin_warming_pass().unwrap();
        assert!(player.run(trace.instructions()).unwrap(), "its last events have not run");
        player.restart().unwrap();
        let before = player.played();
        assert!(!player.run(u64::MAX).unwrap());
        let after = player.played();
        let (devices, memory) = (after.devices.since(&before.devices), after.memory.since(&before.memory));
        assert_eq!((devices.frames_in, devices.frames_out), (40, 40), "{pace:?}");
        // Lines of register stores are not cached in advance.
        assert!(memory.harts[0].l1i.misses <= 1 && memory.llc.misses <= 1, "{:?}", memory.harts[0]);
        assert_eq!(after.traces[0].rounds, 1);
        if pace != Pace::Recorded {
            // Latencies count from this run's arrivals, not from those of the warming pass.
            assert!(player.latency().unwrap().extremes().unwrap().1 < Ps::from_us(5), "{pace:?}");
        }
    }
}

#[test]
fn program_waits_for_a_slower_device() {
    let folder = folder();
    let plan = Plan::of(polling(&folder.path().join("a"), 40, 0, 1, true));
    let slow = |latency| played(&config(&[&format!("pcie.link_latency={latency}")]), &plan).played().now;
    let times = ["100ns", "1us"].map(slow);
    assert!(times[1] > times[0] + Ps::from_ns(40 * 800), "{times:?}");
}

#[test]
fn dca_policy_of_an_absent_device_is_rejected() {
    let folder = folder();
    let with = Plan::of(polling(&folder.path().join("with"), 8, 3, 1, true));
    let named = |device: u8| format!("memory.dca.devices=[{{device={device},policy={{}}}}]");
    assert!(Player::new(&config(&[&named(0)]), &with).is_ok());
    let other = refused(&config(&[&named(1)]), &with);
    assert!(other.contains("memory.dca.devices[0].device: 1; the traces have 0"), "{other}");
}

#[test]
fn neighbours_share_no_cache_line_and_restart() {
    let folder = folder();
    let (long, short) = (
        polling(&folder.path().join("long"), 200, 3, 1, true),
        polling(&folder.path().join("short"), 16, 3, 1, true),
    );
    let alone = played(&config(&[]), &Plan::of(long.clone())).played();
    let returned = refused(&config(&["memory.dca.policy.invalidate=returned"]), &Plan::of(long.clone()));
    assert!(returned.contains("a trace does not record which buffers are returned"), "{returned}");
    let changes = config(&["memory.dca.schedule=[{after=\"1us\",policy={}}]"]);
    let changes = refused(&changes, &Plan::of(long.clone()));
    assert!(
        changes.starts_with("memory.dca.schedule: ") && changes.contains("once with each policy"),
        "{changes}"
    );
    let plan = Plan::of(long).with_neighbour(short);
    let other = refused(&config(&[]), &plan);
    assert!(other.contains("platform.harts=2"), "{other}");
    let both = played(&config(&["platform.harts=2"]), &plan).played();
    assert_eq!(
        both.devices,
        PlayedStats { waits: both.devices.waits, waited_ps: both.devices.waited_ps, ..alone.devices.clone() }
    );
    assert!(both.traces[1].rounds > 5, "{:?}", both.traces[1]);
    assert_eq!(
        both.traces[1].devices.frames_in / 16,
        both.traces[1].rounds.min(both.traces[1].devices.frames_in / 16)
    );
    // Neither trace evicts the other's lines.
    let harts = &both.memory.harts;
    assert_eq!(harts[0].l1i.misses, alone.memory.harts[0].l1i.misses);
    let misses = (both.memory.llc.misses, alone.memory.llc.misses);
    assert!(misses.0 > misses.1, "the traces' code is in different lines: {misses:?}");
    let mut ending = plan.clone();
    ending.traces[1].at_end = AtEnd::Ends;
    let ended = played(&config(&["platform.harts=2"]), &ending).played();
    assert_eq!((ended.traces[1].rounds, ended.traces[1].devices.frames_in), (0, 16));
}

#[test]
fn frames_arrive_at_the_configured_rate() {
    let folder = folder();
    let plan = Plan::of(polling(&folder.path().join("a"), 100, 3, 1, true)).at_pace(rate("100kpps"));
    let player = played(&config(&[]), &plan);
    let played = player.played();
    let devices = &played.devices;
    assert_eq!((devices.frames_offered, devices.frames_dropped), (100, 0));
    assert_eq!((devices.frames_in, devices.frames_out, devices.left_out), (100, 100, 0));
    // From the first to the last arrival: 99 times 10 us, plus the last frame's delay.
    assert!((Ps::from_us(990)..Ps::from_us(995)).contains(&played.now), "{}", played.now);
    let latency = player.latency().expect("requests and answers pair");
    assert_eq!(latency.count(), 100);
    let (least, most) = latency.extremes().unwrap();
    assert!(least > Ps::from_ns(500) && most < Ps::from_us(5), "{least} to {most}");
}

#[test]
fn full_ring_drops_frames_and_empty_polls_are_skipped() {
    let folder = folder();
    let trace = polling(&folder.path().join("a"), 400, 20, 1, true);
    let slow = played(&config(&[]), &Plan::of(trace.clone())).played();
    let plan = Plan::of(trace).at_pace(rate("100Mpps"));
    let fast = played(&config(&[]), &plan).played();
    let devices = &fast.devices;
    assert_eq!((devices.frames_in, devices.frames_out), (400, 400));
    assert!(devices.frames_dropped > 100, "{devices:?}");
    assert_eq!(devices.frames_offered, devices.frames_in + devices.frames_dropped);
    // At most one of twenty empty polls stays while frames wait: about every other frame, with a ring of 8.
    assert!((150 * 19 * 4..400 * 19 * 4).contains(&devices.left_out), "{devices:?}");
    assert_eq!(fast.instructions + devices.left_out, slow.instructions);
    assert!(fast.now < slow.now);
    let again = played(&config(&[]), &plan).played();
    assert_eq!((again.now, again.devices), (fast.now, fast.devices), "deterministic");
}

#[test]
fn closed_loop_keeps_window_requests_in_flight() {
    let folder = folder();
    let trace = polling(&folder.path().join("a"), 100, 3, 1, true);
    let run = |window| {
        let player = played(&config(&[]), &Plan::of(trace.clone()).at_pace(Pace::Closed { window }));
        let latency = player.latency().unwrap();
        assert_eq!((player.played().devices.frames_dropped, latency.count()), (0, 100));
        (player.played().now, latency.extremes().unwrap().0)
    };
    let ((one, latency), (four, _)) = (run(1), run(4));
    // A round trip: the link twice, 6.72 ns per frame on the wire, and the machine's minimum latency.
    let round = Ps::from_us(2) + Ps(2 * 6_720) + latency;
    assert!((round.0 * 100..round.0 * 125).contains(&(one.0 + 1_000_000)), "{one} and {round}");
    assert!(four.0 < one.0 / 3, "{one} and {four}");
}

#[test]
fn unsuitable_traces_are_rejected_for_rates_and_closed_loops() {
    let folder = folder();
    let sink = polling(&folder.path().join("sink"), 40, 1, 1, false);
    let closed = |trace: &TraceInput, window| Plan::of(trace.clone()).at_pace(Pace::Closed { window });
    let message = refused(&config(&[]), &closed(&sink, 4));
    assert!(message.contains("40 frames were received and 0 sent"), "{message}");
    let pairs = polling(&folder.path().join("pairs"), 40, 1, 4, true);
    let message = refused(&config(&[]), &closed(&pairs, 0));
    assert!(message.contains("at least 1 request"), "{message}");
    let message = refused(&config(&[]), &closed(&pairs, 3));
    assert!(message.contains("a window of 3 deadlocks") && message.contains("at most 4 were"), "{message}");
    played(&config(&[]), &closed(&pairs, 4));

    let mut silent = Maker::new(&folder.path().join("silent"));
    silent.block(&[int(0)]);
    silent.writer.finish().unwrap();
    let silent = TraceInput::own(TraceFile::open(&folder.path().join("silent")).unwrap());
    let message = refused(&config(&[]), &Plan::of(silent.clone()).at_pace(rate("1Mpps")));
    assert!(message.contains("no device received a frame"), "{message}");
    let message = refused(&config(&[]), &Plan::of(pairs).at_pace(rate("2x")));
    assert!(message.contains("5Mpps"), "{message}");
    played(&config(&[]), &Plan::of(silent));
}

#[test]
fn event_after_the_last_instruction_is_an_error() {
    for pace in [Pace::Recorded, rate("1Mpps")] {
        let folder = folder();
        let path = folder.path().join("a");
        let mut maker = Maker::new(&path);
        maker.receive(0, 0);
        maker.poll(0);
        let addr = PhysAddr(REGISTERS + TDT);
        maker.event(1000, 0, EventKind::Register { addr, size: 4, value: 1, stored: None });
        maker.writer.finish().unwrap();
        let trace = TraceInput::own(TraceFile::open(&path).unwrap());
        let message = refused(&config(&[]), &Plan::of(trace).at_pace(pace));
        assert!(message.contains("instruction 1000 of hart 0, which has 4"), "{message}");
    }
}

/// A program that sleeps until an interrupt, 2 us after a write-back. The sleep ends 300 ns later.
pub(super) fn sleeping(path: &Path, frames: u64, sends_from: u64) -> TraceInput {
    let mut maker = Maker { sends_from, ..Maker::new(path) };
    maker.ring(RDT, RING - 1);
    for number in 0..frames {
        maker.receive(number, 0);
        maker.event(maker.done, 2000, EventKind::Interrupt { raised: true });
        maker.step(Step { slept: Ps::from_ns(2_300), ..Step::default() }, &[int(0x200), branch(0x204, CODE)]);
        maker.poll(number);
        maker.event(maker.done, 0, EventKind::Interrupt { raised: false });
        maker.take(number);
        maker.send(number..number + 1);
    }
    // A sleep that a timer ends.
    maker.step(Step { slept: Ps::from_us(70), ..Step::default() }, &[int(0)]);
    maker.finish(path)
}

#[test]
fn sleep_ends_with_its_interrupt_or_after_the_recorded_time() {
    let folder = folder();
    let trace = sleeping(&folder.path().join("a"), 20, BUFFERS);
    let recorded = played(&config(&[]), &Plan::of(trace.clone())).played();
    assert!((Ps::from_us(20 * 2 + 70)..Ps::from_us(20 * 6 + 70)).contains(&recorded.now), "{}", recorded.now);
    let fast = played(&config(&[]), &Plan::of(trace.clone()).at_pace(rate("1Mpps"))).played();
    assert!((Ps::from_us(20 + 70)..recorded.now).contains(&fast.now), "{} {}", fast.now, recorded.now);
    // The last frame arrives after 1900 us, its interrupt 2 us later; then the timer's 70 us begin.
    let slow = played(&config(&[]), &Plan::of(trace).at_pace(rate("10kpps"))).played();
    assert!((Ps::from_us(1900 + 2 + 70)..Ps::from_us(1900 + 8 + 70)).contains(&slow.now), "{}", slow.now);
    assert_eq!((fast.devices.frames_out, slow.devices.frames_out), (20, 20));
}
