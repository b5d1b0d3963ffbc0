//! The Advanced Interrupt Architecture: interrupt files and their registers.

use doorbell_riscv::{FileLevel, Hart, HartConfig, IDENTITIES, Interrupt, Privilege};

use crate::asm::csr;
use crate::bench::{Bench, CODE, LEVELS, Outcome, config, csrs::*, status};
use Privilege::{Machine, Supervisor};

const SISELECT: u16 = 0x150;
const SIREG: u16 = 0x151;
const STOPEI: u16 = 0x15c;
const STOPI: u16 = 0xdb0;
const MVIEN: u16 = 0x308;
const MVIP: u16 = 0x309;
const MISELECT: u16 = 0x350;
const MIREG: u16 = 0x351;
const MTOPEI: u16 = 0x35c;
const MTOPI: u16 = 0xfb0;
const ALL: [u16; 10] = [SISELECT, SIREG, STOPEI, STOPI, MVIEN, MVIP, MISELECT, MIREG, MTOPEI, MTOPI];

const DELIVERY: u64 = 0x70;
const ENABLED: u64 = 0xc0;
const SSIP: u64 = 1 << 1;
const STIP: u64 = 1 << 5;
const SEIP: u64 = 1 << 9;
const MEIP: u64 = 1 << 11;
const ILLEGAL: u64 = 2;
const INTERRUPT: u64 = 1 << 63;

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.hart = Hart::new(HartConfig { aia: true, ..config() });
    bench.set(MTVEC, crate::bench::M_HANDLER);
    bench.set(STVEC, crate::bench::S_HANDLER);
    bench
}

/// Writes a register of an interrupt file.
fn put(bench: &mut Bench, level: FileLevel, register: u64, value: u64) {
    let (select, window) = match level {
        FileLevel::Machine => (MISELECT, MIREG),
        FileLevel::Supervisor => (SISELECT, SIREG),
    };
    bench.set(select, register);
    bench.set(window, value);
}

/// A hart whose supervisor file delivers identities 1 to 63, with external interrupts delegated to the
/// supervisor.
fn open() -> Bench {
    let mut bench = bench();
    put(&mut bench, FileLevel::Supervisor, DELIVERY, 1);
    put(&mut bench, FileLevel::Supervisor, ENABLED, u64::MAX);
    bench.set(MIDELEG, SSIP | STIP | SEIP);
    bench
}

#[test]
fn a_hart_without_aia_has_no_aia_registers() {
    let mut bench = Bench::new();
    for number in ALL {
        assert_eq!(bench.hart.csr(number), None, "{number:#x}");
        assert_eq!(bench.execute(Machine, csr(2, 5, number.into(), 0)).cause(), Some(ILLEGAL), "{number:#x}");
    }
    assert!(!bench.hart.receive_message(FileLevel::Supervisor, 1));
    assert_eq!(bench.get(MIP), 0);
    assert!(bench.hart.save_aia().is_none());
}

#[test]
fn each_register_belongs_to_the_level_in_its_number_and_tops_are_read_only() {
    for number in ALL {
        for level in LEVELS {
            let allowed = |funct3, source| {
                let mut bench = open();
                // Select an existing register.
                bench.set(MISELECT, DELIVERY);
                bench.execute(level, csr(funct3, 5, number.into(), source)).cause() != Some(ILLEGAL)
            };
            let high_enough = level as u16 >= number >> 8 & 3;
            assert_eq!(allowed(2, 0), high_enough, "read {number:#x} at {level:?}");
            let writable = high_enough && ![STOPI, MTOPI].contains(&number);
            assert_eq!(allowed(1, 6), writable, "write {number:#x} at {level:?}");
        }
    }
}

