//! Bookings of a resource with a fixed number of units per cycle: cache ports, bytes of a link.
//!
//! As in [`Calendar`](doorbell_sim::Calendar), requests may come in any order of time and take the first free
//! units at or after theirs. Here the units are counted per cycle in a ring, so a booking costs a few
//! operations, however scattered the bookings are.
//!
//! The ring covers the cycles before the *horizon*, half a ring length after the current time `now`, before
//! which few further requests are expected. Bookings after the horizon (a device's are timed when issued,
//! tens of microseconds ahead) are counted in a map and move into the ring when the horizon reaches them. A
//! booking is thus kept until it is at least half a ring length in the past. An older cycle is dropped when a
//! later one takes its entry. A request for such a cycle is served at once, possibly too early but never too
//! late; [`Slots::late`] counts these.
//!
//! The rings of all harts must fit into the host's caches. An entry therefore holds only its cycle's round,
//! counted from `base`, and not the cycle number.

use std::collections::BTreeMap;

use doorbell_sim::{Cycle, Domain};
use serde::{Deserialize, Serialize};

/// Position of the cycle in a saved entry; the bits below count the units taken.
const COUNT_BITS: u32 = 16;

/// Ring entry: the units taken, and above them the round.
pub(crate) trait Entry: Copy + Default + Into<u64> {
    /// Bits for the units.
    const COUNT_BITS: u32;
    /// Bits for the round.
    const ROUND_BITS: u32 = 8 * size_of::<Self>() as u32 - Self::COUNT_BITS;

    /// The entry with this value; round and units must fit into their bits.
    fn of(word: u64) -> Self;
}

/// For up to 127 units per cycle.
impl Entry for u16 {
    const COUNT_BITS: u32 = 7;

    #[inline(always)]
    fn of(word: u64) -> u16 {
        word as u16
    }
}

/// For up to 65535 units per cycle.
impl Entry for u32 {
    const COUNT_BITS: u32 = 16;

    #[inline(always)]
    fn of(word: u64) -> u32 {
        word as u32
    }
}

/// Ports of a cache, and other resources with few units per cycle.
pub(crate) type Ports<D> = Slots<u16, D>;
/// Bytes per cycle of a link.
pub(crate) type Link<D> = Slots<u32, D>;

/// Cycles of the first and the last bytes of a line on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer<D> {
    pub first: Cycle<D>,
    pub last: Cycle<D>,
}

/// Bookings of one resource in clock domain `D`; see the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slots<E, D> {
    /// Units per cycle.
    units: u64,
    ring: Vec<E>,
    /// The ring's length as a power of two.
    len_bits: u32,
    /// First cycle that an entry can represent. It is chosen in steps of half the span of the rounds.
    base: u64,
    /// Cycles from `base` to the horizon.
    reach: u64,
    /// Units taken per cycle from the horizon on.
    far: BTreeMap<Cycle<D>, u64>,
    /// An interval in which all cycles are full, cached so that a long queue is not walked repeatedly.
    full: (Cycle<D>, Cycle<D>),
    late: u64,
}

/// Saved state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "")]
pub(crate) struct SlotsState<D> {
    #[serde(with = "words")]
    ring: Vec<u64>,
    horizon: Cycle<D>,
    far: Vec<(Cycle<D>, u64)>,
    full: (Cycle<D>, Cycle<D>),
    late: u64,
}

/// Limit of bookings after the horizon accepted from a saved state.
const FAR_MAX: usize = 1 << 20;

impl<E: Entry, D: Domain> Slots<E, D> {
    /// A resource with `units` units per cycle and a ring of `cycles` cycles, a power of two.
    pub fn new(units: u32, cycles: usize) -> Slots<E, D> {
        assert!(cycles.is_power_of_two() && (1..1 << E::COUNT_BITS).contains(&u64::from(units)));
        let ring = vec![E::default(); cycles];
        let reach = cycles as u64 / 2;
        let (units, len_bits) = (u64::from(units), cycles.ilog2());
        let (far, full) = (BTreeMap::new(), Default::default());
        Slots { units, ring, len_bits, base: 0, reach, far, full, late: 0 }
    }

    /// Number of cycles that the rounds can represent, from `base` on.
    fn span(&self) -> u64 {
        1 << (self.len_bits + E::ROUND_BITS)
    }

    /// Requests for a time before the ring, possibly served too early.
    pub fn late(&self) -> u64 {
        self.late
    }

    #[inline(always)]
    fn index(&self, at: Cycle<D>) -> usize {
        at.number() as usize & (self.ring.len() - 1)
    }

    /// Entry value of this cycle with no units taken.
    #[inline(always)]
    fn empty(&self, at: Cycle<D>) -> u64 {
        (at.number().wrapping_sub(self.base) >> self.len_bits) << E::COUNT_BITS
    }

    /// The first cycle after those of the ring.
    fn horizon(&self) -> Cycle<D> {
        Cycle::new(self.base + self.reach)
    }

    /// Whether the ring covers this cycle.
    #[inline(always)]
    fn reaches(&self, at: Cycle<D>) -> bool {
        at.number().wrapping_sub(self.base) < self.reach
    }

