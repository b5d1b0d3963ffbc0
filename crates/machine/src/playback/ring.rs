//! Descriptor rings, inferred from a trace: from descriptor fetches and write-backs, and from the tails that
//! software stores.
//!
//! Descriptors are numbered from the first one in the trace. The length and base of a ring are known once its
//! addresses wrap around; then a tail gives the exact number of descriptors posted. For a ring that does not
//! wrap, only tail differences and fetches are known. Descriptors fetched before tails account for them are
//! taken as posted before the trace. Without tail stores (NICs other than Intel's gigabit family),
//! descriptors count as posted when they are fetched.

use std::ops::Range;

use doorbell_trace::system::{Dma, EventKind};

/// Bytes of a descriptor, in the whole family.
const DESCRIPTOR: u64 = 16;
/// The longest ring of the family; a larger span means several rings.
const SPAN_MAX: u64 = (64 << 10) * DESCRIPTOR;
/// A step back by less than this, or by less than half of the known ring, is not a wrap: write-backs may be
/// out of order.
const BACK: u64 = 4 * DESCRIPTOR;

/// More descriptors than any trace uses.
const ALWAYS: u64 = 1 << 62;

/// Direction of a ring's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Receive,
    Transmit,
}

/// A store of a ring's tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    pub direction: Direction,
    /// Number of its ring among those of the same direction.
    pub queue: u8,
    pub value: u64,
}

/// Tail registers: offset of the first ring's, stride, number of rings, direction.
const TAILS: [(u64, u64, u64, Direction); 4] = [
    (0x2818, 0x100, 4, Direction::Receive),
    (0xc018, 0x40, 16, Direction::Receive),
    (0x3818, 0x100, 4, Direction::Transmit),
    (0xe018, 0x40, 16, Direction::Transmit),
];

/// Returns the tail that a store sets. Covers RDT and TDT of the 82540EM (manual 317453, 13.4.29 and
/// 13.4.44), at the offsets of the e1000e and igb devices, and those of further queues (82576: manual 320961,
/// 8.10.9 and 8.12).
pub(super) fn tail(event: &EventKind) -> Option<Tail> {
    let EventKind::Register { addr, value, .. } = event else { return None };
    let register = addr.0 % (128 << 10);
    TAILS.iter().find_map(|(first, step, rings, direction)| {
        let from = register.checked_sub(*first)?;
        let is_tail = from % step == 0 && from / step < *rings;
        is_tail.then(|| Tail { direction: *direction, queue: (from / step) as u8, value: *value & 0xffff })
    })
}

/// Number of descriptors in a request.
pub(super) fn count(dma: &Dma) -> u64 {
    (u64::from(dma.len) / DESCRIPTOR).max(1)
}

/// Layout and state of a ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ring {
    /// Address range of its descriptors.
    from: u64,
    to: u64,
    first: Option<u64>,
    last: u64,
    wrapped: bool,
    /// Number of tail stores, and a bitmap of their queues.
    tails: u64,
    queues: u32,
    first_tail: Option<u64>,
    last_tail: u64,
    /// Descriptors posted, summed from tail differences.
    given: u64,
    /// Descriptors posted before the trace, if only tail differences are known.
    before: u64,
    tail_seen: bool,
    /// Receive descriptors written back before the first tail store.
    used_before_tail: u64,
    /// Number of the first descriptor fetched in the trace.
    fetch_begins: Option<u64>,
    /// Descriptors fetched by the device, and receive descriptors written back.
    fetched: u64,
    used: u64,
}

impl Ring {
    /// Length of the ring in descriptors, if known.
    pub fn descriptors(&self) -> Option<u64> {
        self.wrapped.then_some((self.to - self.from) / DESCRIPTOR)
    }

    /// Whether tail stores show how many descriptors are posted.
    pub fn has_tails(&self) -> bool {
        self.tails > 0
    }

    /// Whether it is several rings: tails of several queues, or addresses too far apart.
    pub(super) fn is_multiple_rings(&self) -> bool {
        self.queues.count_ones() > 1 || self.to - self.from > SPAN_MAX
    }

    fn number(&self, addr: u64, not_below: u64) -> u64 {
        let slot = |addr: u64| (addr - self.from) / DESCRIPTOR;
        let first = slot(self.first.unwrap_or(self.from));
        match self.descriptors() {
            Some(all) => not_below + (slot(addr) + 2 * all - first - not_below % all) % all,
            None => slot(addr).saturating_sub(first).max(not_below),
        }
    }

