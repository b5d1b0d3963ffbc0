use super::*;
use doorbell_sim::rng::Rng;
use proptest::prelude::*;

fn link(rate: &str) -> Link {
    let config = LinkConfig { rate: rate.parse().unwrap(), latency: Ps::ZERO, ..Default::default() };
    Link::new(config, Rng::stream(1, "link")).unwrap()
}

/// Sends `frames` frames back to back; returns when the link is free.
fn back_to_back(link: &mut Link, frames: u64, frame_len: usize) -> Ps {
    let mut now = Ps::ZERO;
    for _ in 0..frames {
        now = link.send(now, frame_len).free_at;
    }
    now
}

#[test]
fn a_64_byte_frame_takes_6720_ps_at_100_gbps_and_ten_times_that_at_10() {
    assert_eq!(back_to_back(&mut link("100Gbps"), 1, 60), Ps(6_720));
    assert_eq!(back_to_back(&mut link("10Gbps"), 1, 60), Ps(67_200));
    assert_eq!(back_to_back(&mut link("1Gbps"), 1, 1514), Ps(12_304_000));
}

#[test]
fn times_of_a_frame_follow_from_its_bits() {
    let config = LinkConfig {
        rate: BitsPerSec(10_000_000_000),
        latency: "200us".parse().unwrap(),
        ..LinkConfig::default()
    };
    let mut link = Link::new(config, Rng::stream(1, "link")).unwrap();
    let first = link.send(Ps(1_000), 60);
    // 0.8 ns per byte: 8 of preamble and 64 of frame, then 12 of gap.
    assert_eq!(first.start, Ps(1_000));
    assert_eq!(first.last_bit_left, Ps(1_000 + 57_600));
    assert_eq!(first.free_at, Ps(1_000 + 67_200));
    assert_eq!(first.arrives_at, first.last_bit_left + Ps::from_us(200));
    let second = link.send(Ps(2_000), 60);
    assert_eq!(second.start, first.free_at, "the link is busy until the gap is over");
    let third = link.send(second.free_at + Ps(1), 60);
    assert_eq!(third.start, second.free_at + Ps(1), "an idle link starts at once");
}

#[test]
fn line_rates_match_rfc_2544() {
    let expected = [
        (64, 14.881),
        (128, 8.446),
        (256, 4.529),
        (512, 2.350),
        (1024, 1.1973),
        (1280, 0.9615),
        (1518, 0.8127),
    ];
    for (rate, factor) in [("10Gbps", 1.0), ("100Gbps", 10.0)] {
        for (size, mpps) in expected {
            let mut link = link(rate);
            let took = back_to_back(&mut link, 1_000, size - 4);
            let measured = 1_000.0 / took.as_secs_f64() / 1e6;
            let digits: f64 = if size < 1000 { 1e3 } else { 1e4 };
            assert!((measured / factor * digits).round() / digits == mpps, "{size} B: {measured} Mpps");
            let (frames, second) = link.config().frames_per_second(size - 4);
            assert_eq!(frames * took.0, second * 1_000 * Ps::PER_SECOND, "{size} B: not exact");
        }
    }
}

#[test]
fn odd_rate_does_not_drift() {
    // 672 bits at 7.3 Gbps are 92054.79… ps; a rounded period would be off by 2 ms after 10^10 frames.
    let rate = 7_300_000_000u64;
    let mut link = link("7.3Gbps");
    let frames = 2_000_000u64;
    let end = back_to_back(&mut link, frames, 60);
    assert_eq!(u128::from(end.0), (u128::from(frames) * 672 * 1_000_000_000_000).div_ceil(u128::from(rate)));
    assert_eq!(link.stats().busy_ps, end.0);
}

#[test]
fn a_billion_frames_end_at_the_closed_form_time() {
    // Sums the exact frame time by doubling: 10^9 frames without sending each.
    for rate in [7_300_000_000u64, 99_999_999_977, 10_000_000_000, 1_000_003] {
        let bytes = 84u64;
        let (mut total, mut step, mut left) =
            (Exact::default(), Exact::default().after_bytes(bytes, rate), 1_000_000_000u64);
        let sum = |a: Exact, b: Exact| {
            let part = u128::from(a.part) + u128::from(b.part);
            let carry = part >= u128::from(rate);
            let part = part - if carry { u128::from(rate) } else { 0 };
            Exact { ps: a.ps + b.ps + u64::from(carry), part: part as u64 }
        };
        while left > 0 {
            if left & 1 == 1 {
                total = sum(total, step);
            }
            step = sum(step, step);
            left >>= 1;
        }
        let exact = 1_000_000_000u128 * u128::from(bytes) * 8 * 1_000_000_000_000;
        assert_eq!(u128::from(total.rounded_up().0), exact.div_ceil(u128::from(rate)), "{rate} bps");
    }
}

