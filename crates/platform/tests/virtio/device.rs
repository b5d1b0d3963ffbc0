//! Tests with a driver that obeys the rules.

use doorbell_platform::virtio::mmio::REGISTERS;
use doorbell_platform::virtio::read_empty;
use doorbell_platform::{DiskConfig, DiskError, DiskFile, VirtioDisk};
use doorbell_sim::{AccessSize, BitsPerSec, Bytes, Ps};

use crate::virtio::driver::*;
use crate::virtio::ours::{Ours, SECTORS, contents, disk_file};

fn driver() -> Driver<Ours> {
    with(DiskConfig::default())
}

fn with(config: DiskConfig) -> Driver<Ours> {
    let mut driver = Driver::new(Ours::new(config));
    let features = driver.offered();
    // Interrupts by the flags, unless a test is about event indexes.
    assert!(driver.start(features & !EVENT_IDX, 16));
    driver
}

#[test]
fn registers_have_their_reset_values() {
    let mut ours = Ours::new(DiskConfig::default());
    for row in REGISTERS.iter().filter(|row| row.access.readable()) {
        assert_eq!(ours.disk.read(row.offset, AccessSize::B4), row.reset, "{}", row.name);
        let empty = if row.offset < 0x10 && row.name != "DeviceID" { row.reset } else { 0 };
        assert_eq!(read_empty(row.offset, AccessSize::B4), empty, "{}", row.name);
    }
    assert_eq!(ours.disk.stats().undefined_accesses, 0);
    for (offset, size) in
        [(0, AccessSize::B1), (0x70, AccessSize::B8), (0x18, AccessSize::B4), (0x13c, AccessSize::B4)]
    {
        assert_eq!(ours.disk.read(offset, size), 0);
    }
    assert_eq!(ours.disk.stats().undefined_accesses, 4);
}

#[test]
fn configuration_space_has_the_capacity_at_every_width() {
    let mut driver = driver();
    assert_eq!(driver.target.read(0x100, AccessSize::B8), SECTORS);
    assert_eq!(driver.target.read(0x100, AccessSize::B1), SECTORS);
    assert_eq!(driver.target.read(0x114, AccessSize::B4), 512);
    assert_eq!(driver.target.read(0x122, AccessSize::B2), 1);
}

#[test]
fn invalid_feature_sets_are_not_accepted() {
    let mut driver = driver();
    let offered = driver.offered();
    assert!(offered & VERSION_1 != 0 && offered & EVENT_IDX != 0 && offered & INDIRECT_DESC != 0);
    assert!(!driver.start(offered & !VERSION_1, 16), "a legacy driver");
    assert!(!driver.start(offered | 1 << 40, 16), "a feature that was not offered");
    assert!(driver.start(VERSION_1, 16));
    driver.choose(offered);
    assert_eq!(driver.get(0x70), 15, "negotiated features are final");
    assert_eq!(driver.read_disk(3, 512), contents(SECTORS)[3 * 512..4 * 512]);
}

#[test]
fn written_data_is_read_back_and_the_file_does_not_change() {
    let (file, opened) = disk_file(SECTORS);
    let mut driver = Driver::new(Ours::with_file(DiskConfig::default(), opened));
    assert!(driver.start(VERSION_1, 16));
    let mut model = contents(SECTORS);
    // Inside a block, across a boundary, a whole block, and the disk's last, incomplete block.
    for (sector, sectors, fill) in [(1, 2, 1u8), (7, 2, 2), (16, 8, 3), (96, 4, 4), (15, 30, 5)] {
        let bytes = vec![fill; sectors * 512];
        assert_eq!(driver.write_disk(sector, &bytes), 0);
        model[sector as usize * 512..][..bytes.len()].copy_from_slice(&bytes);
    }
    assert!(driver.read_disk(0, SECTORS as u32 * 512) == model);
    assert_eq!(std::fs::read(file.path()).unwrap(), contents(SECTORS));
    let stats = driver.target.disk.stats();
    assert_eq!((stats.writes, stats.reads, stats.failed_requests), (5, 1, 0));
    assert_eq!(stats.written_bytes, (2 + 2 + 8 + 4 + 30) * 512);
}

