//! Lines shared by several cores: contended atomics, false sharing, and lines that move between two cores.
//!
//! Caches, directory and interconnect run at the cores' clock, so that all figures are in core cycles. A
//! *hand-over* is a snoop, the rest of the line's transfer, and the latencies of the interconnect and of the
//! next core's caches. A *request* is everything before the hand-over.

use doorbell_assembler::{Assembler, *};
use doorbell_core::CoreKind;
use doorbell_machine::{Limits, Machine, MachineConfig, Mode};
use doorbell_memory::stats::MemoryStats;
use doorbell_sim::Ps;

use super::program::DATA;
use super::{CORES, Program, Row, machine};

/// Measurement of a loop that runs on all cores.
pub struct SharedRun {
    /// Measured time in core cycles.
    pub cycles: f64,
    /// Iterations of each core.
    pub iterations: Vec<f64>,
    /// Memory counters of the measured time.
    pub memory: MemoryStats,
}

impl SharedRun {
    /// Cycles per iteration, counting the iterations of all cores.
    pub fn interval(&self) -> f64 {
        self.cycles / self.iterations.iter().sum::<f64>()
    }
}

/// A machine with a directory, whose cores, caches and interconnect share one clock.
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

/// Runs a program on all harts, and measures `time` after a warm-up.
pub fn run(config: &MachineConfig, program: &Program, warm: Ps, time: Ps) -> SharedRun {
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
    SharedRun {
        cycles: time.0 as f64 * config.core.frequency.0 as f64 * 1e-12,
        iterations: iterations.collect(),
        memory: after.1.since(&before.1),
    }
}

/// Cycles from a snoop's arrival at the owning core until the line arrives at the next core.
fn hand_over(c: &MachineConfig) -> u32 {
    let m = &c.memory;
    let line = 64u32.div_ceil(m.interconnect.bytes_per_cycle) - 1;
    m.coherence.snoop + line + m.interconnect.latency + m.l2.response + m.l1d.response
}

/// Cycles of an atomic whose line is in another core's cache and not contended.
fn uncontended(c: &MachineConfig, core: CoreKind) -> u32 {
    let m = &c.memory;
    let way = m.l1d.latency + m.l2.latency + m.interconnect.latency + m.llc.latency;
    let around = if core == CoreKind::OutOfOrder { 2 } else { 0 };
    around + c.pipeline.address_cycles + way + m.coherence.latency + m.interconnect.latency + hand_over(c)
}

/// Atomics of several harts to words `distance` bytes apart; zero means the same word.
fn atomics(distance: u64) -> Program {
    let setup = |a: &mut Assembler| {
        a.li(S0, DATA);
        a.slli(T0, A0, distance.max(1).ilog2());
        if distance > 0 {
            a.add(S0, S0, T0);
        }
    };
    Program::new(setup, |a| a.amoadd(A1, A2, S0))
}

/// Two harts that increment a number in turn: one waits for even values, the other for odd ones.
fn alternating_increments() -> Program {
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

/// Cycles from when a store leaves the pipeline until all sharers have invalidated their copies.
fn upgrade(c: &MachineConfig) -> u32 {
    let m = &c.memory;
    let way = m.l1d.latency + m.l2.latency + m.interconnect.latency + m.llc.latency;
    way + m.coherence.latency
        + m.coherence.snoop
        + 2 * m.interconnect.latency
        + m.l2.response
        + m.l1d.response
}

struct AtomicsCase {
    what: &'static str,
    /// Distance in bytes between the words of two harts.
    distance: u64,
    harts: &'static [u32],
}

const ATOMICS: [AtomicsCase; 3] = [
    AtomicsCase { what: "atomics to one word", distance: 0, harts: &[2, 4, 8] },
    AtomicsCase { what: "atomics to separate words of one line", distance: 8, harts: &[2, 8] },
    AtomicsCase { what: "atomics to separate lines", distance: 64, harts: &[8] },
];

const WARM: Ps = Ps::from_us(20);
const TIME: Ps = Ps::from_us(40);

fn contended(core: CoreKind, rows: &mut Vec<Row>) {
    for AtomicsCase { what, distance, harts } in ATOMICS {
        for &harts in harts {
            let config = cores(core, harts, &[]);
            let measured = run(&config, &atomics(distance), WARM, TIME);
            let around = if core == CoreKind::OutOfOrder { 2 } else { 0 };
            let hit = around + config.pipeline.address_cycles + config.memory.l1d.latency;
            let (form, each) = match distance {
                64 => ("(turn + address + L1 + commit) / harts", f64::from(hit) / f64::from(harts)),
                _ => (
                    "max(hand-over, (request + hand-over) / harts)",
                    f64::from(hand_over(&config))
                        .max(f64::from(uncontended(&config, core)) / f64::from(harts)),
                ),
            };
            rows.push(Row {
                what: format!("{what}, {harts} harts"),
                core,
                unit: "cycles each",
                form: form.to_owned(),
                expected: (each * 0.998, each * 1.002),
                measured: measured.interval(),
            });
        }
    }
}

fn in_turns(core: CoreKind) -> Row {
    let config = cores(core, 2, &[]);
    let measured = run(&config, &alternating_increments(), WARM, TIME);
    let hitm: u64 = measured.memory.harts.iter().map(|hart| hart.sharing.hitm).sum();
    let p = &config.pipeline;
    let refill = p.redirect_cycles + config.memory.l1i.latency + p.front_end_depth;
    let least = f64::from(upgrade(&config) + hand_over(&config) + refill);
    Row {
        what: "number incremented by two harts in turn".to_owned(),
        core,
        unit: "cycles per turn",
        form: "upgrade + hand-over + refill after misprediction, and up to 6 for branch, commit and drain"
            .to_owned(),
        expected: (least, least + 6.0),
        measured: measured.cycles / hitm as f64,
    }
}

/// A ring between two harts, as DPDK's rte_ring with single producer and single consumer.
///
/// The producer writes a bulk of objects, then its tail after a release fence. The consumer polls that tail,
/// reads the objects and writes its own tail. The ring holds one bulk, so that each side waits for the other.
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
    let measured = run(&config, &ring(lines), WARM, TIME);
    let hitm: u64 = measured.memory.harts.iter().map(|hart| hart.sharing.hitm).sum();
    let p = &config.pipeline;
    let refill = p.redirect_cycles + config.memory.l1i.latency + p.front_end_depth;
    // Requests for the lines of a bulk overlap; each is issued after the eight objects of the previous line.
    let objects = f64::from(8 * (lines - 1));
    let object_cycles = objects / f64::from(p.drain_width) + objects / f64::from(p.units.load_ports);
    let cycles = 3 * upgrade(&config) + 2 * (hand_over(&config) + refill) + uncontended(&config, core);
    let least = f64::from(cycles) + object_cycles;
    Row {
        what: format!("ring between two harts, bulks of {} objects", 8 * lines),
        core,
        unit: "cycles per bulk",
        form: "3 upgrades, 2 hand-overs, 2 refills, a request and its hand-over; objects of further lines at drain width and load ports; \
               and up to 12 for branches, commits and drains"
            .to_owned(),
        expected: (least, least + 12.0),
        measured: measured.cycles / (hitm as f64 / f64::from(lines + 2)),
    }
}

/// Contended atomics, alternating increments and rings, for both kinds of cores.
pub fn lines() -> Vec<Row> {
    let mut rows = Vec::new();
    for core in CORES {
        contended(core, &mut rows);
        rows.push(in_turns(core));
        rows.extend([1, 2, 4].map(|lines| between_two(core, lines)));
    }
    rows
}
