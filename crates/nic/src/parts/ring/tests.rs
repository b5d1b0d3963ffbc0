//! Rings beside what the manual says of them, and what the chip holds of one from fetch to write-back.

use super::*;

fn ring(bytes: u32, head: u32, tail: u32) -> Option<Ring> {
    Ring::new(0x1_0000_1000, bytes, head, tail)
}

#[test]
fn a_ring_that_makes_no_sense_is_none() {
    assert_eq!(ring(0, 0, 0), None);
    assert_eq!(ring(128, 8, 0), None);
    assert_eq!(ring(128, 0, 8), None);
    assert_eq!(ring(128, 7, 0).unwrap().count, 8);
}

#[test]
fn distances_and_steps_go_round() {
    let ring = ring(128, 6, 5).unwrap();
    assert_eq!((ring.distance(6, 5), ring.distance(2, 2), ring.after(6, 3)), (7, 0, 1));
    assert_eq!((ring.address(3), ring.index_of(0x1_0000_1030)), (0x1_0000_1030, 3));
    assert!(ring.is_full() && ring.hardware_owned() == 7);
}

const EAGER: Thresholds = Thresholds { prefetch: 8, host: 4, write_back: 1 };
const LIMITS: Limits =
    Limits { cache: 64, fetch_max: 64, fetches: 1, prefetch: None, batch: 64, wait: Ps::ZERO, lines: false };

#[test]
fn what_is_fetched_is_what_thresholds_say() {
    assert!(EAGER.fetch(0, 1) && EAGER.fetch(7, 4));
    assert!(!EAGER.fetch(7, 3) && !EAGER.fetch(8, 9) && !EAGER.fetch(0, 0));
}

/// A used descriptor: what it holds, and whether it is to be reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spent(u64, bool);

impl Used for Spent {
    fn words(&self) -> [u64; 2] {
        [self.0, !self.0]
    }

    fn is_reported(&self) -> bool {
        self.1
    }
}

/// Memory whose words are their own numbers.
struct Numbers;

impl DmaPort for Numbers {
    fn request_read(&mut self, _: Ps, _: doorbell_sim::ports::DmaRequest) -> doorbell_sim::Done {
        doorbell_sim::Done::Later
    }

    fn request_write(&mut self, _: Ps, _: doorbell_sim::ports::DmaRequest) -> doorbell_sim::Done {
        doorbell_sim::Done::Later
    }

    fn read(&mut self, addr: PhysAddr, bytes: &mut [u8]) {
        for (at, word) in bytes.chunks_mut(8).enumerate() {
            word.copy_from_slice(&(addr.0 + 8 * at as u64).to_le_bytes());
        }
    }

    fn write(&mut self, _: PhysAddr, _: &[u8]) {}
}

type Descriptors = DescriptorRing<u64, Spent>;

/// Fetches as often as it may; the runs.
fn fetch_all(held: &mut Descriptors, ring: &Ring, limits: Limits) -> Vec<(u64, u32)> {
    let mut runs = Vec::new();
    while let Some(run) = held.fetch(ring, EAGER, limits, 0) {
        assert!(!held.may_fetch(limits));
        held.fetched(run, &mut Numbers, |_, _, [address, _]| address);
        runs.push((run.addr & 0xfff, run.count));
    }
    runs
}

#[test]
fn fetches_stop_at_the_ring_s_end_at_the_chip_s_room_and_at_the_tail() {
    let mut held = Descriptors::default();
    held.rewind(6);
    assert_eq!(fetch_all(&mut held, &ring(128, 6, 4).unwrap(), LIMITS), [(0x60, 2), (0x00, 4)]);
    assert!(!held.is_exhausted(None) && held.has_reached(&ring(128, 6, 4).unwrap()));
    let addresses: Vec<u64> = std::iter::from_fn(|| held.begin()).map(|address| address & 0xff).collect();
    assert_eq!(addresses, [0x60, 0x70, 0, 0x10, 0x20, 0x30]);
    assert!(held.is_exhausted(None) && held.is_exhausted(ring(128, 6, 4).as_ref()));
    assert!(!held.is_exhausted(ring(128, 6, 5).as_ref()));

    let mut small = Descriptors::default();
    let limits = Limits { cache: 8, fetch_max: 3, ..LIMITS };
    assert_eq!(fetch_all(&mut small, &ring(1024, 0, 60).unwrap(), limits), [(0, 3), (0x30, 3), (0x60, 2)]);
    // What is begun or used takes the chip's room too.
    small.begin();
    small.finish(Spent(0, true));
    assert_eq!(small.fetch(&ring(1024, 0, 60).unwrap(), EAGER, limits, 0), None);
}

