//! Bookings of cycles against plain unbounded counts.

use super::*;
use doorbell_sim::UncoreDomain;
use doorbell_sim::rng::Rng;

/// Units taken per cycle.
#[derive(Default)]
struct Plain(BTreeMap<u64, u64>);

impl Plain {
    fn take_many(&mut self, from: u64, mut count: u64, units: u64) -> (u64, u64) {
        let (mut at, mut first) = (from, None);
        loop {
            let taken = self.0.entry(at).or_default();
            let now = count.min(units - *taken);
            *taken += now;
            count -= now;
            if now > 0 {
                first.get_or_insert(at);
            }
            if count == 0 {
                return (first.unwrap_or(at), at);
            }
            at += 1;
        }
    }
}

fn take<E: Entry>(slots: &mut Slots<E, UncoreDomain>, from: u64, now: u64) -> u64 {
    slots.take(Cycle::new(from), Cycle::new(now)).number()
}

fn take_many<E: Entry>(slots: &mut Slots<E, UncoreDomain>, from: u64, count: u64, now: u64) -> (u64, u64) {
    let Transfer { first, last } = slots.take_many(Cycle::new(from), count, Cycle::new(now));
    (first.number(), last.number())
}

/// Current time, request time and number of units. The time advances by small and large steps; half of the
/// requests are a device's, far ahead.
fn requests(seed: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    let mut rng = Rng::stream(seed, "slots");
    let (mut now, mut far) = (100u64, 100u64);
    std::iter::repeat_with(move || {
        now += match rng.below(300) {
            0 => rng.below(3 << 20),
            1 => rng.below(1 << 16),
            _ => rng.below(3),
        };
        far = far.max(now) + rng.below(5);
        // Requests are for up to half a ring before the current time.
        let from = match rng.below(4) {
            0 => now - rng.below(32),
            1 => now + rng.below(60),
            _ => far,
        };
        (now, from, 1 + rng.below(5))
    })
}

#[test]
fn a_cycle_serves_one_request_per_port_and_the_next_waits() {
    let mut ports = Ports::new(2, 64);
    let served: Vec<u64> = (0..5).map(|_| take(&mut ports, 10, 0)).collect();
    assert_eq!(served, [10, 10, 11, 11, 12]);
    assert_eq!(take(&mut ports, 9, 0), 9, "an earlier request does not wait for later ones");
    assert_eq!(take(&mut ports, 13, 0), 13);
}

#[test]
fn a_line_takes_more_cycles_on_a_narrower_link() {
    let mut link = Link::new(32, 64);
    assert_eq!(take_many(&mut link, 5, 64, 0), (5, 6));
    assert_eq!(take_many(&mut link, 5, 64, 0), (7, 8), "after the first line");
    assert_eq!(take_many(&mut link, 4, 16, 0), (4, 4));
    assert_eq!(take_many(&mut link, 4, 32, 0), (4, 9), "a transfer fills free cycles");
}

#[test]
fn near_and_far_bookings_match_an_unbounded_count() {
    for seed in 0..40 {
        let units = [1u64, 3, 16][seed as usize % 3];
        let (mut slots, mut plain) = (Ports::new(units as u32, 64), Plain::default());
        for (step, (now, from, count)) in requests(seed).take(4_000).enumerate() {
            let expected = plain.take_many(from, count, units);
            assert_eq!(take_many(&mut slots, from, count, now), expected, "seed {seed}, step {step}");
            if step % 64 == 0 {
                let behind = plain.0.range(now..).map(|taken| taken.1).sum::<u64>();
                assert_eq!(slots.taken_from(Cycle::new(now)), behind, "seed {seed}, step {step}");
            }
        }
        assert_eq!(slots.late(), 0);
    }
}

#[test]
fn a_late_or_missing_current_time_changes_no_booking() {
    let (mut slots, mut plain) = (Ports::new(2, 64), Plain::default());
    for (step, (now, from, count)) in requests(3).take(4_000).enumerate() {
        let given = if step < 2_000 { 0 } else { now / 4096 * 4096 };
        assert_eq!(take_many(&mut slots, from, count, given), plain.take_many(from, count, 2), "step {step}");
    }
}

#[test]
fn the_shortcut_after_a_full_cycle_matches_the_search() {
    for seed in 0..20 {
        let (mut slots, mut plain) = (Ports::<UncoreDomain>::new(2, 64), Ports::<UncoreDomain>::new(2, 64));
        for (now, from, _) in requests(seed).take(5_000) {
            let [now, from] = [now, from].map(Cycle::new);
            let expected = if plain.take_here(from, 1) { from } else { plain.search(from, 1, now).first };
            assert_eq!(slots.take(from, now), expected, "seed {seed}");
        }
    }
}

#[test]
fn a_request_before_the_ring_is_served_at_once_and_counted() {
    let mut ports = Ports::new(1, 64);
    assert_eq!(take(&mut ports, 40, 40), 40);
    assert_eq!(take(&mut ports, 40 + 64, 104), 104, "the same entry of the ring");
    assert_eq!((take(&mut ports, 40, 104), ports.late()), (40, 1), "the booking has been dropped");
    assert_eq!((take(&mut ports, 100 << 20, 100 << 20), ports.late()), (100 << 20, 1));
    assert_eq!((take(&mut ports, 40, 100 << 20), ports.late()), (40, 2), "before the range of the rounds");
}

#[test]
fn restored_slots_continue_identically() {
    let (mut slots, mut link) = (Ports::new(3, 64), Link::new(3, 64));
    for (step, (now, from, count)) in requests(7).take(5_000).enumerate() {
        let taken = take_many(&mut slots, from, count, now);
        assert_eq!(
            take_many(&mut link, from, count, now),
            taken,
            "the width of an entry makes no difference"
        );
        if step % 50 == 0 {
            let mut restored = Ports::new(3, 64);
            restored.check(&slots.save(), Cycle::MAX - 64).unwrap();
            restored.restore(slots.save());
            assert_eq!(restored.save(), slots.save());
            slots = restored;
        }
    }
}

#[test]
fn an_invalid_state_is_rejected() {
    let mut slots = Ports::new(2, 64);
    take(&mut slots, 7, 0);
    take(&mut slots, 700, 0);
    let good = slots.save();
    slots.check(&good, Cycle::new(1_000)).unwrap();
    let rejected = |change: fn(&mut SlotsState<UncoreDomain>)| {
        let mut bad = good.clone();
        change(&mut bad);
        slots.check(&bad, Cycle::new(1_000)).is_err()
    };
    assert!(rejected(|bad| bad.ring[7] += 2));
    assert!(rejected(|bad| bad.ring.truncate(63)));
    assert!(rejected(|bad| bad.horizon = Cycle::new(7)));
    assert!(rejected(|bad| bad.horizon = Cycle::ZERO));
    assert!(rejected(|bad| bad.far[0].1 = 3));
    assert!(rejected(|bad| bad.far[0].0 = Cycle::new(2_000)));
    assert!(rejected(|bad| bad.far.push((Cycle::new(20), 1))));
}
