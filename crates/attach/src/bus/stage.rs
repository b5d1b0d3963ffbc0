//! One bus of a chain, and the bridge at its end towards memory.

use doorbell_sim::{Calendar, Clock, FutureBookings, Pool, Ps};
use serde::{Deserialize, Serialize};

use super::stats::StageStats;
use crate::config::StageConfig;

/// Upper limit of times, so that sums of a few fit.
pub(super) const LATEST: Ps = Ps(u64::MAX / 4);

/// Margin before the device's time within which cores' accesses are expected.
const BEHIND: Ps = Ps::from_us(10);

/// Direction on the bus. Up is from the device to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Up,
    Down,
}

/// One stage; see the module. Bookings are in cycles of its clock.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Stage {
    #[serde(skip)]
    pub config: StageConfig,
    #[serde(skip)]
    clock: Clock,
    /// Up, and down if it has separate wires.
    wires: [Calendar; 2],
    /// Cycle of the last request in each direction; later ones do not overtake it.
    last_request: [u64; 2],
    reads: Pool,
    buffer: Pool,
    /// Booked transfers of each direction.
    ahead: [FutureBookings; 2],
    pub stats: StageStats,
}

/// A read request on a bus. `since`: the cycle from which the read holds the bus, without split transactions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BusRequest {
    since: u64,
    pub begins: Ps,
    pub ends: Ps,
}

impl Stage {
    pub fn new(config: &StageConfig) -> Stage {
        Stage {
            clock: Clock::new(config.clock),
            reads: Pool::new(config.outstanding),
            buffer: Pool::new(config.buffer),
            config: config.clone(),
            ..Stage::default()
        }
    }

    fn wires(&mut self, way: Way) -> &mut Calendar {
        &mut self.wires[if self.config.full_duplex { way as usize } else { 0 }]
    }

    /// Sets the device's current time; past bookings may be dropped.
    pub fn advance_to(&mut self, now: Ps) {
        self.ahead.iter_mut().for_each(|way| way.forget_ended(now));
        for wires in self.wires.iter_mut().filter(|wires| wires.is_long()) {
            wires.forget_before(self.clock.edge_at_or_before(now.saturating_sub(BEHIND)));
        }
    }

    /// One-way latency from the bus to the far side of the bridge.
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

    /// Counters; busy time is up to `at`, without bookings for later.
    pub fn stats_until(&self, at: Ps) -> StageStats {
        let [up, down] = self.ahead.each_ref().map(|way| way.time_after(at));
        StageStats {
            up_busy_ps: self.stats.up_busy_ps.saturating_sub(up),
            down_busy_ps: self.stats.down_busy_ps.saturating_sub(down),
            ..self.stats.clone()
        }
    }

    /// Books cycles for `bytes`, from cycle `ready` or as soon after as a gap is long enough. Returns the
    /// first cycle and the one after the last.
    fn book(&mut self, way: Way, ready: u64, bytes: u64) -> (u64, u64) {
        let cycles = self.config.cycles(bytes);
        // A calendar from a damaged checkpoint may contain any cycle.
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

    /// A data transfer without ordering; returns when it ends.
    pub fn transfer(&mut self, way: Way, ready: Ps, bytes: u64) -> Ps {
        let ready = self.clock.edge_at_or_after(ready);
        let (begin, end) = self.book(way, ready, bytes);
        self.count(way, ready, begin, end, bytes);
        self.clock.edge(end)
    }

    /// A posted write; returns when its first cycle starts and when it ends. Requests stay in order.
    pub fn write(&mut self, way: Way, ready: Ps, bytes: u64) -> (Ps, Ps) {
        let ready = self.clock.edge_at_or_after(ready);
        let (begin, end) = self.book(way, ready.max(self.last_request[way as usize]), bytes);
        self.last_request[way as usize] = begin;
        self.count(way, ready, begin, end, bytes);
        (self.clock.edge(begin), self.clock.edge(end))
    }

    /// A read request. Without split transactions the bus is booked only by [`hold`](Self::hold), when the
    /// end of the response is set.
    pub fn request(&mut self, way: Way, ready: Ps) -> BusRequest {
        if self.config.split {
            let (begins, ends) = self.write(way, ready, 0);
            return BusRequest { since: 0, begins, ends };
        }
        let ready = self.clock.edge_at_or_after(ready);
        let free = self.wires(way).end().0.max(self.last_request[way as usize]);
        let since = ready.max(free).min(self.clock.edge_at_or_before(LATEST));
        self.last_request[way as usize] = since;
        self.stats.wait_ps += self.clock.edge(since).saturating_sub(self.clock.edge(ready)).0;
        let ends = self.clock.edge(since + self.config.cycles(0));
        BusRequest { since, begins: self.clock.edge(since), ends }
    }

    /// The response to `request`, whose data are at the bus at `ready`; returns when it ends. `way` is the
    /// request's direction.
    pub fn respond(&mut self, way: Way, request: BusRequest, ready: Ps, bytes: u64) -> Ps {
        let back = if way == Way::Up { Way::Down } else { Way::Up };
        if self.config.split {
            return self.transfer(back, ready, bytes);
        }
        let end = self.response_end(ready, bytes);
        self.hold(way, request, end);
        let stats = &mut self.stats;
        *(if way == Way::Up { &mut stats.down_bytes } else { &mut stats.up_bytes }) += bytes;
        end
    }

    /// End of a response whose data are at `ready` at a bus that is held for it.
    pub fn response_end(&self, ready: Ps, bytes: u64) -> Ps {
        self.clock.edge(self.clock.edge_at_or_after(ready) + self.config.cycles(bytes))
    }

    /// Holds the bus from a request to the end of its response.
    pub fn hold(&mut self, way: Way, request: BusRequest, end: Ps) {
        let end = self.clock.edge_at_or_after(end).max(request.since);
        let begin = self.reserve(way, request.since, end - request.since);
        self.count(way, begin, begin, end.max(begin), 0);
    }

    /// Takes one of the reads allowed in flight, at `now` or as soon as one is free.
    pub fn take_read(&mut self, now: Ps) -> Ps {
        let at = self.reads.take(now, 1);
        self.stats.outstanding_stall_ps += (at - now).0;
        at
    }

    /// Sets the end of a read.
    pub fn release_read(&mut self, at: Ps) {
        self.reads.release(at, 1);
    }

    /// Takes a write buffer of the bridge.
    pub fn take_buffer(&mut self, now: Ps) -> Ps {
        let at = self.buffer.take(now, 1);
        self.stats.buffer_stall_ps += (at - now).0;
        at
    }

    /// Sets the time at which a write has left the bridge.
    pub fn release_buffer(&mut self, at: Ps) {
        self.buffer.release(at, 1);
    }

    /// Continues a restored stage with this configuration.
    pub fn resume(&mut self, config: &StageConfig) -> Result<(), String> {
        (self.config, self.clock) = (config.clone(), Clock::new(config.clock));
        let latest = self.clock.edge_at_or_before(LATEST);
        let ends = self.wires.iter().map(|wires| wires.end().0.max(wires.booked()));
        if ends.chain(self.last_request).any(|cycle| cycle > latest) {
            return Err("a cycle is out of range".to_owned());
        }
        if self.ahead.iter().any(|way| !way.is_consistent(LATEST)) {
            return Err("the time of a transfer is out of range".to_owned());
        }
        self.reads.resume(config.outstanding, LATEST)?;
        self.buffer.resume(config.buffer, LATEST)
    }
}
