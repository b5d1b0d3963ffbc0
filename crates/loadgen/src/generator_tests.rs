use super::*;
use crate::config::Returned;
use crate::frame::Mismatch;
use crate::testbench::{Bench, echo, swap};
use crate::volume::Throughput;
use crate::{Arrival, Arrivals};
use doorbell_sim::Bytes;
use doorbell_sim::stats::Stats as _;
use proptest::prelude::*;

fn link(rate: &str, latency: &str) -> LinkConfig {
    LinkConfig { rate: rate.parse().unwrap(), latency: latency.parse().unwrap(), ..LinkConfig::default() }
}

fn traffic(rate: &str, frames: u64) -> TrafficConfig {
    let (rate, frames) = (rate.parse().unwrap(), Some(frames));
    TrafficConfig { rate, frames, arrivals: Arrivals::Constant, ..TrafficConfig::default() }
}

fn starts(bench: &Bench) -> Vec<Ps> {
    bench.tap.as_ref().unwrap().iter().map(|(at, _)| *at).collect()
}

fn tapped(link: LinkConfig, traffic: TrafficConfig) -> Bench {
    let mut bench = Bench::new(link, traffic, swap);
    bench.tap = Some(Vec::new());
    bench.start();
    bench.run();
    bench.generator.assert_conservation();
    bench
}

#[test]
fn frames_leave_at_their_due_times() {
    let bench = tapped(
        link("10Gbps", "1us"),
        TrafficConfig { start_after: Ps::from_us(7), ..traffic("3Mpps", 30_001) },
    );
    // 1/3 µs apart, each rounded down to a picosecond.
    for (n, at) in starts(&bench).into_iter().enumerate() {
        assert_eq!(at, Ps(7_000_000 + n as u64 * 1_000_000 / 3));
    }
    assert_eq!((bench.generator.stats().returned, bench.generator.stats().reordered), (30_001, 0));
    assert_eq!(bench.generator.run.stage, Stage::Over { since: Ps(7_000_000 + 10_000_000_000 + 67_200) });
}

#[test]
fn line_rate_is_exact() {
    for (rate, bits_per_second) in [("10Gbps", 10_000_000_000u128), ("7.3Gbps", 7_300_000_000)] {
        let bench = tapped(link(rate, "0ps"), traffic("100%", 100_000));
        for (n, at) in starts(&bench).into_iter().enumerate() {
            let exact = (n as u128 * 84 * 8 * 1_000_000_000_000).div_ceil(bits_per_second);
            assert_eq!(u128::from(at.0), exact, "frame {n} at {rate}");
        }
        let busy = (100_000 * 672_000_000_000_000u128).div_ceil(bits_per_second);
        assert_eq!(u128::from(bench.there.stats().busy_ps), busy);
    }
}

#[test]
fn above_line_rate_frames_queue_and_latency_counts_from_due_time() {
    // Due every 33.6 ns, sent every 67.2 ns: frame n leaves n × 33.6 ns late.
    let mut bench = Bench::new(link("10Gbps", "1us"), traffic("200%", 1_001), swap);
    bench.generator.begin_window(Ps::ZERO);
    bench.start();
    bench.run();
    let summary = bench.generator.summary(bench.queue.now()).unwrap();
    let (from_due, from_sent) = (summary.latency_ns.unwrap(), summary.latency_from_actual_ns.unwrap());
    // Each direction takes 72 bytes of 0.8 ns, then a microsecond.
    let round_trip = 2.0 * (57.6 + 1_000.0);
    assert_eq!((from_sent.min, from_sent.max, from_sent.stddev), (round_trip, round_trip, 0.0));
    assert_eq!((from_due.min, from_due.max), (round_trip, round_trip + 33_600.0));
    assert!((from_due.mean - (round_trip + 16_800.0)).abs() < 1e-6);
    assert!((from_due.p50 / (round_trip + 16_800.0) - 1.0).abs() < 1e-3);
    assert_eq!(summary.send_lag_ns_max, 33_600.0);
}

#[test]
fn round_trip_is_two_serialisations_and_two_link_latencies() {
    for (size, bytes) in [(64u64, 72.0), (1518, 1526.0)] {
        let traffic = TrafficConfig { frame_size: Bytes(size), ..traffic("1Mpps", 100) };
        let mut bench = Bench::new(link("100Gbps", "200us"), traffic, swap);
        bench.generator.begin_window(Ps::ZERO);
        bench.start();
        bench.run();
        let latency = bench.generator.summary(Ps::ZERO).unwrap().latency_ns.unwrap();
        let expected = 2.0 * (bytes * 0.08 + 200_000.0);
        assert_eq!((latency.min, latency.p50, latency.max), (expected, expected, expected));
    }
}

