//! One cache: tags, and the resources that limit its throughput.

use doorbell_sim::memory::{LINE_BYTES, Level};
use doorbell_sim::{Cycle, Domain, PhysAddr};
use serde::{Deserialize, Serialize};

use crate::config::CacheConfig;
use crate::in_flight::{InFlight, InFlightState};
use crate::prefetch::{Prefetcher, PrefetcherState};
use crate::slots::{Link, Ports, SlotsState};
use crate::stats::CacheStats;
use crate::tags::{Evicted, Flags, SavedTags, Slot, Tags};

/// Cycles before the current time within which requests are still expected: those of a hart that wakes while
/// others are ahead.
const BEHIND: u64 = 2048;

/// One cache in clock domain `D`; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Cache<D> {
    pub tags: Tags<D>,
    pub ports: Ports<D>,
    /// Ports taken by a line fill.
    pub fill_ports: u32,
    /// Link for lines to the upper caches, if it is narrower than the ports.
    pub data: Option<Link<D>>,
    pub mshrs: InFlight<D>,
    pub buffer: InFlight<D>,
    /// Current time: no request is expected from more than [`BEHIND`] cycles before it, so older bookings are
    /// dropped.
    pub now: Cycle<D>,
    pub latency: u64,
    /// From a line's arrival after a miss to its delivery to the requester.
    pub response: u64,
    /// From a line's arrival to its victim's departure.
    pub fill: u64,
    pub prefetcher: Prefetcher,
    pub stats: CacheStats,
    /// Whether most accesses need only [`Tags::quick_use`].
    pub quick: bool,
}

/// Saved state of a cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "")]
pub(crate) struct CacheState<D> {
    tags: SavedTags,
    ports: SlotsState<D>,
    data: Option<SlotsState<D>>,
    mshrs: InFlightState<D>,
    buffer: InFlightState<D>,
    now: Cycle<D>,
    prefetcher: PrefetcherState,
    stats: CacheStats,
}

/// How a request gets a line that is present.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival<D> {
    /// When the request can use the line.
    pub at: Cycle<D>,
    /// Level that the data come from.
    pub level: Level,
    /// The line is still in flight.
    pub merged: bool,
}

/// Level with this number in the tags' arrival words.
fn level(number: u8) -> Level {
    match number {
        0 => Level::L1,
        1 => Level::L2,
        2 => Level::Llc,
        3 => Level::Peer,
        _ => Level::Dram,
    }
}

impl<D: Domain> Cache<D> {
    /// An empty cache; the ports' booking ring covers `window` cycles.
    pub fn new(config: &CacheConfig, window: usize) -> Cache<D> {
        let tags = Tags::new(config.sets(), config.ways, config.replacement);
        let prefetcher = Prefetcher::new(&config.prefetch);
        Cache {
            quick: false,
            tags,
            ports: Ports::new(config.ports, window),
            fill_ports: config.fill_ports,
            data: (config.bytes_per_cycle > 0).then(|| Link::new(config.bytes_per_cycle, window)),
            mshrs: InFlight::new(config.mshrs),
            buffer: InFlight::new(config.write_buffers),
            now: Cycle::ZERO,
            latency: u64::from(config.latency),
            response: u64::from(config.response),
            fill: u64::from(config.fill),
            prefetcher,
            stats: CacheStats::default(),
        }
    }

    /// Enables [`Tags::quick_use`] if the configuration allows it.
    pub fn enable_quick(mut self) -> Cache<D> {
        self.quick = !self.prefetcher.is_on() && self.tags.enable_quick();
        self
    }

    /// Divides the empty cache into slices, with pages scattered over the sets or not.
    pub fn divide(&mut self, slices: u32, scatter: bool, base: PhysAddr) {
        self.tags.divide(slices, scatter, base);
    }

    /// Returns when a request that comes at `t` gets a port.
    #[inline(always)]
    pub fn port(&mut self, t: Cycle<D>) -> Cycle<D> {
        let at = self.ports.take(t, self.now);
        if at != t {
            self.stats.port_wait_cycles += at - t;
        }
        at
    }

    /// Returns when a line's first bytes, ready at `t`, leave for the upper caches. The critical word goes
    /// first.
    #[inline]
    pub fn send(&mut self, t: Cycle<D>) -> Cycle<D> {
        let Some(data) = &mut self.data else { return t };
        let at = data.take_many(t, LINE_BYTES, self.now).first;
        self.stats.port_wait_cycles += at - t;
        at
    }

    /// Takes ports for the fill of a line that arrives at `t`.
    #[inline]
    pub fn write_line(&mut self, t: Cycle<D>) {
        for _ in 0..self.fill_ports {
            self.ports.take(t + self.fill, self.now);
        }
    }

    /// Returns when a miss detected at `t` gets a miss register.
    #[inline]
    pub fn admit(&mut self, t: Cycle<D>) -> Cycle<D> {
        let at = self.mshrs.admit(t);
        self.stats.mshr_wait_cycles += at - t;
        at
    }

    /// Holds a miss register.
    pub fn hold(&mut self, line: u32, from: Cycle<D>, until: Cycle<D>) {
        self.mshrs.hold(line, from, until, self.now.saturating_sub(BEHIND));
        self.stats.mshr_cycles = self.mshrs.busy();
    }

