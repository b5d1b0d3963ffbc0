//! Control and status registers: access permissions, writable bits, counters.

use doorbell_riscv::{Privilege, Stop};

use crate::asm::{NOP, SFENCE_VMA, csr, m5op, r_type};
use crate::bench::{Bench, CODE, LEVELS, Outcome, csrs::*, status};
use Privilege::{Machine, Supervisor, User};

const ILLEGAL: u64 = 2;
const TIME_BIT: u64 = 2;

/// A read: CSRRS rd, number, x0.
fn read(number: u16) -> u32 {
    csr(2, 5, number.into(), 0)
}

/// CSRRW x0, number, x6.
fn write(number: u16) -> u32 {
    csr(1, 0, number.into(), 6)
}

fn allowed(bench: &mut Bench, level: Privilege, word: u32) -> bool {
    match bench.execute(level, word) {
        Outcome::Trap { cause, tval, .. } => {
            assert_eq!((cause, tval), (ILLEGAL, word.into()));
            false
        }
        _ => true,
    }
}

#[test]
fn a_csr_belongs_to_the_level_in_its_number_and_may_be_read_only() {
    let numbers =
        [0x100, 0x104, 0x140, 0x144, 0x180, 0x300, 0x304, 0x340, 0x344, 0x3a0, 0x3b0, 0xb00, 0xf11, 0xf14];
    for number in numbers {
        for level in LEVELS {
            let lowest = number >> 8 & 3;
            let mut bench = Bench::new();
            assert_eq!(allowed(&mut bench, level, read(number)), level as u16 >= lowest, "read {number:#x}");
            let writable = number >> 10 != 3;
            let mut bench = Bench::new();
            assert_eq!(allowed(&mut bench, level, write(number)), level as u16 >= lowest && writable);
            // Setting no bits through x0 is a read; through another register it is a write.
            let mut bench = Bench::new();
            let set = csr(2, 5, number.into(), 6);
            assert_eq!(allowed(&mut bench, level, set), level as u16 >= lowest && writable);
            let mut bench = Bench::new();
            let clear_none = csr(7, 5, number.into(), 0);
            assert_eq!(allowed(&mut bench, level, clear_none), level as u16 >= lowest);
        }
    }
}

#[test]
fn fields_hold_only_legal_values() {
    let mut bench = Bench::new();
    let mut check = |number: u16, value: u64, expected: u64| {
        bench.set(number, value);
        assert_eq!(bench.get(number), expected, "CSR {number:#x} after {value:#x}");
    };
    let ones = u64::MAX;
    check(MISA, 0, 0x8000_0000_0014_112d);
    check(MEDELEG, ones, 0xb3ff);
    check(MIDELEG, ones, 0x222);
    check(MIE, ones, 0xaaa);
    check(SIE, 0, 0); // all delegated
    check(MIE, ones, 0xaaa);
    check(MIDELEG, 0x200, 0x200);
    check(SIE, 0, 0);
    check(MIE, 0xaaa & !0x200, 0x8aa);
    check(MTVEC, 0x8000_0001, 0x8000_0001);
    check(MTVEC, 0x9000_0002, 0x8000_0001); // a reserved mode is rejected
    check(MTVEC, 0x9000_0003, 0x8000_0001);
    check(MEPC, 0x8000_0003, 0x8000_0002);
    check(SEPC, ones, ones - 1);
    check(MCOUNTINHIBIT, ones, 0xffff << 3 | 5);
    check(MHARTID, 7, 0);
    let writable = 0x7e_19aa | 0x6000;
    check(MSTATUS, ones, writable | 0xa << 32 | 1 << 63);
    check(MSTATUS, 2 << 11, 3 << 11 | 0xa << 32); // MPP keeps its value
    check(SSTATUS, ones, 0xc_6122 | 2 << 32 | 1 << 63);
    check(MSTATUS, 0, 0xa << 32);
    check(SATP, 8 << 60 | 5, 8 << 60 | 5);
    check(SATP, 10 << 60 | 9, 8 << 60 | 5); // Sv57 is not supported: no write
    check(SATP, 1 << 60 | 9, 8 << 60 | 5);
    check(SATP, 9 << 60 | 6, 9 << 60 | 6);
    check(PMPADDR0, ones, (1 << 54) - 1);
    check(MENVCFG, ones, 1 << 63 | 1);
}

