//! SMT threads: the cost of sharing in closed form, and properties of all programs.

use crate::common::{Program, Simple, block, feed, random_config, random_ops, run, turn, watch};
use doorbell_core::{Books, Core, CoreState, PipelineConfig, Stages};
use doorbell_sim::rng::Rng;
use doorbell_sim::stats::Stats;
use doorbell_sim::{CoreCycle, Op};
use proptest::prelude::*;

/// A chain of loads that hit: a latency-bound thread.
fn chain() -> Vec<Op> {
    let mut program = Program::new();
    (0..4000).for_each(|_| program.load(5, 5, 0x100).flags = 0);
    program.ops
}

/// Independent ops, with a branch at the end of each block of `block` ops; 0 for none.
fn wide(block: usize) -> Vec<Op> {
    let mut program = Program::new();
    for place in 0..8000 {
        if block > 0 && place % block == block - 1 {
            program.branch(doorbell_sim::op::OpClass::Branch, 0, false, 0x1000);
        } else {
            program.int(1 + (place % 8) as u8, 0).flags = 0;
        }
    }
    program.ops
}

/// Ops per cycle in steady state.
fn pace(stages: &[Stages]) -> f64 {
    let first = stages.len() / 4;
    let cycles = stages.last().unwrap().commit - stages[first].commit;
    (stages.len() - 1 - first) as f64 / cycles as f64
}

fn both(config: &PipelineConfig, programs: [&[Op]; 2]) -> [f64; 2] {
    let seen = feed(&mut Core::threads(config), programs, &mut Simple::new(100));
    [0, 1].map(|thread: usize| pace(&seen[thread]))
}

fn run_alone(config: &PipelineConfig, program: &[Op]) -> f64 {
    pace(&run(config, program, &mut Simple::new(100)))
}

#[test]
fn two_latency_bound_threads_double_the_throughput() {
    let config = PipelineConfig::default();
    let one = run_alone(&config, &chain());
    let two = both(&config, [&chain(), &chain()]);
    assert!((one * 3.0 - 1.0).abs() < 0.001, "{one}");
    assert!(two.iter().all(|pace| (pace / one - 1.0).abs() < 0.001), "{two:?}, alone {one}");
}

#[test]
fn two_width_bound_threads_get_half_the_width_each() {
    let config = PipelineConfig::default();
    assert!((run_alone(&config, &wide(0)) - 4.0).abs() < 0.01);
    for blocks in [[0, 0], [8, 8], [4, 16], [16, 4], [4, 0]] {
        let two = both(&config, blocks.map(wide).each_ref().map(|ops| &ops[..]));
        assert!(two.iter().all(|pace| (pace - 2.0).abs() < 0.05), "{blocks:?}: {two:?}");
    }
}

#[test]
fn a_width_bound_thread_gets_the_slots_a_latency_bound_one_leaves() {
    let config = PipelineConfig::default();
    let (chain, wide) = (chain(), wide(0));
    let [slow, fast] = both(&config, [&chain, &wide]);
    // The chain needs one group of four loads per twelve cycles.
    assert!((slow - 1.0 / 3.0).abs() < 0.01, "{slow}");
    assert!((fast - (4.0 - 1.0 / 3.0)).abs() < 0.05, "{fast}");
}

#[test]
fn two_unit_bound_threads_get_half_the_unit_each() {
    let config = PipelineConfig::default();
    let loads = |base: u64| {
        let mut program = Program::new();
        (0..4000).for_each(|place| program.load(1 + (place % 8) as u8, 0, base + place % 8 * 8).flags = 0);
        program.ops
    };
    let (one, two) = (run_alone(&config, &loads(0)), both(&config, [&loads(0), &loads(0x200)]));
    assert!((one - 2.0).abs() < 0.002, "two ports: {one}");
    assert!(two.iter().all(|pace| (pace - 1.0).abs() < 0.03), "{two:?}");
}

