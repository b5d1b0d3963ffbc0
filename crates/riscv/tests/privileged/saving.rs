//! Saving and restoring: a run that is saved and restored into a fresh hart at random points continues
//! exactly like an uninterrupted one, and so does a run that is split into pieces.

use doorbell_riscv::{Hart, Privilege, Stop};
use doorbell_sim::{Bytes, PhysAddr, Ram};

use crate::asm::{Asm, MRET, WFI, csr, i_type, r_type, s_type};
use crate::bench::{BASE, Bench, CODE, DATA, DEVICE, SIZE, config, csrs::*, pte, status};
use crate::random::Random;

const CSRS: [u16; 24] = [
    MSTATUS,
    MEDELEG,
    MIDELEG,
    MIE,
    MIP,
    MTVEC,
    MCOUNTEREN,
    MCOUNTINHIBIT,
    MENVCFG,
    MSCRATCH,
    MEPC,
    MCAUSE,
    MTVAL,
    STVEC,
    SCOUNTEREN,
    SEPC,
    SCAUSE,
    STVAL,
    SATP,
    STIMECMP,
    MCYCLE,
    MINSTRET,
    PMPCFG0,
    PMPADDR0,
];

/// An endless user program on Sv39 pages that loads, stores, multiplies, calls the supervisor, accesses a
/// device, changes its own code and waits; with a machine handler that counts traps and returns after the
/// trapping instruction.
pub fn endless(random: &mut Random) -> Bench {
    let mut bench = Bench::new();
    let table = bench.page_table(3);
    let user = pte::ALL | pte::U;
    bench.map(table, CODE, CODE, 0, user);
    bench.map(table, CODE + 4096, CODE + 4096, 0, user);
    for page in 0..4 {
        // The hart sets the accessed and dirty bits.
        bench.map(table, DATA + 4096 * page, DATA + 4096 * page, 0, user & !(pte::A | pte::D));
    }
    bench.map(table, DEVICE, DEVICE, 0, user);
    let handler = BASE + 0x4000;
    let mut asm = Asm::new(handler);
    asm.word(csr(1, 31, MSCRATCH.into(), 31)); // swap
    asm.word(csr(2, 31, MEPC.into(), 0)).word(i_type(0x13, 0, 31, 31, 4)).word(csr(1, 0, MEPC.into(), 31));
    asm.word(csr(1, 31, MSCRATCH.into(), 31)).word(i_type(0x13, 0, 30, 30, 1)).word(MRET);
    let code = asm.into_code();
    bench.ram.store(PhysAddr(handler), &code);
    bench.set(MTVEC, handler);
    bench.enable(status::FS_INITIAL);

    let mut asm = Asm::new(CODE);
    let free = |random: &mut Random| 10 + random.below(16) as u32;
    asm.li(6, DATA + 4096 * 2 - 4).li(7, DEVICE).li(8, CODE + 4096);
    let again = asm.here();
    for _ in 0..400 {
        let (rd, rs1, rs2) = (free(random), free(random), free(random));
        match random.below(12) {
            0..4 => asm.word(r_type(0x33, random.below(8) as u32, random.below(2) as u32, rd, rs1, rs2)),
            4 => asm.word(i_type(0x03, random.below(7) as u32, rd, 6, random.below(4000) as i32 - 2000)),
            5 => asm.word(s_type(0x23, random.below(4) as u32, 6, rs1, random.below(4000) as i32 - 2000)),
            6 => asm.word(crate::asm::ECALL),
            7 => asm.word(i_type(0x03, 3, rd, 7, 0)),
            8 => asm.word(s_type(0x23, 3, 7, rs1, 8)),
            9 => asm.word(r_type(0x53, 0, 0x69, rd, rs1, 2)), // fcvt.d.l
            10 => asm.word(r_type(0x53, 7, 1, rd, rs1, rs2)), // fadd.d
            // Write an instruction to the other page, and run it: addi x29, x29, n; ret.
            _ => asm
                .li(9, u64::from(crate::asm::addi(29, 29, random.below(100) as i32)) | 0x8067 << 32)
                .word(s_type(0x23, 3, 8, 9, 0))
                .word(i_type(0x67, 0, 1, 8, 0)),
        };
    }
    asm.word(WFI); // illegal in user mode: one more trap
    let back = i_type(0x67, 0, 0, 5, 0);
    asm.li(5, again).word(back);
    let code = asm.into_code();
    assert!(code.len() < 4096);
    bench.ram.store(PhysAddr(CODE), &code);
    bench.go(Privilege::User, CODE);
    bench
}

