//! The store queue (in-order core: store buffer): holds a store from its dispatch until it is written to the
//! cache.
//!
//! A load finds the youngest older store that overlaps its line and bytes. Committed stores go to the cache
//! in program order, `drain_width` per cycle, with at most `drains_in_flight` outstanding. A store to the
//! same line as the previous one merges with it while that one is not yet written. With `store_drain =
//! "in-order"` no store is written before an older one. Entries are released in program order.

use doorbell_sim::memory::{AccessKind, CoreAccess, CoreMemory, LINE_BYTES};
use doorbell_sim::{CoreCycle, Op};
use serde::{Deserialize, Serialize};

use crate::config::{PipelineConfig, StoreDrain};
use crate::modulo::Modulo;
use crate::ring::Limiter;
use crate::saved::{cycle, cycles};
use crate::shared::{Shared, Stage};
use crate::stats::Counts;

const BUCKETS: u64 = 256;
const NOWHERE: u64 = u64::MAX;

/// The line and the byte mask of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) line: u64,
    pub(crate) bytes: u64,
}

impl Span {
    #[inline(always)]
    pub(crate) fn of(op: &Op) -> Span {
        let first = op.phys.0 % LINE_BYTES;
        let size = u32::from(op.size).clamp(1, 64);
        Span { line: op.phys.0 / LINE_BYTES, bytes: (u64::MAX >> (64 - size)) << first }
    }
}

/// A store-queue entry, as loads look it up; one host cache line.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[repr(align(64))]
pub(crate) struct Store {
    line: u64,
    bytes: u64,
    /// The cycle from which its address is known.
    #[serde(deserialize_with = "cycle")]
    pub(crate) known: CoreCycle,
    /// The cycle from which its data can be forwarded.
    #[serde(deserialize_with = "cycle")]
    pub(crate) data: CoreCycle,
    /// The cycle in which it is written to the cache.
    #[serde(deserialize_with = "cycle")]
    pub(crate) drained: CoreCycle,
    /// The cycle from which its entry can be reused.
    #[serde(deserialize_with = "cycle")]
    released: CoreCycle,
    pub(crate) pc: u64,
    /// The previous store in the same hash bucket.
    previous: u64,
}

impl Store {
    /// Whether it writes all bytes of `span`.
    #[inline]
    pub(crate) fn covers(&self, span: Span) -> bool {
        span.bytes & !self.bytes == 0
    }
}

/// The store queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Stores {
    entries: Modulo<Store>,
    /// Number of the next store; numbers start at `size`.
    #[serde(deserialize_with = "cycle")]
    next: u64,
    size: u64,
    /// The last store of each line-hash bucket.
    buckets: Modulo<u64>,
    /// The cycle by which the addresses of all stores are known.
    #[serde(deserialize_with = "cycle")]
    known: CoreCycle,
    /// The cycle by which all stores are written.
    #[serde(deserialize_with = "cycle")]
    released: CoreCycle,
    /// The earliest cycle in which a store may be sent to the cache (fences).
    #[serde(deserialize_with = "cycle")]
    pub(crate) floor: CoreCycle,
    sender: Limiter,
    in_order: bool,
    /// Write completion of each in-flight store slot, and the next slot in in-order mode.
    #[serde(deserialize_with = "cycles")]
    ends: Vec<CoreCycle>,
    next_end: usize,
    /// Slots in use: the maximum number of stores in flight.
    under_way: usize,
    last_line: u64,
    #[serde(deserialize_with = "cycle")]
    last_end: CoreCycle,
}

impl Stores {
    pub(crate) fn new(config: &PipelineConfig) -> Stores {
        let size = u64::from(config.sq);
        Stores {
            entries: Modulo::new(size, Store { line: NOWHERE, ..Store::default() }),
            next: size,
            size,
            buckets: Modulo::new(BUCKETS, 0),
            known: CoreCycle::ZERO,
            released: CoreCycle::ZERO,
            floor: CoreCycle::ZERO,
            sender: Limiter::new(config.drain_width),
            in_order: config.store_drain == StoreDrain::InOrder,
            ends: vec![CoreCycle::ZERO; config.drains_in_flight as usize],
            next_end: 0,
            under_way: config.drains_in_flight as usize,
            last_line: NOWHERE,
            last_end: CoreCycle::ZERO,
        }
    }

    /// Changes the number of entries and of in-flight slots, up to their initial values.
    pub(crate) fn resize(&mut self, size: u32, under_way: u32) {
        (self.size, self.under_way) = (u64::from(size), under_way as usize);
        self.next_end %= self.under_way;
    }

    #[inline(always)]
    fn entry(&self, number: u64) -> &Store {
        self.entries.get(number)
    }

    /// The cycle from which the next store has a free entry.
    #[inline(always)]
    pub(crate) fn free_from(&self) -> CoreCycle {
        self.entry(self.next - self.size).released
    }

    /// The cycle by which the addresses of all older stores are known.
    #[inline(always)]
    pub(crate) fn all_known(&self) -> CoreCycle {
        self.known
    }

