//! Tests of ring arithmetic, and of descriptor fetch and write-back against the thresholds of the manual.

use super::*;

fn ring(bytes: u32, head: u32, tail: u32) -> Option<Ring> {
    Ring::new(0x1_0000_1000, bytes, head, tail)
}

#[test]
fn invalid_rings_are_none() {
    assert_eq!(ring(0, 0, 0), None);
    assert_eq!(ring(128, 8, 0), None);
    assert_eq!(ring(128, 0, 8), None);
    assert_eq!(ring(128, 7, 0).unwrap().count, 8);
}

#[test]
fn distances_and_steps_wrap() {
    let ring = ring(128, 6, 5).unwrap();
    assert_eq!((ring.distance(6, 5), ring.distance(2, 2), ring.after(6, 3)), (7, 0, 1));
    assert_eq!((ring.address(3), ring.index_of(0x1_0000_1030)), (0x1_0000_1030, 3));
    assert!(ring.is_full() && ring.hardware_owned() == 7);
}

const EAGER: Thresholds = Thresholds { prefetch: 8, host: 4, write_back: 1 };
const LIMITS: Limits =
    Limits { cache: 64, fetch_max: 64, fetches: 1, prefetch: None, batch: 64, wait: Ps::ZERO, lines: false };

#[test]
fn thresholds_decide_when_to_fetch() {
    assert!(EAGER.fetch(0, 1) && EAGER.fetch(7, 4));
    assert!(!EAGER.fetch(7, 3) && !EAGER.fetch(8, 9) && !EAGER.fetch(0, 0));
}

/// A used descriptor: its contents, and whether it must be written back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Spent(u64, bool);

impl Used for Spent {
    fn words(&self) -> [u64; 2] {
        [self.0, !self.0]
    }

    fn is_reported(&self) -> bool {
        self.1
    }
}

/// Memory in which each 8-byte word contains its address.
struct Numbers;

impl DmaPort for Numbers {
    fn request_read(&mut self, _: Ps, _: doorbell_sim::ports::DmaRequest) -> Ps {
        Ps::ZERO
    }

    fn request_write(&mut self, _: Ps, _: doorbell_sim::ports::DmaRequest) -> Ps {
        Ps::ZERO
    }

    fn read(&mut self, addr: PhysAddr, bytes: &mut [u8]) {
        for (at, word) in bytes.chunks_mut(8).enumerate() {
            word.copy_from_slice(&(addr.0 + 8 * at as u64).to_le_bytes());
        }
    }

    fn write(&mut self, _: PhysAddr, _: &[u8]) {}
}

type Descriptors = DescriptorRing<u64, Spent>;

/// Fetches as often as possible. Returns the low address bits and the length of each fetch.
fn fetch_all(descriptors: &mut Descriptors, ring: &Ring, limits: Limits) -> Vec<(u64, u32)> {
    let mut runs = Vec::new();
    while let Some(run) = descriptors.fetch(ring, EAGER, limits, 0) {
        assert!(!descriptors.may_fetch(limits));
        descriptors.fetched(run, &mut Numbers, |_, _, [address, _]| address);
        runs.push((run.addr & 0xfff, run.count));
    }
    runs
}

#[test]
fn ring_end_chip_capacity_and_tail_limit_fetches() {
    let mut on_chip = Descriptors::default();
    on_chip.rewind(6);
    assert_eq!(fetch_all(&mut on_chip, &ring(128, 6, 4).unwrap(), LIMITS), [(0x60, 2), (0x00, 4)]);
    assert!(!on_chip.is_exhausted(None) && on_chip.has_reached(&ring(128, 6, 4).unwrap()));
    let addresses: Vec<u64> = std::iter::from_fn(|| on_chip.begin()).map(|address| address & 0xff).collect();
    assert_eq!(addresses, [0x60, 0x70, 0, 0x10, 0x20, 0x30]);
    assert!(on_chip.is_exhausted(None) && on_chip.is_exhausted(ring(128, 6, 4).as_ref()));
    assert!(!on_chip.is_exhausted(ring(128, 6, 5).as_ref()));

    let mut small = Descriptors::default();
    let limits = Limits { cache: 8, fetch_max: 3, ..LIMITS };
    assert_eq!(fetch_all(&mut small, &ring(1024, 0, 60).unwrap(), limits), [(0, 3), (0x30, 3), (0x60, 2)]);
    // Descriptors in progress and used ones occupy the chip too.
    small.begin();
    small.finish(Spent(0, true));
    assert_eq!(small.fetch(&ring(1024, 0, 60).unwrap(), EAGER, limits, 0), None);
}

