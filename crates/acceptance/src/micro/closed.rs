//! Closed forms, computed from the configuration alone.
//!
//! Times are in *ticks*: every clock's period is a whole number of ticks, so that clock crossings are exact.
//! A signal that arrives between two edges waits for the next edge.

use doorbell_machine::MachineConfig;

/// Periods of the clocks on a load's path, in ticks.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    core: u64,
    interconnect: u64,
    dram: u64,
    /// Ticks per second.
    second: u64,
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Ticks {
    fn of(config: &MachineConfig) -> Ticks {
        let clocks = [
            config.core.frequency.0,
            config.memory.interconnect.clock.0,
            config.memory.dram.timing().clock.0,
        ];
        let second = clocks.iter().fold(1, |common, clock| common / gcd(common, *clock) * clock);
        let [core, interconnect, dram] = clocks.map(|clock| second / clock);
        Ticks { core, interconnect, dram, second }
    }

    fn of_ps(self, ps: u64) -> u64 {
        let product = u128::from(ps) * u128::from(self.second);
        assert_eq!(product % 1_000_000_000_000, 0, "{ps} ps is not a whole number of ticks");
        (product / 1_000_000_000_000) as u64
    }
}

/// Level that supplies a load's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadSource {
    /// First-level cache.
    L1,
    /// Second-level cache.
    L2,
    /// Last-level cache.
    Llc,
    /// DRAM, with the line's row open.
    RowHit,
    /// DRAM, with the bank precharged.
    RowClosed,
    /// DRAM, with another row open.
    RowConflict,
}

/// Core cycles from the L1 look-up, in cycle `start`, until the load's line arrives.
pub fn cache_cycles(config: &MachineConfig, from: LoadSource, start: u64) -> u64 {
    let m = &config.memory;
    let l1 = u64::from(m.l1d.latency);
    let l2 = l1 + u64::from(m.l2.latency);
    match from {
        LoadSource::L1 => l1,
        LoadSource::L2 => l2,
        _ => l2 + beyond_l2(config, from, start + l2),
    }
}

/// Core cycles from when a request leaves the core, in cycle `left`, until its line arrives.
fn beyond_l2(config: &MachineConfig, from: LoadSource, left: u64) -> u64 {
    let (m, ticks) = (&config.memory, Ticks::of(config));
    let way = u64::from(m.interconnect.latency);
    let looked_up = (left * ticks.core).div_ceil(ticks.interconnect) + way + u64::from(m.llc.latency);
    let data = if from == LoadSource::Llc { looked_up } else { from_dram(config, from, looked_up) };
    ((data + way) * ticks.interconnect).div_ceil(ticks.core) - left
}

/// Interconnect cycle in which DRAM delivers a line requested in interconnect cycle `requested`.
fn from_dram(config: &MachineConfig, from: LoadSource, requested: u64) -> u64 {
    let (dram, ticks) = (&config.memory.dram, Ticks::of(config));
    let t = dram.timing();
    let clocks = t.cl
        + t.burst
        + match from {
            LoadSource::RowClosed => t.rcd,
            LoadSource::RowConflict => t.rp + t.rcd,
            _ => 0,
        };
    let begin = (requested * ticks.interconnect + ticks.of_ps(dram.request_latency.0)).div_ceil(ticks.dram);
    ((begin + clocks) * ticks.dram + ticks.of_ps(dram.response_latency.0)).div_ceil(ticks.interconnect)
}

/// Cycles per load of a dependent chain whose lines all come from the same level.
pub fn chase(config: &MachineConfig, from: LoadSource) -> f64 {
    let address = u64::from(config.pipeline.address_cycles);
    let (mut now, mut start) = (0, 0);
    // Skip the first half, until the clocks' phases at each load repeat.
    for load in 0..6_000 {
        if load == 3_000 {
            start = now;
        }
        now += address + cache_cycles(config, from, now + address);
    }
    (now - start) as f64 / 3_000.0
}

/// Minimum and maximum occupancy of an L1 MSHR, in cycles, for a line from this level: from the end of the
/// look-up until the line arrives.
pub fn l1_mshr_cycles(config: &MachineConfig, from: LoadSource) -> (f64, f64) {
    let l1 = u64::from(config.memory.l1d.latency);
    let all = (0..600).map(|cycle| cache_cycles(config, from, cycle) - l1);
    let (least, most) = all.fold((u64::MAX, 0), |(least, most), n| (least.min(n), most.max(n)));
    (least as f64, most as f64)
}

/// Core cycles in `ps` picoseconds.
pub fn cycles_of(config: &MachineConfig, ps: f64) -> f64 {
    ps * config.core.frequency.0 as f64 / 1e12
}

/// Bandwidth in GB/s for a number of lines per core cycle.
pub fn gigabytes(config: &MachineConfig, lines_per_cycle: f64) -> f64 {
    lines_per_cycle * 64.0 * config.core.frequency.0 as f64 / 1e9
}
