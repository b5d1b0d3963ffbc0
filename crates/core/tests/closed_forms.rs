//! Closed-form checks: latencies and throughputs that can be computed by hand.

use crate::common::{Program, Simple, assert_books_balance, run, watch};
use doorbell_core::{
    Core, CoreKind, DeviceStores, DirectionPredictor, MemoryDependence, PipelineConfig, Prediction,
    StoreDrain,
};
use doorbell_sim::memory::{CoreAccess, CoreMemory, Level, Prefetched, Served, Walk};
use doorbell_sim::{CoreCycle, Op, OpClass, PhysAddr};

fn wide() -> PipelineConfig {
    PipelineConfig::default()
}

fn in_order() -> PipelineConfig {
    PipelineConfig { kind: CoreKind::InOrder, ..PipelineConfig::default() }
}

/// Cycles from the commit of op `from` to that of op `to`.
fn between(stages: &[doorbell_core::Stages], from: usize, to: usize) -> u64 {
    stages[to].commit - stages[from].commit
}

#[test]
fn a_chain_of_int_ops_takes_one_cycle_per_op() {
    for config in [wide(), in_order()] {
        let mut program = Program::new();
        (0..500).for_each(|_| program.int(5, 5).flags = 0);
        let stages = run(&config, &program.ops, &mut Simple::new(100));
        assert_eq!(between(&stages, 100, 400), 300);
    }
}

#[test]
fn independent_ops_reach_the_width() {
    for (mut config, width) in [(wide(), 4), (in_order(), 4), (wide(), 2), (in_order(), 2)] {
        config.issue_width = width;
        let mut program = Program::new();
        (0..1000).for_each(|place| program.int(1 + (place % 8) as u8, 0).flags = 0);
        let stages = run(&config, &program.ops, &mut Simple::new(100));
        assert_eq!(between(&stages, 100, 900), 800 / u64::from(width));
    }
}

#[test]
fn the_narrowest_stage_limits_throughput() {
    let narrow: [fn(&mut PipelineConfig); 7] = [
        |config| config.fetch_width = 2,
        |config| config.decode_width = 2,
        |config| config.rename_width = 2,
        |config| config.dispatch_width = 2,
        |config| config.writeback_width = 2,
        |config| config.commit_width = 2,
        |config| config.units.alus = 2,
    ];
    for change in narrow {
        let mut config = wide();
        change(&mut config);
        let mut program = Program::new();
        (0..1200).for_each(|place| program.int(1 + (place % 8) as u8, 0).flags = 0);
        let stages = run(&config, &program.ops, &mut Simple::new(100));
        assert_eq!(between(&stages, 400, 1000), 300);
    }
}

#[test]
fn dependent_long_ops_take_their_latency_and_independent_ones_their_interval() {
    for config in [wide(), in_order()] {
        for (class, latency, pace) in [
            (OpClass::IntMul, 3, 1),
            (OpClass::IntDiv, 20, 20),
            (OpClass::FloatFma, 5, 0),
            (OpClass::FloatDiv, 12, 12),
        ] {
            let mut chain = Program::new();
            (0..60).for_each(|_| chain.op(class, 5, [5, 0, 0]).flags = 0);
            assert_eq!(between(&run(&config, &chain.ops, &mut Simple::new(9)), 10, 50), 40 * latency);
            let mut free = Program::new();
            (0..60).for_each(|place| free.op(class, 1 + place, [0; 3]).flags = 0);
            if pace > 0 {
                assert_eq!(
                    between(&run(&config, &free.ops, &mut Simple::new(9)), 10, 50),
                    40 * pace,
                    "{class:?}"
                );
            }
        }
    }
}

#[test]
fn load_to_use_latency_is_address_plus_access() {
    for config in [wide(), in_order()] {
        for (address, access) in [(0x100, 2), (0x100000, 100)] {
            let mut program = Program::new();
            (0..100).for_each(|_| program.load(5, 5, address).flags = 0);
            let stages = run(&config, &program.ops, &mut Simple::new(100));
            let paces = stages.windows(2).map(|pair| pair[1].complete - pair[0].complete);
            assert!(paces.skip(10).all(|pace| pace == access + 1));
        }
    }
}