/// Runs to a slot, answering device loads with values derived from the slot.
fn run_to(hart: &mut Hart, ram: &mut Ram, slot: u64) {
    loop {
        match hart.run(ram, slot) {
            Stop::Slot => return,
            Stop::Mmio(request) if request.store_value().is_some() => hart.complete_store(),
            Stop::Mmio(_) => {
                let value = hart.slots().wrapping_mul(0x9e37_79b9_7f4a_7c15);
                hart.complete_load(value);
            }
            stop => panic!("stopped with {stop:?}"),
        }
    }
}

pub fn copy_of(ram: &Ram) -> Ram {
    let mut copy = Ram::new(PhysAddr(BASE), Bytes(SIZE), 1);
    for page in ram.touched_pages() {
        copy.store(PhysAddr(BASE + 4096 * page), &ram.page(page));
    }
    assert!(copy.set_reservations(ram.reservations()));
    copy
}

pub fn assert_same(a: (&Hart, &Ram), b: (&Hart, &Ram), what: &str) {
    let registers = |hart: &Hart| (0..32).map(|n| (hart.reg(n), hart.freg(n))).collect::<Vec<_>>();
    assert_eq!(registers(a.0), registers(b.0), "{what}");
    let summary = |hart: &Hart| (hart.pc(), hart.privilege(), hart.slots(), hart.instructions());
    assert_eq!(summary(a.0), summary(b.0), "{what}");
    for number in CSRS.into_iter().chain([1, 2]) {
        assert_eq!(a.0.csr(number), b.0.csr(number), "CSR {number:#x}, {what}");
    }
    for page in 0..SIZE / 4096 {
        assert!(a.1.page(page) == b.1.page(page), "page {page}, {what}");
    }
}

const LENGTH: u64 = 60_000;

#[test]
fn a_restored_run_continues_like_an_uninterrupted_one() {
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let mut whole = endless(&mut random);
        let mut first = endless(&mut Random::new(seed));
        let (mut hart, mut ram) =
            (first.hart, std::mem::replace(&mut first.ram, Ram::new(PhysAddr(0), Bytes(4096), 1)));
        run_to(&mut whole.hart, &mut whole.ram, LENGTH);
        while hart.slots() < LENGTH {
            let slot = (hart.slots() + random.below(6000)).min(LENGTH);
            run_to(&mut hart, &mut ram, slot);
            let state = hart.save(&ram);
            let copy = copy_of(&ram);
            let mut fresh = Hart::new(config());
            fresh.restore(state.clone(), &copy).expect("the state can be restored");
            assert!(fresh.save(&copy) == state, "restoring and saving gives the same state");
            (hart, ram) = (fresh, copy);
        }
        assert_same((&whole.hart, &whole.ram), (&hart, &ram), &format!("seed {seed}"));
        assert!(
            whole.hart.save(&whole.ram) == hart.save(&ram),
            "the saved states are the same too, seed {seed}"
        );
    }
}

