//! Changing code: by the hart's own stores of every kind, through aliases, by devices; and more code than the
//! block cache holds.

use doorbell_riscv::{Privilege, Stop};
use doorbell_sim::PhysAddr;

use crate::asm::{C_NOP, FENCE_I, NOP, addi, fsd, i_type, j_type, m5op, r_type, s_type, sd};
use crate::bench::{Bench, CODE, DATA, csrs::*, pte, status};
use Privilege::{Machine, Supervisor};

const END: u32 = 0x0200_007b; // an m5op

/// `addi x5, x5, n`.
fn count(n: i32) -> u32 {
    addi(5, 5, n)
}

fn run_from(bench: &mut Bench, pc: u64) -> u64 {
    bench.hart.set_reg(5, 0);
    bench.go(Machine, pc);
    assert_eq!(bench.run(), Stop::M5Op { function: 1, args: [0, 0] });
    bench.hart.reg(5)
}

#[test]
fn newly_written_code_runs_with_and_without_fence_i() {
    assert_eq!(END, m5op(1));
    for fence in [NOP, FENCE_I] {
        let mut bench = Bench::new();
        // The store replaces a later instruction of its own block.
        bench.write(CODE, &[count(1), s_type(0x23, 2, 6, 7, 0), fence, count(10), count(100), END]);
        bench.hart.set_reg(6, CODE + 12);
        bench.hart.set_reg(7, count(10).into());
        assert_eq!(run_from(&mut bench, CODE), 111);
        bench.hart.set_reg(7, count(20).into());
        assert_eq!(run_from(&mut bench, CODE), 121);
        assert_eq!(run_from(&mut bench, CODE), 121);
        // The count is exact although blocks are left early: 6 instructions each time.
        assert_eq!((bench.hart.instructions(), bench.hart.slots()), (18, 18));
    }
}

#[test]
fn stores_of_every_kind_make_decoded_code_stale() {
    let amoswap = r_type(0x2f, 2, 1 << 2, 0, 6, 7);
    let sc = r_type(0x2f, 2, 3 << 2, 8, 6, 7);
    let lr = r_type(0x2f, 2, 2 << 2, 8, 6, 0);
    let fsw = s_type(0x27, 2, 6, 1, 0);
    let to_float = r_type(0x53, 0, 0x78, 1, 7, 0); // fmv.w.x
    let c_sw = 0xc35c; // c.sw a5, 4(a4)
    let kinds: [&[u32]; 5] = [
        &[s_type(0x23, 2, 6, 7, 0)],
        &[amoswap],
        &[lr, sc],
        &[to_float, fsw],
        &[c_sw | (C_NOP as u32) << 16],
    ];
    for (index, store) in kinds.into_iter().enumerate() {
        let mut bench = Bench::new();
        bench.enable(status::FS_INITIAL);
        // A function on another page, called before and after the store.
        let function = DATA;
        bench.write(function, &[count(1), i_type(0x67, 0, 0, 1, 0)]);
        let call = |at: u64| j_type(1, (function - at) as i32);
        let after = CODE + 4 + 4 * store.len() as u64;
        let code = [&[call(CODE)], store, &[call(after), END]].concat();
        bench.write(CODE, &code);
        for (register, value) in
            [(6, function), (7, count(50).into()), (14, function - 4), (15, count(50).into())]
        {
            bench.hart.set_reg(register, value);
        }
        assert_eq!(run_from(&mut bench, CODE), 51, "kind {index}");
    }
}