#[test]
fn overlapping_misses_follow_littles_law() {
    // Independent misses of 100 cycles: the smallest structure limits how many overlap.
    for (rob, lq, iq, overlap) in
        [(32, 68, 120, 32), (64, 68, 120, 64), (128, 16, 120, 16), (128, 68, 120, 68)]
    {
        let config = PipelineConfig { rob, lq, iq, ..wide() };
        let mut program = Program::new();
        (0..6000).for_each(|place| program.load(1 + (place % 8) as u8, 0, 0x100000 + place * 64).flags = 0);
        let stages = run(&config, &program.ops, &mut Simple::new(100));
        let cycles = between(&stages, 1000, 5000);
        // An entry is occupied for 100 cycles of access and four or five more in the pipeline.
        let per_round = cycles as f64 * f64::from(overlap) / 4000.0;
        assert!((103.0..108.0).contains(&per_round), "rob {rob}, lq {lq}: {per_round} cycles per round");
    }
}

/// Dispatch cycles between a load that misses and the op `distance` behind it.
fn dispatch_behind(config: &PipelineConfig, distance: usize, fill: impl Fn(&mut Program)) -> u64 {
    let mut program = Program::new();
    program.load(9, 0, 0x100000);
    for _ in 0..distance {
        fill(&mut program);
    }
    let stages = run(config, &program.ops, &mut Simple::new(500));
    stages[distance].dispatch - stages[0].dispatch
}

#[test]
fn each_full_structure_stalls_dispatch_and_not_one_op_earlier() {
    // The leading load occupies a ROB and an LQ entry and leaves the IQ at once.
    let rob = PipelineConfig { rob: 20, ..wide() };
    let int = |program: &mut Program| program.int(1, 2).flags = 0;
    assert!(dispatch_behind(&rob, 19, int) < 20);
    assert!(dispatch_behind(&rob, 20, int) > 500);

    let iq = PipelineConfig { iq: 20, ..wide() };
    let waiting = |program: &mut Program| program.int(1, 9).flags = 0;
    assert!(dispatch_behind(&iq, 20, waiting) < 20);
    assert!(dispatch_behind(&iq, 21, waiting) > 499);

    let lq = PipelineConfig { lq: 20, ..wide() };
    let load = |program: &mut Program| program.load(1, 2, 0x100).flags = 0;
    assert!(dispatch_behind(&lq, 19, load) < 20);
    assert!(dispatch_behind(&lq, 20, load) > 500);

    let sq = PipelineConfig { sq: 20, ..wide() };
    let store = |program: &mut Program| program.store(2, 3, 0x100).flags = 0;
    assert!(dispatch_behind(&sq, 20, store) < 40);
    assert!(dispatch_behind(&sq, 21, store) > 500);

    let ints = PipelineConfig { int_registers: 52, ..wide() };
    assert!(dispatch_behind(&ints, 19, int) < 20);
    assert!(dispatch_behind(&ints, 20, int) > 500);
    let floats = PipelineConfig { float_registers: 52, ..wide() };
    let float = |program: &mut Program| program.op(OpClass::FloatAdd, 40, [41, 0, 0]).flags = 0;
    assert!(dispatch_behind(&floats, 20, float) < 20);
    assert!(dispatch_behind(&floats, 21, float) > 500);
}

#[test]
fn a_rob_entry_is_free_in_the_cycle_after_commit() {
    let config = PipelineConfig { rob: 20, ..wide() };
    let mut program = Program::new();
    program.load(9, 0, 0x100000);
    (0..40).for_each(|_| program.int(1, 2).flags = 0);
    let stages = run(&config, &program.ops, &mut Simple::new(500));
    assert_eq!(stages[20].dispatch, stages[0].commit + 1);
}

#[test]
fn a_covering_store_forwards_and_a_partial_one_delays_the_load() {
    let mut program = Program::new();
    (0..40).for_each(|_| program.int(1, 0).flags = 0);
    program.store(0, 0, 0x208);
    program.load(1, 0, 0x208);
    program.load(2, 0, 0x20c).size = 4;
    program.load(3, 0, 0x204);
    program.load(4, 0, 0x210);
    let config = wide();
    let mut core = Core::new(&config);
    let stages = watch(&mut core, &program.ops, &mut Simple::new(100));
    let [store, covered, part, straddling, apart] = [40, 41, 42, 43, 44].map(|index| stages[index]);
    assert_eq!(covered.complete, covered.issue + 1 + u64::from(config.forward_cycles));
    assert_eq!(part.complete, part.issue + 1 + u64::from(config.forward_cycles));
    assert_eq!(straddling.complete, store.written + 2, "it reads the cache after the store is written");
    assert_eq!(apart.complete, apart.issue + 3);
    let counts = core.stats().counts;
    assert_eq!([counts.forwards, counts.forwards_blocked, counts.replays], [2, 1, 0]);
}

