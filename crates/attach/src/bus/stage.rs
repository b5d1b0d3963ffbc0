//! One bus of a chain, and the bridge at its end towards memory.

use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::{Calendar, Clock, FutureBookings, Pool, PoolState, Ps};
use serde::{Deserialize, Serialize};

use super::stats::StageStats;
use crate::config::StageConfig;

/// No time is later, so that sums of a few fit.
pub(super) const LATEST: Ps = Ps(u64::MAX / 4);

/// How far before the device's time cores' accesses are expected.
const BEHIND: Ps = Ps::from_us(10);

/// A way over the bus. Up is from the device to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Up,
    Down,
}

/// See the module. Its bookings are of its clock's cycles.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub config: StageConfig,
    clock: Clock,
    /// Up, and down if that has wires of its own.
    wires: [Calendar; 2],
    /// The cycle of the last request each way: none overtakes it.
    last_request: [u64; 2],
    reads: Pool,
    buffer: Pool,
    /// When transfers take place, by their way.
    ahead: [FutureBookings; 2],
    pub stats: StageStats,
}

/// What a snapshot keeps of a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StageState {
    wires: [Calendar; 2],
    last_request: [u64; 2],
    /// Reads, buffer.
    pools: [PoolState; 2],
    ahead: [FutureBookings; 2],
    stats: StageStats,
}

/// A read's request on a bus: since which cycle it has held it, if it does, and when the request is through.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    since: u64,
    pub begins: Ps,
    pub ends: Ps,
}

impl Stage {
    pub fn new(config: &StageConfig) -> Stage {
        Stage {
            clock: Clock::new(config.clock),
            wires: Default::default(),
            last_request: [0; 2],
            reads: Pool::new(config.outstanding),
            buffer: Pool::new(config.buffer),
            ahead: Default::default(),
            stats: StageStats::default(),
            config: config.clone(),
        }
    }

    fn wires(&mut self, way: Way) -> &mut Calendar {
        &mut self.wires[if self.config.full_duplex { way as usize } else { 0 }]
    }

    /// The device has come to `now`: what is over may be forgotten.
    pub fn come_to(&mut self, now: Ps) {
        self.ahead.iter_mut().for_each(|way| way.forget_ended(now));
        for wires in self.wires.iter_mut().filter(|wires| wires.is_long()) {
            wires.forget_before(self.clock.edge_at_or_before(now.saturating_sub(BEHIND)));
        }
    }

    /// From the bus to the far side of the bridge, and as long back.
    pub fn beyond(&self) -> Ps {
        self.config.latency + self.config.bridge_latency
    }

    fn count(&mut self, way: Way, ready: u64, begin: u64, end: u64, bytes: u64) {
        let (waited, busy) = (
            self.clock.edge(begin).saturating_sub(self.clock.edge(ready)),
            self.clock.edge(end) - self.clock.edge(begin),
        );
        let stats = &mut self.stats;
        let (transfers, moved, busy_ps) = match way {
            Way::Up => (&mut stats.up_transfers, &mut stats.up_bytes, &mut stats.up_busy_ps),
            Way::Down => (&mut stats.down_transfers, &mut stats.down_bytes, &mut stats.down_busy_ps),
        };
        *transfers += 1;
        *moved += bytes;
        *busy_ps += busy.0;
        self.ahead[way as usize].add(self.clock.edge(begin), self.clock.edge(end));
        stats.wait_ps += waited.0;
    }

    /// What it has carried, its time until a moment, without what is booked for later.
    pub fn stats_until(&self, at: Ps) -> StageStats {
        let [up, down] = self.ahead.each_ref().map(|way| way.time_after(at));
        StageStats {
            up_busy_ps: self.stats.up_busy_ps.saturating_sub(up),
            down_busy_ps: self.stats.down_busy_ps.saturating_sub(down),
            ..self.stats.clone()
        }
    }

    /// Books cycles for `bytes` from cycle `ready` on, or as soon after as there are so many. Returns the first, and the one behind.
    fn book(&mut self, way: Way, ready: u64, bytes: u64) -> (u64, u64) {
        let cycles = self.config.cycles(bytes);
        // A calendar that was damaged in a checkpoint may name any cycle.
        let latest = self.clock.edge_at_or_before(LATEST);
        let begin = self.reserve(way, ready, cycles).min(latest);
        (begin, begin + cycles)
    }

    fn reserve(&mut self, way: Way, from: u64, cycles: u64) -> u64 {
        let wires = self.wires(way);
        let late = wires.late();
        let begin = wires.book_raw(from, cycles);
        let late = wires.late() - late;
        self.stats.late += late;
        begin
    }

    /// A transfer of data that nobody has to follow: when it is through.
    pub fn transfer(&mut self, way: Way, ready: Ps, bytes: u64) -> Ps {
        let ready = self.clock.edge_at_or_after(ready);
        let (begin, end) = self.book(way, ready, bytes);
        self.count(way, ready, begin, end, bytes);
        self.clock.edge(end)
    }

