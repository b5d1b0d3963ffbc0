//! Complete searches on synthetic systems whose correct result is given.

use std::sync::atomic::AtomicBool;

use proptest::prelude::*;

use super::synthetic::Queue;
use super::{Answer, Bracket, Ended, Goal, Precision, SearchResult, Verdict, search};

const LINE: u64 = 100_000_000;

fn bracket(percent: f64) -> Bracket {
    Bracket { min: LINE / 1000, max: LINE, precision: Precision(percent / 100.0), trials_max: 40 }
}

fn find_with(queue: &Queue, goal: &str, percent: f64, jobs: usize) -> SearchResult<()> {
    let goal: Goal = goal.parse().unwrap();
    let never = AtomicBool::new(false);
    search(queue, &bracket(percent), &goal, None, jobs, &never, &mut |_| {}).unwrap().expect("an answer")
}

fn find(queue: &Queue, goal: &str) -> SearchResult<()> {
    find_with(queue, goal, 2.0, 1)
}

/// Both ends of an interval that has the requested precision.
fn precise(found: &SearchResult<()>) -> (f64, f64) {
    let Answer { low: Some(low), high: Some(high), ended: Ended::Precise } = found.answer else {
        panic!("{:?}", found.answer)
    };
    assert!((high - low) as f64 <= 0.02 * high as f64, "{low} to {high}");
    (low as f64, high as f64)
}

#[test]
fn an_exact_knee_is_found_in_three_trials() {
    for (goal, loss) in [("msb", 0.01), ("pdr", 0.005), ("ndr", 0.0), ("0.1%", 0.001)] {
        let found = find(&Queue::new(20_000_000, 1_700), goal);
        let (low, high) = precise(&found);
        let truth = 20_000_000.0 / (1.0 - loss);
        assert!(low <= truth && truth <= high, "{goal}: {low} to {high}, not {truth}");
        assert!(found.trials.len() <= 3, "{goal}: {} trials", found.trials.len());
    }
}

#[test]
fn rates_are_per_port() {
    let found = find(&Queue { ports: 4, ..Queue::new(20_000_000, 1_700) }, "msb");
    let (low, high) = precise(&found);
    let truth = 5_000_000.0 / 0.99;
    assert!(low <= truth && truth <= high, "{low} to {high}, not {truth}");
    assert!(found.trials.len() <= 3, "{} trials", found.trials.len());
}

#[test]
fn a_small_loss_at_every_rate_does_not_hide_the_knee() {
    for unseen in [false, true] {
        let queue = Queue { leak: 0.004, leak_unseen: unseen, ..Queue::new(2_000_000, 1_700) };
        let (low, high) = precise(&find(&queue, "msb"));
        let truth = 2_000_000.0 / 0.99;
        assert!(low <= truth && truth <= high, "{low} to {high}");
        // With a goal of no loss, no rate meets it.
        let none = find(&queue, "ndr").answer;
        assert_eq!((none.low, none.ended), (None, Ended::BelowLowest), "{unseen}");
    }
}

#[test]
fn the_knee_of_a_server_with_varying_speed_is_found() {
    let queue = Queue { noise: 0.3, ..Queue::new(2_000_000, 1_700) };
    let (low, high) = precise(&find(&queue, "msb"));
    let truth = 2_000_000.0 / 0.99;
    assert!(low <= truth && truth <= high, "{low} to {high}");
}

#[test]
fn trials_last_until_large_buffers_are_full() {
    // At 1 % overload, this queue takes 1.5 s to fill: a trial of fixed length would accept 2.9 Mpps.
    let queue = Queue::new(2_000_000, 30_000);
    for goal in ["msb", "ndr"] {
        let found = find(&queue, goal);
        let truth = 2_000_000.0 / (1.0 - goal.parse::<Goal>().unwrap().loss);
        let (low, high) = precise(&found);
        assert!(low <= truth && truth <= high, "{goal}: {low} to {high}");
        assert!(found.trials.iter().any(|trial| trial.judgment.account.simulated.as_secs_f64() > 0.1));
    }
}

#[test]
fn a_miss_in_a_dip_is_not_reported_below_the_interval() {
    let queue = Queue { dip: Some((1_500_000, 1_800_000)), ..Queue::new(2_000_000, 1_700) };
    let found = find(&queue, "msb");
    let (low, high) = precise(&found);
    assert!(queue.loss(low as u64) <= 0.01 && queue.loss(high as u64) > 0.01, "{low} to {high}");
    for trial in found.trials.iter().filter(|trial| trial.rate as f64 <= low) {
        assert_eq!(trial.judgment.verdict, Verdict::Below);
    }
}

