//! Table of SBI calls: every function, with arguments that a hostile supervisor might choose. The numbers are
//! from the SBI specification 2.0, repeated here independently of the firmware.

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
/// End of RAM in these tests.
const RAM_END: u64 = 0x9000_0000;

/// Expected result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// OpenSBI's result.
    Same,
    /// This error and value: the result is implementation-defined, or ours is stricter than OpenSBI.
    Ours(u64, u64),
    /// This error and value. OpenSBI is not called: its access would fault in machine mode.
    OursOnly(u64, u64),
}
use Expect::{Ours, OursOnly, Same};

#[derive(Clone, Debug)]
pub struct Row {
    pub call: Call,
    pub expect: Expect,
}

/// A call of `extension`'s `function` with up to six arguments.
fn row(expect: Expect, extension: u64, function: u64, arguments: &[u64]) -> Row {
    let mut call = [extension, function, 0, 0, 0, 0, 0, 0];
    call[2..2 + arguments.len()].copy_from_slice(arguments);
    Row { call, expect }
}

fn same(extension: u64, function: u64, arguments: &[u64]) -> Row {
    row(Same, extension, function, arguments)
}

const NOT_SUPPORTED: u64 = -2i64 as u64;
const INVALID: u64 = -3i64 as u64;

fn base() -> Vec<Row> {
    let mut rows = vec![
        // The comparator's reset value is undefined, so set it first.
        same(TIME, 0, &[ALL]),
        same(BASE, 0, &[]),
        row(Ours(0, 0x444f_4f52), BASE, 1, &[]),
        row(Ours(0, 1), BASE, 2, &[]),
        same(BASE, 4, &[]),
        same(BASE, 5, &[]),
        same(BASE, 6, &[]),
        same(BASE, 7, &[]),
        same(BASE, ALL, &[]),
    ];
    for extension in
        [BASE, TIME, IPI, RFENCE, HSM, SRST, DBCN, 0, 1, 2, 3, 8, 9, 0x0a00_0000, 0x1234_5678, ALL]
    {
        rows.push(same(BASE, 3, &[extension]));
    }
    for absent in [4, 5, 6, 7, 0x50_4d55] {
        rows.push(row(Ours(0, 0), BASE, 3, &[absent]));
    }
    for extension in [9, 0xf, 0x11, 0x1234_5678, 0xffff_ffff, ALL] {
        rows.push(same(extension, 0, &[1, 2, 3, 4, 5, 6]));
    }
    rows
}

fn timer() -> Vec<Row> {
    vec![
        same(TIME, 0, &[0]),
        same(TIME, 0, &[ALL]),
        same(TIME, 1, &[0]),
        // The timer is pending, so that suspend returns at once.
        same(TIME, 0, &[0]),
        same(HSM, 3, &[0]),
        same(HSM, 3, &[0x8000_0000, guest::RESUMED, 0x7e57]),
        same(TIME, 0, &[ALL]),
        same(0, 0, &[0]),
        same(0, 0, &[ALL]),
    ]
}

fn interrupts(harts: u64) -> Vec<Row> {
    vec![
        same(IPI, 0, &[1, 0]),
        same(IPI, 0, &[0, ALL]),
        same(IPI, 0, &[0, 0]),
        // OpenSBI ignores harts that do not exist; the specification requires an error.
        row(Ours(INVALID, 0), IPI, 0, &[1 << harts, 0]),
        row(Ours(INVALID, 0), IPI, 0, &[1, harts]),
        row(Ours(INVALID, 0), IPI, 0, &[1 | 1 << harts, 0]),
        row(Ours(INVALID, 0), IPI, 0, &[1 << 63, 0]),
        row(Ours(INVALID, 0), IPI, 0, &[1, 1000]),
        row(Ours(INVALID, 0), IPI, 0, &[1, ALL - 1]),
        row(Ours(INVALID, 0), IPI, 0, &[4, ALL - 1]),
        row(Ours(INVALID, 0), IPI, 0, &[ALL, 63]),
        same(IPI, 1, &[1, 0]),
        same(3, 0, &[]),
    ]
}

