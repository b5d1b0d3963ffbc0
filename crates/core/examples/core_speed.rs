//! Measures host nanoseconds per op of a core with an ideal memory in which every access hits.
//!
//! The op stream resembles a packet loop: 26 % loads, 13 % stores, 17 % branches (most of them taken and well
//! predictable), the rest integer ops with short dependences. Arguments: rounds, and a prefix of the core's
//! name.

use std::time::Instant;

use doorbell_core::{Core, CoreKind, DirectionPredictor, PipelineConfig};
use doorbell_sim::memory::{CoreAccess, CoreMemory, Level, Prefetched, Served, Walk};
use doorbell_sim::rng::Rng;
use doorbell_sim::{CoreCycle, Op, OpClass, PhysAddr};

struct AllHits;

impl CoreMemory for AllHits {
    fn access(&mut self, cycle: CoreCycle, _: CoreAccess) -> Served {
        Served { at: cycle + 2, level: Level::L1 }
    }

    fn prefetch(&mut self, cycle: CoreCycle, _: CoreAccess) -> Prefetched {
        Prefetched { at: cycle + 2, level: Some(Level::L1) }
    }

    fn walk(&mut self, virt: u64) -> Walk {
        let entries = [
            PhysAddr(0x1000),
            PhysAddr(0x2000),
            PhysAddr(0x3000 + (virt >> 21) % 512 * 8),
            PhysAddr(0),
            PhysAddr(0),
        ];
        Walk { entries, levels: 3, page_bytes: 2 << 20, faults: 0 }
    }
}

/// `rounds` iterations of a loop body of `length` ops; some addresses and branches differ from round to
/// round.
fn stream(rounds: u64, length: u64, rng: &mut Rng) -> Vec<Op> {
    let body: Vec<Op> = (0..length).map(|place| one(place, length, rng)).collect();
    let mut ops = Vec::new();
    for round in 0..rounds {
        let mut skip = 0;
        for (place, op) in body.iter().enumerate() {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let mut op = *op;
            if op.class.is_memory() && place % 3 == 0 {
                op.virt += round % 64 * 2048;
                op.phys.0 += round % 64 * 2048;
            }
            if op.class == OpClass::Branch {
                let taken = if place % 16 == 1 { rng.below(8) == 0 } else { place % 2 == 0 };
                op.flags = u8::from(taken);
                skip = if taken { (op.virt - op.pc) / 4 - 1 } else { 0 };
            }
            ops.push(op);
        }
    }
    ops
}

fn one(place: u64, length: u64, rng: &mut Rng) -> Op {
    let pc = 0x8000_0000 + place * 4;
    let register = |rng: &mut Rng| 1 + rng.below(28) as u8;
    let mut op = Op { pc, fetch: PhysAddr(pc), length: 4, ..Op::default() };
    op.sources = [register(rng), register(rng), 0];
    if place == length - 1 {
        return Op { class: OpClass::Jump, virt: 0x8000_0000, flags: Op::TAKEN, ..op };
    }
    let address = 0x9000_0000 + rng.below(4096) * 8;
    match rng.below(100) {
        0..26 => {
            let sources = [register(rng), 0, 0];
            Op {
                class: OpClass::Load,
                size: 8,
                virt: address,
                phys: PhysAddr(address),
                destination: register(rng),
                sources,
                ..op
            }
        }
        26..39 => Op { class: OpClass::Store, size: 8, virt: address, phys: PhysAddr(address), ..op },
        39..56 if place + 8 < length => {
            Op { class: OpClass::Branch, virt: pc + 4 * (2 + rng.below(3)), ..op }
        }
        56..58 => Op { class: OpClass::IntMul, destination: register(rng), ..op },
        _ => Op { destination: register(rng), ..op },
    }
}

fn main() {
    let rounds =
        std::env::args().nth(1).map_or(40, |rounds| rounds.parse().expect("rounds must be a number"));
    let only = std::env::args().nth(2);
    let ops = stream(60, 1200, &mut Rng::stream(1, "speed"));
    let config = |kind, direction| {
        let mut config = PipelineConfig { kind, ..PipelineConfig::default() };
        config.branch.direction = direction;
        config
    };
    for (name, config) in [
        ("out-of-order, BiMode", config(CoreKind::OutOfOrder, DirectionPredictor::BiMode)),
        ("out-of-order, TAGE", config(CoreKind::OutOfOrder, DirectionPredictor::Tage)),
        ("in-order, BiMode", config(CoreKind::InOrder, DirectionPredictor::BiMode)),
    ] {
        if only.as_deref().is_some_and(|only| !name.starts_with(only)) {
            continue;
        }
        let mut core = Core::new(&config);
        let mut best = f64::MAX;
        for _ in 0..rounds {
            let begin = Instant::now();
            core.execute(&ops, &mut AllHits);
            best = best.min(begin.elapsed().as_secs_f64());
        }
        let stats = core.stats();
        println!(
            "{name}: {:.1} ns per op; IPC {:.2}, {} of {} branches mispredicted, {} forwards, {} replays; {:?}",
            best * 1e9 / ops.len() as f64,
            stats.counts.ops as f64 / stats.books.cycles as f64,
            stats.counts.wrong_directions,
            stats.counts.conditional_branches,
            stats.counts.forwards,
            stats.counts.replays,
            stats.books.top_down(),
        );
    }
}
