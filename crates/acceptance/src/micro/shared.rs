//! What several cores do with one line: contended atomics, neighbours in a line, a line that goes to and fro.
//!
//! Caches, directory and interconnect have the cores' clock here, so that all is in cycles. A *hand-over* is a snoop, the line's
//! other half, the way to the next core and what its caches add; a *request* is all before that.

use doorbell_core::CoreKind;
use doorbell_machine::{Limits, Machine, MachineConfig, Mode};
use doorbell_memory::stats::MemoryStats;
use doorbell_platform::sbi::assembler::{Assembler, *};
use doorbell_sim::Ps;

use super::program::DATA;
use super::{CORES, Program, Row, machine};

/// What all cores did in a stretch of time.
pub struct Together {
    /// The cores' cycles, of one.
    pub cycles: f64,
    /// Iterations of each core.
    pub iterations: Vec<f64>,
    /// What was counted.
    pub memory: MemoryStats,
}

impl Together {
    /// Cycles from one iteration to the next, whichever core's.
    pub fn interval(&self) -> f64 {
        self.cycles / self.iterations.iter().sum::<f64>()
    }
}

/// A machine whose cores, caches and interconnect have one clock, and a directory.
pub fn cores(core: CoreKind, harts: u32, set: &[&str]) -> MachineConfig {
    let harts = format!("platform.harts={harts}");
    let own = [
        harts.as_str(),
        "memory.coherence.kind=directory",
        "memory.interconnect.clock=3GHz",
        "core.frequency=3GHz",
    ];
    machine(core, &[&own[..], set].concat())
}

/// Runs a program whose loop all harts are in.
pub fn run(config: &MachineConfig, program: &Program, warm: Ps, time: Ps) -> Together {
    let mut machine = Machine::new(config.clone(), 1).expect("a machine");
    assert!(machine.load_bare(&program.image), "the program fits into RAM");
    machine.set_mode(Mode::Detailed);
    let mut to = |time: Ps| {
        machine.run(&Limits { time, ..Limits::until(time) });
        let timing = machine.timing().expect("the machine is timed");
        let of = |hart: usize| timing.core(hart).stats().counts.instructions;
        let instructions: Vec<u64> = (0..config.platform.harts as usize).map(of).collect();
        (instructions, timing.memory.stats())
    };
    let (before, after) = (to(warm), to(warm + time));
    let iterations =
        before.0.iter().zip(&after.0).map(|(before, after)| (after - before) as f64 / program.body as f64);
    Together {
        cycles: time.0 as f64 * config.core.frequency.0 as f64 * 1e-12,
        iterations: iterations.collect(),
        memory: after.1.since(&before.1),
    }
}

/// From a snoop's arrival at a core that has the line to its arrival at the next one.
fn hand_over(c: &MachineConfig) -> u32 {
    let m = &c.memory;
    let line = 64u32.div_ceil(m.interconnect.bytes_per_cycle) - 1;
    m.coherence.snoop + line + m.interconnect.latency + m.l2.response + m.l1d.response
}

/// From an atomic's turn until it is done, if the line is another core's and nobody else asks for it.
fn alone(c: &MachineConfig, core: CoreKind) -> u32 {
    let m = &c.memory;
    let way = m.l1d.latency + m.l2.latency + m.interconnect.latency + m.llc.latency;
    let around = if core == CoreKind::OutOfOrder { 2 } else { 0 };
    around + c.pipeline.address_cycles + way + m.coherence.latency + m.interconnect.latency + hand_over(c)
}

/// Atomics of several harts, in words so many bytes apart.
fn atomics(apart: u64) -> Program {
    let setup = |a: &mut Assembler| {
        a.li(S0, DATA);
        a.slli(T0, A0, apart.max(1).ilog2());
        if apart > 0 {
            a.add(S0, S0, T0);
        }
    };
    Program::new(setup, |a| a.amoadd(A1, A2, S0))
}

/// Two harts that write a number in turn: each waits for one that is even, or odd, and writes the next.
fn turns() -> Program {
    let setup = |a: &mut Assembler| {
        a.li(S0, DATA);
        a.addi(T1, A0, 0);
    };
    let body = |a: &mut Assembler| {
        a.ld(T0, S0, 0);
        a.bne(T0, T1, "loop");
        a.addi(T0, T0, 1);
        a.sd(T0, S0, 0);
        a.addi(T1, T1, 2);
    };
    Program::new(setup, body)
}

/// From a store's leaving the pipeline until all sharers have given their copies up.
fn upgrade(c: &MachineConfig) -> u32 {
    let m = &c.memory;
    let way = m.l1d.latency + m.l2.latency + m.interconnect.latency + m.llc.latency;
    way + m.coherence.latency
        + m.coherence.snoop
        + 2 * m.interconnect.latency
        + m.l2.response
        + m.l1d.response
}

struct Shared {
    what: &'static str,
    /// Bytes between the words of two harts.
    apart: u64,
    harts: &'static [u32],
}

