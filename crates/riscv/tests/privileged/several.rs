//! Several harts share the decoded code of one RAM: code written by any of them or by a device takes effect
//! for all, with or without access logging, and with breakpoints per hart.

use std::collections::BTreeSet;

use doorbell_riscv::{Hart, HartConfig, Stop, Turn};
use doorbell_sim::{Bytes, PhysAddr, Ram};

use crate::asm::{C_NOP, addi, j_type, m5op, s_type};
use crate::bench::{BASE, CODE, SIZE, config};
use crate::random::Random;

const PAGES: u64 = 3;
/// Words of each page's loop: seven that count, one that stores, and the jump back.
const WORDS: u64 = 9;
const STORES: u64 = 4;

fn count(n: u64) -> u32 {
    addi(5, 5, n as i32)
}

/// Harts with their expected state, from an interpreter that decodes each instruction when it executes it.
struct Several {
    ram: Ram,
    harts: Vec<Hart>,
    expected: Vec<(u64, u64)>,
    breakpoints: Vec<BTreeSet<u64>>,
}

impl Several {
    fn new(harts: u32) -> Several {
        let mut ram = Ram::new(PhysAddr(BASE), Bytes(SIZE), harts as usize);
        for page in 0..PAGES {
            for word in 0..WORDS {
                let bits = match word {
                    STORES => s_type(0x23, 2, 6, 7, 0),
                    _ if word == WORDS - 1 => j_type(0, -4 * (WORDS as i32 - 1)),
                    _ => count(word),
                };
                assert!(ram.store(place(page, word), &bits.to_le_bytes()));
            }
        }
        let all = (0..harts).map(|id| Hart::new(HartConfig { id: id as usize, ..config() })).collect();
        let (expected, breakpoints) =
            (vec![(CODE, 0); harts as usize], vec![BTreeSet::new(); harts as usize]);
        let mut several = Several { ram, harts: all, expected, breakpoints };
        (0..harts as usize).for_each(|hart| several.harts[hart].set_pc(CODE));
        several
    }

    /// Runs a hart for some instructions, with this store among them, and the interpreter for as many.
    fn advance(&mut self, hart: usize, timed: bool, instructions: u64, (at, bits): (PhysAddr, u32)) {
        let mut code = self.code();
        let running = &mut self.harts[hart];
        running.set_reg(6, at.0);
        running.set_reg(7, bits.into());
        let before = running.instructions();
        let stopped = match timed {
            true => {
                let turn = running.run_timed(&mut self.ram, instructions, &mut Vec::new());
                !matches!(turn, Turn::Continue)
            }
            false => {
                let slots = running.slots() + instructions;
                running.run(&mut self.ram, slots) != Stop::Slot
            }
        };
        let retired = running.instructions() - before;
        let (mut pc, mut counted) = self.expected[hart];
        for _ in 0..retired {
            let word = code[((pc - CODE) / 4096) as usize][(pc % 4096 / 4) as usize];
            match word & 0x7f {
                0x13 => counted += u64::from(word >> 20),
                0x23 => code[((at.0 - CODE) / 4096) as usize][(at.0 % 4096 / 4) as usize] = bits,
                _ => pc -= 4 * WORDS,
            }
            pc += 4;
        }
        let hart_now = (self.harts[hart].pc(), self.harts[hart].reg(5));
        assert_eq!(hart_now, (pc, counted), "hart {hart}, timed {timed}, {retired} instructions");
        assert_eq!(code, self.code());
        assert!(!stopped || self.breakpoints[hart].contains(&pc), "only a breakpoint may stop it");
        assert!(stopped || retired > 0, "the hart must make progress");
        self.expected[hart] = (pc, counted);
    }

    fn code(&self) -> Vec<Vec<u32>> {
        let word = |page, word| {
            let mut bytes = [0; 4];
            assert!(self.ram.copy_out(place(page, word), &mut bytes));
            u32::from_le_bytes(bytes)
        };
        (0..PAGES).map(|page| (0..WORDS).map(|at| word(page, at)).collect()).collect()
    }