#[test]
fn counter_access_needs_the_enables_of_all_higher_levels() {
    for (bit, number) in [(0, CYCLE), (1, TIME), (2, INSTRET), (3, 0xc03), (31, 0xc1f)] {
        for machine in [0, 1 << bit, !(1 << bit)] {
            for supervisor in [0, 1 << bit, !(1 << bit)] {
                let expected = |level| match level {
                    Machine => true,
                    Supervisor => machine >> bit & 1 == 1,
                    User => machine >> bit & supervisor >> bit & 1 == 1,
                };
                for level in LEVELS {
                    let mut bench = Bench::new();
                    bench.set(MCOUNTEREN, machine);
                    bench.set(SCOUNTEREN, supervisor);
                    assert_eq!(
                        allowed(&mut bench, level, read(number)),
                        expected(level),
                        "{number:#x} {level:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn counters_exclude_the_instruction_that_reads_them() {
    let mut bench = Bench::new();
    bench.write(CODE, &[NOP, NOP, csr(2, 10, INSTRET.into(), 0), csr(2, 11, CYCLE.into(), 0), m5op(0)]);
    bench.go(Machine, CODE);
    bench.run();
    // The core clock has two edges per slot.
    assert_eq!((bench.hart.reg(10), bench.hart.reg(11)), (2, 6));
    // A written counter continues from the written value: the next instruction reads it.
    bench.hart.set_reg(6, 1000);
    for (counter, step) in [(MINSTRET, 0), (MCYCLE, 1)] {
        bench.write(
            CODE,
            &[write(counter), csr(2, 10, counter.into(), 0), NOP, csr(2, 11, counter.into(), 0), m5op(0)],
        );
        bench.go(Machine, CODE);
        bench.run();
        let (first, second) = (bench.hart.reg(10), bench.hart.reg(11));
        assert!((1000..=1000 + step).contains(&first), "{counter:#x} read {first}");
        assert_eq!(second - first, if counter == MINSTRET { 2 } else { 4 });
    }
}

#[test]
fn inhibited_counters_keep_their_value() {
    let mut bench = Bench::new();
    bench.set(MCOUNTINHIBIT, 5);
    let words = [csr(2, 10, MINSTRET.into(), 0), csr(2, 11, MCYCLE.into(), 0), NOP, NOP];
    let again = [csr(2, 12, MINSTRET.into(), 0), csr(2, 13, MCYCLE.into(), 0), m5op(0)];
    bench.write(CODE, &[&words[..], &again[..]].concat());
    bench.go(Machine, CODE);
    bench.run();
    assert_eq!(bench.hart.reg(10), bench.hart.reg(12));
    assert_eq!(bench.hart.reg(11), bench.hart.reg(13));
    // When resumed, they continue from that value.
    let stood = bench.get(MINSTRET);
    bench.set(MCOUNTINHIBIT, 0);
    bench.write(CODE, &[NOP, NOP, NOP, m5op(0)]);
    bench.go(Machine, CODE);
    bench.run();
    assert_eq!(bench.get(MINSTRET).wrapping_sub(stood), 4);
}

#[test]
fn time_counts_the_timebase_from_its_offset() {
    let mut bench = Bench::new();
    bench.hart.set_time_offset(500);
    bench.hart.skip_to(1_000_000); // 1 ms at 1 GHz: ten thousand ticks
    assert_eq!(bench.execute(Machine, read(TIME)), Outcome::Retired);
    assert_eq!(bench.hart.reg(5), 10_500);
}

#[test]
fn stimecmp_needs_its_enables_and_reports_timer_changes() {
    for stce in [false, true] {
        for time in [false, true] {
            let mut bench = Bench::new();
            bench.set(MENVCFG, u64::from(stce) << 63);
            bench.set(MCOUNTEREN, if time { TIME_BIT } else { !TIME_BIT });
            assert_eq!(allowed(&mut bench, Supervisor, read(STIMECMP)), stce && time);
            assert!(!allowed(&mut bench, User, read(STIMECMP)));
            assert!(allowed(&mut bench, Machine, read(STIMECMP)));
        }
    }
    let mut bench = Bench::new();
    bench.set(MENVCFG, 1 << 63);
    bench.set(MCOUNTEREN, TIME_BIT);
    assert_eq!(bench.hart.supervisor_timer(), Some(0));
    bench.hart.set_reg(6, 12345);
    assert_eq!(bench.execute(Supervisor, write(STIMECMP)), Outcome::Stopped(Stop::Timer));
    assert_eq!((bench.hart.supervisor_timer(), bench.hart.pc()), (Some(12345), CODE + 4));
    // With the comparator enabled, STIP is its output and read-only for software.
    bench.set(MIP, 1 << 5);
    assert_eq!(bench.get(MIP), 0);
    bench.set(MENVCFG, 0);
    assert_eq!(bench.hart.supervisor_timer(), None);
    bench.set(MIP, 1 << 5);
    assert_eq!(bench.get(MIP), 1 << 5);
}

#[test]
fn tvm_traps_supervisor_accesses_to_address_translation() {
    for tvm in [0, status::TVM] {
        for (word, user) in [(read(SATP), false), (write(SATP), false), (SFENCE_VMA, false)] {
            let mut bench = Bench::new();
            bench.enable(tvm);
            assert_eq!(allowed(&mut bench, Supervisor, word), tvm == 0);
            assert!(allowed(&mut bench, Machine, word));
            assert_eq!(allowed(&mut bench, User, word), user);
        }
    }
}

#[test]
fn floating_point_is_illegal_while_off_and_dirty_after_use() {
    let words = [
        csr(2, 5, 1, 0),
        csr(2, 5, 2, 0),
        csr(2, 5, 3, 0),
        r_type(0x53, 0, 0, 1, 2, 3),    // fadd.s
        r_type(0x53, 0, 0x11, 1, 2, 3), // fsgnj.d
        r_type(0x53, 0, 0x71, 5, 2, 0), // fmv.x.d
        crate::asm::fld(1, 2, 0),
        crate::asm::fsd(1, 2, 0),
        0x2108, // c.fld
    ];
    for word in words {
        let mut bench = Bench::new();
        bench.hart.set_reg(2, crate::bench::DATA);
        bench.hart.set_reg(10, crate::bench::DATA);
        assert!(!allowed(&mut bench, Machine, word), "{word:#x} while off");
        bench.enable(status::FS_INITIAL);
        assert!(allowed(&mut bench, Machine, word), "{word:#x} while on");
    }
    let mut bench = Bench::new();
    bench.enable(status::FS_INITIAL);
    assert_eq!(bench.execute(User, r_type(0x53, 0, 0x11, 1, 2, 3)), Outcome::Retired);
    assert_eq!(bench.get(MSTATUS) & status::FS, status::FS);
    assert_eq!(bench.get(SSTATUS) >> 63, 1);
}

#[test]
fn reserved_rounding_modes_are_illegal() {
    for frm in 0..8 {
        for rm in 0..8 {
            let mut bench = Bench::new();
            bench.enable(status::FS_INITIAL);
            bench.set(2, frm);
            let mode = if rm == 7 { frm as u32 } else { rm };
            let word = r_type(0x53, rm, 0, 1, 2, 3);
            assert_eq!(allowed(&mut bench, User, word), mode < 5, "rm {rm} frm {frm}");
        }
    }
}
