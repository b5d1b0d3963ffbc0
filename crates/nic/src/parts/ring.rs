//! Descriptor rings (manual §3.2.6 and §3.4). [`Ring`] is where one lies in memory, as its registers say: one whose
//! head or tail lies outside its length, or whose length is zero, does not move. Hardware would run off into other
//! memory, the model stands still and counts. [`DescriptorRing`] is what the chip holds of one: descriptors fetched
//! ahead, and used ones until they are written back. What a descriptor means is not known here.

use std::collections::VecDeque;
use std::collections::vec_deque::{Iter, IterMut};

use doorbell_sim::ports::DmaPort;
use doorbell_sim::{PhysAddr, Ps};
use serde::{Deserialize, Serialize};

use super::engine::Ready;
use super::timer::{Timer, Wake};

/// Bytes of a descriptor.
pub(crate) const DESCRIPTOR_BYTES: u32 = 16;
/// Descriptors in a cache line of 64 bytes: the least that a fetch ahead of need asks for.
pub(crate) const LINE_DESCRIPTORS: u32 = 4;
/// No chip fetches as many at once: a saved state that says so is refused.
const FETCHING_MAX: u64 = 1 << 16;

/// A ring that can be worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    pub base: u64,
    /// Number of descriptors, never zero.
    pub count: u32,
    pub head: u32,
    pub tail: u32,
}

impl Ring {
    /// The ring at `base` of so many bytes, or none if it makes no sense.
    pub fn new(base: u64, bytes: u32, head: u32, tail: u32) -> Option<Ring> {
        let count = bytes / DESCRIPTOR_BYTES;
        (head < count && tail < count).then_some(Ring { base, count, head, tail })
    }

    /// Steps from index `from` forward to index `to`.
    pub fn distance(&self, from: u32, to: u32) -> u32 {
        if to >= from { to - from } else { to + self.count - from }
    }

    /// The index `steps` (at most one round) after `index`.
    pub fn after(&self, index: u32, steps: u32) -> u32 {
        let sum = index + steps;
        if sum >= self.count { sum - self.count } else { sum }
    }

    /// Where the descriptor at `index` lies. Addresses wrap like the bus's 64 bits.
    fn address(&self, index: u32) -> u64 {
        self.base.wrapping_add(u64::from(index) * u64::from(DESCRIPTOR_BYTES))
    }

    /// The index of the descriptor that lies there.
    pub fn index_of(&self, address: u64) -> u32 {
        (address.wrapping_sub(self.base) / u64::from(DESCRIPTOR_BYTES)) as u32
    }

    /// Descriptors from the one at `index` to the end of its cache line.
    fn left_of_line(&self, index: u32) -> u32 {
        LINE_DESCRIPTORS - (self.address(index) / u64::from(DESCRIPTOR_BYTES)) as u32 % LINE_DESCRIPTORS
    }

    /// Descriptors that software has given and the head has not passed.
    pub fn hardware_owned(&self) -> u32 {
        self.distance(self.head, self.tail)
    }

    /// Whether software has given away all but the one descriptor that it must keep: (tail + 1) mod N = head.
    pub fn is_full(&self) -> bool {
        self.after(self.tail, 1) == self.head
    }
}

/// Descriptors side by side in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub addr: u64,
    pub count: u32,
}

/// When software wants descriptors fetched and written back (§13.4.43, §13.4.46), in descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    pub prefetch: u32,
    pub host: u32,
    pub write_back: u32,
}

impl Thresholds {
    /// Whether to fetch, with `cached` descriptors unprocessed on the chip and `available` in memory (§3.2.5, §3.4.1):
    /// always when the chip has none, otherwise when it has few and memory has enough.
    pub fn fetch(&self, cached: u32, available: u32) -> bool {
        available > 0 && (cached == 0 || cached < self.prefetch && available >= self.host)
    }
}