#[test]
fn a_byte_or_a_doubleword_or_a_misaligned_store_changes_code_too() {
    let mut bench = Bench::new();
    let target = DATA + 8;
    bench.enable(status::FS_INITIAL);
    bench.write(target, &[count(1), END]);
    assert_eq!(run_from(&mut bench, target), 1);
    // The immediate's upper byte is the instruction's last byte.
    let halves = u64::from(count(3)) | u64::from(END) << 32;
    let tries: [(u32, u64, u64, u64); 4] = [
        (s_type(0x23, 0, 6, 7, 0), target + 3, 0x01, 17), // sb: 1 → 0x011
        (sd(7, 6, 0), target, halves, 3),
        (fsd(1, 6, 0), target, halves, 3),
        (s_type(0x23, 3, 6, 7, 0), target - 3, halves << 24, 3),
    ];
    for (word, addr, value, expected) in tries {
        bench.write(target, &[count(1), END]);
        assert_eq!(run_from(&mut bench, target), 1);
        bench.write(CODE, &[word, END]);
        bench.hart.set_reg(6, addr);
        bench.hart.set_reg(7, value);
        bench.hart.set_freg(1, value);
        run_from(&mut bench, CODE);
        if addr < target {
            bench.write(target + 4, &[END]);
        }
        assert_eq!(run_from(&mut bench, target), expected, "{word:#x}");
    }
}

#[test]
fn a_store_through_another_virtual_address_changes_the_code() {
    let mut bench = Bench::new();
    let table = bench.page_table(3);
    let (code, alias) = (0x40_0000, 0x80_0000);
    bench.map(table, code, CODE, 0, pte::ALL);
    bench.map(table, alias, DATA, 0, pte::ALL);
    bench.map(table, code + 4096, DATA, 0, pte::ALL);
    bench.set(MEDELEG, 0);
    // Put the alias on the store fast path before the page holds code.
    bench.write(CODE, &[s_type(0x23, 2, 6, 7, 0), j_type(0, 4092)]);
    for n in [1, 2, 3] {
        bench.write(DATA + 4, &[END]);
        bench.hart.set_reg(5, 0);
        bench.hart.set_reg(6, alias);
        bench.hart.set_reg(7, count(n).into());
        bench.go(Supervisor, code);
        assert_eq!(bench.run(), Stop::M5Op { function: 1, args: [0, 0] });
        assert_eq!(bench.hart.reg(5), n as u64);
    }
}

#[test]
fn code_written_by_a_device_takes_effect() {
    let mut bench = Bench::new();
    for n in [1, 2, 3] {
        bench.ram.store_from_device(PhysAddr(CODE), &count(n).to_le_bytes());
        bench.ram.store_from_device(PhysAddr(CODE + 4), &END.to_le_bytes());
        assert_eq!(run_from(&mut bench, CODE), n as u64);
    }
}

#[test]
fn a_jump_into_an_instruction_decodes_from_there() {
    // A jump to the second half of an instruction, which is a valid instruction itself.
    let mut bench = Bench::new();
    let inner = 0x0285; // c.addi t0, 1
    bench.write(CODE, &[0x37 | 8 << 7 | u32::from(inner as u16) << 16, END]);
    assert_eq!(run_from(&mut bench, CODE), 0);
    assert_eq!(run_from(&mut bench, CODE + 2), 1);
    assert_eq!(run_from(&mut bench, CODE), 0);
}

#[test]
fn more_code_than_the_block_cache_holds_runs_repeatedly() {
    let mut bench = Bench::new();
    let bytes = 10u64 << 20;
    let begin = crate::bench::BASE + (2 << 20);
    bench.write_halves(begin, &vec![C_NOP; (bytes / 2) as usize]);
    bench.write(begin + bytes, &[END]);
    for _ in 0..2 {
        let before = bench.hart.instructions();
        assert_eq!(run_from(&mut bench, begin), 0);
        assert_eq!(bench.hart.instructions() - before, bytes / 2 + 1);
    }
}

#[test]
fn a_loop_of_one_block_runs_the_right_number_of_times() {
    let mut bench = Bench::new();
    bench.write(CODE, &[count(1), crate::asm::b_type(1, 5, 6, -4), END]);
    bench.hart.set_reg(6, 1000);
    assert_eq!(run_from(&mut bench, CODE), 1000);
    assert_eq!(bench.hart.instructions(), 2001);
}
