//! One cache: tags, and what limits how fast they can be used.

use doorbell_sim::memory::{LINE_BYTES, Level};
use doorbell_sim::ports::PhysAddr;
use serde::{Deserialize, Serialize};

use crate::config::CacheConfig;
use crate::in_flight::{InFlight, InFlightState};
use crate::prefetch::{Prefetcher, PrefetcherState};
use crate::replacement::ReplacerState;
use crate::slots::{Link, Ports, SlotsState};
use crate::stats::CacheStats;
use crate::tags::{Evicted, Flags, Slot, Tags, TagsState};

/// How far before the present requests are expected nevertheless, in cycles: those of a hart that wakes while others are ahead of it.
const BEHIND: u64 = 2048;

/// See the module. Times are cycles of whatever clock the cache runs on.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    pub tags: Tags,
    pub ports: Ports,
    /// Ports that the writing of a line takes.
    pub fill_ports: u32,
    /// The way of lines to the caches above, if it is narrower than the ports.
    pub data: Option<Link>,
    pub mshrs: InFlight,
    pub buffer: InFlight,
    /// No request is expected from before, but for a short time: what is over by then is dropped.
    pub now: u64,
    pub latency: u64,
    /// From a line's arrival after a miss to its data at who asked for it.
    pub response: u64,
    /// From a line's arrival to its victim's leaving.
    pub fill: u64,
    pub prefetcher: Prefetcher,
    pub stats: CacheStats,
    /// Most accesses need nothing but [`Tags::quick_use`].
    pub quick: bool,
}

/// What a snapshot keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CacheState {
    tags: (TagsState, ReplacerState),
    ports: SlotsState,
    data: Option<SlotsState>,
    mshrs: InFlightState,
    buffer: InFlightState,
    now: u64,
    prefetcher: PrefetcherState,
    stats: CacheStats,
}

/// The level whose number stands with a line's time.
fn level(number: u8) -> Level {
    match number {
        0 => Level::L1,
        1 => Level::L2,
        2 => Level::Llc,
        3 => Level::Peer,
        _ => Level::Dram,
    }
}

