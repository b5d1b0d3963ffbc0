//! Operations on other harts: supervisor software interrupts and remote fences (SBI 2.0, chapters 7 and 8).
//!
//! A hart is notified by an event in its area and woken by the CLINT. The shared variables, protected by a
//! lock, describe a single fence, and its sender waits until all targets have performed it. A hart that waits
//! for the lock serves its own events meanwhile; the lock's holder need not, since no other hart can send a
//! fence. Stopped harts have nothing to fence and are skipped.

use super::assembler::{Assembler, csr, *};
use super::layout::{self, HARTS_MAX, area, event, shared};
use crate::map::{self, RegionId};

/// A fence of more pages than this becomes a full fence.
const PAGES_MAX: u64 = 64;
const PAGE_SHIFT: u32 = 12;
/// FENCE.I, SFENCE.VMA, SFENCE.VMA with ASID; the numbers above are hypervisor fences.
const FENCES: u64 = 3;
const SSIP: u32 = 1 << 1;

pub(super) fn assemble(a: &mut Assembler) {
    targets(a);
    send(a);
    interrupt(a);
    remote_fence(a);
    pages(a);
}

/// Ends the call unless a0 is a mask of existing harts, starting at hart a1 (all, if a1 is -1). Then t0 = the
/// running harts among them, t1 = this hart's bit.
fn targets(a: &mut Assembler) {
    a.label("targets");
    a.address(T2, layout::SHARED);
    a.ld(T3, T2, shared::RUNNING);
    a.csrr(T1, csr::MHARTID);
    a.li(T0, 1);
    a.sll(T1, T0, T1);
    a.li(T0, u64::MAX);
    a.beq(A1, T0, "targets.valid");
    a.li(T0, 0);
    a.beqz(A0, "targets.valid");
    a.li(T0, u64::from(HARTS_MAX));
    a.bgeu(A1, T0, "end.invalid");
    a.sll(T0, A0, A1);
    a.srl(T4, T0, A1);
    a.bne(T4, A0, "end.invalid");
    a.ld(T4, T2, shared::PRESENT);
    a.or(T4, T4, T0);
    a.ld(T5, T2, shared::PRESENT);
    a.bne(T4, T5, "end.invalid");
    a.label("targets.valid");
    a.and(T0, T0, T3);
    a.ret();
}

/// Sends the events in a5 to the harts in t0. Changes t0 and t2 to t5.
fn send(a: &mut Assembler) {
    a.label("send");
    a.address(T2, layout::AREAS + area::EVENTS as u64);
    a.li(T3, map::get(RegionId::Clint).base);
    a.li(T5, 1);
    a.label("send.hart");
    a.beqz(T0, "send.done");
    a.andi(T4, T0, 1);
    a.beqz(T4, "send.next");
    a.amoor(ZERO, A5, T2);
    a.fence();
    a.sw(T5, T3, 0);
    a.label("send.next");
    a.srli(T0, T0, 1);
    a.addi(T2, T2, 1 << layout::AREA_SHIFT);
    a.addi(T3, T3, 4);
    a.j("send.hart");
    a.label("send.done");
    a.ret();
}

fn interrupt(a: &mut Assembler) {
    a.label("interrupt");
    a.bnez(A6, "end.not_supported");
    a.call("targets");
    a.and(T4, T0, T1);
    a.beqz(T4, "interrupt.others");
    a.xor(T0, T0, T1);
    a.csrsi(csr::MIP, SSIP);
    a.label("interrupt.others");
    a.li(A5, event::INTERRUPT as u64);
    a.call("send");
    a.j("end.good");
}

fn remote_fence(a: &mut Assembler) {
    a.label("remote_fence");
    a.li(T0, FENCES);
    a.bgeu(A6, T0, "end.not_supported");
    a.call("targets");
    a.mv(A0, T0);
    a.mv(A1, T1);
    a.call("pages");
    a.label("fence.lock");
    a.address(T0, layout::SHARED + shared::FENCE_LOCK as u64);
    a.li(T1, 1);
    a.amoswap(T1, T1, T0);
    a.beqz(T1, "fence.locked");
    a.call("events.poll");
    a.j("fence.lock");
    a.label("fence.locked");
    a.address(T6, layout::SHARED);
    a.sd(A6, T6, shared::FENCE_KIND);
    a.sd(A2, T6, shared::FENCE_START);
    a.sd(A3, T6, shared::FENCE_END);
    a.sd(A4, T6, shared::FENCE_ASID);
    // Other harts: a0 without this hart. Their number must be stored before the first one acknowledges.
    a.and(A7, A0, A1);
    a.xor(A0, A0, A7);
    a.mv(T0, A0);
    a.li(T2, 0);
    a.label("fence.count");
    a.andi(T1, T0, 1);
    a.add(T2, T2, T1);
    a.srli(T0, T0, 1);
    a.bnez(T0, "fence.count");
    a.sd(T2, T6, shared::FENCE_WAITING);
    a.fence();
    a.mv(T0, A0);
    a.li(A5, event::FENCE as u64);
    a.call("send");
    a.beqz(A7, "fence.others");
    a.call("fence");
    a.label("fence.others");
    a.address(T6, layout::SHARED);
    a.label("fence.wait");
    a.ld(T0, T6, shared::FENCE_WAITING);
    a.bnez(T0, "fence.wait");
    a.fence();
    a.addi(T6, T6, shared::FENCE_LOCK);
    a.amoswap(ZERO, ZERO, T6);
    a.j("end.good");
}

/// Converts an address a2 and size a3 to the first page a2 and the end a3. Both are zero for a full fence:
/// size zero, the largest size, an end beyond the address space, or too many pages.
fn pages(a: &mut Assembler) {
    a.label("pages");
    a.beqz(A3, "pages.all");
    a.add(T0, A2, A3);
    a.bltu(T0, A2, "pages.all");
    a.li(T1, PAGES_MAX << PAGE_SHIFT);
    a.bltu(T1, A3, "pages.all");
    a.srli(A2, A2, PAGE_SHIFT);
    a.slli(A2, A2, PAGE_SHIFT);
    a.mv(A3, T0);
    a.ret();
    a.label("pages.all");
    a.li(A2, 0);
    a.li(A3, 0);
    a.ret();
}