    fn set_breakpoints(&mut self, hart: usize, breakpoints: &BTreeSet<u64>) {
        self.breakpoints[hart].clone_from(breakpoints);
        self.harts[hart].set_breakpoints(breakpoints);
    }

    /// Sends a hart to a page.
    fn send(&mut self, hart: usize, page: u64) {
        self.harts[hart].set_pc(place(page, 0).0);
        self.expected[hart].0 = place(page, 0).0;
    }
}

fn place(page: u64, word: u64) -> PhysAddr {
    PhysAddr(CODE + page * 4096 + word * 4)
}

/// A counting instruction in any page.
fn any(random: &mut Random) -> (PhysAddr, u32) {
    let word = [0, 1, 2, 3, 5, 6, 7][random.below(7) as usize];
    (place(random.below(PAGES), word), count(random.below(2000)))
}

#[test]
fn code_written_by_any_hart_or_device_takes_effect_on_all() {
    let mut random = Random::new(3);
    let mut several = Several::new(3);
    for turn in 0..30_000 {
        let hart = random.below(3) as usize;
        match random.below(40) {
            0 => several.send(hart, random.below(PAGES)),
            1 => {
                let (at, bits) = any(&mut random);
                several.ram.store_from_device(at, &bits.to_le_bytes());
            }
            2 => {
                // Mostly as with a debugger: all harts have the same breakpoints, and after a while none.
                // Different breakpoints force decoding at each turn.
                let one = place(random.below(PAGES), random.below(WORDS)).0;
                let some = if random.below(4) == 0 { BTreeSet::from([one]) } else { BTreeSet::new() };
                let harts = if random.below(8) == 0 { hart..hart + 1 } else { 0..3 };
                harts.for_each(|hart| several.set_breakpoints(hart, &some));
            }
            _ => {
                // Mostly as in a machine: all harts run timed, or none, for a while.
                let timed = (turn / 100 % 2 == 0) != (random.below(50) == 0);
                let (instructions, store) = (1 + random.below(30), any(&mut random));
                several.advance(hart, timed, instructions, store);
            }
        }
    }
}

#[test]
fn code_is_decoded_once_for_all_harts() {
    for timed in [false, true] {
        let mut several = Several::new(3);
        let unused = place(PAGES, 0);
        for hart in [0, 1, 2, 0, 1, 2] {
            several.harts[hart].set_reg(6, unused.0);
            for _ in 0..4 {
                several.harts[hart].set_reg(7, 0);
                match timed {
                    true => _ = several.harts[hart].run_timed(&mut several.ram, 100, &mut Vec::new()),
                    false => {
                        let slots = several.harts[hart].slots() + WORDS;
                        assert_eq!(several.harts[hart].run(&mut several.ram, slots), Stop::Slot);
                    }
                }
            }
        }
        let decoded: Vec<u64> = several.harts.iter().map(|hart| hart.stats().blocks_decoded).collect();
        assert!(decoded[0] > 0 && decoded[1..] == [0, 0], "{decoded:?}");
    }
}

#[test]
fn a_hart_that_fills_the_cache_clears_it_for_all() {
    let mut several = Several::new(2);
    let begin = BASE + (2 << 20);
    let bytes = 10u64 << 20;
    let nops: Vec<u8> = (0..bytes / 2).flat_map(|_| C_NOP.to_le_bytes()).collect();
    assert!(several.ram.store(PhysAddr(begin), &nops));
    assert!(several.ram.store(PhysAddr(begin + bytes), &m5op(1).to_le_bytes()));
    let store = (place(0, 0), count(3));
    for timed in [false, true, false] {
        several.advance(1, timed, 40, store);
        several.harts[0].set_pc(begin);
        loop {
            let hart = &mut several.harts[0];
            let stop = match timed {
                true => match hart.run_timed(&mut several.ram, 1000, &mut Vec::new()) {
                    Turn::Stopped(stop) => stop,
                    _ => continue,
                },
                false => hart.run(&mut several.ram, u64::MAX / 2),
            };
            assert!(matches!(stop, Stop::M5Op { function: 1, .. }));
            break;
        }
        several.send(0, 1);
        several.advance(1, timed, 40, store);
        several.advance(0, timed, 40, store);
    }
}
