//! A bare-metal supervisor: it makes SBI calls from a table and prints each result, the changed registers and
//! the pending interrupts. The same image runs on QEMU.
//!
//! It is a raw kernel Image. The boot hart makes the calls; started harts run the code at [`SECONDARY`],
//! which stores its arguments and state in a mailbox and executes commands from it.

use doorbell_assembler::{Assembler, csr, *};

/// Load address of kernels.
pub const BASE: u64 = 0x8020_0000;
/// Entry point of started harts.
pub const SECONDARY: u64 = BASE + 0x100;
/// Resume address of the boot hart after a non-retentive suspend.
pub const RESUMED: u64 = BASE + 0x200;
/// Mailboxes of the harts, 64 bytes each.
pub const MAILBOX: u64 = BASE + 0x8000;
/// Offsets in a hart's mailbox.
pub const STARTS: u64 = 0;
pub const HART: u64 = 8;
pub const ARGUMENT: u64 = 16;
pub const INTERRUPTS: u64 = 24;
pub const COMMAND: u64 = 32;
pub const SATP_AND_SSTATUS: u64 = 40;
/// Commands.
pub const STOP: u64 = 1;
pub const SUSPEND: u64 = 2;
/// Address of a string in the guest's memory, its text, and the address of a buffer.
pub const STRING: u64 = BASE + 0x9000;
pub const TEXT: &[u8] = b"<printed by the firmware>";
pub const BUFFER: u64 = BASE + 0x9100;

/// Pseudo-extensions handled by the guest itself: read memory, write memory, wait.
pub const PEEK: u64 = 0xf000_0001;
pub const POKE: u64 = 0xf000_0002;
pub const WAIT: u64 = 0xf000_0003;

/// Printed before the first row.
pub const BEGIN: &str = "[begin]";

const FRAME: u64 = BASE + 0xa000;
const TABLE: u64 = BASE + 0xb000;
const UART: u64 = 0x1000_0000;
const TICKS_WAITED: u64 = 100_000;
const SSIP: u64 = 2;
const ALL_INTERRUPTS: u64 = 0x222;
/// Offsets of variables in the frame, after the saved registers.
const ROW: i32 = 256;
const ROWS: i32 = 264;

/// Registers a7, a6 and a0 to a5 of a call.
pub type Call = [u64; 8];

/// The guest's image for a table of calls, the last of which should power off.
pub fn image(calls: &[Call]) -> Vec<u8> {
    let mut a = Assembler::new(BASE);
    header(&mut a);
    a.fill_to(SECONDARY);
    secondary(&mut a);
    a.fill_to(RESUMED);
    resumed(&mut a);
    main_loop(&mut a, calls.len() as u64);
    print(&mut a);
    a.fill_to(STRING);
    a.data(TEXT);
    a.fill_to(TABLE);
    for word in calls.iter().flatten() {
        a.data(&word.to_le_bytes());
    }
    let mut image = a.finish();
    let bytes = image.len() as u64;
    image[16..24].copy_from_slice(&bytes.to_le_bytes());
    image
}

/// Linux, "Boot image header in RISC-V Linux".
fn header(a: &mut Assembler) {
    a.j("main");
    a.fill_to(BASE + 8);
    a.data(&0x20_0000u64.to_le_bytes());
    a.fill_to(BASE + 32);
    a.data(&2u32.to_le_bytes());
    a.fill_to(BASE + 48);
    a.data(b"RISCV\0\0\0RSC\x05");
}

