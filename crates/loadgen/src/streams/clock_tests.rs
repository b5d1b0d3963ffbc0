use super::*;
use crate::rate::Rate;
use crate::testdist::{ks_critical, ks_distance};
use doorbell_wire::LinkConfig;
use proptest::prelude::*;

use crate::streams::Decimal;

fn pacing(rate: &str) -> Pacing {
    Pacing::new(Ps::ZERO, rate.parse::<Rate>().unwrap(), 60, &LinkConfig::default())
}

fn clock(rate: &str, arrivals: Arrivals) -> Clock {
    let profile = RateProfile { begin: pacing(rate), ramp: None, stamps: None };
    let mut clock =
        Clock::new(profile, arrivals, 0x0123_4567_89ab_cdef, None, None, LinkConfig::default().rate.0);
    clock.begin(Ps::ZERO);
    clock
}

fn dues(mut clock: Clock, frames: usize) -> Vec<Ps> {
    std::iter::repeat_with(|| {
        let due = clock.state.due;
        clock.advance(84);
        due
    })
    .take(frames)
    .collect()
}

#[test]
fn constant_arrivals_are_exact() {
    for rate in ["3Mpps", "100%", "7.3Gbps", "33.333333%"] {
        let expected = pacing(rate);
        for (n, due) in dues(clock(rate, Arrivals::Constant), 100_000).into_iter().enumerate() {
            assert_eq!(due, expected.nth(n as u64), "{rate}");
        }
    }
}

#[test]
fn poisson_arrivals_are_a_poisson_process() {
    let times = dues(clock("2Mpps", Arrivals::Poisson), 100_000);
    let mut gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]).0 as f64 / 500_000.0).collect();
    let distance = ks_distance(&mut gaps, &|x: f64| 1.0 - (-x).exp());
    assert!(distance < ks_critical(99_999), "{distance}");
    // Equal counts in all windows, with the variance of a Poisson process: 100 windows of 400 µs.
    let in_window = |window: u64| {
        let from = Ps::from_us(400 * window);
        times.iter().filter(|due| **due >= from && **due < from + Ps::from_us(400)).count() as f64
    };
    let counts: Vec<f64> = (0..100).map(in_window).collect();
    let variance = counts.iter().map(|count| (count - 800.0).powi(2)).sum::<f64>() / 100.0;
    assert!((450.0..1250.0).contains(&variance), "variance {variance}, mean 800");
}

#[test]
fn every_process_keeps_its_rate_in_the_long_run() {
    let (on, off) = (Ps::from_us(10), Ps::from_us(30));
    for (arrivals, deviation) in [
        (Arrivals::Poisson, 1.0),
        (Arrivals::Uniform { spread: Decimal::ONE }, 0.6),
        (Arrivals::Lognormal { sigma: Decimal(500_000) }, 0.6),
        (Arrivals::Pareto { shape: Decimal(3_000_000) }, 0.6),
        (Arrivals::OnOff { on, off, lengths: Spacing::Constant, gaps: Spacing::Poisson }, 1.0),
        // Cycles of 40 frames; the standard deviation of their lengths equals the mean.
        (Arrivals::OnOff { on, off, lengths: Spacing::Poisson, gaps: Spacing::Constant }, 12.0),
        (Arrivals::Bursts { frames: 32, gap: None, spacing: Spacing::Constant }, 0.1),
        (Arrivals::Bursts { frames: 32, gap: Some(Ps(7_000)), spacing: Spacing::Poisson }, 6.0),
    ] {
        let frames = 200_000;
        let last = dues(clock("1Mpps", arrivals), frames + 1)[frames].0 as f64 / 1e6;
        let off = (last - frames as f64) / (frames as f64).sqrt();
        assert!(off.abs() < 4.0 * deviation, "{arrivals:?}: {last} for {frames}");
    }
}

