//! Speed of timed machines, with ratios to the functional machine and to a stored baseline. A benchmark, not
//! a test: results depend on the host.
//!
//!     cargo run --release -p doorbell-acceptance --example speed_timed [-- --runs 5] [--store]
//!
//! | Part | Measurement |
//! |---|---|
//! | out-of-order, in-order | instructions per host second of testpmd under load, fully timed, alternating with the functional machine |
//! | warming | the same while caches, TLBs and predictors are only warmed, and at 8, 14 and 28 Mpps |
//! | idle | host seconds per simulated second of a kernel that answers pings, at 1 kpps and at full load |
//! | memory | peak resident memory of a run with a 64 MiB LLC, minus the guest memory touched |

use std::process::Command;
use std::time::Instant;

use doorbell_acceptance::baseline::{median, print_and_store, seconds_and_peak};
use doorbell_acceptance::{doorbell_path, places, quiet, scratch};
use doorbell_bench::{Session, Source, benchmark, resolve};
use doorbell_machine::{Limits, Machine, Mode};
use doorbell_sim::Ps;
use doorbell_sim::ram::PAGE_BYTES;
use serde_json::{Map, json};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runs = words.iter().position(|word| word == "--runs").and_then(|at| words.get(at + 1)?.parse().ok());
    let runs: usize = runs.unwrap_or(5).max(1);
    let mut figures = Map::new();
    for (name, kind, rate) in [("out_of_order", "out-of-order", "24Mpps"), ("in_order", "in-order", "8Mpps")]
    {
        let set = [format!("pipeline.kind={kind}"), format!("loadgen.traffic.rate={rate}")];
        let all: Vec<[f64; 3]> = (0..runs).map(|_| in_turns(&set)).collect();
        for (which, what) in [(0, name.to_owned()), (1, format!("{name}_warming"))] {
            figures.insert(format!("{what}_mips"), json!(median(all.iter().map(|one| one[which]))));
            let ratios = all.iter().map(|one| one[2] / one[which]);
            figures.insert(format!("{what}_functional_is_faster"), json!(median(ratios)));
        }
    }
    for rate in [8, 14, 28] {
        let set = [format!("loadgen.traffic.rate={rate}Mpps")];
        let all: Vec<[f64; 3]> = (0..runs).map(|_| in_turns(&set)).collect();
        figures.insert(format!("warming_{rate}_mpps_mips"), json!(median(all.iter().map(|one| one[1]))));
        let ratios = all.iter().map(|one| one[2] / one[1]);
        figures.insert(format!("warming_{rate}_mpps_functional_is_faster"), json!(median(ratios)));
    }
    let idle = median((0..runs).map(|_| host_seconds("1kpps", 200)));
    let full = median((0..runs).map(|_| host_seconds("1Mpps", 4)));
    figures.insert("idle_host_seconds_per_second".to_owned(), json!(idle));
    figures.insert("full_load_host_seconds_per_second".to_owned(), json!(full));
    figures.insert("full_load_over_idle".to_owned(), json!(full / idle));
    figures.insert("memory_without_guest_64_mib_llc_mib".to_owned(), json!(memory()));
    print_and_store(&figures, "speed-timed-baseline.json", words.iter().any(|word| word == "--store"));
}

fn session(name: &str, set: &[String]) -> Session {
    let config = resolve("server", set).expect("a configuration");
    let chosen = benchmark(name).expect("a benchmark");
    quiet(|control| Session::prepare(&config, chosen, &places(), &Source::Cache, control))
        .expect("the application becomes ready")
}

/// Runs for a simulated time; returns host seconds and instructions.
fn run(machine: &mut Machine, time: Ps) -> (f64, u64) {
    let (started, before) = (Instant::now(), machine.instructions());
    machine.run(&Limits::until(machine.now() + time));
    (started.elapsed().as_secs_f64(), machine.instructions() - before)
}

/// Millions of instructions per host second: timed, warming and functional, in alternating runs.
fn in_turns(set: &[String]) -> [f64; 3] {
    let session = session("testpmd", set);
    let mut machine = session.machine().expect("a machine");
    machine.start_traffic(&session.config().loadgen.traffic).expect("traffic");
    machine.set_mode(Mode::Warming);
    run(&mut machine, Ps::from_ms(1));
    let mut sums = [(0.0, 0); 3];
    for _ in 0..4 {
        for (mode, sum) in [Mode::Detailed, Mode::Warming, Mode::Functional].into_iter().zip(&mut sums) {
            machine.set_mode(mode);
            let (seconds, instructions) = run(&mut machine, Ps::from_us(500));
            *sum = (sum.0 + seconds, sum.1 + instructions);
        }
    }
    sums.map(|(seconds, instructions)| instructions as f64 / 1e6 / seconds)
}

/// Host seconds per simulated second of a fully timed machine that answers pings.
fn host_seconds(rate: &str, millis: u64) -> f64 {
    let set = ["kind=ping", "source_ip=10.0.0.1", "destination_ip=10.0.0.2", &format!("rate={rate}")]
        .map(|word| format!("loadgen.traffic.{word}"));
    let session = session("ping", &set);
    let mut machine = session.machine().expect("a machine");
    machine.start_traffic(&session.config().loadgen.traffic).expect("traffic");
    machine.set_mode(Mode::Warming);
    run(&mut machine, Ps::from_ms(3));
    machine.set_mode(Mode::Detailed);
    run(&mut machine, Ps::from_ms(millis)).0 / (millis as f64 * 1e-3)
}

/// Peak resident memory of the command minus the guest memory touched, in MiB.
fn memory() -> f64 {
    let touched = session("testpmd", &[]).machine().expect("a machine").ram().touched_pages().count() as u64;
    let folder = scratch();
    let mut command = Command::new(doorbell_path());
    command.args(["run", "testpmd", "-q", "--rate", "20Mpps", "--warmup", "2ms", "--duration", "1ms"]);
    command.args(["--set", "memory.llc.size=64MiB", "--out"]).arg(folder.path());
    let (_, peak) = seconds_and_peak(&mut command);
    (peak as f64 - (touched * PAGE_BYTES) as f64) / f64::from(1 << 20)
}
