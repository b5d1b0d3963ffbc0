//! Pointer chase in a ChampSim trace on Doorbell's core and caches: a link costs the latency of the cache
//! that holds it.

use doorbell_core::{Core, PipelineConfig};
use doorbell_memory::dram::Dram;
use doorbell_memory::{MemoryConfig, MemorySystem, SingleHart};
use doorbell_sim::{Bytes, Hertz, PhysAddr};
use doorbell_trace::champsim::{self, Record};

const BASE: u64 = 0x8000_0000;

/// Seven links through `register` and a jump back, with code in one line.
fn record(register: u8, place: u64, lines: u64) -> Record {
    let ip = BASE + place % 8 * 4;
    if place % 8 == 7 {
        return Record {
            ip,
            is_branch: true,
            taken: true,
            destinations: [26, 0, 0, 0],
            sources: [26, 0, 0, 0],
            ..Record::default()
        };
    }
    // 17 is coprime to the number of lines: all lines are visited, never two neighbours in a row.
    let address = BASE + (1 << 20) + place * 17 % lines * 64;
    let (sources, destinations) = ([register, 0, 0, 0], [register, 0, 0, 0]);
    Record { ip, sources, destinations, read: [address, 0, 0, 0], ..Record::default() }
}

/// Cycles per link of a chase through `lines` lines that are in the caches.
fn cycles_per_link(register: u8, lines: u64) -> f64 {
    let (config, clocks) = (MemoryConfig::default(), [Hertz(3_000_000_000)]);
    let dram = Dram::new(&config.dram);
    let memory = MemorySystem::new(&config, &clocks, PhysAddr(BASE), Bytes(16 << 20), dram).unwrap();
    let (mut around, mut core) = (SingleHart(memory), Core::new(&PipelineConfig::default()));
    core.set_address_space(None);
    let records: Vec<Record> = (0..=4 * lines).map(|place| record(register, place, lines)).collect();
    let ops = champsim::ops(&records);
    let (first, rest) = ops.split_at(2 * lines as usize);
    core.execute(first, &mut around);
    let before = core.now();
    core.execute(rest, &mut around);
    (core.now() - before) as f64 * 8.0 / (7 * rest.len()) as f64
}

#[test]
fn link_costs_the_latency_of_its_cache_through_any_register() {
    let (pipeline, memory) = (PipelineConfig::default(), MemoryConfig::default());
    let first = f64::from(pipeline.address_cycles + memory.l1d.latency);
    let second = first + f64::from(memory.l2.latency);
    // 3, 10 and 18 are Pin's numbers of rdi, rax and r15, and 25 those of the flags; 101 is one of our
    // writer's.
    for register in [1, 3, 10, 18, 25, 63, 64, 101, 128, 255] {
        let cycles = [256, 4096].map(|lines| cycles_per_link(register, lines));
        let off = |(own, form): (&f64, &f64)| (own - form).abs() / form;
        let worst = cycles.iter().zip(&[first, second]).map(off).fold(0.0, f64::max);
        assert!(worst < 0.02, "register {register}: {cycles:?} for {first} and {second}");
    }
}
