//! Page tables for programs assembled by tests: a 1-GiB page that maps RAM to the same addresses, and a
//! window of 4-KiB pages.

use doorbell_assembler::*;

/// Start of RAM.
pub const BASE: u64 = 0x8000_0000;
/// Virtual address of the window.
pub const WINDOW: u64 = 0xc000_0000;

/// Gives supervisor mode access to all of memory (PMP).
pub fn open_memory(a: &mut Assembler) {
    a.li(T0, u64::MAX >> 10);
    a.csrw(csr::PMPADDR0, T0);
    a.li(T0, 0x1f);
    a.csrw(csr::PMPCFG0, T0);
}

/// Links Sv39 tables: the root at S0, and the window's two lower levels in the two pages after it. Leaves the
/// address of the last level in S2 and a page-table entry for `frame` in T0.
pub fn tables(a: &mut Assembler, frame: u64) {
    a.li(T1, 0x1000);
    a.add(S1, S0, T1);
    a.add(S2, S1, T1);
    a.li(T0, (BASE >> 12) << 10 | 0xcf);
    a.sd(T0, S0, 16);
    for (table, next, at) in [(S0, S1, 24), (S1, S2, 0)] {
        a.srli(T0, next, 2);
        a.addi(T0, T0, 1);
        a.sd(T0, table, at);
    }
    a.li(T0, (frame >> 12) << 10 | 0xcf);
}

/// Jumps to a label in supervisor mode, with the page tables at S0. Leaves the value of `satp` in S3.
pub fn enter(a: &mut Assembler, label: &'static str) {
    a.srli(S3, S0, 12);
    a.li(T0, 8 << 60);
    a.add(S3, S3, T0);
    a.csrw(csr::SATP, S3);
    a.li(T0, 1 << 11);
    a.csrs(csr::MSTATUS, T0);
    a.la(T0, label);
    a.csrw(csr::MEPC, T0);
    a.mret();
}
