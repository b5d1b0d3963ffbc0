//! Table of SBI calls: every function, with arguments that a hostile supervisor might choose. Numbers are from
//! the SBI specification 2.0.

use super::guest::{self, Call, PEEK, POKE, WAIT};

pub const BASE: u64 = 0x10;
pub const TIME: u64 = 0x5449_4d45;
pub const IPI: u64 = 0x73_5049;
pub const RFENCE: u64 = 0x5246_4e43;
pub const HSM: u64 = 0x48_534d;
pub const SRST: u64 = 0x5352_5354;
pub const DBCN: u64 = 0x4442_434e;

const ALL: u64 = u64::MAX;
const FIRMWARE: u64 = 0x8000_0000;
const CLINT: u64 = 0x200_0000;
const UART: u64 = 0x1000_0000;

/// A call of `extension`'s `function` with up to six arguments.
fn call(extension: u64, function: u64, arguments: &[u64]) -> Call {
    let mut call = [extension, function, 0, 0, 0, 0, 0, 0];
    call[2..2 + arguments.len()].copy_from_slice(arguments);
    call
}

fn base() -> Vec<Call> {
    let mut rows = vec![
        // The comparator's reset value is undefined, so set it first.
        call(TIME, 0, &[ALL]),
        call(BASE, 0, &[]),
        call(BASE, 1, &[]),
        call(BASE, 2, &[]),
        call(BASE, 4, &[]),
        call(BASE, 5, &[]),
        call(BASE, 6, &[]),
        call(BASE, 7, &[]),
        call(BASE, ALL, &[]),
    ];
    for extension in
        [BASE, TIME, IPI, RFENCE, HSM, SRST, DBCN, 0, 1, 2, 3, 8, 9, 0x0a00_0000, 0x1234_5678, ALL]
    {
        rows.push(call(BASE, 3, &[extension]));
    }
    for absent in [4, 5, 6, 7, 0x50_4d55] {
        rows.push(call(BASE, 3, &[absent]));
    }
    for extension in [9, 0xf, 0x11, 0x1234_5678, 0xffff_ffff, ALL] {
        rows.push(call(extension, 0, &[1, 2, 3, 4, 5, 6]));
    }
    rows
}

fn timer() -> Vec<Call> {
    vec![
        call(TIME, 0, &[0]),
        call(TIME, 0, &[ALL]),
        call(TIME, 1, &[0]),
        // The timer is pending, so that suspend returns at once.
        call(TIME, 0, &[0]),
        call(HSM, 3, &[0]),
        call(HSM, 3, &[0x8000_0000, guest::RESUMED, 0x7e57]),
        call(TIME, 0, &[ALL]),
        call(0, 0, &[0]),
        call(0, 0, &[ALL]),
    ]
}

fn interrupts(harts: u64) -> Vec<Call> {
    vec![
        call(IPI, 0, &[1, 0]),
        call(IPI, 0, &[0, ALL]),
        call(IPI, 0, &[0, 0]),
        // Harts that do not exist.
        call(IPI, 0, &[1 << harts, 0]),
        call(IPI, 0, &[1, harts]),
        call(IPI, 0, &[1 | 1 << harts, 0]),
        call(IPI, 0, &[1 << 63, 0]),
        call(IPI, 0, &[1, 1000]),
        call(IPI, 0, &[1, ALL - 1]),
        call(IPI, 0, &[4, ALL - 1]),
        call(IPI, 0, &[ALL, 63]),
        call(IPI, 1, &[1, 0]),
        call(3, 0, &[]),
    ]
}

fn fences(harts: u64) -> Vec<Call> {
    let mut rows = Vec::new();
    for kind in 0..3 {
        for (start, size) in
            [(0, 0), (0, ALL), (0x1000, 0x2000), (0x1234, 1), (0xffff_ffff_ffff_f000, 0x2000), (0, 1 << 40)]
        {
            rows.push(call(RFENCE, kind, &[1, 0, start, size, 7]));
        }
        rows.push(call(RFENCE, kind, &[0, ALL, 0, 0, ALL]));
        rows.push(call(RFENCE, kind, &[1 << harts, 0, 0, 0, 0]));
        rows.push(call(RFENCE, kind, &[0, 0, 0x1000, 0x1000, 0]));
    }
    for kind in [3, 6, 7, ALL] {
        rows.push(call(RFENCE, kind, &[1, 0, 0, 0, 0]));
    }
    rows
}

fn harts(harts: u64) -> Vec<Call> {
    let mut rows = vec![
        call(HSM, 2, &[0]),
        call(HSM, 2, &[harts]),
        call(HSM, 2, &[ALL]),
        call(HSM, 2, &[64]),
        call(HSM, 0, &[0, guest::SECONDARY, 0]),
        call(HSM, 0, &[harts, guest::SECONDARY, 0]),
        call(HSM, 0, &[0, FIRMWARE, 0]),
        call(HSM, 0, &[0, CLINT, 0]),
        call(HSM, 0, &[ALL, FIRMWARE, 0]),
        call(HSM, 4, &[0]),
        call(HSM, ALL, &[0]),
    ];
    for kind in [1, 0x0fff_ffff, 0x1000_0000, 0x7fff_ffff, 0x8000_0001, 0x8fff_ffff, 0x9000_0000, 0xffff_ffff]
    {
        rows.push(call(HSM, 3, &[kind, guest::RESUMED, 0]));
    }
    rows.push(call(HSM, 3, &[0x8000_0000, FIRMWARE, 0]));
    rows
}

