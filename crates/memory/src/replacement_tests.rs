//! Each policy by hand, and against a reference written as in its paper.

use doorbell_sim::UncoreCycle;

use super::*;
use crate::tags::{Flags, Tags};
use crate::ways::WayMask;

/// A replacer with the order words of its sets.
struct Sets {
    replacer: Replacer,
    orders: Vec<u64>,
}

impl Sets {
    fn new(sets: u32, ways: u32, kind: Replacement) -> Sets {
        Sets { replacer: Replacer::new(sets, ways, kind), orders: vec![ORDER; sets as usize] }
    }

    fn touch(&mut self, set: usize, way: usize) {
        self.replacer.touch(&mut self.orders[set], set, way);
    }

    fn insert(&mut self, set: usize, way: usize) {
        self.replacer.insert(&mut self.orders[set], set, way, false);
    }

    fn victim(&mut self, set: usize, mask: u32) -> usize {
        self.replacer.victim(self.orders[set], set, mask)
    }

    fn rank(&self, set: usize, way: usize) -> u32 {
        self.replacer.rank(self.orders[set], set, way)
    }
}

fn filled(kind: Replacement, ways: u32) -> Sets {
    let mut sets = Sets::new(1, ways, kind);
    (0..ways as usize).for_each(|way| sets.insert(0, way));
    sets
}

#[test]
fn lru_evicts_the_least_recently_used_line() {
    for ways in [4, 16, 20] {
        let mut lru = filled(Replacement::Lru, ways);
        assert_eq!(lru.victim(0, u32::MAX), 0);
        lru.touch(0, 0);
        assert_eq!(lru.victim(0, u32::MAX), 1);
        assert_eq!(lru.victim(0, 0b1001), 3, "only ways of the mask");
    }
}

#[test]
fn lru_matches_a_plain_list_in_both_forms() {
    let mut rng = doorbell_sim::rng::Rng::stream(5, "lru");
    for ways in [1u32, 2, 4, 11, 16, 17, 32] {
        let mut lru = filled(Replacement::Lru, ways);
        let mut list: Vec<usize> = (0..ways as usize).rev().collect();
        for step in 0..2_000 {
            if step == 1_000 {
                // From here on the stamps overflow.
                lru.replacer.state.stamp = lru.replacer.state.stamp.max(u32::MAX - 500);
            }
            let way = rng.below(u64::from(ways)) as usize;
            lru.touch(0, way);
            list.retain(|other| *other != way);
            list.insert(0, way);
            let mask = 1 << way | rng.next_u64() as u32;
            let expected = list.iter().rev().find(|way| mask >> **way & 1 == 1);
            assert_eq!(Some(&lru.victim(0, mask)), expected, "{ways} ways, step {step}");
        }
    }
}

#[test]
fn srrip_evicts_lines_without_reuse_first() {
    let mut srrip = filled(Replacement::Srrip, 4);
    srrip.touch(0, 0);
    assert_eq!(srrip.victim(0, 0xf), 1);
    assert_eq!([0, 1, 2, 3].map(|way| srrip.rank(0, way)), [1, 3, 3, 3], "all have aged");
    srrip.insert(0, 1);
    assert_eq!(srrip.victim(0, 0xf), 2);
    assert_eq!(srrip.victim(0, 0b11), 1, "only ways of the mask");
    assert_eq!([0, 1, 2, 3].map(|way| srrip.rank(0, way)), [2, 3, 3, 3], "and only those age");
}

#[test]
fn drrip_follows_the_leader_that_misses_less() {
    let mut drrip = Sets::new(64, 2, Replacement::Drrip);
    drrip.insert(1, 0);
    assert_eq!(drrip.rank(1, 0), LONG, "initially SRRIP");
    drrip.replacer.missed(0);
    drrip.insert(1, 0);
    assert_eq!(drrip.rank(1, 0), DISTANT, "SRRIP's leader misses more");
    (0..2).for_each(|_| drrip.replacer.missed(32));
    drrip.insert(1, 0);
    assert_eq!(drrip.rank(1, 0), LONG, "BRRIP's leader misses more");
}

