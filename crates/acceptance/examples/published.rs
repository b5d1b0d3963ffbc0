//! Prints what `docs/coherence.md` says of presets beside published machines.

use doorbell_acceptance::micro::published::{hitm_ns, l2_bytes_per_cycle, loaded, memory_ns, turn_ns};

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
            let (ns, gigabytes) = loaded(name, others);
            println!("{name}: {others} others: {ns:.1} ns, {gigabytes:.1} GB/s");
        }
    }
}