#[test]
fn the_indirect_window_reaches_only_existing_registers() {
    let mut bench = bench();
    for select in 0..0x200u64 {
        bench.set(MISELECT, select);
        assert_eq!(bench.get(MISELECT), select);
        let exists = match select {
            0x30..=0x3f | 0x80..=0xff => select.is_multiple_of(2),
            0x70..=0x7f => true,
            _ => false,
        };
        assert_eq!(bench.hart.csr(MIREG).is_some(), exists, "{select:#x}");
        let read = bench.execute(Machine, csr(2, 5, MIREG.into(), 0));
        assert_eq!(read.cause() != Some(ILLEGAL), exists, "{select:#x}");
    }
    bench.set(MISELECT, u64::MAX);
    assert_eq!(bench.get(MISELECT), 0x1ff);
    for priorities in (0x30..=0x3e).step_by(2) {
        put(&mut bench, FileLevel::Machine, priorities, u64::MAX);
        assert_eq!(bench.get(MIREG), 0, "priorities cannot be changed");
    }
}

#[test]
fn the_two_files_are_independent() {
    let mut bench = bench();
    for level in [FileLevel::Machine, FileLevel::Supervisor] {
        put(&mut bench, level, ENABLED, 1 << 3);
    }
    assert!(bench.hart.receive_message(FileLevel::Machine, 3));
    assert_eq!((bench.get(MTOPEI), bench.get(STOPEI)), (3 << 16 | 3, 0));
    assert_eq!(bench.get(MIP), 0, "no file delivers yet");
    put(&mut bench, FileLevel::Supervisor, DELIVERY, 1);
    assert_eq!(bench.get(MIP), 0);
    put(&mut bench, FileLevel::Machine, DELIVERY, 1);
    assert_eq!(bench.get(MIP), MEIP);
    bench.set(MTOPEI, 0);
    assert_eq!((bench.get(MTOPEI), bench.get(MIP)), (0, 0));
    assert!(bench.hart.receive_message(FileLevel::Supervisor, 3));
    assert_eq!(bench.get(MIP), SEIP);
}

#[test]
fn a_message_interrupts_and_one_instruction_claims_and_returns_it() {
    let mut bench = open();
    bench.set(SIE, SEIP);
    bench.enable(status::SIE);
    for identity in [9, 4, IDENTITIES + 1, 0] {
        assert_eq!(bench.hart.receive_message(FileLevel::Supervisor, identity), identity % 256 != 0);
    }
    bench.go(Supervisor, CODE);
    assert_eq!(bench.poll().unwrap().cause(), Some(INTERRUPT | 9));
    bench.set(SIE, 0);
    // CSRRW x5, stopei, x0, then CSRRSI x5, stopei, 1: any write claims.
    for (word, expected) in [(csr(1, 5, STOPEI.into(), 0), 4), (csr(6, 5, STOPEI.into(), 1), 9)] {
        assert_eq!(bench.execute(Supervisor, word), Outcome::Retired);
        assert_eq!(bench.hart.reg(5), expected << 16 | expected);
    }
    // CSRRS with x0 does not write, and therefore does not claim.
    bench.hart.receive_message(FileLevel::Supervisor, 7);
    for _ in 0..2 {
        assert_eq!(bench.execute(Supervisor, csr(2, 5, STOPEI.into(), 0)), Outcome::Retired);
        assert_eq!(bench.hart.reg(5), 7 << 16 | 7);
    }
    assert_eq!(bench.get(SIP), SEIP);
}