#[test]
fn forwarding_waits_for_the_stores_data() {
    let mut program = Program::new();
    program.load(5, 0, 0x100000);
    program.store(0, 5, 0x208);
    program.load(1, 0, 0x208);
    let stages = run(&wide(), &program.ops, &mut Simple::new(300));
    assert_eq!(stages[2].complete, stages[0].complete + 2);
}

/// A loop in which a load reads the data of a preceding store whose address is late.
fn violating(rounds: usize) -> Program {
    let mut program = Program::new();
    for _ in 0..rounds {
        program.pc = 0x1000;
        program.op(OpClass::IntMul, 5, [6, 0, 0]);
        program.store(5, 0, 0x208);
        program.load(1, 0, 0x208);
        program.int(2, 1);
        program.branch(OpClass::Jump, 0, true, 0x1000);
    }
    program
}

#[test]
fn a_load_waits_after_its_first_memory_order_violation() {
    let program = violating(200);
    let mut core = Core::new(&wide());
    let stages = watch(&mut core, &program.ops, &mut Simple::new(100));
    let counts = core.stats().counts;
    assert!((1..=3).contains(&counts.replays), "{}", counts.replays);
    assert!(stages[2].replayed && !stages[502].replayed);
    assert!(stages[2].dispatch > stages[1].complete - 1, "refetched after the store's address is known");
    let books = core.stats().books;
    assert!(books.slots_clear >= 4 * 5 && books.cpi_clear > 0, "{books:?}");
    assert_books_balance(&core);
    for dependence in [MemoryDependence::Wait, MemoryDependence::Perfect] {
        let mut core = Core::new(&PipelineConfig { memory_dependence: dependence, ..wide() });
        watch(&mut core, &program.ops, &mut Simple::new(100));
        assert_eq!(core.stats().counts.replays, 0);
        // A violating load that executes again reads the store's data from the cache, not by forwarding.
        assert_eq!(core.stats().counts.forwards, counts.forwards + counts.replays);
    }
}

#[test]
fn independent_loads_pass_stores_unless_the_policy_is_wait() {
    let mut program = Program::new();
    program.load(5, 0, 0x100000);
    program.store(5, 0, 0x208);
    program.load(1, 0, 0x308);
    let ahead = run(&wide(), &program.ops, &mut Simple::new(300));
    assert!(ahead[2].complete < ahead[0].complete);
    let config = PipelineConfig { memory_dependence: MemoryDependence::Wait, ..wide() };
    let waits = run(&config, &program.ops, &mut Simple::new(300));
    assert_eq!(waits[2].issue, waits[0].complete + 1, "when the store's address is known");
}

#[test]
fn a_misprediction_refills_the_front_end_after_resolution() {
    for (config, tail) in [(wide(), 1), (in_order(), 0)] {
        let mut program = Program::new();
        (0..40).for_each(|_| program.int(1, 0).flags = 0);
        // Never executed, so predicted not taken; it waits for a multiplication.
        program.op(OpClass::IntMul, 5, [1, 0, 0]);
        program.branch(OpClass::Branch, 5, true, 0x1400);
        program.int(2, 0);
        let mut core = Core::new(&config);
        let stages = watch(&mut core, &program.ops, &mut Simple::new(100));
        assert_eq!(stages[41].prediction, Prediction::WrongDirection);
        let refetch = stages[41].complete + u64::from(config.redirect_cycles);
        assert_eq!(stages[42].fetch, refetch);
        let dispatch = refetch + 1 + u64::from(config.front_end_depth);
        assert_eq!(stages[42].dispatch, dispatch);
        assert_eq!(stages[42].issue, dispatch + tail);
        // All slots between its dispatch and the next op's are charged to the branch.
        let books = core.stats().books;
        let slots = u64::from(config.slots());
        let lost = slots * (dispatch - stages[41].dispatch);
        assert!(books.slots_branch < lost && books.slots_branch >= lost - slots, "{lost} {books:?}");
        assert_books_balance(&core);
    }
}

