//! Bookings of a resource that serves so many units a cycle: ports of a cache, bytes of a link.
//!
//! Like [`Calendar`](doorbell_sim::Calendar), requests may come in any order of time and take the first room at or after
//! theirs; unlike it, the room is counted for each cycle in a ring, so that a booking costs a few operations however
//! scattered the bookings are. What lies further back than the ring is long is forgotten: a request from there is
//! served at once.
//!
//! A host's caches must hold the rings of all harts: an entry has no room for its cycle's number, but for that of its round, counted
//! from `base`.

use serde::{Deserialize, Serialize};

/// Bits of a saved entry that count the units taken; above them stands the cycle.
const COUNT_BITS: u32 = 16;

/// An entry of a ring: the units taken, and above them the round.
pub(crate) trait Entry: Copy + Default + Into<u64> {
    /// Bits that count the units.
    const COUNT_BITS: u32;
    /// Bits of the round: all others.
    const ROUND_BITS: u32 = 8 * size_of::<Self>() as u32 - Self::COUNT_BITS;

    /// The entry of so many units in this round, both no more than it has bits for.
    fn of(word: u64) -> Self;
}

/// For up to 127 units a cycle.
impl Entry for u16 {
    const COUNT_BITS: u32 = 7;

    #[inline(always)]
    fn of(word: u64) -> u16 {
        word as u16
    }
}

/// For up to 65535.
impl Entry for u32 {
    const COUNT_BITS: u32 = 16;

    #[inline(always)]
    fn of(word: u64) -> u32 {
        word as u32
    }
}

/// Ports of a cache, and what else serves few a cycle.
pub(crate) type Ports = Slots<u16>;
/// Bytes of a link.
pub(crate) type Link = Slots<u32>;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slots<E> {
    /// Units a cycle.
    units: u64,
    ring: Vec<E>,
    /// The ring's length as a power of two.
    len_bits: u32,
    /// The first cycle that can be told: of half the cycles that rounds reach over, the stretch before the latest booking's.
    base: u64,
    /// A stretch of cycles that are known to be full, so that a long queue is not walked again and again.
    full: (u64, u64),
}

/// What a snapshot keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SlotsState {
    #[serde(with = "words")]
    ring: Vec<u64>,
    full: (u64, u64),
}

impl<E: Entry> Slots<E> {
    /// A resource of `units` units a cycle that remembers `cycles` cycles, a power of two.
    pub fn new(units: u32, cycles: usize) -> Slots<E> {
        assert!(cycles.is_power_of_two() && (1..1 << E::COUNT_BITS).contains(&u64::from(units)));
        let ring = vec![E::default(); cycles];
        Slots { units: u64::from(units), ring, len_bits: cycles.ilog2(), base: 0, full: (0, 0) }
    }

    /// The cycles that rounds reach over, from `base` on.
    #[inline(always)]
    fn span(&self) -> u64 {
        1 << (self.len_bits + E::ROUND_BITS)
    }

    #[inline(always)]
    fn index(&self, at: u64) -> usize {
        at as usize & (self.ring.len() - 1)
    }

    /// The entry of this cycle, of which nothing is taken.
    #[inline(always)]
    fn empty(&self, at: u64) -> u64 {
        (at.wrapping_sub(self.base) >> self.len_bits) << E::COUNT_BITS
    }

    /// Whether rounds reach to this cycle.
    #[inline(always)]
    fn reaches(&self, at: u64) -> bool {
        at.wrapping_sub(self.base) < self.span()
    }

    /// Takes one unit in the first cycle from `from` on that has one. Returns the cycle.
    #[inline]
    pub fn take(&mut self, from: u64) -> u64 {
        if self.take_here(from, 1) { from } else { self.take_behind(from) }
    }

