//! Host time per access: `cargo run --release -p doorbell-memory --example speed`.

use doorbell_memory::config::MemoryConfig;
use doorbell_memory::dram::Dram;
use doorbell_memory::prefetch::PrefetchKind;
use doorbell_memory::{FlatMemory, MainMemory, MemorySystem};
use doorbell_sim::memory::{AccessKind, CoreAccess, DmaAccess, HostMemory};
use doorbell_sim::ports::{DmaPurpose, PhysAddr};
use doorbell_sim::{Bytes, CoreCycle, Hertz, Ps};

const BASE: u64 = 0x8000_0000;

/// Number of accesses to time.
fn accesses() -> u64 {
    std::env::args()
        .nth(2)
        .map_or(5_000_000, |count| count.parse().expect("the second argument must be a number of accesses"))
}

fn flat() -> FlatMemory {
    FlatMemory::new(Ps::from_ns(60), Ps::from_ns(1))
}

fn system<M: MainMemory>(config: &MemoryConfig, memory: M) -> MemorySystem<M> {
    MemorySystem::new(config, &[Hertz(3_000_000_000)], PhysAddr(BASE), Bytes(1 << 30), memory).unwrap()
}

/// CPU time of this thread, so that other programs do not disturb the measurement.
fn host_ns() -> f64 {
    let text =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("this example needs Linux's /proc");
    text.split(' ')
        .next()
        .and_then(|number| number.parse().ok())
        .expect("schedstat must begin with nanoseconds")
}

/// Whether the command line selects this measurement; without an argument all are selected.
fn chosen(name: &str) -> bool {
    std::env::args().nth(1).is_none_or(|part| name.contains(&part))
}

/// A bijective scrambling of the numbers below a power of two.
fn scatter(number: u64, below: u64) -> u64 {
    let (mask, half) = (below - 1, below.ilog2() / 2);
    let mut mixed = number;
    for _ in 0..3 {
        mixed = (mixed * 0x9e37_79b9_7f4a_7c15) & mask;
        mixed ^= mixed >> half;
    }
    mixed
}

/// Loads over `span` bytes in a scattered order, each issued when the previous one is done or `apart` cycles
/// after it.
fn loads(name: &str, config: &MemoryConfig, span: u64, apart: Option<u64>) {
    loads_over(name, config, flat(), span, apart);
}

fn loads_over<M: MainMemory>(name: &str, config: &MemoryConfig, memory: M, span: u64, apart: Option<u64>) {
    if !chosen(name) {
        return;
    }
    let mut system = system(config, memory);
    let (mut cycle, mut count) = (CoreCycle::ZERO, 0u64);
    let lines = span / 64;
    assert!(lines.is_power_of_two());
    let mut step = |system: &mut MemorySystem<M>, cycle: &mut CoreCycle| {
        // Visits all lines cyclically, so that each level has its expected misses; the line numbers are
        // scrambled so that the host's branch predictor cannot learn them.
        count = (count * 1_103_515_245 + 12_345) & (lines - 1);
        let line = scatter(count, lines);
        let addr = PhysAddr(BASE + 64 * line);
        let access = CoreAccess { kind: AccessKind::Load, addr, pc: 0x8000_1000 + (line & 7) * 4 };
        let at = system.core_access(0, *cycle, access).at;
        *cycle = apart.map_or(at, |apart| *cycle + apart);
    };
    (0..(2 * lines).min(accesses())).for_each(|_| step(&mut system, &mut cycle));
    let begin = host_ns();
    (0..accesses()).for_each(|_| step(&mut system, &mut cycle));
    let ns = (host_ns() - begin) / accesses() as f64;
    let stats = system.stats();
    let core = &stats.harts[0].core;
    println!(
        "{name:34} {ns:6.1} ns   L1 {} L2 {} LLC {} memory {}",
        core.from_l1, core.from_l2, core.from_llc, core.from_dram
    );
}

/// A device that writes frames into a ring of `ring` bytes and reads them again.
fn device(name: &str, config: &MemoryConfig, ring: u64) {
    if !chosen(name) {
        return;
    }
    let mut system = system(config, flat());
    let begin = host_ns();
    let mut now = Ps::ZERO;
    for n in 0..accesses() / 2 {
        let addr = PhysAddr(BASE + n * 64 % ring);
        let offset = (n % 24 * 64) as u32;
        let access = |kind| DmaAccess::plain(0, kind, offset);
        let done = system.device_write(now, addr, 64, access(DmaPurpose::RxData));
        system.device_read(done, addr, 64, access(DmaPurpose::TxData));
        now += Ps::from_ns(5);
    }
    println!("{name:34} {:6.1} ns", (host_ns() - begin) / accesses() as f64);
}

fn main() {
    let config = MemoryConfig::default();
    loads("L1 hits, dependent", &config, 32 << 10, None);
    loads("L1 hits, one a cycle", &config, 32 << 10, Some(1));
    loads("L2 hits, dependent", &config, 512 << 10, None);
    loads("L2 hits, one in 4 cycles", &config, 512 << 10, Some(4));
    loads("LLC hits, dependent", &config, 2 << 20, None);
    loads("misses, dependent", &config, 256 << 20, None);
    loads("misses, one in 60 cycles", &config, 256 << 20, Some(60));
    loads("misses, one in 10 cycles", &config, 256 << 20, Some(10));
    let dram = || Dram::new(&config.dram);
    loads_over("DRAM, dependent", &config, dram(), 256 << 20, None);
    loads_over("DRAM, one in 60 cycles", &config, dram(), 256 << 20, Some(60));
    let mut large = config.clone();
    large.llc.size = Bytes(64 << 20);
    loads("LLC of 64MiB, misses", &large, 256 << 20, Some(60));
    let mut prefetching = config.clone();
    prefetching.l1d.prefetch.kind = PrefetchKind::Stride;
    loads("L1 hits, stride prefetcher on", &prefetching, 32 << 10, Some(1));
    device("device lines, in the DCA ways", &config, 512 << 10);
    device("device lines, leaking", &config, 64 << 20);
}