#[test]
fn a_taken_branch_ends_the_fetch_group() {
    // Loops of two ops: two per cycle; of five ops: five in two cycles.
    for (body, cycles) in [(2, 1), (5, 2), (8, 2), (9, 3)] {
        let mut program = Program::new();
        for _ in 0..300 {
            (1..body).for_each(|_| program.int(1, 0).flags = 0);
            program.branch(OpClass::Jump, 0, true, 0x1000);
        }
        let mut core = Core::new(&wide());
        let stages = watch(&mut core, &program.ops, &mut Simple::new(100));
        assert_eq!(between(&stages, 100 * body, 200 * body), 100 * cycles, "{body} ops");
        assert_books_balance(&core);
    }
}

#[test]
fn the_decoder_redirects_a_jump_missing_in_the_btb() {
    let config = wide();
    let mut program = Program::new();
    program.branch(OpClass::Jump, 0, true, 0x1400);
    program.int(1, 0);
    let stages = run(&config, &program.ops, &mut Simple::new(100));
    assert_eq!(stages[0].prediction, Prediction::Misfetched);
    // It arrives one cycle after its fetch.
    assert_eq!(stages[1].fetch, stages[0].fetch + 1 + u64::from(config.misfetch_cycles));
}

#[test]
fn a_learnt_pattern_has_no_mispredictions() {
    for direction in [DirectionPredictor::Bimodal, DirectionPredictor::BiMode, DirectionPredictor::Tage] {
        let mut config = wide();
        config.branch.direction = direction;
        let mut program = Program::new();
        for round in 0..2000 {
            program.pc = 0x1000;
            let taken = round % 3 == 0;
            program.branch(OpClass::Branch, 0, taken, 0x1010);
            program.pc = 0x1010;
            program.int(1, 0);
            program.branch(OpClass::Jump, 0, true, 0x1000);
        }
        let mut core = Core::new(&config);
        watch(&mut core, &program.ops[..3000], &mut Simple::new(100));
        let learnt = core.stats().counts.wrong_directions;
        watch(&mut core, &program.ops[3000..], &mut Simple::new(100));
        let wrong = core.stats().counts.wrong_directions - learnt;
        match direction {
            DirectionPredictor::Bimodal => assert!((300..700).contains(&wrong), "{wrong}"),
            _ => assert_eq!(wrong, 0),
        }
    }
}

#[test]
fn fetch_runs_ahead_of_icache_misses_up_to_the_fetch_queue() {
    let mut program = Program::new();
    program.pc = 0x400_0000;
    (0..320).for_each(|_| program.int(1, 0).flags = 0);
    // Sixteen instructions per line, four per cycle. With a small queue, each queue length of ops costs a
    // miss of 80 cycles plus 6 to dispatch; with a large one, a line takes four cycles.
    for (fetch_queue, cycles) in [(16, 8 * 86), (32, 4 * 86), (64, 2 * 86), (512, 8 * 4)] {
        let mut core = Core::new(&PipelineConfig { fetch_queue, ..wide() });
        let mut memory = Simple { far: 80, ..Simple::default() };
        let stages = watch(&mut core, &program.ops, &mut memory);
        assert_eq!(between(&stages, 64, 192), cycles, "{fetch_queue}");
        let stats = core.stats();
        assert_eq!(stats.counts.fetched_lines_missed, 20);
        // The stall slots are charged to the instruction cache.
        let waits = (320 / u64::from(fetch_queue)).max(1);
        let books = &stats.books;
        assert!(books.cpi_icache > waits * 70 && books.slots_icache > waits * 70 * 4, "{waits}: {books:?}");
        assert_books_balance(&core);
    }
}

/// Consecutive stores to lines that miss: cycles from the first commit until the last is written.
fn drain_time(config: &PipelineConfig, lines: u64, each: u64) -> u64 {
    let mut program = Program::new();
    for line in 0..lines {
        (0..each).for_each(|place| program.store(0, 0, 0x100000 + line * 64 + place * 8).flags = 0);
    }
    let stages = run(config, &program.ops, &mut Simple::new(100));
    stages.last().unwrap().written - stages[0].commit
}

#[test]
fn store_misses_overlap_up_to_drains_in_flight() {
    for (in_flight, drain) in
        [(1, StoreDrain::InOrder), (4, StoreDrain::InOrder), (4, StoreDrain::OutOfOrder)]
    {
        let config = PipelineConfig { drains_in_flight: in_flight, store_drain: drain, ..wide() };
        let time = drain_time(&config, 24, 1);
        let rounds = 24 / u64::from(in_flight);
        assert!((rounds * 100..rounds * 100 + 10).contains(&time), "{in_flight} in flight: {time}");
    }
    // Eight stores to one line are one write.
    let config = PipelineConfig { drains_in_flight: 2, ..wide() };
    let time = drain_time(&config, 10, 8);
    assert!((500..600).contains(&time), "{time}");
}