fn fences(harts: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    for kind in 0..3 {
        for (start, size) in
            [(0, 0), (0, ALL), (0x1000, 0x2000), (0x1234, 1), (0xffff_ffff_ffff_f000, 0x2000), (0, 1 << 40)]
        {
            rows.push(same(RFENCE, kind, &[1, 0, start, size, 7]));
        }
        rows.push(same(RFENCE, kind, &[0, ALL, 0, 0, ALL]));
        rows.push(row(Ours(INVALID, 0), RFENCE, kind, &[1 << harts, 0, 0, 0, 0]));
        rows.push(same(RFENCE, kind, &[0, 0, 0x1000, 0x1000, 0]));
    }
    for kind in [3, 6, 7, ALL] {
        rows.push(same(RFENCE, kind, &[1, 0, 0, 0, 0]));
    }
    rows
}

fn harts(harts: u64) -> Vec<Row> {
    let mut rows = vec![
        same(HSM, 2, &[0]),
        same(HSM, 2, &[harts]),
        same(HSM, 2, &[ALL]),
        same(HSM, 2, &[64]),
        same(HSM, 0, &[0, guest::SECONDARY, 0]),
        same(HSM, 0, &[harts, guest::SECONDARY, 0]),
        same(HSM, 0, &[0, FIRMWARE, 0]),
        same(HSM, 0, &[0, CLINT, 0]),
        same(HSM, 0, &[ALL, FIRMWARE, 0]),
        same(HSM, 4, &[0]),
        same(HSM, ALL, &[0]),
    ];
    for kind in [1, 0x0fff_ffff, 0x1000_0000, 0x7fff_ffff, 0x8000_0001, 0x8fff_ffff, 0x9000_0000, 0xffff_ffff]
    {
        rows.push(same(HSM, 3, &[kind, guest::RESUMED, 0]));
    }
    rows.push(same(HSM, 3, &[0x8000_0000, FIRMWARE, 0]));
    rows
}

fn reset() -> Vec<Row> {
    let wrong = [(3, 0), (0xf000_0000, 0), (0xffff_ffff, 0), (0, 2), (1, 0xe000_0000), (0, 0xffff_ffff)];
    let mut rows: Vec<Row> = wrong.iter().map(|(kind, reason)| same(SRST, 0, &[*kind, *reason])).collect();
    rows.push(same(SRST, 1, &[0, 0]));
    rows
}

fn console() -> Vec<Row> {
    let text = guest::TEXT.len() as u64;
    vec![
        same(DBCN, 0, &[text, guest::STRING, 0]),
        same(DBCN, 0, &[0, guest::STRING, 0]),
        same(DBCN, 0, &[text, guest::STRING, 1]),
        same(DBCN, 0, &[16, FIRMWARE, 0]),
        same(DBCN, 0, &[16, FIRMWARE + 0xfff8, 0]),
        same(DBCN, 0, &[1, CLINT, 0]),
        same(DBCN, 0, &[1, UART, 0]),
        same(DBCN, 2, &[u64::from(b'!')]),
        same(DBCN, 1, &[16, guest::BUFFER, 0]),
        same(DBCN, 1, &[0, guest::BUFFER, 0]),
        same(DBCN, 1, &[16, FIRMWARE, 0]),
        same(DBCN, 1, &[16, guest::BUFFER, 1]),
        same(DBCN, 3, &[]),
        same(DBCN, ALL, &[]),
        row(OursOnly(INVALID, 0), DBCN, 0, &[16, RAM_END - 8, 0]),
        row(OursOnly(INVALID, 0), DBCN, 0, &[1, RAM_END, 0]),
        row(OursOnly(INVALID, 0), DBCN, 1, &[16, RAM_END - 8, 0]),
        row(OursOnly(INVALID, 0), DBCN, 0, &[ALL, guest::STRING, 0]),
        row(OursOnly(INVALID, 0), DBCN, 0, &[1 << 63, guest::STRING, 0]),
        row(OursOnly(INVALID, 0), DBCN, 0, &[1, 0, 0]),
        row(OursOnly(INVALID, 0), DBCN, 1, &[1, ALL, 0]),
        row(OursOnly(NOT_SUPPORTED, 0), 4, 0, &[0]),
        same(1, 0, &[u64::from(b'?')]),
        same(2, 0, &[]),
    ]
}