/// What the chip does with a ring's descriptors, whatever software wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Descriptors that it can hold.
    pub cache: u32,
    /// Most that one fetch asks for.
    pub fetch_max: u32,
    /// Fetches in flight at a time.
    pub fetches: u32,
    /// With at most this many unused ones it fetches if a line of them is there; without it, thresholds alone decide.
    pub prefetch: Option<u16>,
    /// Most that one write-back carries.
    pub batch: u32,
    /// How long a write-back that is called for waits for more.
    pub wait: Ps,
    /// Write-backs end with the cache line, and one that completes it waits for nothing.
    pub lines: bool,
}

impl Limits {
    /// The most that a write-back carries which begins with the descriptor at `first`.
    fn most(&self, ring: &Ring, first: u32) -> u32 {
        if self.lines { self.batch.min(ring.left_of_line(first)) } else { self.batch }
    }
}

/// A processed descriptor that the head has not passed.
pub(crate) trait Used {
    /// What is written back of it.
    fn words(&self) -> [u64; 2];
    /// Whether it has to be written back; otherwise the head just passes it.
    fn is_reported(&self) -> bool;
}

/// A ring whose descriptors can be moved without knowing what they mean.
pub(crate) trait RingEngine {
    /// Whether another fetch may be in flight.
    fn may_fetch(&self, limits: Limits) -> bool;
    /// The descriptors to fetch now, if thresholds and limits say so, never across the ring's end; they count as asked
    /// for. `begun` descriptors are neither unused nor used. What is on its way already counts as unused, but for one thing:
    /// while the chip has none, it asks for what there is.
    fn fetch(&mut self, ring: &Ring, thresholds: Thresholds, limits: Limits, in_progress: u32)
    -> Option<Run>;
    /// Whether a write-back that is called for goes now. If not, it goes when its wait is over.
    fn write_back_is_due(&mut self, now: Ps, ring: Option<&Ring>, limits: Limits) -> Ready;
    /// Whether as many wait for their write-back as one carries at most.
    fn fills_write_back(&self, ring: &Ring, limits: Limits) -> bool;
    /// The wake-up at the end of that wait.
    fn write_back_woken(&mut self, now: Ps) -> Wake;
    /// A write-back goes now: nothing waits any longer.
    fn cancel_wait(&mut self);
    /// Whether a used descriptor has to be written back and is not on its way. Ones that need not are passed over.
    fn has_write_back(&mut self) -> bool;
    /// The next descriptors to write back, never across the ring's end; they count as on their way.
    fn write_back(&mut self, ring: &Ring, limits: Limits) -> Run;
}

/// What the chip holds of one ring: `F` is what it keeps of a fetched descriptor, `U` of a used one.
#[derive(Debug)]
pub(crate) struct DescriptorRing<F, U> {
    /// Fetched and not begun.
    cache: VecDeque<F>,
    /// Asked for, and by how many fetches.
    fetching: u32,
    fetches: u32,
    /// Index of the next one to ask for.
    next: u32,
    /// Used, oldest first. The first `issued` ones are being written back or need not be.
    used: VecDeque<U>,
    issued: usize,
    /// Until when the write-back that is called for waits for more.
    wait: Timer,
    /// Descriptors on their way, as they lie in memory. Not state.
    scratch: Vec<u8>,
}

impl<F, U> Default for DescriptorRing<F, U> {
    fn default() -> Self {
        DescriptorRing {
            cache: VecDeque::new(),
            fetching: 0,
            fetches: 0,
            next: 0,
            used: VecDeque::new(),
            issued: 0,
            wait: Timer::default(),
            scratch: Vec::new(),
        }
    }
}

impl<F, U: Used> RingEngine for DescriptorRing<F, U> {
    fn may_fetch(&self, limits: Limits) -> bool {
        self.fetches < limits.fetches
    }