    /// A posted write: when its first cycle begins, and when it is through. Requests stay in order.
    pub fn write(&mut self, way: Way, ready: Ps, bytes: u64) -> (Ps, Ps) {
        let ready = self.clock.edge_at_or_after(ready);
        let (begin, end) = self.book(way, ready.max(self.last_request[way as usize]), bytes);
        self.last_request[way as usize] = begin;
        self.count(way, ready, begin, end, bytes);
        (self.clock.edge(begin), self.clock.edge(end))
    }

    /// A read's request. Without split transactions the bus is not booked before [`answered`](Self::answered) says until when.
    pub fn ask(&mut self, way: Way, ready: Ps) -> Asked {
        if self.config.split {
            let (begins, ends) = self.write(way, ready, 0);
            return Asked { since: 0, begins, ends };
        }
        let ready = self.clock.edge_at_or_after(ready);
        let free = self.wires(way).end().0.max(self.last_request[way as usize]);
        let since = ready.max(free).min(self.clock.edge_at_or_before(LATEST));
        self.last_request[way as usize] = since;
        self.stats.wait_ps += self.clock.edge(since).saturating_sub(self.clock.edge(ready)).0;
        let ends = self.clock.edge(since + self.config.cycles(0));
        Asked { since, begins: self.clock.edge(since), ends }
    }

    /// The data that were asked for, which are at the bus at `ready`: when they are through. `way` is the request's.
    pub fn answered(&mut self, way: Way, asked: Asked, ready: Ps, bytes: u64) -> Ps {
        let back = if way == Way::Up { Way::Down } else { Way::Up };
        if self.config.split {
            return self.transfer(back, ready, bytes);
        }
        let end = self.answer_ends(ready, bytes);
        self.hold(way, asked, end);
        let stats = &mut self.stats;
        *(if way == Way::Up { &mut stats.down_bytes } else { &mut stats.up_bytes }) += bytes;
        end
    }

    /// When data that are at a bus that is held for them at `ready` are through.
    pub fn answer_ends(&self, ready: Ps, bytes: u64) -> Ps {
        self.clock.edge(self.clock.edge_at_or_after(ready) + self.config.cycles(bytes))
    }

    /// Holds the bus from a request to the end of its answer.
    pub fn hold(&mut self, way: Way, asked: Asked, end: Ps) {
        let end = self.clock.edge_at_or_after(end).max(asked.since);
        let begin = self.reserve(way, asked.since, end - asked.since);
        self.count(way, begin, begin, end.max(begin), 0);
    }

    /// Takes one of the reads that can be under way, at `now` or as soon after as there is one.
    pub fn take_read(&mut self, now: Ps) -> Ps {
        let at = self.reads.take(now, 1);
        self.stats.outstanding_stall_ps += (at - now).0;
        at
    }

    /// Says when a read will be over.
    pub fn end_read(&mut self, at: Ps) {
        self.reads.release(at, 1);
    }

    /// Takes a place in the bridge for a write.
    pub fn take_place(&mut self, now: Ps) -> Ps {
        let at = self.buffer.take(now, 1);
        self.stats.buffer_stall_ps += (at - now).0;
        at
    }

    /// Says when the write will have left the bridge.
    pub fn leave_place(&mut self, at: Ps) {
        self.buffer.release(at, 1);
    }

    pub fn save(&self) -> StageState {
        StageState {
            wires: self.wires.clone(),
            last_request: self.last_request,
            pools: [self.reads.save(), self.buffer.save()],
            ahead: self.ahead.clone(),
            stats: self.stats.clone(),
        }
    }

    /// The stage of the same configuration in a saved state.
    pub fn restored(&self, state: &StageState) -> Result<Stage, SnapshotError> {
        let inconsistent = |problem| SnapshotError::Inconsistent { name: "bus".to_owned(), problem };
        let latest = self.clock.edge_at_or_before(LATEST);
        let ends = state.wires.iter().map(|wires| wires.end().0.max(wires.booked().0));
        if ends.chain(state.last_request).any(|cycle| cycle > latest) {
            return Err(inconsistent("a cycle is impossibly late".to_owned()));
        }
        if state.ahead.iter().any(|way| !way.is_consistent(LATEST)) {
            return Err(inconsistent("a transfer is impossibly late".to_owned()));
        }
        let mut stage = Stage::new(&self.config);
        let [reads, buffer] = &state.pools;
        stage.reads = Pool::restore(reads, self.config.outstanding, LATEST).map_err(inconsistent)?;
        stage.buffer = Pool::restore(buffer, self.config.buffer, LATEST).map_err(inconsistent)?;
        stage.wires = state.wires.clone();
        stage.last_request = state.last_request;
        stage.ahead = state.ahead.clone();
        stage.stats = state.stats.clone();
        Ok(stage)
    }
}
