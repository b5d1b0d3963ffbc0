//! How a timed run goes: testpmd at a few loads with all models on. A look, not a test.
//!
//!     cargo run --release -p doorbell-acceptance --example timed -- 1Mpps 5Mpps

use std::time::Instant;

use doorbell_acceptance::{places, quiet};
use doorbell_bench::{Session, Source, benchmark, resolve};
use doorbell_machine::{Limits, Mode};
use doorbell_sim::Ps;

fn main() {
    let mut set = vec!["core.model=timed".to_owned()];
    let mut rates = Vec::new();
    for word in std::env::args().skip(1) {
        if word.contains('=') { set.push(word) } else { rates.push(word) }
    }
    let config = resolve("fast", &set).expect("a configuration");
    let chosen = benchmark("testpmd").expect("a benchmark");
    let session = quiet(|control| Session::prepare(&config, chosen, &places(), &Source::Cache, control))
        .expect("testpmd gets ready");
    for rate in rates {
        let mut machine = session.machine().expect("a machine");
        let mut traffic = config.loadgen.traffic.clone();
        traffic.rate = rate.parse().expect("a rate");
        machine.start_traffic(&traffic).expect("traffic");
        for (mode, time) in
            [(Mode::Functional, 200), (Mode::Warming, 1000), (Mode::Detailed, 500), (Mode::Detailed, 1000)]
        {
            machine.set_mode(mode);
            machine.begin_window();
            let (begun, before, at) = (Instant::now(), machine.instructions(), machine.now());
            let stats = machine.timing().unwrap().cores[0].stats();
            let memory = machine.timing().unwrap().memory.stats();
            let outcome = machine.run(&Limits::until(machine.now() + Ps::from_us(time)));
            let seconds = begun.elapsed().as_secs_f64();
            let done = machine.instructions() - before;
            let simulated = machine.now() - at;
            let cycles = simulated.0 as f64 * 3e-3;
            machine.end_window();
            let offered = machine.ports()[0].loadgen.measurement().unwrap().volumes();
            println!(
                "{rate} {mode:?} {outcome:?}: {done} instructions, IPC {:.3}, {:.2} MIPS, {} frames offered, {} delivered",
                done as f64 / cycles,
                done as f64 / seconds / 1e6,
                offered.0.frames,
                offered.1.frames
            );
            if mode == Mode::Detailed {
                let now = machine.timing().unwrap().cores[0].stats();
                println!("  top-down {:?}", now.books.top_down().level1());
                println!("  {:?}", now.counts);
                let _ = (&stats, &memory);
                let memory = machine.timing().unwrap().memory.stats().since(&memory);
                println!(
                    "  l1d {:?}\n  l2 {:?}\n  llc {:?}\n  devices {:?}",
                    memory.harts[0].l1d, memory.harts[0].l2, memory.llc, memory.devices
                );
            }
        }
    }
}
