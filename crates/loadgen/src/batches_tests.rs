use super::*;
use doorbell_sim::rng::Rng;
use proptest::prelude::*;

/// Batches of frames that leave every `gap`; `fate` returns the latency of each, or none for a loss.
fn sent(frames: u64, gap: Ps, mut fate: impl FnMut(u64) -> Option<Ps>) -> (Batches, Ps) {
    let begin = Ps(12_345);
    let mut batches = <Batches>::new(begin);
    for index in 0..frames {
        let time = begin + Ps(gap.0 * index);
        batches.on_sent(time);
        if let Some(latency) = fate(index) {
            batches.on_returned(time, Some(latency));
        }
    }
    (batches, Ps(gap.0 * frames))
}

#[test]
fn students_t_matches_tables() {
    for (degrees, t) in [(9.0, 2.2622), (15.0, 2.1314), (31.0, 2.0395), (63.0, 1.9983), (1e9, 1.95996)] {
        let ours = student(NORMAL_97_5, degrees);
        assert!((ours - t).abs() < 4e-4, "{degrees}: {ours}");
    }
}

#[test]
fn window_of_any_length_has_32_to_64_whole_batches() {
    for micros in [70, 100, 1_000, 12_345, 1_000_000] {
        let frames = 5_000;
        let (batches, span) = sent(frames, Ps(Ps::from_us(micros).0 / frames), |_| Some(Ps(1)));
        let whole = span.0 / batches.length.0;
        assert!((32..=64).contains(&whole), "{micros} us: {whole}");
        assert_eq!(batches.summaries().iter().map(|batch| batch.offered).sum::<u64>(), frames);
    }
}

#[test]
fn loss_over_time_shows_when_frames_were_lost() {
    let (batches, _) = sent(10_000, Ps::from_ns(100), |index| (index / 5_000 == 0).then_some(Ps::from_us(3)));
    let all = batches.summaries();
    let (first, last) = (&all[0], &all[all.len() - 1]);
    assert_eq!((first.delivered, last.delivered), (first.offered, 0));
    assert_eq!(first.latency_ns_mean, Some(3_000.0));
    assert_eq!(last.latency_ns_p99, None);
    let turned = all.iter().position(|batch| batch.delivered < batch.offered).unwrap();
    assert!((all[turned].begin_ns - 500_000.0).abs() <= batches.length.as_ns_f64());
}

#[test]
fn intervals_cover_the_true_value_at_the_nominal_rate() {
    // Independent exponential latencies with a mean of 1 us; the loss is 1 %.
    let (mut covered, mut losses, runs) = (0, 0, 120);
    for run in 0..runs {
        let mut rng = Rng::stream(run, "batches");
        let mut uniform = move || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let (batches, span) = sent(8_000, Ps::from_ns(100), |_| {
            let latency = -(1.0 - uniform()).ln() * 1e6;
            (uniform() >= 0.01).then_some(Ps(latency as u64))
        });
        let confidence = batches.confidence(span).expect("there are enough batches");
        let mean = batches.latency().summary().unwrap().mean;
        covered += u32::from((mean - 1_000.0).abs() <= confidence.latency_ns.unwrap().mean);
        let lost = 1.0 - batches.latency().count() as f64 / 8_000.0;
        losses += u32::from((lost - 0.01).abs() <= confidence.drop_rate);
    }
    // 114 are expected; the standard deviation is 2.4.
    for count in [covered, losses] {
        assert!((106..=119).contains(&count), "{count} of {runs}");
    }
}

#[test]
fn correlated_batches_are_merged_and_remaining_correlation_is_reported() {
    let mut rng = Rng::stream(1, "batches");
    let (independent, span) = sent(64_000, Ps::from_ns(100), |_| Some(Ps(1_000_000 + rng.below(1_000_000))));
    let confidence = independent.confidence(span).unwrap();
    assert!(!confidence.correlated && confidence.batches > 40, "{confidence:?}");
    // A wave as long as the window.
    let (slow, span) = sent(64_000, Ps::from_ns(100), |index| {
        let phase = index as f64 / 64_000.0 * std::f64::consts::TAU;
        Some(Ps((1e6 * (2.0 + phase.sin())) as u64))
    });
    let confidence = slow.confidence(span).unwrap();
    assert!(confidence.correlated && confidence.batches < 20, "{confidence:?}");
}

#[test]
fn percentiles_have_intervals_only_with_frames_beyond_them() {
    let (batches, span) = sent(40_000, Ps::from_ns(100), |index| Some(Ps(1 + index % 1000)));
    let latency = batches.confidence(span).unwrap().latency_ns.unwrap();
    assert!(latency.p50.is_some() && latency.p90.is_some());
    assert_eq!(latency.p99_9, None, "each batch has about a thousand frames");
    let (few, span) = sent(9, Ps::from_us(1), |_| Some(Ps(1)));
    assert!(few.confidence(span).is_none());
}

#[test]
fn invalid_state_is_refused() {
    let (batches, _) = sent(1_000, Ps::from_ns(100), |index| (index % 3 > 0).then_some(Ps(index)));
    let is_accepted = |batches: &Batches, counted| batches.clone().resume(Ps(0), counted);
    let counted = (1_000, 666);
    assert!(is_accepted(&batches, counted));
    assert!(!is_accepted(&batches, (1_000, 667)));
    for length in [0, 1, FIRST_LENGTH.0 + 1, 1 << 63] {
        let wrong = Batches { length: Ps(length), ..batches.clone() };
        assert!(!is_accepted(&wrong, counted), "{length}");
    }
    let mut changed = batches.clone();
    changed.batches[0].delivered -= 1;
    changed.batches[1].delivered += 1;
    assert!(!is_accepted(&changed, counted));
}

proptest! {
    #[test]
    fn merged_or_restored_batches_equal_batches_of_all_frames(
        frames in prop::collection::vec((0u64..1 << 32, prop::option::of(0u64..1 << 24), any::<bool>()), 1..300),
    ) {
        let mut ports = [<Batches>::new(Ps(5)), <Batches>::new(Ps(5))];
        let mut all = <Batches>::new(Ps(5));
        for (time, latency, port) in &frames {
            for batches in [&mut all, &mut ports[usize::from(*port)]] {
                batches.on_sent(Ps(5 + time));
                latency.iter().for_each(|latency| batches.on_returned(Ps(5 + time), Some(Ps(*latency))));
            }
        }
        let [mut one, other] = ports;
        one.merge(&other);
        let delivered = frames.iter().filter(|frame| frame.1.is_some()).count() as u64;
        prop_assert_eq!(&one, &all);
        let mut restored: Batches = postcard::from_bytes(&postcard::to_stdvec(&all).unwrap()).unwrap();
        prop_assert!(restored.resume(Ps(5), (frames.len() as u64, delivered)));
        prop_assert_eq!(&restored, &all);
        prop_assert_eq!(restored.latency().count(), delivered);
    }
}
