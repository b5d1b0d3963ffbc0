//! Traps into machine mode, and requests between harts.
//!
//! There are three causes: the supervisor's calls, the software interrupt by which harts wake each other,
//! and, without Sstc, the timer. All others are delegated, or are bugs of the firmware.

use super::assembler::{Assembler, csr, *};
use super::layout::{self, area, event, shared};
use super::start::MSIP;
use crate::map::{self, RegionId};
use crate::syscon;

const CAUSE_SUPERVISOR_CALL: u64 = 9;
const CAUSE_TIMER: u64 = 7;
/// Bits of `mip` and `mie`.
const SSIP: u32 = 1 << 1;
const STIP: u64 = 1 << 5;
pub(super) const MTIP: u64 = 1 << 7;
/// The machine's exit code after a fatal error of the firmware.
const FATAL_CODE: u32 = 0x5b1;

/// The registers that a call or a software interrupt may change, in addition to ra, t0 and t1.
const REST: [Reg; 11] = [T2, T3, T4, T5, T6, A2, A3, A4, A5, A6, A7];

pub(super) fn assemble(a: &mut Assembler) {
    entry(a);
    timer(a);
    software(a);
    events(a);
    fence(a);
    fatal(a);
}

fn entry(a: &mut Assembler) {
    a.label("trap");
    a.csr_swap(SP, csr::MSCRATCH);
    a.sd(T0, SP, area::T0);
    a.sd(T1, SP, area::T1);
    a.csrr(T0, csr::MCAUSE);
    a.bltz(T0, "trap.interrupt");
    a.li(T1, CAUSE_SUPERVISOR_CALL);
    a.bne(T0, T1, "fatal.trap");
    a.sd(RA, SP, area::RA);
    a.call("trap.save");
    // Returns after the ECALL instruction, which is never compressed.
    a.csrr(T0, csr::MEPC);
    a.addi(T0, T0, 4);
    a.csrw(csr::MEPC, T0);
    a.j("call");
    a.label("trap.save");
    for (index, reg) in REST.into_iter().enumerate() {
        a.sd(reg, SP, area::REST + 8 * index as i32);
    }
    a.ret();
    a.label("trap.restore");
    for (index, reg) in REST.into_iter().enumerate() {
        a.ld(reg, SP, area::REST + 8 * index as i32);
    }
    a.ld(RA, SP, area::RA);
    a.label("trap.leave");
    a.ld(T1, SP, area::T1);
    a.ld(T0, SP, area::T0);
    a.csr_swap(SP, csr::MSCRATCH);
    a.mret();
}

/// Machine timer interrupt: forwards it to the supervisor, and masks it until the timer is set again.
fn timer(a: &mut Assembler) {
    a.label("trap.interrupt");
    a.slli(T0, T0, 1);
    a.li(T1, 2 * CAUSE_TIMER);
    a.bne(T0, T1, "trap.software");
    a.li(T0, MTIP);
    a.csrc(csr::MIE, T0);
    a.li(T0, STIP);
    a.csrs(csr::MIP, T0);
    a.j("trap.leave");
}

fn software(a: &mut Assembler) {
    a.label("trap.software");
    a.srli(T0, T0, 1);
    a.li(T1, MSIP.trailing_zeros().into());
    a.bne(T0, T1, "fatal.trap");
    a.sd(RA, SP, area::RA);
    a.call("trap.save");
    a.call("events.take");
    a.j("trap.restore");
}

/// `events.take` serves the events that other harts sent to this one, and returns them in t0. Changes t0 to
/// t6 and no other register. `events.poll` does the same if an event is pending.
fn events(a: &mut Assembler) {
    a.label("events.poll");
    a.csrr(T0, csr::MIP);
    a.andi(T0, T0, MSIP);
    a.beqz(T0, "events.done");
    a.label("events.take");
    a.csrr(T0, csr::MHARTID);
    a.slli(T0, T0, 2);
    a.li(T1, map::get(RegionId::Clint).base);
    a.add(T0, T0, T1);
    // The interrupt is cleared before its events are read, so that a later event interrupts again.
    a.sw(ZERO, T0, 0);
    a.fence();
    a.addi(T0, SP, area::EVENTS);
    a.amoswap(T0, ZERO, T0);
    a.andi(T1, T0, event::INTERRUPT);
    a.beqz(T1, "events.no_interrupt");
    a.csrsi(csr::MIP, SSIP);
    a.label("events.no_interrupt");
    a.andi(T1, T0, event::FENCE);
    a.beqz(T1, "events.done");
    a.mv(T2, RA);
    a.call("fence");
    a.mv(RA, T2);
    a.address(T1, layout::SHARED + shared::FENCE_WAITING as u64);
    a.li(T3, u64::MAX);
    a.amoadd(ZERO, T3, T1);
    a.label("events.done");
    a.ret();
}

/// Performs the fence that the shared variables describe. Changes t1 and t3 to t6.
fn fence(a: &mut Assembler) {
    a.label("fence");
    a.address(T1, layout::SHARED);
    a.ld(T3, T1, shared::FENCE_KIND);
    a.bnez(T3, "fence.translation");
    a.fence_i();
    a.ret();
    a.label("fence.translation");
    a.ld(T4, T1, shared::FENCE_START);
    a.ld(T5, T1, shared::FENCE_END);
    a.ld(T6, T1, shared::FENCE_ASID);
    a.addi(T3, T3, -1);
    a.li(T1, 4096);
    a.bnez(T3, "fence.of_asid");
    a.bne(T4, T5, "fence.page");
    a.sfence_vma(ZERO, ZERO);
    a.ret();
    a.label("fence.page");
    a.sfence_vma(T4, ZERO);
    a.add(T4, T4, T1);
    a.bltu(T4, T5, "fence.page");
    a.ret();
    a.label("fence.of_asid");
    a.bne(T4, T5, "fence.page_of_asid");
    a.sfence_vma(ZERO, T6);
    a.ret();
    a.label("fence.page_of_asid");
    a.sfence_vma(T4, T6);
    a.add(T4, T4, T1);
    a.bltu(T4, T5, "fence.page_of_asid");
    a.ret();
}

/// Prints the reason and powers off the machine.
fn fatal(a: &mut Assembler) {
    for (label, text, message) in [
        ("fatal.trap", "fatal.trap_text", &b"\nfirmware: unexpected trap\n\0"[..]),
        ("fatal.tree", "fatal.tree_text", &b"\nfirmware: the device tree cannot be read\n\0"[..]),
    ] {
        a.label(label);
        a.la(T0, text);
        a.call("console.print");
        a.li(T0, u64::from(FATAL_CODE << 16 | syscon::FAIL));
        a.j("power");
        a.label(text);
        a.data(message);
    }
}