    /// Records a request during the survey. The layout comes from write-backs of receive rings and fetches of
    /// transmit rings.
    pub(super) fn survey(&mut self, dma: &Dma, direction: Direction) {
        let (addr, end) = (dma.addr.0, dma.addr.0 + count(dma) * DESCRIPTOR);
        if self.to == 0 {
            (self.from, self.to) = (addr, end);
        }
        self.from = self.from.min(addr);
        self.to = self.to.max(end);
        let counts = (direction == Direction::Receive) == dma.is_write();
        if counts {
            self.first.get_or_insert(addr);
            self.wrapped |= self.last.saturating_sub(addr) >= BACK.max((self.to - self.from) / 2);
            self.last = addr;
        }
    }

    /// Records a tail store during the survey.
    pub(super) fn survey_tail(&mut self, tail: Tail) {
        self.tails += 1;
        self.queues |= 1 << tail.queue;
        self.first_tail.get_or_insert(tail.value);
    }

    /// Returns to the start of the trace, and keeps the layout.
    pub(super) fn begin(&mut self) {
        (self.given, self.fetched, self.used, self.tail_seen) = (0, 0, 0, false);
        self.last_tail = self.first_tail.unwrap_or(0);
    }

    /// Records a fetch. Returns the number of descriptors that must be posted for it, from the first in the
    /// trace.
    pub(super) fn fetch(&mut self, dma: &Dma, direction: Direction) -> u64 {
        let least = if direction == Direction::Receive { self.used } else { self.fetched };
        let number = self.number(dma.addr.0, least);
        self.fetch_begins.get_or_insert(number);
        let need = number + count(dma);
        self.fetched = self.fetched.max(need);
        need
    }

    /// Records a write-back of receive descriptors.
    pub(super) fn write_back(&mut self, dma: &Dma) {
        self.used += count(dma);
        if !self.tail_seen {
            self.used_before_tail = self.used_before_tail.max(self.used);
        }
    }

    /// Number of transmit descriptors fetched in the trace up to the one that a write-back reports.
    pub(super) fn reported(&self, dma: &Dma) -> Option<u64> {
        let last = dma.addr.0 + (count(dma) - 1) * DESCRIPTOR;
        let newest = self.fetched.checked_sub(1).filter(|_| self.range().contains(&last))?;
        let slot = |addr: u64| (addr - self.from) / DESCRIPTOR;
        let first = slot(self.first?);
        match self.descriptors() {
            // The latest descriptor in that slot.
            Some(all) => {
                newest.checked_sub((first + newest + all - slot(last)) % all).map(|number| number + 1)
            }
            None => slot(last).checked_sub(first).filter(|number| *number <= newest).map(|number| number + 1),
        }
    }

    /// Records a tail store. Returns the number of descriptors posted in total.
    pub(super) fn posted(&mut self, tail: u64, direction: Direction) -> u64 {
        if self.wrapped {
            let least = if direction == Direction::Receive { self.used } else { self.fetched };
            let own = self.from + tail * DESCRIPTOR;
            return self.number(own, least);
        }
        self.given += tail.checked_sub(self.last_tail).unwrap_or(1);
        self.last_tail = tail;
        self.before + self.given
    }

    /// Records that a fetch needs `need` descriptors: those not posted by tails were posted before the trace.
    /// If tails give exact numbers, this applies only before the first tail store.
    pub(super) fn note_initial_need(&mut self, need: u64) {
        if !self.wrapped || !self.tail_seen {
            self.before = self.before.max(need.saturating_sub(self.given));
        }
    }

    /// Records that a tail was stored.
    pub(super) fn note_tail(&mut self) {
        self.tail_seen = true;
    }

    /// Number of descriptors on the device before the first fetch of the trace.
    pub(super) fn initially_fetched(&self) -> u64 {
        self.fetch_begins.unwrap_or(0)
    }

    /// Number of descriptors fetched so far.
    pub(super) fn fetched(&self) -> u64 {
        self.fetched
    }

    /// Address range of its descriptors.
    pub(super) fn range(&self) -> Range<u64> {
        self.from..self.to
    }

    /// Descriptors posted before the first tail store: needed by fetches until then, fetched before the
    /// trace, or used.
    pub(super) fn initially_posted(&self) -> u64 {
        if self.fetch_begins.is_none() && !self.wrapped {
            // The trace has no descriptor events: descriptors are always available.
            return ALWAYS;
        }
        self.before.max(self.initially_fetched()).max(self.used_before_tail)
    }
}

#[cfg(test)]
mod tests {
    use doorbell_sim::Ps;
    use doorbell_sim::ports::{DmaDirection, DmaPurpose, PhysAddr};

    use super::*;

    const AT: u64 = 0x8100_0000;
    const ALL: u64 = 16;

    fn dma(direction: DmaDirection, slot: u64, descriptors: u64) -> Dma {
        Dma {
            purpose: DmaPurpose::RxDescriptor,
            direction,
            addr: PhysAddr(AT + 16 * (slot % ALL)),
            len: 16 * descriptors as u32,
            frame: 0,
            offset: 0,
            took: Ps::ZERO,
            visible: 0,
        }
    }