#[test]
fn a_pending_device_access_is_saved() {
    let mut bench = Bench::new();
    bench.hart.set_reg(6, DEVICE);
    bench.write(CODE, &[i_type(0x03, 2, 5, 6, 0)]);
    bench.go(Privilege::Machine, CODE);
    let stop = bench.run();
    assert!(matches!(stop, Stop::Mmio(_)));
    let mut fresh = Hart::new(config());
    fresh.restore(bench.hart.save(&bench.ram), &bench.ram).expect("the state can be restored");
    assert_eq!(fresh.pending_mmio().map(Stop::Mmio), Some(stop));
    fresh.complete_load(0x8000_0001);
    assert_eq!((fresh.reg(5), fresh.pc()), (0xffff_ffff_8000_0001, CODE + 4));
}

#[test]
fn a_run_in_pieces_matches_a_single_run() {
    for seed in 10..16 {
        let mut random = Random::new(seed);
        let mut whole = endless(&mut random);
        run_to(&mut whole.hart, &mut whole.ram, LENGTH);
        for most in [1, 7, 100] {
            let mut pieces = endless(&mut Random::new(seed));
            while pieces.hart.slots() < LENGTH {
                let slot = (pieces.hart.slots() + 1 + random.below(most)).min(LENGTH);
                run_to(&mut pieces.hart, &mut pieces.ram, slot);
            }
            let (whole, pieces) = ((&whole.hart, &whole.ram), (&pieces.hart, &pieces.ram));
            assert_same(whole, pieces, &format!("seed {seed}, pieces of up to {most}"));
            assert!(whole.0.stats().exceptions > 1000);
        }
    }
}

#[test]
fn restoring_in_place_drops_later_decoded_code() {
    // A page that is data when saved and contains decoded code when restored: stores must still invalidate
    // the code.
    let mut bench = Bench::new();
    let target = DATA;
    bench.write(CODE, &[s_type(0x23, 2, 6, 7, 0), i_type(0x67, 0, 0, 6, 0)]);
    bench.write(target + 4, &[crate::asm::m5op(1)]);
    let run = |bench: &mut Bench, n: i32| {
        bench.hart.set_reg(5, 0);
        bench.hart.set_reg(6, target);
        bench.hart.set_reg(7, crate::asm::addi(5, 5, n).into());
        bench.go(Privilege::Machine, CODE);
        bench.run();
        bench.hart.reg(5)
    };
    bench.write(CODE + 64, &[s_type(0x23, 2, 6, 7, 0)]);
    bench.hart.set_reg(6, target);
    bench.go(Privilege::Machine, CODE + 64);
    bench.step(); // stores to the page may now take the fast path
    let state = bench.hart.save(&bench.ram);
    assert_eq!(run(&mut bench, 1), 1);
    bench.hart.restore(state, &bench.ram).expect("the state can be restored");
    for n in [2, 3] {
        assert_eq!(run(&mut bench, n), n as u64);
    }
}

/// TLB entries hold host addresses, of RAM that may no longer exist.
#[test]
#[should_panic(expected = "the same RAM")]
fn a_hart_never_runs_on_another_ram() {
    let mut bench = endless(&mut Random::new(1));
    run_to(&mut bench.hart, &mut bench.ram, 100);
    let mut copy = copy_of(&bench.ram);
    bench.hart.run(&mut copy, 200);
}

#[test]
fn a_recycled_hart_equals_a_new_one() {
    let run = |hart: Option<Hart>, seed| {
        let mut bench = endless(&mut Random::new(seed));
        if let Some(other) = hart {
            // The saved state transfers the bench's setup.
            let state = bench.hart.save(&bench.ram);
            bench.hart = other.recycled(config());
            assert!(
                bench.hart.save(&bench.ram) == Hart::new(config()).save(&bench.ram),
                "recycled equals new"
            );
            bench.hart.restore(state, &bench.ram).expect("the state can be restored");
        }
        run_to(&mut bench.hart, &mut bench.ram, LENGTH);
        (bench.hart, bench.ram)
    };
    let (used, _) = run(None, 20);
    let (again, new) = (run(Some(used), 21), run(None, 21));
    assert_same((&again.0, &again.1), (&new.0, &new.1), "recycled hart");
    assert_eq!(format!("{:?}", again.0.stats()), format!("{:?}", new.0.stats()));
}