#[test]
fn a_tail_that_software_moves_back_lets_nothing_overtake_the_head() {
    let mut held = Descriptors::default();
    fetch_all(&mut held, &ring(128, 0, 6).unwrap(), LIMITS);
    // All seven others of the ring seem to be there now; one fits.
    assert_eq!(fetch_all(&mut held, &ring(128, 0, 5).unwrap(), LIMITS), [(0x60, 1)]);
}

#[test]
fn a_fetch_ahead_of_need_asks_for_a_line_at_least() {
    let mut held = Descriptors::default();
    let lazy = Thresholds { prefetch: 0, host: 0, write_back: 1 };
    let ahead = Limits { prefetch: Some(4), ..LIMITS };
    assert_eq!(held.fetch(&ring(1024, 0, 2).unwrap(), lazy, ahead, 0).map(|run| run.count), Some(2));
    held.fetched(Run { addr: 0, count: 2 }, &mut Numbers, |_, _, [address, _]| address);
    assert_eq!(held.fetch(&ring(1024, 0, 5).unwrap(), lazy, ahead, 0), None);
    assert_eq!(held.fetch(&ring(1024, 0, 6).unwrap(), lazy, LIMITS, 0), None);
    assert_eq!(held.fetch(&ring(1024, 0, 6).unwrap(), lazy, ahead, 0).map(|run| run.count), Some(4));
}

#[test]
fn only_what_is_reported_is_written_back_and_the_head_passes_the_rest() {
    let mut held = Descriptors::default();
    for (number, reported) in [(1, false), (2, true), (3, true), (4, false), (5, true), (6, false)] {
        held.finish(Spent(number, reported));
    }
    let ring = ring(128, 6, 5).unwrap();
    let limits = Limits { batch: 4, ..LIMITS };
    assert!(held.has_write_back());
    // Two at indices 7 and 0 of a ring of eight: not across its end.
    assert_eq!(held.write_back(&ring, limits), Run { addr: ring.base + 0x70, count: 1 });
    assert!(held.has_write_back());
    assert_eq!(held.write_back(&ring, limits), Run { addr: ring.base, count: 1 });
    assert!(held.has_write_back());
    assert_eq!(held.write_back(&ring, limits), Run { addr: ring.base + 0x20, count: 1 });
    assert!(!held.has_write_back());
    assert_eq!((held.retire_unreported(), held.waiting().len()), (1, 0));
    let mut told = Vec::new();
    assert_eq!(held.written_back(2, |spent| told.push(spent.0))[..8], 2u64.to_le_bytes());
    assert_eq!((told, held.retire_unreported()), (vec![2, 3], 1));
    held.written_back(1, |_| {});
    assert_eq!((held.retire_unreported(), held.used().count()), (1, 0));
}

#[test]
fn a_write_back_waits_for_a_batch_or_for_its_time() {
    let mut held = Descriptors::default();
    let limits = Limits { batch: 2, wait: Ps(10), ..LIMITS };
    let ring = ring(128, 0, 5).unwrap();
    let due = |held: &mut Descriptors, now| held.write_back_is_due(Ps(now), Some(&ring), limits);
    assert_eq!(due(&mut held, 5), Ready::Now, "nothing waits");
    held.finish(Spent(1, true));
    held.finish(Spent(2, false));
    assert_eq!(due(&mut held, 5), Ready::WakeAt(Ps(15)));
    assert_eq!(due(&mut held, 6), Ready::Later);
    assert_eq!(held.write_back_woken(Ps(14)), Wake::Ignore);
    held.finish(Spent(3, true));
    assert_eq!(due(&mut held, 6), Ready::Now, "two are a batch");
    held.cancel_wait();
    assert_eq!(held.write_back_woken(Ps(15)), Wake::Ignore);
}

