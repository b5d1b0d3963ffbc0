//! Memory controllers and DRAM.
//!
//! Documents: JESD79-4 (DDR4), JESD79-5 (DDR5) for commands and their minimum distances (`timing`); Rixner et
//! al., "Memory Access Scheduling" (ISCA 2000) for FR-FCFS; Zhang et al., "A Permutation-based Page
//! Interleaving Scheme" (MICRO 2000) for bank hashing. One controller per channel. Modelled: ranks, bank
//! groups and banks with their open rows; activate, precharge, read, write and refresh with all distances of
//! the tables; one command per clock; data bus with turnarounds; open, closed and adaptive page policies; a
//! write queue with forwarding and merging, drained at a high mark or when there are no reads; all-bank
//! refresh, staggered over the ranks; address mapping. Not modelled: power-down, self-refresh, ECC scrubs,
//! postponed or same-bank refresh, calibration, errors. [`FlatConfig`] replaces all this by one latency and
//! one bandwidth.
//!
//! **Timed at the call.** A real controller keeps reads waiting and picks the oldest row hit, otherwise the
//! oldest read (FR-FCFS). Here a read gets its completion time at once, and the time is final. Its commands
//! are booked in calendars of cycles: precharge, activation and column command, each in the first cycle that
//! the distances to *all bookings before and after it* allow. A younger read overtakes an older one wherever
//! it fits before it: in a row that is or will be open (until its booked precharge), in a bank between two
//! rows, or in a gap on the data bus. FR-FCFS also lets a ready request delay an older one. Here the older
//! one keeps its time, and the younger one is charged for the delay (see docs/dram.md). Requests may come in
//! any order of time; a device's are tens of microseconds ahead. Bookings some microseconds in the past are
//! dropped (`slots::CYCLES`). A request for that time is served as if it had no bookings, and is counted.
//!
//! **The error** is given in `docs/dram.md`, next to curves of a cycle-accurate simulator, and checked by
//! `tests/against_fr_fcfs.rs`, a ticking FR-FCFS controller.

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
use doorbell_sim::{Cycle, Domain, DomainClock, PhysAddr, Ps};

use crate::in_flight::InFlight;
use channel::{Booked, Channel};
use flat::Flat;
use mapping::Mapping;
use writes::{Waiting, WriteQueue};

pub use config::{DramConfig, FlatConfig, HashRows, PagePolicy};
pub use state::DramState;
pub use stats::DramStats;
pub use timing::{DramStandard, DramTiming};

/// The clock of DRAM commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Command;

impl Domain for Command {}

/// A cycle of the command clock.
pub(crate) type DramCycle = Cycle<Command>;

/// Upper limit of cycles: 13 hours of the fastest clock; sums of cycles still fit.
pub(crate) const CYCLE_MAX: DramCycle = DramCycle::new(1 << 47);
/// The latest cycle of a request.
const LATEST: DramCycle = DramCycle::new(CYCLE_MAX.number() / 2);

/// The check whether a channel is idle looks at most this many clocks ahead of the current time.
const AHEAD: u64 = 1024;

/// All memory controllers of a machine.
#[derive(Clone, Debug)]
pub struct Dram {
    config: DramConfig,
    clock: DomainClock<Command>,
    mapping: Mapping,
    channels: Vec<Channel>,
    /// Each channel's read queue; its write queue is in `queues`.
    reads: Vec<InFlight<Command>>,
    queues: Vec<WriteQueue>,
    /// Clocks without a booked column command after which a channel counts as idle: enough for a request that
    /// has just arrived to get its column command.
    quiet: u64,
    /// Flat memory, which replaces the devices if configured.
    flat: Option<Flat>,
}