    /// Takes one unit in the first cycle from `from` on with a free one, and returns the cycle. `now` is the
    /// current time.
    #[inline]
    pub fn take(&mut self, from: Cycle<D>, now: Cycle<D>) -> Cycle<D> {
        if self.take_here(from, 1) { from } else { self.take_later(from, now) }
    }

    /// The same if this cycle has none. The next one usually has; this is a shortcut with the result of
    /// [`search`](Slots::search).
    #[inline]
    fn take_later(&mut self, from: Cycle<D>, now: Cycle<D>) -> Cycle<D> {
        let next = from + 1;
        let full = self.reaches(from) && self.ring[self.index(from)].into() == self.empty(from) + self.units;
        // A cached full interval is skipped and kept by `search`.
        let walked_over = self.full.0 <= next && from < self.full.1;
        if full && !walked_over && self.take_here(next, 1) {
            self.full = (from, next);
            return next;
        }
        self.search(from, 1, now).first
    }

    /// Takes `count` units if this cycle has all of them free.
    #[inline(always)]
    fn take_here(&mut self, from: Cycle<D>, count: u64) -> bool {
        let (index, empty) = (self.index(from), self.empty(from));
        let entry: u64 = self.ring[index].into();
        // An entry of an earlier round is less than this cycle's empty entry.
        let room = entry + count <= empty + self.units && count <= self.units && self.reaches(from);
        if room {
            self.ring[index] = E::of(entry.max(empty) + count);
        }
        room
    }

    /// Takes the first `count` free units from `from` on. Returns the cycles of the first and the last.
    #[inline]
    pub fn take_many(&mut self, from: Cycle<D>, count: u64, now: Cycle<D>) -> Transfer<D> {
        match self.take_here(from, count) {
            true => Transfer { first: from, last: from },
            false => self.take_two(from, count, now),
        }
    }

    /// Shortcut for a line that fills one cycle and part of the next, both unused, as on links of half a
    /// line's width.
    #[inline]
    fn take_two(&mut self, from: Cycle<D>, count: u64, now_at: Cycle<D>) -> Transfer<D> {
        let [here, there] = [from, from + 1].map(|at| self.index(at));
        let [now, next] = [from, from + 1].map(|at| self.empty(at));
        let free = self.ring[here].into() < now && self.ring[there].into() < next;
        let within = self.reaches(from) && self.reaches(from + 1);
        if !free || !within || count <= self.units || count > 2 * self.units {
            return self.search(from, count, now_at);
        }
        self.ring[here] = E::of(now + self.units);
        self.ring[there] = E::of(next + (count - self.units));
        self.full = (from, from + 1);
        Transfer { first: from, last: from + 1 }
    }

    /// The general case.
    #[inline(never)]
    fn search(&mut self, from: Cycle<D>, mut count: u64, now: Cycle<D>) -> Transfer<D> {
        let (mut at, mut first) = (from, None);
        let mut full_from = from;
        loop {
            if self.full.0 <= at && at < self.full.1 {
                full_from = self.full.0.min(full_from);
                at = self.full.1;
            }
            let Some(taken) = self.take_up_to(at, count, now) else {
                self.late += 1;
                return Transfer { first: first.unwrap_or(at), last: at };
            };
            if taken > 0 {
                first.get_or_insert(at);
                count -= taken;
            }
            if count == 0 {
                // All cycles from the request to the one before are full now.
                if at > full_from {
                    self.full = (full_from, at);
                }
                return Transfer { first: first.unwrap_or(at), last: at };
            }
            at += 1;
        }
    }

    /// Takes up to `count` of the free units of a cycle; `None` if the cycle is before the ring.
    fn take_up_to(&mut self, at: Cycle<D>, count: u64, now: Cycle<D>) -> Option<u64> {
        if at >= self.horizon() {
            self.advance(now);
        }
        if at >= self.horizon() {
            let taken = self.far.entry(at).or_default();
            let more = count.min(self.units - *taken);
            *taken += more;
            return Some(more);
        }
        let (index, empty) = (self.index(at), self.empty(at));
        let entry: u64 = self.ring[index].into();
        if at.number() < self.base || entry >> E::COUNT_BITS > empty >> E::COUNT_BITS {
            return None;
        }
        let taken = entry.saturating_sub(empty);
        let more = count.min(self.units - taken);
        if more > 0 {
            self.ring[index] = E::of(empty + taken + more);
        }
        Some(more)
    }

    /// Units taken from this cycle on.
    pub fn taken_from(&self, cycle: Cycle<D>) -> u64 {
        let taken = |(index, entry): (u64, &E)| {
            let entry: u64 = (*entry).into();
            let at = self.base + (entry >> E::COUNT_BITS << self.len_bits) + index;
            if at >= cycle.number() { entry & ((1 << E::COUNT_BITS) - 1) } else { 0 }
        };
        let near = (0..).zip(&self.ring).map(taken).sum::<u64>();
        near + self.far.range(cycle..).map(|far| far.1).sum::<u64>()
    }