#[test]
fn duration_or_frames_ends_a_run() {
    let lasting =
        |rate, us, frames| TrafficConfig { duration: Some(Ps::from_us(us)), frames, ..traffic(rate, 1) };
    for (traffic, sent) in [
        (lasting("1Mpps", 10, None), 10),
        (lasting("1Mpps", 10, Some(4)), 4),
        (lasting("1Mpps", 10, Some(40)), 10),
        // 14.88 of these fit into a microsecond, whatever rate is configured.
        (lasting("1000%", 1, None), 15),
    ] {
        let bench = tapped(link("10Gbps", "1us"), traffic);
        assert_eq!(bench.generator.stats().sent, sent);
        assert!(!bench.generator.is_sending());
    }
}

#[test]
fn unlimited_traffic_continues_until_stopped() {
    let mut bench =
        Bench::new(link("10Gbps", "1us"), TrafficConfig { frames: None, ..traffic("1Mpps", 1) }, swap);
    bench.start();
    bench.run_until(Ps::from_us(100));
    assert_eq!(bench.generator.stats().sent, 101);
    bench.generator.stop(bench.queue.now());
    bench.run();
    assert_eq!((bench.generator.stats().sent, bench.generator.stats().returned), (101, 101));
}

#[test]
fn frame_lost_after_the_nic_counts_in_the_window_of_its_departure() {
    let mut bench = Bench::new(link("100Gbps", "10us"), traffic("1Mpps", 30), |_, _| Vec::new());
    bench.tap = Some(Vec::new());
    bench.start();
    bench.run_until(Ps(9_500_000));
    bench.generator.begin_window(Ps(9_500_000));
    bench.run_until(Ps(19_500_000));
    bench.generator.end_window(Ps(19_500_000));
    bench.run();
    let frames = bench.tap.take().unwrap();
    // A guest may send each of them twice.
    for (_, frame) in frames.iter().chain(&frames) {
        assert_eq!(bench.generator.frame_lost_after_nic(frame), None, "not another generator's frame");
    }
    assert_eq!(bench.generator.frame_lost_after_nic(&Frame::new(vec![0; 60])), None, "no generator's frame");
    let window = bench.generator.measurement().unwrap();
    assert_eq!((window.volumes().0.frames, window.lost_after_nic()), (10, 10));
    // A third copy of one of them arrives after all.
    let (_, copy) = swap(0, frames[10].1.clone()).remove(0);
    assert_eq!(bench.arrive(Ps::from_us(60), &copy), Arrival::Returned);
    let window = bench.generator.measurement().unwrap();
    assert_eq!((window.volumes().1.frames, window.lost_after_nic()), (1, 9));
}

/// Drops every tenth frame.
fn lossy(n: u64, frame: Frame) -> Vec<(Ps, Frame)> {
    if n % 10 == 9 { Vec::new() } else { swap(n, frame) }
}

#[test]
fn window_counts_loss_of_its_own_frames_only() {
    // A round trip of 20 µs: twenty frames are in flight at any time.
    let swap_expected = TrafficConfig { returned: Returned::MacSwap, ..traffic("1Mpps", 3_000) };
    let mut bench = Bench::new(link("100Gbps", "10us"), swap_expected, lossy);
    bench.start();
    bench.run_until(Ps(1_000_500_000));
    bench.generator.begin_window(Ps(1_000_500_000));
    bench.run_until(Ps(2_000_500_000));
    bench.generator.end_window(Ps(2_000_500_000));
    let early = bench.generator.summary(Ps(2_000_500_000)).unwrap();
    assert_eq!((early.frames_offered, early.frames_outstanding), (1_000, 100 + 18), "lost or in flight");
    assert_eq!(early.frames_arrived, 900, "as many arrived from before as were in flight at the end");
    bench.run();
    let summary = bench.generator.summary(bench.queue.now()).unwrap();
    assert_eq!((summary.frames_delivered, summary.frames_lost, summary.drop_rate), (900, 100, 0.1));
    assert_eq!(summary.frames_outstanding, 100, "a lost frame may still return");
    assert_eq!((summary.seconds, summary.frames_arrived), (1e-3, 900));
    assert_eq!(summary.offered, Throughput { mpps: 1.0, gbps_l2: 0.512, gbps_l1: 0.672 });
    assert_eq!(summary.arrived, Throughput { mpps: 0.9, gbps_l2: 0.4608, gbps_l1: 0.6048 });
    assert_eq!(summary.delivered, summary.arrived);
    assert_eq!(summary.latency_ns.unwrap().frames, 900);
    assert_eq!(bench.generator.stats().returned, 2_700);
    bench.generator.assert_conservation();
}

