//! Microbenchmarks: bare-metal loops on a whole timed machine, each compared with a closed form of its
//! configuration.
//!
//! Code is assembled and data are laid out here. The machine (preset `server`, timed from the first
//! instruction) runs them without an operating system. The measured time is between the commits of the last
//! instructions of two iterations, so it includes neither loading nor clock reads by the guest. The closed
//! forms ([`closed`]) are computed from the configuration alone and share no code with the models.

pub mod branches;
pub mod chains;
pub mod closed;
pub mod devices;
pub mod memory;
pub mod order;
pub mod pages;
mod program;
pub mod published;
pub mod shared;
mod table;

use doorbell_bench::resolve;
use doorbell_core::{CoreKind, Counts};
use doorbell_machine::{Limits, Machine, MachineConfig, Mode};
use doorbell_memory::MemoryStats;
use doorbell_memory::dram::DramStats;
use doorbell_sim::Ps;
use doorbell_sim::stats::Stats;

pub use program::Program;
pub use table::{document, rows_as_markdown};

/// Expected and measured figure of one loop on one kind of core.
#[derive(Clone, Debug)]
pub struct Row {
    /// Description of the loop.
    pub what: String,
    /// `out-of-order` or `in-order`.
    pub core: CoreKind,
    /// Unit of the figures.
    pub unit: &'static str,
    /// The closed form in words.
    pub form: String,
    /// Minimum and maximum of the closed form; equal if it is exact.
    pub expected: (f64, f64),
    /// Measured value.
    pub measured: f64,
}

impl Row {
    /// Whether the measured value is within the closed form's bounds.
    pub fn holds(&self) -> bool {
        let slack = 1e-9 * self.expected.1.abs();
        (self.expected.0 - slack..=self.expected.1 + slack).contains(&self.measured)
    }
}

/// Counters between the ends of two iterations.
pub struct Measured {
    /// Measured iterations.
    pub iterations: u64,
    /// The core's cycles.
    pub cycles: u64,
    /// The core's counters.
    pub counts: Counts,
    /// The caches' counters.
    pub memory: MemoryStats,
    /// Each channel's counters.
    pub dram: Vec<DramStats>,
}

impl Measured {
    /// Cycles per iteration.
    pub fn pace(&self) -> f64 {
        self.cycles as f64 / self.iterations as f64
    }

    /// Cycles per operation, with `count` operations per iteration.
    pub fn each(&self, count: u64) -> f64 {
        self.pace() / count as f64
    }
}

/// A group of loops: heading and the function that measures its rows.
pub type Group = (&'static str, fn() -> Vec<Row>);

/// All groups, in the order of the tables.
pub const GROUPS: [Group; 8] = [
    ("Dependent loads", memory::dependent_loads),
    ("Streams", memory::independent_accesses),
    ("Address translation", pages::translation),
    ("Operations", chains::operations),
    ("Branches", branches::patterns),
    ("Store queue, atomics, fences, CSRs", order::ordering),
    ("NIC registers", devices::registers),
    ("Lines shared by cores", shared::lines),
];

/// Loops of the tables by name, for traces that are run in other simulators.
pub fn traceable() -> Vec<(&'static str, Program)> {
    vec![
        ("chase-l1", memory::chain(&program::shuffled(16 * 16))),
        ("chase-l2", memory::chain(&program::shuffled(512 * 16))),
        ("chase-llc", memory::chain(&program::shuffled(2048 * 16))),
        ("chase-dram", memory::chain(&program::shuffled(64 * 16_384))),
        ("stream-l1", memory::stream(16 << 10, 8, false)),
        ("stream-l2", memory::stream(512 << 10, 64, false)),
        ("stream-llc", memory::stream(2 << 20, 64, false)),
        ("stream-dram", memory::stream(64 << 20, 64, false)),
        ("stores-l2", memory::stream(512 << 10, 64, true)),
        ("adds", chains::adds()),
        ("branch-periodic", branches::every_third()),
        ("branch-random", branches::random()),
    ]
}

/// Both kinds of cores, in the order of the tables.
pub const CORES: [CoreKind; 2] = [CoreKind::OutOfOrder, CoreKind::InOrder];

/// The preset `server` with a core of this kind and further overrides. The LLC uses LRU, so that a loop
/// larger than the LLC always misses, as the closed forms assume.
pub fn machine(core: CoreKind, set: &[&str]) -> MachineConfig {
    let kind = match core {
        CoreKind::OutOfOrder => "pipeline.kind=out-of-order",
        CoreKind::InOrder => "pipeline.kind=in-order",
    };
    let own = [kind, "memory.llc.replacement=lru"];
    let set: Vec<String> = own.into_iter().chain(set.iter().copied()).map(str::to_owned).collect();
    resolve("server", &set).expect("the configuration of a microbenchmark").machine()
}

/// Runs `warm` iterations, then measures `iterations`.
pub fn measure(config: &MachineConfig, program: &Program, warm: u64, iterations: u64) -> Measured {
    let mut machine = Machine::new(config.clone(), 1).expect("a machine");
    assert!(machine.load_bare(&program.image), "the program fits into RAM");
    machine.set_mode(Mode::Detailed);
    let mut to = |iteration: u64| {
        let instructions = program.before + iteration * program.body;
        let time = Ps::from_ms(1_000);
        machine.run(&Limits { time, instructions, on_marker: false, on_m5op: false });
        assert_eq!(machine.instructions(), instructions, "a run must end with an iteration");
        let timing = machine.timing().expect("the machine is timed");
        let core = timing.core(0);
        (
            core.now(),
            core.stats().counts,
            timing.memory.stats(),
            timing.memory.memory().stats().collect::<Vec<_>>(),
        )
    };
    let before = to(warm);
    let after = to(warm + iterations);
    Measured {
        iterations,
        cycles: after.0 - before.0,
        counts: after.1.since(&before.1),
        memory: after.2.since(&before.2),
        dram: after.3.iter().zip(&before.3).map(|(after, before)| after.since(before)).collect(),
    }
}
