//! Trap entry, delegation, trap return, and interrupts.

use doorbell_riscv::{Privilege, Stop};

use crate::asm::{self, EBREAK, ECALL, MRET, NOP, SRET, WFI, csr};
use crate::bench::{Bench, CODE, DATA, INTERRUPTS, LEVELS, M_HANDLER, Outcome, S_HANDLER, csrs::*, status};
use crate::random::Random;
use Privilege::{Machine, Supervisor, User};

const ILLEGAL: u64 = 2;

#[test]
fn system_calls_trap_to_machine_mode_with_the_callers_level() {
    for (level, cause) in LEVELS.into_iter().zip([8, 9, 11]) {
        let mut bench = Bench::new();
        bench.enable(status::MIE);
        let outcome = bench.execute(level, ECALL);
        assert_eq!(outcome, Outcome::Trap { to: Machine, cause, tval: 0, epc: CODE });
        assert_eq!(bench.hart.pc(), M_HANDLER);
        let saved = bench.get(MSTATUS);
        assert_eq!(saved >> status::MPP_SHIFT & 3, level as u64);
        assert_eq!(saved & (status::MIE | status::MPIE), status::MPIE);
    }
}

#[test]
fn delegated_exceptions_go_to_the_supervisor_but_never_from_machine_mode() {
    for level in LEVELS {
        for delegated in [false, true] {
            let mut bench = Bench::new();
            bench.enable(status::SIE);
            bench.set(MEDELEG, if delegated { 1 << 3 } else { !(1 << 3) });
            let outcome = bench.execute(level, EBREAK);
            let to = if delegated && level != Machine { Supervisor } else { Machine };
            assert_eq!(outcome, Outcome::Trap { to, cause: 3, tval: CODE, epc: CODE });
            if to == Supervisor {
                assert_eq!(bench.hart.pc(), S_HANDLER);
                let saved = bench.get(SSTATUS);
                assert_eq!(saved & status::SPP != 0, level == Supervisor);
                assert_eq!(saved & (status::SIE | status::SPIE), status::SPIE);
            }
        }
    }
}

#[test]
fn mret_restores_the_level_and_the_enable_and_drops_mprv_when_leaving_machine_mode() {
    for (mpp, level) in [(0, User), (1, Supervisor), (3, Machine)] {
        for enabled in [false, true] {
            let mut bench = Bench::new();
            bench.set(MEPC, DATA + 1); // bit 0 does not exist
            let enable = if enabled { status::MPIE } else { status::MIE };
            bench.set(MSTATUS, mpp << status::MPP_SHIFT | enable | status::MPRV);
            bench.write(CODE, &[MRET]);
            bench.go(Machine, CODE);
            assert_eq!(bench.step(), Outcome::Retired);
            assert_eq!((bench.hart.privilege(), bench.hart.pc()), (level, DATA));
            let after = bench.get(MSTATUS);
            assert_eq!(after & status::MIE != 0, enabled);
            assert_eq!(after & (status::MPIE | status::MPP), status::MPIE);
            assert_eq!(after & status::MPRV != 0, level == Machine);
        }
    }
}

#[test]
fn sret_restores_the_level_and_the_enable() {
    for (spp, level) in [(0, User), (status::SPP, Supervisor)] {
        for from in [Supervisor, Machine] {
            let mut bench = Bench::new();
            bench.set(SEPC, DATA);
            bench.set(MSTATUS, spp | status::SPIE | status::MPRV);
            assert_eq!(bench.execute(from, SRET), Outcome::Retired);
            assert_eq!((bench.hart.privilege(), bench.hart.pc()), (level, DATA));
            let after = bench.get(MSTATUS);
            assert_eq!(after & (status::SIE | status::SPIE | status::SPP), status::SIE | status::SPIE);
            assert_eq!(after & status::MPRV, 0);
        }
    }
}

#[test]
fn mret_and_sret_are_illegal_below_their_level_and_sret_under_tsr() {
    for (word, level) in [(MRET, User), (MRET, Supervisor), (SRET, User)] {
        assert_eq!(Bench::new().execute(level, word).trap(), Some((ILLEGAL, word.into())));
    }
    let mut bench = Bench::new();
    bench.enable(status::TSR);
    assert_eq!(bench.execute(Supervisor, SRET).cause(), Some(ILLEGAL));
    assert_eq!(bench.execute(Machine, SRET), Outcome::Retired);
}