#[test]
fn the_top_interrupt_follows_the_default_order_with_the_file_priority() {
    let mut bench = open();
    bench.set(MIE, u64::MAX);
    let top =
        |bench: &Bench| [MTOPI, STOPI].map(|number| (bench.get(number) >> 16, bench.get(number) & 0xffff));
    assert_eq!(top(&bench), [(0, 0), (0, 0)]);
    bench.hart.set_interrupt(Interrupt::SupervisorTimer, true);
    assert_eq!(top(&bench), [(0, 0), (5, 255)]);
    bench.set(MIP, SSIP);
    assert_eq!(top(&bench), [(0, 0), (1, 255)]);
    // An external interrupt raised only by software has the lowest priority of all external ones.
    bench.set(MIP, SSIP | SEIP);
    assert_eq!(top(&bench), [(0, 0), (9, 255)]);
    bench.hart.receive_message(FileLevel::Supervisor, 12);
    assert_eq!(top(&bench), [(0, 0), (9, 12)]);
    bench.hart.set_interrupt(Interrupt::MachineTimer, true);
    assert_eq!(top(&bench), [(7, 255), (9, 12)]);
    // Interrupts that are not delegated belong to machine mode, and rank below its external interrupts.
    bench.set(MIDELEG, SSIP | STIP);
    bench.hart.set_interrupt(Interrupt::MachineTimer, false);
    assert_eq!(top(&bench), [(9, 255), (1, 255)]);
    put(&mut bench, FileLevel::Machine, DELIVERY, 1);
    put(&mut bench, FileLevel::Machine, ENABLED + 6, u64::MAX);
    bench.hart.receive_message(FileLevel::Machine, 200);
    assert_eq!(top(&bench), [(11, 200), (1, 255)]);
    bench.set(MIE, 0);
    assert_eq!(top(&bench), [(0, 0), (0, 0)]);
}

#[test]
fn mvip_aliases_the_writable_bits_of_mip_and_mvien_is_zero() {
    let mut bench = bench();
    bench.set(MVIEN, u64::MAX);
    assert_eq!(bench.get(MVIEN), 0);
    bench.set(MVIP, u64::MAX);
    assert_eq!((bench.get(MVIP), bench.get(MIP)), (SSIP | STIP | SEIP, SSIP | STIP | SEIP));
    bench.set(MENVCFG, 1 << 63);
    assert_eq!((bench.get(MVIP), bench.get(MIP)), (SSIP | SEIP, SSIP | SEIP));
    bench.set(MVIP, 0);
    // An interrupt raised by the file is not visible in the software bit.
    put(&mut bench, FileLevel::Supervisor, DELIVERY, 1);
    put(&mut bench, FileLevel::Supervisor, ENABLED, u64::MAX);
    bench.hart.receive_message(FileLevel::Supervisor, 1);
    assert_eq!((bench.get(MVIP), bench.get(MIP)), (0, SEIP));
}

#[test]
fn a_message_ends_wfi_and_is_taken_at_once() {
    let mut bench = open();
    bench.set(SIE, SEIP);
    bench.hart.set_privilege(Supervisor);
    bench.hart.set_pc(CODE);
    bench.write(CODE, &[0x1050_0073]);
    assert_eq!(bench.hart.run(&mut bench.ram, u64::MAX), doorbell_riscv::Stop::Wfi);
    assert!(bench.hart.is_waiting() && !bench.hart.interrupt_pending());
    bench.hart.receive_message(FileLevel::Supervisor, 64);
    assert!(!bench.hart.interrupt_pending(), "identity 64 is not enabled");
    bench.hart.receive_message(FileLevel::Supervisor, 2);
    assert!(bench.hart.interrupt_pending());
}

#[test]
fn interrupt_files_are_saved_and_rejected_by_a_hart_without_files() {
    let mut bench = open();
    bench.hart.receive_message(FileLevel::Supervisor, 5);
    bench.set(MISELECT, 0x72);
    let (state, aia) = (bench.hart.save(&bench.ram), bench.hart.save_aia().unwrap());
    let mut other = self::bench();
    other.ram = bench.ram;
    other.hart.restore(state.clone(), &other.ram).unwrap();
    other.hart.restore_aia(aia.clone()).unwrap();
    assert_eq!(other.hart.save_aia().as_ref(), Some(&aia));
    assert_eq!((other.get(STOPEI), other.get(MIP), other.get(MISELECT)), (5 << 16 | 5, SEIP, 0x72));
    let without = Hart::new(config()).restore_aia(aia.clone());
    assert!(without.is_err());
}