#[test]
fn summary_serialises_to_json_with_null_for_missing_latency() {
    let mut bench = Bench::new(link("10Gbps", "1us"), traffic("1Mpps", 10), |_, _| Vec::new());
    bench.generator.begin_window(Ps::ZERO);
    bench.start();
    bench.run();
    let json = serde_json::to_value(bench.generator.summary(Ps::from_us(10)).unwrap()).unwrap();
    assert_eq!((&json["frames_offered"], &json["frames_lost"]), (&10.into(), &10.into()));
    assert_eq!((&json["drop_rate"], &json["offered"]["mpps"]), (&1.0.into(), &1.0.into()));
    assert!(json["latency_ns"].is_null());
}

/// A bench whose generator has sent three frames, and the frames.
fn three_sent(returned: Returned) -> (Bench, Vec<Frame>) {
    let bench = tapped(link("10Gbps", "1us"), traffic("1Mpps", 1));
    let mut bench = Bench { tap: Some(Vec::new()), machine: |_, _| Vec::new(), ..bench };
    bench.generator.set_traffic(TrafficConfig { returned, ..traffic("1Mpps", 3) }).unwrap();
    bench.start();
    bench.run();
    let frames = bench.tap.take().unwrap().into_iter().map(|(_, frame)| frame).collect();
    (bench, frames)
}

#[test]
fn each_class_of_arrival_is_recognised() {
    let (mut bench, frames) = three_sent(Returned::AsSent);
    let now = bench.queue.now() + Ps::from_us(1);
    let mut arrive = |frame: &Frame| bench.arrive(now, frame);
    assert_eq!(arrive(&frames[1]), Arrival::Returned);
    assert_eq!(arrive(&frames[1]), Arrival::Duplicate);
    assert_eq!(arrive(&frames[0]), Arrival::Returned, "and reordered");
    assert_eq!(arrive(&Frame { fcs_bad: true, ..frames[2].clone() }), Arrival::BadFcs);
    let changed = |at: usize| {
        let mut frame = frames[2].clone();
        frame.bytes[at] ^= 0x80;
        frame
    };
    assert_eq!(arrive(&changed(42)), Arrival::Foreign, "the magic number");
    assert_eq!(arrive(&changed(49)), Arrival::OtherGenerator(0x80), "the stream");
    assert_eq!(arrive(&changed(50)), Arrival::NeverSent, "the sequence number");
    assert_eq!(arrive(&changed(57)), Arrival::NeverSent, "the sequence number");
    assert_eq!(arrive(&changed(59)), Arrival::Corrupt(Mismatch::Payload));
    assert_eq!(arrive(&frames[2]), Arrival::Duplicate);
    assert_eq!(arrive(&Frame::new(vec![0; 60])), Arrival::Foreign);
    assert_eq!(arrive(&Frame::new(Vec::new())), Arrival::Foreign);
    let stats = bench.generator.stats().clone();
    assert_eq!((stats.reordered, stats.corrupt_payload, stats.received), (1, 1, 1 + 12));
    bench.generator.assert_conservation();

    let (mut bench, frames) = three_sent(Returned::MacSwap);
    assert_eq!(bench.arrive(now, &frames[0]), Arrival::Corrupt(Mismatch::Addresses));
    let mut longer = frames[1].clone();
    longer.bytes.push(0);
    assert_eq!(bench.arrive(now, &longer), Arrival::Corrupt(Mismatch::Length));
    let mut headers = swap(0, frames[2].clone()).remove(0).1;
    headers.bytes[22] -= 1;
    assert_eq!(bench.arrive(now, &headers), Arrival::Corrupt(Mismatch::Headers));
    bench.generator.assert_conservation();
}