#[test]
fn an_illegal_instruction_leaves_its_bits_in_mtval() {
    let mut bench = Bench::new();
    assert_eq!(bench.execute(Machine, 0xffff_ffff).trap(), Some((ILLEGAL, 0xffff_ffff)));
    // Two bytes: the following bytes are not part of the instruction.
    assert_eq!(bench.execute(User, 0x1234_0000).trap(), Some((ILLEGAL, 0)));
    assert_eq!(bench.execute(User, 0x1234_8000).trap(), Some((ILLEGAL, 0x8000)));
    // A CSR that does not exist.
    let word = csr(2, 5, 0x5c0, 0);
    assert_eq!(bench.execute(Machine, word).trap(), Some((ILLEGAL, word.into())));
}

#[test]
fn a_trapping_instruction_takes_a_slot_but_does_not_retire() {
    let mut bench = Bench::new();
    bench.write(CODE, &[NOP, NOP, ECALL, NOP]);
    bench.go(User, CODE);
    assert_eq!(bench.run(), Stop::M5Op { function: 0x42, args: [0, 0] });
    // Two instructions and the m5op retire; the system call takes a slot but does not retire.
    assert_eq!((bench.hart.instructions(), bench.hart.slots()), (3, 4));
}

#[test]
fn only_interrupts_are_vectored() {
    for vector in [MTVEC, STVEC] {
        for (index, interrupt) in INTERRUPTS.into_iter().enumerate() {
            let supervisor = vector == STVEC;
            if supervisor && index < 3 {
                continue;
            }
            let mut bench = Bench::new();
            bench.set(vector, DATA | 1);
            bench.set(MIDELEG, if supervisor { u64::MAX } else { 0 });
            bench.set(MIE, u64::MAX);
            bench.set(MENVCFG, 0);
            bench.hart.set_interrupt(interrupt, true);
            bench.go(User, CODE);
            assert!(bench.poll().is_some());
            assert_eq!(bench.hart.pc(), DATA + 4 * interrupt as u64);
            bench.set(MEDELEG, if supervisor { u64::MAX } else { 0 });
            bench.execute(User, EBREAK);
            assert_eq!(bench.hart.pc(), DATA);
        }
    }
}

/// The manual's rule, restated simply: for each interrupt by priority, whether it is taken, and to which
/// level.
fn expected_interrupt(
    pending: u64,
    mie: u64,
    mideleg: u64,
    mstatus: u64,
    level: Privilege,
) -> Option<(u64, Privilege)> {
    for target in [Machine, Supervisor] {
        for number in [11, 3, 7, 9, 1, 5] {
            let bit = 1 << number;
            let goes_to = if mideleg & bit != 0 { Supervisor } else { Machine };
            if goes_to != target || pending & mie & bit == 0 {
                continue;
            }
            let enable = if target == Machine { status::MIE } else { status::SIE };
            if level < target || (level == target && mstatus & enable != 0) {
                return Some((number, target));
            }
        }
    }
    None
}

#[test]
fn interrupts_are_taken_by_priority_level_enable_and_delegation() {
    let mut random = Random::new(42);
    let mut taken = 0;
    for _ in 0..4000 {
        let mut bench = Bench::new();
        let (mie, mideleg) = (random.next() & random.next(), random.next());
        let mstatus = random.next() & (status::MIE | status::SIE);
        let level = random.pick(&LEVELS);
        bench.set(MIE, mie);
        bench.set(MIDELEG, mideleg);
        bench.set(MSTATUS, mstatus);
        let mut pending = 0;
        for interrupt in INTERRUPTS {
            let set = random.below(3) == 0;
            bench.hart.set_interrupt(interrupt, set);
            pending |= u64::from(set) << interrupt as u8;
        }
        // Only the supervisor's three interrupts can be delegated.
        let expected = expected_interrupt(pending, mie, mideleg & 0x222, mstatus, level);
        bench.go(level, CODE);
        let got = bench.poll();
        let wanted =
            expected.map(|(number, to)| Outcome::Trap { to, cause: 1 << 63 | number, tval: 0, epc: CODE });
        assert_eq!(
            got, wanted,
            "pending {pending:#x} mie {mie:#x} mideleg {mideleg:#x} mstatus {mstatus:#x} {level:?}"
        );
        taken += u32::from(got.is_some());
    }
    assert!(taken > 500);
}

