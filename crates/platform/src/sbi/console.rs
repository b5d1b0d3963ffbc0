//! The console: the board's UART (an NS16550A), and the DBCN extension (SBI 2.0, chapter 12).
//!
//! A string must be in RAM that the supervisor may use; otherwise the call is refused before any output or
//! store. A write prints the whole string, whatever its length; a read returns the bytes that the UART holds.

use super::assembler::{Assembler, *};
use super::layout::{self, shared};
use crate::map::{self, RegionId};

/// Offsets of the UART's registers; the first two access the divisor while bit 7 of LCR is set.
const DATA: i32 = 0;
const INTERRUPT_ENABLE: i32 = 1;
const FIFO_CONTROL: i32 = 2;
const LINE_CONTROL: i32 = 3;
const MODEM_CONTROL: i32 = 4;
const LINE_STATUS: i32 = 5;
const DATA_READY: i32 = 0x01;
const TRANSMITTER_EMPTY: i32 = 0x20;
const DIVISOR_ACCESS: u64 = 0x80;
const EIGHT_BITS: u64 = 0x03;
/// 115200 baud with the clock in the device tree.
const DIVISOR: u64 = 2;

pub(super) fn assemble(a: &mut Assembler) {
    uart(a);
    lock(a);
    calls(a);
    string_check(a);
}

fn uart_base(a: &mut Assembler, into: Reg) {
    a.li(into, map::get(RegionId::Uart).base);
}

/// `console.put` prints t0, `console.get` reads t0 or -1, `console.print` prints the string at t0. They use t1 and t2.
fn uart(a: &mut Assembler) {
    a.label("console.init");
    uart_base(a, T1);
    for (register, value) in [
        (INTERRUPT_ENABLE, 0),
        (LINE_CONTROL, DIVISOR_ACCESS),
        (DATA, DIVISOR),
        (INTERRUPT_ENABLE, 0),
        (LINE_CONTROL, EIGHT_BITS),
        (FIFO_CONTROL, 1),
        (MODEM_CONTROL, 0),
    ] {
        a.li(T0, value);
        a.sb(T0, T1, register);
    }
    a.ret();
    a.label("console.put");
    uart_base(a, T1);
    a.label("console.full");
    a.lbu(T2, T1, LINE_STATUS);
    a.andi(T2, T2, TRANSMITTER_EMPTY);
    a.beqz(T2, "console.full");
    a.sb(T0, T1, DATA);
    a.ret();
    a.label("console.get");
    uart_base(a, T1);
    a.li(T0, u64::MAX);
    a.lbu(T2, T1, LINE_STATUS);
    a.andi(T2, T2, DATA_READY);
    a.beqz(T2, "console.empty");
    a.lbu(T0, T1, DATA);
    a.label("console.empty");
    a.ret();
    a.label("console.print");
    a.mv(T4, RA);
    a.mv(T3, T0);
    a.label("console.character");
    a.lbu(T0, T3, 0);
    a.addi(T3, T3, 1);
    a.beqz(T0, "console.printed");
    a.call("console.put");
    a.j("console.character");
    a.label("console.printed");
    a.mv(RA, T4);
    a.ret();
}

/// Lock for printing, held by one hart at a time. Both routines use t5 and t6.
fn lock(a: &mut Assembler) {
    a.label("console.lock");
    a.address(T6, layout::SHARED + shared::CONSOLE_LOCK as u64);
    a.label("console.locked");
    a.li(T5, 1);
    a.amoswap(T5, T5, T6);
    a.bnez(T5, "console.locked");
    a.ret();
    a.label("console.unlock");
    a.address(T6, layout::SHARED + shared::CONSOLE_LOCK as u64);
    a.amoswap(ZERO, ZERO, T6);
    a.ret();
}

fn calls(a: &mut Assembler) {
    a.label("console");
    a.li(T0, 2);
    a.beq(A6, T0, "console.byte");
    a.bltu(T0, A6, "end.not_supported");
    a.call("console.check");
    a.call("console.lock");
    a.mv(A3, A1);
    a.add(A0, A0, A1);
    a.bnez(A6, "console.read");
    a.label("console.write");
    a.bgeu(A3, A0, "console.done");
    a.lbu(T0, A3, 0);
    a.call("console.put");
    a.addi(A3, A3, 1);
    a.j("console.write");
    a.label("console.read");
    a.bgeu(A3, A0, "console.done");
    a.call("console.get");
    a.bltz(T0, "console.done");
    a.sb(T0, A3, 0);
    a.addi(A3, A3, 1);
    a.j("console.read");
    a.label("console.done");
    a.call("console.unlock");
    a.sub(A1, A3, A1);
    a.j("end.value");
    a.label("console.byte");
    a.call("console.lock");
    a.mv(T0, A0);
    a.call("console.put");
    a.call("console.unlock");
    a.j("end.good");
}

/// Ends the call unless the supervisor may access a0 bytes at a1. a2, the upper half of the address, must be
/// zero.
fn string_check(a: &mut Assembler) {
    a.label("console.check");
    a.bnez(A2, "end.failed");
    a.beqz(A0, "end.good");
    a.add(T0, A0, A1);
    a.bltu(T0, A1, "end.invalid");
    a.address(T1, layout::BASE + layout::BYTES);
    a.bltu(A1, T1, "end.invalid");
    a.address(T1, layout::SHARED);
    a.ld(T1, T1, shared::RAM_END);
    a.bltu(T1, T0, "end.invalid");
    a.ret();
}
