//! From reset to the supervisor: the set-up of every hart, the additional set-up by the boot hart, and the
//! wait loop of the others.
//!
//! `fw_dynamic_info` names the boot hart, because a boot lottery would depend on timing. Without that
//! structure it is hart 0, and the supervisor is 2 MiB above the firmware.

use super::assembler::{Assembler, csr, *};
use super::layout::{self, HARTS_MAX, area, event, shared, state};
use super::messages;
use crate::firmware::{FW_DYNAMIC_MAGIC, FW_DYNAMIC_VERSION};
use crate::map::{self, InterruptsKind, RegionId};

/// Offsets in `fw_dynamic_info`.
const INFO_VERSION: i32 = 8;
const INFO_NEXT_ADDRESS: i32 = 16;
const INFO_BOOT_HART: i32 = 40;
const DEFAULT_NEXT_ADDRESS: u64 = layout::BASE + (2 << 20);

/// Machine software interrupt, in `mie` and `mip`.
pub(super) const MSIP: i32 = 1 << 3;
const MPP_SUPERVISOR: u64 = 1 << 11;
/// Enables the floating-point unit, as OpenSBI does.
const FS_DIRTY: u64 = 3 << 13;
/// Delegates SSI, STI and SEI.
const MIDELEG: u64 = 0x222;
/// Delegates all exceptions but the supervisor's calls (9): see the head of [`super`].
const MEDELEG: u64 = 0xb1ff;
/// PBMTE, CBZE, CBCFE and CBIE: a hart ignores bits of extensions that it lacks.
const MENVCFG: u64 = 1 << 62 | 0xf << 4;
/// Sstc.
const STCE: u64 = 1 << 63;

const PMP_NAPOT: u64 = 3 << 3;
const PMP_ALL: u64 = 7;

/// Encodes a naturally aligned range for `pmpaddr`.
const fn napot(base: u64, bytes: u64) -> u64 {
    (base | (bytes / 2 - 1)) >> 2
}

pub(super) fn assemble(a: &mut Assembler, interrupts: InterruptsKind) {
    entry(a);
    every_hart(a, interrupts);
    boot_hart(a, interrupts);
    wait(a);
    enter(a);
    a.label("banner");
    a.data(b"\nDoorbell built-in SBI firmware\n\0");
}

/// Determines the hart and what to boot: s0 = the device tree, s1 = the supervisor's address.
fn entry(a: &mut Assembler) {
    a.csrw(csr::MIE, ZERO);
    a.mv(S0, A1);
    a.csrr(A0, csr::MHARTID);
    a.li(T0, u64::from(HARTS_MAX));
    a.bgeu(A0, T0, "park");
    a.slli(T0, A0, layout::AREA_SHIFT);
    a.address(SP, layout::AREAS);
    a.add(SP, SP, T0);
    a.csrw(csr::MSCRATCH, SP);
    a.call("start.every_hart");
    a.li(S1, DEFAULT_NEXT_ADDRESS);
    a.li(T2, 0);
    a.beqz(A2, "start.chosen");
    a.ld(T0, A2, 0);
    a.li(T1, FW_DYNAMIC_MAGIC);
    a.bne(T0, T1, "start.chosen");
    a.ld(S1, A2, INFO_NEXT_ADDRESS);
    a.ld(T0, A2, INFO_VERSION);
    a.li(T1, FW_DYNAMIC_VERSION);
    a.bltu(T0, T1, "start.chosen");
    a.ld(T2, A2, INFO_BOOT_HART);
    a.label("start.chosen");
    // A number without a hart selects hart 0.
    a.li(T0, u64::from(HARTS_MAX));
    a.bltu(T2, T0, "start.compare");
    a.li(T2, 0);
    a.label("start.compare");
    a.bne(A0, T2, "start.wait");
    a.j("start.boot_hart");
    a.label("park");
    a.wfi();
    a.j("park");
}