#[test]
fn a_request_is_done_at_its_time_and_not_a_picosecond_before() {
    let config = DiskConfig {
        latency: Ps::from_us(10),
        bandwidth: BitsPerSec(8_000_000_000),
        ..DiskConfig::default()
    };
    let mut driver = with(config);
    driver.target.now = Ps::from_ms(1);
    // Two reads of 4,096 bytes: 4.096 µs each, one after the other; their latencies overlap.
    for slot in 0..2 {
        driver.describe(slot, IN, 8 * u64::from(slot), Some((DATA + 0x1000 * u64::from(slot), 4096, true)));
        driver.offer(3 * slot);
    }
    driver.notify();
    let first = Ps::from_ms(1) + Ps(4_096_000) + Ps::from_us(10);
    assert_eq!(driver.target.wakes, [first]);
    let ours = &mut driver.target;
    assert_eq!(ours.disk.wake(first - Ps(1), &mut ours.memory), None, "the requested event is still pending");
    assert_eq!(driver.used_index(), 0);
    assert!(driver.target.step() && driver.target.now == first);
    assert_eq!((driver.used_index(), driver.status(0), driver.status(1)), (1, 0, 0xaa));
    assert_eq!(driver.target.wakes, [first + Ps(4_096_000)]);
    assert_eq!((driver.get(0x60), driver.target.disk.irq()), (1, true));
    driver.set(0x64, 1);
    assert!(!driver.target.disk.irq());
    assert!(driver.target.step() && driver.target.disk.irq());
    assert_eq!(driver.target.peek(DATA, 8192), contents(SECTORS)[..8192]);
}

#[test]
fn header_and_status_may_be_split_over_buffers_in_any_way() {
    let mut driver = driver();
    // Header in two pieces; data in three, the last of which also takes the status.
    let header = driver.header(0, IN, 2);
    driver.descriptor(DESC, 0, header, 5, NEXT, 4);
    driver.descriptor(DESC, 4, header + 5, 11, NEXT, 1);
    driver.descriptor(DESC, 1, DATA, 100, NEXT | WRITE, 9);
    driver.descriptor(DESC, 9, DATA + 100, 0, NEXT | WRITE, 2);
    driver.descriptor(DESC, 2, DATA + 100, 413, WRITE, 0);
    driver.offer(0);
    driver.notify();
    driver.target.settle();
    assert_eq!(driver.next_used(), Some((0, 513)));
    let mut expected = contents(SECTORS)[1024..1536].to_vec();
    expected.push(0);
    assert_eq!(driver.target.peek(DATA, 513), expected);
}

#[test]
fn an_indirect_table_may_follow_direct_descriptors() {
    let mut driver = driver();
    let table = DATA + 0x8000;
    let header = driver.header(0, IN, 5);
    driver.descriptor(DESC, 0, header, 16, NEXT, 1);
    driver.descriptor(DESC, 1, table, 32, INDIRECT | WRITE, 0);
    driver.descriptor(table, 0, DATA, 512, NEXT | WRITE, 1);
    driver.descriptor(table, 1, STATUSES, 1, WRITE, 0);
    driver.offer(0);
    driver.notify();
    driver.target.settle();
    assert_eq!((driver.next_used(), driver.status(0)), (Some((0, 513)), 0));
    assert_eq!(driver.target.peek(DATA, 512), contents(SECTORS)[5 * 512..6 * 512]);
}

#[test]
fn interrupts_follow_the_flag_and_the_event_index() {
    let mut driver = driver();
    driver.target.poke(AVAIL, &1u16.to_le_bytes());
    driver.read_disk(0, 512);
    assert_eq!(driver.get(0x60), 0, "interrupts off by the flag");
    let features = driver.offered();
    assert!(driver.start(features, 16));
    // Interrupt after the second entry of the used ring only.
    driver.target.poke(AVAIL + 4 + 2 * 16, &1u16.to_le_bytes());
    for expected in [0, 1, 0] {
        driver.read_disk(0, 512);
        assert_eq!(driver.get(0x60), expected);
        driver.set(0x64, 3);
    }
    // The device, too, states the chain for which it needs a notification.
    assert_eq!(driver.target.peek(USED + 4 + 8 * 16, 2), 3u16.to_le_bytes());
}

