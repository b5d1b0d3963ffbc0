//! Physical memory protection, compared with a simple restatement of the manual's rules.

use doorbell_riscv::Privilege;

use crate::asm::{NOP, ld, sd};
use crate::bench::{BASE, Bench, CODE, DATA, LEVELS, Outcome, csrs::*, pte};
use crate::random::Random;
use Privilege::{Machine, Supervisor, User};

const FETCH_FAULT: u64 = 1;
const LOAD_FAULT: u64 = 5;
const STORE_FAULT: u64 = 7;

const R: u64 = 1;
const W: u64 = 2;
const X: u64 = 4;
const TOR: u64 = 1 << 3;
const NA4: u64 = 2 << 3;
const NAPOT: u64 = 3 << 3;
const LOCKED: u64 = 0x80;

/// Sets entry `index`.
fn entry(bench: &mut Bench, index: usize, config: u64, addr: u64) {
    bench.set(PMPADDR0 + index as u16, addr);
    let register = PMPCFG0 + (index / 8 * 2) as u16;
    let shift = 8 * (index % 8);
    let others = bench.get(register) & !(0xff << shift);
    bench.set(register, others | config << shift);
}

/// A NAPOT address register.
fn napot(base: u64, size: u64) -> u64 {
    base >> 2 | (size / 8 - 1)
}

/// Opens all memory below M by the last entry.
fn open_all(bench: &mut Bench) {
    entry(bench, 15, NAPOT | R | W | X, u64::MAX >> 10);
}

/// The rule, byte by byte: the lowest entry that matches any byte decides, and must match all of them.
fn expected(entries: &[(u64, u64)], start: u64, len: u64, level: Privilege, right: u64) -> bool {
    let range = |index: usize| -> (u64, u64) {
        let (config, addr) = entries[index];
        match config & 0x18 {
            0 => (0, 0),
            TOR => (if index == 0 { 0 } else { entries[index - 1].1 << 2 }, addr << 2),
            NA4 => (addr << 2, (addr << 2) + 4),
            _ => {
                let mut size = 8;
                let mut bit = 0;
                while addr >> bit & 1 == 1 {
                    size *= 2;
                    bit += 1;
                }
                let base = addr << 2 & !(size - 1);
                (base, base + size)
            }
        }
    };
    for (index, (config, _)) in entries.iter().enumerate() {
        let (low, high) = range(index);
        let matched = (start..start + len).filter(|byte| (low..high).contains(byte)).count() as u64;
        if matched == 0 {
            continue;
        }
        return matched == len && ((level == Machine && config & LOCKED == 0) || config & right != 0);
    }
    level == Machine
}

#[test]
fn load_and_store_permissions_match_the_manual() {
    let mut random = Random::new(7);
    let (mut allowed, mut refused) = (0, 0);
    for round in 0..3000 {
        let mut bench = Bench::new();
        let mut entries = Vec::new();
        // The test's code first: every level may execute it.
        entries.push((NAPOT | X, napot(CODE, 4096)));
        bench.set(PMPADDR0, entries[0].1);
        for index in 1..6 {
            let kind = random.pick(&[0, TOR, NA4, NAPOT, NAPOT]);
            let rights = random.pick(&[0, R, X, R | W, R | X, R | W | X]);
            let locked = if random.below(4) == 0 { LOCKED } else { 0 };
            let base = DATA + 4 * random.below(64);
            let addr = match kind {
                NAPOT => napot(base & !63, 8 << random.below(7)),
                _ => base >> 2,
            };
            entries.push((kind | rights | locked, addr));
            bench.set(PMPADDR0 + index, addr);
        }
        // Configuration registers last, because a locked entry's address cannot be written.
        let register = entries.iter().enumerate().fold(0, |all, (i, (config, _))| all | config << (8 * i));
        bench.set(PMPCFG0, register);
        assert_eq!(bench.get(PMPCFG0), register);
        let level = random.pick(&LEVELS);
        for _ in 0..6 {
            let size = random.below(4) as u32;
            let addr = DATA + random.below(256);
            let store = random.below(2) == 0;
            bench.hart.set_reg(6, addr);
            let word = if store {
                crate::asm::s_type(0x23, size, 6, 7, 0)
            } else {
                crate::asm::i_type(0x03, size, 5, 6, 0)
            };
            let expected = expected(&entries, addr, 1 << size, level, if store { W } else { R });
            let outcome = bench.execute(level, word);
            let case =
                format!("round {round}: {entries:x?} {level:?} store {store} size {size} at {addr:#x}");
            if expected {
                assert_eq!(outcome, Outcome::Retired, "{case}");
                allowed += 1;
            } else {
                assert_eq!(
                    outcome.trap(),
                    Some((if store { STORE_FAULT } else { LOAD_FAULT }, addr)),
                    "{case}"
                );
                refused += 1;
            }
        }
    }
    assert!(allowed > 1000 && refused > 1000);
}

#[test]
fn fetches_are_checked_for_each_instruction_even_within_a_page() {
    for level in LEVELS {
        for locked in [0, LOCKED] {
            let mut bench = Bench::new();
            bench.write(CODE, &[NOP; 64]);
            // The code has run before protection is enabled, so that it is already decoded.
            bench.go(level, CODE);
            let free = level == Machine && locked == 0;
            if level == Machine {
                bench.hart.run(&mut bench.ram, 32);
            }
            entry(&mut bench, 0, NAPOT | X | locked, napot(CODE, 64));
            entry(&mut bench, 1, NAPOT | R | W | locked, napot(CODE, 4096));
            bench.go(level, CODE + 32);
            let (before, slots) = (bench.hart.stats().exceptions, bench.hart.slots());
            bench.hart.run(&mut bench.ram, slots + 9);
            if free {
                assert_eq!(bench.hart.stats().exceptions, before);
                assert_eq!(bench.hart.pc(), CODE + 32 + 36);
            } else {
                // Eight instructions run; the ninth is outside.
                assert_eq!(bench.trapped().trap(), Some((FETCH_FAULT, CODE + 64)), "{level:?} {locked:#x}");
            }
        }
    }
}