#[test]
fn a_saved_ring_that_does_not_agree_with_what_is_in_flight_or_with_the_head_is_told() {
    let mut held = Descriptors::default();
    fetch_all(&mut held, &ring(128, 0, 4).unwrap(), LIMITS);
    for number in 0..2 {
        held.begin();
        held.finish(Spent(number, number == 1));
    }
    assert!(held.has_write_back());
    held.write_back(&ring(128, 0, 4).unwrap(), LIMITS);
    let state = held.save(|address| *address);
    assert!(state.matches_in_flight((0, 1)));
    assert!(
        !state.matches_in_flight((0, 2))
            && !state.matches_in_flight((1, 1))
            && !state.matches_in_flight((0, 0))
    );
    assert!(state.matches_head(0, 8, 0) && state.matches_head(7, 8, 1));
    assert!(!state.matches_head(1, 8, 0) && !state.matches_head(0, 4, 0) && !state.matches_head(8, 8, 0));
    assert_eq!(state.clone().load(0, |address| address).save(|address| *address), state);
}

#[test]
fn several_fetches_are_in_flight_if_they_may_be_and_count_for_each_other() {
    let ring = |tail| ring(1024, 0, tail).unwrap();
    let limits = Limits { cache: 16, fetch_max: 8, fetches: 3, prefetch: Some(6), ..LIMITS };
    let lazy = Thresholds { prefetch: 0, host: 0, write_back: 1 };
    let fetch = |held: &mut Descriptors, tail| held.fetch(&ring(tail), lazy, limits, 0).map(|run| run.count);
    let mut held = Descriptors::default();
    // While the chip has none it asks for what there is, a line or not, as far as it has room for all.
    assert_eq!([5, 6, 20, 20].map(|tail| fetch(&mut held, tail)), [Some(5), Some(1), Some(8), Some(2)]);
    let mut held = Descriptors::default();
    assert_eq!(fetch(&mut held, 5), Some(5));
    held.fetched(Run { addr: 0, count: 5 }, &mut Numbers, |_, _, [address, _]| address);
    // With some it fetches ahead: by lines, and what is on its way counts as unused.
    assert_eq!([8, 10, 20].map(|tail| fetch(&mut held, tail)), [None, Some(5), None]);
    assert!(held.may_fetch(limits) && !held.may_fetch(Limits { fetches: 1, ..limits }));
    held.fetched(Run { addr: 0x50, count: 5 }, &mut Numbers, |_, _, [address, _]| address);
    assert!(held.may_fetch(Limits { fetches: 1, ..limits }));
    assert_eq!(std::iter::from_fn(|| held.begin()).count(), 10);
    held.rewind(0);
    assert_eq!(fetch(&mut held, 3), Some(3));
    held.rewind(0);
    assert!(held.may_fetch(Limits { fetches: 1, ..limits }), "what was on its way is lost");
}

#[test]
fn write_backs_that_are_gathered_end_with_the_line_and_a_complete_one_waits_for_nothing() {
    let ring = ring(256, 2, 1).unwrap();
    let limits = Limits { wait: Ps(10), lines: true, ..LIMITS };
    let mut held = Descriptors::default();
    held.finish(Spent(2, true));
    assert!(!held.fills_write_back(&ring, limits));
    assert!(held.fills_write_back(&ring, Limits { batch: 1, ..limits }), "as many as a write-back takes");
    assert_eq!(held.write_back_is_due(Ps(5), Some(&ring), limits), Ready::WakeAt(Ps(15)));
    for number in 3..9 {
        held.finish(Spent(number, true));
    }
    assert_eq!(held.write_back_is_due(Ps(6), Some(&ring), limits), Ready::Now);
    // Indices 2 and 3, then 4 to 7; 8 is the first of the next line.
    for (index, count) in [(2, 2), (4, 4)] {
        assert!(held.has_write_back() && held.fills_write_back(&ring, limits));
        assert_eq!(held.write_back(&ring, limits), Run { addr: ring.address(index), count });
    }
    assert!(held.has_write_back() && !held.fills_write_back(&ring, limits));
}
