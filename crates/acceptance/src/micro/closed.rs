//! Closed forms, from the configuration alone.
//!
//! Clocks are compared in *ticks*, of which each clock's period is a whole number, so that crossing from one to another is
//! exact: what arrives between two edges waits for the next.

use doorbell_machine::MachineConfig;

/// Periods of the clocks on a load's way, in ticks.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    core: u64,
    interconnect: u64,
    dram: u64,
    /// Ticks of a second.
    second: u64,
}

fn greatest(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest(b, a % b) }
}

impl Ticks {
    fn of(config: &MachineConfig) -> Ticks {
        let clocks = [
            config.core.frequency.0,
            config.memory.interconnect.clock.0,
            config.memory.dram.timing().clock.0,
        ];
        let second = clocks.iter().fold(1, |common, clock| common / greatest(common, *clock) * clock);
        let [core, interconnect, dram] = clocks.map(|clock| second / clock);
        Ticks { core, interconnect, dram, second }
    }

    fn of_ps(self, ps: u64) -> u64 {
        let product = u128::from(ps) * u128::from(self.second);
        assert_eq!(product % 1_000_000_000_000, 0, "a latency that is no whole number of ticks");
        (product / 1_000_000_000_000) as u64
    }
}

/// What a load finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// Its line in the first-level cache.
    L1,
    /// In the second.
    L2,
    /// In the last.
    Llc,
    /// In memory, its row open.
    RowHit,
    /// In memory, its bank closed.
    RowClosed,
    /// In memory, another row open.
    RowConflict,
}

/// A core's cycles until a load's line is there, from the cycle in which the first-level cache is asked.
pub fn cache_cycles(config: &MachineConfig, from: From, asked: u64) -> u64 {
    let m = &config.memory;
    let l1 = u64::from(m.l1d.latency);
    let l2 = l1 + u64::from(m.l2.latency);
    match from {
        From::L1 => l1,
        From::L2 => l2,
        _ => l2 + beyond_l2(config, from, asked + l2),
    }
}

/// Cycles from a request's leaving the core in cycle `left` to its line's arrival.
fn beyond_l2(config: &MachineConfig, from: From, left: u64) -> u64 {
    let (m, ticks) = (&config.memory, Ticks::of(config));
    let way = u64::from(m.interconnect.latency);
    let asked = (left * ticks.core).div_ceil(ticks.interconnect) + way + u64::from(m.llc.latency);
    let data = if from == From::Llc { asked } else { from_dram(config, from, asked) };
    ((data + way) * ticks.interconnect).div_ceil(ticks.core) - left
}

/// The interconnect's cycle in which a line that memory is asked for in `asked` is there.
fn from_dram(config: &MachineConfig, from: From, asked: u64) -> u64 {
    let (dram, ticks) = (&config.memory.dram, Ticks::of(config));
    let t = dram.timing();
    let clocks = t.cl
        + t.burst
        + match from {
            From::RowClosed => t.rcd,
            From::RowConflict => t.rp + t.rcd,
            _ => 0,
        };
    let begin = (asked * ticks.interconnect + ticks.of_ps(dram.request_latency.0)).div_ceil(ticks.dram);
    ((begin + clocks) * ticks.dram + ticks.of_ps(dram.response_latency.0)).div_ceil(ticks.interconnect)
}

/// Cycles a load of a chain in which each waits for the one before, and all find the same.
pub fn chase(config: &MachineConfig, from: From) -> f64 {
    let address = u64::from(config.pipeline.address_cycles);
    let (mut now, mut begun) = (0, 0);
    // After some loads the clocks stand to each other as they do from then on.
    for load in 0..6_000 {
        if load == 3_000 {
            begun = now;
        }
        now += address + cache_cycles(config, from, now + address);
    }
    (now - begun) as f64 / 3_000.0
}

/// The fewest and most cycles that a miss register of the L1 is held for a line from there: from the end of the look-up
/// until the line is there.
pub fn l1_register_held(config: &MachineConfig, from: From) -> (f64, f64) {
    let l1 = u64::from(config.memory.l1d.latency);
    let all = (0..600).map(|cycle| cache_cycles(config, from, cycle) - l1);
    let (least, most) = all.fold((u64::MAX, 0), |(least, most), n| (least.min(n), most.max(n)));
    (least as f64, most as f64)
}

/// Core cycles of so many picoseconds.
pub fn cycles_of(config: &MachineConfig, ps: f64) -> f64 {
    ps * config.core.frequency.0 as f64 / 1e12
}

/// GB/s of so many lines a core's cycle.
pub fn gigabytes(config: &MachineConfig, lines_a_cycle: f64) -> f64 {
    lines_a_cycle * 64.0 * config.core.frequency.0 as f64 / 1e9
}