    /// The cycle by which all older stores are written; from then on the last one's entry is free.
    #[inline(always)]
    pub(crate) fn all_written(&self) -> CoreCycle {
        self.released
    }

    /// The number of the next store.
    #[inline(always)]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The cycle in which the address of store `number` is known; 0 if it has left the queue.
    #[inline]
    pub(crate) fn address_known(&self, number: u64) -> CoreCycle {
        if number + self.size >= self.next && number < self.next {
            self.entry(number).known
        } else {
            CoreCycle::ZERO
        }
    }

    /// The youngest store that overlaps `span` and is not yet in the cache at cycle `at`.
    #[inline]
    pub(crate) fn youngest(&self, span: Span, at: CoreCycle) -> Option<&Store> {
        let mut number = *self.buckets.get(bucket(span.line));
        while number >= self.next - self.size {
            let store = self.entry(number);
            if store.released <= at {
                return None;
            }
            if store.line == span.line && store.bytes & span.bytes != 0 {
                return (store.drained > at).then_some(store);
            }
            number = store.previous;
        }
        None
    }

    /// Enters a store that commits in cycle `commit` and sends it to the cache; returns the cycle in which it
    /// is written.
    pub(crate) fn push<const THREADS: bool, M: CoreMemory>(
        &mut self,
        op: &Op,
        [known, data, commit]: [CoreCycle; 3],
        memory: &mut M,
        counts: &mut Counts,
        shared: Option<&mut Shared>,
    ) -> CoreCycle {
        let span = Span::of(op);
        let drained = self.drain::<THREADS, M>(op, span.line, commit, memory, counts, shared);
        self.enter(op.pc, span, [known, data, drained]);
        drained
    }

    /// Enters an atomic, which is written when it completes.
    pub(crate) fn push_written(&mut self, op: &Op, known: CoreCycle, written: CoreCycle) {
        let mut span = Span::of(op);
        if op.flags & Op::WRITES == 0 {
            span.bytes = 0;
        }
        self.enter(op.pc, span, [known, written, written]);
    }

    #[inline]
    fn enter(&mut self, pc: u64, span: Span, [known, data, drained]: [CoreCycle; 3]) {
        self.known = self.known.max(known);
        self.released = self.released.max(drained);
        let bucket = self.buckets.get_mut(bucket(span.line));
        let previous = std::mem::replace(bucket, self.next);
        let store = Store {
            line: span.line,
            bytes: span.bytes,
            known,
            data,
            drained,
            released: self.released,
            pc,
            previous,
        };
        self.entries.set(self.next, store);
        self.next += 1;
    }

    /// The cycle in which a store that commits in cycle `commit` is written to the cache.
    #[inline]
    fn drain<const THREADS: bool, M: CoreMemory>(
        &mut self,
        op: &Op,
        line: u64,
        commit: CoreCycle,
        memory: &mut M,
        counts: &mut Counts,
        shared: Option<&mut Shared>,
    ) -> CoreCycle {
        let mut ready = self.sender.peek((commit + 1).max(self.floor));
        if THREADS && let Some(shared) = &shared {
            ready = shared.first(Stage::Drain, ready);
        }
        if line == self.last_line && ready < self.last_end {
            self.sender.take_of::<THREADS>(Stage::Drain, shared, ready);
            counts.stores_joined += 1;
            return self.last_end;
        }
        let place = if self.in_order { self.next_end } else { earliest(&self.ends[..self.under_way]) };
        let begin = self.sender.take_of::<THREADS>(Stage::Drain, shared, ready.max(self.ends[place]));
        let access = CoreAccess { kind: AccessKind::Store, addr: op.phys, pc: op.pc };
        let mut end = memory.access(begin, access).at.max(begin + 1);
        if self.in_order {
            end = end.max(self.last_end);
            self.next_end = (place + 1) % self.under_way;
        }
        self.ends[place] = end;
        self.last_line = line;
        self.last_end = end;
        end
    }

    /// Whether saved state is consistent and matches this configuration.
    pub(crate) fn is_compatible(&self, fresh: &Stores) -> bool {
        let chained = |number: &u64| *number < self.next;
        let follows = |number: u64| self.entry(number).previous < number;
        self.entries.all().len() == fresh.entries.all().len()
            && self.size == fresh.size
            && self.next >= self.size
            && (self.size.max(self.next - self.size)..self.next).all(follows)
            && self.buckets.all().len() == fresh.buckets.all().len()
            && self.buckets.all().iter().all(chained)
            && self.sender.is_compatible(&fresh.sender)
            && self.in_order == fresh.in_order
            && self.ends.len() == fresh.ends.len()
            && self.under_way == fresh.under_way
            && self.next_end < self.under_way
    }
}

#[inline(always)]
fn bucket(line: u64) -> u64 {
    line ^ line >> 8
}

#[inline]
fn earliest(ends: &[CoreCycle]) -> usize {
    let mut best = 0;
    for place in 1..ends.len() {
        if ends[place] < ends[best] {
            best = place;
        }
    }
    best
}
