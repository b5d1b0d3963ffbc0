//! Traces at another rate than recorded: which descriptors, answers and latencies belong to which frame.

use std::path::Path;

use doorbell_sim::Ps;
use doorbell_sim::stats::Stats;
use doorbell_trace::system::EventKind;

use super::observe_tests::merged;
use super::tests::*;
use super::*;
use crate::timed::WatchRequest;

/// A trace of a driver that posts two descriptors per frame, the first one without data.
fn with_contexts(path: &Path, frames: u64) -> TraceInput {
    let mut maker = Maker::new(path);
    maker.ring(RDT, RING - 1);
    for number in 0..frames {
        (0..3).for_each(|_| maker.poll(number));
        handle(&mut maker, number);
        let slot = 2 * number % RING;
        maker.ring(TDT, (slot + 2) % RING);
        maker.dma(TX_FETCH, TRANSMIT + 16 * slot, 32, 0, 0);
        maker.dma(TX_DATA, BUFFERS + 2048 * (number % RING), 60, number, 0);
        maker.event(maker.done, 0, EventKind::FrameOut { bytes: 64 });
    }
    maker.finish(path)
}

/// Receives, polls and processes a frame.
fn handle(maker: &mut Maker, number: u64) {
    maker.receive(number, 0);
    maker.poll(number);
    maker.take(number);
}

#[test]
fn data_reads_wait_for_their_own_fetch_despite_context_descriptors() {
    let folder = folder();
    let trace = with_contexts(&folder.path().join("a"), 60);
    let player = played(&config(&[]), &Plan::of(trace.clone()).at_pace(rate("100kpps")));
    let latency = player.latency().expect("requests and answers pair");
    let (least, most) = latency.extremes().unwrap();
    assert_eq!(latency.count(), 60);
    // The answer waits for the fetch of its own descriptors, not for the next frame, 10 us later.
    assert!(least > Ps::from_ns(500) && most < Ps::from_us(5), "{least} to {most}");
}

#[test]
fn answers_from_other_buffers_pair_only_if_the_hart_slept() {
    let folder = folder();
    let elsewhere = BUFFERS + 0x10_0000;
    let asleep = sleeping(&folder.path().join("a"), 20, elsewhere);
    let player = played(&config(&[]), &Plan::of(asleep).at_pace(rate("10kpps")));
    let (least, most) = player.latency().expect("the hart slept").extremes().unwrap();
    assert!(least > Ps::from_us(2) && most < Ps::from_us(8), "{least} to {most}");
    let mut maker = Maker::new(&folder.path().join("b"));
    maker.sends_from = elsewhere;
    maker.poll_for(100, 3, 1, true);
    let polling = maker.finish(&folder.path().join("b"));
    let player = played(&config(&[]), &Plan::of(polling).at_pace(rate("100kpps")));
    assert!(player.latency().is_none());
    let why = player.survey(0).latency_problem().expect("latency is unknown");
    assert!(why.contains("from other buffers"), "{why}");
    assert_eq!((player.survey(0).pairing_problem(), player.played().devices.frames_out), (None, 100));
}

#[test]
fn answer_of_a_never_empty_pipeline_waits_for_no_later_frame() {
    let folder = folder();
    let path = folder.path().join("a");
    let mut maker = Maker::new(&path);
    maker.ring(RDT, RING - 1);
    let ring = |number: u64, at: u64| at + 2048 * (number % RING);
    for number in 0..100u64 {
        handle(&mut maker, number);
        maker.ring(TDT, (number + 1) % RING);
        maker.dma(TX_FETCH, TRANSMIT + 16 * (number % RING), 16, 0, 0);
        // The data read was recorded after the next frame's instructions.
        if let Some(before) = number.checked_sub(1) {
            maker.dma(TX_DATA, ring(before, BUFFERS), 60, before, 0);
        }
        if number > 1 {
            maker.event(maker.done, 0, EventKind::FrameOut { bytes: 64 });
        }
    }
    let trace = maker.finish(&path);
    let player = played(&config(&[]), &Plan::of(trace).at_pace(rate("10kpps")));
    let (least, most) = player.latency().expect("paired by address").extremes().unwrap();
    assert!(least > Ps::from_ns(500) && most < Ps::from_us(8), "{least} to {most}");
}

