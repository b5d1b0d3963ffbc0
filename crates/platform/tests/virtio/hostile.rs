//! A driver that breaks every rule: the device completes requests or needs a reset; it never panics or loops
//! forever.

use doorbell_platform::DiskConfig;
use doorbell_sim::AccessSize;
use proptest::prelude::*;

use crate::virtio::driver::*;
use crate::virtio::ours::{Ours, RAM_BASE, RAM_BYTES};

const NEEDS_RESET: u32 = 64;

fn driver() -> Driver<Ours> {
    let mut driver = Driver::new(Ours::new(DiskConfig::default()));
    let features = driver.offered();
    assert!(driver.start(features, 16));
    driver
}

/// Offers chain 0, and expects that the device needs a reset and reports it.
fn assert_needs_reset(mut driver: Driver<Ours>, what: &str) {
    driver.offer(0);
    driver.notify();
    driver.target.settle();
    assert_eq!(driver.get(0x70) & NEEDS_RESET, NEEDS_RESET, "{what}");
    assert_eq!(driver.get(0x60) & 2, 2, "a configuration change is signalled: {what}");
    assert_eq!((driver.used_index(), driver.target.disk.stats().broken_rings), (0, 1), "{what}");
    // It does nothing more before the reset, and works normally after it.
    driver.notify();
    assert_eq!(driver.target.disk.stats().broken_rings, 1);
    assert!(driver.start(VERSION_1, 16));
    driver.read_disk(1, 512);
}

#[test]
fn each_ring_rule_violation_needs_a_reset() {
    type Break = fn(&mut Driver<Ours>);
    let ways: [(&str, Break); 13] = [
        ("a loop", |d| {
            d.descriptor(DESC, 0, DATA, 16, NEXT, 1);
            d.descriptor(DESC, 1, DATA, 16, NEXT, 0);
        }),
        ("a chain to itself", |d| d.descriptor(DESC, 0, DATA, 16, NEXT, 0)),
        ("a next beyond the table", |d| d.descriptor(DESC, 0, DATA, 16, NEXT, 16)),
        ("a readable buffer after a writable one", |d| {
            d.descriptor(DESC, 0, DATA, 16, NEXT | WRITE, 1);
            d.descriptor(DESC, 1, DATA, 16, 0, 0);
        }),
        ("no status", |d| d.descriptor(DESC, 0, DATA, 16, 0, 0)),
        ("half a header", |d| {
            d.descriptor(DESC, 0, DATA, 15, NEXT, 1);
            d.descriptor(DESC, 1, DATA, 1, WRITE, 0);
        }),
        ("a header outside RAM", |d| {
            d.descriptor(DESC, 0, u64::MAX - 3, 16, NEXT, 1);
            d.descriptor(DESC, 1, DATA, 1, WRITE, 0);
        }),
        ("a status outside RAM", |d| {
            let header = d.header(0, FLUSH, 0);
            d.descriptor(DESC, 0, header, 16, NEXT, 1);
            d.descriptor(DESC, 1, 0, 1, WRITE, 0);
        }),
        ("an indirect table with a next", |d| d.descriptor(DESC, 0, DATA, 16, INDIRECT | NEXT, 1)),
        ("an empty indirect table", |d| d.descriptor(DESC, 0, DATA, 0, INDIRECT, 0)),
        ("half an indirect table", |d| d.descriptor(DESC, 0, DATA, 24, INDIRECT, 0)),
        ("an endless indirect table", |d| d.descriptor(DESC, 0, DATA, 0xffff_fff0, INDIRECT, 0)),
        ("an indirect table in another", |d| {
            d.descriptor(DESC, 0, DATA, 16, INDIRECT, 0);
            d.descriptor(DATA, 0, DATA, 16, INDIRECT, 0);
        }),
    ];
    for (what, way) in ways {
        let mut driver = driver();
        way(&mut driver);
        assert_needs_reset(driver, what);
    }
}

#[test]
fn an_available_index_that_jumps_or_a_ring_outside_ram_needs_a_reset() {
    let mut jumping = driver();
    jumping.target.poke(AVAIL + 2, &17u16.to_le_bytes());
    jumping.notify();
    assert_eq!(jumping.get(0x70) & NEEDS_RESET, NEEDS_RESET);
    for place in [0x80, 0x90, 0xa0] {
        let mut driver = driver();
        driver.set(0x44, 0);
        driver.set_address(place, RAM_BASE + RAM_BYTES as u64 - 2 * 16);
        driver.set(0x44, 1);
        driver.describe(0, FLUSH, 0, None);
        driver.target.poke(RAM_BASE + RAM_BYTES as u64 - 32, &[0, 0, 1, 0, 1, 0]);
        driver.offer(1);
        driver.notify();
        driver.target.settle();
        let broken = driver.get(0x70) & NEEDS_RESET != 0;
        assert!(broken, "{place:#x}");
    }
}

#[test]
fn a_queue_with_an_invalid_size_or_address_is_not_enabled() {
    for (offset, value) in
        [(0x38, 0), (0x38, 3), (0x38, 512), (0x38, 65536 + 16), (0x80, 8), (0x90, 1), (0xa0, 2)]
    {
        let mut driver = driver();
        driver.set(0x44, 0);
        driver.set(offset, value);
        driver.set(0x44, 1);
        assert_eq!(driver.get(0x44), 0, "{offset:#x} = {value}");
        driver.notify();
    }
    let mut driver = driver();
    driver.set(0x38, 8);
    driver.set(0x30, 1);
    assert_eq!((driver.get(0x34), driver.get(0x44)), (0, 0), "there is no second queue");
    driver.set(0x30, 0);
    assert_eq!(driver.get(0x44), 1);
    driver.read_disk(0, 512);
}