#[test]
fn short_frames_are_charged_as_64_bytes_and_others_with_fcs() {
    assert_eq!(back_to_back(&mut link("100Gbps"), 1, 14), Ps(6_720));
    assert_eq!(back_to_back(&mut link("100Gbps"), 1, 61), Ps(6_800));
    let mut link = link("100Gbps");
    link.send(Ps(0), 14);
    assert_eq!((link.stats().bytes_l2, link.stats().bytes_l1), (64, 84));
}

#[test]
fn link_can_charge_stored_bytes_only() {
    let config = LinkConfig {
        overhead: Bytes(0),
        include_fcs: false,
        latency: Ps::from_us(200),
        ..LinkConfig::default()
    };
    let mut link = Link::new(config, Rng::stream(1, "link")).unwrap();
    let sent = link.send(Ps::ZERO, 60);
    assert_eq!((sent.last_bit_left, sent.free_at), (Ps(4_800), Ps(4_800)));
    assert_eq!(sent.arrives_at, Ps(4_800) + Ps::from_us(200));
}

#[test]
fn fault_rates_match_the_configuration_and_are_counted() {
    let config = LinkConfig { frame_loss: 0.1, bit_error_rate: 1e-4, ..LinkConfig::default() };
    let mut link = Link::new(config, Rng::stream(3, "link")).unwrap();
    let (mut lost, mut bad, mut changed) = (0u64, 0u64, 0u64);
    for _ in 0..100_000 {
        let mut frame = Frame::new(vec![0x55; 60]);
        let sent = link.transmit(Ps::ZERO, &mut frame);
        assert!(!(sent.lost && frame.fcs_bad));
        lost += u64::from(sent.lost);
        bad += u64::from(frame.fcs_bad);
        let flipped: u32 = frame.bytes.iter().map(|b| (b ^ 0x55).count_ones()).sum();
        assert!(flipped <= u32::from(frame.fcs_bad));
        changed += u64::from(flipped);
    }
    assert_eq!((link.stats().lost, link.stats().corrupted), (lost, bad));
    assert!((9_700..10_300).contains(&lost), "{lost}");
    // 90,000 frames × (1 − (1 − 10⁻⁴)^512) = 4,491; 60 of 64 bytes are stored.
    assert!((4_250..4_750).contains(&bad), "{bad}");
    assert!((bad * 88 / 100..bad).contains(&changed), "{changed} of {bad}");
}

#[test]
fn disabled_faults_do_not_happen_until_enabled_again() {
    let mut link =
        Link::new(LinkConfig { frame_loss: 1.0, ..LinkConfig::default() }, Rng::stream(3, "link")).unwrap();
    let before = link.save().rng;
    let lost = [true, false].map(|disabled| {
        link.disable_faults(disabled);
        link.transmit(Ps::ZERO, &mut Frame::new(vec![0; 60])).lost
    });
    assert_eq!((lost, link.stats().lost), ([false, true], 1));
    assert_ne!(link.save().rng, before, "draws only while faults are enabled");
}

#[test]
fn link_without_faults_draws_no_random_numbers() {
    let mut link = link("10Gbps");
    let before = link.save().rng;
    let mut frame = Frame::new(vec![0; 60]);
    link.transmit(Ps::ZERO, &mut frame);
    assert_eq!((link.save().rng, frame), (before, Frame::new(vec![0; 60])));
}

#[test]
fn configuration_with_units_round_trips_and_unknown_keys_are_refused() {
    let config: LinkConfig = toml::from_str("rate = \"100Gbps\"\nlatency = \"200us\"").unwrap();
    assert_eq!(config, LinkConfig { latency: Ps::from_us(200), ..LinkConfig::default() });
    let again: LinkConfig = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
    assert_eq!(again, config);
    assert!(toml::from_str::<LinkConfig>("speed = \"1Gbps\"").unwrap_err().to_string().contains("speed"));
    assert!(toml::from_str::<LinkConfig>("rate = \"100\"").unwrap_err().to_string().contains("no unit"));
}

