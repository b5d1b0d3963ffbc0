//! Memory controllers and the DRAM behind them.
//!
//! Documents: JESD79-4 (DDR4), JESD79-5 (DDR5) for commands and the least times between them (`timing`); Rixner et al., "Memory
//! Access Scheduling" (ISCA 2000) for FR-FCFS; Zhang et al., "A Permutation-based Page Interleaving Scheme" (MICRO 2000) for bank
//! hashing. One controller a channel. Modelled: ranks, bank groups and banks with their open rows; activate, precharge, read,
//! write and refresh with all distances of the tables; one command a clock; data bus with its turnarounds; open, closed and
//! adaptive pages; a write queue that forwards, merges, and is written out at a mark or when there is nothing to read; refresh of all
//! banks of a rank, ranks in turn; address mapping. Not modelled: power-down, self-refresh, ECC scrubs, postponed or
//! same-bank refresh, calibration, errors. [`FlatConfig`] puts one latency and one bandwidth in place of all that.
//!
//! **Priced when asked.** A real controller keeps reads waiting and picks the oldest that hits an open row, otherwise the oldest
//! (FR-FCFS). Here a read is told its time at once and keeps it, so its commands are booked in calendars of cycles: precharge,
//! activation and column command each in the first cycle that the distances to *everything already booked, before and after,*
//! allow. A younger read overtakes an older one wherever it fits in front of it: in a row that is or will be open (until the
//! precharge that is booked for it), in a bank between two rows, in a hole of the data bus. FR-FCFS also lets a ready request push an
//! older one back; here the older one keeps its time and the younger one pays for the delay (docs/dram.md says how). Requests may
//! come in any order of time: those of devices tens of microseconds ahead of the present. What is some microseconds past is forgotten
//! (`slots::CYCLES`); a request from there is served as if nothing had been booked then, and counted.
//!
//! **The error** is in `docs/dram.md`, beside a cycle-accurate simulator's curves, and held by `tests/against_fr_fcfs.rs`, a ticking
//! FR-FCFS controller.

mod bank;
mod bus;
mod channel;
mod config;
mod flat;
mod mapping;
mod slots;
mod state;
mod stats;
mod timing;
mod writes;

use doorbell_sim::memory::LINE_BYTES;
use doorbell_sim::{Clock, PhysAddr, Ps};

use crate::in_flight::InFlight;
use channel::Channel;
use flat::Flat;
use mapping::Mapping;
use writes::{Waiting, WriteQueue};

pub use config::{DramConfig, FlatConfig, HashRows, PagePolicy};
pub use state::DramState;
pub use stats::DramStats;
pub use timing::{DramStandard, DramTiming};

/// No cycle is later: 13 hours of the fastest clock, and all sums of cycles still fit.
pub(crate) const CYCLE_MAX: u64 = 1 << 47;

/// How far ahead of the present it is decided that a channel has nothing to read.
const AHEAD: u64 = 1024;

/// All memory controllers of a machine.
#[derive(Clone, Debug)]
pub struct Dram {
    config: DramConfig,
    clock: Clock,
    mapping: Mapping,
    channels: Vec<Channel>,
    /// Each channel's reads that wait, and its writes.
    reads: Vec<InFlight>,
    queues: Vec<WriteQueue>,
    /// A channel counts as idle if no column command is booked for so long: what just arrived has got one by then.
    quiet: u64,
    /// What answers instead of all that, if memory is flat.
    flat: Option<Flat>,
}

impl Dram {
    /// Idle memory, all rows closed. The configuration has to be valid.
    pub fn new(config: &DramConfig) -> Dram {
        if let Err(problem) = config.validate() {
            panic!("memory was made without validating its configuration: {problem}");
        }
        let timing = config.timing();
        let mapping = Mapping::new(config, &timing).expect("the configuration is valid");
        let clock = Clock::new(timing.clock);
        let row_idle = clock.edge_at_or_after(config.row_idle);
        Dram {
            clock,
            mapping,
            channels: (0..config.channels).map(|_| Channel::new(config, &timing, row_idle)).collect(),
            reads: (0..config.channels).map(|_| InFlight::new(config.read_queue as u32)).collect(),
            queues: (0..config.channels).map(|_| WriteQueue::new(config.write_queue)).collect(),
            quiet: (timing.rp + timing.rcd).min(slots::REACH),
            flat: config.flat.map(|flat| Flat::new(&flat, config.channels, clock)),
            config: config.clone(),
        }
    }

    /// The parameters.
    pub fn config(&self) -> &DramConfig {
        &self.config
    }

    /// What each channel has done.
    pub fn stats(&self) -> impl Iterator<Item = DramStats> {
        let queues = self.reads.iter().zip(&self.queues);
        self.channels.iter().zip(queues).enumerate().map(|(index, (channel, (reads, queue)))| {
            let flat = self.flat.as_ref().map_or(0, |flat| flat.late(index));
            let late = channel.late() + reads.late() + queue.entries.late() + flat;
            DramStats { late, ..channel.stats.clone() }
        })
    }