#[test]
fn the_duel_counts_misses_in_leader_sets_but_not_insertions() {
    let mut drrip = Sets::new(128, 2, Replacement::Drrip);
    let selector = |drrip: &Sets| drrip.replacer.state.selector;
    let at_first = selector(&drrip);
    (0..128).for_each(|set| drrip.insert(set, 0));
    (0..128).for_each(|set| drrip.touch(set, 0));
    assert_eq!(selector(&drrip), at_first, "insertions and hits are not misses");
    (0..128).filter(|set| set % 32 != 0).for_each(|set| drrip.replacer.missed(set));
    assert_eq!(selector(&drrip), at_first, "follower sets");
    drrip.replacer.missed(64);
    assert_eq!(selector(&drrip), at_first + 1, "a leader of SRRIP");
    drrip.replacer.missed(96);
    assert_eq!(selector(&drrip), at_first, "a leader of BRRIP");
    for kind in [Replacement::Lru, Replacement::Nru, Replacement::Srrip] {
        assert!(!Replacer::new(128, 2, kind).duels(), "{kind:?}");
    }
}

#[test]
fn a_reused_line_is_inserted_with_the_prediction_of_a_used_one() {
    for kind in [Replacement::Nru, Replacement::Srrip, Replacement::Drrip] {
        // In leader sets of both policies.
        for set in [0, 32] {
            let mut sets = Sets::new(64, 2, kind);
            sets.replacer.insert(&mut sets.orders[set], set, 0, true);
            assert_eq!(sets.rank(set, 0), 0, "{kind:?}");
            assert_eq!(sets.replacer.state.throttle, 0, "BRRIP's counter does not advance");
        }
    }
    let mut lru = filled(Replacement::Lru, 4);
    lru.replacer.insert(&mut lru.orders[0], 0, 1, true);
    assert_eq!(lru.rank(0, 1), 15, "most recently used, like any new line");
}

#[test]
fn an_invalid_order_is_rejected() {
    let Sets { replacer: lru, orders } = filled(Replacement::Lru, 4);
    let good = lru.save(orders.into_iter());
    lru.check(&good).unwrap();
    for order in [0, ORDER ^ 1, ORDER.rotate_left(16)] {
        assert!(lru.check(&ReplacerState { orders: vec![order], ..good.clone() }).is_err());
    }
    for (policy, farthest) in [(Replacement::Nru, 1), (Replacement::Srrip, 3), (Replacement::Drrip, 3)] {
        let Sets { replacer, orders } = filled(policy, 4);
        let good = replacer.save(orders.into_iter());
        let of = |rank: u32| ReplacerState { ranks: vec![0, rank, 0, 0], ..good.clone() };
        assert!(replacer.check(&of(farthest)).is_ok() && replacer.check(&of(farthest + 1)).is_err());
    }
}

#[test]
fn nru_evicts_the_first_way_not_used_since_the_last_reset() {
    let mut nru = filled(Replacement::Nru, 4);
    assert_eq!(nru.victim(0, 0b1100), 2, "all were used: the bits of the mask's ways are reset");
    assert_eq!([0, 1, 2, 3].map(|way| nru.rank(0, way)), [0, 0, 1, 1]);
    nru.insert(0, 2);
    assert_eq!(nru.victim(0, 0xf), 3);
    nru.touch(0, 3);
    assert_eq!(nru.victim(0, 0xf), 0, "starts again from the first way");
    assert_eq!([0, 1, 2, 3].map(|way| nru.rank(0, way)), [1, 1, 1, 1]);
}

/// A cache as in the papers: line and replacement state of each way.
struct PaperModel {
    policy: Replacement,
    sets: u32,
    /// For each set its ways: a line, and its last use, bit or prediction.
    ways: Vec<Vec<Option<(u32, u64)>>>,
    time: u64,
    misses_of_leaders: i64,
    bimodal: u64,
}

impl PaperModel {
    fn new(policy: Replacement, sets: u32, ways: usize) -> PaperModel {
        let ways = vec![vec![None; ways]; sets as usize];
        PaperModel { policy, sets, ways, time: 0, misses_of_leaders: 511, bimodal: 0 }
    }

    fn set(&mut self, line: u32) -> &mut Vec<Option<(u32, u64)>> {
        &mut self.ways[(line % self.sets) as usize]
    }

    fn entry(&mut self, line: u32) -> Option<&mut (u32, u64)> {
        self.set(line).iter_mut().flatten().find(|entry| entry.0 == line)
    }

    fn hit(&mut self, line: u32) -> bool {
        self.time += 1;
        let state = if self.policy == Replacement::Lru { self.time } else { 0 };
        self.entry(line).map(|entry| entry.1 = state).is_some()
    }

    fn invalidate(&mut self, line: u32) {
        self.set(line)
            .iter_mut()
            .filter(|way| way.is_some_and(|entry| entry.0 == line))
            .for_each(|way| *way = None);
    }

    /// Counts a look-up that misses.
    fn count_miss(&mut self, line: u32) {
        let leaders = self.sets.min(64);
        match line % self.sets % leaders {
            0 => self.misses_of_leaders = 1023.min(self.misses_of_leaders + 1),
            place if place == leaders / 2 => self.misses_of_leaders = 0.max(self.misses_of_leaders - 1),
            _ => {}
        }
    }

