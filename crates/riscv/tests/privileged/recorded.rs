//! Recording: a hart whose repeated blocks are emitted by number yields the same blocks as a reference hart
//! whose blocks are all emitted in full, although its program changes its code, pages and address space.

use std::collections::BTreeMap;
use std::ops::Range;

use doorbell_riscv::{Block, BlockDictionary, BlockOps, Hart, Privilege, Stop};
use doorbell_sim::{Allowance, NumberedBlocks, Op, PhysAddr, Ram, TranslationFence};

use crate::asm::{Asm, ECALL, MRET, SFENCE_VMA, addi, b_type, csr, i_type, ld, r_type, s_type, sd, u_type};
use crate::bench::{BASE, Bench, CODE, DATA, config, csrs::*, pte};
use crate::random::Random;
use crate::saving::copy_of;

const PAGE: u64 = 4096;
/// Virtual addresses of the program's code, data and page table, and the data frames of its two address
/// spaces.
const VIRT_CODE: u64 = 0x4000_0000;
const VIRT_DATA: u64 = 0x4_0000_0000;
const VIRT_TABLE: u64 = 0x5_0000_0000;
const FRAMES: [u64; 2] = [DATA, DATA + 8 * PAGE];

/// An endless supervisor program that computes, jumps, loads and stores (also across lines and pages), calls
/// the firmware, changes its code, switches address spaces and threads, and remaps a data page.
fn program(random: &mut Random) -> Bench {
    let mut bench = Bench::new();
    let tables: Vec<_> = FRAMES
        .iter()
        .map(|frames| {
            let table = bench.page_table(3);
            for page in 0..2 {
                bench.map(table, VIRT_CODE + PAGE * page, CODE + PAGE * page, 0, pte::ALL);
            }
            for page in 0..4 {
                let flags = pte::ALL & !(pte::A | pte::D);
                bench.map(table, VIRT_DATA + PAGE * page, frames + PAGE * page, 0, flags);
            }
            table
        })
        .collect();
    let moved = bench.entry(tables[0], VIRT_DATA + PAGE, 0);
    for table in &tables {
        bench.map(*table, VIRT_TABLE, moved & !(PAGE - 1), 0, pte::ALL);
    }
    let handler = BASE + 0x4000;
    let mut asm = Asm::new(handler);
    asm.word(csr(1, 31, MSCRATCH.into(), 31)); // swap
    asm.li(31, DATA + 20 * PAGE).word(sd(30, 31, 0)).word(ld(30, 31, 0));
    asm.word(csr(2, 31, MEPC.into(), 0)).word(addi(31, 31, 4)).word(csr(1, 0, MEPC.into(), 31));
    asm.word(csr(1, 31, MSCRATCH.into(), 31)).word(addi(30, 30, 1)).word(MRET);
    let code = asm.into_code();
    bench.ram.store(PhysAddr(handler), &code);
    bench.set(MTVEC, handler);

    let satp = |space: u64| 8 << 60 | (space + 1) << 44 | tables[space as usize].root >> 12;
    let entry = |frame: u64| frame >> 12 << 10 | pte::ALL;
    bench.set(SATP, satp(0));
    for (register, value) in [
        (6, VIRT_DATA + 2 * PAGE - 4),
        (8, VIRT_CODE + PAGE),
        (20, satp(0)),
        (21, satp(1)),
        (22, VIRT_TABLE + moved % PAGE),
        (23, entry(FRAMES[0] + PAGE)),
        (24, entry(FRAMES[0] + 5 * PAGE)),
    ] {
        bench.hart.set_reg(register, value);
    }
    let mut asm = Asm::new(VIRT_CODE);
    for _ in 0..18 {
        asm.li(18, 1 + random.below(20));
        let again = asm.here();
        (0..8).for_each(|_| one_of_many(&mut asm, random, 0..53));
        let back = again.wrapping_sub(asm.here() + 4) as i32;
        asm.word(addi(18, 18, -1)).word(b_type(1, 18, 0, back));
        one_of_many(&mut asm, random, 53..60);
    }
    asm.li(5, VIRT_CODE).word(i_type(0x67, 0, 0, 5, 0));
    let code = asm.into_code();
    assert!(code.len() < PAGE as usize);
    bench.ram.store(PhysAddr(CODE), &code);
    bench.go(Privilege::Supervisor, VIRT_CODE);
    bench
}

