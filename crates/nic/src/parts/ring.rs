//! Descriptor rings (manual §3.2.6 and §3.4). [`Ring`] is a ring in memory as its registers describe it. A
//! ring with length zero, or with its head or tail outside its length, is invalid. Hardware would access
//! other memory; the model stops the ring and counts it. [`DescriptorRing`] holds a ring's descriptors on the
//! chip: prefetched ones, and used ones until their write-back. The contents of descriptors are not
//! interpreted here.

use std::collections::VecDeque;
use std::collections::vec_deque::{Iter, IterMut};

use doorbell_sim::ports::DmaPort;
use doorbell_sim::{PhysAddr, Ps};
use serde::{Deserialize, Serialize};

use super::engine::Ready;
use super::timer::{Timer, Wake};

/// Size of a descriptor in bytes.
pub(crate) const DESCRIPTOR_BYTES: u32 = 16;
/// Descriptors per cache line of 64 bytes; the minimum size of a prefetch.
pub(crate) const LINE_DESCRIPTORS: u32 = 4;
/// Limit of descriptors being fetched, above that of any chip; a saved state that exceeds it is rejected.
const FETCHING_MAX: u64 = 1 << 16;

/// A valid ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    pub base: u64,
    /// Number of descriptors, never zero.
    pub count: u32,
    pub head: u32,
    pub tail: u32,
}

impl Ring {
    /// Returns the ring of `bytes` bytes at `base`; `None` if it is invalid.
    pub fn new(base: u64, bytes: u32, head: u32, tail: u32) -> Option<Ring> {
        let count = bytes / DESCRIPTOR_BYTES;
        (head < count && tail < count).then_some(Ring { base, count, head, tail })
    }

    /// Number of steps forward from index `from` to index `to`.
    pub fn distance(&self, from: u32, to: u32) -> u32 {
        if to >= from { to - from } else { to + self.count - from }
    }

    /// Returns the index `steps` (at most the ring's length) after `index`.
    pub fn after(&self, index: u32, steps: u32) -> u32 {
        let sum = index + steps;
        if sum >= self.count { sum - self.count } else { sum }
    }

    /// Address of the descriptor at `index`. Addresses wrap at 64 bits, as on the bus.
    fn address(&self, index: u32) -> u64 {
        self.base.wrapping_add(u64::from(index) * u64::from(DESCRIPTOR_BYTES))
    }

    /// Index of the descriptor at this address.
    pub fn index_of(&self, address: u64) -> u32 {
        (address.wrapping_sub(self.base) / u64::from(DESCRIPTOR_BYTES)) as u32
    }

    /// Number of descriptors from `index` to the end of its cache line.
    fn left_of_line(&self, index: u32) -> u32 {
        LINE_DESCRIPTORS - (self.address(index) / u64::from(DESCRIPTOR_BYTES)) as u32 % LINE_DESCRIPTORS
    }

    /// Number of descriptors owned by hardware, from head to tail.
    pub fn hardware_owned(&self) -> u32 {
        self.distance(self.head, self.tail)
    }

    /// Whether hardware owns all descriptors except the one that software must keep: (tail + 1) mod N = head.
    pub fn is_full(&self) -> bool {
        self.after(self.tail, 1) == self.head
    }
}

/// Contiguous descriptors in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub addr: u64,
    pub count: u32,
}

/// Fetch and write-back thresholds set by software (§13.4.43, §13.4.46), in descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    pub prefetch: u32,
    pub host: u32,
    pub write_back: u32,
}

impl Thresholds {
    /// Whether to fetch, with `cached` unused descriptors on the chip and `available` in memory (§3.2.5,
    /// §3.4.1): always if the chip has none, otherwise below the prefetch threshold if memory has at least
    /// `host`.
    pub fn fetch(&self, cached: u32, available: u32) -> bool {
        available > 0 && (cached == 0 || cached < self.prefetch && available >= self.host)
    }
}