#[test]
fn misses_overlap_within_each_threads_half_of_the_window() {
    let config = PipelineConfig { rob: 64, ..PipelineConfig::default() };
    let mut program = Program::new();
    (0..4000).for_each(|place| program.load(1 + (place % 8) as u8, 0, 0x100000 + place * 64).flags = 0);
    let (one, two) = (run_alone(&config, &program.ops), both(&config, [&program.ops, &program.ops]));
    assert!(two.iter().all(|pace| (pace * 2.0 / one - 1.0).abs() < 0.02), "{two:?}, alone {one}");
}

#[test]
fn a_thread_with_a_sleeping_sibling_runs_like_a_single_core() {
    for case in 0..40 {
        let mut rng = Rng::stream(case, "alone");
        let mut config = partitionable(random_config(&mut rng));
        // A sleeping thread keeps its registers.
        (config.int_registers, config.float_registers) = (256, 256);
        let ops = random_ops(&mut rng, 400, true);
        let (mut single, mut memory) = (Core::new(&config), Simple::default());
        let expected = watch(&mut single, &ops, &mut memory);
        let mut threads = Core::threads(&config);
        let (mut seen, mut rest) = (Vec::new(), &ops[..]);
        while !rest.is_empty() {
            let ops = block(rest);
            rest = &rest[ops.len()..];
            seen.extend(watch(turn(&mut threads, 1, true), ops, &mut memory));
        }
        assert_eq!(seen, expected, "case {case}");
        let [sleeper, alone] = &threads;
        let stats = alone.stats_with_sibling(sleeper, [false, true], alone.now());
        assert_eq!(stats, single.stats(), "case {case}");
    }
}

/// Enlarges a configuration so that its resources can be partitioned.
fn partitionable(mut config: PipelineConfig) -> PipelineConfig {
    for (size, least) in [(&mut config.rob, 2), (&mut config.lq, 2), (&mut config.sq, 2), (&mut config.iq, 8)]
    {
        *size = (*size).max(least);
    }
    config.int_registers += 34;
    config.float_registers += 34;
    config
}

/// The cycle accounts of both threads up to a cycle.
fn books(threads: &[Core; 2], sleep: [bool; 2], cycle: CoreCycle) -> [Books; 2] {
    let [first, second] = threads;
    [
        first.stats_with_sibling(second, sleep, cycle).books,
        second.stats_with_sibling(first, [sleep[1], sleep[0]], cycle).books,
    ]
}

/// Random programs on two threads that sleep, trap and change address spaces.
struct Shaken {
    threads: [Core; 2],
    programs: [Vec<Op>; 2],
    done: [usize; 2],
    asleep: [bool; 2],
    /// The latest cycle whose accounts were read.
    now: CoreCycle,
    memory: Simple,
    rng: Rng,
}

impl Shaken {
    fn new(seed: u64) -> Shaken {
        let mut rng = Rng::stream(seed, "shaken");
        let config = partitionable(random_config(&mut rng));
        Shaken {
            threads: Core::threads(&config),
            programs: [0; 2].map(|_| random_ops(&mut rng, 400, true)),
            done: [0; 2],
            asleep: [false; 2],
            now: CoreCycle::ZERO,
            memory: Simple::default(),
            rng,
        }
    }

    /// Runs one block of one thread; returns none if its program has ended.
    fn step(&mut self) -> Option<Vec<Stages>> {
        let thread = match self.asleep {
            [false, false] => usize::from(self.threads[1].clock() < self.threads[0].clock()),
            [first, _] => usize::from(first),
        };
        let ops = block(&self.programs[thread][self.done[thread]..]).to_vec();
        if ops.is_empty() {
            return None;
        }
        self.done[thread] += ops.len();
        let own = turn(&mut self.threads, thread, self.asleep[1 - thread]);
        let stages = watch(own, &ops, &mut self.memory);
        match self.rng.below(12) {
            0 => own.trap(),
            1 => own.set_address_space(Some(3)),
            2 => own.flush_tlb(None, None),
            3 if !self.asleep[1 - thread] => self.asleep[thread] = true,
            4 if self.asleep[1 - thread] => {
                let wakes = own.clock().max(self.now) + self.rng.below(300);
                self.asleep[1 - thread] = false;
                turn(&mut self.threads, 1 - thread, false).skip_to(wakes);
            }
            _ => {}
        }
        Some(stages)
    }