/// Stores arrive at the device two frames after the instructions that made them, the last ones after the end
/// of the trace. `has_origins`: whether the trace records these instructions.
fn with_late_stores(path: &Path, has_origins: bool) -> TraceInput {
    let mut maker = Maker::new(path);
    maker.ring(RDT, RING - 1);
    (maker.stores_lag, maker.with_origins) = (4, has_origins);
    for number in 0..60u64 {
        (0..3).for_each(|_| maker.poll(number));
        handle(&mut maker, number);
        maker.ring(TDT, (number + 1) % RING);
        let Some(before) = number.checked_sub(2) else { continue };
        maker.dma(TX_FETCH, TRANSMIT + 16 * (before % RING), 16, 0, 0);
        maker.dma(TX_DATA, BUFFERS + 2048 * (before % RING), 60, before, 0);
        maker.event(maker.done, 0, EventKind::FrameOut { bytes: 64 });
    }
    maker.finish(path)
}

#[test]
fn doorbell_follows_its_own_instruction_not_later_ones() {
    let folder = folder();
    let trace = with_late_stores(&folder.path().join("a"), true);
    let extremes = |pace| {
        let player = played(&config(&[]), &Plan::of(trace.clone()).at_pace(pace));
        let latency = player.latency().expect("requests and answers pair");
        assert_eq!((latency.count(), player.played().devices.frames_in), (58, 60));
        latency.extremes().unwrap()
    };
    // A request that waits for the previous answer is not held up by answers missing from the trace.
    for pace in [rate("10kpps"), Pace::Closed { window: 1 }] {
        let (least, most) = extremes(pace);
        assert!(least > Ps::from_ns(500) && most < Ps::from_us(5), "{least} to {most}");
    }
    // An older trace records only when the store arrived.
    let older = with_late_stores(&folder.path().join("b"), false);
    let player = played(&config(&[]), &Plan::of(older).at_pace(rate("10kpps")));
    let (least, _) = player.latency().expect("requests and answers pair").extremes().unwrap();
    assert!(least > Ps::from_us(150), "{least}");
}

#[test]
fn several_rings_are_rejected_at_a_rate_and_have_separate_batches() {
    let folder = folder();
    let path = folder.path().join("a");
    let mut maker = Maker::new(&path);
    maker.ring(RDT, RING - 1);
    for number in 0..40 {
        handle(&mut maker, number);
        maker.ring(TDT + 0x100 * (number % 2), number / 2 % RING);
        maker.dma(TX_DATA, BUFFERS + 2048 * (number % RING), 60, number, 0);
        maker.event(maker.done, 0, EventKind::FrameOut { bytes: 64 });
    }
    let trace = maker.finish(&path);
    let message = refused(&config(&[]), &Plan::of(trace.clone()).at_pace(rate("1Mpps")));
    assert!(message.contains("device 0 has several rings per direction"), "{message}");
    let player = played(&config(&[]), &Plan::of(trace));
    assert_eq!((player.survey(0).batches.mean(), player.survey(0).batches.largest()), (Some(1.0), 1));
}

#[test]
fn throughput_is_independent_of_the_offered_rate_above_saturation() {
    let folder = folder();
    let trace = polling(&folder.path().join("a"), 400, 20, 1, true);
    let half = |pace: &str| {
        let mut player = Player::new(&config(&[]), &Plan::of(trace.clone()).at_pace(rate(pace))).unwrap();
        player.set_mode(Mode::Warming);
        player.run(trace.instructions() / 2).unwrap();
        player.set_mode(Mode::Detailed);
        let before = player.played();
        assert!(!player.run(u64::MAX).unwrap());
        let after = player.played();
        let devices = after.devices.since(&before.devices);
        // Fewer frames are between the program and the wire than fit in a ring.
        assert!(devices.frames_taken.abs_diff(devices.frames_out) <= RING, "{devices:?}");
        assert!(devices.frames_dropped > 100, "{devices:?}");
        devices.frames_out as f64 / (after.now - before.now).as_secs_f64() / 1e6
    };
    let (some, more) = (half("60Mpps"), half("120Mpps"));
    assert!((some / more - 1.0).abs() < 0.05, "{some} {more}");
}

#[test]
fn profile_has_all_cycles_of_a_hart_that_ended_early() {
    let folder = folder();
    let plan = Plan::of(merged(folder.path(), [200, 16]));
    let config = config(&["platform.harts=2", "platform.nics=2"]);
    let mut player = Player::new(&config, &plan).unwrap();
    player.watch(&WatchRequest { profile: true, ..WatchRequest::default() }, &config);
    assert!(!player.run(u64::MAX).unwrap());
    let profile = player.end_watch().and_then(|watched| watched.profile).expect("observed");
    let idle = |hart: usize| player.core_stats(hart).books.cpi_idle;
    assert_eq!([0, 1].map(|hart| profile.harts[hart].idle), [0, 1].map(idle));
    let [long, short] = [0, 1].map(|hart| profile.harts[hart].watched);
    assert!(short.abs_diff(long) < long / 100 && profile.harts[1].idle > long / 2, "{long} {short}");
}