#[test]
fn a_store_hit_passes_a_miss_only_with_out_of_order_drain() {
    for (drain, past) in [(StoreDrain::InOrder, false), (StoreDrain::OutOfOrder, true)] {
        let mut program = Program::new();
        program.store(0, 0, 0x100000);
        program.store(0, 0, 0x100);
        let stages =
            run(&PipelineConfig { store_drain: drain, ..wide() }, &program.ops, &mut Simple::new(100));
        assert_eq!(stages[1].written < stages[0].written, past);
    }
}

#[test]
fn a_fence_orders_only_its_predecessor_and_successor_sets() {
    // A store that misses, a fence, a load that hits: the load waits only if the fence orders stores before
    // loads.
    for config in [wide(), in_order()] {
        for (set, waits) in [
            ([false, true, true, false], true),
            ([true, true, true, true], true),
            ([true, false, true, true], false),
            ([false, true, false, true], false),
        ] {
            let mut program = Program::new();
            program.store(0, 0, 0x100000);
            program.fence(set);
            program.load(1, 0, 0x100);
            let stages = run(&config, &program.ops, &mut Simple::new(100));
            assert_eq!(stages[2].issue >= stages[0].written, waits, "{set:?}");
            if waits {
                assert_eq!(stages[2].issue, stages[0].written);
            }
        }
        // A load that misses, a fence, a store: the store is written after the load only if the fence orders
        // them.
        for (set, waits) in [([true, false, false, true], true), ([false, true, false, true], false)] {
            let mut program = Program::new();
            program.load(1, 0, 0x100000);
            program.fence(set);
            program.load(2, 0, 0x100);
            program.store(0, 0, 0x200);
            let stages = run(&config, &program.ops, &mut Simple::new(400));
            let late = stages[3].written > stages[0].complete + 1;
            let committed_late = stages[3].commit > stages[0].complete;
            assert_eq!(late, waits || committed_late, "{set:?}");
        }
    }
}

#[test]
fn an_atomic_executes_at_the_head_after_all_stores() {
    for config in [wide(), in_order()] {
        let mut program = Program::new();
        program.store(0, 0, 0x100000);
        program.int(1, 0);
        let op = program.op(OpClass::Atomic, 2, [0, 1, 0]);
        (op.virt, op.phys, op.size, op.flags) = (0x300, PhysAddr(0x300), 8, Op::WRITES);
        program.load(3, 0, 0x300);
        let stages = run(&config, &program.ops, &mut Simple::new(100));
        assert_eq!(stages[2].issue, stages[0].written);
        assert_eq!(stages[2].complete, stages[2].issue + 3);
        assert!(stages[3].complete > stages[2].complete, "it reads the atomic's result");
    }
}

#[test]
fn serialising_ops_drain_the_window() {
    let mut program = Program::new();
    program.load(1, 0, 0x100000);
    program.op(OpClass::Serialising, 2, [0; 3]);
    program.int(3, 0);
    let mut core = Core::new(&wide());
    let stages = watch(&mut core, &program.ops, &mut Simple::new(100));
    assert_eq!(stages[1].dispatch, stages[0].commit + 1);
    assert_eq!(stages[2].dispatch, stages[1].commit + 1);
    assert!(core.stats().books.slots_serialise > 0);
    let stages = run(&in_order(), &program.ops, &mut Simple::new(100));
    assert_eq!(stages[1].issue, stages[0].complete);
    assert_eq!(stages[2].issue, stages[1].complete);
}

/// A device access.
fn device(flags: u8, destination: u8) -> Op {
    Op {
        class: OpClass::Device,
        pc: 0x1008,
        fetch: PhysAddr(0x1008),
        length: 4,
        virt: 0x4000_0000,
        size: 4,
        destination,
        flags,
        ..Op::default()
    }
}

/// A core that has just committed a store that misses.
fn with_a_store_that_misses(config: &PipelineConfig) -> (Simple, Core, doorbell_core::Stages) {
    let (mut memory, mut core) = (Simple::new(100), Core::new(config));
    let mut program = Program::new();
    program.store(0, 0, 0x100000);
    let store = watch(&mut core, &program.ops, &mut memory)[0];
    (memory, core, store)
}