    /// Returns when a dirty line that leaves at `t` gets a write-back buffer.
    pub fn buffer(&mut self, t: Cycle<D>) -> Cycle<D> {
        let at = self.buffer.admit(t);
        self.stats.buffer_wait_cycles += at - t;
        at
    }

    /// Holds a write-back buffer.
    pub fn hold_buffer(&mut self, line: u32, from: Cycle<D>, until: Cycle<D>) {
        self.buffer.hold(line, from, until, self.now.saturating_sub(BEHIND));
    }

    /// Arrival of a present line for a request that would get its data at `normal`.
    #[inline]
    pub fn arrival<const TIMED: bool>(
        &mut self,
        slot: Slot,
        line: u32,
        normal: Cycle<D>,
        here: Level,
    ) -> Arrival<D> {
        if !TIMED {
            return Arrival { at: Cycle::ZERO, level: here, merged: false };
        }
        if self.tags.is_settled(slot, normal) || self.tags.ready(slot).0 <= normal {
            Arrival { at: normal, level: here, merged: false }
        } else {
            self.merge(slot, line, normal)
        }
    }

    /// Waits for a line in flight. If its request has a later time than this one, only because calls are out
    /// of time order, the line is fetched at this request's time.
    #[cold]
    fn merge(&mut self, slot: Slot, line: u32, normal: Cycle<D>) -> Arrival<D> {
        let (mut ready, from_level) = self.tags.ready(slot);
        if let Some(held) = self.mshrs.find(line, normal)
            && normal < held.from
            && held.from <= ready
        {
            ready = normal + (ready - held.from);
            self.tags.set_ready(slot, ready, from_level);
        }
        Arrival { at: ready, level: level(from_level), merged: true }
    }

    /// The counters. To keep hits cheap, accesses are only summed here.
    pub fn stats(&self) -> CacheStats {
        let accesses = self.stats.hits + self.stats.misses + self.stats.merges;
        let late_requests = self.ports.late() + self.mshrs.late() + self.buffer.late();
        CacheStats { accesses, late_requests, ..self.stats.clone() }
    }

    /// Fills a line that comes from a level at a time; time 0 means that no request waits for it. `reused`:
    /// it was used here before.
    #[inline]
    pub fn insert(
        &mut self,
        line: u32,
        flags: Flags,
        mask: u32,
        at: Cycle<D>,
        level: Level,
        reused: bool,
    ) -> (Slot, Option<Evicted>) {
        let (slot, evicted) = self.tags.insert(line, flags, mask, at, level as u8, reused);
        self.stats.fills += 1;
        if let Some(evicted) = evicted {
            self.stats.evictions += 1;
            self.stats.prefetches_useless += u64::from(evicted.flags.is_prefetched());
        }
        (slot, evicted)
    }

    /// Removes a line that is no longer needed; counts as an eviction.
    pub fn give_up(&mut self, slot: Slot) -> Flags {
        self.stats.evictions += 1;
        self.tags.remove(slot)
    }

    /// Invalidates a line.
    pub fn take_away(&mut self, slot: Slot) -> Flags {
        let flags = self.tags.remove(slot);
        self.stats.invalidations += 1;
        self.stats.prefetches_useless += u64::from(flags.is_prefetched());
        flags
    }

    /// Invalidates a line if it is present.
    pub fn take_away_line(&mut self, line: u32) -> Option<Flags> {
        let slot = self.tags.find(line)?;
        Some(self.take_away(slot))
    }

    /// Counts the first use of a prefetched line; returns its new flags.
    pub fn used_prefetched(&mut self, slot: Slot, flags: Flags, late: bool) -> Flags {
        self.stats.prefetches_useful += 1;
        self.stats.prefetches_late += u64::from(late);
        let flags = flags.with_prefetched(false);
        self.tags.set_flags(slot, flags);
        flags
    }

    pub fn save(&self) -> CacheState<D> {
        CacheState {
            tags: self.tags.save(),
            ports: self.ports.save(),
            data: self.data.as_ref().map(Link::save),
            mshrs: self.mshrs.save(),
            buffer: self.buffer.save(),
            now: self.now,
            prefetcher: self.prefetcher.save(),
            stats: self.stats.clone(),
        }
    }

    /// Checks a saved state for a memory of `lines` lines; no time may be after `latest`.
    pub fn check(&self, state: &CacheState<D>, lines: u32, latest: Cycle<D>) -> Result<(), String> {
        self.tags.check(&state.tags, lines, latest)?;
        self.ports.check(&state.ports, latest)?;
        match (&self.data, &state.data) {
            (None, None) => {}
            (Some(data), Some(saved)) => data.check(saved, latest)?,
            _ => {
                return Err(
                    "the saved state and the machine differ in having a link to the upper caches".to_owned()
                );
            }
        }
        self.mshrs.check(&state.mshrs, latest)?;
        self.buffer.check(&state.buffer, latest)?;
        if state.now > latest {
            return Err("a cache's current time is out of range".to_owned());
        }
        self.prefetcher.check(&state.prefetcher, lines)
    }

    pub fn restore(&mut self, state: CacheState<D>) {
        self.tags.restore(state.tags);
        self.ports.restore(state.ports);
        if let (Some(data), Some(saved)) = (&mut self.data, state.data) {
            data.restore(saved);
        }
        self.mshrs.restore(state.mshrs);
        self.buffer.restore(state.buffer);
        self.now = state.now;
        self.prefetcher.restore(state.prefetcher);
        self.stats = state.stats;
    }
}