#[test]
fn frame_of_an_earlier_run_is_stale_and_was_given_up() {
    let (mut bench, frames) = three_sent(Returned::Any);
    assert_eq!(bench.generator.outstanding(), 3);
    bench.generator.set_traffic(traffic("2Mpps", 2)).unwrap();
    bench.generator.begin_window(bench.queue.now());
    bench.start();
    bench.run();
    bench.generator.end_window(bench.queue.now());
    let counts = |bench: &Bench| {
        let summary = bench.generator.summary(Ps::ZERO).unwrap();
        (summary.frames_offered, summary.frames_lost, summary.frames_outstanding)
    };
    assert_eq!(counts(&bench), (2, 2, 2));
    bench.generator.set_traffic(traffic("2Mpps", 5)).unwrap();
    assert_eq!(counts(&bench), (2, 2, 0), "the window's frames are given up as well");
    assert_eq!((bench.generator.outstanding(), bench.generator.stats().abandoned), (0, 3 + 2));
    let now = bench.queue.now() + Ps::from_us(1);
    assert_eq!(bench.arrive(now, &frames[0]), Arrival::Stale);
    bench.generator.assert_conservation();
}

#[test]
fn frame_no_longer_tracked_is_late_and_was_given_up() {
    let config =
        LoadGenConfig { tracked_frames: 1_024, traffic: traffic("1Mpps", 1_100), ..LoadGenConfig::default() };
    let mut bench = Bench::with_config(link("10Gbps", "1us"), config, |_, _| Vec::new());
    bench.tap = Some(Vec::new());
    bench.generator.begin_window(Ps::ZERO);
    bench.start();
    bench.run();
    let now = bench.queue.now();
    let frames = bench.tap.take().unwrap();
    assert_eq!(bench.arrive(now, &frames[75].1), Arrival::Late);
    assert_eq!(bench.arrive(now, &frames[76].1), Arrival::Returned);
    let summary = bench.generator.summary(now).unwrap();
    assert_eq!((summary.frames_lost, summary.frames_outstanding, summary.frames_late), (1_099, 1_023, 1));
    bench.generator.assert_conservation();
}

#[test]
fn one_ready_state_serves_several_rates() {
    let ready = Bench::new(link("10Gbps", "10us"), traffic("1Mpps", 1), swap);
    let table: Vec<(f64, f64)> = ["10%", "50%", "100%", "150%"]
        .into_iter()
        .map(|rate| {
            let mut bench = ready.clone();
            let open = TrafficConfig { frames: None, ..traffic(rate, 1) };
            bench.generator.set_traffic(open).unwrap();
            bench.start();
            bench.run_until(Ps::from_us(100));
            bench.generator.begin_window(bench.queue.now());
            bench.run_until(Ps::from_us(1_100));
            bench.generator.end_window(Ps::from_us(1_100));
            let summary = bench.generator.summary(Ps::from_us(1_100)).unwrap();
            (summary.offered.gbps_l1, summary.arrived.gbps_l1)
        })
        .collect();
    for ((offered, arrived), expected) in table.into_iter().zip([1.0, 5.0, 10.0, 10.0]) {
        assert!(
            (offered - expected).abs() < 0.002 && (arrived - expected).abs() < 0.002,
            "{offered} {arrived}"
        );
    }
}

#[test]
fn wake_ups_of_an_earlier_run_are_ignored() {
    let mut bench =
        Bench::new(link("10Gbps", "1us"), TrafficConfig { frames: None, ..traffic("1Mpps", 1) }, swap);
    bench.start();
    bench.run_until(Ps::from_us(10));
    // The wake-up for the old run's next frame is still in the queue.
    bench.generator.set_traffic(traffic("1Mpps", 5)).unwrap();
    bench.run();
    assert_eq!(bench.generator.stats().sent, 11, "set, but not started");
    bench.start();
    bench.run();
    assert_eq!(bench.generator.stats().sent, 11 + 5);
    // Restarted in the middle of a run: the first run's wake-up at 1 µs must not send the second run's frame
    // early.
    let mut bench = Bench::new(link("10Gbps", "1us"), traffic("1Mpps", 5), swap);
    bench.tap = Some(Vec::new());
    bench.start();
    bench.run_until(Ps(400_000));
    bench.generator.set_traffic(TrafficConfig { start_after: Ps(700_000), ..traffic("1Mpps", 2) }).unwrap();
    bench.start();
    bench.run();
    assert_eq!(starts(&bench), [0, 700_000, 1_700_000].map(Ps));
    bench.generator.assert_conservation();
}