#[test]
fn a_device_access_leaves_at_the_window_head_and_delays_its_users() {
    for config in [wide(), in_order()] {
        let (mut memory, mut core, before) = with_a_store_that_misses(&config);
        let doorbell = device(Op::WRITES, 0);
        // A device store does not wait for an older store to memory...
        let sent = core.begin_device(&doorbell, &mut memory);
        assert!(sent > before.commit && sent < before.written);
        core.end_device(&doorbell, [sent + 3; 2]);
        assert_eq!(core.now(), sent + 4);
        // ...but it does after a fence.
        let mut program = Program::new();
        program.store(0, 0, 0x300000);
        program.fence([false, true, false, true]);
        let ordered = watch(&mut core, &program.ops, &mut memory);
        let sent = core.begin_device(&doorbell, &mut memory);
        assert_eq!(sent, ordered[0].written + 1);
        core.end_device(&doorbell, [sent; 2]);
        // A load completes when the device answers, whatever the latency.
        let status = device(0, 7);
        let sent = core.begin_device(&status, &mut memory);
        core.end_device(&status, [sent + 2000; 2]);
        let mut program = Program::new();
        program.int(8, 7);
        let user = watch(&mut core, &program.ops, &mut memory);
        assert_eq!(user[0].complete, sent + 2001);
        let stats = core.stats();
        assert_eq!(stats.counts.device_accesses, 3);
        assert!(stats.books.cpi_device >= 1990, "{:?}", stats.books);
        assert_books_balance(&core);
    }
}

#[test]
fn stores_after_an_ordered_doorbell_wait_for_its_acknowledgement() {
    const ACKNOWLEDGED: u64 = 5000;
    for config in [wide(), in_order()] {
        let config = PipelineConfig { device_stores: DeviceStores::Ordered, sq: 8, ..config };
        let (mut memory, mut core, before) = with_a_store_that_misses(&config);
        let doorbell = device(Op::WRITES, 0);
        let sent = core.begin_device(&doorbell, &mut memory);
        assert_eq!(sent, before.written + 1, "it does not pass the older store");
        core.end_device(&doorbell, [sent, sent + ACKNOWLEDGED]);
        assert_eq!(core.now(), sent + 1, "the pipeline continues");
        // Seven stores have entries and are written after the acknowledgement; a load passes them all.
        let mut program = Program::new();
        for i in 1..=7 {
            program.store(0, 0, 0x100000 + 8 * i);
        }
        program.load(7, 0, 0x200000);
        let behind = watch(&mut core, &program.ops, &mut memory);
        assert!(behind[..7].iter().all(|store| store.commit < sent + 200), "{behind:?}");
        assert!(behind[..7].iter().all(|store| store.written > sent + ACKNOWLEDGED), "{behind:?}");
        assert!(behind[7].complete < sent + 400, "{:?}", behind[7]);
        // The next store waits for the doorbell's entry, and so does another doorbell.
        let mut program = Program::new();
        program.store(0, 0, 0x100000);
        let full = watch(&mut core, &program.ops, &mut memory);
        assert!(full[0].commit >= sent + ACKNOWLEDGED, "{full:?}");
        let again = core.begin_device(&doorbell, &mut memory);
        assert!(again > full[0].written);
        core.end_device(&doorbell, [again; 2]);
        let books = core.stats().books;
        assert!(books.cpi_store >= ACKNOWLEDGED - 500, "{books:?}");
        assert_books_balance(&core);
    }
}

#[test]
fn a_trap_flushes_younger_instructions() {
    for config in [wide(), in_order()] {
        let mut core = Core::new(&config);
        let mut program = Program::new();
        (0..40).for_each(|_| program.int(1, 0).flags = 0);
        watch(&mut core, &program.ops, &mut Simple::new(100));
        let now = core.now();
        core.trap();
        let mut handler = Program::new();
        handler.int(2, 0);
        let stages = watch(&mut core, &handler.ops, &mut Simple::new(100));
        assert_eq!(stages[0].fetch, now + u64::from(config.trap_cycles));
        let stats = core.stats();
        assert_eq!(stats.counts.traps, 1);
        assert!(stats.books.slots_clear > 0 && stats.books.cpi_clear > 0, "{:?}", stats.books);
        assert_books_balance(&core);
    }
}