    /// A receive ring after a survey from slot 5 on: four descriptors per fetch, eight ahead of use.
    fn surveyed(frames: u64) -> Ring {
        let mut ring = Ring::default();
        for frame in 5..5 + frames {
            if frame % 4 == 0 {
                ring.survey(&dma(DmaDirection::Read, frame + 8, 4), Direction::Receive);
            }
            ring.survey(&dma(DmaDirection::Write, frame, 1), Direction::Receive);
            ring.survey_tail(Tail { direction: Direction::Receive, queue: 0, value: (frame + 3) % ALL });
        }
        ring.begin();
        ring
    }

    #[test]
    fn wrapped_ring_has_known_length_and_exact_tails() {
        let mut ring = surveyed(20);
        assert_eq!(ring.descriptors(), Some(ALL));
        // The first descriptor in the trace, in slot 5, is number 0.
        assert_eq!(ring.posted(9, Direction::Receive), 4);
        (0..3).for_each(|used| ring.write_back(&dma(DmaDirection::Write, 5 + used, 1)));
        assert_eq!(ring.posted(4, Direction::Receive), 15, "one of sixteen stays free");
        assert_eq!(ring.fetch(&dma(DmaDirection::Read, 12, 4), Direction::Receive), 11);
        assert_eq!(ring.initially_fetched(), 7, "fetched before the trace");
        assert_eq!(ring.initially_posted(), 7);
        (3..20).for_each(|used| ring.write_back(&dma(DmaDirection::Write, 5 + used, 1)));
        assert_eq!(ring.fetch(&dma(DmaDirection::Read, 0, 4), Direction::Receive), 31, "the next round");
    }

    #[test]
    fn unwrapped_ring_uses_tail_differences() {
        let mut ring = surveyed(6);
        assert_eq!(ring.descriptors(), None);
        let need = ring.fetch(&dma(DmaDirection::Read, 8, 4), Direction::Receive);
        ring.note_initial_need(need);
        ring.begin();
        assert_eq!((need, ring.initially_posted()), (7, 7));
        assert_eq!(ring.posted(8, Direction::Receive), 7, "the first tail has no difference");
        assert_eq!(ring.posted(11, Direction::Receive), 10);
    }

    #[test]
    fn transmit_write_back_gives_the_number_of_used_descriptors() {
        let mut ring = Ring::default();
        let report = |slot| dma(DmaDirection::Write, slot, 1);
        (5..25).for_each(|slot| ring.survey(&dma(DmaDirection::Read, slot, 1), Direction::Transmit));
        ring.begin();
        assert_eq!(ring.reported(&report(4)), None, "nothing was fetched");
        (5..25).for_each(|slot| _ = ring.fetch(&dma(DmaDirection::Read, slot, 1), Direction::Transmit));
        // Slots 5 to 15, then slots 0 to 8 of the next round.
        assert_eq!([8, 24, 9, 20].map(|slot| ring.reported(&report(slot))), [20, 20, 5, 16].map(Some));
        let mut short = Ring::default();
        short.survey(&dma(DmaDirection::Read, 5, 4), Direction::Transmit);
        short.fetch(&dma(DmaDirection::Read, 5, 4), Direction::Transmit);
        assert_eq!([6, 4, 9].map(|slot| short.reported(&report(slot))), [Some(2), None, None]);
    }

    #[test]
    fn tail_registers_of_all_queues_are_recognised() {
        let store = |offset: u64| EventKind::Register {
            addr: PhysAddr(0xfeb0_0000 + offset),
            size: 4,
            value: 77,
            stored: None,
        };
        let of = |offset| tail(&store(offset)).map(|tail| (tail.direction, tail.queue, tail.value));
        for (offset, queue) in [(0x2818, 0), (0x2918, 1), (0x2b18, 3), (0xc018, 0), (0xc3d8, 15)] {
            assert_eq!(of(offset), Some((Direction::Receive, queue, 77)), "{offset:#x}");
            assert_eq!(
                of(offset + if offset < 0x3000 { 0x1000 } else { 0x2000 }),
                Some((Direction::Transmit, queue, 77))
            );
        }
        assert!([0x2810, 0x2838, 0x2c18, 0xc418, 0xc030].into_iter().all(|offset| of(offset).is_none()));
    }

    #[test]
    fn tails_of_several_queues_mean_several_rings() {
        let mut ring = surveyed(20);
        assert!(!ring.is_multiple_rings());
        let store = |queue| Tail { direction: Direction::Receive, queue, value: 5 };
        ring.survey_tail(store(2));
        assert!(ring.is_multiple_rings());
        let mut other = Ring::default();
        (0..9).for_each(|_| other.survey_tail(store(2)));
        assert!(other.has_tails() && !other.is_multiple_rings());
    }
}