    fn fetch(
        &mut self,
        ring: &Ring,
        thresholds: Thresholds,
        limits: Limits,
        in_progress: u32,
    ) -> Option<Run> {
        let available = ring.distance(self.next, ring.tail);
        let cached = self.cache.len() as u32;
        let unused = cached + self.fetching;
        let needed = available > 0 && cached == 0 || thresholds.fetch(unused, available);
        let prefetch = limits.prefetch.is_some_and(|level| unused <= level.into());
        if !needed && !prefetch {
            return None;
        }
        let on_chip = unused + in_progress + self.used.len() as u32;
        // A tail that software has moved back must not make the engine overtake the head.
        let room = limits.cache.min(ring.count - 1).saturating_sub(on_chip);
        let count = available.min(room).min(limits.fetch_max).min(ring.count - self.next);
        if count == 0 || !needed && count < LINE_DESCRIPTORS {
            return None;
        }
        let addr = ring.address(self.next);
        self.next = ring.after(self.next, count);
        self.fetching += count;
        self.fetches += 1;
        Some(Run { addr, count })
    }

    fn write_back_is_due(&mut self, now: Ps, ring: Option<&Ring>, limits: Limits) -> Ready {
        let waits = self.used.range(self.issued..).any(|used| used.is_reported());
        if limits.wait == Ps::ZERO || !waits || ring.is_none_or(|ring| self.fills_write_back(ring, limits)) {
            return Ready::Now;
        }
        if self.wait.is_armed() {
            return Ready::Later;
        }
        self.wait.arm(now.saturating_add(limits.wait)).map_or(Ready::Later, Ready::WakeAt)
    }

    fn fills_write_back(&self, ring: &Ring, limits: Limits) -> bool {
        let most = limits.most(ring, ring.after(ring.head, self.issued as u32)) as usize;
        self.used.range(self.issued..).filter(|used| used.is_reported()).take(most).count() == most
    }

    fn write_back_woken(&mut self, now: Ps) -> Wake {
        self.wait.wake(now)
    }

    fn cancel_wait(&mut self) {
        self.wait.cancel();
    }

    fn has_write_back(&mut self) -> bool {
        let silent = self.used.range(self.issued..).take_while(|used| !used.is_reported()).count();
        self.issued += silent;
        self.issued < self.used.len()
    }

    fn write_back(&mut self, ring: &Ring, limits: Limits) -> Run {
        let first = ring.after(ring.head, self.issued as u32);
        let most = limits.most(ring, first).min(ring.count - first) as usize;
        let count = self.used.range(self.issued..).take(most).take_while(|used| used.is_reported()).count();
        self.issued += count;
        Run { addr: ring.address(first), count: count as u32 }
    }
}

impl<F, U: Used> DescriptorRing<F, U> {
    /// The next descriptor to begin, if the chip has one.
    pub fn front(&self) -> Option<&F> {
        self.cache.front()
    }

    /// The same, taken out.
    pub fn begin(&mut self) -> Option<F> {
        self.cache.pop_front()
    }

    /// Whether the chip has no descriptor to begin.
    pub fn is_empty(&self) -> bool {
        self.cache.is_empty()
    }

    /// Whether the chip has no descriptor to begin, none on its way, and none to ask for in memory.
    pub fn is_exhausted(&self, ring: Option<&Ring>) -> bool {
        self.cache.is_empty() && self.fetching == 0 && ring.is_none_or(|ring| self.has_reached(ring))
    }

    /// A descriptor is used.
    pub fn finish(&mut self, used: U) {
        self.used.push_back(used);
    }

