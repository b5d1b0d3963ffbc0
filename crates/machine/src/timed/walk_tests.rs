//! Page-table entries share lines as they do in memory: eight of them are one, whoever walks for what.

use doorbell_platform::sbi::assembler::*;
use doorbell_sim::Ps;

use super::Mode;
use super::paged::{BASE, WINDOW, enter, open_memory, tables};
use crate::config::MachineConfig;
use crate::machine::Machine;
use crate::overlay::Overlay;
use crate::run::Limits;

const TABLES: u64 = BASE + (2 << 20);
/// Read through to empty the L2.
const OTHER: u64 = BASE + (4 << 20);
/// The frame that all pages show.
const FRAME: u64 = BASE + (8 << 20);
/// Entries of a table.
const ENTRIES: u64 = 512;
/// Pages that are read.
const READ: u64 = 64;

fn config(kind: &str) -> MachineConfig {
    let mut overlay = Overlay::default();
    let all = [
        "platform.nics=0",
        "platform.ram=64MiB",
        "core.model=timed",
        "memory.walks=l2",
        "memory.l1d.size=2KiB",
        "memory.l2.size=16KiB",
    ];
    all.iter().for_each(|assignment| overlay.set(assignment).unwrap());
    overlay.set(&format!("pipeline.kind={kind}")).unwrap();
    overlay.resolve().unwrap()
}

/// Lays out Sv39 tables whose last one shows one frame 512 times, empties the caches of them, and reads one word of each `stride`th
/// of the pages.
fn program(stride: u64) -> Vec<u8> {
    let mut a = Assembler::new(BASE);
    open_memory(&mut a);
    a.li(S0, TABLES);
    tables(&mut a, FRAME);
    a.li(T2, ENTRIES);
    a.label("entry");
    a.sd(T0, S2, 0);
    a.addi(S2, S2, 8);
    a.addi(T2, T2, -1);
    a.bnez(T2, "entry");
    a.li(T0, OTHER);
    a.li(T2, 1024);
    a.label("line");
    a.ld(T1, T0, 0);
    a.addi(T0, T0, 64);
    a.addi(T2, T2, -1);
    a.bnez(T2, "line");
    enter(&mut a, "reads");
    a.label("reads");
    a.li(T0, WINDOW);
    a.li(T1, stride << 12);
    a.li(T2, READ);
    a.label("page");
    a.ld(T3, T0, 0);
    a.add(T0, T0, T1);
    a.addi(T2, T2, -1);
    a.bnez(T2, "page");
    a.label("end");
    a.j("end");
    a.finish()
}

/// Walks, what they read, how often that entered at the L2, and how often the L2 had not the line or waited for it already.
fn walks(kind: &str, stride: u64) -> (u64, u64, u64, u64) {
    let mut machine = Machine::new(config(kind), 1).unwrap();
    assert!(machine.load_bare(&program(stride)));
    machine.set_mode(Mode::Detailed);
    machine.run(&Limits::until(Ps::from_us(400)));
    let timing = machine.timing().expect("the machine is timed");
    let (counts, memory) = (timing.core(0).stats().counts, timing.memory.stats());
    let hart = &memory.harts[0];
    (counts.walks, counts.walk_accesses, hart.core.walks_at_l2, hart.l2.misses)
}

#[test]
fn walks_for_neighbouring_pages_read_one_line_and_those_for_every_eighth_a_line_each() {
    for kind in ["out-of-order", "in-order"] {
        let [near, far] = [1, 8].map(|stride| walks(kind, stride));
        // The window's, and one for the code.
        assert_eq!([near.0, far.0], [READ + 1; 2], "{kind}");
        // Root, second level and entry once, then the entry alone.
        assert_eq!((near.1, near.2), (far.1, far.2), "{kind}: the same reads either way");
        assert_eq!((near.1, near.2), (READ + 3, READ + 3), "{kind}");
        assert_eq!(far.3 - near.3, READ - READ / 8, "{kind}: lines that the L2 had not");
    }
}