#[test]
fn generator_waits_for_a_busy_link() {
    let mut bench = Bench::new(link("1Gbps", "0ps"), traffic("1Mpps", 3), swap);
    bench.tap = Some(Vec::new());
    // 1538 bytes at 1 Gbps: 12.304 µs.
    bench.there.send(Ps::ZERO, 1_514);
    bench.start();
    bench.run();
    assert_eq!(starts(&bench), [12_304_000, 12_976_000, 13_648_000].map(Ps));
}

#[test]
fn invalid_traffic_is_refused_and_the_old_traffic_kept() {
    let mut bench = Bench::new(link("1Gbps", "0ps"), traffic("1Mpps", 3), swap);
    let wrong = TrafficConfig { frame_size: Bytes(20_000), ..traffic("1Mpps", 3) };
    assert!(bench.generator.set_traffic(wrong).is_err());
    assert_eq!(bench.generator.traffic(), &traffic("1Mpps", 3));
}

#[test]
fn windows_of_several_generators_are_merged() {
    let windows = [("1Mpps", 64), ("500kpps", 1518)].map(|(rate, size)| {
        let config = TrafficConfig { frame_size: Bytes(size), ..traffic(rate, 1_000) };
        let mut bench = Bench::new(link("10Gbps", "1us"), config, lossy);
        bench.generator.begin_window(Ps::ZERO);
        bench.start();
        bench.run();
        bench.generator.end_window(Ps::from_ms(2));
        bench.generator.measurement().unwrap().clone()
    });
    let [mut sum, other] = windows;
    sum.merge(&other);
    let summary = sum.summary(Ps::ZERO);
    assert_eq!((summary.frames_offered, summary.frames_lost, summary.drop_rate), (2_000, 200, 0.1));
    assert!((summary.offered.gbps_l2 - (64.0 + 1518.0) * 8.0 * 1e3 / 2e-3 / 1e9).abs() < 1e-9);
    assert_eq!(summary.latency_ns.unwrap().frames, 1_800);
}

#[test]
fn saved_state_encoding_changes_only_with_its_version() {
    let mut bench = Bench::new(link("10Gbps", "1us"), traffic("3Mpps", 3), lossy);
    bench.generator.begin_window(Ps::ZERO);
    bench.start();
    bench.run_until(Ps(2_500_000));
    let bytes = postcard::to_stdvec(&bench.generator.save()).unwrap();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let golden = "00000005334d707073400000010300525400123456020000000001c6120101c6120001d08603d186\
                  03030080c8afa025e807104000000001010000d3c9b2f1e3c7c5e3ba01010003808080808060c084\
                  3d0000000002000003aae52c0000808010000303000002aad8280000010103020200000000000000\
                  00000000000000000000000000000000010000000003c001fc01028001a801028001a80100000000\
                  00000000000080804001030201ff8f810102809a82028080d2b6b68402808d8101808d810101ff8f\
                  810102809a82028080d2b6b68402808d8101808d81010100010000000001808d810100";
    assert_eq!((crate::LoadGenState::VERSION, hex.as_str()), (10, golden));
}

#[test]
fn state_of_another_generator_is_refused_without_effect() {
    let config = LoadGenConfig::default();
    let mut other = LoadGen::new(1, 1, &config, &LinkConfig::default()).unwrap();
    let before = other.save();
    let state = LoadGen::new(0, 1, &config, &LinkConfig::default()).unwrap().save();
    assert!(other.restore(state).unwrap_err().to_string().contains("generator 0"));
    assert_eq!(other.save(), before);
    // Traffic that was not started has no frames in flight.
    let mut sending = Bench::new(link("10Gbps", "10us"), traffic("1Mpps", 9), |_, _| Vec::new());
    sending.start();
    sending.run();
    let mut state = sending.generator.save();
    state.stage = Stage::Idle;
    let mut other = LoadGen::new(0, 1, &config, &LinkConfig::default()).unwrap();
    assert!(other.restore(state).unwrap_err().to_string().contains("not started"));
}