/// Limits of the chip for a ring, independent of the thresholds that software sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Capacity in descriptors.
    pub cache: u32,
    /// Maximum number of descriptors per fetch.
    pub fetch_max: u32,
    /// Maximum number of fetches in flight.
    pub fetches: u32,
    /// With at most this many unused descriptors, the chip fetches if a cache line of them is available.
    /// `None`: only the thresholds apply.
    pub prefetch: Option<u16>,
    /// Maximum number of descriptors per write-back.
    pub batch: u32,
    /// Time for which a requested write-back waits for more descriptors.
    pub wait: Ps,
    /// Write-backs end at cache lines; one that completes its line does not wait.
    pub lines: bool,
}

impl Limits {
    /// Maximum size of a write-back that starts with the descriptor at `first`.
    fn most(&self, ring: &Ring, first: u32) -> u32 {
        if self.lines { self.batch.min(ring.left_of_line(first)) } else { self.batch }
    }
}

/// A processed descriptor that the head has not passed.
pub(crate) trait Used {
    /// Contents to write back.
    fn words(&self) -> [u64; 2];
    /// Whether it must be written back; otherwise only the head advances.
    fn is_reported(&self) -> bool;
}

/// Fetch and write-back of a ring, independent of the descriptor format.
pub(crate) trait RingEngine {
    /// Whether the number of fetches in flight permits another one.
    fn may_fetch(&self, limits: Limits) -> bool;
    /// Returns the descriptors to fetch now, if thresholds and limits require a fetch, and counts them as
    /// being fetched. A fetch does not cross the end of the ring. `in_progress` descriptors occupy the chip
    /// but are neither unused nor used. Descriptors being fetched count as unused, except that a chip without
    /// descriptors fetches as many as are available.
    fn fetch(&mut self, ring: &Ring, thresholds: Thresholds, limits: Limits, in_progress: u32)
    -> Option<Run>;
    /// Whether a requested write-back is issued now; otherwise it waits until the wait timer expires.
    fn write_back_is_due(&mut self, now: Ps, ring: Option<&Ring>, limits: Limits) -> Ready;
    /// Whether enough descriptors wait for a write-back of maximum size.
    fn fills_write_back(&self, ring: &Ring, limits: Limits) -> bool;
    /// Handles a wake-up of the wait timer.
    fn on_wait_wake(&mut self, now: Ps) -> Wake;
    /// Cancels the wait timer, because a write-back is issued now.
    fn cancel_wait(&mut self);
    /// Whether a used descriptor must be written back and no write-back is issued for it. Skips descriptors
    /// that need no write-back.
    fn has_write_back(&mut self) -> bool;
    /// Returns the next descriptors to write back and counts them as issued. A write-back does not cross the
    /// end of the ring.
    fn write_back(&mut self, ring: &Ring, limits: Limits) -> Run;
}