#[test]
fn an_interrupt_that_software_unmasks_is_taken_before_the_next_instruction() {
    let mut bench = Bench::new();
    bench.set(MIE, 1 << 7);
    bench.hart.set_interrupt(doorbell_riscv::Interrupt::MachineTimer, true);
    bench.write(CODE, &[NOP, csr(6, 0, MSTATUS.into(), 8), NOP, NOP]);
    bench.go(Machine, CODE);
    bench.run();
    assert_eq!(bench.trapped(), Outcome::Trap { to: Machine, cause: 1 << 63 | 7, tval: 0, epc: CODE + 8 });
    // A return to a level where it is enabled also takes it.
    bench.set(MEPC, DATA);
    bench.set(MSTATUS, 0);
    bench.write(CODE, &[MRET]);
    bench.go(Machine, CODE);
    bench.run();
    assert_eq!(bench.trapped(), Outcome::Trap { to: Machine, cause: 1 << 63 | 7, tval: 0, epc: DATA });
}

#[test]
fn machine_mode_raises_supervisor_interrupts_and_supervisor_mode_only_ssip() {
    let mut bench = Bench::new();
    bench.set(MIP, u64::MAX);
    assert_eq!(bench.get(MIP), 0x222);
    bench.set(MIP, 0);
    bench.set(MIDELEG, 0x222);
    bench.set(SIP, u64::MAX);
    assert_eq!((bench.get(MIP), bench.get(SIP)), (2, 2));
    bench.set(MIDELEG, 0);
    assert_eq!(bench.get(SIP), 0);
    bench.set(SIP, 0); // not delegated, so the supervisor cannot clear it
    assert_eq!(bench.get(MIP), 2);
}

#[test]
fn a_csr_instruction_on_mip_does_not_make_the_external_input_a_software_bit() {
    let mut bench = Bench::new();
    bench.hart.set_interrupt(doorbell_riscv::Interrupt::SupervisorExternal, true);
    assert_eq!(bench.execute(Machine, csr(6, 5, MIP.into(), 2)), Outcome::Retired);
    assert_eq!(bench.hart.reg(5), 1 << 9);
    bench.hart.set_interrupt(doorbell_riscv::Interrupt::SupervisorExternal, false);
    assert_eq!(bench.get(MIP), 2);
}

#[test]
fn wfi_waits_until_something_is_pending_even_if_it_cannot_be_taken() {
    let mut bench = Bench::new();
    bench.set(MIE, 1 << 7);
    bench.write(CODE, &[WFI, asm::addi(5, 0, 7), asm::m5op(1)]);
    bench.go(Machine, CODE);
    assert_eq!(bench.run(), Stop::Wfi);
    assert!(bench.hart.is_waiting() && bench.hart.pc() == CODE + 4);
    assert_eq!(bench.run(), Stop::Wfi);
    bench.hart.set_interrupt(doorbell_riscv::Interrupt::MachineSoftware, true);
    assert_eq!(bench.run(), Stop::Wfi); // not enabled in mie
    bench.hart.set_interrupt(doorbell_riscv::Interrupt::MachineTimer, true);
    assert_eq!(bench.run(), Stop::M5Op { function: 1, args: [0, 0] });
    assert_eq!(bench.hart.reg(5), 7);
    // With an interrupt pending it does not wait; if it is taken, the return address is after the WFI.
    bench.go(Supervisor, CODE);
    bench.hart.set_interrupt(doorbell_riscv::Interrupt::MachineTimer, false);
    assert_eq!(bench.run(), Stop::Wfi);
    bench.hart.set_interrupt(doorbell_riscv::Interrupt::MachineTimer, true);
    bench.run();
    assert_eq!(bench.trapped(), Outcome::Trap { to: Machine, cause: 1 << 63 | 7, tval: 0, epc: CODE + 4 });
}

#[test]
fn wfi_is_illegal_in_user_mode_and_under_tw_below_machine_mode() {
    assert_eq!(Bench::new().execute(User, WFI).trap(), Some((ILLEGAL, WFI.into())));
    for (level, illegal) in [(Supervisor, true), (Machine, false)] {
        let mut bench = Bench::new();
        bench.enable(status::TW);
        assert_eq!(bench.execute(level, WFI).cause() == Some(ILLEGAL), illegal);
    }
}