/// Code of started harts: stores hart ID, argument and state, counts interrupts and executes commands.
fn secondary(a: &mut Assembler) {
    a.li(T0, MAILBOX);
    a.slli(T1, A0, 6);
    a.add(SP, T0, T1);
    a.sd(A0, SP, HART as i32);
    a.sd(A1, SP, ARGUMENT as i32);
    a.csrr(T0, csr::SATP);
    a.csrr(T1, csr::SSTATUS);
    a.andi(T1, T1, 2);
    a.or(T0, T0, T1);
    a.sd(T0, SP, SATP_AND_SSTATUS as i32);
    a.li(T0, SSIP);
    a.csrw(csr::SIE, T0);
    a.ld(T0, SP, STARTS as i32);
    a.addi(T0, T0, 1);
    a.sd(T0, SP, STARTS as i32);
    a.label("secondary.sleep");
    a.wfi();
    a.csrr(T0, csr::SIP);
    a.andi(T0, T0, SSIP as i32);
    a.beqz(T0, "secondary.sleep");
    a.li(T0, SSIP);
    a.csrc(csr::SIP, T0);
    a.ld(T0, SP, INTERRUPTS as i32);
    a.addi(T0, T0, 1);
    a.sd(T0, SP, INTERRUPTS as i32);
    a.ld(A6, SP, COMMAND as i32);
    a.beqz(A6, "secondary.sleep");
    a.sd(ZERO, SP, COMMAND as i32);
    a.li(A7, HSM);
    // Stop is function 1; suspend is function 3, here non-retentive.
    a.addi(T0, A6, -(STOP as i32));
    a.beqz(T0, "secondary.call");
    a.li(A6, 3);
    a.li(A0, 0x8000_0000);
    a.li(A1, SECONDARY);
    a.li(A2, 0x5ec0);
    a.label("secondary.call");
    a.ecall();
    a.j("secondary.sleep");
}

/// Hart state management, the extension used by started harts.
const HSM: u64 = 0x48_534d;

fn resumed(a: &mut Assembler) {
    a.li(SP, FRAME);
    a.la(T0, "trap");
    a.csrw(csr::STVEC, T0);
    a.li(S1, 0);
    a.li(T0, ALL_INTERRUPTS);
    a.csrw(csr::SIE, T0);
    a.j("result");
}

/// Value of register `number` before a call, unless it is an argument.
fn pattern(number: u8) -> u64 {
    0x0123_4567_89ab_cd00 | u64::from(number)
}

fn is_pattern(number: u8) -> bool {
    matches!(number, 1 | 3..=9 | 18..=31)
}

fn main_loop(a: &mut Assembler, rows: u64) {
    a.label("main");
    a.li(SP, FRAME);
    a.la(T0, "trap");
    a.csrw(csr::STVEC, T0);
    a.li(T0, ALL_INTERRUPTS);
    a.csrw(csr::SIE, T0);
    a.li(T0, TABLE);
    a.sd(T0, SP, ROW);
    a.li(T0, rows);
    a.sd(T0, SP, ROWS);
    for letter in BEGIN.bytes() {
        a.li(T0, letter.into());
        a.call("put");
    }
    a.label("next");
    a.li(T0, b'\n'.into());
    a.call("put");
    a.ld(T0, SP, ROW);
    for (index, reg) in [A7, A6, A0, A1, A2, A3, A4, A5].into_iter().enumerate() {
        a.ld(reg, T0, 8 * index as i32);
    }
    own_operations(a);
    for number in (1..32).filter(|number| is_pattern(*number)) {
        a.li(Reg::x(number), pattern(number));
    }
    a.ecall();
    a.label("called");
    for number in (1..32).filter(|number| *number != 2) {
        a.sd(Reg::x(number), SP, 8 * i32::from(number));
    }
    a.li(S1, 0);
    for number in (1..32).filter(|number| is_pattern(*number) || (12..18).contains(number)) {
        a.ld(T0, SP, 8 * i32::from(number));
        if is_pattern(number) {
            a.li(T1, pattern(number));
        } else {
            a.ld(T1, SP, ROW);
            let column = match number {
                17 => 0,
                16 => 1,
                _ => i32::from(number) - 8,
            };
            a.ld(T1, T1, 8 * column);
        }
        a.xor(T0, T0, T1);
        a.beqz(T0, SAME[usize::from(number)]);
        a.li(T0, 1 << number);
        a.or(S1, S1, T0);
        a.label(SAME[usize::from(number)]);
    }
    results(a);
}

/// Labels; the assembler needs static strings.
const SAME: [&str; 32] = [
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18",
    "19", "20", "21", "22", "23", "24", "25", "26", "27", "28", "29", "30", "31",
];

