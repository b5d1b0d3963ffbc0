//! Dispatch of SBI calls, and the short extensions: base, TIME, SRST and the legacy ones (SBI 2.0, chapters
//! 4, 5, 6 and 10).
//!
//! A call has its arguments in a0 to a5, its function in a6 and its extension in a7. Handlers may change t0
//! to t6 and a0 to a7; the trap exit restores all but a0 (the error) and a1 (the value). Legacy calls leave
//! a1 unchanged.

use super::assembler::{Assembler, csr, *};
use super::layout::{area, error};
use super::start::MSIP;
use super::trap::MTIP;
use super::{IMPLEMENTATION_ID, IMPLEMENTATION_VERSION, SPECIFICATION_VERSION};
use crate::clint::MTIMECMP_OFFSET;
use crate::map::{self, RegionId};
use crate::syscon;

/// The extensions, most frequently called first.
const EXTENSIONS: [(u64, &str); 7] = [
    (0x5449_4d45, "time"),
    (0x0073_5049, "interrupt"),
    (0x5246_4e43, "remote_fence"),
    (0x0048_534d, "harts"),
    (0x4442_434e, "console"),
    (0x10, "base"),
    (0x5352_5354, "reset"),
];
/// Legacy extensions in order, without those that get their harts by a pointer.
const LEGACY: [Option<&str>; 9] = [
    Some("legacy.set_timer"),
    Some("legacy.put"),
    Some("legacy.get"),
    Some("legacy.clear"),
    None,
    None,
    None,
    None,
    Some("legacy.shutdown"),
];

const SSIP: u64 = 1 << 1;
const STIP: u64 = 1 << 5;

const RESET_SHUTDOWN: u64 = 0;
const RESET_WARM_REBOOT: u64 = 2;
const REASON_FAILURE: u64 = 1;

pub(super) fn assemble(a: &mut Assembler) {
    dispatch(a);
    exits(a);
    base(a);
    timer(a);
    legacy(a);
    reset(a);
}

fn dispatch(a: &mut Assembler) {
    a.label("call");
    for (id, label) in EXTENSIONS {
        a.li(T0, id);
        a.beq(A7, T0, label);
    }
    for (id, label) in LEGACY.into_iter().enumerate().filter_map(|(id, label)| Some((id, label?))) {
        a.li(T0, id as u64);
        a.beq(A7, T0, label);
    }
}

/// Exits of calls. Calls of unknown extensions fall through into the first one.
fn exits(a: &mut Assembler) {
    for (label, error) in [
        ("end.not_supported", error::NOT_SUPPORTED),
        ("end.invalid", error::INVALID_PARAM),
        ("end.failed", error::FAILED),
        ("end.bad_address", error::INVALID_ADDRESS),
        ("end.already", error::ALREADY_AVAILABLE),
        ("end.good", 0),
    ] {
        a.label(label);
        a.li(A0, error);
        a.li(A1, 0);
        a.j("trap.restore");
    }
    a.label("end.value");
    a.li(A0, 0);
    a.j("trap.restore");
}

fn base(a: &mut Assembler) {
    a.label("base");
    a.li(T0, 3);
    a.beq(A6, T0, "base.probe");
    for (function, value) in
        [SPECIFICATION_VERSION, IMPLEMENTATION_ID, IMPLEMENTATION_VERSION].iter().enumerate()
    {
        a.li(T0, function as u64);
        a.li(A1, *value);
        a.beq(A6, T0, "end.value");
    }
    for (function, number) in [csr::MVENDORID, csr::MARCHID, csr::MIMPID].into_iter().enumerate() {
        a.li(T0, 4 + function as u64);
        a.csrr(A1, number);
        a.beq(A6, T0, "end.value");
    }
    a.j("end.not_supported");
    a.label("base.probe");
    a.li(A1, 1);
    let legacy = LEGACY.iter().enumerate().filter(|(_, label)| label.is_some()).map(|(id, _)| id as u64);
    for id in EXTENSIONS.into_iter().map(|(id, _)| id).chain(legacy) {
        a.li(T0, id);
        a.beq(A0, T0, "end.value");
    }
    a.li(A1, 0);
    a.j("end.value");
}

/// Sets the timer: with Sstc the supervisor's own comparator, otherwise the CLINT's, whose interrupt is
/// forwarded.
fn timer(a: &mut Assembler) {
    a.label("time");
    a.bnez(A6, "end.not_supported");
    a.call("timer.set");
    a.j("end.good");
    a.label("timer.set");
    a.ld(T0, SP, area::COMPARATOR);
    a.beqz(T0, "timer.clint");
    a.csrw(csr::STIMECMP, A0);
    a.ret();
    a.label("timer.clint");
    a.csrr(T0, csr::MHARTID);
    a.slli(T0, T0, 3);
    a.li(T1, map::get(RegionId::Clint).base + MTIMECMP_OFFSET);
    a.add(T0, T0, T1);
    a.sd(A0, T0, 0);
    a.li(T0, STIP);
    a.csrc(csr::MIP, T0);
    a.li(T0, MTIP);
    a.csrs(csr::MIE, T0);
    a.ret();
    // A stopping hart clears its interrupts, so that none is pending when it starts again.
    a.label("timer.stop");
    a.li(T0, MSIP as u64);
    a.csrw(csr::MIE, T0);
    a.csrw(csr::MIP, ZERO);
    a.ret();
}

fn legacy(a: &mut Assembler) {
    a.label("legacy.set_timer");
    a.call("timer.set");
    a.j("legacy.good");
    a.label("legacy.put");
    a.call("console.lock");
    a.mv(T0, A0);
    a.call("console.put");
    a.call("console.unlock");
    a.j("legacy.good");
    a.label("legacy.get");
    a.call("console.get");
    a.mv(A0, T0);
    a.j("trap.restore");
    a.label("legacy.clear");
    a.li(T0, SSIP);
    a.csrc(csr::MIP, T0);
    a.label("legacy.good");
    a.li(A0, 0);
    a.j("trap.restore");
}

fn reset(a: &mut Assembler) {
    a.label("reset");
    a.bnez(A6, "end.not_supported");
    a.li(T0, RESET_WARM_REBOOT);
    a.bltu(T0, A0, "end.invalid");
    a.li(T0, REASON_FAILURE);
    a.bltu(T0, A1, "end.invalid");
    a.li(T0, RESET_SHUTDOWN);
    a.beq(A0, T0, "legacy.shutdown");
    a.li(T0, u64::from(syscon::RESET));
    a.j("power");
    a.label("legacy.shutdown");
    a.li(T0, u64::from(syscon::PASS));
    // Writes t0 to the power switch, and waits for it to act.
    a.label("power");
    a.li(T1, map::get(RegionId::Syscon).base);
    a.sw(T0, T1, 0);
    a.csrw(csr::MIE, ZERO);
    a.j("park");
}
