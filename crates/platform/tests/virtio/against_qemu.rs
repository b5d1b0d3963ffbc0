//! The same driver with our device and with QEMU's, through QEMU's qtest protocol.

use doorbell_platform::DiskConfig;
use doorbell_qtest::Qtest;
use doorbell_sim::AccessSize;
use doorbell_sim::rng::Rng;

use crate::virtio::driver::*;
use crate::virtio::ours::{Ours, SECTORS, disk_file};

/// VIRTIO_BLK_F_SIZE_MAX.
const SIZE_MAX: u64 = 1 << 1;
const DEVICE_ID_BLOCK: u64 = 2;
const WAIT_MS: u64 = 1;
const POLLS_MAX: u32 = 5_000;

struct Qemu {
    qtest: Qtest,
    /// The device's address: QEMU assigns its slots from either end.
    base: u64,
    _disk: tempfile::NamedTempFile,
}

impl Qemu {
    fn start() -> Qemu {
        let (disk, _) = disk_file(SECTORS);
        let drive = format!("file={},if=none,id=d,format=raw,snapshot=on", disk.path().display());
        let (modern, device) =
            ("virtio-mmio.force-legacy=false", "virtio-blk-device,drive=d,serial=doorbell-disk0");
        let mut qtest = Qtest::start(&["-m", "16", "-global", modern, "-drive", &drive, "-device", device]);
        let mut places = (0..8).map(|slot| 0x1000_1000 + slot * 0x1000);
        let base = places.find(|place| qtest.read(place + 8, AccessSize::B4) == DEVICE_ID_BLOCK);
        Qemu { qtest, base: base.expect("QEMU has a disk"), _disk: disk }
    }
}

impl Target for Qemu {
    fn read(&mut self, offset: u64, size: AccessSize) -> u64 {
        self.qtest.read(self.base + offset, size)
    }
    fn write(&mut self, offset: u64, size: AccessSize, value: u64) {
        self.qtest.write(self.base + offset, size, value);
    }
    fn poke(&mut self, addr: u64, bytes: &[u8]) {
        self.qtest.poke(addr, bytes);
    }
    fn peek(&mut self, addr: u64, len: usize) -> Vec<u8> {
        self.qtest.peek(addr, len)
    }
    /// Waits until all available chains are used, or the device needs a reset.
    fn settle(&mut self) {
        for _ in 0..POLLS_MAX {
            if self.peek(AVAIL + 2, 2) == self.peek(USED + 2, 2) || self.read(0x70, AccessSize::B4) & 64 != 0
            {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(WAIT_MS));
        }
        panic!("QEMU does not complete the requests on the ring");
    }
}

fn pair() -> (Driver<Ours>, Driver<Qemu>) {
    (Driver::new(Ours::new(DiskConfig::default())), Driver::new(Qemu::start()))
}

/// Performs a step on both and compares the results.
macro_rules! both {
    ($ours:ident, $qemu:ident, $what:literal, |$driver:ident| $step:expr) => {{
        let mine = {
            let $driver = &mut $ours;
            $step
        };
        let theirs = {
            let $driver = &mut $qemu;
            $step
        };
        // Whole disks are too large to print.
        assert!(mine == theirs, "{} differs from QEMU's", $what);
        mine
    }};
}

#[test]
fn identity_negotiation_and_configuration_agree_with_qemu() {
    let (mut ours, mut qemu) = pair();
    both!(ours, qemu, "magic, version, device", |driver| [0, 4, 8].map(|offset| driver.get(offset)));
    both!(ours, qemu, "status after reset", |driver| driver.get(0x70));
    let (mine, theirs) = (ours.offered(), qemu.offered());
    assert_eq!(mine & !theirs, SIZE_MAX, "QEMU offers all our features but the buffer size limit");
    for features in [VERSION_1, mine & theirs] {
        both!(ours, qemu, "agreement", |driver| driver.start(features, 16));
        both!(ours, qemu, "status", |driver| driver.get(0x70));
        both!(ours, qemu, "live", |driver| driver.get(0x44));
    }
    both!(ours, qemu, "capacity", |driver| (driver.get(0x100), driver.get(0x104)));
    both!(ours, qemu, "block size", |driver| driver.get(0x114));
    both!(ours, qemu, "queues", |driver| driver.target.read(0x122, AccessSize::B2));
    both!(ours, qemu, "no shared memory", |driver| [0xb0, 0xb4].map(|offset| driver.get(offset)));
    both!(ours, qemu, "reset", |driver| {
        driver.set(0x70, 0);
        (driver.get(0x70), driver.get(0x44), driver.get(0x60))
    });
}

