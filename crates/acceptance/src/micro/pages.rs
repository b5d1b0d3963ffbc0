//! Address translation: load chains over one line per page, with more pages than the first or the second TLB
//! level holds.

use doorbell_assembler::*;

use super::closed::{self, LoadSource};
use super::program::{DATA, enter_supervisor, shuffled};
use super::{CORES, Program, Row, machine, measure};

const CHAIN: u64 = 8;
const PAGE: u64 = 4096;
/// Sv39: the root table, one second-level table, then the third-level tables.
const ROOT: u64 = DATA;
const TABLES: u64 = ROOT + 2 * PAGE;
/// Virtual and physical base addresses of the pages.
const PAGES_VIRT: u64 = 0x4000_0000;
const PAGES_PHYS: u64 = DATA + (1 << 20);
/// Flags of a leaf entry (valid, readable, writable, executable, accessed, dirty) and of a table entry
/// (valid).
const LEAF: u64 = 0xcf;
const TABLE: u64 = 1;

fn entry(address: u64, flags: u64) -> u64 {
    address >> 12 << 10 | flags
}

/// A load chain over one line per page, in the given page order. The lines are spread over the caches' sets.
fn program(order: &[u64]) -> Program {
    let pages = order.len() as u64;
    let mut root = vec![0u64; 512];
    root[1] = entry(ROOT + PAGE, TABLE);
    root[2] = entry(0x8000_0000, LEAF);
    let mut second = vec![0u64; 512];
    let mut third = Vec::new();
    for page in 0..pages {
        second[(page / 512) as usize] = entry(TABLES + page / 512 * PAGE, TABLE);
        third.push(entry(PAGES_PHYS + page * PAGE, LEAF));
    }
    let bytes = |table: &[u64]| table.iter().flat_map(|entry| entry.to_le_bytes()).collect::<Vec<u8>>();
    // Line index: the page's first line plus an offset such that the lines of 2048 pages are in different L2
    // sets.
    let places: Vec<u64> = order.iter().map(|page| page * 64 + (page + page / 32) % 64).collect();
    let first = PAGES_VIRT + places[0] * 64;
    let setup = |a: &mut Assembler| {
        enter_supervisor(a, 8 << 60 | ROOT >> 12);
        a.li(A0, first);
    };
    let body = |a: &mut Assembler| (0..CHAIN).for_each(|_| a.ld(A0, A0, 0));
    let mut program = Program::new(setup, body)
        .with(ROOT, &bytes(&root))
        .with(ROOT + PAGE, &bytes(&second))
        .with(TABLES, &bytes(&third));
    let end = (PAGES_PHYS - DATA + (1 << 20) + pages * PAGE) as usize;
    program.image.resize(program.image.len().max(end), 0);
    for (index, place) in places.iter().enumerate() {
        let next = PAGES_VIRT + places[(index + 1) % places.len()] * 64;
        let at = (PAGES_PHYS - 0x8000_0000 + place * 64) as usize;
        program.image[at..at + 8].copy_from_slice(&next.to_le_bytes());
    }
    program
}

/// Chains over pages that hit the first TLB, that hit the second TLB, and that need a page walk.
pub fn translation() -> Vec<Row> {
    let mut rows = Vec::new();
    for core in CORES {
        let config = machine(core, &["memory.l1d.size=16KiB"]);
        let second = f64::from(config.pipeline.tlb.second_cycles);
        let by = |from: LoadSource| closed::chase(&config, from);
        let address = f64::from(config.pipeline.address_cycles);
        // A cache line of a third-level table has eight entries. Pages are visited with a stride of eight, so
        // that each entry's line has left the L1 before its next use and comes from the L2.
        let stride_of_eight: Vec<u64> =
            (0..8).flat_map(|first| (0..512).map(move |n| n * 8 + first)).collect();
        let cases = [
            ("32 pages (data TLB hits)", shuffled(32), "address + L1", by(LoadSource::L1)),
            (
                "128 pages (second TLB hits)",
                shuffled(128),
                "address + second TLB + L1",
                second + by(LoadSource::L1),
            ),
            (
                "4096 pages (page walks)",
                stride_of_eight,
                "address + second TLB + L1 + L2 (entry) + L1 + L2 (data)",
                second + 2.0 * by(LoadSource::L2) - address,
            ),
        ];
        for (name, order, form, expected) in cases {
            let round = order.len() as u64 / CHAIN;
            let measured = measure(&config, &program(&order), round + 200, round * 2);
            rows.push(Row {
                what: format!("dependent loads, one line in each of {name}"),
                core,
                unit: "cycles per load",
                form: form.to_owned(),
                expected: (expected, expected),
                measured: measured.each(CHAIN),
            });
        }
    }
    rows
}