    /// The same where this cycle has none. The next one mostly has: then in a few steps what [`search`](Slots::search) would come to.
    #[inline]
    fn take_behind(&mut self, from: u64) -> u64 {
        let next = from + 1;
        let full = self.reaches(from) && self.ring[self.index(from)].into() == self.empty(from) + self.units;
        // What is known to be full is walked over, and kept.
        let walked_over = self.full.0 <= next && from < self.full.1;
        if full && !walked_over && self.take_here(next, 1) {
            self.full = (from, next);
            return next;
        }
        self.search(from, 1).0
    }

    /// Takes `count` units if this cycle has all of them.
    #[inline(always)]
    fn take_here(&mut self, from: u64, count: u64) -> bool {
        let (index, empty) = (self.index(from), self.empty(from));
        let entry: u64 = self.ring[index].into();
        // An entry of an earlier cycle is less than this one's, empty.
        let room = entry + count <= empty + self.units && count <= self.units && self.reaches(from);
        if room {
            self.ring[index] = E::of(entry.max(empty) + count);
        }
        room
    }

    /// Takes `count` units, the first ones that are free from `from` on. Returns the cycles of the first and the last.
    #[inline]
    pub fn take_many(&mut self, from: u64, count: u64) -> (u64, u64) {
        if self.take_here(from, count) { (from, from) } else { self.take_two(from, count) }
    }

    /// A line that fills a cycle and goes on in the next, as on links of half a line's width, with nothing in its way.
    #[inline]
    fn take_two(&mut self, from: u64, count: u64) -> (u64, u64) {
        let [here, there] = [from, from + 1].map(|at| self.index(at));
        let [now, next] = [from, from + 1].map(|at| self.empty(at));
        let free = self.ring[here].into() < now && self.ring[there].into() < next;
        let within = self.reaches(from) && self.reaches(from + 1);
        if !free || !within || count <= self.units || count > 2 * self.units {
            return self.search(from, count);
        }
        self.ring[here] = E::of(now + self.units);
        self.ring[there] = E::of(next + (count - self.units));
        self.full = (from, from + 1);
        (from, from + 1)
    }

    /// The general case.
    #[inline(never)]
    fn search(&mut self, from: u64, mut count: u64) -> (u64, u64) {
        let (mut at, mut first) = (from, None);
        let mut full_from = from;
        loop {
            if self.full.0 <= at && at < self.full.1 {
                full_from = self.full.0.min(full_from);
                at = self.full.1;
            }
            if !self.reaches(at) && !self.reach(at) {
                return (first.unwrap_or(at), at);
            }
            let (index, empty) = (self.index(at), self.empty(at));
            let entry: u64 = self.ring[index].into();
            if entry >> E::COUNT_BITS > empty >> E::COUNT_BITS {
                // Longer ago than the ring remembers.
                return (first.unwrap_or(at), at);
            }
            let taken = entry.saturating_sub(empty);
            let now = count.min(self.units - taken);
            if now > 0 {
                self.ring[index] = E::of(empty + taken + now);
                first.get_or_insert(at);
                count -= now;
            }
            if count == 0 {
                // Everything from the request to the cycle before is full now.
                if at > full_from {
                    self.full = (full_from, at);
                }
                return (first.unwrap_or(at), at);
            }
            at += 1;
        }
    }

    /// From where rounds are counted if this is the latest booking.
    fn base_for(&self, latest: u64) -> u64 {
        let half = self.span() / 2;
        (latest / half).saturating_sub(1) * half
    }

    /// Counts rounds from a later cycle on, so that this one's can be told. Whether it can: not if it is long gone.
    #[cold]
    fn reach(&mut self, at: u64) -> bool {
        if at < self.base {
            return false;
        }
        let base = self.base_for(at);
        let gone = (base - self.base) >> self.len_bits << E::COUNT_BITS;
        for entry in &mut self.ring {
            let word: u64 = (*entry).into();
            // Of those that are gone nothing is left, not even how much was taken.
            *entry = if word < gone { E::default() } else { E::of(word - gone) };
        }
        self.base = base;
        true
    }

