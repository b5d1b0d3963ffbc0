//! A hart's interrupt files compared with QEMU's `virt` with `aia=aplic-imsic`: on both machines a bare-metal
//! program makes seeded random accesses and stores the results.

use std::time::Duration;

use doorbell_assembler::*;
use doorbell_machine::{Limits, Machine, MachineConfig};
use doorbell_platform::{InterruptsKind, map};
use doorbell_qtest::Qtest;
use doorbell_sim::rng::Rng;
use doorbell_sim::{AccessSize, PhysAddr, Ps};

const RESULTS: u64 = map::RAM_BASE + 0x10_0000;
const DONE: u64 = RESULTS - 8;
const STEPS: u64 = 600;
/// The program runs for about a millisecond.
const TIMEOUT_MS: u64 = 60_000;

const MVIP: u32 = 0x309;
/// CSRs of machine and supervisor mode: select, window, top external interrupt and top interrupt.
const LEVELS: [[u32; 4]; 2] = [[0x350, 0x351, 0x35c, 0xfb0], [0x150, 0x151, 0x15c, 0xdb0]];
const FILES: [u64; 2] = [0x2400_0000, 0x2800_0000];
/// Indirect registers of the test. Reserved ones are left out: the specification makes them read as zero, but
/// QEMU does not implement them.
const REGISTERS: [u64; 10] = [0x70, 0x72, 0x80, 0x82, 0x84, 0x86, 0xc0, 0xc2, 0xc4, 0xc6];
/// Interrupts of the test. The CLINT's are left out, because its time differs between the machines.
const MAJOR: u64 = 0xa22;

/// The program, and a description of each result.
fn program(seed: u64) -> (Vec<u8>, Vec<String>) {
    let mut random = Rng::stream(seed, "machine.interrupt_files");
    let (mut a, mut descriptions) = (Assembler::new(map::RAM_BASE), Vec::new());
    a.la(T0, "trap");
    a.csrw(csr::MTVEC, T0);
    a.csrw(csr::MIE, ZERO);
    a.li(S0, RESULTS);
    for step in 0..STEPS {
        let level = random.below(2) as usize;
        let [select, window, top_external, top] = LEVELS[level];
        // Identities are mostly below 8, so that accesses often use the same one.
        let identity = if random.below(4) == 0 { random.below(260) } else { random.below(8) };
        let what = match random.below(10) {
            0..=2 => {
                let register = REGISTERS[random.below(10) as usize];
                let value = match register {
                    0x70 => u64::from(random.below(4) != 0),
                    0x72 => [0, 0, 3, 6, 200][random.below(5) as usize],
                    _ if random.below(2) == 0 => u64::MAX,
                    _ => random.next_u64(),
                };
                a.li(T0, register);
                a.csrw(select, T0);
                a.li(T1, value);
                a.csr_swap(T1, window);
                format!("register {register:#x} exchanged with {value:#x}")
            }
            3..=5 => {
                a.li(T0, FILES[level]);
                a.li(T1, identity);
                a.sw(T1, T0, 0);
                a.csrr(T1, csr::MIP);
                format!("mip after message {identity}")
            }
            6 => {
                a.li(T1, 0);
                a.csr_swap(T1, top_external);
                "claim".to_owned()
            }
            7 => {
                a.csrr(T1, top_external);
                "top external interrupt".to_owned()
            }
            8 => {
                a.li(T0, random.next_u64() & MAJOR);
                a.csrw(csr::MIE, T0);
                a.li(T0, random.next_u64() & 0x222);
                a.csrw(csr::MIDELEG, T0);
                a.csrr(T1, top);
                // Only the identity: QEMU reports no priority of external interrupts.
                a.srli(T1, T1, 16);
                "top interrupt".to_owned()
            }
            _ => {
                // Bit 9 is left out: in QEMU it also includes the file's interrupt.
                a.li(T1, random.next_u64() & 0x22);
                a.csr_swap(T1, MVIP);
                a.andi(T1, T1, 0x22);
                "mvip exchanged".to_owned()
            }
        };
        a.li(T2, MAJOR);
        if what.starts_with("mip") {
            a.and(T1, T1, T2);
        }
        a.sd(T1, S0, 0);
        a.addi(S0, S0, 8);
        descriptions.push(format!("seed {seed}, step {step}, level {level}: {what}"));
    }
    a.li(T0, DONE);
    a.li(T1, 1);
    a.sd(T1, T0, 0);
    a.label("end");
    a.j("end");
    // No instruction should trap. If one does, the test reports the last result before it.
    a.fill_to(a.here().next_multiple_of(4));
    a.label("trap");
    a.li(T0, DONE);
    a.sd(S0, T0, 0);
    a.j("end");
    (a.finish(), descriptions)
}

fn ours(program: &[u8]) -> Vec<u64> {
    let mut config = MachineConfig::default();
    config.platform.interrupts = InterruptsKind::Aia;
    let mut machine = Machine::new(config, 1).unwrap();
    assert!(machine.load_bare(program));
    machine.run(&Limits::until(Ps::from_us(100)));
    let word = |at: u64| {
        let mut bytes = [0; 8];
        assert!(machine.ram().copy_out(PhysAddr(at), &mut bytes));
        u64::from_le_bytes(bytes)
    };
    assert_eq!(word(DONE), 1, "the program ends");
    (0..STEPS).map(|step| word(RESULTS + 8 * step)).collect()
}

fn theirs(program: &[u8], descriptions: &[String]) -> Vec<u64> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), program).unwrap();
    let bios = file.path().to_str().unwrap();
    let options = ["-machine", "aia=aplic-imsic", "-accel", "tcg", "-cpu", "rv64", "-m", "64", "-bios", bios];
    let mut qemu = Qtest::start(&options);
    let ended = (0..TIMEOUT_MS).find_map(|_| {
        std::thread::sleep(Duration::from_millis(1));
        Some(qemu.read(DONE, AccessSize::B8)).filter(|done| *done != 0)
    });
    let trapped = ended.filter(|done| *done != 1).map(|at| &descriptions[((at - RESULTS) / 8) as usize]);
    assert_eq!((ended, trapped), (Some(1), None), "the program ends without a trap");
    (0..STEPS).map(|step| qemu.read(RESULTS + 8 * step, AccessSize::B8)).collect()
}

#[test]
fn interrupt_file_accesses_match_qemu() {
    for seed in 0..4 {
        let (program, descriptions) = program(seed);
        for ((ours, theirs), what) in
            ours(&program).into_iter().zip(theirs(&program, &descriptions)).zip(&descriptions)
        {
            assert_eq!(ours, theirs, "{what}: {ours:#x}, QEMU's {theirs:#x}");
        }
    }
}