/// Accesses to memory that PMP protects from supervisors.
fn memory() -> Vec<Row> {
    vec![
        same(PEEK, 0, &[FIRMWARE]),
        same(PEEK, 0, &[FIRMWARE + 0xfff8]),
        same(POKE, 0, &[FIRMWARE + 0x4000, 1]),
        same(PEEK, 0, &[CLINT]),
        same(POKE, 0, &[CLINT, 1]),
        same(PEEK, 0, &[CLINT + 0xbff8]),
        row(Ours(0, 0), PEEK, 0, &[FIRMWARE + 0x10_0000]),
        same(PEEK, 0, &[guest::BUFFER]),
    ]
}

/// Start, interrupts, suspend and stop of the second hart, as observed by the first.
fn second_hart() -> Vec<Row> {
    let mailbox = guest::MAILBOX + 64;
    let read = |offset: u64| same(PEEK, 0, &[mailbox + offset]);
    let pause = || same(WAIT, 0, &[]);
    let mut rows = vec![
        same(HSM, 2, &[1]),
        // Not running: nothing to interrupt or fence.
        same(IPI, 0, &[2, 0]),
        same(RFENCE, 1, &[2, 0, 0, 0]),
        same(HSM, 0, &[1, FIRMWARE, 0]),
        row(OursOnly(-5i64 as u64, 0), HSM, 0, &[1, ALL, 0]),
        same(HSM, 2, &[1]),
    ];
    for round in 1..3 {
        rows.extend([
            same(HSM, 0, &[1, guest::SECONDARY, 0xca11 + round]),
            pause(),
            same(HSM, 2, &[1]),
            read(guest::STARTS),
            read(guest::HART),
            read(guest::ARGUMENT),
            read(guest::SATP_AND_SSTATUS),
            same(HSM, 0, &[1, guest::SECONDARY, 0]),
            same(IPI, 0, &[1, 1]),
            pause(),
            read(guest::INTERRUPTS),
            same(IPI, 0, &[0, ALL]),
            pause(),
            read(guest::INTERRUPTS),
        ]);
        for kind in 0..3 {
            rows.push(same(RFENCE, kind, &[2, 0, 0x1000, 0x3000, 1]));
            rows.push(same(RFENCE, kind, &[3, 0, 0, 0, 1]));
            rows.push(same(RFENCE, kind, &[0, ALL, 0, ALL, 1]));
        }
        rows.extend([
            same(POKE, 0, &[mailbox + guest::COMMAND, guest::SUSPEND]),
            same(IPI, 0, &[2, 0]),
            pause(),
            same(HSM, 2, &[1]),
            same(IPI, 0, &[2, 0]),
            pause(),
            same(HSM, 2, &[1]),
            read(guest::STARTS),
            read(guest::ARGUMENT),
            same(POKE, 0, &[mailbox + guest::COMMAND, guest::STOP]),
            same(IPI, 0, &[2, 0]),
            pause(),
            same(HSM, 2, &[1]),
        ]);
    }
    rows
}

/// All rows for a machine with `hart_count` harts, booted on hart 0. The last row powers off.
pub fn rows(hart_count: u64) -> Vec<Row> {
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
    rows.push(same(SRST, 0, &[0, 0]));
    rows
}
