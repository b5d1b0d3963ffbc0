//! Sv39 and Sv48: walks, permissions, accessed and dirty bits, and accesses that cross pages.

use doorbell_riscv::Privilege;
use doorbell_sim::TranslationFence;

use crate::asm::{NOP, SFENCE_VMA, addi, i_type, ld, m5op, sd};
use crate::bench::{Bench, CODE, DATA, LEVELS, Outcome, PageTable, csrs::*, pte, status};
use Privilege::{Machine, Supervisor, User};

const FETCH_PAGE_FAULT: u64 = 12;
const LOAD_PAGE_FAULT: u64 = 13;
const STORE_PAGE_FAULT: u64 = 15;
const LOAD_ACCESS_FAULT: u64 = 5;
/// Address of the identity-mapped code, and of a test page.
const PAGE: u64 = 0x4_0000_0000;
const TARGET: u64 = DATA;

/// A bench whose supervisor executes at [`CODE`], mapped to itself.
fn paged(levels: u32) -> (Bench, PageTable) {
    let mut bench = Bench::new();
    let table = bench.page_table(levels);
    bench.map(table, CODE, CODE, 0, pte::ALL);
    (bench, table)
}

fn load(bench: &mut Bench, virt: u64) -> Outcome {
    bench.hart.set_reg(6, virt);
    bench.execute(Supervisor, ld(5, 6, 0))
}

fn store(bench: &mut Bench, virt: u64, value: u64) -> Outcome {
    bench.hart.set_reg(6, virt);
    bench.hart.set_reg(7, value);
    bench.execute(Supervisor, sd(7, 6, 0))
}

fn fetch(bench: &mut Bench, level: Privilege, virt: u64) -> Outcome {
    bench.go(level, virt);
    bench.step()
}

/// A virtual address that shares no page with the code, even at the largest page size.
fn high_page(levels: u32) -> u64 {
    if levels == 4 { 0x7f00_0000_0000 } else { 0x30_0000_0000 }
}

#[test]
fn pages_of_every_size_translate_in_both_modes() {
    for levels in [3, 4] {
        for level in 0..levels {
            let (mut bench, table) = paged(levels);
            let size = 1u64 << (12 + 9 * level);
            let virt = high_page(levels);
            // The large pages start at address 0 or 0x8000_0000, below or at RAM.
            let phys = 0x8000_0000 & !(size - 1);
            bench.map(table, virt, phys, level, pte::ALL);
            let at = DATA + 8;
            let offset = if size == 4096 { 8 } else { at - phys };
            let expected = if size == 4096 { phys + 8 } else { at };
            bench.write_u64(expected, 0x1122_3344_5566_7788 + u64::from(level));
            assert_eq!(load(&mut bench, virt + offset), Outcome::Retired, "level {level} of {levels}");
            assert_eq!(bench.hart.reg(5), 0x1122_3344_5566_7788 + u64::from(level));
        }
    }
}

#[test]
fn a_superpage_that_is_not_aligned_to_its_size_faults() {
    for levels in [3, 4] {
        for level in 1..levels {
            let (mut bench, table) = paged(levels);
            let virt = high_page(levels);
            bench.map(table, virt, 1 << (12 + 9 * level - 1), level, pte::ALL);
            assert_eq!(load(&mut bench, virt).trap(), Some((LOAD_PAGE_FAULT, virt)));
        }
    }
}

#[test]
fn addresses_that_are_not_sign_extended_fault() {
    for (levels, bits) in [(3, 39), (4, 48)] {
        let (mut bench, _) = paged(levels);
        for virt in [1u64 << (bits - 1), 1 << bits, u64::MAX << bits, 1 << 63, u64::MAX >> 1 & !7] {
            assert_eq!(load(&mut bench, virt).trap(), Some((LOAD_PAGE_FAULT, virt)));
            assert_eq!(store(&mut bench, virt, 0).trap(), Some((STORE_PAGE_FAULT, virt)));
            assert_eq!(fetch(&mut bench, Supervisor, virt).trap(), Some((FETCH_PAGE_FAULT, virt)));
        }
    }
}

