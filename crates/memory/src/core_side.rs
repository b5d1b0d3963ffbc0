//! A core's access through the private caches.
//!
//! Latencies add up: a miss leaves a level after its latency, and on the way back each level that missed adds
//! its response latency. A miss holds a miss register of each level that it misses. If a dirty victim finds
//! no free write-back buffer, the register is held until there is one. Lines go from the L2 to the L1s over
//! `l2.bytes_per_cycle`, critical word first, and their fills take `fill_ports`.
//!
//! With `levels = 2` a directory of the two L1s replaces the L2 and takes no time: L1 misses and L1 victims
//! go to the last level. Its counters are the L2's: misses are requests to the last level, hits are lines in
//! the hart's other L1, supplied from there at once.

use doorbell_sim::memory::{AccessKind, CoreAccess, Level, Served};
use doorbell_sim::{CoreCycle, UncoreCycle};

use crate::backing::MainMemory;
use crate::cache::Arrival;
use crate::coherence::sharing::word;
use crate::config::{Inclusion, WalkEntry};
use crate::system::MemorySystem;
use crate::tags::{Evicted, Flags, Quick};

mod hardware_prefetch;
mod software_prefetch;

/// Origin of a request to the level below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Demand,
    Prefetch,
}

/// A request for a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineRequest {
    pub hart: usize,
    pub line: u32,
    /// The request is for ownership (a store).
    pub own: bool,
    /// The request is an instruction fetch.
    pub code: bool,
    pub origin: Origin,
    /// Bit mask of the words of the line that are accessed.
    pub words: u8,
}

/// Response of the L2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineResponse {
    pub at: CoreCycle,
    pub level: Level,
    /// State granted to the hart, and class of the line.
    pub flags: Flags,
    /// When the L2 look-up was done.
    lookup_done: CoreCycle,
    /// The L2 missed, or this was the first use of a prefetched line.
    trigger: bool,
}

impl<M: MainMemory> MemorySystem<M> {
    #[inline(always)]
    pub(crate) fn access<const TIMED: bool>(
        &mut self,
        h: usize,
        cycle: CoreCycle,
        access: CoreAccess,
    ) -> Served {
        let Some(line) = self.ram.line(access.addr) else { return self.outside(h, cycle) };
        let (own, code) = (access.kind == AccessKind::Store, access.kind == AccessKind::Fetch);
        if access.kind == AccessKind::Walk && self.harts[h].walks == WalkEntry::L2 {
            return self.walk_at_l2::<TIMED>(h, cycle, line, access);
        }
        let hart = &mut self.harts[h];
        let l1 = if code { &mut hart.l1i } else { &mut hart.l1d };
        let begin = if TIMED { l1.port(cycle) } else { CoreCycle::ZERO };
        let there = if TIMED { begin + l1.latency } else { CoreCycle::MAX };
        let quick = if l1.quick { l1.tags.quick_use(line, there, own) } else { Quick::Unsure };
        match quick {
            Quick::Used(flags) => {
                l1.stats.hits += 1;
                let at = if TIMED { there } else { CoreCycle::ZERO };
                self.account::<TIMED>(h, (line, access.kind), flags, Level::L1, cycle, at);
                Served { at, level: Level::L1 }
            }
            Quick::Unsure => self.access_l1::<TIMED>(h, cycle, begin, access),
            Quick::Absent => self.miss_l1::<TIMED>(h, cycle, begin, access, false),
        }
    }

    /// An access to the L1; it has a port in cycle `begin`.
    #[inline(never)]
    fn access_l1<const TIMED: bool>(
        &mut self,
        h: usize,
        cycle: CoreCycle,
        begin: CoreCycle,
        access: CoreAccess,
    ) -> Served {
        let line = self.ram.line(access.addr).expect("the caller has checked that the address is in RAM");
        let (own, code) = (access.kind == AccessKind::Store, access.kind == AccessKind::Fetch);
        let hart = &mut self.harts[h];
        let l1 = if code { &mut hart.l1i } else { &mut hart.l1d };
        let Some(slot) = l1.tags.find(line) else {
            return self.miss_l1::<TIMED>(h, cycle, begin, access, false);
        };
        let mut flags = l1.tags.flags(slot);
        if own && !flags.is_dirty() {
            if !flags.is_writable() {
                return self.miss_l1::<TIMED>(h, cycle, begin, access, true);
            }
            flags = flags.with_state(Flags::MODIFIED);
            l1.tags.set_flags(slot, flags);
        }
        if own && flags.is_watched() {
            self.sharing.record_store(h, line, word(access.addr));
        }
        l1.tags.touch(slot);
        let normal = begin + l1.latency;
        let Arrival { at, level, merged } = l1.arrival::<TIMED>(slot, line, normal, Level::L1);
        *if merged { &mut l1.stats.merges } else { &mut l1.stats.hits } += 1;
        let first_use = flags.is_prefetched();
        if first_use {
            flags = l1.used_prefetched(slot, flags, merged);
        }
        let prefetches = l1.prefetcher.is_on();
        self.account::<TIMED>(h, (line, access.kind), flags, level, cycle, at);
        if prefetches {
            self.prefetch_l1::<TIMED>(h, access, normal, first_use);
        }
        Served { at, level }
    }

