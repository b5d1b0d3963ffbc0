//! Compares the core and cache models with ChampSim on the same instruction traces.
//!
//!     champsim record NAME INSTRUCTIONS FILE [path=value …]    # records testpmd, ping, or a microbenchmark loop
//!     champsim table TRACE,JSON …                              # our results and ChampSim's, as a Markdown table
//!     champsim own TRACE,JSON …                                # the same with ChampSim's front end and page tables
//!     champsim default TRACE,JSON …                            # the preset champsim and ChampSim's default machine
//!
//! `docs/timing-validation.md` describes the procedure and ChampSim's configuration.

use std::fs::File;
use std::io::BufReader;

use doorbell_acceptance::{micro, places, quiet};
use doorbell_bench::{Session, Source, benchmark, resolve};
use doorbell_core::{Core, Counts};
use doorbell_machine::{KeptOps, Limits, Machine, MachineConfig, Mode};
use doorbell_memory::dram::Dram;
use doorbell_memory::{MemoryStats, MemorySystem, SingleHart};
use doorbell_sim::memory::{CoreAccess, CoreMemory, Prefetched, Served, Walk};
use doorbell_sim::stats::Stats;
use doorbell_sim::{Bytes, CoreCycle, Op, PhysAddr, Ps};
use doorbell_trace::champsim::{self, PageTables, Trace, Variant, Writer};
use serde_json::Value;

/// Warm-up instructions, the same in ChampSim.
const WARM_UP: usize = 500_000;

/// Overrides of the preset `server` that match ChampSim's configuration.
///
/// In ChampSim a load takes at least six cycles, and the refill after a misprediction four cycles more than
/// in `server`. All units have a latency of one cycle, and there are four of each kind. Addresses are known
/// at dispatch, store data are forwarded at once, and any number of stores can drain. The predictor tables
/// have these sizes, and caches use LRU. A line is written into its array one cycle after its arrival. DRAM
/// addresses have ChampSim's bit order, with all row bits in the bank hash.
const SAME: &[&str] = &[
    "pipeline.front_end_depth=9",
    "pipeline.fetch_queue=64",
    "memory.l1d.latency=5",
    "memory.llc.replacement=lru",
    "memory.l1i.mshrs=1",
    "memory.l1d.fill=1",
    "memory.l2.fill=1",
    "memory.dram.mapping=row rank column bank bank_group channel",
    "memory.dram.bank_hash_rows=all",
    "pipeline.forward_cycles=1",
    "pipeline.memory_dependence=perfect",
    "pipeline.misfetch_cycles=3",
    "pipeline.int_registers=512",
    "pipeline.units.branch_units=4",
    "pipeline.units.multipliers=4",
    "pipeline.units.dividers=4",
    "pipeline.units.multiply_cycles=1",
    "pipeline.units.divide_cycles=1",
    "pipeline.units.divide_interval=1",
    "pipeline.branch.direction=bimodal",
    "pipeline.branch.bimodal_entries=16384",
    "pipeline.branch.btb_ways=8",
    "pipeline.branch.indirect_entries=4096",
    "pipeline.branch.return_stack=64",
    "pipeline.drains_in_flight=64",
];

/// Further overrides for ChampSim's decoded-instruction buffer and 4 KiB pages (`tools/champsim-own.json`).
///
/// ChampSim's page-table-entry caches have 46 entries in all. A hit in the decoded-instruction buffer saves
/// the five cycles of the L1I, so these must not be part of `front_end_depth` here.
const OWN: &[&str] = &[
    "pipeline.decoded.sets=32",
    "pipeline.decoded.ways=8",
    "pipeline.decoded.window=16",
    "pipeline.tlb.second_cycles=8",
    "pipeline.tlb.walkers=8",
    "pipeline.tlb.walk_cache=46",
    "pipeline.tlb.walk_cache_from=2",
    "pipeline.front_end_depth=5",
    "memory.l1i.latency=5",
];
const PAGE_BYTES: u64 = 4096;
const LEVELS: u32 = 5;
const RAM_BASE: PhysAddr = PhysAddr(0x8000_0000);
const RAM_BYTES: u64 = 1 << 30;

/// Configuration that is compared with ChampSim.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// `server` with the overrides [`SAME`], and page walks without cost.
    Table,
    /// As `Table`, with ChampSim's front end and page tables.
    Own,
    /// The preset `champsim` without overrides.
    Default,
}