/// The manual's rules, restated simply.
fn permitted(flags: u64, level: Privilege, access: char, sum: bool, mxr: bool) -> bool {
    let has = |flag| flags & flag != 0;
    if !has(pte::V) || (has(pte::W) && !has(pte::R)) || (!has(pte::R) && !has(pte::X)) {
        return false;
    }
    if has(pte::U) && level == Supervisor && (access == 'x' || !sum) {
        return false;
    }
    if !has(pte::U) && level == User {
        return false;
    }
    match access {
        'r' => has(pte::R) || (mxr && has(pte::X)),
        'w' => has(pte::W),
        _ => has(pte::X),
    }
}

#[test]
fn permissions_match_the_manual_for_every_combination() {
    for bits in 0..32u64 {
        for (sum, mxr) in [(false, false), (false, true), (true, false), (true, true)] {
            for level in [User, Supervisor] {
                for (access, cause) in
                    [('r', LOAD_PAGE_FAULT), ('w', STORE_PAGE_FAULT), ('x', FETCH_PAGE_FAULT)]
                {
                    let flags = bits | pte::A | pte::D;
                    let expected = permitted(flags, level, access, sum, mxr);
                    let case = format!("flags {flags:#x} {level:?} {access} sum {sum} mxr {mxr}");
                    let (mut bench, table) = paged(3);
                    bench.enable(if sum { status::SUM } else { 0 } | if mxr { status::MXR } else { 0 });
                    bench.map(table, PAGE, TARGET, 0, flags);
                    bench.write(TARGET, &[NOP]);
                    bench.hart.set_reg(6, PAGE);
                    // Code for the level, and the same access from M with MPRV.
                    let user_code = if level == User { pte::U } else { 0 };
                    bench.map(table, CODE, CODE, 0, pte::ALL | user_code);
                    let word = if access == 'w' { sd(7, 6, 0) } else { ld(5, 6, 0) };
                    let outcome = if access == 'x' {
                        fetch(&mut bench, level, PAGE)
                    } else {
                        bench.execute(level, word)
                    };
                    assert_eq!(outcome == Outcome::Retired, expected, "{case}");
                    if !expected {
                        assert_eq!(outcome.trap(), Some((cause, PAGE)), "{case}");
                    }
                    if access != 'x' {
                        bench.set(MSTATUS, bench.get(MSTATUS) & !status::MPP);
                        bench.enable(status::MPRV | (level as u64) << status::MPP_SHIFT);
                        let outcome = bench.execute(Machine, word);
                        assert_eq!(outcome == Outcome::Retired, expected, "by MPRV: {case}");
                    }
                }
            }
        }
    }
}

#[test]
fn mprv_does_not_affect_fetches_or_mpp_machine() {
    let (mut bench, table) = paged(3);
    bench.map(table, PAGE, TARGET, 0, pte::ALL);
    bench.enable(status::MPRV | 3 << status::MPP_SHIFT);
    bench.write_u64(TARGET, 99);
    bench.hart.set_reg(6, TARGET);
    assert_eq!(bench.execute(Machine, ld(5, 6, 0)), Outcome::Retired);
    assert_eq!(bench.hart.reg(5), 99);
    bench.enable(status::MPRV);
    bench.set(MSTATUS, bench.get(MSTATUS) & !status::MPP);
    bench.write(DATA + 64, &[NOP]);
    assert_eq!(fetch(&mut bench, Machine, DATA + 64), Outcome::Retired);
}

#[test]
fn changes_of_sum_mxr_or_level_apply_to_the_next_access() {
    let (mut bench, table) = paged(3);
    bench.map(table, PAGE, TARGET, 0, pte::ALL | pte::U);
    for on in [true, false, true, false] {
        let others = bench.get(SSTATUS) & !status::SUM;
        bench.set(SSTATUS, others | if on { status::SUM } else { 0 });
        assert_eq!(load(&mut bench, PAGE) == Outcome::Retired, on);
        assert_eq!(store(&mut bench, PAGE, 1) == Outcome::Retired, on);
    }
    bench.map(table, PAGE + 4096, TARGET, 0, pte::V | pte::X | pte::A | pte::D);
    for on in [true, false, true, false] {
        let others = bench.get(SSTATUS) & !status::MXR;
        bench.set(SSTATUS, others | if on { status::MXR } else { 0 });
        assert_eq!(load(&mut bench, PAGE + 4096) == Outcome::Retired, on);
    }
}