/// Returns, drops, delays, duplicates or corrupts a frame by a hash of its number.
fn faulty(n: u64, mut frame: Frame) -> Vec<(Ps, Frame)> {
    let dice = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let delay = Ps(dice % 977 * 10_000);
    match dice % 11 {
        0 => Vec::new(),
        1 => vec![(Ps::ZERO, frame.clone()), (delay, frame)],
        2 => {
            let at = (dice % 61) as usize;
            if let Some(byte) = frame.bytes.get_mut(at) {
                *byte ^= 1 + (dice % 255) as u8;
            } else {
                frame.bytes.push(0);
            }
            vec![(delay, frame)]
        }
        3 => vec![(Ps::ZERO, Frame::new(vec![dice as u8; 60])), (Ps::ZERO, frame)],
        4 => vec![(delay, frame)],
        5 => vec![(Ps::from_ms(2), frame)],
        _ => echo(n, frame),
    }
}

fn faulty_bench(frames: u64, percent: u64) -> Bench {
    let link = LinkConfig { frame_loss: 0.05, bit_error_rate: 1e-4, ..link("10Gbps", "3us") };
    let traffic = TrafficConfig { returned: Returned::AsSent, ..traffic(&format!("{percent}%"), frames) };
    Bench::with_config(
        link,
        LoadGenConfig { tracked_frames: 1_024, traffic, ..LoadGenConfig::default() },
        faulty,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_frame_is_accounted_for_once_under_random_faults(
        frames in 1u64..5_000, percent in 1u64..300, begin in 0u64..400, length in 0u64..400, again: bool,
    ) {
        let mut bench = faulty_bench(frames, percent);
        bench.start();
        bench.run_until(Ps::from_us(begin));
        bench.generator.begin_window(Ps::from_us(begin));
        let at_begin = bench.generator.stats().clone();
        bench.run_until(Ps::from_us(begin + length));
        bench.generator.end_window(Ps::from_us(begin + length));
        let window = bench.generator.stats().since(&at_begin);
        if again {
            bench.start();
        }
        bench.run();
        bench.generator.assert_conservation();
        let summary = bench.generator.summary(Ps::ZERO).unwrap();
        prop_assert_eq!((window.sent, window.returned), (summary.frames_offered, summary.frames_arrived));
        prop_assert_eq!((window.duplicates, window.foreign), (summary.frames_duplicate, summary.frames_foreign));
        prop_assert_eq!(window.reordered, summary.frames_reordered);
        prop_assert!(summary.frames_outstanding <= summary.frames_lost);
        prop_assert_eq!(summary.latency_ns.map_or(0, |l| l.frames), summary.frames_delivered);
        let total = bench.generator.stats();
        let runs = if again { 2 } else { 1 };
        prop_assert!((frames..=runs * frames).contains(&total.sent), "the last run is sent to its end");
        let kinds = [total.corrupt_length, total.corrupt_addresses, total.corrupt_headers, total.corrupt_payload];
        prop_assert_eq!(total.corrupt, kinds.iter().sum::<u64>());
        prop_assert_eq!(bench.there.stats().frames, total.sent);
        prop_assert_eq!(bench.back.stats().frames - bench.back.stats().lost, total.received);
    }

    #[test]
    fn restored_generator_continues_as_the_original(
        frames in 1u64..3_000, percent in 1u64..300, steps in 0usize..12_000, window in 0usize..6_000,
    ) {
        let mut bench = faulty_bench(frames, percent);
        bench.start();
        for step in 0..steps {
            if step == window {
                bench.generator.begin_window(bench.queue.now());
            }
            bench.step(Ps::MAX);
        }
        let bytes = postcard::to_stdvec(&bench.generator.save()).unwrap();
        // The other generator is created with different traffic, another seed and a larger ring.
        let other = LoadGenConfig { tracked_frames: 4_096, traffic: traffic("1kpps", 7), ..LoadGenConfig::default() };
        let mut copy = bench.clone();
        copy.generator = LoadGen::new(0, 99, &other, bench.there.config()).unwrap();
        copy.generator.restore(postcard::from_bytes(&bytes).unwrap()).unwrap();
        prop_assert_eq!(copy.generator.save(), bench.generator.save());
        for bench in [&mut bench, &mut copy] {
            bench.run();
            let now = bench.queue.now();
            bench.generator.end_window(now);
        }
        prop_assert_eq!(copy.generator.save(), bench.generator.save());
        prop_assert_eq!(copy.generator.summary(Ps::ZERO), bench.generator.summary(Ps::ZERO));
        prop_assert_eq!(copy.there.save(), bench.there.save());
    }
}