    /// Moves the horizon to half a ring after `now`, and the map's bookings before it into the ring.
    #[cold]
    fn advance(&mut self, now: Cycle<D>) {
        let horizon = now + self.ring.len() as u64 / 2;
        if horizon <= self.horizon() {
            return;
        }
        self.set_horizon(horizon);
        while let Some(next) = self.far.first_entry().filter(|next| *next.key() < horizon) {
            let (at, taken) = next.remove_entry();
            // The current time may have advanced by more than the span of the rounds.
            if at.number() >= self.base {
                let index = self.index(at);
                self.ring[index] = E::of(self.empty(at) + taken);
            }
        }
    }

    /// Start of the rounds with this horizon.
    fn base_for(&self, horizon: Cycle<D>) -> u64 {
        let half = self.span() / 2;
        ((horizon.number() - 1) / half).saturating_sub(1) * half
    }

    /// Sets the horizon and raises `base` if necessary.
    fn set_horizon(&mut self, horizon: Cycle<D>) {
        let base = self.base_for(horizon);
        let gone = (base - self.base) >> self.len_bits << E::COUNT_BITS;
        if gone > 0 {
            for entry in &mut self.ring {
                let word: u64 = (*entry).into();
                // Entries before the new base are dropped completely.
                *entry = if word < gone { E::default() } else { E::of(word - gone) };
            }
        }
        (self.base, self.reach) = (base, horizon.number() - base);
    }

    pub fn save(&self) -> SlotsState<D> {
        let word = |(index, entry): (u64, &E)| {
            let entry: u64 = (*entry).into();
            let (round, taken) = (entry >> E::COUNT_BITS, entry & ((1 << E::COUNT_BITS) - 1));
            let cycle = self.base + (round << self.len_bits) + index;
            if taken == 0 { 0 } else { cycle << COUNT_BITS | taken }
        };
        SlotsState {
            ring: (0..).zip(&self.ring).map(word).collect(),
            horizon: self.horizon(),
            far: self.far.iter().map(|(cycle, taken)| (*cycle, *taken)).collect(),
            full: self.full,
            late: self.late,
        }
    }

    /// Checks a saved state; no time may be after `latest`.
    pub fn check(&self, state: &SlotsState<D>, latest: Cycle<D>) -> Result<(), String> {
        if state.ring.len() != self.ring.len() {
            return Err(format!(
                "the saved state has bookings of {} cycles, the ring has {}",
                state.ring.len(),
                self.ring.len()
            ));
        }
        for (index, entry) in state.ring.iter().enumerate() {
            let (cycle, taken) = (Cycle::new(entry >> COUNT_BITS), entry & ((1 << COUNT_BITS) - 1));
            let elsewhere = self.index(cycle) != index || cycle >= state.horizon;
            if taken > self.units || elsewhere && *entry != 0 {
                return Err("a port or link is booked beyond its capacity".to_owned());
            }
        }
        let units = |far: &(Cycle<D>, u64)| (1..=self.units).contains(&far.1) && far.0 >= state.horizon;
        let in_order = state.far.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if state.far.len() > FAR_MAX || !in_order || !state.far.iter().all(units) {
            return Err("a port or link is booked beyond its capacity after the horizon".to_owned());
        }
        let last = state.far.last().map_or(Cycle::ZERO, |far| far.0);
        if last > latest
            || !(self.ring.len() as u64 / 2..=latest.number() + self.ring.len() as u64)
                .contains(&state.horizon.number())
        {
            return Err("the time of a port's or link's booking is out of range".to_owned());
        }
        if state.full.1 > latest {
            return Err("the end of a port's or link's full interval is out of range".to_owned());
        }
        Ok(())
    }

    pub fn restore(&mut self, state: SlotsState<D>) {
        self.base = self.base_for(state.horizon);
        self.reach = state.horizon.number() - self.base;
        for (index, saved) in state.ring.iter().enumerate() {
            let (cycle, taken) = (Cycle::new(saved >> COUNT_BITS), saved & ((1 << COUNT_BITS) - 1));
            let kept = taken > 0 && cycle.number() >= self.base;
            self.ring[index] = if kept { E::of(self.empty(cycle) + taken) } else { E::default() };
        }
        self.far = state.far.into_iter().collect();
        (self.full, self.late) = (state.full, state.late);
    }
}

/// Serializes a ring as one byte string. There are dozens of rings with thousands of entries: serialized one
/// by one they took most of the time of saving and restoring a timed machine.
mod words {
    use doorbell_sim::snapshot::byte_string;
    use serde::de::{Deserializer, Error};
    use serde::ser::Serializer;

    const BYTES: usize = size_of::<u64>();

    pub fn serialize<S: Serializer>(words: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = vec![0; words.len() * BYTES];
        for (place, word) in bytes.chunks_exact_mut(BYTES).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        byte_string::serialize(&bytes, serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
        let bytes = byte_string::deserialize(deserializer)?;
        let (words, []) = bytes.as_chunks::<BYTES>() else {
            return Err(D::Error::invalid_length(bytes.len(), &"whole words of eight bytes"));
        };
        Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }
}

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