#[test]
fn only_permitted_accesses_set_accessed_and_dirty_bits() {
    let set = |bench: &Bench, slot: u64| bench.read_u64(slot) & (pte::A | pte::D);
    let (mut bench, table) = paged(4);
    let fresh = pte::V | pte::R | pte::W | pte::X;
    let slot = bench.map(table, PAGE, TARGET, 0, fresh);
    assert_eq!(load(&mut bench, PAGE), Outcome::Retired);
    assert_eq!(set(&bench, slot), pte::A);
    assert_eq!(store(&mut bench, PAGE, 1), Outcome::Retired);
    assert_eq!(set(&bench, slot), pte::A | pte::D);

    let slot = bench.map(table, PAGE + 4096, TARGET, 0, fresh);
    assert_eq!(store(&mut bench, PAGE + 4096, 1), Outcome::Retired);
    assert_eq!(set(&bench, slot), pte::A | pte::D);

    let slot = bench.map(table, PAGE + 8192, TARGET, 0, fresh);
    bench.write(TARGET, &[NOP]);
    assert_eq!(fetch(&mut bench, Supervisor, PAGE + 8192), Outcome::Retired);
    assert_eq!(set(&bench, slot), pte::A);

    let slot = bench.map(table, PAGE + 12288, TARGET, 0, pte::V | pte::R);
    assert_eq!(store(&mut bench, PAGE + 12288, 1).cause(), Some(STORE_PAGE_FAULT));
    assert_eq!(set(&bench, slot), 0);
}

#[test]
fn malformed_entries_fault() {
    let (mut bench, table) = paged(3);
    for bit in 54..64 {
        bench.map(table, PAGE, TARGET, 0, pte::ALL | 1 << bit);
        bench.execute(Supervisor, SFENCE_VMA);
        assert_eq!(load(&mut bench, PAGE).trap(), Some((LOAD_PAGE_FAULT, PAGE)), "bit {bit}");
    }
    // A pointer at the last level.
    bench.map(table, PAGE, TARGET, 0, pte::V);
    assert_eq!(load(&mut bench, PAGE).cause(), Some(LOAD_PAGE_FAULT));
    // A pointer with bits that are valid only in leaves.
    for flag in [pte::A, pte::D, pte::U] {
        bench.map(table, PAGE, TARGET, 1, pte::V | flag);
        assert_eq!(load(&mut bench, PAGE).cause(), Some(LOAD_PAGE_FAULT));
    }
    // A table outside memory.
    bench.map(table, PAGE, 0x1_0000, 1, pte::V);
    assert_eq!(load(&mut bench, PAGE).trap(), Some((LOAD_ACCESS_FAULT, PAGE)));
}

#[test]
fn sfence_vma_makes_changed_entries_visible() {
    let (mut bench, table) = paged(3);
    let slot = bench.map(table, PAGE, TARGET, 0, pte::ALL);
    bench.write_u64(TARGET, 1);
    bench.write_u64(TARGET + 4096, 2);
    load(&mut bench, PAGE);
    bench.write_u64(slot, (TARGET + 4096) >> 12 << 10 | pte::ALL);
    bench.execute(Supervisor, SFENCE_VMA);
    load(&mut bench, PAGE);
    assert_eq!(bench.hart.reg(5), 2);
    // Also for code that has already run.
    bench.write(TARGET, &[addi(5, 0, 1), m5op(0)]);
    bench.write(TARGET + 4096, &[addi(5, 0, 2), m5op(0)]);
    for (phys, expected) in [(TARGET, 1), (TARGET + 4096, 2), (TARGET, 1)] {
        bench.write_u64(slot, phys >> 12 << 10 | pte::ALL);
        bench.execute(Supervisor, SFENCE_VMA);
        bench.go(Supervisor, PAGE);
        bench.run();
        assert_eq!(bench.hart.reg(5), expected);
    }
    bench.write_u64(slot, 0);
    bench.execute(Supervisor, SFENCE_VMA);
    assert_eq!(store(&mut bench, PAGE, 0).cause(), Some(STORE_PAGE_FAULT));
}

