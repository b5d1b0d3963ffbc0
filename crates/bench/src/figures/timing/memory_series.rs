//! Bandwidth and loaded latency of each memory channel over the time of a measurement.

use doorbell_machine::{Machine, MemoryConfig, Mode, Timing};
use doorbell_results::MemoryPart;
use doorbell_sim::Ps;

/// Number of parts into which a measurement is divided.
pub(crate) const PARTS: u64 = 32;

/// Counters of a channel at one time.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    bytes_read: u64,
    bytes_written: u64,
    reads: u64,
    read_clocks: u64,
}

/// Series of samples of all channels' counters. Accesses are counted at their request, slightly before their
/// data.
#[derive(Debug, Default)]
pub(crate) struct MemorySeries {
    samples: Vec<(Ps, Vec<Counted>)>,
}

impl MemorySeries {
    /// Samples a machine, if it is in timed mode.
    pub fn sample(&mut self, machine: &Machine) {
        if let Some(timing) = machine.timing().filter(|timing| timing.mode() == Mode::Detailed) {
            self.sample_timing(timing, machine.complete_until());
        }
    }

    /// Samples timing models.
    pub fn sample_timing(&mut self, timing: &Timing, now: Ps) {
        let channels = timing.memory.memory().stats_until(now).map(|stats| Counted {
            bytes_read: stats.bytes_read,
            bytes_written: stats.bytes_written,
            reads: stats.reads,
            read_clocks: stats.read_clocks,
        });
        self.samples.push((now, channels.collect()));
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Whether there are at least two samples, so that there is a part between them.
    pub fn has_parts(&self) -> bool {
        self.samples.len() > 1
    }

    /// Figures of each part and channel, in this order.
    pub fn parts(&self, memory: &MemoryConfig) -> Vec<MemoryPart> {
        let Some((begin, _)) = self.samples.first() else { return Vec::new() };
        let config = &memory.dram;
        let clock_ns = 1e9 / config.timing().clock.0 as f64;
        let around = (config.request_latency + config.response_latency).0 as f64 * 1e-3;
        let mut parts = Vec::new();
        for pair in self.samples.windows(2).filter(|pair| pair[1].0 > pair[0].0) {
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