/// Sets up memory protection, delegation and counters.
fn every_hart(a: &mut Assembler, interrupts: InterruptsKind) {
    a.label("start.every_hart");
    let clint = map::get(RegionId::Clint);
    let mut closed = vec![(layout::BASE, layout::BYTES), (clint.base, clint.size)];
    if interrupts == InterruptsKind::Aia {
        closed.extend(messages::CLOSED.map(map::get).map(|region| (region.base, region.size)));
    }
    let mut rules = 0;
    for (entry, (base, bytes)) in closed.iter().enumerate() {
        a.li(T0, napot(*base, *bytes));
        a.csrw(csr::PMPADDR0 + entry as u32, T0);
        rules |= PMP_NAPOT << (8 * entry);
    }
    a.li(T0, u64::MAX);
    a.csrw(csr::PMPADDR0 + closed.len() as u32, T0);
    a.li(T0, rules | (PMP_NAPOT | PMP_ALL) << (8 * closed.len()));
    a.csrw(csr::PMPCFG0, T0);
    a.li(T0, MIDELEG);
    a.csrw(csr::MIDELEG, T0);
    a.li(T0, MEDELEG);
    a.csrw(csr::MEDELEG, T0);
    // Probes for the comparator: parsing the device tree's strings would be harder, and some machines let
    // STCE be set without a comparator.
    a.li(T1, 0);
    a.la(T0, "start.no_sstc");
    a.csrw(csr::MTVEC, T0);
    a.csrr(T0, csr::STIMECMP);
    a.li(T1, STCE);
    a.label("start.no_sstc");
    a.sd(T1, SP, area::COMPARATOR);
    a.li(T0, MENVCFG);
    a.or(T0, T0, T1);
    a.csrw(csr::MENVCFG, T0);
    a.la(T0, "trap");
    a.csrw(csr::MTVEC, T0);
    a.li(T0, u64::from(u32::MAX));
    a.csrw(csr::MCOUNTEREN, T0);
    a.csrw(csr::MCOUNTINHIBIT, ZERO);
    a.ret();
}

fn boot_hart(a: &mut Assembler, interrupts: InterruptsKind) {
    a.label("start.boot_hart");
    if interrupts == InterruptsKind::Aia {
        messages::set_up(a);
    }
    a.call("console.init");
    a.la(T0, "banner");
    a.call("console.print");
    a.call("tree.read");
    a.call("tree.reserve");
    a.csrr(T0, csr::MHARTID);
    a.li(T1, 1);
    a.sll(T1, T1, T0);
    a.address(T2, layout::SHARED);
    a.addi(T3, T2, shared::PRESENT);
    a.amoor(ZERO, T1, T3);
    a.addi(T3, T2, shared::RUNNING);
    a.amoor(ZERO, T1, T3);
    a.li(T0, state::STARTED);
    a.sd(T0, SP, area::STATE);
    a.mv(T0, S1);
    a.mv(A1, S0);
    a.j("start.enter");
}

/// A stopped hart: sleeps until another one starts it, and performs remote fences in the meantime.
fn wait(a: &mut Assembler) {
    a.label("start.wait");
    a.li(T0, MSIP as u64);
    a.csrw(csr::MIE, T0);
    a.label("start.sleep");
    a.wfi();
    a.csrr(T0, csr::MIP);
    a.andi(T0, T0, MSIP);
    a.beqz(T0, "start.sleep");
    a.call("events.take");
    a.andi(T0, T0, event::START);
    a.beqz(T0, "start.sleep");
    a.csrr(T0, csr::MHARTID);
    a.li(T1, 1);
    a.sll(T1, T1, T0);
    a.address(T2, layout::SHARED + shared::RUNNING as u64);
    a.amoor(ZERO, T1, T2);
    a.li(T0, state::STARTED);
    a.sd(T0, SP, area::STATE);
    a.ld(T0, SP, area::START_ADDRESS);
    a.ld(A1, SP, area::START_ARGUMENT);
    a.j("start.enter");
}

/// Enters the supervisor at t0 with the hart's number in a0 and a1 unchanged (SBI 2.0, "HSM", hart start).
fn enter(a: &mut Assembler) {
    a.label("start.enter");
    a.csrw(csr::MEPC, T0);
    a.li(T0, MSIP as u64);
    a.csrw(csr::MIE, T0);
    a.csrw(csr::MIP, ZERO);
    // Disables the supervisor timer until the supervisor sets it.
    a.ld(T0, SP, area::COMPARATOR);
    a.li(T1, u64::MAX);
    a.beqz(T0, "start.no_comparator");
    a.csrw(csr::STIMECMP, T1);
    a.label("start.no_comparator");
    // Also the entry for a hart that resumes from suspension, whose interrupts must stay; its address is in
    // mepc.
    a.label("start.resume");
    a.li(T0, MPP_SUPERVISOR | FS_DIRTY);
    a.csrw(csr::MSTATUS, T0);
    a.csrw(csr::SATP, ZERO);
    a.sfence_vma(ZERO, ZERO);
    a.fence_i();
    a.csrw(csr::STVEC, ZERO);
    a.csrw(csr::SSCRATCH, ZERO);
    a.li(T0, 7);
    a.csrw(csr::SCOUNTEREN, T0);
    a.csrr(A0, csr::MHARTID);
    a.mret();
}
