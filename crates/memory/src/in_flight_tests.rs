//! In-flight entries against a plain list of all intervals.

use super::*;
use doorbell_sim::UncoreDomain;
use doorbell_sim::rng::Rng;

/// All intervals ever held.
#[derive(Default)]
struct Plain(Vec<(u64, u64, u32)>);

type File = InFlight<UncoreDomain>;

fn hold(file: &mut File, line: u32, from: u64, until: u64, past: u64) {
    let [from, until, past] = [from, until, past].map(Cycle::new);
    file.hold(line, from, until, past);
}

fn admit(file: &mut File, t: u64) -> u64 {
    file.admit(Cycle::new(t)).number()
}

/// The interval held for a line after `t`.
fn find(file: &File, line: u32, t: u64) -> Option<(u64, u64)> {
    file.find(line, Cycle::new(t)).map(|held| (held.from.number(), held.until.number()))
}

impl Plain {
    fn admit(&self, t: u64, entries: usize) -> u64 {
        let mut at = t;
        loop {
            let held = self.0.iter().filter(|(from, until, _)| *from <= at && *until > at);
            if held.clone().count() < entries {
                return at;
            }
            match held.map(|held| held.1).min() {
                Some(end) => at = end,
                None => return at,
            }
        }
    }

    fn find(&self, line: u32, t: u64) -> Option<u64> {
        let live = self.0.iter().filter(|held| held.2 == line && held.1 > t);
        live.map(|held| held.1).max()
    }
}

#[test]
fn a_full_file_admits_the_next_exactly_when_an_entry_is_free() {
    let mut file = InFlight::new(2);
    hold(&mut file, 1, 100, 200, 0);
    assert_eq!(admit(&mut file, 100), 100, "one of two is held");
    hold(&mut file, 2, 100, 230, 0);
    assert_eq!(admit(&mut file, 199), 200, "full until 199");
    assert_eq!(admit(&mut file, 200), 200, "free at 200");
    assert_eq!(admit(&mut file, 99), 99, "free before");
    hold(&mut file, 3, 200, 300, 0);
    assert_eq!(admit(&mut file, 150), 230);
}

#[test]
fn a_line_in_flight_is_found_until_it_arrives() {
    let mut file = InFlight::new(4);
    hold(&mut file, 7, 10, 50, 0);
    hold(&mut file, 8, 10, 20, 0);
    assert_eq!(find(&file, 7, 49), Some((10, 50)));
    assert_eq!(find(&file, 7, 50), None);
    assert_eq!(find(&file, 9, 0), None);
}

/// With all requests in time order this is a queue with several servers.
#[test]
fn requests_in_order_are_served_like_a_queue_with_several_servers() {
    let mut rng = Rng::stream(9, "in flight");
    for entries in [1u32, 2, 6, 20] {
        let (mut file, mut servers) = (InFlight::new(entries), vec![0u64; entries as usize]);
        let mut now = 0;
        for line in 0..3_000u32 {
            now += rng.below(24);
            let length = 1 + rng.below(20 * u64::from(entries));
            let server = servers.iter_mut().min().unwrap();
            let expected = now.max(*server);
            *server = expected + length;
            assert_eq!(admit(&mut file, now), expected, "{entries} entries, request {line}");
            hold(&mut file, line, expected, expected + length, now);
        }
        assert!(file.blocks.len() <= 8, "past intervals are dropped");
    }
}

/// A core's requests near the current time, between those of a device timed far ahead.
#[test]
fn near_requests_match_an_unbounded_list_despite_bookings_far_ahead() {
    for seed in 0..12 {
        let mut rng = Rng::stream(seed, "in flight");
        let entries = 1 + rng.below(12) as u32;
        let (mut file, mut plain) = (InFlight::new(entries), Plain::default());
        let (mut now, mut far) = (10_000u64, 12_000u64);
        for step in 0..1_500u32 {
            now += rng.below(20);
            far = far.max(now) + rng.below(100);
            // Up to 500 before the current time, near it, and far ahead.
            let t = match rng.below(8) {
                0 => now - rng.below(500),
                1..4 => now + rng.below(300),
                _ => far,
            };
            let waiting = if rng.below(4) == 0 { rng.below(6) as usize } else { 0 };
            let expected = plain.admit(t, (entries as usize).saturating_sub(waiting));
            let at = if waiting == 0 {
                admit(&mut file, t)
            } else {
                file.admit_with_reserved(Cycle::new(t), waiting).number()
            };
            assert_eq!(at, expected, "seed {seed}, request {step}");
            let line = rng.below(200) as u32;
            assert_eq!(find(&file, line, t).map(|held| held.1), plain.find(line, t), "seed {seed}");
            let long = if rng.below(200) == 0 { 3_000 } else { 40 * u64::from(entries) };
            let until = at + 1 + rng.below(long);
            hold(&mut file, line, at, until, now - 500);
            plain.0.push((at, until, line));
            if step % 100 == 0 {
                let mut copy = InFlight::new(entries);
                copy.check(&file.save(), Cycle::new(1 << 40)).unwrap();
                copy.restore(file.save());
                assert_eq!(copy.save(), file.save());
                file = copy;
            }
        }
        assert_eq!(file.late(), 0, "no request was for a time before the kept intervals");
        assert!(far > now + 10_000, "the device is far ahead");
    }
}

#[test]
fn a_request_before_the_kept_intervals_is_counted_and_not_delayed() {
    let mut file = InFlight::new(1);
    for step in 0..100 {
        hold(&mut file, step, 10 * u64::from(step), 10 * u64::from(step) + 10, 1_000);
    }
    assert!(file.blocks.len() < 4);
    assert_eq!((admit(&mut file, 5), file.late()), (5, 1));
    assert_eq!((admit(&mut file, 985), file.late()), (1_000, 1), "the remaining intervals still count");
}

#[test]
fn an_invalid_state_is_rejected_and_a_valid_one_restored() {
    let mut file = InFlight::new(2);
    hold(&mut file, 1, 100, 200, 0);
    hold(&mut file, 2, 100, 230, 0);
    let good = file.save();
    let mut other = InFlight::new(2);
    other.check(&good, Cycle::new(1_000)).unwrap();
    other.restore(good.clone());
    assert_eq!((admit(&mut other, 150), other.busy()), (200, 230));
    let mut bad = good.clone();
    bad.held[0].swap(0, 1);
    assert!(file.check(&bad, Cycle::new(1_000)).is_err());
    bad.held = vec![vec![]];
    assert!(file.check(&bad, Cycle::new(1_000)).is_err());
    bad.held = vec![vec![HeldEntry { from: Cycle::new(1), until: Cycle::new(2), line: 0 }; BLOCK + 1]];
    assert!(file.check(&bad, Cycle::new(1_000)).is_err());
    assert!(file.check(&good, Cycle::new(229)).is_err());
}