/// Descriptors of one ring that are on the chip. `F` is the on-chip form of a fetched descriptor, `U` of a
/// used one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct DescriptorRing<F, U> {
    /// Fetched descriptors that are not being processed yet.
    cache: VecDeque<F>,
    /// Number of fetches in flight. Not saved: it follows from the DMA in flight.
    #[serde(skip)]
    fetches: u32,
    /// Descriptors being fetched.
    fetching: u32,
    /// Index of the next descriptor to fetch.
    next: u32,
    /// Used descriptors, oldest first. The first `issued` are being written back or need no write-back.
    used: VecDeque<U>,
    issued: usize,
    /// Timer of a requested write-back that waits for more descriptors.
    wait: Timer,
    /// Buffer for descriptors in their memory format.
    #[serde(skip)]
    scratch: Vec<u8>,
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
        // If software moves the tail back, the engine must not overtake the head.
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

    fn on_wait_wake(&mut self, now: Ps) -> Wake {
        self.wait.wake(now)
    }

    fn cancel_wait(&mut self) {
        self.wait.cancel();
    }

    fn has_write_back(&mut self) -> bool {
        let unreported = self.used.range(self.issued..).take_while(|used| !used.is_reported()).count();
        self.issued += unreported;
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
    /// The next descriptor to process, if the chip has one.
    pub fn front(&self) -> Option<&F> {
        self.cache.front()
    }

    /// Takes the next descriptor to process out of the cache.
    pub fn begin(&mut self) -> Option<F> {
        self.cache.pop_front()
    }

    /// Whether the chip has no descriptor to process.
    pub fn is_empty(&self) -> bool {
        self.cache.is_empty()
    }

    /// Whether the chip has no descriptor to process, no fetch in flight, and nothing left to fetch.
    pub fn is_exhausted(&self, ring: Option<&Ring>) -> bool {
        self.cache.is_empty() && self.fetching == 0 && ring.is_none_or(|ring| self.has_reached(ring))
    }

    /// Adds a used descriptor.
    pub fn finish(&mut self, used: U) {
        self.used.push_back(used);
    }

    /// Used descriptors that the head has not passed.
    pub fn used(&self) -> Iter<'_, U> {
        self.used.iter()
    }

    /// Used descriptors whose write-back is not issued, including those that need none.
    pub fn waiting(&self) -> Iter<'_, U> {
        self.used.range(self.issued..)
    }

    /// Waiting descriptors up to and including index `last` of the used ones, to be modified.
    pub fn waiting_up_to(&mut self, last: usize) -> IterMut<'_, U> {
        self.used.range_mut(self.issued.min(last)..=last)
    }

    /// Completes the fetch of `run`: reads its descriptors from memory. `keep` converts each one, given its
    /// index in the run and its words, to its on-chip form.
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

    /// Whether all descriptors up to the tail are fetched or being fetched.
    pub fn has_reached(&self, ring: &Ring) -> bool {
        self.next == ring.tail
    }

    /// Whether all descriptors up to the tail are fetched.
    pub fn has_fetched_all(&self, ring: &Ring) -> bool {
        self.fetching == 0 && self.has_reached(ring)
    }

    /// Completes the write-back of the `count` oldest used descriptors and calls `each` for each of them.
    /// Returns the bytes to write to memory.
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

    /// Removes the descriptors at the front that need no write-back. Returns their number, by which the head
    /// advances.
    pub fn retire_unreported(&mut self) -> u32 {
        let unreported = self.used.iter().take_while(|used| !used.is_reported()).count();
        self.used.drain(..unreported);
        self.issued = self.issued.saturating_sub(unreported);
        unreported as u32
    }

    /// Discards all descriptors on the chip, because software has changed the ring. The next fetch starts at
    /// the head.
    pub fn rewind(&mut self, head: u32) {
        self.cache.clear();
        self.used.clear();
        (self.fetching, self.fetches, self.issued) = (0, 0, 0);
        self.next = head;
    }

    /// Whether the numbers of descriptors being fetched and written back match the requests in flight.
    pub fn matches_in_flight(&self, fetching: u64, writing: u64) -> bool {
        let reported = self.used.iter().take(self.issued).filter(|used| used.is_reported()).count() as u64;
        self.issued <= self.used.len()
            && writing == reported
            && fetching == u64::from(self.fetching)
            && fetching < FETCHING_MAX
    }

    /// Whether the descriptors on the chip, including `in_progress` others, are exactly those from the head
    /// of a ring of `count` descriptors to the next one to fetch.
    pub fn matches_head(&self, head: u32, count: u32, in_progress: usize) -> bool {
        let on_chip = self.cache.len() + self.fetching as usize + in_progress + self.used.len();
        if head < count {
            self.next < count && on_chip < count as usize && (head + on_chip as u32) % count == self.next
        } else {
            on_chip == 0 && self.next == head
        }
    }

    /// Sets the number of fetches in flight of a restored ring.
    pub fn resume(&mut self, fetches: u32) {
        self.fetches = fetches;
    }
}

#[cfg(test)]
mod tests;