#[test]
fn errors_name_out_of_range_values() {
    let default = LinkConfig::default;
    for (config, name) in [
        (LinkConfig { rate: BitsPerSec(0), ..default() }, "rate"),
        (LinkConfig { latency: Ps::MAX, ..default() }, "latency"),
        (LinkConfig { overhead: Bytes(5000), ..default() }, "overhead"),
        (LinkConfig { frame_loss: 1.5, ..default() }, "frame_loss"),
        (LinkConfig { bit_error_rate: f64::NAN, ..default() }, "bit_error_rate"),
    ] {
        let error = Link::new(config, Rng::stream(1, "link")).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn invalid_state_is_refused() {
    let mut link = link("10Gbps");
    let state = LinkState { free: Exact { ps: 0, part: 10_000_000_000 }, ..link.save() };
    assert!(link.restore(state).unwrap_err().to_string().contains("link"));
}

#[test]
fn saved_state_encoding_changes_only_with_its_version() {
    let mut link = link("7.3Gbps");
    link.send(Ps(5), 60);
    let bytes = postcard::to_stdvec(&link.save()).unwrap();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let golden = "80d2f4981b9bcf0580f4d3cd15a583c7dbd1bbe0deaf0193a7e38592ffa9aa2da382e8cac3f3d09e\
                  5bb590d2bbbcfff1866d01405497cf050000";
    assert_eq!((LinkState::VERSION, hex.as_str()), (1, golden));
}

#[test]
fn link_restored_with_another_rate_is_busy_until_the_same_time() {
    let mut slow = link("7.3Gbps");
    slow.send(Ps::ZERO, 60);
    let mut fast = link("100Gbps");
    fast.restore(slow.save()).unwrap();
    assert_eq!(fast.free_at(), slow.free_at());
    assert_eq!(fast.send(Ps::ZERO, 60).free_at, slow.free_at() + Ps(6_720));
}

proptest! {
    #[test]
    fn frames_do_not_overlap_or_leave_early(
        rate in 1_000_000u64..400_000_000_000,
        sends in prop::collection::vec((0u64..2_000_000, 14usize..9_000), 1..60),
    ) {
        let mut link = link("1Gbps");
        link.config.rate = BitsPerSec(rate);
        let (mut now, mut free, mut busy_bits) = (Ps::ZERO, Ps::ZERO, 0u128);
        for (wait, len) in sends {
            now += Ps(wait);
            let sent = link.send(now, len);
            prop_assert_eq!(sent.start, now.max(free));
            let bits = 8 * u128::from(link.config.wire_bytes(len));
            busy_bits += bits;
            // Exact to the picosecond, at any offset in the bit grid.
            let span = u128::from((sent.free_at - sent.start).0);
            let exact = bits * 1_000_000_000_000 / u128::from(rate);
            prop_assert!((exact..=exact + 1).contains(&span), "{} for {}", span, exact);
            free = sent.free_at;
        }
        prop_assert_eq!(u128::from(link.stats.bytes_l1) * 8, busy_bits);
    }

    #[test]
    fn restored_link_continues_as_the_original(
        sends in prop::collection::vec((0u64..200_000, 60usize..1514), 2..40),
        cut in 0usize..40,
    ) {
        let config = LinkConfig { rate: BitsPerSec(7_300_000_001), frame_loss: 0.2, bit_error_rate: 1e-4, ..LinkConfig::default() };
        let mut link = Link::new(config.clone(), Rng::stream(5, "link")).unwrap();
        let mut other: Option<Link> = None;
        let mut now = Ps::ZERO;
        for (i, (wait, len)) in sends.into_iter().enumerate() {
            if i == cut {
                let bytes = postcard::to_stdvec(&link.save()).unwrap();
                let mut restored = Link::new(config.clone(), Rng::stream(99, "other")).unwrap();
                restored.restore(postcard::from_bytes(&bytes).unwrap()).unwrap();
                other = Some(restored);
            }
            now += Ps(wait);
            let mut frame = Frame::new(vec![7; len]);
            let mut copy = frame.clone();
            let sent = link.transmit(now, &mut frame);
            if let Some(other) = &mut other {
                prop_assert_eq!(other.transmit(now, &mut copy), sent);
                prop_assert_eq!(&copy, &frame);
            }
        }
        if let Some(other) = other {
            prop_assert_eq!(other.save(), link.save());
        }
    }
}