#[test]
fn random_requests_have_the_same_status_data_and_interrupts_as_qemus() {
    let (mut ours, mut qemu) = pair();
    let mut random = Rng::stream(11, "virtio against QEMU");
    let features = ours.offered() & qemu.offered();
    for round in 0..300 {
        if round % 60 == 0 {
            let chosen = if round % 120 == 0 { features } else { VERSION_1 };
            assert!(both!(ours, qemu, "start", |driver| driver.start(chosen, 32)));
            // QEMU interrupts for the first request in any case.
            both!(ours, qemu, "first", |driver| driver.request(FLUSH, 0, None));
            both!(ours, qemu, "its interrupt", |driver| {
                driver.set(0x64, 3);
                driver.get(0x60)
            });
        }
        let mut below = |limit: u64| random.next_u64() % limit;
        let kind = [IN, IN, OUT, OUT, FLUSH, GET_ID, 77][below(7) as usize];
        let (sector, sectors) = (below(SECTORS + 4), below(9));
        let len = (sectors * 512) as u32 + if below(12) == 0 { 100 } else { 0 };
        let fill = vec![below(256) as u8; 8192];
        let data = match kind {
            IN | OUT if len > 0 => Some((DATA, len, kind == IN)),
            GET_ID => Some((DATA, 20, true)),
            _ => None,
        };
        let event = below(4) as u16;
        let status = both!(ours, qemu, "status", |driver| {
            driver.target.poke(DATA, &fill);
            // The used index for which the driver requests an interrupt; sometimes that of this request.
            let wanted = driver.used.wrapping_add(event);
            driver.target.poke(AVAIL + 4 + 2 * 32, &wanted.to_le_bytes());
            driver.request(kind, sector, data).0
        });
        if status == 0 {
            // The bytes after the end of a name are undefined.
            let compared = if kind == GET_ID { 14 } else { 8192 };
            let data = both!(ours, qemu, "data", |driver| driver.target.peek(DATA, compared));
            assert!(kind != GET_ID || data == b"doorbell-disk0");
        }
        both!(ours, qemu, "interrupt", |driver| {
            let pending = driver.get(0x60);
            driver.set(0x64, pending);
            pending
        });
    }
    assert!(both!(ours, qemu, "start", |driver| driver.start(VERSION_1, 16)));
    both!(ours, qemu, "the whole disk", |driver| driver.read_disk(0, SECTORS as u32 * 512));
    assert!(
        ours.target.disk.stats().failed_requests > 5 && ours.target.disk.stats().unsupported_requests > 5
    );
}

#[test]
fn ring_rule_violations_need_a_reset_as_in_qemu() {
    type Break<T> = fn(&mut Driver<T>);
    fn ways<T: Target>() -> [Break<T>; 5] {
        [
            |d| {
                d.descriptor(DESC, 0, DATA, 16, NEXT, 1);
                d.descriptor(DESC, 1, DATA, 16, NEXT, 0);
            },
            |d| d.descriptor(DESC, 0, DATA, 16, NEXT, 99),
            |d| d.descriptor(DESC, 0, DATA, 16, 0, 0),
            |d| d.descriptor(DESC, 0, DATA, 24, INDIRECT, 0),
            |d| {
                d.descriptor(DESC, 0, DATA, 16, NEXT | WRITE, 1);
                d.descriptor(DESC, 1, DATA, 16, 0, 0);
            },
        ]
    }
    let (mut ours, mut qemu) = pair();
    let features = ours.offered() & qemu.offered();
    for (index, (mine, theirs)) in ways::<Ours>().into_iter().zip(ways::<Qemu>()).enumerate() {
        assert!(both!(ours, qemu, "start", |driver| driver.start(features, 16)), "{index}");
        mine(&mut ours);
        theirs(&mut qemu);
        let answer = both!(ours, qemu, "status and interrupt", |driver| {
            driver.offer(0);
            driver.notify();
            driver.target.settle();
            (driver.get(0x70), driver.get(0x60) & 2, driver.used_index())
        });
        assert_eq!(answer, (15 | 64, 2, 0), "{index}");
    }
}
