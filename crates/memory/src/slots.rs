//! Bookings of a resource that serves so many units a cycle: ports of a cache, bytes of a link.
//!
//! Like [`Calendar`](doorbell_sim::Calendar), requests may come in any order of time and take the first room at or after
//! theirs; unlike it, the room is counted for each cycle in a ring, so that a booking costs a few operations however
//! scattered the bookings are. What lies further back than the ring is long is forgotten: a request from there is
//! served at once.

use serde::{Deserialize, Serialize};

/// Bits of an entry that count the units taken; above them stands the cycle.
const COUNT_BITS: u32 = 16;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slots {
    /// Units a cycle.
    units: u64,
    state: SlotsState,
}

/// What a snapshot keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SlotsState {
    #[serde(with = "words")]
    ring: Vec<u64>,
    /// A stretch of cycles that are known to be full, so that a long queue is not walked again and again.
    full: (u64, u64),
}

impl Slots {
    /// A resource of `units` units a cycle (at most 65535) that remembers `cycles` cycles, a power of two.
    pub fn new(units: u32, cycles: usize) -> Slots {
        assert!(cycles.is_power_of_two() && (1..1 << COUNT_BITS).contains(&units));
        Slots { units: u64::from(units), state: SlotsState { ring: vec![0; cycles], full: (0, 0) } }
    }

    /// Takes one unit in the first cycle from `from` on that has one. Returns the cycle.
    #[inline]
    pub fn take(&mut self, from: u64) -> u64 {
        let index = from as usize & (self.state.ring.len() - 1);
        let entry = &mut self.state.ring[index];
        let empty = from << COUNT_BITS;
        if *entry < empty + self.units {
            *entry = (*entry).max(empty) + 1;
            return from;
        }
        self.search(from, 1).0
    }

    /// Takes `count` units, the first ones that are free from `from` on. Returns the cycles of the first and the last.
    #[inline]
    pub fn take_many(&mut self, from: u64, count: u64) -> (u64, u64) {
        let index = from as usize & (self.state.ring.len() - 1);
        let entry = &mut self.state.ring[index];
        let empty = from << COUNT_BITS;
        // An entry of an earlier cycle is less than this one's, empty.
        if *entry + count <= empty + self.units && count <= self.units {
            *entry = (*entry).max(empty) + count;
            return (from, from);
        }
        self.take_two(from, count)
    }

    /// A line that fills a cycle and goes on in the next, as on links of half a line's width, with nothing in its way.
    #[inline]
    fn take_two(&mut self, from: u64, count: u64) -> (u64, u64) {
        let mask = self.state.ring.len() - 1;
        let (now, next) = (from << COUNT_BITS, (from + 1) << COUNT_BITS);
        let here = from as usize & mask;
        let there = (from + 1) as usize & mask;
        let free = self.state.ring[here] < now && self.state.ring[there] < next;
        if !free || count <= self.units || count > 2 * self.units {
            return self.search(from, count);
        }
        self.state.ring[here] = now + self.units;
        self.state.ring[there] = next + (count - self.units);
        self.state.full = (from, from + 1);
        (from, from + 1)
    }

    /// The general case.
    #[inline(never)]
    fn search(&mut self, from: u64, mut count: u64) -> (u64, u64) {
        let mask = self.state.ring.len() - 1;
        let (mut at, mut first) = (from, None);
        let mut full_from = from;
        loop {
            if self.state.full.0 <= at && at < self.state.full.1 {
                full_from = self.state.full.0.min(full_from);
                at = self.state.full.1;
            }
            let entry = &mut self.state.ring[at as usize & mask];
            let (cycle, taken) = (*entry >> COUNT_BITS, *entry & ((1 << COUNT_BITS) - 1));
            if cycle > at {
                // Longer ago than the ring remembers.
                return (first.unwrap_or(at), at);
            }
            let taken = if cycle == at { taken } else { 0 };
            let now = count.min(self.units - taken);
            if now > 0 {
                *entry = at << COUNT_BITS | (taken + now);
                first.get_or_insert(at);
                count -= now;
            }
            if count == 0 {
                // Everything from the request to the cycle before is full now.
                if at > full_from {
                    self.state.full = (full_from, at);
                }
                return (first.unwrap_or(at), at);
            }
            at += 1;
        }
    }

    pub fn save(&self) -> SlotsState {
        self.state.clone()
    }

    /// Says what is impossible about a saved state with nothing after `latest`.
    pub fn check(&self, state: &SlotsState, latest: u64) -> Result<(), String> {
        let mask = self.state.ring.len() - 1;
        if state.ring.len() != self.state.ring.len() {
            return Err(format!("bookings of {} cycles for {}", state.ring.len(), self.state.ring.len()));
        }
        for (index, entry) in state.ring.iter().enumerate() {
            let (cycle, taken) = (entry >> COUNT_BITS, entry & ((1 << COUNT_BITS) - 1));
            if taken > self.units || cycle as usize & mask != index && *entry != 0 {
                return Err("a port or link is booked beyond what it has".to_owned());
            }
        }
        if state.full.1 > latest {
            return Err("a port or link is full for too long".to_owned());
        }
        Ok(())
    }

    pub fn restore(&mut self, state: SlotsState) {
        self.state = state;
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
        let mut ports = Slots::new(2, 64);
        let served: Vec<u64> = (0..5).map(|_| ports.take(10)).collect();
        assert_eq!(served, [10, 10, 11, 11, 12]);
        assert_eq!(ports.take(9), 9, "an earlier one is not queued behind later ones");
        assert_eq!(ports.take(13), 13);
    }

    #[test]
    fn a_line_takes_as_many_cycles_as_the_link_is_narrow() {
        let mut link = Slots::new(32, 64);
        assert_eq!(link.take_many(5, 64), (5, 6));
        assert_eq!(link.take_many(5, 64), (7, 8), "not before the first has gone");
        assert_eq!(link.take_many(4, 16), (4, 4));
        assert_eq!(link.take_many(4, 32), (4, 9), "pieces go wherever there is room");
    }

    #[test]
    fn bookings_are_those_of_a_plain_count_of_each_cycle() {
        let mut rng = Rng::stream(3, "slots");
        for units in [1u32, 3, 16] {
            let mut slots = Slots::new(units, 1024);
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

    #[test]
    fn a_hostile_state_is_refused() {
        let mut slots = Slots::new(2, 64);
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