fn one_of_many(asm: &mut Asm, random: &mut Random, of: Range<u64>) {
    let free = |random: &mut Random| 10 + random.below(8) as u32;
    let (rd, rs1, rs2) = (free(random), free(random), free(random));
    let near = random.below(4000) as i32 - 2000;
    match of.start + random.below(of.end - of.start) {
        // A prefetch (prefetch.r) of a mapped or an unmapped line.
        0..2 => asm
            .word(i_type(0x13, 7, 9, rs1, 1))
            .word(addi(9, 9, -1))
            .word(r_type(0x33, 7, 0, 9, 9, 6))
            .word(i_type(0x13, 6, 0, 9, 1))
            .word(i_type(0x03, 3, rd, 6, near & !7)),
        2..15 => asm.word(r_type(0x33, random.below(8) as u32, 0, rd, rs1, rs2)),
        15..25 => asm.word(i_type(0x03, random.below(7) as u32, rd, 6, near & !7)),
        25..35 => asm.word(s_type(0x23, random.below(4) as u32, 6, rs1, near & !7)),
        35..37 => asm.word(i_type(0x03, random.below(7) as u32, rd, 6, near)),
        37..39 => asm.word(s_type(0x23, random.below(4) as u32, 6, rs1, near)),
        39..48 => asm.word(b_type(random.below(2) as u32, rs1, rs2, 8)).word(addi(rd, rs1, 1)),
        // Jump to the first or the second following instruction.
        48..53 => asm
            .word(u_type(0x17, 5, 0))
            .word(i_type(0x13, 7, 9, rs1, 4))
            .word(r_type(0x33, 0, 0, 5, 5, 9))
            .word(i_type(0x67, 0, 0, 5, 16))
            .word(addi(rd, rs1, 1)),
        53 => asm.word(ECALL),
        54 => asm.word(addi(4, 4, 1)),
        55 => asm.word(csr(1, 0, SATP.into(), 20 + random.below(2) as u32)),
        56 => asm.word(sd(23 + random.below(2) as u32, 22, 0)).word(SFENCE_VMA),
        // Write an instruction to the other page, and run it: addi x29, x29, n; ret.
        _ => asm
            .li(9, u64::from(addi(29, 29, random.below(100) as i32)) | 0x8067 << 32)
            .word(sd(9, 8, 0))
            .word(i_type(0x67, 0, 1, 8, 0)),
    };
}

/// An emitted block.
#[derive(Debug, PartialEq)]
struct Emitted {
    ops: Vec<Op>,
    trapped: bool,
    space: Option<u16>,
    thread: u64,
    fence: Option<TranslationFence>,
}

/// Blocks and pages emitted in one era.
#[derive(Clone, Default)]
struct Era {
    number: u64,
    blocks: BTreeMap<u32, Vec<Op>>,
    /// Physical page of each virtual page.
    pages: BTreeMap<u64, u64>,
}

/// A recorder that decodes numbered blocks. Each address space has an era of its own; all eras end when a
/// page is remapped, or at random.
struct Decoder {
    emitted: Vec<Emitted>,
    by_number: usize,
    eras: BTreeMap<Option<u16>, Era>,
    space: Option<u16>,
    last_era: u64,
    random: Random,
}

impl Decoder {
    fn new(seed: u64) -> Decoder {
        let (emitted, eras, random) = (Vec::new(), BTreeMap::new(), Random::new(seed));
        Decoder { emitted, by_number: 0, eras, space: None, last_era: 0, random }
    }

    fn receive(&mut self, block: Block<'_>) -> Allowance {
        match block.ops {
            BlockOps::Listed(ops) => self.in_full(&block, ops),
            BlockOps::Numbered(blocks) => self.numbered(&block, blocks),
        }
        let (instructions, words) = (1 + self.random.below(300), 1 + self.random.below(700) as usize);
        let era = self.eras.get(&self.space).map_or(0, |era| era.number);
        Allowance { era, instructions, words }
    }

    fn in_full(&mut self, block: &Block<'_>, ops: &[Op]) {
        self.space = block.space;
        let uses =
            |op: &Op| [Some((op.pc, op.fetch.0)), op.class.is_memory().then_some((op.virt, op.phys.0))];
        let pages: Vec<_> =
            ops.iter().flat_map(uses).flatten().map(|(virt, phys)| (virt / PAGE, phys / PAGE)).collect();
        let consistent = |era: &Era| {
            pages.iter().all(|(page, frame)| era.pages.get(page).is_none_or(|known| known == frame))
        };
        if self.random.below(200) == 0 || !self.eras.get(&block.space).is_none_or(consistent) {
            self.eras.clear();
        }
        let next = self.last_era + 1;
        let era = self.eras.entry(block.space).or_insert_with(|| Era { number: next, ..Era::default() });
        self.last_era = self.last_era.max(era.number);
        era.pages.extend(pages);
        if let Some(number) = block.number {
            era.blocks.insert(number, ops.to_vec());
        }
        let Block { trapped, space, thread, fence, .. } = *block;
        self.emitted.push(Emitted { ops: ops.to_vec(), trapped, space, thread, fence });
    }

