//! Bandwidth and latency of the timed link by size, compared with the closed form and a measured host. See
//! docs/pcie-link.md.
//!
//! `cargo run --release -p doorbell-pcie --example pcie_curve`

use doorbell_pcie::{LinkConfig, PcieLink};
use doorbell_sim::memory::{DmaAccess, HostMemory};
use doorbell_sim::ports::DmaPurpose;
use doorbell_sim::{PhysAddr, Ps};

/// A cache with a latency of 50 ns.
struct Cache;

impl HostMemory for Cache {
    fn device_read(&mut self, now: Ps, _: PhysAddr, _: u32, _: DmaAccess) -> Ps {
        now + Ps::from_ns(50)
    }
    fn device_write(&mut self, now: Ps, _: PhysAddr, _: u32, _: DmaAccess) -> Ps {
        now + Ps::from_ns(50)
    }
}

const ACCESS: DmaAccess = DmaAccess::plain(0, DmaPurpose::TxData, 0);
const COUNT: u64 = 20_000;

fn transfer(link: &mut PcieLink, write: bool, index: u64, size: u32) -> Ps {
    let addr = PhysAddr(index % 64 * 4096);
    match write {
        true => link.write(Ps::ZERO, addr, size, ACCESS, &mut Cache),
        false => link.read(Ps::ZERO, addr, size, ACCESS, &mut Cache),
    }
}

/// Payload bandwidth of back-to-back requests, in Gbps.
fn bandwidth(config: &LinkConfig, write: bool, size: u32) -> f64 {
    let mut link = PcieLink::behind_bridges(config, 0);
    let last =
        (0..COUNT).map(|index| transfer(&mut link, write, index, size)).max().expect("COUNT is positive");
    (COUNT * u64::from(size) * 8) as f64 / last.as_secs_f64() / 1e9
}

fn formula(config: &LinkConfig, write: bool, size: u32) -> f64 {
    let (size, rate) = (f64::from(size), config.packet_rate().0 as f64 / 1e9);
    let (mps, mrrs) = (config.max_payload.0 as f64, config.max_read_request.0 as f64);
    let up = if write { (size / mps).ceil() * 24.0 + size } else { (size / mrrs).ceil() * 24.0 };
    let down = if write { 0.0 } else { (size / mps).ceil() * 20.0 + size };
    rate * size / up.max(down)
}

/// CPU time of this thread, as counted by Linux.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

fn main() {
    let config = LinkConfig { write_issue_interval: Ps::from_ns(21), ..LinkConfig::default() };
    let read = [
        (64, "28.7", "600"),
        (128, "43.0", "626"),
        (256, "46.9", "666"),
        (512, "55.1", "746"),
        (1024, "49.1", "906"),
        (2048, "", "1173"),
    ];
    let write = [(64, "24.3"), (128, "42.4"), (256, "50.6"), (512, "54.4"), (1024, "54.4"), (2048, "")];
    println!(
        "| bytes | read: formula | ours | measured | latency ns: ours | measured | write: formula | ours | measured |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for ((size, read, latency), (_, write)) in read.into_iter().zip(write) {
        let alone = transfer(&mut PcieLink::behind_bridges(&config, 0), false, 0, size);
        println!(
            "| {size} | {:.1} | {:.1} | {read} | {:.0} | {latency} | {:.1} | {:.1} | {write} |",
            formula(&config, false, size),
            bandwidth(&config, false, size),
            alone.as_ns_f64(),
            formula(&config, true, size),
            bandwidth(&config, true, size),
        );
    }
    let begin = cpu_ns();
    let mut link = PcieLink::behind_bridges(&config, 0);
    for index in 0..COUNT {
        transfer(&mut link, index % 2 == 0, index, 1518);
    }
    let lines = 24 * COUNT;
    println!("\nhost: {} ns per line of 1518-byte transfers", (cpu_ns() - begin) / lines);
}
