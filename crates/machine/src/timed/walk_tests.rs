//! Page-table entries share cache lines as in memory: eight entries per line, for all walks.

use doorbell_assembler::*;
use doorbell_sim::Ps;

use super::Mode;
use super::paged::{BASE, WINDOW, enter, open_memory, tables};
use crate::config::MachineConfig;
use crate::machine::Machine;
use crate::overlay::Overlay;
use crate::run::Limits;

const TABLES: u64 = BASE + (2 << 20);
/// Memory that the program reads to evict the page tables from the L2.
const OTHER: u64 = BASE + (4 << 20);
/// The page frame that all pages map to.
const FRAME: u64 = BASE + (8 << 20);
/// Entries per page table.
const ENTRIES: u64 = 512;
/// Pages read.
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

/// Builds Sv39 tables that map 512 pages to one frame, evicts them from the caches, and reads one word of
/// every `stride`th page.
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

/// Returns the number of walks, of their accesses, of accesses that entered at the L2, and of L2 misses.
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
fn walks_for_eight_neighbouring_pages_share_one_line() {
    for kind in ["out-of-order", "in-order"] {
        let [near, far] = [1, 8].map(|stride| walks(kind, stride));
        // One walk per page, and one for the code.
        assert_eq!([near.0, far.0], [READ + 1; 2], "{kind}");
        // All three levels once, then only the last level.
        assert_eq!((near.1, near.2), (far.1, far.2), "{kind}: the same reads either way");
        assert_eq!((near.1, near.2), (READ + 3, READ + 3), "{kind}");
        assert_eq!(far.3 - near.3, READ - READ / 8, "{kind}: lines missing in the L2");
    }
}