    fn books(&mut self) -> [Books; 2] {
        // The cycle at which a sleeping thread could be woken now.
        let now = if self.asleep[0] { self.threads[1].clock() } else { self.threads[0].clock() };
        self.now = self.now.max(now);
        books(&self.threads, self.asleep, self.now)
    }
}

fn slots(books: &Books) -> u64 {
    books.top_down().total() + books.slots_idle
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn each_slot_belongs_to_exactly_one_thread(seed in any::<u64>()) {
        let mut shaken = Shaken::new(seed);
        let mut before = shaken.books();
        while shaken.step().is_some() {
            let books = shaken.books();
            prop_assert_eq!(books[0].slot_cycles, books[1].slot_cycles);
            let width = u64::from(shaken.threads[0].config().slots());
            prop_assert_eq!(slots(&books[0]) + slots(&books[1]), width * books[0].slot_cycles);
            for (thread, books) in books.iter().enumerate() {
                prop_assert_eq!(books.cpi_total(), books.cycles);
                prop_assert!(books.slots_retiring <= shaken.threads[thread].stats().counts.ops);
                // Counters only grow: `since` would overflow.
                books.since(&before[thread]);
            }
            before = books;
        }
        let settled = before[0].slot_cycles;
        prop_assert!(settled > 0, "nothing was settled");
    }

    #[test]
    fn restored_threads_continue_identically(seed in any::<u64>(), cut in 0usize..60) {
        let (mut one, mut other) = (Shaken::new(seed), Shaken::new(seed));
        for _ in 0..cut {
            one.step();
            other.step();
        }
        let bytes = one.threads.each_ref().map(|thread| postcard::to_stdvec(&thread.save()).unwrap());
        one.threads = Core::threads(other.threads[0].config());
        for (thread, bytes) in one.threads.iter_mut().zip(&bytes) {
            thread.restore(postcard::from_bytes::<CoreState>(bytes).unwrap()).unwrap();
        }
        prop_assert!(one.threads[0].is_sibling_of(&one.threads[1]));
        loop {
            let stages = one.step();
            prop_assert_eq!(&stages, &other.step());
            if stages.is_none() {
                break;
            }
        }
        prop_assert_eq!(one.books(), other.books());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn a_corrupt_thread_state_is_rejected_or_harmless(seed in any::<u64>(), which in 0usize..2, place in any::<prop::sample::Index>(), value in any::<u8>()) {
        let mut shaken = Shaken::new(seed % 16);
        (0..30).for_each(|_| drop(shaken.step()));
        let mut bytes = postcard::to_stdvec(&shaken.threads[which].save()).unwrap();
        let place = place.index(bytes.len());
        bytes[place] = value;
        let Ok(state) = postcard::from_bytes::<CoreState>(&bytes) else { return Ok(()) };
        let [first, second] = &mut shaken.threads;
        let (own, sibling) = if which == 0 { (first, second) } else { (second, first) };
        if own.restore(state).is_ok() && own.is_sibling_of(sibling) {
            while shaken.step().is_some() {}
            shaken.books();
        }
    }
}

#[test]
fn unpartitionable_cores_and_states_of_other_cores_are_rejected() {
    let plain = PipelineConfig::default();
    plain.validate_threads().unwrap();
    for (wrong, problem) in [
        (PipelineConfig { kind: doorbell_core::CoreKind::InOrder, ..plain.clone() }, "kind is in-order"),
        (PipelineConfig { rob: 1, ..plain.clone() }, "rob is 1; for a core with two threads it must be 2"),
        (PipelineConfig { iq: 7, ..plain.clone() }, "iq is 7"),
        (PipelineConfig { int_registers: 65, ..plain.clone() }, "int_registers is 65"),
    ] {
        assert!(wrong.validate_threads().unwrap_err().starts_with(problem), "{problem}");
    }
    let [mut first, second] = Core::threads(&plain);
    assert!(first.restore(Core::new(&plain).save()).unwrap_err().contains("another core"));
    assert!(Core::new(&plain).restore(first.save()).unwrap_err().contains("another core"));
    assert!(first.restore(second.save()).is_err(), "TLB entries are tagged by thread");
}