    /// Adds an access to the hart's counters.
    #[inline]
    fn account<const TIMED: bool>(
        &mut self,
        h: usize,
        (line, kind): (u32, AccessKind),
        flags: Flags,
        level: Level,
        cycle: CoreCycle,
        at: CoreCycle,
    ) {
        let stats = &mut self.harts[h].stats;
        let cycles = if TIMED { at - cycle } else { 0 };
        // L1 hits follow from the caches' counters.
        if level != Level::L1 {
            stats.served(level);
        }
        if kind == AccessKind::Fetch {
            stats.fetch_cycles += cycles;
        } else {
            stats.data_access_cycles += cycles;
            if flags.is_network() {
                stats.network_accesses += 1;
                stats.network_access_cycles += cycles;
                match kind {
                    AccessKind::Load if self.classes.is_network_data(line) => {
                        stats.network_loads += 1;
                        stats.network_load_cycles += cycles;
                    }
                    AccessKind::Store => self.classes.stored(line),
                    _ => {}
                }
            }
        }
    }

    /// An access that the L1 cannot serve. `upgrade`: the line is present but read-only.
    #[inline(never)]
    fn miss_l1<const TIMED: bool>(
        &mut self,
        h: usize,
        cycle: CoreCycle,
        begin: CoreCycle,
        access: CoreAccess,
        upgrade: bool,
    ) -> Served {
        let line = self.ram.line(access.addr).expect("the caller has checked that the address is in RAM");
        let (own, code) = (access.kind == AccessKind::Store, access.kind == AccessKind::Fetch);
        let l1 = self.harts[h].l1(code);
        let noticed = begin + l1.latency;
        let out = if TIMED { l1.admit(noticed) } else { CoreCycle::ZERO };
        let request =
            LineRequest { hart: h, line, own, code, origin: Origin::Demand, words: word(access.addr) };
        let answer = self.request_for_l1::<TIMED>(request, out, upgrade);
        let l1 = self.harts[h].l1(code);
        l1.stats.missed(answer.flags.class());
        if !upgrade {
            l1.tags.missed(line);
        }
        self.fill_l1::<TIMED>(request, &answer, out, upgrade);
        self.account::<TIMED>(h, (line, access.kind), answer.flags, answer.level, cycle, answer.at);
        if self.harts[h].l1(code).prefetcher.is_on() {
            self.prefetch_l1::<TIMED>(h, access, noticed, true);
        }
        self.prefetch_l2::<TIMED>(h, access, &answer);
        Served { at: answer.at, level: answer.level }
    }

    /// A page walk that bypasses the L1.
    fn walk_at_l2<const TIMED: bool>(
        &mut self,
        h: usize,
        cycle: CoreCycle,
        line: u32,
        access: CoreAccess,
    ) -> Served {
        let words = word(access.addr);
        let request = LineRequest { hart: h, line, own: false, code: false, origin: Origin::Demand, words };
        self.harts[h].stats.walks_at_l2 += 1;
        let answer = self.request_l2::<TIMED>(request, cycle);
        self.account::<TIMED>(h, (line, access.kind), answer.flags, answer.level, cycle, answer.at);
        self.prefetch_l2::<TIMED>(h, access, &answer);
        Served { at: answer.at, level: answer.level }
    }

    /// Response of the L2 to an L1 miss that leaves the L1 at `out`. `upgrade`: only permission is returned.
    fn request_for_l1<const TIMED: bool>(
        &mut self,
        request: LineRequest,
        out: CoreCycle,
        upgrade: bool,
    ) -> LineResponse {
        let mut answer = self.request_l2::<TIMED>(request, out);
        if TIMED {
            let hart = &mut self.harts[request.hart];
            if !upgrade {
                answer.at = hart.l2.send(answer.at);
            }
            answer.at += hart.l1(request.code).response;
        }
        answer
    }