const ATOMICS: [Shared; 3] = [
    Shared { what: "atomics to one word", apart: 0, harts: &[2, 4, 8] },
    Shared { what: "atomics to words of their own in one line", apart: 8, harts: &[2, 8] },
    Shared { what: "atomics to lines of their own", apart: 64, harts: &[8] },
];

const WARM: Ps = Ps::from_us(20);
const TIME: Ps = Ps::from_us(40);

fn contended(core: CoreKind, rows: &mut Vec<Row>) {
    for Shared { what, apart, harts } in ATOMICS {
        for &harts in harts {
            let config = cores(core, harts, &[]);
            let together = run(&config, &atomics(apart), WARM, TIME);
            let around = if core == CoreKind::OutOfOrder { 2 } else { 0 };
            let hit = around + config.pipeline.address_cycles + config.memory.l1d.latency;
            let (form, each) = match apart {
                64 => ("(turn + address + L1 + commit) / harts", f64::from(hit) / f64::from(harts)),
                _ => (
                    "the longer of hand-over, and (request + hand-over) / harts",
                    f64::from(hand_over(&config)).max(f64::from(alone(&config, core)) / f64::from(harts)),
                ),
            };
            rows.push(Row {
                what: format!("{what}, {harts} harts"),
                core,
                unit: "cycles each",
                form: form.to_owned(),
                expected: (each * 0.998, each * 1.002),
                measured: together.interval(),
            });
        }
    }
}

fn in_turns(core: CoreKind) -> Row {
    let config = cores(core, 2, &[]);
    let together = run(&config, &turns(), WARM, TIME);
    let taken: u64 = together.memory.harts.iter().map(|hart| hart.sharing.hitm).sum();
    let p = &config.pipeline;
    let refill = p.redirect_cycles + config.memory.l1i.latency + p.front_end_depth;
    let least = f64::from(upgrade(&config) + hand_over(&config) + refill);
    Row {
        what: "a number that two harts write in turn".to_owned(),
        core,
        unit: "cycles a turn",
        form: "upgrade + hand-over + misprediction's refill, and up to 6 for the branch, commit and drain"
            .to_owned(),
        expected: (least, least + 6.0),
        measured: together.cycles / taken as f64,
    }
}

/// Two harts and a ring between them as DPDK's is with one producer and one consumer (rte_ring, "single producer/single consumer"): a bulk
/// of objects is written, then the producer's tail behind a release; the consumer, who polls that, takes them out and says so by its own
/// tail. The ring has room for one bulk, so that each waits for the other.
fn ring(lines: i32) -> Program {
    let (acquire, release) = (0x0230_000f, 0x0310_000f);
    let setup = |a: &mut Assembler| {
        a.li(S0, DATA);
        a.li(S1, DATA + 0x1000);
        a.li(S2, DATA + 0x2000);
        a.addi(T1, ZERO, 0);
        a.bnez(A0, "consumer");
    };
    let body = |a: &mut Assembler| {
        a.ld(T0, S1, 0);
        a.bne(T0, T1, "loop");
        a.word(acquire);
        (0..8 * lines).for_each(|object| a.sd(T1, S2, 8 * object));
        a.addi(T1, T1, 1);
        a.word(release);
        a.sd(T1, S0, 0);
        a.j("loop");
        a.label("consumer");
        a.ld(T0, S0, 0);
        a.beq(T0, T1, "consumer");
        a.word(acquire);
        (0..8 * lines).for_each(|object| a.ld(ZERO, S2, 8 * object));
        a.addi(T1, T1, 1);
        a.word(release);
        a.sd(T1, S1, 0);
        a.j("consumer");
    };
    Program::new(setup, body)
}

fn between_two(core: CoreKind, lines: i32) -> Row {
    let config = cores(core, 2, &[]);
    let together = run(&config, &ring(lines), WARM, TIME);
    let taken: u64 = together.memory.harts.iter().map(|hart| hart.sharing.hitm).sum();
    let p = &config.pipeline;
    let refill = p.redirect_cycles + config.memory.l1i.latency + p.front_end_depth;
    // Its lines are asked for together, each behind the eight objects of the one before.
    let objects = f64::from(8 * (lines - 1));
    let apart = objects / f64::from(p.drain_width) + objects / f64::from(p.units.load_ports);
    let least =
        f64::from(3 * upgrade(&config) + 2 * (hand_over(&config) + refill) + alone(&config, core)) + apart;
    Row {
        what: format!("a ring between two harts, {} objects at a time", 8 * lines),
        core,
        unit: "cycles a bulk",
        form: "3 upgrades, 2 hand-overs, 2 refills, a request and its hand-over; objects of further lines at drain width and load ports; \
               and up to 12 for branches, commits and drains"
            .to_owned(),
        expected: (least, least + 12.0),
        measured: together.cycles / (taken as f64 / f64::from(lines + 2)),
    }
}

/// See the module.
pub fn lines() -> Vec<Row> {
    let mut rows = Vec::new();
    for core in CORES {
        contended(core, &mut rows);
        rows.push(in_turns(core));
        rows.extend([1, 2, 4].map(|lines| between_two(core, lines)));
    }
    rows
}