    fn numbered(&mut self, block: &Block<'_>, blocks: &[u64]) {
        assert_eq!((block.space, block.trapped, block.fence), (self.space, false, None));
        let era = &self.eras[&block.space];
        for (number, addresses) in NumberedBlocks(blocks) {
            let mut ops = era.blocks[&number].clone();
            let mut addresses = addresses.iter().copied();
            for op in &mut ops {
                if op.class.is_memory() {
                    op.virt = addresses.next().expect("an address for each access");
                    op.phys = PhysAddr(era.pages[&(op.virt / PAGE)] * PAGE + op.virt % PAGE);
                } else if op.class.has_computed_target() {
                    op.virt = addresses.next().expect("a target");
                }
            }
            assert_eq!(addresses.next(), None, "too many addresses");
            self.by_number += 1;
            let Block { space, thread, .. } = *block;
            self.emitted.push(Emitted { ops, trapped: false, space, thread, fence: None });
        }
    }

    /// Receives the deferred blocks.
    fn receive_deferred(&mut self, dictionary: &mut BlockDictionary) {
        if let Some(deferred) = dictionary.deferred() {
            let allowance = self.receive(deferred);
            dictionary.deferred_emitted(allowance);
        }
    }
}

/// A reference hart whose blocks are all emitted in full.
struct Reference {
    hart: Hart,
    ram: Ram,
    dictionary: BlockDictionary,
    emitted: Vec<Emitted>,
}

impl Reference {
    fn of(bench: &Bench) -> Reference {
        let ram = copy_of(&bench.ram);
        let mut hart = Hart::new(config());
        hart.restore(bench.hart.save(&bench.ram), &ram).expect("a state just saved can be restored");
        Reference { hart, ram, dictionary: BlockDictionary::default(), emitted: Vec::new() }
    }

    fn run(&mut self, until: u64) -> Stop {
        let Reference { hart, ram, dictionary, emitted } = self;
        hart.run_recorded(ram, until, dictionary, |_, _, block| {
            let BlockOps::Listed(ops) = block.ops else { panic!("{block:?} must be emitted in full") };
            let Block { trapped, space, thread, fence, .. } = block;
            emitted.push(Emitted { ops: ops.to_vec(), trapped, space, thread, fence });
            Allowance::default()
        })
    }
}

/// Runs both harts in turns of up to `most` slots.
fn side_by_side(
    bench: &mut Bench,
    reference: &mut Reference,
    dictionary: &mut BlockDictionary,
    to: &mut Decoder,
    most: u64,
) {
    let mut random = Random::new(most);
    let end = bench.hart.slots() + 30_000;
    while bench.hart.slots() < end {
        let until = bench.hart.slots() + 1 + random.below(most);
        let stop =
            bench.hart.run_recorded(&mut bench.ram, until, dictionary, |_, _, block| to.receive(block));
        assert_eq!((stop, reference.run(until)), (Stop::Slot, Stop::Slot));
        if random.below(10) == 0 {
            to.receive_deferred(dictionary);
        }
    }
    to.receive_deferred(dictionary);
    assert_eq!(to.emitted.len(), reference.emitted.len());
    for (nth, (one, other)) in to.emitted.iter().zip(&reference.emitted).enumerate() {
        assert_eq!(one, other, "block {nth}");
    }
}

#[test]
fn numbered_blocks_decode_to_the_full_blocks() {
    let (mut by_number, mut exceptions, mut invalidated) = (0, 0, 0);
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let mut bench = program(&mut random);
        let (mut reference, mut dictionary, mut to) =
            (Reference::of(&bench), BlockDictionary::default(), Decoder::new(seed));
        side_by_side(&mut bench, &mut reference, &mut dictionary, &mut to, [7, 60, 3000][seed as usize % 3]);
        exceptions += bench.hart.stats().exceptions;
        invalidated += bench.hart.stats().code_pages_invalidated;
        by_number += to.by_number * 100 / to.emitted.len();
    }
    assert!(by_number / 12 > 30, "{} % were emitted by number", by_number / 12);
    assert!(exceptions > 100 && invalidated > 100, "{exceptions} exceptions, {invalidated} pages of code");
}

#[test]
fn a_new_recording_of_the_same_hart_starts_with_an_empty_dictionary() {
    for seed in 20..26 {
        let mut random = Random::new(seed);
        let mut bench = program(&mut random);
        let mut reference = Reference::of(&bench);
        for recording in 0..3 {
            let (mut dictionary, mut to) = (BlockDictionary::default(), Decoder::new(seed + recording));
            reference.emitted.clear();
            side_by_side(&mut bench, &mut reference, &mut dictionary, &mut to, 100);
        }
    }
}