impl Dram {
    /// Idle memory with all rows closed. The configuration must be valid.
    pub fn new(config: &DramConfig) -> Dram {
        if let Err(problem) = config.validate() {
            panic!("memory was made without validating its configuration: {problem}");
        }
        let timing = config.timing();
        let mapping = Mapping::new(config, &timing).expect("the configuration is valid");
        let clock = DomainClock::new(timing.clock);
        let row_idle = clock.edge_at_or_after(config.row_idle).number();
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

    /// Counters of each channel.
    pub fn stats(&self) -> impl Iterator<Item = DramStats> {
        let queues = self.reads.iter().zip(&self.queues);
        self.channels.iter().zip(queues).enumerate().map(|(index, (channel, (reads, queue)))| {
            let flat = self.flat.as_ref().map_or(0, |flat| flat.late(index));
            let late = channel.late() + reads.late() + queue.entries.late() + flat;
            DramStats { late, ..channel.stats.clone() }
        })
    }

    /// The same up to `at`, without data bus transfers booked for later. A line counts as a whole at its
    /// start; bus time is counted up to `at`.
    pub fn stats_until(&self, at: Ps) -> impl Iterator<Item = DramStats> {
        self.stats().zip(&self.channels).enumerate().map(move |(index, (stats, channel))| {
            let ([reads, writes], busy) = match &self.flat {
                Some(flat) => flat.booked_after(index, at),
                None => channel.booked_after(at),
            };
            DramStats {
                bytes_read: stats.bytes_read.saturating_sub(reads * LINE_BYTES),
                bytes_written: stats.bytes_written.saturating_sub(writes * LINE_BYTES),
                busy_ps: stats.busy_ps.saturating_sub(busy),
                ..stats
            }
        })
    }

    /// Channel of the line at `addr`.
    pub fn channel(&self, addr: PhysAddr) -> usize {
        self.mapping.place(addr.0 / LINE_BYTES).0
    }

    /// See [`MainMemory::advance_to`](crate::MainMemory::advance_to).
    pub fn advance_to(&mut self, now: Ps, behind: Ps) {
        if let Some(flat) = &mut self.flat {
            return flat.advance_to(now, behind);
        }
        if let [Some(now), Some(behind)] = [now, behind].map(|at| self.arrival(at)) {
            self.channels.iter_mut().for_each(|channel| channel.advance_to(now, behind));
        }
    }

    /// Times a read of the line at `addr` that reaches the controller's port at `now`; returns when the data
    /// are back there.
    pub fn read(&mut self, now: Ps, addr: PhysAddr) -> Ps {
        let line = addr.0 / LINE_BYTES;
        if let Some(flat) = &mut self.flat {
            let index = self.mapping.place(line).0;
            return flat.access(now, index, false, &mut self.channels[index].stats);
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
            let Booked { column, delayed } = channel.access(queue.admit(at), place, false);
            queue.hold(0, at, column, channel.past());
            channel.stats.bytes_read += LINE_BYTES;
            channel.stats.busy_ps += channel.burst(column);
            // A request that goes before others is charged for their delay, as their times are final; the
            // mean stays right.
            column + channel.timing.to_data_end(false) + delayed
        };
        channel.stats.read_clocks += done - at;
        self.clock.edge(done).saturating_add(self.config.response_latency)
    }

    /// Times a write of a line that reaches the controller's port at `now`; returns when the controller has
    /// accepted it.
    pub fn write(&mut self, now: Ps, addr: PhysAddr) -> Ps {
        let line = addr.0 / LINE_BYTES;
        if let Some(flat) = &mut self.flat {
            let index = self.mapping.place(line).0;
            return flat.access(now, index, true, &mut self.channels[index].stats);
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

    /// First clock edge at which the controller can act on a request. `None` beyond the range of cycles: only
    /// a damaged checkpoint has such times, and the request then takes just the two latencies.
    fn arrival(&self, now: Ps) -> Option<DramCycle> {
        let at = self.clock.edge_at_or_after(now.saturating_add(self.config.request_latency));
        (at <= LATEST).then_some(at)
    }

    /// Drains the write queue if its writes have waited since before `at` with no reads, from the time at
    /// which the channel was idle.
    fn write_if_idle(&mut self, index: usize, at: DramCycle) {
        let (channel, queue) = (&mut self.channels[index], &mut self.queues[index]);
        if queue.len() as u64 <= self.config.write_idle {
            return;
        }
        let Some(enough) = queue.arrival(self.config.write_idle as usize) else { return };
        // A read timed far ahead does not know which writes will have arrived by then.
        let at = match channel.now {
            DramCycle::ZERO => at,
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

/// Books the first `count` writes of a queue, from `from` on.
fn drain(channel: &mut Channel, queue: &mut WriteQueue, from: DramCycle, count: usize) {
    queue.drain(count, channel.past(), |waiting| {
        let Booked { column, .. } = channel.access(from.max(waiting.arrived), waiting.place, true);
        channel.stats.bytes_written += LINE_BYTES;
        channel.stats.busy_ps += channel.burst(column);
        channel.stats.write_clocks += column - waiting.arrived;
        column
    });
}

#[cfg(test)]
mod tests;