    /// A request that reaches the L2 at `t`.
    fn request_l2<const TIMED: bool>(&mut self, request: LineRequest, t: CoreCycle) -> LineResponse {
        let demand = request.origin == Origin::Demand;
        let l2 = &mut self.harts[request.hart].l2;
        let lookup_done = if TIMED { l2.port(t) + l2.latency } else { CoreCycle::ZERO };
        l2.stats.prefetch_requests += u64::from(!demand);
        let Some(slot) = l2.tags.find(request.line) else {
            return self.miss_l2::<TIMED>(request, lookup_done, false);
        };
        let mut flags = l2.tags.flags(slot);
        if request.own && !flags.is_writable() {
            return self.miss_l2::<TIMED>(request, lookup_done, true);
        }
        l2.tags.touch(slot);
        let Arrival { at, level, merged } = l2.arrival::<TIMED>(slot, request.line, lookup_done, Level::L2);
        let first_use = demand && flags.is_prefetched();
        if demand {
            *if merged { &mut l2.stats.merges } else { &mut l2.stats.hits } += 1;
        }
        if first_use {
            flags = l2.used_prefetched(slot, flags, merged);
        }
        if flags.is_fresh() {
            flags = flags.with_fresh(false);
            l2.tags.set_flags(slot, flags);
            self.devices.fresh_used_by_core += 1;
        }
        LineResponse { at, level, flags, lookup_done, trigger: first_use }
    }

    /// A request that misses the L2. `upgrade`: the line is present but read-only.
    fn miss_l2<const TIMED: bool>(
        &mut self,
        request: LineRequest,
        lookup_done: CoreCycle,
        upgrade: bool,
    ) -> LineResponse {
        let (mut out, mut requested) = (CoreCycle::ZERO, UncoreCycle::ZERO);
        if TIMED {
            out = self.harts[request.hart].l2.admit(lookup_done);
            requested = self.to_shared(request.hart, out);
            self.advance_cycle(self.to_shared(request.hart, self.harts[request.hart].l2.now));
        }
        let got = self.request_llc::<TIMED>(request, requested, upgrade);
        let response = self.harts[request.hart].l2.response;
        let at = if TIMED { self.to_core(request.hart, got.at) + response } else { CoreCycle::ZERO };
        let l2 = &mut self.harts[request.hart].l2;
        if request.origin == Origin::Demand {
            l2.stats.missed(got.flags.class());
            l2.stats.upgrades += u64::from(upgrade);
            if !upgrade {
                l2.tags.missed(request.line);
            }
        }
        let mut free = at;
        let found = if upgrade { l2.tags.find(request.line) } else { None };
        if let Some(slot) = found {
            l2.tags.touch(slot);
            let state = got.flags.state();
            let mut keep = l2.tags.flags(slot);
            if keep.is_prefetched() {
                keep = l2.used_prefetched(slot, keep, false);
            }
            l2.tags.set_flags(slot, keep.with_state(state).with_watched(got.flags.is_watched()));
            l2.tags.set_ready(slot, at, got.level as u8);
        } else {
            free = self.fill_l2::<TIMED>(request.hart, request.line, got.flags, at, got.level);
        }
        if TIMED {
            let until = free.max(self.to_core(request.hart, got.free));
            self.harts[request.hart].l2.hold(request.line, out, until);
        }
        LineResponse { at, level: got.level, flags: got.flags, lookup_done, trigger: true }
    }

    /// Fills the response into the L1. The miss register has been held since `out`.
    fn fill_l1<const TIMED: bool>(
        &mut self,
        request: LineRequest,
        answer: &LineResponse,
        out: CoreCycle,
        upgrade: bool,
    ) {
        let crate::system::Private { l1i, l1d, l2, directory, .. } = &mut self.harts[request.hart];
        let l1 = if request.code { l1i } else { l1d };
        // A line that is dirty in the level below is clean here, but writable.
        let state = match answer.flags.state() {
            _ if request.own && request.origin == Origin::Demand => Flags::MODIFIED,
            Flags::MODIFIED => Flags::EXCLUSIVE,
            state => state,
        };
        let prefetched = request.origin == Origin::Prefetch;
        let flags = state.with_class(answer.flags.class()).with_prefetched(prefetched);
        let flags = flags.with_watched(answer.flags.is_watched());
        let mut free = answer.at;
        let found = if upgrade { l1.tags.find(request.line) } else { None };
        match found {
            Some(slot) => {
                // A store, or a prefetch for one, to a line that was read-only.
                let old = l1.tags.flags(slot);
                l1.stats.upgrades += u64::from(!prefetched);
                if old.is_prefetched() && !prefetched {
                    l1.used_prefetched(slot, old, false);
                }
                l1.tags.set_flags(slot, flags);
                l1.tags.touch(slot);
                if TIMED {
                    l1.tags.set_ready(slot, answer.at, answer.level as u8);
                }
            }
            None => {
                let (_, evicted) = l1.insert(request.line, flags, u32::MAX, answer.at, answer.level, false);
                if TIMED {
                    l1.write_line(answer.at);
                }
                if let Some(evicted) = evicted.filter(|_| *directory) {
                    free = self.leave_l1::<TIMED>(request.hart, request.code, evicted, free);
                } else if let Some(Evicted { line, flags, .. }) = evicted
                    && flags.is_dirty()
                {
                    let below = l2.tags.find(line).expect("the L2 includes the L1s");
                    l2.tags.set_flags(below, l2.tags.flags(below).with_state(Flags::MODIFIED));
                    l1.stats.write_backs += 1;
                    if TIMED {
                        let leaves = l1.buffer(free + l1.fill);
                        let taken = l2.port(leaves);
                        l1.hold_buffer(line, leaves, taken + 1);
                        free = leaves - l1.fill;
                    }
                }
            }
        }
        if TIMED {
            self.harts[request.hart].l1(request.code).hold(request.line, out, free);
        }
    }