#[test]
fn an_oversized_request_fails_without_a_transfer() {
    let mut driver = driver();
    let header = driver.header(0, IN, 0);
    driver.descriptor(DESC, 0, header, 16, NEXT, 1);
    for index in 1..15 {
        driver.descriptor(DESC, index, RAM_BASE, 0xffff_fe00, NEXT | WRITE, index + 1);
    }
    driver.descriptor(DESC, 15, STATUSES, 1, WRITE, 0);
    driver.offer(0);
    driver.notify();
    driver.target.settle();
    assert_eq!((driver.next_used(), driver.status(0)), (Some((0, 1)), 1));
}

fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => (0u64..0x20).prop_map(|page| DATA + page * 0x800),
        2 => prop::sample::select(vec![DESC, AVAIL, USED, HEADERS]),
        1 => Just(RAM_BASE + RAM_BYTES as u64 - 7),
        1 => any::<u64>(),
    ]
}

fn length() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => prop::sample::select(vec![0u32, 1, 15, 16, 17, 512, 1024, 4096, 0x2001]),
        1 => any::<u32>(),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Descriptor { table: u64, index: u16, addr: u64, len: u32, flags: u16, next: u16 },
    Header { addr: u64, kind: u32, sector: u64 },
    Ring { at: u64, value: u16 },
    Offer(u16),
    Notify,
    Advance,
    Settle,
    Register { offset: u64, value: u32 },
    Restart { features: u64, size: u16 },
}

fn any_step() -> impl Strategy<Value = Step> {
    let table = prop_oneof![3 => Just(DESC), 1 => Just(DATA)];
    let descriptor = (table, 0u16..18, address(), length(), 0u16..8, 0u16..18).prop_map(
        |(table, index, addr, len, flags, next)| Step::Descriptor { table, index, addr, len, flags, next },
    );
    let kind = prop_oneof![5 => prop::sample::select(vec![IN, OUT, FLUSH, GET_ID, DISCARD, WRITE_ZEROES]), 1 => any::<u32>()];
    let header = (address(), kind, prop_oneof![3 => 0u64..110, 1 => any::<u64>()])
        .prop_filter("in RAM", |(addr, ..)| (RAM_BASE..RAM_BASE + RAM_BYTES as u64 - 16).contains(addr))
        .prop_map(|(addr, kind, sector)| Step::Header { addr, kind, sector });
    let features = prop_oneof![Just(VERSION_1), Just(VERSION_1 | EVENT_IDX | INDIRECT_DESC), any::<u64>()];
    prop_oneof![
        8 => descriptor,
        4 => header,
        1 => (0u64..64, any::<u16>()).prop_map(|(at, value)| Step::Ring { at: at * 2, value }),
        6 => (0u16..17).prop_map(Step::Offer),
        6 => Just(Step::Notify),
        3 => Just(Step::Advance),
        2 => Just(Step::Settle),
        2 => ((0u64..0x50).prop_map(|word| word * 4), any::<u32>())
            .prop_map(|(offset, value)| Step::Register { offset, value }),
        3 => (features, prop::sample::select(vec![1u16, 8, 16, 256]))
            .prop_map(|(features, size)| Step::Restart { features, size }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn no_rings_make_the_device_panic_or_request_more_than_one_event(steps in prop::collection::vec(any_step(), 1..120)) {
        let mut driver = driver();
        for step in steps {
            match step {
                Step::Descriptor { table, index, addr, len, flags, next } => {
                    driver.descriptor(table, index, addr, len, flags, next);
                }
                Step::Header { addr, kind, sector } => {
                    driver.target.poke(addr, &kind.to_le_bytes());
                    driver.target.poke(addr + 8, &sector.to_le_bytes());
                }
                Step::Ring { at, value } => driver.target.poke(AVAIL + at, &value.to_le_bytes()),
                Step::Offer(head) => driver.offer(head),
                Step::Notify => driver.notify(),
                Step::Advance => { driver.target.step(); }
                Step::Settle => driver.target.settle(),
                Step::Register { offset, value } => {
                    driver.set(offset, value);
                    let read = driver.target.read(offset, AccessSize::B4);
                    prop_assert!(read <= 0xffff_ffff);
                }
                Step::Restart { features, size } => { driver.start(features, size); }
            }
            driver.size = driver.size.max(1);
            prop_assert!(driver.target.wakes.len() <= 1);
            let saved = driver.target.disk.save();
            prop_assert_eq!(driver.target.disk.wake_at(), driver.target.wakes.first().copied());
            // Every state that a guest can produce can be saved and restored.
            let mut copy = driver.target.disk.clone();
            let blocks: Vec<u8> = copy.medium().written_data().flatten().copied().collect();
            let mut rest = blocks.as_slice();
            let read = |into: &mut [u8]| std::io::Read::read_exact(&mut rest, into).is_ok();
            prop_assert_eq!(copy.restore("disk0", saved.clone(), read), Ok(()));
            prop_assert_eq!(copy.save(), saved);
        }
        driver.target.settle();
        prop_assert!(driver.target.wakes.is_empty());
    }
}
