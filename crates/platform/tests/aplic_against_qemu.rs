//! The APLIC compared with that of QEMU's `virt` with `aia=aplic-imsic`, through QEMU's qtest protocol. The
//! test directs messages to memory, where it can read them.

use std::collections::BTreeMap;

use doorbell_platform::map::{self, RegionId};
use doorbell_platform::{Aplic, DomainLevel};
use doorbell_qtest::Qtest;
use doorbell_sim::AccessSize;
use doorbell_sim::rng::Rng;

const B4: AccessSize = AccessSize::B4;
/// Message addresses of both domains; hart 0 and hart 1 have one page each.
const MESSAGES: [u64; 2] = [map::RAM_BASE, map::RAM_BASE + 0x10_0000];
const DOMAINS: [(DomainLevel, RegionId); 2] =
    [(DomainLevel::Machine, RegionId::AplicMachine), (DomainLevel::Supervisor, RegionId::AplicSupervisor)];
/// The sources in use: few, so that steps often affect the same ones; one with a wire, and the last ones.
const SOURCES: [u64; 6] = [1, 2, map::UART_IRQ as u64, 31, 32, 95];
const ADDRESSES: u64 = 0x1bc0;

struct Pair {
    qemu: Qtest,
    ours: Aplic,
    memory: BTreeMap<u64, u32>,
}

impl Pair {
    fn new() -> Pair {
        let qemu = Qtest::start(&["-machine", "aia=aplic-imsic", "-m", "64", "-smp", "2"]);
        let mut both = Pair { qemu, ours: Aplic::default(), memory: BTreeMap::new() };
        let [machine, supervisor] = MESSAGES.map(|address| address >> 12);
        for (value, offset) in [machine, 1 << 12, supervisor, 0].into_iter().zip([0, 4, 8, 12]) {
            both.write(0, ADDRESSES + offset, value);
        }
        both
    }

    fn base(domain: usize) -> u64 {
        map::get(DOMAINS[domain].1).base
    }

    fn write(&mut self, domain: usize, offset: u64, value: u64) {
        self.qemu.write(Pair::base(domain) + offset, B4, value);
        self.ours.write(DOMAINS[domain].0, offset, B4, value);
        self.settle();
        self.send();
    }

    /// According to the specification a level-sensitive source is not pending while its wire is inactive; in
    /// QEMU it stays pending.
    fn settle(&mut self) {
        for (domain, (level, _)) in DOMAINS.into_iter().enumerate() {
            for source in SOURCES {
                let mode = self.ours.read(level, 4 * source, B4);
                let active = self.ours.read(level, 0x1d00 + source / 32 * 4, B4) >> (source % 32) & 1 != 0;
                if (mode == 6 || mode == 7) && !active {
                    self.qemu.write(Pair::base(domain) + 0x1ddc, B4, source);
                }
            }
        }
    }

    /// Drives the UART's line, by its transmitter-empty interrupt.
    fn wire(&mut self, level: bool) {
        self.qemu.write(map::get(RegionId::Uart).base + 1, AccessSize::B1, if level { 2 } else { 0 });
        self.ours.set_level(map::UART_IRQ, level);
        self.settle();
        self.send();
    }

    fn send(&mut self) {
        while let Some(message) = self.ours.take_message() {
            self.memory.insert(message.address, message.data);
        }
    }

    fn compare(&mut self, what: &str) {
        let fixed = [0, 0x3000, 0x1c00, 0x1c04, 0x1c08, 0x1d00, 0x1d04, 0x1d08, 0x1e00, 0x1e04, 0x1e08];
        let of_sources = SOURCES.into_iter().flat_map(|source| [4 * source, 0x3000 + 4 * source]);
        for offset in fixed.into_iter().chain(of_sources) {
            for (domain, (level, id)) in DOMAINS.into_iter().enumerate() {
                // QEMU shows the wire of a detached source; the specification does not.
                let word = offset.checked_sub(0x1d00).filter(|at| *at < 12).map(|at| at / 4);
                let mut detached = |source: &u64| self.ours.read(level, 4 * *source, B4) == 1;
                let in_word = SOURCES.into_iter().filter(|source| Some(source / 32) == word);
                let hidden: u64 =
                    in_word.filter(|source| detached(source)).map(|source| 1 << (source % 32)).sum();
                let theirs = self.qemu.read(Pair::base(domain) + offset, B4) & !hidden;
                assert_eq!(self.ours.read(level, offset, B4), theirs, "{what}: {id:?} {offset:#x}");
            }
        }
        for address in MESSAGES.into_iter().flat_map(|address| [address, address + 0x1000]) {
            let theirs = self.qemu.read(address, B4);
            let ours = u64::from(self.memory.get(&address).copied().unwrap_or(0));
            assert_eq!(ours, theirs, "{what}: the message at {address:#x}");
        }
    }
}

#[test]
fn the_aplic_agrees_with_qemus_after_any_writes() {
    for round in 0..2 {
        random_accesses(round);
    }
}

/// Every other source is delegated to the child; in the second round, the others. QEMU lets a child configure
/// sources that are not delegated to it, and keep sources that were taken back. The specification does not,
/// so neither is tested.
fn random_accesses(round: usize) {
    let mut both = Pair::new();
    let mut random = Rng::stream(round as u64, "platform.against_qemu.aplic");
    both.compare("after reset");
    for source in SOURCES.into_iter().skip(round).step_by(2) {
        both.write(0, 4 * source, 1 << 10);
    }
    let mut wire = false;
    for step in 0..400 {
        let index = random.below(6) as usize;
        let (source, owner) = (SOURCES[index], usize::from(index % 2 == round));
        let what = random.below(13);
        let domain = if what < 2 { owner } else { random.below(2) as usize };
        let (bits, word) = (1 << (source % 32) | 1 << random.below(32), source / 32);
        let (offset, value) = match what {
            0 | 1 => (4 * source, [0, 1, 4, 5, 6, 7, 6, 4][random.below(8) as usize]),
            2 => (0, u64::from(random.below(4) != 0) << 8),
            3 => (0x1c00 + 4 * word, bits),
            4 => ([0x1cdc, 0x2000][random.below(2) as usize], source),
            5 => (0x1d00 + 4 * word, bits),
            6 => (0x1ddc, source),
            7 => (0x1e00 + 4 * word, bits),
            8 => (0x1edc, source),
            9 => ([0x1f00 + 4 * word, 0x1fdc][random.below(2) as usize], source),
            10 => (0x3000, random.below(2) << 18 | random.below(256)),
            11 => (0x3000 + 4 * source, random.below(2) << 18 | random.below(256)),
            _ => {
                wire = !wire;
                both.wire(wire);
                both.compare(&format!("step {step}, wire {wire}"));
                continue;
            }
        };
        both.write(domain, offset, value);
        both.compare(&format!("step {step}, domain {domain}: {value:#x} to {offset:#x}"));
    }
    assert!(both.ours.stats.forwarded > 10, "{:?}", both.ours.stats);
}