    /// Prediction for a new line of this set.
    fn prediction(&mut self, set: u32) -> u64 {
        let leaders = self.sets.min(64);
        let bimodal = match (self.policy, set % leaders) {
            (Replacement::Drrip, 0) => false,
            (Replacement::Drrip, place) if place == leaders / 2 => true,
            (Replacement::Drrip, _) => self.misses_of_leaders >= 512,
            _ => false,
        };
        self.bimodal += u64::from(bimodal);
        if bimodal && !self.bimodal.is_multiple_of(32) { 3 } else { 2 }
    }

    /// Inserts a line, which must not be present, into one of the ways of `mask`; returns the victim.
    fn put_in(&mut self, line: u32, mask: u32, reused: bool) -> Option<u32> {
        let (policy, time) = (self.policy, self.time);
        let state = match policy {
            Replacement::Lru => time,
            Replacement::Nru => 0,
            _ if reused => 0,
            Replacement::Srrip | Replacement::Drrip => self.prediction(line % self.sets),
        };
        let set = self.set(line);
        let may: Vec<usize> = (0..set.len()).filter(|way| mask >> way & 1 == 1).collect();
        if let Some(free) = may.iter().find(|way| set[**way].is_none()) {
            set[*free] = Some((line, state));
            return None;
        }
        let of = |set: &[Option<(u32, u64)>], way: usize| set[way].expect("all ways are occupied").1;
        let distant = if policy == Replacement::Nru { 1 } else { 3 };
        let way = match policy {
            Replacement::Lru => *may.iter().min_by_key(|way| of(set, **way)).unwrap(),
            _ => loop {
                match may.iter().find(|way| of(set, **way) == distant) {
                    Some(way) => break *way,
                    None => may.iter().for_each(|way| set[*way].as_mut().unwrap().1 += 1),
                }
            },
        };
        set[way].replace((line, state)).map(|(line, _)| line)
    }
}

#[test]
fn each_policy_evicts_the_line_its_paper_says_for_any_ways_and_invalidations() {
    let all = [Replacement::Lru, Replacement::Nru, Replacement::Srrip, Replacement::Drrip];
    let forms = [(1, 1), (1, 4), (2, 8), (4, 11), (64, 16), (128, 3), (256, 20)];
    for (policy, (sets, ways)) in all.into_iter().flat_map(|policy| forms.map(|form| (policy, form))) {
        let mut rng = doorbell_sim::rng::Rng::stream(u64::from(sets * ways), "replacement");
        let mut tags = Tags::new(sets, ways, policy);
        let mut model = PaperModel::new(policy, sets, ways as usize);
        let lines = u64::from(2 * sets * ways);
        for step in 0..20_000u64 {
            // In turns random lines, a stream through all lines, and lines of two sets only, so that the
            // duel's choice changes.
            let line = match step / 2_000 % 3 {
                0 => rng.below(lines) as u32,
                1 => step as u32 % lines as u32,
                _ => rng.below(4) as u32 * sets + if rng.below(4) == 0 { sets / 2 } else { 0 },
            };
            let slot = tags.find(line);
            if rng.below(16) == 0 {
                model.invalidate(line);
                slot.map(|slot| tags.remove(slot));
                continue;
            }
            let there = model.hit(line);
            assert_eq!(slot.is_some(), there, "{policy:?}, {sets} sets of {ways}, step {step}");
            match slot {
                Some(slot) => tags.touch(slot),
                None => {
                    let mask =
                        (1 << rng.below(u64::from(ways)) | rng.next_u64() as u32) & WayMask::first(ways).0;
                    // A quarter are victims from above, some of which were reused here.
                    let (victim, reused) = (rng.below(4) == 0, rng.below(8) == 0);
                    if !victim {
                        tags.missed(line);
                        model.count_miss(line);
                    }
                    let reused = victim && reused;
                    let evicted = tags.insert(line, Flags::EXCLUSIVE, mask, UncoreCycle::ZERO, 0, reused).1;
                    let expected = model.put_in(line, mask, reused);
                    assert_eq!(
                        evicted.map(|evicted| evicted.line),
                        expected,
                        "{policy:?}, {sets} sets of {ways}, step {step}"
                    );
                }
            }
            if step % 5_000 == 4_999 {
                let state = tags.save();
                tags = Tags::new(sets, ways, policy);
                tags.check(&state, u32::MAX - 1, UncoreCycle::ZERO).unwrap();
                tags.restore(state);
            }
        }
    }
}
