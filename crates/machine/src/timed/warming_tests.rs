//! Warming trains the models from blocks without assembling their ops. While a recording is active, the ops
//! are assembled and the models are trained op by op. Both must leave caches, TLBs and predictors in the same
//! state.

use doorbell_assembler::*;
use doorbell_sim::Ps;
use doorbell_sim::snapshot::Snapshot;

use super::paged::{BASE, WINDOW, enter, open_memory, tables};
use super::{KeptOps, Mode};
use crate::machine::Machine;
use crate::overlay::Overlay;
use crate::run::Limits;

const TABLES: u64 = BASE + (2 << 20);
/// Page frames of the window's pages, in order.
const FRAMES: u64 = BASE + (8 << 20);
const PAGES: u64 = 512;

/// `prefetch.r`, `prefetch.w` and `prefetch.i` of 0(t3).
const PREFETCHES: [u32; 3] = [prefetch(1), prefetch(3), prefetch(0)];

const fn prefetch(kind: u32) -> u32 {
    (kind << 20) | (28 << 15) | (6 << 12) | 0x13
}

/// Loop in supervisor mode: accesses at pseudo-random addresses within lines, across lines and across pages,
/// atomics, prefetches, taken and untaken branches, calls, returns, stores to its own code, and translation
/// fences.
fn program() -> Vec<u8> {
    let mut a = Assembler::new(BASE);
    open_memory(&mut a);
    a.li(S0, TABLES);
    tables(&mut a, FRAMES);
    a.li(T1, 1 << 10);
    a.li(T2, PAGES);
    a.label("entry");
    a.sd(T0, S2, 0);
    a.add(T0, T0, T1);
    a.addi(S2, S2, 8);
    a.addi(T2, T2, -1);
    a.bnez(T2, "entry");
    enter(&mut a, "begin");
    a.label("begin");
    a.li(S4, 0x1234_5678_9abc_def1);
    a.label("round");
    // Xorshift.
    for (shift, left) in [(13, true), (7, false), (17, true)] {
        if left {
            a.slli(T0, S4, shift)
        } else {
            a.srli(T0, S4, shift)
        }
        a.xor(S4, S4, T0);
    }
    // Random address in the window, a multiple of 16 bytes.
    a.li(T0, PAGES * 4096 - 16);
    a.and(T1, S4, T0);
    a.li(T3, WINDOW);
    a.add(T3, T3, T1);
    a.ld(T4, T3, 0);
    a.sw(T4, T3, 61);
    a.ld(T5, T3, 5);
    a.sb(T5, T3, 7);
    a.andi(T6, S4, 0x30);
    a.bnez(T6, "no-atomic");
    a.andi(T3, T3, -16);
    a.amoadd(T4, T5, T3);
    a.lr(T4, T3);
    a.sc(T4, T5, T3);
    PREFETCHES.iter().for_each(|word| a.word(*word));
    a.label("no-atomic");
    a.andi(T6, S4, 0x40);
    a.beqz(T6, "no-call");
    a.call("leaf");
    a.label("no-call");
    a.andi(T6, S4, 0x7c0);
    a.bnez(T6, "no-store-to-code");
    a.la(T0, "leaf");
    a.lwu(T4, T0, 0);
    a.sw(T4, T0, 0);
    a.sfence_vma(T3, ZERO);
    a.label("no-store-to-code");
    a.j("round");
    a.fill_to(BASE + 0x1f38);
    a.label("leaf");
    a.addi(T4, T4, 1);
    // Long enough to span several lines.
    for at in 0..24 {
        a.lbu(T4, T3, at);
        a.addi(T4, T4, 1);
    }
    a.ret();
    a.finish()
}

/// Returns the timing models' state after warming, and the number of instructions executed.
fn warmed(set: &[&str], recording: bool) -> (Snapshot, u64) {
    let mut overlay = Overlay::default();
    let all = [
        "platform.nics=0",
        "platform.ram=64MiB",
        "core.model=timed",
        "memory.l2.size=256KiB",
        "memory.llc.size=1MiB",
    ];
    all.iter().chain(set).for_each(|assignment| overlay.set(assignment).unwrap());
    let mut machine = Machine::new(overlay.resolve().unwrap(), 1).unwrap();
    assert!(machine.load_bare(&program()));
    let kept = KeptOps::default();
    if recording {
        machine.record(Some(Box::new(kept.clone())));
    }
    machine.set_mode(Mode::Warming);
    machine.run(&Limits::until(Ps::from_us(200)));
    let mut snapshot = Snapshot::new();
    machine.save_timing(&mut snapshot);
    let done = machine.harts()[0].instructions();
    let stats = machine.timing().unwrap().memory.stats();
    let hart = &stats.harts[0];
    assert!(
        done > 500_000 && hart.l1d.misses > 10_000 && hart.l1d.software_prefetches > 1_000,
        "{done} {hart:?}"
    );
    assert_eq!(!kept.take().is_empty(), recording);
    (snapshot, done)
}

#[test]
fn warming_by_blocks_equals_warming_by_ops() {
    for set in [
        &[][..],
        &["pipeline.kind=in-order", "pipeline.tlb.second_entries=0", "memory.walks=l2"],
        &[
            "memory.l1d.prefetch.kind=stride",
            "memory.l2.prefetch.kind=stream",
            "memory.l1i.prefetch.kind=next-line",
        ],
        &["pipeline.branch.direction=bimodal", "memory.llc.inclusion=exclusive", "memory.llc.slices=4"],
    ] {
        assert_eq!(warmed(set, false), warmed(set, true), "{set:?}");
    }
}
