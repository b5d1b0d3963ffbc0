//! Prints what `docs/coherence.md` says of presets beside published machines.

use doorbell_acceptance::micro::published::{
    Loaded, hitm_ns, l2_bytes_per_cycle, loaded, memory_ns, turn_ns,
};

fn print_loaded(name: &str, others: u32, loads: (usize, usize)) {
    let Loaded { chain_ns, stream_ns, in_flight, gigabytes } = loaded(name, others, loads);
    println!(
        "{name}: {others} others, {loads:?} loads a block: chain {chain_ns:.1} ns, streams {stream_ns:.1} ns with {in_flight:.0} lines \
         in flight, {gigabytes:.1} GB/s"
    );
}

fn main() {
    for name in ["skylake-sp", "xeon-e5-2699v4", "xeon-e5-2667v4", "altra", "big-server"] {
        println!("{name}: HITM {:.1} ns", hitm_ns(name));
        println!("{name}: a turn {:.1} ns", turn_ns(name));
        println!("{name}: L2 to L1 {:.1} B per cycle", l2_bytes_per_cycle(name));
        println!(
            "{name}: memory {:.1} ns at random, {:.1} in order",
            memory_ns(name, true),
            memory_ns(name, false)
        );
    }
    for (name, most) in [("skylake-sp", 17), ("xeon-e5-2699v4", 15)] {
        for others in [0, 2, 4, 6, 8, 10, 12, most] {
            print_loaded(name, others, (8, 32));
        }
        // What the chain's figure depends on: how many loads are priced at once.
        for loads in [(1, 32), (1, 8), (1, 1), (8, 1)] {
            print_loaded(name, most, loads);
        }
    }
}
