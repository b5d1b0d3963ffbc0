//! Bandwidth and loaded latency of memory over the time of a measurement, channel by channel.

use doorbell_machine::{Machine, MemoryConfig, Mode, Timing};
use doorbell_results::MemoryPart;
use doorbell_sim::Ps;

/// Parts that a measurement is looked at in.
pub(crate) const PARTS: u64 = 32;

/// What a channel had counted.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    bytes_read: u64,
    bytes_written: u64,
    reads: u64,
    read_clocks: u64,
}

/// What all channels had counted at some moments. Memory is asked a little ahead of the time at which its data come, so a moment has
/// what was asked for up to it.
#[derive(Debug, Default)]
pub(crate) struct MemorySeries {
    moments: Vec<(Ps, Vec<Counted>)>,
}

impl MemorySeries {
    /// Looks at a machine that is timed; another has nothing to see.
    pub fn look(&mut self, machine: &Machine) {
        if let Some(timing) = machine.timing().filter(|timing| timing.mode() == Mode::Detailed) {
            self.look_at(timing, machine.complete_until());
        }
    }

    /// Looks at timing models.
    pub fn look_at(&mut self, timing: &Timing, now: Ps) {
        let channels = timing.memory.memory().stats_until(now).map(|stats| Counted {
            bytes_read: stats.bytes_read,
            bytes_written: stats.bytes_written,
            reads: stats.reads,
            read_clocks: stats.read_clocks,
        });
        self.moments.push((now, channels.collect()));
    }

    /// Whether it has seen nothing.
    pub fn is_empty(&self) -> bool {
        self.moments.is_empty()
    }

    /// Whether it has seen more than a beginning.
    pub fn is_a_course(&self) -> bool {
        self.moments.len() > 1
    }

    /// Part by part, and in each channel by channel.
    pub fn parts(&self, memory: &MemoryConfig) -> Vec<MemoryPart> {
        let Some((begin, _)) = self.moments.first() else { return Vec::new() };
        let config = &memory.dram;
        let clock_ns = 1e9 / config.timing().clock.0 as f64;
        let around = (config.request_latency + config.response_latency).0 as f64 * 1e-3;
        let mut parts = Vec::new();
        for pair in self.moments.windows(2).filter(|pair| pair[1].0 > pair[0].0) {
            let length_ns = (pair[1].0 - pair[0].0).0 as f64 * 1e-3;
            for (channel, (before, after)) in (0..).zip(pair[0].1.iter().zip(&pair[1].1)) {
                let reads = after.reads - before.reads;
                let clocks = (after.read_clocks - before.read_clocks) as f64;
                parts.push(MemoryPart {
                    begin_ns: (pair[0].0 - *begin).0 as f64 * 1e-3,
                    length_ns,
                    channel,
                    read_gbps: (after.bytes_read - before.bytes_read) as f64 * 8.0 / length_ns,
                    write_gbps: (after.bytes_written - before.bytes_written) as f64 * 8.0 / length_ns,
                    read_latency_ns: (reads > 0).then(|| clocks * clock_ns / reads as f64 + around),
                });
            }
        }
        parts
    }
}