#[test]
fn constant_off_periods_are_exact() {
    // A quarter of the time at four times the rate: 4 Mpps for 10 µs, then nothing for 30 µs.
    let arrivals = Arrivals::OnOff {
        on: Ps::from_us(10),
        off: Ps::from_us(30),
        lengths: Spacing::Constant,
        gaps: Spacing::Constant,
    };
    for (n, due) in dues(clock("1Mpps", arrivals), 1_000).into_iter().enumerate() {
        assert_eq!(due, Ps((n as u64 / 40) * 40_000_000 + n as u64 % 40 * 250_000));
    }
}

#[test]
fn random_off_periods_have_their_distribution() {
    let (on, off) = (Ps::from_us(50), Ps::from_us(100));
    let arrivals = Arrivals::OnOff { on, off, lengths: Spacing::Poisson, gaps: Spacing::Constant };
    let times = dues(clock("10Mpps", arrivals), 3_000_000);
    // Frames are 33.3 ns apart in an on-period, so a longer gap is an off-period plus less than that.
    let gaps = times.windows(2).map(|pair| (pair[1] - pair[0]).0 as f64 / 1e6);
    let mut silences: Vec<f64> = gaps.filter(|gap| *gap > 1.0).map(|gap| gap - 1.0).collect();
    let count = silences.len() as u64;
    assert!(count > 1_500, "{count}");
    let distance = ks_distance(&mut silences, &|x: f64| 1.0 - (-x / 100.0).exp());
    assert!(distance < ks_critical(count) + 0.001, "{distance} of {count}");
}

#[test]
fn many_off_periods_between_two_frames_are_cheap_and_keep_the_rate() {
    let tiny = Ps(1_000);
    let arrivals =
        Arrivals::OnOff { on: tiny, off: tiny, lengths: Spacing::Poisson, gaps: Spacing::Constant };
    let last = dues(clock("1pps", arrivals), 101)[100];
    assert!((last.as_secs_f64() - 100.0).abs() < 0.01, "{last}");
}

#[test]
fn bursts_start_on_time_and_continue_at_line_rate_or_the_set_gap() {
    let bursts = |gap| Arrivals::Bursts { frames: 3, gap, spacing: Spacing::Constant };
    let at_line_rate = dues(clock("1Mpps", bursts(None)), 6);
    assert_eq!(at_line_rate, [0, 6_720, 13_440, 3_000_000, 3_006_720, 3_013_440].map(Ps));
    let apart = dues(clock("1Mpps", bursts(Some(Ps::from_ns(50)))), 4);
    assert_eq!(apart, [0, 50_000, 100_000, 3_000_000].map(Ps));
    // A burst longer than the burst interval: no frame is due before its predecessor.
    let long = dues(clock("1Mpps", bursts(Some(Ps::from_us(2)))), 5);
    assert_eq!(long, [0, 2, 4, 4, 5].map(Ps::from_us));
}

#[test]
fn ramp_matches_the_integral_of_the_rate_and_ends_exactly() {
    let ramp = |from: &str, to: &str| {
        let profile = RateProfile {
            begin: pacing(from),
            ramp: Some(RampProfile { over: Ps::from_ms(1), after: pacing(to) }),
            stamps: None,
        };
        let mut clock = Clock::new(profile, Arrivals::Constant, 1, None, None, 1);
        clock.begin(Ps::ZERO);
        clock
    };
    for (from, to, a, b) in
        [("1Mpps", "3Mpps", 1e6, 3e6), ("3Mpps", "1Mpps", 3e6, 1e6), ("2Mpps", "2Mpps", 2e6, 2e6)]
    {
        // 2000 frames in the millisecond, then frames at the second rate.
        let times = dues(ramp(from, to), 4_001);
        for (n, due) in times.iter().enumerate().take(2_000) {
            let t = due.as_secs_f64();
            let area = a * t + (b - a) * t * t / 2e-3;
            assert!((area - n as f64).abs() < 1e-4, "{n}: {area}");
        }
        for (n, due) in times.iter().enumerate().skip(2_000) {
            let expected = 1e-3 + (n - 2_000) as f64 / b;
            assert!((due.as_secs_f64() - expected).abs() < 2e-12, "{n}: {due}");
        }
    }
}