/// Handles peek, poke and wait, without a call and without a check of registers.
fn own_operations(a: &mut Assembler) {
    a.li(S1, 0);
    a.li(T0, PEEK);
    a.beq(A7, T0, "peek");
    a.li(T0, POKE);
    a.beq(A7, T0, "poke");
    a.li(T0, WAIT);
    a.bne(A7, T0, "call");
    a.csrr(T1, csr::TIME);
    a.li(T2, TICKS_WAITED);
    a.label("wait");
    // WFI with a pending interrupt: it returns at once, but makes QEMU switch to the next hart.
    a.csrr(T3, csr::SIP);
    a.csrr(T4, csr::SIE);
    a.li(T5, SSIP);
    a.csrs(csr::SIP, T5);
    a.csrs(csr::SIE, T5);
    a.wfi();
    a.csrw(csr::SIE, T4);
    a.andi(T3, T3, SSIP as i32);
    a.bnez(T3, "wait.on");
    a.csrc(csr::SIP, T5);
    a.label("wait.on");
    a.csrr(T0, csr::TIME);
    a.sub(T0, T0, T1);
    a.bltu(T0, T2, "wait");
    a.li(A0, 0);
    a.li(A1, 0);
    a.j("result");
    a.label("peek");
    a.mv(T2, A0);
    a.li(A0, 0);
    a.ld(A1, T2, 0);
    a.j("result");
    a.label("poke");
    a.mv(T2, A0);
    a.li(A0, 0);
    a.sd(A1, T2, 0);
    a.j("result");
    a.label("call");
}

/// Prints a0, a1, the changed registers in s1 and the pending interrupts.
fn results(a: &mut Assembler) {
    a.label("result");
    // Wait a little: an interrupt caused by the call may arrive late.
    a.li(T0, 2000);
    a.label("result.delay");
    a.addi(T0, T0, -1);
    a.bnez(T0, "result.delay");
    a.mv(S0, A1);
    a.mv(S2, A0);
    for reg in [S2, S0, S1] {
        a.mv(S3, reg);
        a.call("hex");
    }
    a.csrr(S3, csr::SIP);
    a.andi(S3, S3, ALL_INTERRUPTS as i32);
    a.call("hex");
    a.li(T0, SSIP);
    a.csrc(csr::SIP, T0);
    a.ld(T0, SP, ROW);
    a.addi(T0, T0, 64);
    a.sd(T0, SP, ROW);
    a.ld(T0, SP, ROWS);
    a.addi(T0, T0, -1);
    a.sd(T0, SP, ROWS);
    a.bnez(T0, "next");
    a.label("stuck");
    a.j("stuck");
}

/// `put` prints t0 and `hex` prints s3. The trap handler returns cause and value in a0 and a1.
fn print(a: &mut Assembler) {
    a.label("put");
    a.li(T1, UART);
    a.label("put.full");
    a.lbu(T2, T1, 5);
    a.andi(T2, T2, 0x20);
    a.beqz(T2, "put.full");
    a.sb(T0, T1, 0);
    a.ret();
    a.label("hex");
    a.mv(S5, RA);
    a.li(S4, 16);
    a.li(T0, b' '.into());
    a.call("put");
    a.label("hex.digit");
    a.srli(T0, S3, 60);
    a.slli(S3, S3, 4);
    a.addi(T1, T0, -10);
    a.addi(T0, T0, i32::from(b'0'));
    a.bltz(T1, "hex.put");
    a.addi(T0, T0, i32::from(b'a') - i32::from(b'0') - 10);
    a.label("hex.put");
    a.call("put");
    a.addi(S4, S4, -1);
    a.bnez(S4, "hex.digit");
    a.mv(RA, S5);
    a.ret();
    a.word(0x13);
    a.label("trap");
    a.csrr(A0, 0x142);
    a.csrr(A1, 0x143);
    a.csrr(T0, 0x141);
    a.addi(T0, T0, 4);
    a.csrw(0x141, T0);
    a.word(0x1020_0073); // sret
}
