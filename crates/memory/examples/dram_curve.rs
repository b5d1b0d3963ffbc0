//! Latency under load of one DRAM channel, and traces of the same requests as input for a cycle-accurate DRAM
//! simulator.
//!
//! `cargo run --release -p doorbell-memory --example dram_curve -- [FOLDER [RESULTS]]` prints our curves.
//! With a folder it also writes a trace per point: a line per request with hexadecimal address, READ or
//! WRITE, and clock. With a file of the simulator's results (a line per trace: its name and the mean clocks
//! of a read) it prints a table of both. See docs/dram.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use doorbell_memory::dram::{Dram, DramConfig, DramStandard};
use doorbell_sim::rng::Rng;
use doorbell_sim::{Clock, PhysAddr, Ps};

const REQUESTS: u64 = 100_000;
const LOADS: [u64; 10] = [5, 10, 20, 30, 40, 50, 60, 70, 80, 90];
/// Above this mean latency the channel is saturated and the curve ends.
const SATURATED: Ps = Ps::from_ns(600);

/// Access pattern.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pattern {
    Random,
    /// One sequential run through memory.
    Stream,
    /// Sequential runs of 4 KiB at random places, eight interleaved.
    Runs,
}

struct Request {
    clock: u64,
    addr: u64,
    write: bool,
}

/// Requests at a mean of `percent` of the pins' bandwidth, at random times, at most one per clock.
fn requests(pattern: Pattern, writes: bool, percent: u64, burst: u64, seed: u64) -> Vec<Request> {
    let mut rng = Rng::stream(seed, "dram_curve");
    let mut made = Vec::with_capacity(REQUESTS as usize);
    let (mut clock, mut line) = (0u64, 0u64);
    let mut runs = [(0u64, 0u64); 8];
    while (made.len() as u64) < REQUESTS {
        clock += 1;
        if rng.below(100 * burst) >= percent {
            continue;
        }
        let addr = match pattern {
            Pattern::Random => rng.below(1 << 33) & !63,
            Pattern::Stream => {
                line += 1;
                line * 64
            }
            Pattern::Runs => {
                let run = &mut runs[rng.below(8) as usize];
                if run.1 == 0 {
                    *run = (rng.below(1 << 33) & !4095, 64);
                }
                run.1 -= 1;
                run.0 += 64;
                run.0 - 64
            }
        };
        made.push(Request { clock, addr, write: writes && rng.below(3) == 0 });
    }
    made
}

fn config(standard: DramStandard, mapping: &str) -> DramConfig {
    let clock = Clock::new(standard.timing().clock);
    DramConfig {
        standard,
        mapping: mapping.to_owned(),
        bank_hash: false,
        channel_hash: false,
        // Latency of the simulator's own pipeline.
        request_latency: clock.edge(1),
        response_latency: Ps::ZERO,
        read_queue: 256,
        write_queue: 32,
        write_high: 32,
        write_low: 0,
        write_idle: 8,
        ..DramConfig::default()
    }
}

/// A curve: device, mapping, pattern and read/write mix.
#[derive(Clone, Copy)]
struct Curve {
    standard: DramStandard,
    name: &'static str,
    mapping: &'static str,
    short: &'static str,
    pattern: Pattern,
    writes: bool,
}

impl Curve {
    fn all() -> Vec<Curve> {
        let mut all = Vec::new();
        for (standard, name) in
            [(DramStandard::Ddr4_2400, "ddr4-2400"), (DramStandard::Ddr4_3200, "ddr4-3200")]
        {
            for (mapping, short) in [
                ("row channel rank bank column bank_group", "rochrabacobg"),
                ("row channel rank bank bank_group column", "rochrababgco"),
            ] {
                for pattern in [Pattern::Random, Pattern::Stream, Pattern::Runs] {
                    for writes in [false, true] {
                        all.push(Curve { standard, name, mapping, short, pattern, writes });
                    }
                }
            }
        }
        all
    }

    fn name(&self) -> String {
        let mix = if self.writes { "21" } else { "read" };
        format!("{}-{}-{:?}-{mix}", self.name, self.short, self.pattern).to_lowercase()
    }
}

/// Measurements for one point of a curve.
struct Point {
    mean: Ps,
    bus_percent: u64,
    hit_percent: u64,
    host_ns: u64,
}

/// CPU time of this thread, as counted by Linux.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next();
    let theirs: Option<BTreeMap<String, f64>> = arguments.next().map(|file| {
        let text = std::fs::read_to_string(file).expect("cannot read the simulator's results");
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        pairs
            .map(|(id, clocks)| {
                (
                    id.to_owned(),
                    clocks
                        .trim()
                        .parse()
                        .expect("the simulator's results need a number of clocks on each line"),
                )
            })
            .collect()
    });
    if theirs.is_some() {
        let loads: Vec<String> = LOADS.iter().map(|load| format!(" {load} % |")).collect();
        println!("| curve |{}\n|---|{}", loads.concat(), "---|".repeat(LOADS.len()));
    }
    for curve in Curve::all() {
        let mut row = format!("| {} |", curve.name());
        for percent in LOADS {
            let id = format!("{}-{percent}", curve.name());
            let point = point(&folder, &curve, percent, &id);
            match theirs.as_ref().map(|theirs| theirs.get(&id)) {
                None => println!(
                    "{id} mean_ps {} used% {} hit% {} host_ns {}",
                    point.mean.0, point.bus_percent, point.hit_percent, point.host_ns
                ),
                Some(clocks) => {
                    let hertz = curve.standard.timing().clock.0 as f64;
                    let ns = clocks.map_or(f64::INFINITY, |clocks| clocks * 1e9 / hertz);
                    let off = 100.0 * (point.mean.as_ns_f64() / ns - 1.0);
                    write!(row, " {:.0} / {ns:.0} ({off:+.0}) |", point.mean.as_ns_f64()).unwrap();
                }
            }
            if point.mean > SATURATED {
                break;
            }
        }
        if theirs.is_some() {
            println!("{row}");
        }
    }
}

fn point(folder: &Option<String>, curve: &Curve, percent: u64, id: &str) -> Point {
    let config = config(curve.standard, curve.mapping);
    let timing = config.timing();
    let clock = Clock::new(timing.clock);
    let requests = requests(curve.pattern, curve.writes, percent, timing.burst, 1);
    let mut dram = Dram::new(&config);
    let (mut last, mut sum, mut reads) = (Ps::ZERO, 0, 0u64);
    let begin = cpu_ns();
    for request in &requests {
        let (now, addr) = (clock.edge(request.clock), PhysAddr(request.addr));
        if request.write {
            dram.write(now, addr);
        } else {
            let done = dram.read(now, addr);
            sum += (done - now).0;
            reads += 1;
            last = last.max(done);
        }
    }
    let host_ns = (cpu_ns() - begin) / REQUESTS;
    if let Some(folder) = folder {
        let mut text = String::new();
        for Request { clock, addr, write } in &requests {
            writeln!(text, "{addr:#x} {} {clock}", if *write { "WRITE" } else { "READ" }).unwrap();
        }
        std::fs::write(format!("{folder}/{id}.trace"), text).expect("cannot write the trace to the folder");
    }
    let stats = dram.stats().next().expect("the configuration has a channel");
    Point {
        mean: Ps(sum / reads.max(1)),
        bus_percent: stats.busy_ps * 100 / last.0.max(1),
        hit_percent: stats.row_hits * 100 / (stats.row_hits + stats.row_closed + stats.row_conflicts).max(1),
        host_ns,
    }
}