#[test]
fn fetches_do_not_overtake_the_head_if_the_tail_moves_back() {
    let mut on_chip = Descriptors::default();
    fetch_all(&mut on_chip, &ring(128, 0, 6).unwrap(), LIMITS);
    // All seven others of the ring seem available now; there is room for one.
    assert_eq!(fetch_all(&mut on_chip, &ring(128, 0, 5).unwrap(), LIMITS), [(0x60, 1)]);
}

#[test]
fn prefetches_have_at_least_a_cache_line() {
    let mut on_chip = Descriptors::default();
    let lazy = Thresholds { prefetch: 0, host: 0, write_back: 1 };
    let ahead = Limits { prefetch: Some(4), ..LIMITS };
    assert_eq!(on_chip.fetch(&ring(1024, 0, 2).unwrap(), lazy, ahead, 0).map(|run| run.count), Some(2));
    on_chip.fetched(Run { addr: 0, count: 2 }, &mut Numbers, |_, _, [address, _]| address);
    assert_eq!(on_chip.fetch(&ring(1024, 0, 5).unwrap(), lazy, ahead, 0), None);
    assert_eq!(on_chip.fetch(&ring(1024, 0, 6).unwrap(), lazy, LIMITS, 0), None);
    assert_eq!(on_chip.fetch(&ring(1024, 0, 6).unwrap(), lazy, ahead, 0).map(|run| run.count), Some(4));
}

#[test]
fn only_reported_descriptors_are_written_back_and_the_head_skips_the_others() {
    let mut on_chip = Descriptors::default();
    for (number, reported) in [(1, false), (2, true), (3, true), (4, false), (5, true), (6, false)] {
        on_chip.finish(Spent(number, reported));
    }
    let ring = ring(128, 6, 5).unwrap();
    let limits = Limits { batch: 4, ..LIMITS };
    assert!(on_chip.has_write_back());
    // Two at indices 7 and 0 of a ring of eight: not across its end.
    assert_eq!(on_chip.write_back(&ring, limits), Run { addr: ring.base + 0x70, count: 1 });
    assert!(on_chip.has_write_back());
    assert_eq!(on_chip.write_back(&ring, limits), Run { addr: ring.base, count: 1 });
    assert!(on_chip.has_write_back());
    assert_eq!(on_chip.write_back(&ring, limits), Run { addr: ring.base + 0x20, count: 1 });
    assert!(!on_chip.has_write_back());
    assert_eq!((on_chip.retire_unreported(), on_chip.waiting().len()), (1, 0));
    let mut written = Vec::new();
    assert_eq!(on_chip.written_back(2, |spent| written.push(spent.0))[..8], 2u64.to_le_bytes());
    assert_eq!((written, on_chip.retire_unreported()), (vec![2, 3], 1));
    on_chip.written_back(1, |_| {});
    assert_eq!((on_chip.retire_unreported(), on_chip.used().count()), (1, 0));
}

#[test]
fn a_write_back_waits_for_a_full_batch_or_the_timer() {
    let mut on_chip = Descriptors::default();
    let limits = Limits { batch: 2, wait: Ps(10), ..LIMITS };
    let ring = ring(128, 0, 5).unwrap();
    let due = |on_chip: &mut Descriptors, now| on_chip.write_back_is_due(Ps(now), Some(&ring), limits);
    assert_eq!(due(&mut on_chip, 5), Ready::Now, "no descriptor waits");
    on_chip.finish(Spent(1, true));
    on_chip.finish(Spent(2, false));
    assert_eq!(due(&mut on_chip, 5), Ready::WakeAt(Ps(15)));
    assert_eq!(due(&mut on_chip, 6), Ready::Later);
    assert_eq!(on_chip.on_wait_wake(Ps(14)), Wake::Ignore);
    on_chip.finish(Spent(3, true));
    assert_eq!(due(&mut on_chip, 6), Ready::Now, "a batch has two descriptors");
    on_chip.cancel_wait();
    assert_eq!(on_chip.on_wait_wake(Ps(15)), Wake::Ignore);
}

