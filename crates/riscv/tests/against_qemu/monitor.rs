//! Machine-mode monitor for test programs on QEMU: starts the program in user mode, handles its two system
//! calls, sets its flag after an exception, and finally writes the results to standard output by semihosting.
//! The program's registers are preserved.

use crate::asm::{Asm, EBREAK, MRET, addi, csr, i_type, j_type, ld, sd};
use crate::program::{CODE, EXIT, MEMORY, OUTPUT, SET_HANDLER};

const MSTATUS: u32 = 0x300;
const MTVEC: u32 = 0x305;
const MSCRATCH: u32 = 0x340;
const MEPC: u32 = 0x341;
const MCAUSE: u32 = 0x342;
const PMPCFG0: u32 = 0x3a0;
const PMPADDR0: u32 = 0x3b0;

const CAUSE_USER_ECALL: u64 = 8;
const FS_INITIAL: u64 = 1 << 13;
const PMP_ALL: u64 = 0x1f;

/// Monitor data: two saved registers, the program's flag, its resume address, semihosting arguments.
const KEPT: u64 = MEMORY + 0x800;
const FLAG_AT: i32 = 16;
const RESUME_AT: i32 = 24;
const ARGUMENTS_AT: i32 = 32;
/// The name of standard output, from "Semihosting for AArch32 and AArch64" (also used by RISC-V), section
/// 7.2.
const NAME: u64 = MEMORY + 0xc00;
const STANDARD_OUTPUT: &[u8; 3] = b":tt";
const OPEN_TO_WRITE: u64 = 4;
const SYS_OPEN: u64 = 1;
const SYS_WRITE: u64 = 5;
const SYS_EXIT: u64 = 0x18;
const APPLICATION_EXIT: u64 = 0x2_0026;

/// Builds the monitor, to be placed at the start of memory, for a program with `output_len` bytes of results.
pub fn monitor(output_len: u64) -> Vec<u8> {
    let mut asm = Asm::new(MEMORY);
    // The handler follows this start code, which is patched when the handler's address is known.
    let beginning = |asm: &mut Asm, handler: u64| {
        for (number, value) in [
            (MTVEC, handler),
            (MSCRATCH, KEPT),
            (PMPADDR0, u64::MAX),
            (PMPCFG0, PMP_ALL),
            (MSTATUS, FS_INITIAL),
            (MEPC, CODE),
        ] {
            asm.li(5, value).word(csr(1, 0, number, 5));
        }
        asm.word(MRET);
    };
    let mut measured = Asm::new(MEMORY);
    beginning(&mut measured, MEMORY + 0x400);
    let handler = measured.here().next_multiple_of(0x100);
    assert_eq!(handler, MEMORY + 0x100, "the start code has a fixed size");
    beginning(&mut asm, handler);
    while asm.here() < handler {
        asm.word(0);
    }
    trap_handler(&mut asm, output_len);
    let mut bytes = asm.into_code();
    assert!(bytes.len() as u64 <= KEPT - MEMORY);
    bytes.resize((NAME - MEMORY) as usize, 0);
    bytes.extend_from_slice(STANDARD_OUTPUT);
    bytes.push(0);
    bytes
}

fn trap_handler(asm: &mut Asm, output_len: u64) {
    asm.word(csr(1, 31, MSCRATCH, 31)).word(sd(5, 31, 0)).word(sd(6, 31, 8));
    asm.word(csr(2, 5, MCAUSE, 0)).li(6, CAUSE_USER_ECALL);
    let to_call = asm.here();
    asm.word(0);
    // An unexpected exception ends the program, with the cause.
    asm.word(ld(6, 31, FLAG_AT));
    let to_exit = asm.here();
    asm.word(0);
    asm.li(5, 1).word(sd(5, 6, 0)).word(ld(6, 31, RESUME_AT)).word(csr(1, 0, MEPC, 6));
    let back = asm.here();
    asm.word(ld(5, 31, 0)).word(ld(6, 31, 8)).word(csr(1, 31, MSCRATCH, 31)).word(MRET);

    let call = asm.here();
    asm.word(csr(2, 5, MEPC, 0)).word(addi(5, 5, 4)).word(csr(1, 0, MEPC, 5)).li(6, SET_HANDLER);
    let to_end = asm.here();
    asm.word(0);
    asm.word(sd(10, 31, FLAG_AT)).word(sd(11, 31, RESUME_AT));
    asm.word(j_type(0, back.wrapping_sub(asm.here()) as i64 as i32));

    let end = asm.here();
    asm.li(6, EXIT).word(addi(5, 0, 1));
    // Any other system call ends the program with cause 1.
    let to_exit_too = asm.here();
    asm.word(0);
    semihosting(asm, SYS_OPEN, &[Some(NAME), Some(OPEN_TO_WRITE), Some(STANDARD_OUTPUT.len() as u64)]);
    semihosting(asm, SYS_WRITE, &[None, Some(OUTPUT), Some(output_len)]);
    // Number of bytes that could not be written.
    asm.word(addi(5, 10, 0));
    let exit = asm.here();
    asm.word(sd(5, 31, ARGUMENTS_AT + 8));
    semihosting(asm, SYS_EXIT, &[Some(APPLICATION_EXIT)]);

    let branch = |from: u64, to: u64, funct3, rs1, rs2| {
        (from, crate::asm::b_type(funct3, rs1, rs2, (to - from) as i32))
    };
    for (at, word) in [
        branch(to_call, call, 0, 5, 6),
        branch(to_exit, exit, 0, 6, 0),
        branch(to_end, end, 1, 17, 6),
        branch(to_exit_too, exit, 1, 17, 6),
    ] {
        asm.patch(at, word);
    }
}

/// Emits a semihosting call; with `None` its argument is the previous call's result.
fn semihosting(asm: &mut Asm, operation: u64, arguments: &[Option<u64>]) {
    for (place, argument) in (0..).zip(arguments) {
        match argument {
            Some(value) => asm.li(6, *value),
            None => asm.word(addi(6, 10, 0)),
        };
        asm.word(sd(6, 31, ARGUMENTS_AT + 8 * place));
    }
    asm.li(10, operation).word(addi(11, 31, ARGUMENTS_AT));
    // These three uncompressed instructions mark a semihosting call.
    asm.word(i_type(0x13, 1, 0, 0, 0x1f)).word(EBREAK).word(i_type(0x13, 5, 0, 0, 0x407));
}