#[test]
fn waiting_for_an_interrupt_is_idle_time() {
    for config in [wide(), in_order()] {
        let mut core = Core::new(&config);
        let mut program = Program::new();
        (0..40).for_each(|_| program.int(1, 0).flags = 0);
        watch(&mut core, &program.ops, &mut Simple::new(100));
        let now = core.now();
        core.skip_to(now);
        let woken = CoreCycle::new(3_000_000);
        core.skip_to(woken);
        assert_eq!(core.now(), woken);
        let stages = watch(&mut core, &program.ops, &mut Simple::new(100));
        assert_eq!(stages[0].fetch, woken);
        let books = core.stats().books;
        assert_eq!(books.cpi_idle, woken - now);
        assert_eq!(books.slots_idle, u64::from(config.slots()) * (woken - now));
        assert_books_balance(&core);
    }
}

/// A memory in which everything hits in 2 cycles and page-table entries take 10; 4 KiB pages, three levels.
#[derive(Default)]
struct Paged {
    walks: Vec<(CoreCycle, PhysAddr)>,
    /// Page faults of each walk.
    faults: u8,
}

impl CoreMemory for Paged {
    fn access(&mut self, cycle: CoreCycle, access: CoreAccess) -> Served {
        if access.kind == doorbell_sim::memory::AccessKind::Walk {
            self.walks.push((cycle, access.addr));
            return Served { at: cycle + 10, level: Level::L2 };
        }
        Served { at: cycle + 2, level: Level::L1 }
    }

    fn prefetch(&mut self, cycle: CoreCycle, _: CoreAccess) -> Prefetched {
        Prefetched { at: cycle + 2, level: Some(Level::L1) }
    }

    fn walk(&mut self, virt: u64) -> Walk {
        let entry = |level: u32| PhysAddr(0x10000 * u64::from(level + 1) + (virt >> (30 - 9 * level)) * 8);
        Walk {
            entries: [entry(0), entry(1), entry(2), PhysAddr(0), PhysAddr(0)],
            levels: 3,
            page_bytes: 4096,
            faults: self.faults,
        }
    }
}

#[test]
fn each_page_fault_of_a_walk_adds_the_penalty() {
    let mut config = wide();
    config.tlb.fault_cycles = 200;
    let mut program = Program::new();
    program.load(1, 1, 0x100 << 12);
    let took = [0, 1, 6].map(|faults| {
        let mut core = Core::new(&config);
        let mut took = 0;
        let mut memory = Paged { faults, ..Paged::default() };
        core.execute_observed(&program.ops, &mut memory, &mut |_: &Op, stages: &doorbell_core::Stages| {
            took = stages.complete - stages.issue;
        });
        took
    });
    assert_eq!([took[1] - took[0], took[2] - took[0]], [200, 1200]);
}

#[test]
fn a_page_walk_reads_only_entries_missing_in_the_walk_cache() {
    let config = wide();
    let mut core = Core::new(&config);
    let mut memory = Paged::default();
    let mut seen = Vec::new();
    let mut program = Program::new();
    for page in [0x100u64, 0x101, 0x100, 0x40000] {
        program.load(1, 1, page << 12);
    }
    core.execute_observed(&program.ops, &mut memory, &mut |_: &Op, stages: &doorbell_core::Stages| {
        seen.push(*stages)
    });
    let cost = |index: usize| seen[index].complete - seen[index].issue;
    let second = u64::from(config.tlb.second_cycles);
    // Address, second level, entries, access. The first page's data and the code share the two upper entries.
    assert_eq!([cost(0), cost(1), cost(2)], [1 + second + 10 + 2, 1 + second + 10 + 2, 3]);
    assert_eq!(cost(3), 1 + second + 30 + 2);
    let counts = core.stats().counts;
    assert_eq!(
        [counts.itlb_misses, counts.dtlb_misses, counts.walks, counts.walk_accesses],
        [1, 3, 4, 3 + 1 + 1 + 3]
    );
    assert!(core.stats().books.cpi_dtlb > 0);
    core.flush_tlb(None, None);
    core.execute(&program.ops[..1], &mut memory);
    assert_eq!(core.stats().counts.walk_accesses, 8 + 3 + 1, "a flush empties the walk cache");
    core.set_address_space(Some(7));
    core.execute(&program.ops[..1], &mut memory);
    assert_eq!(core.stats().counts.walks, 4 + 2 + 2, "another address space has its own translations");
    core.set_address_space(None);
    core.flush_tlb(None, None);
    core.execute(&program.ops, &mut memory);
    assert_eq!(core.stats().counts.walks, 8, "physical addresses are not translated");
    assert_books_balance(&core);
}

