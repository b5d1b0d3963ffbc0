//! Interaction with the machine: device accesses and m5ops; and the rules of LR and SC.

use doorbell_riscv::{Privilege, Stop};
use doorbell_sim::{AccessSize, PhysAddr};

use crate::asm::{NOP, addi, i_type, m5op, r_type, s_type};
use crate::bench::{Bench, CODE, DATA, DEVICE, Outcome, csrs::*, pte, status};
use Privilege::{Machine, Supervisor, User};

const SIZES: [AccessSize; 4] = [AccessSize::B1, AccessSize::B2, AccessSize::B4, AccessSize::B8];
const LOAD_MISALIGNED: u64 = 4;
const LOAD_FAULT: u64 = 5;
const STORE_MISALIGNED: u64 = 6;
const STORE_FAULT: u64 = 7;

fn mmio(outcome: Outcome) -> doorbell_riscv::MmioRequest {
    match outcome {
        Outcome::Stopped(Stop::Mmio(request)) => request,
        other => panic!("a device access was expected, not {other:?}"),
    }
}

#[test]
fn a_device_load_stops_the_hart_and_retires_with_the_value_extended() {
    let value = 0xfedc_ba98_8765_4381u64;
    for funct3 in 0..7 {
        let size = SIZES[funct3 as usize & 3];
        let mut bench = Bench::new();
        bench.hart.set_reg(6, DEVICE);
        let request = mmio(bench.execute(Machine, i_type(0x03, funct3, 5, 6, 8)));
        assert_eq!((request.addr, request.size, request.store_value()), (PhysAddr(DEVICE + 8), size, None));
        assert_eq!((bench.hart.pc(), bench.hart.instructions(), bench.hart.slots()), (CODE, 0, 0));
        bench.hart.complete_load(value);
        let bits = 8 * size.bytes() as u32;
        let cut = value << (64 - bits) >> (64 - bits);
        let signed = ((value << (64 - bits)) as i64 >> (64 - bits)) as u64;
        assert_eq!(bench.hart.reg(5), if funct3 < 4 { signed } else { cut });
        assert_eq!((bench.hart.pc(), bench.hart.instructions(), bench.hart.slots()), (CODE + 4, 1, 1));
    }
}

#[test]
fn device_loads_to_x0_are_dropped_and_to_float_registers_boxed() {
    let mut bench = Bench::new();
    bench.enable(status::FS_INITIAL);
    bench.hart.set_reg(6, DEVICE);
    mmio(bench.execute(Machine, i_type(0x03, 3, 0, 6, 0)));
    bench.hart.complete_load(5);
    assert_eq!(bench.hart.reg(0), 0);
    for (funct3, expected) in [(2, 0xffff_ffff_8765_4321), (3, 0xaaaa_bbbb_8765_4321)] {
        mmio(bench.execute(Machine, i_type(0x07, funct3, 1, 6, 0)));
        bench.hart.complete_load(0xaaaa_bbbb_8765_4321);
        assert_eq!(bench.hart.freg(1), expected);
    }
}

#[test]
fn a_device_store_value_is_truncated_to_its_size() {
    for (funct3, size) in SIZES.into_iter().enumerate() {
        let mut bench = Bench::new();
        bench.hart.set_reg(6, DEVICE);
        bench.hart.set_reg(7, 0x1122_3344_5566_7788);
        let request = mmio(bench.execute(Machine, s_type(0x23, funct3 as u32, 6, 7, 16)));
        assert_eq!((request.addr, request.size), (PhysAddr(DEVICE + 16), size));
        assert_eq!(request.store_value(), Some(0x1122_3344_5566_7788 & size.mask()));
        bench.hart.complete_store();
        assert_eq!((bench.hart.pc(), bench.hart.instructions()), (CODE + 4, 1));
    }
}

#[test]
fn an_access_without_a_device_faults_with_the_virtual_address() {
    let mut bench = Bench::new();
    let table = bench.page_table(3);
    bench.map(table, CODE, CODE, 0, pte::ALL);
    let virt = 0x123_4000;
    bench.map(table, virt, DEVICE, 0, pte::ALL);
    bench.hart.set_reg(6, virt);
    for (word, cause) in [(i_type(0x03, 2, 5, 6, 4), LOAD_FAULT), (s_type(0x23, 2, 6, 7, 4), STORE_FAULT)] {
        let request = mmio(bench.execute(Supervisor, word));
        assert_eq!(request.addr, PhysAddr(DEVICE + 4));
        bench.hart.fail_device_access();
        assert_eq!(bench.trapped(), Outcome::Trap { to: Machine, cause, tval: virt + 4, epc: CODE });
    }
    assert_eq!((bench.hart.instructions(), bench.hart.slots()), (0, 2));
}

#[test]
fn a_block_continues_after_a_device_access() {
    let mut bench = Bench::new();
    bench.hart.set_reg(6, DEVICE);
    let lw = i_type(0x03, 2, 5, 6, 0);
    bench.write(
        CODE,
        &[addi(10, 0, 1), lw, addi(11, 5, 1), s_type(0x23, 2, 6, 11, 4), addi(12, 0, 2), m5op(9)],
    );
    bench.go(Machine, CODE);
    assert!(matches!(bench.run(), Stop::Mmio(_)));
    assert_eq!((bench.hart.reg(10), bench.hart.instructions(), bench.hart.slots()), (1, 1, 1));
    bench.hart.complete_load(41);
    let Stop::Mmio(request) = bench.run() else { panic!("expected the device store") };
    assert_eq!(request.store_value(), Some(42));
    bench.hart.complete_store();
    assert_eq!(bench.run(), Stop::M5Op { function: 9, args: [1, 42] });
    assert_eq!((bench.hart.reg(12), bench.hart.instructions(), bench.hart.slots()), (2, 6, 6));
}

