//! Published measurements of real machines, repeated on the presets that model them: core-to-core latency, L2
//! bandwidth, idle and loaded memory latency. `docs/coherence.md` lists the sources. Prefetchers are off, as
//! in Intel's Memory Latency Checker.

use doorbell_assembler::{Assembler, *};
use doorbell_bench::resolve;
use doorbell_machine::{Limits, Machine, MachineConfig, Mode};
use doorbell_memory::stats::MemoryStats;
use doorbell_sim::stats::Stats;
use doorbell_sim::{PhysAddr, Ps};

use super::memory::{chain, stream};
use super::program::{DATA, multiply, shuffled};
use super::{Program, measure};

/// A preset without prefetchers and with an LRU LLC, plus further overrides.
pub fn preset(name: &str, set: &[&str]) -> MachineConfig {
    let own = [
        "memory.l1d.prefetch.kind=none",
        "memory.l2.prefetch.kind=none",
        "memory.llc.replacement=lru",
        "core.quantum=100ns",
    ];
    let set: Vec<String> = own.iter().chain(set).map(|set| (*set).to_owned()).collect();
    resolve(name, &set).expect("the configuration of a microbenchmark").machine()
}

fn ns(config: &MachineConfig, cycles: f64) -> f64 {
    cycles * 1e9 / config.core.frequency.0 as f64
}

/// L2 to L1 bandwidth for loads of whole lines, in bytes per cycle.
pub fn l2_bytes_per_cycle(name: &str) -> f64 {
    let measured = measure(&preset(name, &[]), &stream(128 << 10, 64, false), 1_000, 1_000);
    64.0 * 32.0 / measured.pace()
}

/// Memory latency in nanoseconds of dependent loads, in random or in address order.
pub fn memory_ns(name: &str, random: bool) -> f64 {
    let config = preset(name, &[]);
    let lines: Vec<u64> = if random { shuffled(64 << 14) } else { (0..64 << 14).collect() };
    ns(&config, measure(&config, &chain(&lines), 100, 2_000).each(8))
}

/// A machine running one program on all harts.
struct Run {
    machine: Machine,
    now: Ps,
}

impl Run {
    fn new(config: &MachineConfig, program: &Program) -> Run {
        let mut machine = Machine::new(config.clone(), 1).expect("a machine");
        assert!(machine.load_bare(&program.image), "the program fits into RAM");
        machine.set_mode(Mode::Detailed);
        Run { machine, now: Ps::ZERO }
    }

    /// Runs for another `time`; returns the memory counters and the lines read from DRAM since the start.
    fn advance(&mut self, time: Ps) -> (MemoryStats, u64) {
        self.now += time;
        self.machine.run(&Limits::until(self.now));
        let memory = &self.machine.timing().expect("the machine is timed").memory;
        (memory.stats(), memory.memory().stats().map(|channel| channel.reads).sum())
    }
}

/// Cycles per data access of hart 0 between two snapshots. All its accesses are loads of the chain.
fn cycles_each(before: &MemoryStats, after: &MemoryStats) -> f64 {
    let core = after.harts[0].core.since(&before.harts[0].core);
    core.data_access_cycles as f64 / core.data_accesses as f64
}

/// Hart 1 writes each line of a chain and sets a flag. Hart 0 then walks the chain, as the loop of [`chain`]
/// does.
fn chain_written_by_other_hart(lines: &[u64]) -> Program {
    let first = DATA + 64 * lines[0];
    let (flag, end) = (DATA - 64, DATA + 64 * lines.len() as u64);
    let setup = |a: &mut Assembler| {
        a.li(S0, DATA);
        a.li(S1, end);
        a.li(S2, flag);
        a.beqz(A0, "reader");
        a.label("write");
        a.ld(T0, S0, 0);
        a.sd(T0, S0, 0);
        a.addi(S0, S0, 64);
        a.bne(S0, S1, "write");
        a.fence();
        a.sd(S1, S2, 0);
        a.label("done");
        a.j("done");
        a.label("reader");
        a.li(A0, first);
        a.label("wait");
        a.ld(T0, S2, 0);
        a.beqz(T0, "wait");
    };
    Program::new(setup, |a| (0..8).for_each(|_| a.ld(A0, A0, 0))).with_chain(DATA, DATA, 64, lines)
}

/// Load latency in nanoseconds for a line that is modified in another core's L2.
pub fn hitm_ns(name: &str) -> f64 {
    let config = preset(name, &["platform.harts=2"]);
    // Three times the size of an L1, so that most of the written lines are in the L2.
    let lines = shuffled(3 * config.memory.l1d.size.0 / 64);
    let mut run = Run::new(&config, &chain_written_by_other_hart(&lines));
    let mut before = run.advance(Ps::from_us(1)).0;
    loop {
        assert!(run.now < Ps::from_ms(5), "{name}: the walk of the chain should have ended");
        let after = run.advance(Ps::from_us(10)).0;
        let hitm = after.harts[0].sharing.hitm - before.harts[0].sharing.hitm;
        let loads = after.harts[0].core.data_accesses - before.harts[0].core.data_accesses;
        let all_are_hitm = hitm > 100 && loads == hitm;
        if all_are_hitm {
            let address = f64::from(config.pipeline.address_cycles);
            return ns(&config, address + cycles_each(&before, &after));
        }
        before = after;
    }
}