#[test]
fn goals_that_are_never_or_always_met_are_reported() {
    let lossy = find(&Queue { leak: 0.02, ..Queue::new(2_000_000, 1_700) }, "msb").answer;
    assert_eq!(lossy, Answer { low: None, high: Some(LINE / 1000), ended: Ended::BelowLowest });
    let found = find(&Queue::new(2 * LINE, 1_700), "ndr");
    assert_eq!(found.answer, Answer { low: Some(LINE), high: None, ended: Ended::AtHighest });
    assert_eq!(found.trials.len(), 1);
}

#[test]
fn a_latency_bound_below_the_base_latency_is_never_met() {
    let queue = Queue::new(2_000_000, 1_700);
    let never = AtomicBool::new(false);
    let with = |bound: &str| {
        let goal = Goal { latency: Some(bound.parse().unwrap()), ..("msb".parse().unwrap()) };
        search(&queue, &bracket(2.0), &goal, None, 1, &never, &mut |_| {}).unwrap().unwrap().answer
    };
    assert_eq!(with("p99=5us").ended, Ended::Precise);
    assert_eq!(with("p99=4us").ended, Ended::BelowLowest);
}

#[test]
fn a_latency_crossing_far_below_the_knee_is_found_by_halving() {
    let never = AtomicBool::new(false);
    let goal = Goal { latency: Some("p99=6us".parse().unwrap()), ..("msb".parse().unwrap()) };
    for slow_from in [150_000, 900_000, 3_300_000, 15_000_000] {
        let queue = Queue { slow_from, ..Queue::new(20_000_000, 1_700) };
        let found = search(&queue, &bracket(5.0), &goal, None, 1, &never, &mut |_| {}).unwrap().unwrap();
        let Answer { low: Some(low), high: Some(high), ended: Ended::Precise } = found.answer else {
            panic!("{:?}", found.answer)
        };
        assert!(low <= slow_from && slow_from < high, "{low} to {high}, not {slow_from}");
        assert!(found.trials.len() <= 16, "{slow_from}: {} trials", found.trials.len());
    }
}

#[test]
fn a_load_that_offers_less_than_its_rate_does_not_meet_a_goal() {
    for (offered, ended) in [(0.97, Ended::AtHighest), (0.5, Ended::Undecided), (0.0, Ended::Undecided)] {
        let queue = Queue { offered, ..Queue::new(2 * LINE, 1_700) };
        assert_eq!(find(&queue, "msb").answer.ended, ended, "{offered}");
    }
    // Loss at the lower offered rate still counts.
    let queue = Queue { offered: 0.5, ..Queue::new(1_000, 1_700) };
    assert_eq!(find(&queue, "msb").answer.ended, Ended::BelowLowest);
}

#[test]
fn the_answer_and_its_trials_are_independent_of_the_number_of_jobs() {
    let queue = Queue { noise: 0.2, dip: Some((900_000, 990_000)), ..Queue::new(1_000_000, 5_000) };
    let alone = find_with(&queue, "msb", 0.5, 1);
    for jobs in [2, 3, 8] {
        let together = find_with(&queue, "msb", 0.5, jobs);
        assert_eq!(together.answer, alone.answer);
        let rates = |found: &SearchResult<()>| {
            found.trials.iter().map(|trial| (trial.rate, trial.judgment)).collect::<Vec<_>>()
        };
        assert_eq!(rates(&together), rates(&alone));
    }
    assert_eq!(alone.ahead.trials, 0);
}

#[test]
fn an_interrupted_search_has_no_answer() {
    let stop = AtomicBool::new(true);
    let goal = "msb".parse().unwrap();
    let found = search(&Queue::new(1_000, 10), &bracket(2.0), &goal, None, 2, &stop, &mut |_| {});
    assert!(found.unwrap().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn the_interval_contains_the_knee_after_few_trials(
        capacity in 300_000u64..90_000_000,
        depth in 64u64..20_000,
        leak in 0.0f64..0.006,
        goal in prop::sample::select(vec!["msb", "0.8%", "2%"]),
        precision in prop::sample::select(vec![1.0, 2.0, 5.0]),
    ) {
        let queue = Queue { leak, ..Queue::new(capacity, depth) };
        let loss = goal.parse::<Goal>().unwrap().loss;
        let truth = capacity as f64 / (1.0 - loss);
        let found = find_with(&queue, goal, precision, 1);
        let (low, high) = (found.answer.low.unwrap() as f64, found.answer.high.unwrap() as f64);
        // Tolerance for the frame that may be cut off at a trial's end.
        prop_assert!(low <= truth * 1.0005 && truth * 0.9995 <= high, "{low} to {high}, not {truth}: {:?}", found.answer);
        prop_assert!(found.trials.len() <= 14, "{} trials", found.trials.len());
    }
}