#[test]
fn sfence_vma_reports_its_address_and_space() {
    let (mut bench, _) = paged(3);
    bench.hart.set_reg(10, PAGE);
    bench.hart.set_reg(11, 0xabcd_0007);
    let (by_address, by_space) = (10 << 15, 11 << 20);
    for (registers, address, space) in [
        (0, None, None),
        (by_address, Some(PAGE), None),
        (by_space, None, Some(7)),
        (by_address | by_space, Some(PAGE), Some(7)),
    ] {
        assert_eq!(bench.execute(Supervisor, SFENCE_VMA | registers), Outcome::Retired);
        let fence = bench.hart.take_translation_fence();
        assert_eq!(fence, Some(TranslationFence { address, space }));
    }
}

#[test]
fn sfence_vma_of_one_address_drops_its_whole_superpage() {
    let (mut bench, table) = paged(3);
    let (virt, at) = (high_page(3), 0x3000);
    let [first, second] = [crate::bench::BASE + (4 << 20), crate::bench::BASE + (6 << 20)];
    for (phys, n) in [(first, 1), (second, 2)] {
        bench.write(phys + at, &[addi(5, 0, n), m5op(0)]);
        bench.write_u64(phys + at + 64, n as u64);
    }
    let slot = bench.entry(table, virt, 1);
    // The fence names another address of the superpage than the one that is accessed.
    let fence = SFENCE_VMA | 10 << 15;
    for (phys, expected) in [(first, 1), (second, 2), (first, 1)] {
        bench.write_u64(slot, phys >> 12 << 10 | pte::ALL);
        bench.hart.set_reg(10, virt + 0x10_0000);
        assert_eq!(bench.execute(Supervisor, fence), Outcome::Retired);
        bench.go(Supervisor, virt + at);
        bench.run();
        assert_eq!(bench.hart.reg(5), expected, "fetched");
        load(&mut bench, virt + at + 64);
        assert_eq!(bench.hart.reg(5), expected, "loaded");
    }
    // A fence for a small page drops that page, as data and as code.
    let small = bench.map(table, PAGE, first + 0x3000, 0, pte::ALL);
    for (phys, expected) in [(first, 1), (second, 2)] {
        bench.write_u64(small, (phys + at) >> 12 << 10 | pte::ALL);
        bench.hart.set_reg(10, PAGE + 8);
        assert_eq!(bench.execute(Supervisor, fence), Outcome::Retired);
        bench.go(Supervisor, PAGE);
        bench.run();
        assert_eq!(bench.hart.reg(5), expected);
        load(&mut bench, PAGE + 64);
        assert_eq!(bench.hart.reg(5), expected);
    }
}

#[test]
fn each_address_space_has_its_own_translations() {
    let (mut bench, first) = paged(3);
    let first_satp = bench.get(SATP);
    bench.map(first, PAGE, TARGET, 0, pte::ALL);
    let second = bench.page_table(4);
    bench.map(second, CODE, CODE, 0, pte::ALL);
    bench.map(second, PAGE, TARGET + 4096, 0, pte::ALL);
    let second_satp = bench.get(SATP);
    bench.write_u64(TARGET, 1);
    bench.write_u64(TARGET + 4096, 2);
    for (satp, expected) in [(first_satp, 1), (second_satp, 2), (first_satp, 1), (0, 3)] {
        bench.set(SATP, satp);
        let virt = if satp == 0 { TARGET + 8192 } else { PAGE };
        bench.write_u64(TARGET + 8192, 3);
        assert_eq!(load(&mut bench, virt), Outcome::Retired);
        assert_eq!(bench.hart.reg(5), expected);
    }
}

