//! Latency under load of one DRAM channel, and the traces of the same requests for a cycle-accurate DRAM simulator to run.
//!
//! `cargo run --release -p doorbell-memory --example dram_curve -- [FOLDER]` prints our curves; with a folder it also
//! writes a trace for each point: a line a request, hexadecimal address, READ or WRITE, and clock. See docs/dram.md.

use std::fmt::Write as _;

use doorbell_memory::dram::{Dram, DramConfig, DramStandard};
use doorbell_sim::rng::Rng;
use doorbell_sim::stats::Stats as _;
use doorbell_sim::{Clock, PhysAddr, Ps};

const REQUESTS: u64 = 100_000;
const LOADS: [u64; 10] = [5, 10, 20, 30, 40, 50, 60, 70, 80, 90];
/// Above this the channel is saturated and the curve ends.
const SATURATED: Ps = Ps::from_ns(600);

/// Which lines are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pattern {
    Random,
    /// One run through memory.
    Stream,
    /// Runs of 4 KiB at random places, eight at a time.
    Runs,
}

struct Request {
    clock: u64,
    addr: u64,
    write: bool,
}

/// Requests at a mean of `percent` of the pins' bandwidth, at random times, at most one a clock.
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
        // The simulator's own pipeline.
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

fn main() {
    let folder = std::env::args().nth(1);
    for (standard, name) in [(DramStandard::Ddr4_2400, "ddr4-2400"), (DramStandard::Ddr4_3200, "ddr4-3200")] {
        for (mapping, short) in [
            ("row channel rank bank bank_group column", "rochrababgco"),
            ("row channel rank bank column bank_group", "rochrabacobg"),
        ] {
            for pattern in [Pattern::Random, Pattern::Stream, Pattern::Runs] {
                for writes in [false, true] {
                    for percent in LOADS {
                        let mean =
                            point(&folder, (standard, name), (mapping, short), pattern, writes, percent);
                        if mean > SATURATED {
                            break;
                        }
                    }
                }
            }
        }
    }
}

fn point(
    folder: &Option<String>,
    (standard, name): (DramStandard, &str),
    (mapping, short): (&str, &str),
    pattern: Pattern,
    writes: bool,
    percent: u64,
) -> Ps {
    let config = config(standard, mapping);
    let timing = config.timing();
    let clock = Clock::new(timing.clock);
    let requests = requests(pattern, writes, percent, timing.burst, 1);
    let mix = if writes { "2:1" } else { "read" };
    let id = format!("{name}-{short}-{pattern:?}-{}-{percent}", mix.replace(':', "")).to_lowercase();
    let mut dram = Dram::new(&config);
    let (mut last, mut sum, mut reads) = (Ps::ZERO, 0, 0u64);
    let begin = std::time::Instant::now();
    for request in &requests {
        let now = clock.edge(request.clock);
        let addr = PhysAddr(request.addr);
        if request.write {
            dram.write(now, addr);
        } else {
            let done = dram.read(now, addr);
            sum += (done - now).0;
            reads += 1;
            last = last.max(done);
        }
    }
    let host_ns = begin.elapsed().as_nanos() as u64 / REQUESTS;
    let stats = dram.stats().next().unwrap().clone();
    let cycles = clock.edge_at_or_after(last);
    println!(
        "{id} mean_ps {} used% {} hit% {} host_ns {host_ns}",
        sum / reads.max(1),
        stats.busy_clocks * 100 / cycles.max(1),
        stats.row_hits * 100 / (stats.row_hits + stats.row_closed + stats.row_conflicts).max(1),
    );
    if let Some(folder) = folder {
        let mut text = String::new();
        for Request { clock, addr, write } in &requests {
            writeln!(text, "{addr:#x} {} {clock}", if *write { "WRITE" } else { "READ" }).unwrap();
        }
        std::fs::write(format!("{folder}/{id}.trace"), text).unwrap();
    }
    if std::env::var_os("DRAM_CURVE_COUNTERS").is_some() {
        for counter in stats.counters() {
            println!("    {} {}", counter.name, counter.value);
        }
    }
    Ps(sum / reads.max(1))
}