impl Cache {
    /// An empty cache whose ports count `window` cycles in a ring.
    pub fn new(config: &CacheConfig, window: usize) -> Cache {
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
            now: 0,
            latency: u64::from(config.latency),
            response: u64::from(config.response),
            fill: u64::from(config.fill),
            prefetcher,
            stats: CacheStats::default(),
        }
    }

    /// Tries [`Tags::quick_use`] from now on, if that finds something.
    pub fn be_quick(mut self) -> Cache {
        self.quick = !self.prefetcher.is_on() && self.tags.be_quick();
        self
    }

    /// Puts the empty cache into slices, over which pages are scattered or not.
    pub fn divide(&mut self, slices: u32, scatter: bool, base: PhysAddr) {
        self.tags.divide(slices, scatter, base);
    }

    /// When a request that comes at `t` has a port.
    #[inline]
    pub fn port(&mut self, t: u64) -> u64 {
        let at = self.ports.take(t, self.now);
        if at != t {
            self.stats.port_wait_cycles += at - t;
        }
        at
    }

    /// When the first bytes of a line that could leave for the caches above at `t` do so. Those asked for come first.
    #[inline]
    pub fn send(&mut self, t: u64) -> u64 {
        let Some(data) = &mut self.data else { return t };
        let at = data.take_many(t, LINE_BYTES, self.now).0;
        self.stats.port_wait_cycles += at - t;
        at
    }

    /// A line that comes at `t` is written into the array.
    #[inline]
    pub fn write_line(&mut self, t: u64) {
        for _ in 0..self.fill_ports {
            self.ports.take(t + self.fill, self.now);
        }
    }

    /// When a miss that is noticed at `t` has a miss register.
    #[inline]
    pub fn admit(&mut self, t: u64) -> u64 {
        let at = self.mshrs.admit(t);
        self.stats.mshr_wait_cycles += at - t;
        at
    }

    /// Holds a miss register.
    pub fn hold(&mut self, line: u32, from: u64, until: u64) {
        self.mshrs.hold(line, from, until, self.now.saturating_sub(BEHIND));
        self.stats.mshr_cycles = self.mshrs.busy();
    }

    /// When a dirty line that leaves at `t` has a write-back buffer.
    pub fn buffer(&mut self, t: u64) -> u64 {
        let at = self.buffer.admit(t);
        self.stats.buffer_wait_cycles += at - t;
        at
    }

    /// Holds a write-back buffer.
    pub fn hold_buffer(&mut self, line: u32, from: u64, until: u64) {
        self.buffer.hold(line, from, until, self.now.saturating_sub(BEHIND));
    }

    /// When the data of a line that is there can be used by a request that would have them at `normal`; from which level
    /// they come; and whether the line is still on its way.
    #[inline]
    pub fn arrival(&mut self, slot: Slot, line: u32, normal: u64, here: Level) -> (u64, Level, bool) {
        if self.tags.is_settled(slot, normal) || self.tags.ready(slot).0 <= normal {
            (normal, here, false)
        } else {
            self.merge(slot, line, normal)
        }
    }

    /// Waits for a line on its way. Should it have been asked for at a later time than this request's, only because calls
    /// do not come in order of time, then it is fetched as early as this request asks.
    #[cold]
    fn merge(&mut self, slot: Slot, line: u32, normal: u64) -> (u64, Level, bool) {
        let (mut ready, from_level) = self.tags.ready(slot);
        if let Some(held) = self.mshrs.find(line, normal)
            && normal < held.from
            && held.from <= ready
        {
            ready = normal + (ready - held.from);
            self.tags.set_ready(slot, ready, from_level);
        }
        (ready, level(from_level), true)
    }

    /// What has been counted. To keep hits cheap, accesses are only summed up here.
    pub fn stats(&self) -> CacheStats {
        let accesses = self.stats.hits + self.stats.misses + self.stats.merges;
        let late_requests = self.ports.late() + self.mshrs.late() + self.buffer.late();
        CacheStats { accesses, late_requests, ..self.stats.clone() }
    }

    /// Puts a line in that comes at a time from a level; time 0 means that no request waits for it. `reused`: it was used here before.
    #[inline]
    pub fn insert(
        &mut self,
        line: u32,
        flags: Flags,
        mask: u32,
        (at, level): (u64, Level),
        reused: bool,
    ) -> (Slot, Option<Evicted>) {
        let (slot, evicted) = self.tags.insert(line, flags, mask, (at, level as u8), reused);
        self.stats.fills += 1;
        if let Some(evicted) = evicted {
            self.stats.evictions += 1;
            self.stats.prefetches_useless += u64::from(evicted.flags.is_prefetched());
        }
        (slot, evicted)
    }

    /// Takes a line out because its place is not wanted any more, as an eviction.
    pub fn give_up(&mut self, slot: Slot) -> Flags {
        self.stats.evictions += 1;
        self.tags.remove(slot)
    }

    /// Takes a line away, not to make room.
    pub fn take_away(&mut self, slot: Slot) -> Flags {
        let flags = self.tags.remove(slot);
        self.stats.invalidations += 1;
        self.stats.prefetches_useless += u64::from(flags.is_prefetched());
        flags
    }

    /// The same where the line may not be there.
    pub fn take_away_line(&mut self, line: u32) -> Option<Flags> {
        let slot = self.tags.find(line)?;
        Some(self.take_away(slot))
    }

    /// The first use of a line that had been fetched ahead; returns its flags as they are then.
    pub fn used_prefetched(&mut self, slot: Slot, flags: Flags, late: bool) -> Flags {
        self.stats.prefetches_useful += 1;
        self.stats.prefetches_late += u64::from(late);
        let flags = flags.with_prefetched(false);
        self.tags.set_flags(slot, flags);
        flags
    }

    pub fn save(&self) -> CacheState {
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

    /// Says what is impossible about a saved state, for a memory of `lines` lines and with nothing after `latest`.
    pub fn check(&self, state: &CacheState, lines: u32, latest: u64) -> Result<(), String> {
        self.tags.check(&state.tags, lines, latest)?;
        self.ports.check(&state.ports, latest)?;
        match (&self.data, &state.data) {
            (None, None) => {}
            (Some(data), Some(saved)) => data.check(saved, latest)?,
            _ => return Err("lines on a way that is as wide as the ports, or the other way round".to_owned()),
        }
        self.mshrs.check(&state.mshrs, latest)?;
        self.buffer.check(&state.buffer, latest)?;
        if state.now > latest {
            return Err("a cache's present is impossibly late".to_owned());
        }
        self.prefetcher.check(&state.prefetcher, lines)
    }

    pub fn restore(&mut self, state: CacheState) {
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