    pub fn save(&self) -> SlotsState {
        let word = |(index, entry): (u64, &E)| {
            let entry: u64 = (*entry).into();
            let (round, taken) = (entry >> E::COUNT_BITS, entry & ((1 << E::COUNT_BITS) - 1));
            let cycle = self.base + (round << self.len_bits) + index;
            if taken == 0 { 0 } else { cycle << COUNT_BITS | taken }
        };
        SlotsState { ring: (0..).zip(&self.ring).map(word).collect(), full: self.full }
    }

    /// Says what is impossible about a saved state with nothing after `latest`.
    pub fn check(&self, state: &SlotsState, latest: u64) -> Result<(), String> {
        if state.ring.len() != self.ring.len() {
            return Err(format!("bookings of {} cycles for {}", state.ring.len(), self.ring.len()));
        }
        for (index, entry) in state.ring.iter().enumerate() {
            let (cycle, taken) = (entry >> COUNT_BITS, entry & ((1 << COUNT_BITS) - 1));
            if taken > self.units || self.index(cycle) != index && *entry != 0 {
                return Err("a port or link is booked beyond what it has".to_owned());
            }
        }
        if state.full.1 > latest {
            return Err("a port or link is full for too long".to_owned());
        }
        Ok(())
    }

    pub fn restore(&mut self, state: SlotsState) {
        let cycles = |entry: &u64| entry >> COUNT_BITS;
        self.base = self.base_for(state.ring.iter().map(cycles).max().unwrap_or(0));
        for (index, saved) in state.ring.iter().enumerate() {
            let (cycle, taken) = (saved >> COUNT_BITS, saved & ((1 << COUNT_BITS) - 1));
            let told = taken > 0 && cycle >= self.base;
            self.ring[index] = if told { E::of(self.empty(cycle) + taken) } else { E::default() };
        }
        self.full = state.full;
    }
}

/// A ring as one piece of bytes. There are dozens of rings with thousands of entries: number by number they took most of the
/// time of saving and restoring a timed machine.
mod words {
    use doorbell_sim::snapshot::piece;
    use serde::de::{Deserializer, Error};
    use serde::ser::Serializer;

    const BYTES: usize = size_of::<u64>();