#[test]
fn stream_ends_after_its_frames_or_duration() {
    let profile = RateProfile { begin: pacing("1Mpps"), ramp: None, stamps: None };
    for (frames, duration, sent) in
        [(Some(5), None, 5), (None, Some(Ps::from_us(7)), 7), (Some(9), Some(Ps::from_us(3)), 3)]
    {
        let mut clock = Clock::new(profile.clone(), Arrivals::Constant, 1, frames, duration, 1);
        clock.begin(Ps::from_us(10));
        let times = dues(clock, 20);
        assert_eq!(times.iter().filter(|due| **due != Ps::MAX).count(), sent);
        assert_eq!(times[sent - 1], Ps::from_us(10 + sent as u64 - 1));
    }
}

fn any_spacing() -> impl Strategy<Value = Spacing> {
    prop_oneof![
        Just(Spacing::Constant),
        Just(Spacing::Poisson),
        (0u64..=1_000_000).prop_map(|spread| Spacing::Uniform { spread: Decimal(spread) }),
        (1u64..=5_000_000).prop_map(|sigma| Spacing::Lognormal { sigma: Decimal(sigma) }),
        (1_050_000u64..=9_000_000).prop_map(|shape| Spacing::Pareto { shape: Decimal(shape) }),
    ]
}

fn any_arrivals() -> impl Strategy<Value = Arrivals> {
    prop_oneof![
        Just(Arrivals::Poisson),
        (1u64..1 << 40, 0u64..1 << 40, any_spacing(), any_spacing())
            .prop_map(|(on, off, lengths, gaps)| Arrivals::OnOff { on: Ps(on), off: Ps(off), lengths, gaps }),
        (2u32..100, prop::option::of(0u64..1 << 60), any_spacing())
            .prop_map(|(frames, gap, spacing)| Arrivals::Bursts { frames, gap: gap.map(Ps), spacing }),
    ]
}

proptest! {
    #[test]
    fn due_times_are_monotonic_and_a_saved_clock_continues(
        arrivals in any_arrivals(),
        rate in prop_oneof![Just("1pps"), Just("1Mpps"), Just("100%"), Just("1Gpps"), Just("0.000001%")],
        to in prop_oneof![Just(None), Just(Some("1pps")), Just(Some("3Mpps"))],
        save_at in 0usize..50,
    ) {
        let ramp = to.map(|to| RampProfile { over: Ps::from_us(300), after: pacing(to) });
        let profile = RateProfile { begin: pacing(rate), ramp, stamps: None };
        let new = || Clock::new(profile.clone(), arrivals, 7, None, None, 100_000_000_000);
        let mut clock = new();
        clock.begin(Ps::from_ns(5));
        let mut before = Ps::ZERO;
        for n in 0..100 {
            if n == save_at {
                let bytes = postcard::to_stdvec(&clock.state).unwrap();
                clock = Clock { state: postcard::from_bytes(&bytes).unwrap(), ..new() };
            }
            prop_assert!(clock.state.due >= before);
            before = clock.state.due;
            clock.advance(1538);
        }
        let mut straight = new();
        straight.begin(Ps::from_ns(5));
        (0..100).for_each(|_| straight.advance(1538));
        prop_assert_eq!(straight.state, clock.state);
    }

    #[test]
    fn manipulated_clock_state_does_not_panic(
        bytes in prop::collection::vec(any::<u8>(), 40..100), arrivals in any_arrivals(),
    ) {
        let Ok(state) = postcard::from_bytes::<ClockState>(&bytes) else { return Ok(()) };
        let mut clock = clock("1Mpps", arrivals);
        clock.state = ClockState { index: state.index >> 8, ..state };
        (0..10).for_each(|_| clock.advance(84));
    }
}