    /// The same until a moment: what the data bus carried, without what is booked for later. A line is whole, and counts where it begins;
    /// the time for which it takes the bus is that before the moment.
    pub fn stats_until(&self, at: Ps) -> impl Iterator<Item = DramStats> {
        self.stats().zip(&self.channels).enumerate().map(move |(index, (stats, channel))| {
            let ([reads, writes], busy) = match &self.flat {
                Some(flat) => flat.behind(index, at),
                None => channel.behind(at),
            };
            DramStats {
                bytes_read: stats.bytes_read.saturating_sub(reads * LINE_BYTES),
                bytes_written: stats.bytes_written.saturating_sub(writes * LINE_BYTES),
                busy_ps: stats.busy_ps.saturating_sub(busy),
                ..stats
            }
        })
    }

    /// The channel of the line at `addr`.
    pub fn channel(&self, addr: PhysAddr) -> usize {
        self.mapping.place(addr.0 / LINE_BYTES).0
    }

    /// See [`MainMemory::come_to`](crate::MainMemory::come_to).
    pub fn come_to(&mut self, now: Ps, behind: Ps) {
        if let Some(flat) = &mut self.flat {
            return flat.come_to(now, behind);
        }
        if let [Some(now), Some(behind)] = [now, behind].map(|at| self.arrival(at)) {
            self.channels.iter_mut().for_each(|channel| channel.come_to(now, behind));
        }
    }

    /// Prices a read of the line at `addr` that comes to the controller's port at `now`: returns when the data are back
    /// there.
    pub fn read(&mut self, now: Ps, addr: PhysAddr) -> Ps {
        let line = addr.0 / LINE_BYTES;
        if let Some(flat) = &mut self.flat {
            let index = self.mapping.place(line).0;
            return flat.access((now, index, false), &mut self.channels[index].stats);
        }
        let Some(at) = self.arrival(now) else {
            return now
                .saturating_add(self.config.request_latency)
                .saturating_add(self.config.response_latency);
        };
        let (index, place) = self.mapping.place(line);
        self.write_if_idle(index, at);
        let channel = &mut self.channels[index];
        channel.stats.reads += 1;
        let done = if self.queues[index].holds(line) {
            channel.stats.forwarded += 1;
            at + 1
        } else {
            let queue = &mut self.reads[index];
            let (column, delayed) = channel.access(queue.admit(at), place, false);
            queue.hold(0, at, column, channel.past());
            channel.stats.bytes_read += LINE_BYTES;
            channel.stats.busy_ps += channel.burst(column);
            // Who goes in front of others pays for their delay, as their times are promised: so the mean is right.
            column + channel.timing.to_data_end(false) + delayed
        };
        channel.stats.read_clocks += done - at;
        self.clock.edge(done).saturating_add(self.config.response_latency)
    }

    /// Prices a write of a line that comes to the controller's port at `now`: returns when the controller has taken it.
    pub fn write(&mut self, now: Ps, addr: PhysAddr) -> Ps {
        let line = addr.0 / LINE_BYTES;
        if let Some(flat) = &mut self.flat {
            let index = self.mapping.place(line).0;
            return flat.access((now, index, true), &mut self.channels[index].stats);
        }
        let Some(at) = self.arrival(now) else { return now.saturating_add(self.config.request_latency) };
        let (index, place) = self.mapping.place(line);
        self.write_if_idle(index, at);
        let (channel, queue) = (&mut self.channels[index], &mut self.queues[index]);
        channel.stats.writes += 1;
        if queue.holds(line) {
            channel.stats.merged += 1;
            return self.clock.edge(at);
        }
        let taken = queue.free_from(at);
        channel.stats.write_stall_clocks += taken - at;
        queue.push(line, Waiting { arrived: taken, place });
        if queue.len() as u64 >= self.config.write_high {
            channel.stats.drains_full += 1;
            let count = queue.len() - self.config.write_low as usize;
            drain(channel, queue, taken, count);
        }
        self.clock.edge(taken)
    }

    /// The first clock edge at which the controller can act on a request. Where its cycles end there is none: nothing comes
    /// so late but what a damaged checkpoint says, and it costs the way there and back.
    fn arrival(&self, now: Ps) -> Option<u64> {
        let at = self.clock.edge_at_or_after(now.saturating_add(self.config.request_latency));
        (at <= CYCLE_MAX / 2).then_some(at)
    }

    /// Writes that have waited with nothing to read since before `at` are written, from that moment on.
    fn write_if_idle(&mut self, index: usize, at: u64) {
        let (channel, queue) = (&mut self.channels[index], &mut self.queues[index]);
        if queue.len() as u64 <= self.config.write_idle {
            return;
        }
        let Some(enough) = queue.arrival(self.config.write_idle as usize) else { return };
        // A read that is priced far ahead says nothing about writes that will have come by then.
        let at = match channel.now {
            0 => at,
            now => at.min(now + AHEAD),
        };
        if enough >= at {
            return;
        }
        let quiet = channel.bus.quiet_from(enough, self.quiet);
        if quiet < at {
            channel.stats.drains_idle += 1;
            drain(channel, queue, quiet, queue.len());
        }
    }
}

/// Books the first `count` writes of a queue from `from` on.
fn drain(channel: &mut Channel, queue: &mut WriteQueue, from: u64, count: usize) {
    queue.drain(count, channel.past(), |waiting| {
        let (column, _) = channel.access(from.max(waiting.arrived), waiting.place, true);
        channel.stats.bytes_written += LINE_BYTES;
        channel.stats.busy_ps += channel.burst(column);
        channel.stats.write_clocks += column - waiting.arrived;
        column
    });
}

#[cfg(test)]
mod tests;