    /// Used descriptors that the head has not passed.
    pub fn used(&self) -> Iter<'_, U> {
        self.used.iter()
    }

    /// Those of them that wait for their write-back, or that need none.
    pub fn waiting(&self) -> Iter<'_, U> {
        self.used.range(self.issued..)
    }

    /// The used one behind the `last` oldest and those before it that wait, to be changed.
    pub fn waiting_up_to(&mut self, last: usize) -> IterMut<'_, U> {
        self.used.range_mut(self.issued.min(last)..=last)
    }

    /// Descriptors asked for are in memory to be read: `keep` says what stays of each, by its place in the run.
    pub fn fetched<P: DmaPort + ?Sized>(
        &mut self,
        run: Run,
        port: &mut P,
        mut keep: impl FnMut(&mut P, u32, [u64; 2]) -> F,
    ) {
        self.fetching -= run.count;
        self.fetches -= 1;
        self.scratch.resize((run.count * DESCRIPTOR_BYTES) as usize, 0);
        port.read(PhysAddr(run.addr), &mut self.scratch);
        let (descriptors, _) = self.scratch.as_chunks::<16>();
        for (index, descriptor) in (0..).zip(descriptors) {
            let (words, _) = descriptor.as_chunks::<8>();
            let words = [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])];
            self.cache.push_back(keep(port, index, words));
        }
    }

    /// Whether everything up to the tail has been asked for.
    pub fn has_reached(&self, ring: &Ring) -> bool {
        self.next == ring.tail
    }

    /// Whether everything up to the tail has been fetched.
    pub fn has_fetched_all(&self, ring: &Ring) -> bool {
        self.fetching == 0 && self.has_reached(ring)
    }

    /// The `count` oldest used descriptors are written back: `each` is told of them. Returns what is now in memory.
    pub fn written_back(&mut self, count: u32, mut each: impl FnMut(&U)) -> &[u8] {
        self.scratch.clear();
        self.issued -= count as usize;
        for used in self.used.drain(..count as usize) {
            let [first, second] = used.words();
            self.scratch.extend_from_slice(&first.to_le_bytes());
            self.scratch.extend_from_slice(&second.to_le_bytes());
            each(&used);
        }
        &self.scratch
    }

    /// Forgets the descriptors at the front that need not be written back: the head passes as many.
    pub fn retire_unreported(&mut self) -> u32 {
        let silent = self.used.iter().take_while(|used| !used.is_reported()).count();
        self.used.drain(..silent);
        self.issued = self.issued.saturating_sub(silent);
        silent as u32
    }

    /// Software has moved the ring: what the chip held of it is lost, and the next descriptor is the head's.
    pub fn rewind(&mut self, head: u32) {
        self.cache.clear();
        self.used.clear();
        (self.fetching, self.fetches, self.issued) = (0, 0, 0);
        self.next = head;
    }

    /// What a checkpoint keeps; `keep` says what of a fetched descriptor.
    pub fn save<S>(&self, keep: impl Fn(&F) -> S) -> RingState<S, U>
    where
        U: Clone,
    {
        RingState {
            cache: self.cache.iter().map(keep).collect(),
            fetching: self.fetching,
            next: self.next,
            used: self.used.clone(),
            issued: self.issued as u64,
            wait: self.wait,
        }
    }
}

/// A saved [`DescriptorRing`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RingState<S, U> {
    cache: VecDeque<S>,
    fetching: u32,
    next: u32,
    used: VecDeque<U>,
    issued: u64,
    wait: Timer,
}

impl<S, U: Used> RingState<S, U> {
    /// Whether `fetching` and `writing` descriptors in flight are what the ring waits for.
    pub fn matches_in_flight(&self, (fetching, writing): (u64, u64)) -> bool {
        let issued = usize::try_from(self.issued).unwrap_or(usize::MAX);
        let reported = self.used.iter().take(issued).filter(|used| used.is_reported()).count() as u64;
        issued <= self.used.len()
            && writing == reported
            && fetching == u64::from(self.fetching)
            && fetching < FETCHING_MAX
    }

    /// Whether what is on the chip, `begun` descriptors besides, lies between the head of a ring of `count` descriptors
    /// and the next one to ask for.
    pub fn matches_head(&self, head: u32, count: u32, in_progress: usize) -> bool {
        let on_chip = self.cache.len() + self.fetching as usize + in_progress + self.used.len();
        if head < count {
            self.next < count && on_chip < count as usize && (head + on_chip as u32) % count == self.next
        } else {
            on_chip == 0 && self.next == head
        }
    }

    /// The live one, of which so many fetches are in flight.
    pub fn load<F>(self, fetches: u32, keep: impl Fn(S) -> F) -> DescriptorRing<F, U> {
        DescriptorRing {
            cache: self.cache.into_iter().map(keep).collect(),
            fetching: self.fetching,
            fetches,
            next: self.next,
            used: self.used,
            issued: self.issued as usize,
            wait: self.wait,
            scratch: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