fn configuration(kind: Kind, set: &[String]) -> MachineConfig {
    let (preset, above): (_, &[&[&str]]) = match kind {
        Kind::Table => ("server", &[SAME]),
        Kind::Own => ("server", &[SAME, OWN]),
        Kind::Default => ("champsim", &[]),
    };
    let words = above.concat().into_iter().map(str::to_owned);
    let set: Vec<String> = words.chain(set.iter().cloned()).collect();
    resolve(preset, &set).expect("the configuration").machine()
}

/// A machine ready to run the code that will be recorded.
fn machine_for(name: &str, set: &[String]) -> Machine {
    if let Some((_, program)) = micro::traceable().into_iter().find(|(loop_name, _)| *loop_name == name) {
        let config = micro::machine(micro::CORES[0], &[]);
        let mut machine = Machine::new(config, 1).expect("a machine");
        assert!(machine.load_bare(&program.image), "the program fits into RAM");
        return machine;
    }
    let chosen =
        benchmark(name).expect("NAME is a benchmark (testpmd, ping) or a loop of the microbenchmarks");
    let set: Vec<String> =
        chosen.defaults.iter().map(|text| (*text).to_owned()).chain(set.iter().cloned()).collect();
    let config = resolve("server", &set).expect("a configuration");
    let session = quiet(|control| Session::prepare(&config, chosen, &places(), &Source::Cache, control))
        .expect("the guest becomes ready");
    let mut machine = session.machine().expect("a machine");
    machine.set_mode(Mode::Warming);
    machine.start_traffic(&config.loadgen.traffic).expect("traffic");
    machine.run(&Limits::until(machine.now() + Ps::from_ms(2)));
    machine
}

/// Prints an error of a trace file and exits.
fn fail(error: &champsim::Error) -> ! {
    eprintln!("champsim: {error}");
    std::process::exit(1)
}

fn record(name: &str, instructions: u64, path: &str, set: &[String]) {
    let mut machine = machine_for(name, set);
    machine.set_mode(Mode::Detailed);
    let kept = KeptOps::default();
    machine.record(Some(Box::new(kept.clone())));
    let mut writer = Writer::create(path, Variant::Standard).unwrap_or_else(|error| fail(&error));
    while writer.written() < instructions {
        let until = machine.instructions() + 100_000;
        let limits = Limits { instructions: until, ..Limits::until(machine.now() + Ps::from_ms(500)) };
        machine.run(&limits);
        writer.write(&kept.take()).unwrap_or_else(|error| fail(&error));
    }
    let written = writer.written();
    writer.finish().unwrap_or_else(|error| fail(&error));
    eprintln!("{name}: {written} instructions");
}

/// Figures of our models for the measured instructions.
struct Ours {
    instructions: u64,
    cycles: u64,
    counts: Counts,
    memory: MemoryStats,
}

/// The core's memory system, and page tables unless walks are free.
struct MemoryWithTables {
    memory: SingleHart<Dram>,
    tables: Option<PageTables>,
}

impl CoreMemory for MemoryWithTables {
    fn access(&mut self, cycle: CoreCycle, access: CoreAccess) -> Served {
        self.memory.access(cycle, access)
    }

    fn prefetch(&mut self, cycle: CoreCycle, access: CoreAccess) -> Prefetched {
        self.memory.prefetch(cycle, access)
    }

    fn walk(&mut self, virt: u64) -> Walk {
        self.tables.as_mut().map_or_else(Walk::default, |tables| tables.walk(virt))
    }
}

/// Runs the warm-up instructions of a trace, then measures `measured` instructions.
fn run(ops: &[Op], measured: usize, config: &MachineConfig, tables: Option<PageTables>) -> Ours {
    let ends = |count: usize| {
        let mut ends = ops.iter().enumerate().filter(|(_, op)| op.ends_instruction()).map(|(at, _)| at + 1);
        ends.nth(count - 1).expect("the trace is long enough")
    };
    let (warm, end) = (ends(WARM_UP), ends(WARM_UP + measured));
    let clocks = [config.core.frequency];
    let dram = Dram::new(&config.memory.dram);
    let memory = MemorySystem::new(&config.memory, &clocks, RAM_BASE, Bytes(RAM_BYTES), dram);
    let space = tables.as_ref().map(|_| 0);
    let mut memory = MemoryWithTables { memory: SingleHart(memory.expect("the memory system")), tables };
    let mut core = Core::new(&config.pipeline);
    core.set_address_space(space);
    core.execute(&ops[..warm], &mut memory);
    let (before, memory_before, cycles) = (core.stats().counts, memory.memory.0.stats(), core.now());
    core.execute(&ops[warm..end], &mut memory);
    let counts = core.stats().counts.since(&before);
    let memory = memory.memory.0.stats().since(&memory_before);
    Ours { instructions: counts.instructions, cycles: core.now() - cycles, counts, memory }
}

