//! Starting, stopping and suspending harts (SBI 2.0, chapter 9, "HSM").
//!
//! Both suspend types are the default ones: the hart waits in WFI for any interrupt that the supervisor has
//! enabled. After a non-retentive suspension it resumes at the given address, as if started.

use super::assembler::{Assembler, csr, *};
use super::layout::{self, HARTS_MAX, area, event, shared, state};

/// Suspend types; the remaining bits are platform-specific, and none are defined here.
const NON_RETENTIVE: u32 = 1 << 31;
/// First platform-specific type.
const PLATFORM_TYPES: u64 = 0x1000_0000;

pub(super) fn assemble(a: &mut Assembler) {
    a.label("harts");
    for (function, label) in
        ["harts.start", "harts.stop", "harts.status", "harts.suspend"].into_iter().enumerate()
    {
        a.li(T0, function as u64);
        a.beq(A6, T0, label);
    }
    a.j("end.not_supported");
    find(a);
    start(a);
    stop(a);
    suspend(a);
}

/// Ends the call unless hart a0 exists; then t0 is its area.
fn find(a: &mut Assembler) {
    a.label("harts.find");
    a.li(T0, u64::from(HARTS_MAX));
    a.bgeu(A0, T0, "end.invalid");
    a.address(T0, layout::SHARED);
    a.ld(T0, T0, shared::PRESENT);
    a.srl(T0, T0, A0);
    a.andi(T0, T0, 1);
    a.beqz(T0, "end.invalid");
    a.slli(T0, A0, layout::AREA_SHIFT);
    a.address(T1, layout::AREAS);
    a.add(T0, T0, T1);
    a.ret();
    a.label("harts.status");
    a.call("harts.find");
    a.ld(A1, T0, area::STATE);
    a.j("end.value");
}

/// Ends the call unless a1 is a possible start address of the supervisor.
fn start_check(a: &mut Assembler) {
    a.label("harts.check");
    a.address(T1, layout::BASE + layout::BYTES);
    a.bltu(A1, T1, "end.bad_address");
    a.address(T1, layout::SHARED);
    a.ld(T1, T1, shared::RAM_END);
    a.bgeu(A1, T1, "end.bad_address");
    a.ret();
}

fn start(a: &mut Assembler) {
    start_check(a);
    a.label("harts.start");
    a.call("harts.find");
    a.call("harts.check");
    a.addi(T2, T0, area::STATE);
    a.li(T3, state::STOPPED);
    a.li(T4, state::START_PENDING);
    a.label("harts.claim");
    a.lr(T5, T2);
    a.bne(T5, T3, "harts.not_stopped");
    a.sc(T5, T4, T2);
    a.bnez(T5, "harts.claim");
    a.sd(A1, T0, area::START_ADDRESS);
    a.sd(A2, T0, area::START_ARGUMENT);
    a.li(T1, 1);
    a.sll(T0, T1, A0);
    a.li(A5, event::START as u64);
    a.call("send");
    a.j("end.good");
    a.label("harts.not_stopped");
    a.beqz(T5, "end.already");
    a.j("end.invalid");
}

fn stop(a: &mut Assembler) {
    a.label("harts.stop");
    a.call("timer.stop");
    a.csrr(T0, csr::MHARTID);
    a.li(T1, 1);
    a.sll(T1, T1, T0);
    a.xori(T1, T1, -1);
    a.address(T2, layout::SHARED + shared::RUNNING as u64);
    a.amoand(ZERO, T1, T2);
    // The trap entry swapped sp and mscratch; the next entry swaps them again.
    a.csrw(csr::MSCRATCH, SP);
    a.fence();
    a.li(T0, state::STOPPED);
    a.sd(T0, SP, area::STATE);
    a.j("start.wait");
}

fn suspend(a: &mut Assembler) {
    a.label("harts.suspend");
    // The type has 32 bits.
    a.slli(T0, A0, 32);
    a.srli(T0, T0, 32);
    a.bne(T0, A0, "end.invalid");
    a.beqz(A0, "harts.sleep");
    a.li(T0, u64::from(NON_RETENTIVE));
    a.beq(A0, T0, "harts.deep_sleep");
    a.xori(T1, T0, -1);
    a.and(T1, A0, T1);
    a.li(T2, PLATFORM_TYPES);
    a.bltu(T1, T2, "end.invalid");
    a.j("end.not_supported");
    a.label("harts.sleep");
    a.call("harts.wait");
    a.j("end.good");
    a.label("harts.deep_sleep");
    a.call("harts.check");
    a.call("harts.wait");
    a.csrw(csr::MSCRATCH, SP);
    a.csrw(csr::MEPC, A1);
    a.mv(A1, A2);
    a.j("start.resume");
    // Events of other harts also end the wait; they are served after the return.
    a.label("harts.wait");
    a.li(T0, state::SUSPENDED);
    a.sd(T0, SP, area::STATE);
    a.wfi();
    a.sd(ZERO, SP, area::STATE);
    a.ret();
}

// The code relies on STARTED being zero.
const _: () = assert!(state::STARTED == 0);