/// Nanoseconds per turn of two harts that alternately update one word with load-reserved and
/// store-conditional.
pub fn turn_ns(name: &str) -> f64 {
    let config = preset(name, &["platform.harts=2"]);
    let setup = |a: &mut Assembler| {
        a.li(S0, DATA);
        a.mv(T1, A0);
    };
    // The word is the number of the next turn; hart 0 takes the even turns.
    let body = |a: &mut Assembler| {
        a.lr(T0, S0);
        a.bne(T0, T1, "loop");
        a.addi(T2, T1, 1);
        a.sc(T3, T2, S0);
        a.bnez(T3, "loop");
        a.addi(T1, T1, 2);
    };
    let program = Program::new(setup, body);
    let mut run = Run::new(&config, &program);
    let mut turns = |time: Ps| {
        run.advance(time);
        run.machine.ram().load_u64(PhysAddr(DATA)).expect("the word is in RAM")
    };
    let before = turns(Ps::from_us(20));
    let time = Ps::from_us(100);
    time.0 as f64 / 1_000.0 / (turns(time) - before) as f64
}

/// Latencies and bandwidth of loaded memory.
#[derive(Clone, Copy, Debug)]
pub struct Loaded {
    /// Latency per load of the chain, in nanoseconds.
    pub chain_ns: f64,
    /// Mean occupancy of an L2 MSHR on the streaming harts, in nanoseconds, by a load or a prefetch.
    pub stream_ns: f64,
    /// Mean number of L2 MSHRs in use, over all streaming harts.
    pub in_flight: f64,
    /// Bandwidth of all harts in GB/s.
    pub gigabytes: f64,
}

/// Measures a chain of loads on hart 0 while `others` harts stream from memory as fast as they and their L2
/// prefetchers can. The chain's loop has `loads.0` loads between two branches, a stream's loop `loads.1`.
pub fn loaded(name: &str, others: u32, loads: (usize, usize)) -> Loaded {
    let harts = format!("platform.harts={}", others + 1);
    let prefetchers = (1..=others).map(|hart| format!("hart.{hart}.memory.l2.prefetch.kind=stream"));
    let set: Vec<String> = prefetchers.chain([harts, "platform.ram=2GiB".to_owned()]).collect();
    let config = preset(name, &set.iter().map(String::as_str).collect::<Vec<_>>());
    let lines = shuffled(64 << 14);
    let first = DATA + 64 * lines[0];
    let setup = |a: &mut Assembler| {
        a.li(S0, DATA);
        a.slli(T0, A0, 26);
        a.add(S0, S0, T0);
        // Each hart starts at a different offset (s1 times a0), as with physically scattered pages.
        a.li(S1, 37 * 2048);
        multiply(a, 9, 9, 10);
        a.li(S2, (64 << 20) - 1);
        a.li(S4, 2048);
        a.beqz(A0, "reader");
        a.label("stream");
        a.add(S3, S0, S1);
        for (n, label) in BRANCHES.into_iter().enumerate() {
            a.ld(ZERO, S3, 64 * n as i32 - 1024);
            if (n + 1) % loads.1 == 0 {
                a.j(label);
                a.label(label);
            }
        }
        a.add(S1, S1, S4);
        a.and(S1, S1, S2);
        a.j("stream");
        a.label("reader");
        a.li(A0, first);
    };
    let program = Program::new(setup, |a| (0..loads.0).for_each(|_| a.ld(A0, A0, 0)));
    let mut run = Run::new(&config, &program.with_chain(DATA, DATA, 64, &lines));
    let before = run.advance(Ps::from_us(20));
    let time = Ps::from_us(60);
    let after = run.advance(time);
    let address = f64::from(config.pipeline.address_cycles);
    let bytes = 64.0 * (after.1 - before.1) as f64;
    let seconds = time.0 as f64 * 1e-12;
    let streams =
        after.0.harts.iter().zip(&before.0.harts).skip(1).map(|(after, before)| after.l2.since(&before.l2));
    let (mshr_cycles, fills) = streams.fold((0, 0), |sum, l2| (sum.0 + l2.mshr_cycles, sum.1 + l2.fills));
    Loaded {
        chain_ns: ns(&config, address + cycles_each(&before.0, &after.0)),
        stream_ns: ns(&config, mshr_cycles as f64 / fills.max(1) as f64),
        in_flight: mshr_cycles as f64 / (seconds * config.core.frequency.0 as f64),
        gigabytes: bytes / seconds / 1e9,
    }
}

/// Labels of the branches in a stream's loop.
const BRANCHES: [&str; 32] = [
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18",
    "19", "20", "21", "22", "23", "24", "25", "26", "27", "28", "29", "30", "31",
];