    /// Fills a line that arrives at `ready` into a hart's L2. Returns when its victim has left.
    pub(crate) fn fill_l2<const TIMED: bool>(
        &mut self,
        h: usize,
        line: u32,
        flags: Flags,
        ready: CoreCycle,
        level: Level,
    ) -> CoreCycle {
        let hart = &mut self.harts[h];
        let (_, evicted) = hart.l2.insert(line, flags, u32::MAX, ready, level, false);
        if TIMED {
            hart.l2.write_line(ready);
        }
        self.add_sharer(h, line);
        let Some(mut evicted) = evicted else { return ready };
        self.remove_sharer(h, evicted.line);
        let hart = &mut self.harts[h];
        // The L2 includes the L1s.
        hart.l1i.take_away_line(evicted.line);
        if hart.l1d.take_away_line(evicted.line).is_some_and(Flags::is_dirty) {
            evicted.flags = evicted.flags.with_state(Flags::MODIFIED);
        }
        self.leave_private::<TIMED>(h, evicted, ready)
    }

    /// A victim leaves a hart's caches for a line that arrives at `ready`. Returns when it has left.
    #[inline(always)]
    fn leave_private<const TIMED: bool>(
        &mut self,
        h: usize,
        evicted: Evicted,
        ready: CoreCycle,
    ) -> CoreCycle {
        if !evicted.flags.is_dirty() && self.inclusion != Inclusion::Exclusive {
            return ready;
        }
        let hart = &mut self.harts[h];
        hart.l2.stats.write_backs += u64::from(evicted.flags.is_dirty());
        self.traffic.core_to_llc_bytes += 64;
        if !TIMED {
            let ways = hart.llc_ways;
            self.evict_into_llc::<false>(evicted, UncoreCycle::ZERO, ways);
            return CoreCycle::ZERO;
        }
        let evicts = hart.l2.buffer(ready + hart.l2.fill);
        let free = evicts - hart.l2.fill;
        let leaves = self.to_shared(h, evicts);
        let sent = self.harts[h].to.take_many(leaves, 64, self.llc.now).last;
        let (core, home) = (self.core_stop(h), self.home(evicted.line));
        let arrives = self.carry(core, home, sent, 64).last + self.latency;
        let taken = self.llc_port(evicted.line, arrives);
        let room = self.evict_into_llc::<true>(evicted, taken, self.harts[h].llc_ways);
        let until = self.to_core(h, room.max(taken + 1));
        self.harts[h].l2.hold_buffer(evicted.line, evicts, until);
        free
    }

    /// With `levels = 2`, a victim leaves an L1 for a line that arrives at `ready`. Returns when it has left.
    #[inline(never)]
    fn leave_l1<const TIMED: bool>(
        &mut self,
        h: usize,
        code: bool,
        evicted: Evicted,
        ready: CoreCycle,
    ) -> CoreCycle {
        let hart = &mut self.harts[h];
        let slot = hart.l2.tags.find(evicted.line).expect("the directory includes the L1s");
        let mut flags = hart.l2.tags.flags(slot);
        if evicted.flags.is_dirty() {
            flags = flags.with_state(Flags::MODIFIED);
            hart.l1(code).stats.write_backs += 1;
        }
        if hart.l1(!code).tags.find(evicted.line).is_some() {
            hart.l2.tags.set_flags(slot, flags);
            return ready;
        }
        let level = hart.l2.tags.ready(slot).1;
        hart.l2.give_up(slot);
        self.remove_sharer(h, evicted.line);
        self.leave_private::<TIMED>(h, Evicted { line: evicted.line, flags, level }, ready)
    }
}