#[test]
fn a_saved_ring_must_match_the_requests_in_flight_and_the_head() {
    let mut on_chip = Descriptors::default();
    fetch_all(&mut on_chip, &ring(128, 0, 4).unwrap(), LIMITS);
    for number in 0..2 {
        on_chip.begin();
        on_chip.finish(Spent(number, number == 1));
    }
    assert!(on_chip.has_write_back());
    on_chip.write_back(&ring(128, 0, 4).unwrap(), LIMITS);
    let state = on_chip;
    assert!(state.matches_in_flight(0, 1));
    assert!(
        !state.matches_in_flight(0, 2) && !state.matches_in_flight(1, 1) && !state.matches_in_flight(0, 0)
    );
    assert!(state.matches_head(0, 8, 0) && state.matches_head(7, 8, 1));
    assert!(!state.matches_head(1, 8, 0) && !state.matches_head(0, 4, 0) && !state.matches_head(8, 8, 0));
}

#[test]
fn fetches_in_flight_are_limited_and_count_as_unused_descriptors() {
    let ring = |tail| ring(1024, 0, tail).unwrap();
    let limits = Limits { cache: 16, fetch_max: 8, fetches: 3, prefetch: Some(6), ..LIMITS };
    let lazy = Thresholds { prefetch: 0, host: 0, write_back: 1 };
    let fetch =
        |on_chip: &mut Descriptors, tail| on_chip.fetch(&ring(tail), lazy, limits, 0).map(|run| run.count);
    let mut on_chip = Descriptors::default();
    // Without descriptors the chip fetches all that are available, even less than a line, up to its capacity.
    assert_eq!([5, 6, 20, 20].map(|tail| fetch(&mut on_chip, tail)), [Some(5), Some(1), Some(8), Some(2)]);
    let mut on_chip = Descriptors::default();
    assert_eq!(fetch(&mut on_chip, 5), Some(5));
    on_chip.fetched(Run { addr: 0, count: 5 }, &mut Numbers, |_, _, [address, _]| address);
    // Otherwise it prefetches at least a line, and descriptors being fetched count as unused.
    assert_eq!([8, 10, 20].map(|tail| fetch(&mut on_chip, tail)), [None, Some(5), None]);
    assert!(on_chip.may_fetch(limits) && !on_chip.may_fetch(Limits { fetches: 1, ..limits }));
    on_chip.fetched(Run { addr: 0x50, count: 5 }, &mut Numbers, |_, _, [address, _]| address);
    assert!(on_chip.may_fetch(Limits { fetches: 1, ..limits }));
    assert_eq!(std::iter::from_fn(|| on_chip.begin()).count(), 10);
    on_chip.rewind(0);
    assert_eq!(fetch(&mut on_chip, 3), Some(3));
    on_chip.rewind(0);
    assert!(on_chip.may_fetch(Limits { fetches: 1, ..limits }), "rewind discards fetches in flight");
}

#[test]
fn gathered_write_backs_end_at_cache_lines_and_complete_lines_do_not_wait() {
    let ring = ring(256, 2, 1).unwrap();
    let limits = Limits { wait: Ps(10), lines: true, ..LIMITS };
    let mut on_chip = Descriptors::default();
    on_chip.finish(Spent(2, true));
    assert!(!on_chip.fills_write_back(&ring, limits));
    assert!(on_chip.fills_write_back(&ring, Limits { batch: 1, ..limits }), "a full batch");
    assert_eq!(on_chip.write_back_is_due(Ps(5), Some(&ring), limits), Ready::WakeAt(Ps(15)));
    for number in 3..9 {
        on_chip.finish(Spent(number, true));
    }
    assert_eq!(on_chip.write_back_is_due(Ps(6), Some(&ring), limits), Ready::Now);
    // Indices 2 and 3, then 4 to 7; 8 is the first of the next line.
    for (index, count) in [(2, 2), (4, 4)] {
        assert!(on_chip.has_write_back() && on_chip.fills_write_back(&ring, limits));
        assert_eq!(on_chip.write_back(&ring, limits), Run { addr: ring.address(index), count });
    }
    assert!(on_chip.has_write_back() && !on_chip.fills_write_back(&ring, limits));
}