#[test]
fn misaligned_and_atomic_accesses_to_devices_and_fetches_from_them_fault() {
    let mut bench = Bench::new();
    bench.hart.set_reg(6, DEVICE + 2);
    let trap = |bench: &mut Bench, word| bench.execute(Machine, word).trap();
    assert_eq!(trap(&mut bench, i_type(0x03, 2, 5, 6, 0)), Some((LOAD_MISALIGNED, DEVICE + 2)));
    assert_eq!(trap(&mut bench, s_type(0x23, 3, 6, 7, 0)), Some((STORE_MISALIGNED, DEVICE + 2)));
    bench.hart.set_reg(6, DEVICE);
    assert_eq!(trap(&mut bench, r_type(0x2f, 2, 0, 5, 6, 7)), Some((STORE_FAULT, DEVICE)));
    assert_eq!(trap(&mut bench, r_type(0x2f, 2, 2 << 2, 5, 6, 0)), Some((LOAD_FAULT, DEVICE)));
    bench.go(Machine, DEVICE);
    assert_eq!(bench.step(), Outcome::Trap { to: Machine, cause: 1, tval: DEVICE, epc: DEVICE });
}

#[test]
fn misaligned_atomics_fault_even_in_ram() {
    for (funct3, offset) in [(2, 2), (3, 4), (3, 1)] {
        let mut bench = Bench::new();
        let addr = DATA + offset;
        bench.hart.set_reg(6, addr);
        let amo = |funct5: u32| r_type(0x2f, funct3, funct5 << 2, 5, 6, 0);
        assert_eq!(bench.execute(User, amo(0)).trap(), Some((STORE_MISALIGNED, addr)));
        assert_eq!(bench.execute(User, amo(2)).trap(), Some((LOAD_MISALIGNED, addr)));
        assert_eq!(bench.execute(User, amo(3)).trap(), Some((STORE_MISALIGNED, addr)));
    }
}

#[test]
fn an_atomic_needs_store_permission_and_sets_the_dirty_bit() {
    let mut bench = Bench::new();
    let table = bench.page_table(3);
    bench.map(table, CODE, CODE, 0, pte::ALL);
    bench.map(table, 0x40_0000, DATA, 0, pte::V | pte::R);
    let slot = bench.map(table, 0x40_1000, DATA, 0, pte::V | pte::R | pte::W);
    let amoadd = r_type(0x2f, 3, 0, 5, 6, 7);
    bench.hart.set_reg(6, 0x40_0000);
    assert_eq!(bench.execute(Supervisor, amoadd).trap(), Some((15, 0x40_0000)));
    bench.hart.set_reg(6, 0x40_1000);
    assert_eq!(bench.execute(Supervisor, amoadd), Outcome::Retired);
    assert_eq!(bench.read_u64(slot) & (pte::A | pte::D), pte::A | pte::D);
}

fn lr(bench: &mut Bench, addr: u64) {
    bench.hart.set_reg(6, addr);
    assert_eq!(bench.execute(Machine, r_type(0x2f, 3, 2 << 2, 5, 6, 0)), Outcome::Retired);
}

/// Whether a store-conditional succeeded.
fn sc(bench: &mut Bench, addr: u64) -> bool {
    bench.hart.set_reg(6, addr);
    bench.hart.set_reg(7, 0x55);
    bench.write_u64(addr, 0x11);
    assert_eq!(bench.execute(Machine, r_type(0x2f, 3, 3 << 2, 5, 6, 7)), Outcome::Retired);
    let succeeded = bench.hart.reg(5) == 0;
    assert_eq!(bench.read_u64(addr), if succeeded { 0x55 } else { 0x11 });
    succeeded
}

#[test]
fn a_store_conditional_succeeds_once_at_its_reservation() {
    let mut bench = Bench::new();
    assert!(!sc(&mut bench, DATA), "without a reservation");
    lr(&mut bench, DATA);
    assert!(sc(&mut bench, DATA));
    assert!(!sc(&mut bench, DATA), "the reservation was consumed");
    lr(&mut bench, DATA);
    assert!(!sc(&mut bench, DATA + 64), "another line");
    assert!(!sc(&mut bench, DATA), "a failed SC also clears the reservation");
    lr(&mut bench, DATA);
    lr(&mut bench, DATA + 128);
    assert!(!sc(&mut bench, DATA), "a later reservation replaces it");
}

#[test]
fn a_device_write_ends_a_reservation_on_its_line() {
    for (offset, broken) in [(0, true), (63, true), (64, false)] {
        let mut bench = Bench::new();
        lr(&mut bench, DATA);
        bench.ram.store_from_device(PhysAddr(DATA + offset), &[1]);
        assert_eq!(!sc(&mut bench, DATA), broken);
    }
}

#[test]
fn m5ops_retire_and_stop_with_their_function_and_arguments() {
    let mut bench = Bench::new();
    for function in [0x21, 0x40, 0x41, 0x42, 0x43, 0x5a, 0x5b, 0, 0x7f] {
        bench.write(CODE, &[NOP, m5op(function), NOP]);
        bench.hart.set_reg(10, 0x1234);
        bench.hart.set_reg(11, 0x5678);
        bench.go(User, CODE);
        let before = bench.hart.instructions();
        assert_eq!(bench.run(), Stop::M5Op { function: function as u8, args: [0x1234, 0x5678] });
        assert_eq!((bench.hart.pc(), bench.hart.instructions() - before), (CODE + 8, 2));
    }
    assert_eq!(
        bench.execute(User, m5op(0x21) | 1 << 7).cause(),
        Some(2),
        "with other bits set it is not an m5op"
    );
    assert_eq!(bench.get(MCAUSE), 2);
}
