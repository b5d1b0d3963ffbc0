//! The cost of a software prefetch: a load-queue entry, a load port, and the first-level look-up.

use crate::common::{Program, Simple, assert_books_balance, run, watch};
use doorbell_core::{Core, CoreKind, PipelineConfig};
use doorbell_sim::memory::{AccessKind, Level, Walk};
use doorbell_sim::op::{Op, OpClass};
use doorbell_sim::ports::PhysAddr;

const KINDS: [CoreKind; 2] = [CoreKind::OutOfOrder, CoreKind::InOrder];
/// The address of a line with a latency of 100 cycles.
const FAR: u64 = 0x100000;

fn of(kind: CoreKind) -> PipelineConfig {
    PipelineConfig { kind, ..PipelineConfig::default() }
}

fn prefetch(program: &mut Program, flags: u8, address: u64) {
    let op = program.op(OpClass::Prefetch, 0, [5, 0, 0]);
    (op.virt, op.phys, op.flags) = (address, PhysAddr(address), flags);
}

#[test]
fn a_prefetch_completes_after_the_look_up_not_the_fill() {
    for kind in KINDS {
        let mut program = Program::new();
        program.int(5, 0);
        prefetch(&mut program, 0, FAR);
        let mut core = Core::new(&of(kind));
        let stages = watch(&mut core, &program.ops, &mut Simple::new(100));
        assert_eq!(stages[1].complete - stages[1].issue, 1 + 2, "{kind:?}: address, look-up");
        assert!(stages[1].commit <= stages[1].complete + 1, "{kind:?}");
        assert_eq!(stages[1].level, Some(Level::Dram));
        let counts = core.stats().counts;
        assert_eq!([counts.prefetches, counts.loads, counts.load_cycles], [1, 0, 0]);
        assert_books_balance(&core);
    }
}

#[test]
fn a_prefetch_passes_the_intended_access_kind() {
    let mut program = Program::new();
    let expected = [(0, AccessKind::Load), (Op::WRITES, AccessKind::Store), (Op::CODE, AccessKind::Fetch)];
    expected.iter().for_each(|(flags, _)| prefetch(&mut program, *flags, FAR));
    for kind in KINDS {
        let mut memory = Simple { log: Some(Vec::new()), ..Simple::new(100) };
        run(&of(kind), &program.ops, &mut memory);
        let requests = memory.log.unwrap().into_iter().filter(|(_, access)| access.addr.0 == FAR);
        assert_eq!(
            requests.map(|(_, access)| access.kind).collect::<Vec<_>>(),
            expected.map(|(_, kind)| kind)
        );
    }
}

#[test]
fn prefetches_share_the_load_ports_and_the_load_queue() {
    for kind in KINDS {
        let mut config = of(kind);
        config.units.load_ports = 1;
        let mut program = Program::new();
        (0..400).for_each(|line| prefetch(&mut program, 0, FAR + 64 * line));
        let stages = run(&config, &program.ops, &mut Simple::new(100));
        assert_eq!(stages[350].commit - stages[50].commit, 300, "{kind:?}: one port");
        // In the out-of-order core an entry is occupied from dispatch to the cycle after commit.
        config.units.load_ports = 4;
        config.lq = 1;
        let stages = run(&config, &program.ops, &mut Simple::new(100));
        let held = if kind == CoreKind::OutOfOrder { 1 + 1 + 2 + 1 + 1 } else { 1 + 2 };
        assert_eq!(stages[350].commit - stages[50].commit, 300 * held, "{kind:?}: one entry");
    }
}

#[test]
fn a_prefetch_waits_for_its_address_but_not_for_fences_or_stores() {
    for kind in KINDS {
        let mut program = Program::new();
        program.store(0, 0, FAR + 640);
        program.fence([true; 4]);
        prefetch(&mut program, 0, FAR);
        program.load(6, 0, 0x100);
        let stages = run(&of(kind), &program.ops, &mut Simple::new(100));
        assert!(stages[2].complete < stages[0].written, "{kind:?}");
        assert!(stages[3].issue >= stages[0].written, "{kind:?}: the load does wait");
        let mut program = Program::new();
        program.op(OpClass::IntDiv, 5, [0; 3]);
        prefetch(&mut program, 0, FAR);
        let stages = run(&of(kind), &program.ops, &mut Simple::new(100));
        assert!(stages[1].issue >= stages[0].complete, "{kind:?}: the division produces its address");
    }
}

/// The prefetch itself waits for the walk; younger ops of an in-order core wait only for a load's walk.
#[test]
fn a_prefetch_walk_does_not_delay_younger_ops() {
    let entries = [0x20000, 0x30000, 0x40000, 0, 0].map(PhysAddr);
    let walk = Walk { entries, levels: 3, page_bytes: 4096, ..Walk::default() };
    for kind in KINDS {
        let after = |prefetched: bool| {
            let mut program = Program::new();
            match prefetched {
                true => prefetch(&mut program, 0, FAR),
                false => drop(program.load(6, 5, FAR)),
            }
            program.int(7, 0);
            let mut core = Core::new(&of(kind));
            core.set_address_space(Some(1));
            let stages = watch(&mut core, &program.ops, &mut Simple { walk, ..Simple::new(100) });
            assert_eq!(core.stats().counts.dtlb_misses, 1, "{kind:?}");
            assert!(stages[0].complete - stages[0].issue > 3 * 31, "{kind:?}: three entries are far");
            stages[1].issue.since(stages[0].issue)
        };
        assert!(after(true) <= 1, "{kind:?}");
        assert_eq!(after(false) > 90, kind == CoreKind::InOrder, "{kind:?}");
    }
}
