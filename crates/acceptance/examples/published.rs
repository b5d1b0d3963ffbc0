//! Prints the figures of presets that `docs/coherence.md` compares with published measurements.

use doorbell_acceptance::micro::published::{
    Loaded, hitm_ns, l2_bytes_per_cycle, loaded, memory_ns, turn_ns,
};

fn print_loaded(name: &str, others: u32, loads: (usize, usize)) {
    let Loaded { chain_ns, stream_ns, in_flight, gigabytes } = loaded(name, others, loads);
    println!(
        "{name}: {others} others, {loads:?} loads per block: chain {chain_ns:.1} ns, streams {stream_ns:.1} ns with {in_flight:.0} lines \
         in flight, {gigabytes:.1} GB/s"
    );
}

fn main() {
    for name in ["skylake-sp", "xeon-e5-2699v4", "xeon-e5-2667v4", "altra", "big-server"] {
        println!("{name}: HITM {:.1} ns", hitm_ns(name));
        println!("{name}: {:.1} ns per turn", turn_ns(name));
        println!("{name}: L2 to L1 {:.1} B per cycle", l2_bytes_per_cycle(name));
        println!(
            "{name}: memory {:.1} ns in random order, {:.1} ns in address order",
            memory_ns(name, true),
            memory_ns(name, false)
        );
    }
    for (name, most) in [("skylake-sp", 17), ("xeon-e5-2699v4", 15)] {
        for others in [0, 2, 4, 6, 8, 10, 12, most] {
            print_loaded(name, others, (8, 32));
        }
        // The chain's latency depends on the number of loads that are timed as one block.
        for loads in [(1, 32), (1, 8), (1, 1), (8, 1)] {
            print_loaded(name, most, loads);
        }
    }
}