#[test]
fn an_access_across_pages_uses_both_and_a_faulting_store_writes_neither() {
    let (mut bench, table) = paged(3);
    // Adjacent in virtual memory, apart and in reverse order in physical memory.
    bench.map(table, PAGE, TARGET + 8192, 0, pte::ALL);
    let second = bench.map(table, PAGE + 4096, TARGET, 0, pte::ALL);
    for offset in 1..8 {
        let virt = PAGE + 4096 - offset;
        assert_eq!(store(&mut bench, virt, 0x8877_6655_4433_2211), Outcome::Retired);
        assert_eq!(load(&mut bench, virt), Outcome::Retired);
        assert_eq!(bench.hart.reg(5), 0x8877_6655_4433_2211);
        let low = bench.read_u64(TARGET + 8192 + 4096 - 8) >> (64 - 8 * offset);
        let high = bench.read_u64(TARGET) & (u64::MAX >> (8 * offset));
        assert_eq!(low | high << (8 * offset), 0x8877_6655_4433_2211);
    }
    bench.write_u64(second, 0);
    bench.execute(Supervisor, SFENCE_VMA);
    let before = bench.read_u64(TARGET + 8192 + 4096 - 8);
    for offset in 1..8 {
        let virt = PAGE + 4096 - offset;
        assert_eq!(load(&mut bench, virt).trap(), Some((LOAD_PAGE_FAULT, PAGE + 4096)));
        assert_eq!(store(&mut bench, virt, 0).trap(), Some((STORE_PAGE_FAULT, PAGE + 4096)));
    }
    assert_eq!(bench.read_u64(TARGET + 8192 + 4096 - 8), before);
    // A fault on the first page takes precedence.
    let first = bench.entry(table, PAGE, 0);
    bench.write_u64(first, 0);
    bench.execute(Supervisor, SFENCE_VMA);
    assert_eq!(load(&mut bench, PAGE + 4094).trap(), Some((LOAD_PAGE_FAULT, PAGE + 4094)));
}

#[test]
fn an_instruction_across_pages_faults_at_the_address_of_its_second_half() {
    for level in [User, Supervisor] {
        let user = if level == User { pte::U } else { 0 };
        let (mut bench, table) = paged(3);
        bench.map(table, PAGE, TARGET + 8192, 0, pte::ALL | user);
        let second = bench.entry(table, PAGE + 4096, 0);
        let word = addi(5, 0, 77);
        bench.write_halves(TARGET + 8192 + 4094, &[word as u16]);
        bench.write_halves(TARGET, &[(word >> 16) as u16]);
        let pc = PAGE + 4094;
        let outcome = fetch(&mut bench, level, pc);
        assert_eq!(
            outcome,
            Outcome::Trap { to: Machine, cause: FETCH_PAGE_FAULT, tval: PAGE + 4096, epc: pc }
        );
        bench.write_u64(second, TARGET >> 12 << 10 | pte::ALL | user);
        assert_eq!(fetch(&mut bench, level, pc), Outcome::Retired);
        assert_eq!((bench.hart.reg(5), bench.hart.pc()), (77, PAGE + 4098));
        // A decoded instruction is still checked: for its contents, and for a mapped page.
        let other = addi(5, 0, 78);
        bench.write_halves(TARGET, &[(other >> 16) as u16]);
        assert_eq!(fetch(&mut bench, level, pc), Outcome::Retired);
        assert_eq!(bench.hart.reg(5), 78);
        bench.write_u64(second, 0);
        bench.execute(Machine, SFENCE_VMA);
        assert_eq!(fetch(&mut bench, level, pc).trap(), Some((FETCH_PAGE_FAULT, PAGE + 4096)));
    }
}

#[test]
fn a_compressed_instruction_at_the_end_of_a_page_needs_no_second_page() {
    let (mut bench, table) = paged(3);
    bench.map(table, PAGE, TARGET, 0, pte::ALL);
    bench.write_halves(TARGET + 4094, &[0x4515]); // c.li a0, 5
    assert_eq!(fetch(&mut bench, Supervisor, PAGE + 4094), Outcome::Retired);
    assert_eq!(bench.hart.reg(10), 5);
    assert_eq!(bench.step().trap(), Some((FETCH_PAGE_FAULT, PAGE + 4096)));
}

#[test]
fn machine_mode_ignores_the_page_table() {
    let (mut bench, _) = paged(3);
    bench.write_u64(TARGET, 5);
    bench.hart.set_reg(6, TARGET);
    for level in LEVELS {
        let outcome = bench.execute(level, i_type(0x03, 3, 5, 6, 0));
        assert_eq!(outcome == Outcome::Retired, level == Machine);
    }
}