fn number(value: &Value) -> f64 {
    match value {
        Value::Array(values) => values.iter().map(number).sum(),
        value => value.as_f64().expect("a number in ChampSim's results"),
    }
}

/// Misses of a ChampSim cache that sent a request to the next level, without those merged into an MSHR.
fn misses(roi: &Value, cache: &str) -> f64 {
    let of = |kind: &str| {
        let kind = &roi[cache][kind];
        number(&kind["miss"]) - number(&kind["mshr_merge"])
    };
    of("LOAD") + of("RFO") + if cache == "cpu0_L1D" { of("WRITE") } else { 0.0 }
}

fn table(kind: Kind, pairs: &[String], set: &[String]) {
    let config = configuration(kind, set);
    let own = kind != Kind::Table;
    let (name, line) = if own { (" walks |", "---|") } else { ("", "") };
    println!("| trace | IPC | mispredictions | L1I misses | L1D misses | L2 misses | LLC misses |{name}");
    println!("|---|---|---|---|---|---|---|{line}");
    for pair in pairs {
        let (trace, json) = pair.split_once(',').expect("TRACE,JSON");
        let json: Value =
            serde_json::from_reader(BufReader::new(File::open(json).expect("the results"))).expect("JSON");
        let roi = &json[0]["roi"];
        let core = &roi["cores"][0];
        let (instructions, cycles) = (number(&core["instructions"]), number(&core["cycles"]));
        let wrong: f64 = core["mispredict"].as_object().expect("branch types").values().map(number).sum();
        let mut ops = Vec::new();
        Trace::open(trace, Variant::Standard, None)
            .and_then(|trace| trace.ops()?.instructions(u64::MAX, &mut ops))
            .unwrap_or_else(|error| fail(&error));
        let mut tables =
            own.then(|| PageTables::new(RAM_BASE..PhysAddr(RAM_BASE.0 + RAM_BYTES), PAGE_BYTES, LEVELS));
        if let Some(tables) = &mut tables {
            for op in &mut ops {
                op.fetch = tables.translate(op.pc);
                if op.class.is_memory() {
                    op.phys = tables.translate(op.virt);
                }
            }
        }
        let ours = run(&ops, instructions as usize, &config, tables);
        let (counts, memory) = (&ours.counts, &ours.memory);
        let our_wrong =
            counts.wrong_directions + counts.wrong_targets + counts.wrong_returns + counts.misfetches;
        let hart = &memory.harts[0];
        let mut row = vec![
            (our_wrong as f64, wrong),
            (hart.l1i.misses as f64, misses(roi, "cpu0_L1I")),
            (hart.l1d.misses as f64, misses(roi, "cpu0_L1D")),
            (hart.l2.misses as f64, misses(roi, "cpu0_L2C")),
            (memory.llc.misses as f64, misses(roi, "LLC")),
        ];
        if own {
            row.push((counts.walks as f64, misses(roi, "cpu0_STLB")));
        }
        let ipc = (ours.instructions as f64 / ours.cycles as f64, instructions / cycles);
        let name = std::path::Path::new(trace).file_stem().expect("a name").to_string_lossy();
        print!("| {name} | {:.3} / {:.3} ({:+.0} %) |", ipc.0, ipc.1, 100.0 * (ipc.0 / ipc.1 - 1.0));
        for (own, other) in row {
            print!(" {:.2} / {:.2} |", own * 1e3 / ours.instructions as f64, other * 1e3 / instructions);
        }
        println!();
    }
}

fn main() {
    let (set, words): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word.contains('='));
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["record", name, instructions, path] => {
            record(name, instructions.parse().expect("a number of instructions"), path, &set);
        }
        ["table", ..] => table(Kind::Table, &words[1..], &set),
        ["own", ..] => table(Kind::Own, &words[1..], &set),
        ["default", ..] => table(Kind::Default, &words[1..], &set),
        _ => {
            eprintln!(
                "champsim record NAME INSTRUCTIONS FILE [path=value …] | champsim table|own|default TRACE,JSON …"
            );
            std::process::exit(2);
        }
    }
}