fn reset() -> Vec<Call> {
    let wrong = [(3, 0), (0xf000_0000, 0), (0xffff_ffff, 0), (0, 2), (1, 0xe000_0000), (0, 0xffff_ffff)];
    let mut rows: Vec<Call> = wrong.iter().map(|(kind, reason)| call(SRST, 0, &[*kind, *reason])).collect();
    rows.push(call(SRST, 1, &[0, 0]));
    rows
}

fn console() -> Vec<Call> {
    let text = guest::TEXT.len() as u64;
    vec![
        call(DBCN, 0, &[text, guest::STRING, 0]),
        call(DBCN, 0, &[0, guest::STRING, 0]),
        call(DBCN, 0, &[text, guest::STRING, 1]),
        call(DBCN, 0, &[16, FIRMWARE, 0]),
        call(DBCN, 0, &[16, FIRMWARE + 0xfff8, 0]),
        call(DBCN, 0, &[1, CLINT, 0]),
        call(DBCN, 0, &[1, UART, 0]),
        call(DBCN, 2, &[u64::from(b'!')]),
        call(DBCN, 1, &[16, guest::BUFFER, 0]),
        call(DBCN, 1, &[0, guest::BUFFER, 0]),
        call(DBCN, 1, &[16, FIRMWARE, 0]),
        call(DBCN, 1, &[16, guest::BUFFER, 1]),
        call(DBCN, 3, &[]),
        call(DBCN, ALL, &[]),
        call(1, 0, &[u64::from(b'?')]),
        call(2, 0, &[]),
    ]
}

/// Accesses to memory that PMP protects from supervisors.
fn memory() -> Vec<Call> {
    vec![
        call(PEEK, 0, &[FIRMWARE]),
        call(PEEK, 0, &[FIRMWARE + 0xfff8]),
        call(POKE, 0, &[FIRMWARE + 0x4000, 1]),
        call(PEEK, 0, &[CLINT]),
        call(POKE, 0, &[CLINT, 1]),
        call(PEEK, 0, &[CLINT + 0xbff8]),
        call(PEEK, 0, &[FIRMWARE + 0x10_0000]),
        call(PEEK, 0, &[guest::BUFFER]),
    ]
}

/// Start, interrupts, suspend and stop of the second hart, as observed by the first.
fn second_hart() -> Vec<Call> {
    let mailbox = guest::MAILBOX + 64;
    let read = |offset: u64| call(PEEK, 0, &[mailbox + offset]);
    let pause = || call(WAIT, 0, &[]);
    let mut rows = vec![
        call(HSM, 2, &[1]),
        // Not running: nothing to interrupt or fence.
        call(IPI, 0, &[2, 0]),
        call(RFENCE, 1, &[2, 0, 0, 0]),
        call(HSM, 0, &[1, FIRMWARE, 0]),
        call(HSM, 2, &[1]),
    ];
    for round in 1..3 {
        rows.extend([
            call(HSM, 0, &[1, guest::SECONDARY, 0xca11 + round]),
            pause(),
            call(HSM, 2, &[1]),
            read(guest::STARTS),
            read(guest::HART),
            read(guest::ARGUMENT),
            read(guest::SATP_AND_SSTATUS),
            call(HSM, 0, &[1, guest::SECONDARY, 0]),
            call(IPI, 0, &[1, 1]),
            pause(),
            read(guest::INTERRUPTS),
            call(IPI, 0, &[0, ALL]),
            pause(),
            read(guest::INTERRUPTS),
        ]);
        for kind in 0..3 {
            rows.push(call(RFENCE, kind, &[2, 0, 0x1000, 0x3000, 1]));
            rows.push(call(RFENCE, kind, &[3, 0, 0, 0, 1]));
            rows.push(call(RFENCE, kind, &[0, ALL, 0, ALL, 1]));
        }
        rows.extend([
            call(POKE, 0, &[mailbox + guest::COMMAND, guest::SUSPEND]),
            call(IPI, 0, &[2, 0]),
            pause(),
            call(HSM, 2, &[1]),
            call(IPI, 0, &[2, 0]),
            pause(),
            call(HSM, 2, &[1]),
            read(guest::STARTS),
            read(guest::ARGUMENT),
            call(POKE, 0, &[mailbox + guest::COMMAND, guest::STOP]),
            call(IPI, 0, &[2, 0]),
            pause(),
            call(HSM, 2, &[1]),
        ]);
    }
    rows
}

/// Whether a call reads the vendor, architecture or implementation of the CPU (`sbi_get_mvendorid` and so on).
pub fn names_the_cpu(call: &Call) -> bool {
    call[0] == BASE && (4..=6).contains(&call[1])
}

/// All calls for a machine with `hart_count` harts, booted on hart 0. The last one powers off.
pub fn rows(hart_count: u64) -> Vec<Call> {
    let mut rows = base();
    rows.extend(timer());
    rows.extend(interrupts(hart_count));
    rows.extend(fences(hart_count));
    rows.extend(harts(hart_count));
    rows.extend(reset());
    rows.extend(console());
    rows.extend(memory());
    if hart_count > 1 {
        rows.extend(second_hart());
    }
    rows.push(call(SRST, 0, &[0, 0]));
    rows
}