#[test]
fn flush_get_id_write_zeroes_and_discard_work() {
    let mut driver = driver();
    assert_eq!(driver.request(FLUSH, 0, None), (0, 1));
    assert_eq!(driver.request(GET_ID, 0, Some((DATA, 20, true))), (0, 21));
    assert_eq!(driver.target.peek(DATA, 20), b"doorbell-disk0\0\0\0\0\0\0");
    assert_eq!(driver.request(99, 0, None).0, 2);
    let range = |first: u64, sectors: u32, flags: u32| {
        let mut bytes = first.to_le_bytes().to_vec();
        bytes.extend(sectors.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes
    };
    let clear = |driver: &mut Driver<Ours>, kind, bytes: &[u8]| {
        driver.target.poke(DATA, bytes);
        driver.request(kind, 0, Some((DATA, bytes.len() as u32, false))).0
    };
    assert_eq!(driver.write_disk(0, &[9; 64 * 512]), 0);
    assert_eq!(clear(&mut driver, WRITE_ZEROES, &range(4, 20, 1)), 0);
    let mut expected = [9; 64 * 512];
    expected[4 * 512..24 * 512].fill(0);
    assert!(driver.read_disk(0, 64 * 512) == expected);
    // Only the block that is entirely in the range is dropped, and the file's contents reappear.
    assert_eq!(clear(&mut driver, DISCARD, &range(30, 16, 0)), 0);
    expected[32 * 512..40 * 512].copy_from_slice(&contents(SECTORS)[32 * 512..40 * 512]);
    assert!(driver.read_disk(0, 64 * 512) == expected);
    assert_eq!(clear(&mut driver, DISCARD, &range(0, 8, 1)), 2, "an unknown flag");
    assert_eq!(clear(&mut driver, WRITE_ZEROES, &range(SECTORS - 1, 2, 0)), 1, "beyond the end");
    assert_eq!(clear(&mut driver, DISCARD, &range(u64::MAX, 1, 0)), 1);
    assert_eq!(clear(&mut driver, DISCARD, &[0; 15]), 1, "half a range");
}

#[test]
fn requests_outside_the_disk_or_with_partial_sectors_fail_without_a_transfer() {
    let mut driver = driver();
    driver.target.poke(DATA, &[0x77; 2048]);
    for (sector, len) in
        [(SECTORS, 512), (SECTORS - 1, 1024), (u64::MAX, 512), (u64::MAX / 512, 1024), (0, 511), (0, 513)]
    {
        assert_eq!(driver.request(IN, sector, Some((DATA, len, true))).0, 1, "{sector} {len}");
        assert_eq!(driver.request(OUT, sector, Some((DATA, len, false))).0, 1, "{sector} {len}");
    }
    assert_eq!(driver.target.peek(DATA, 2048), [0x77; 2048]);
    assert_eq!(driver.request(OUT, 0, Some((0x7fff_ff00, 512, false))).0, 1);
    assert_eq!(driver.request(IN, 0, Some((0x800f_ff00, 512, true))).0, 1);
    assert_eq!(driver.target.disk.stats().outside_ram, 2);
    assert!(driver.read_disk(0, SECTORS as u32 * 512) == contents(SECTORS));
}

#[test]
fn a_disk_stores_no_more_than_its_limit() {
    let mut driver = with(DiskConfig { written_max: Bytes(3 * 4096), ..DiskConfig::default() });
    assert_eq!(driver.write_disk(0, &[1; 4096 * 3]), 0);
    assert_eq!(driver.write_disk(24, &[2; 512]), 1);
    assert_eq!(driver.write_disk(3, &[3; 512]), 0, "stored blocks may change");
    assert_eq!(driver.target.disk.stats().refused_writes, 1);
    assert_eq!(driver.read_disk(24, 512), contents(SECTORS)[24 * 512..25 * 512]);
}

#[test]
fn more_requests_than_the_device_holds_are_all_completed() {
    let mut driver = Driver::new(Ours::new(DiskConfig::default()));
    assert!(driver.start(VERSION_1, 256));
    driver.describe(0, FLUSH, 0, None);
    // Repeats the same chain, which a driver must not do before its completion.
    for round in 0..3 {
        for _ in 0..200 {
            driver.offer(0);
        }
        driver.notify();
        assert!(driver.target.wakes.len() == 1, "round {round}");
        if round == 0 {
            continue;
        }
        driver.target.settle();
        assert_eq!(driver.used_index(), if round == 1 { 400 } else { 600 });
    }
    assert_eq!(driver.target.disk.stats().flushes, 600);
}

#[test]
fn a_reset_drops_requests_in_flight_but_keeps_written_data() {
    let mut driver = driver();
    assert_eq!(driver.write_disk(8, &[5; 512]), 0);
    driver.describe(0, OUT, 9, Some((DATA, 512, false)));
    driver.offer(0);
    driver.notify();
    driver.set(0x70, 0);
    assert_eq!((driver.get(0x70), driver.get(0x44), driver.get(0x60)), (0, 0, 0));
    driver.target.settle();
    assert_eq!(driver.used_index(), 1, "only the first is completed");
    assert!(driver.start(VERSION_1, 8));
    let disk = driver.read_disk(8, 1024);
    assert_eq!((disk[0], disk[512]), (5, contents(SECTORS)[9 * 512]));
    assert_eq!(driver.target.disk.stats().resets, 3, "each start begins with a reset");
}

#[test]
fn a_restored_disk_continues_like_the_original() {
    let (_file, opened) = disk_file(SECTORS);
    let mut driver = Driver::new(Ours::with_file(DiskConfig::default(), opened.clone()));
    assert!(driver.start(VERSION_1, 16));
    assert_eq!(driver.write_disk(5, &[6; 5120]), 0);
    driver.describe(0, IN, 4, Some((DATA, 4096, true)));
    driver.offer(0);
    driver.notify();
    let ours = &driver.target;
    let bytes = postcard::to_stdvec(&ours.disk.save()).unwrap();
    let blocks: Vec<u8> = ours.disk.medium().written_data().flatten().copied().collect();
    let restore = |file: DiskFile, blocks: &[u8]| {
        let mut rest = blocks;
        let mut disk = VirtioDisk::new(0, DiskConfig::default(), file);
        let read = |into: &mut [u8]| std::io::Read::read_exact(&mut rest, into).is_ok();
        disk.restore("disk0", postcard::from_bytes(&bytes).unwrap(), read).map(|()| disk)
    };
    let mut copy = Ours::with_file(DiskConfig::default(), opened.clone());
    copy.disk = restore(opened.clone(), &blocks).unwrap();
    copy.memory.0.clone_from(&ours.memory.0);
    (copy.now, copy.wakes) = (ours.now, ours.wakes.clone());
    copy.settle();
    driver.target.settle();
    assert!(copy.memory.0 == driver.target.memory.0);
    assert_eq!(copy.disk.save(), driver.target.disk.save());
    let mut harmed = blocks.clone();
    harmed[7] ^= 1;
    assert!(restore(opened.clone(), &harmed).unwrap_err().to_string().contains("damaged"));
    assert!(restore(opened, &blocks[1..]).unwrap_err().to_string().contains("missing"));
    assert!(restore(disk_file(SECTORS + 1).1, &blocks).unwrap_err().to_string().contains("a different disk"));
}

#[test]
fn files_that_cannot_be_disks_are_refused_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    assert!(matches!(DiskFile::open(&path), Err(DiskError::Io { .. })));
    std::fs::write(&path, "").unwrap();
    assert!(DiskFile::open(&path).unwrap_err().to_string().contains("is empty; make it"));
    std::fs::write(&path, [0; 1000]).unwrap();
    let error = DiskFile::open(&path).unwrap_err().to_string();
    assert!(error.contains("1000 bytes") && error.contains("truncate -s %512"), "{error}");
    assert!(DiskFile::open(dir.path()).unwrap_err().to_string().contains("not a regular file"));
}