#[test]
fn an_instruction_that_straddles_a_protected_boundary_faults() {
    let mut bench = Bench::new();
    bench.write_halves(CODE + 60, &[1, 0x0013, 0x0000, 1]);
    entry(&mut bench, 0, NAPOT | X, napot(CODE, 64));
    bench.go(User, CODE + 60);
    assert_eq!(bench.step(), Outcome::Retired);
    assert_eq!(bench.step().cause(), Some(FETCH_FAULT));
}

#[test]
fn locked_entries_hold_until_reset_and_lock_the_base_of_a_tor_entry() {
    let mut bench = Bench::new();
    entry(&mut bench, 1, TOR | R | LOCKED, 0x2000);
    bench.set(PMPADDR0 + 1, 5);
    bench.set(PMPADDR0, 7); // the locked entry's lower bound
    entry(&mut bench, 1, 0, 5);
    assert_eq!((bench.get(PMPADDR0), bench.get(PMPADDR0 + 1)), (0, 0x2000));
    assert_eq!(bench.get(PMPCFG0), (TOR | R | LOCKED) << 8);
    // Only a locked TOR entry also locks the preceding entry.
    entry(&mut bench, 3, NA4 | R | LOCKED, 0x2000);
    bench.set(PMPADDR0 + 2, 7);
    assert_eq!(bench.get(PMPADDR0 + 2), 7);
}

#[test]
fn write_without_read_permission_is_reserved_and_ignored() {
    let mut bench = Bench::new();
    bench.set(PMPCFG0, TOR | R);
    bench.set(PMPCFG0, TOR | W);
    assert_eq!(bench.get(PMPCFG0), TOR | R);
    bench.set(PMPCFG0, 0x60 | NAPOT);
    assert_eq!(bench.get(PMPCFG0), NAPOT); // bits 5 and 6 are zero
}

#[test]
fn page_walks_are_checked_as_supervisor_accesses() {
    let mut bench = Bench::new();
    let table = bench.page_table(3);
    bench.map(table, CODE, CODE, 0, pte::ALL | pte::U);
    let virt = 0x40_0000;
    let slot = bench.map(table, virt, DATA, 0, pte::V | pte::R | pte::W | pte::U);
    open_all(&mut bench);
    bench.hart.set_reg(6, virt);
    // The leaf's table is read-only: the A bit cannot be written.
    entry(&mut bench, 0, NAPOT | R, napot(slot & !4095, 4096));
    assert_eq!(bench.execute(User, ld(5, 6, 0)).trap(), Some((LOAD_FAULT, virt)));
    bench.write_u64(slot, bench.read_u64(slot) | pte::A);
    assert_eq!(bench.execute(User, ld(5, 6, 0)), Outcome::Retired);
    assert_eq!(bench.execute(User, sd(5, 6, 0)).trap(), Some((STORE_FAULT, virt)));
    entry(&mut bench, 0, NAPOT, napot(slot & !4095, 4096));
    assert_eq!(bench.execute(User, ld(5, 6, 0)).trap(), Some((LOAD_FAULT, virt)));
}

#[test]
fn any_active_entry_closes_unmatched_memory_below_machine_mode() {
    let mut bench = Bench::new();
    bench.hart.set_reg(6, DATA);
    for level in LEVELS {
        assert_eq!(bench.execute(level, ld(5, 6, 0)), Outcome::Retired);
    }
    entry(&mut bench, 0, NAPOT | R | W | X, napot(BASE, 8));
    entry(&mut bench, 1, NAPOT | X, napot(CODE, 4096));
    for level in LEVELS {
        let outcome = bench.execute(level, ld(5, 6, 0));
        let closed = matches!(level, User | Supervisor);
        assert_eq!(outcome.trap(), closed.then_some((LOAD_FAULT, DATA)));
    }
}

#[test]
fn new_protection_applies_at_once_to_cached_translations() {
    let mut bench = Bench::new();
    bench.hart.set_reg(6, DATA);
    open_all(&mut bench);
    assert_eq!(bench.execute(User, sd(5, 6, 0)), Outcome::Retired);
    entry(&mut bench, 0, NAPOT | R, napot(DATA, 16));
    assert_eq!(bench.execute(User, sd(5, 6, 0)).trap(), Some((STORE_FAULT, DATA)));
    bench.hart.set_reg(6, DATA + 16); // the same page, but open
    assert_eq!(bench.execute(User, sd(5, 6, 0)), Outcome::Retired);
    bench.hart.set_reg(6, DATA + 8);
    assert_eq!(bench.execute(User, ld(5, 6, 0)), Outcome::Retired);
    assert_eq!(bench.execute(User, sd(5, 6, 0)).trap(), Some((STORE_FAULT, DATA + 8)));
    bench.hart.set_reg(6, DATA + 12); // half in, half out
    assert_eq!(bench.execute(User, ld(5, 6, 0)).trap(), Some((LOAD_FAULT, DATA + 12)));
}