    pub fn serialize<S: Serializer>(words: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = vec![0; words.len() * BYTES];
        for (place, word) in bytes.chunks_exact_mut(BYTES).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        piece::serialize(&bytes, serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
        let bytes = piece::deserialize(deserializer)?;
        let (words, []) = bytes.as_chunks::<BYTES>() else {
            return Err(D::Error::invalid_length(bytes.len(), &"whole words of eight bytes"));
        };
        Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_sim::rng::Rng;

    #[test]
    fn a_cycle_serves_as_many_as_it_has_ports_and_the_next_waits() {
        let mut ports = Ports::new(2, 64);
        let served: Vec<u64> = (0..5).map(|_| ports.take(10)).collect();
        assert_eq!(served, [10, 10, 11, 11, 12]);
        assert_eq!(ports.take(9), 9, "an earlier one is not queued behind later ones");
        assert_eq!(ports.take(13), 13);
    }

    #[test]
    fn a_line_takes_as_many_cycles_as_the_link_is_narrow() {
        let mut link = Link::new(32, 64);
        assert_eq!(link.take_many(5, 64), (5, 6));
        assert_eq!(link.take_many(5, 64), (7, 8), "not before the first has gone");
        assert_eq!(link.take_many(4, 16), (4, 4));
        assert_eq!(link.take_many(4, 32), (4, 9), "pieces go wherever there is room");
    }

    #[test]
    fn bookings_are_those_of_a_plain_count_of_each_cycle() {
        let mut rng = Rng::stream(3, "slots");
        for units in [1u32, 3, 16] {
            let mut slots = Ports::new(units, 1024);
            let mut plain = vec![0u64; 20_000];
            for step in 0..4_000u64 {
                let from = step * 2 + rng.below(300);
                let count = 1 + rng.below(2 * u64::from(units));
                let (mut at, mut left, mut first) = (from as usize, count, None);
                loop {
                    let now = left.min(u64::from(units) - plain[at]);
                    plain[at] += now;
                    left -= now;
                    if now > 0 {
                        first.get_or_insert(at);
                    }
                    if left == 0 {
                        break;
                    }
                    at += 1;
                }
                // A backlog longer than the ring is the one case in which the two may differ.
                if at as u64 - from < 700 {
                    assert_eq!(
                        slots.take_many(from, count),
                        (first.unwrap() as u64, at as u64),
                        "step {step}"
                    );
                } else {
                    break;
                }
            }
        }
    }

    /// As many as come at a time, at times that go on by little and by a lot.
    fn requests(seed: u64) -> impl Iterator<Item = (u64, u64)> {
        let mut rng = Rng::stream(seed, "slots");
        let mut now = 0;
        std::iter::repeat_with(move || {
            now += match rng.below(200) {
                0 => rng.below(3 << 20),
                1 => rng.below(1 << 16),
                _ => rng.below(3),
            };
            (now + rng.below(40), 1 + rng.below(5))
        })
    }

    #[test]
    fn rounds_tell_cycles_apart_as_their_numbers_would() {
        for seed in 0..20 {
            // The same ring with numbers in full.
            let (mut slots, mut plain) = (Ports::new(3, 64), [(0u64, 0u64); 64]);
            for (from, count) in requests(seed).take(2_000) {
                let (mut at, mut left, mut first) = (from, count, None);
                while left > 0 {
                    let (cycle, taken) = &mut plain[at as usize % 64];
                    if *cycle > at {
                        break;
                    }
                    *taken = if *cycle < at { 0 } else { *taken };
                    *cycle = at;
                    let now = left.min(3 - *taken);
                    (*taken, left) = (*taken + now, left - now);
                    if now > 0 {
                        first.get_or_insert(at);
                    }
                    at += u64::from(left > 0);
                }
                assert_eq!(slots.take_many(from, count), (first.unwrap_or(at), at), "seed {seed}");
            }
        }
    }

    #[test]
    fn one_behind_a_full_cycle_is_found_as_by_a_search() {
        for seed in 0..20 {
            let (mut slots, mut plain) = (Ports::new(2, 64), Ports::new(2, 64));
            for (from, _) in requests(seed).take(5_000) {
                let expected = if plain.take_here(from, 1) { from } else { plain.search(from, 1).0 };
                assert_eq!(slots.take(from), expected, "seed {seed}");
                assert_eq!(slots, plain, "seed {seed}");
            }
        }
    }

    #[test]
    fn saved_slots_go_on_as_if_they_had_not_been_saved() {
        let (mut slots, mut link) = (Ports::new(3, 64), Link::new(3, 64));
        for (step, (from, count)) in requests(7).take(5_000).enumerate() {
            let taken = slots.take_many(from, count);
            assert_eq!(link.take_many(from, count), taken, "the width of an entry makes no difference");
            if step % 50 == 0 {
                let mut restored = Ports::new(3, 64);
                restored.check(&slots.save(), u64::MAX).unwrap();
                restored.restore(slots.save());
                assert_eq!(restored, slots);
            }
        }
    }

    #[test]
    fn a_hostile_state_is_refused() {
        let mut slots = Ports::new(2, 64);
        slots.take(7);
        let good = slots.save();
        slots.check(&good, 1_000).unwrap();
        let mut bad = good.clone();
        bad.ring[7] += 2;
        assert!(slots.check(&bad, 1_000).is_err());
        bad.ring.pop();
        assert!(slots.check(&bad, 1_000).is_err());
    }
}