#[test]
fn warmed_predictors_and_tlbs_have_no_misses() {
    let mut program = Program::new();
    for _ in 0..50 {
        program.pc = 0x1000;
        program.load(1, 0, 0x5000);
        program.branch(OpClass::Branch, 0, true, 0x1010);
        program.branch(OpClass::Jump, 0, true, 0x1000);
    }
    for config in [wide(), in_order()] {
        let mut core = Core::new(&config);
        let mut paged = Paged::default();
        let mut learning = core.learning();
        for op in &program.ops {
            learning.fetch(op.pc, |virt| paged.walk(virt));
            match op.class {
                OpClass::Load => learning.data(op.virt, |virt| paged.walk(virt)),
                _ => learning.branch(op),
            }
        }
        assert_eq!((core.now(), core.stats().counts.ops), (CoreCycle::ZERO, 0));
        core.execute(&program.ops, &mut Paged::default());
        let counts = core.stats().counts;
        assert_eq!(counts.walks + counts.dtlb_misses + counts.itlb_misses, 0);
        assert_eq!(counts.wrong_directions + counts.misfetches, 0);
    }
}

#[test]
fn an_in_order_core_stalls_on_use_not_on_a_miss() {
    let mut program = Program::new();
    program.load(1, 0, 0x100000);
    (0..8).for_each(|_| program.int(2, 0).flags = 0);
    program.int(3, 1);
    let stages = run(&in_order(), &program.ops, &mut Simple::new(100));
    assert!(stages[8].issue < stages[0].issue + 10);
    assert_eq!(stages[9].issue, stages[0].complete);
}

/// Share of the slots of a long repetitive program that `which` selects.
fn share(
    config: &PipelineConfig,
    build: impl Fn(&mut Program, u64),
    which: impl Fn(&doorbell_core::Books) -> u64,
) -> f64 {
    let mut core = Core::new(config);
    let mut program = Program::new();
    (0..4000).for_each(|place| build(&mut program, place));
    watch(&mut core, &program.ops, &mut Simple::new(200));
    assert_books_balance(&core);
    let books = core.stats().books;
    which(&books) as f64 / books.top_down().total() as f64
}

#[test]
fn cycle_accounting_names_the_bottleneck() {
    type Case = (&'static str, fn(&mut Program, u64), fn(&doorbell_core::Books) -> u64);
    let cases: [Case; 10] = [
        ("width", |p, n| p.int(1 + (n % 8) as u8, 0).flags = 0, |b| b.slots_retiring),
        ("a pointer chase in memory", |p, n| p.load(5, 5, 0x100000 + n * 64).flags = 0, |b| b.slots_dram),
        // A load takes three cycles; one of their slots retires.
        (
            "a pointer chase in the cache",
            |p, _| p.load(5, 5, 0x100).flags = 0,
            |b| b.slots_l1 + b.slots_retiring,
        ),
        ("a chain of divisions", |p, _| p.op(OpClass::IntDiv, 5, [5, 0, 0]).flags = 0, |b| b.slots_divider),
        (
            "divisions limited by the dividers",
            |p, n| p.op(OpClass::FloatDiv, 1 + (n % 8) as u8, [0; 3]).flags = 0,
            |b| b.slots_divider,
        ),
        (
            "a chain of multiplications",
            |p, _| p.op(OpClass::IntMul, 5, [5, 0, 0]).flags = 0,
            |b| b.slots_execute + b.slots_retiring,
        ),
        (
            "multiplications limited by the multipliers",
            |p, n| p.op(OpClass::IntMul, 1 + (n % 8) as u8, [0; 3]).flags = 0,
            |b| b.slots_ports + b.slots_retiring,
        ),
        ("stores that miss", |p, n| p.store(0, 0, 0x100000 + n * 64).flags = 0, |b| b.slots_store),
        (
            "serialising ops",
            |p, _| p.op(OpClass::Serialising, 5, [0; 3]).flags = 0,
            |b| b.slots_serialise + b.slots_retiring,
        ),
        (
            "indirect jumps to new targets",
            |p, n| p.branch(OpClass::IndirectJump, 0, true, 0x1000 + n * 2654435761 % 8192 * 4).size = 0,
            |b| b.slots_branch,
        ),
    ];
    for (name, build, which) in cases {
        for config in [wide(), in_order()] {
            let share = share(&config, build, which);
            assert!(share > 0.85, "{name}, {:?}: {share}", config.kind);
        }
    }
}
