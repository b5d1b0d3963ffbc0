//! A request at the last-level cache: finding the newest copy, the time to fetch it, and the victims it
//! evicts.

use doorbell_sim::UncoreCycle;
use doorbell_sim::memory::{LINE_BYTES, Level};

use crate::backing::MainMemory;
use crate::cache::Arrival;
use crate::class::DataClass;
use crate::coherence::sharing::SharingRequest;
use crate::coherence::snoops::Requester;
use crate::coherence::{Probe, ProbeResult};
use crate::config::Inclusion;
use crate::core_side::{LineRequest, Origin};
use crate::dca::LineEvent;
use crate::fabric::Moment;
use crate::system::MemorySystem;
use crate::tags::{Evicted, Flags, Slot};

/// Response of the LLC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FromLlc {
    pub at: UncoreCycle,
    pub level: Level,
    /// State granted to the hart, and class of the line.
    pub flags: Flags,
    /// When all victims have left.
    pub free: UncoreCycle,
}

/// Result of an LLC look-up of a line.
#[derive(Clone, Copy, Debug)]
struct Lookup {
    /// When and where it is done: at the line's slice.
    done: Moment,
    slot: Option<Slot>,
    /// Copies in other harts' caches.
    peers: ProbeResult,
    class: DataClass,
    /// State granted to the hart if the copy in the LLC or memory is the newest.
    alone: Flags,
}

/// The newest copy.
#[derive(Clone, Copy, Debug)]
struct Newest {
    /// When and where it is at hand.
    data: Moment,
    /// Level that it comes from.
    level: Level,
    /// State granted to the hart.
    state: Flags,
    /// When all victims have left.
    free: UncoreCycle,
}

/// A read of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryRead {
    /// When it has a miss register.
    pub out: UncoreCycle,
    /// When the data are at the LLC.
    pub data: UncoreCycle,
    /// The line was already in flight. If not, the caller must hold the register.
    pub merged: bool,
}

impl<M: MainMemory> MemorySystem<M> {
    /// A hart's request, which leaves the hart in cycle `t`. `upgrade`: the hart has the line, but read-only.
    pub(crate) fn request_llc<const TIMED: bool>(
        &mut self,
        request: LineRequest,
        t: UncoreCycle,
        upgrade: bool,
    ) -> FromLlc {
        let (core, home) = (self.core_stop(request.hart), self.home(request.line));
        let mut at = UncoreCycle::ZERO;
        if TIMED {
            let there = self.request(core, home, t) + self.latency;
            at = self.llc_port(request.line, there) + self.llc.latency;
        }
        let peers = match request.own {
            _ if self.harts.len() == 1 => ProbeResult::default(),
            true => self.probe(Some(request.hart), request.line, Probe::Invalidate),
            false => self.probe(Some(request.hart), request.line, Probe::Share),
        };
        self.traffic.snoops += u64::from(peers.present);
        self.devices.fresh_used_by_core += u64::from(peers.fresh);
        let slot = self.llc.tags.find(request.line);
        let prefetch = request.origin == Origin::Prefetch;
        self.harts[request.hart].stats.count_llc_request(prefetch, request.code, request.own, slot.is_some());
        let class = match slot {
            Some(slot) => self.llc.tags.flags(slot).class(),
            None => self.class_of(request),
        };
        self.record_sharing(request, &peers, class);
        let alone = if request.own || !peers.present { Flags::EXCLUSIVE } else { Flags::SHARED };
        let look = Lookup { done: Moment { at, stop: home }, slot, peers, class, alone };
        let newest = match slot {
            _ if upgrade => self.upgrade::<TIMED>(request, look),
            _ if peers.dirty => self.fetch_from_writer::<TIMED>(request, look),
            // The owner may have modified the line silently, so it is snooped.
            Some(slot) if self.is_newer_in_private(&peers) => {
                self.count(request, true, class);
                self.llc.tags.touch(slot);
                self.deallocate_exclusive(request, look);
                self.fetch_from_peer::<TIMED>(request, look)
            }
            Some(slot) => self.fetch_from_llc::<TIMED>(request, look, slot),
            None if peers.present => {
                self.count(request, false, class);
                self.fetch_from_peer::<TIMED>(request, look)
            }
            None => self.fetch_from_memory::<TIMED>(request, look),
        };
        let transfer = newest.level == Level::Peer && !upgrade;
        self.traffic.peer_transfers += u64::from(transfer);
        if transfer && !prefetch {
            let stats = &mut self.harts[request.hart].sharing;
            if peers.dirty { stats.hitm(class) } else { stats.hit(class) }
        }
        let Newest { data, level, state, free } = match (&self.directory, upgrade) {
            (None, _) | (_, true) => newest,
            _ => self.apply_directory::<TIMED>(request, look, newest),
        };
        let flags = state.with_class(class).with_watched(self.sharing.watches(request.line));
        self.answer::<TIMED>(request, data, !upgrade, FromLlc { at: UncoreCycle::ZERO, level, flags, free })
    }

    #[inline]
    fn record_sharing(&mut self, request: LineRequest, peers: &ProbeResult, class: DataClass) {
        if self.harts.len() == 1 {
            return;
        }
        let LineRequest { hart, line, own, words, origin, .. } = request;
        let request = SharingRequest { hart, line, words, own, demand: origin == Origin::Demand, class };
        self.sharing.record_request(request, peers, &mut self.harts[hart].sharing);
    }

    /// Directory actions for a line that comes from below at `data` or from another cache: all copies are
    /// invalidated before a write, and the line is tracked.
    fn apply_directory<const TIMED: bool>(
        &mut self,
        request: LineRequest,
        look: Lookup,
        mut newest: Newest,
    ) -> Newest {
        if request.own && newest.level != Level::Peer && look.peers.present {
            let gone =
                self.copies_invalidated::<TIMED>(&look.peers, look.done, Requester::Core(request.hart));
            newest.data = self.later(newest.data, gone, self.core_stop(request.hart));
        }
        newest.free = newest.free.max(self.track::<TIMED>(request.line, look.done.at));
        newest
    }

    /// The copy of another hart's cache.
    fn fetch_from_peer<const TIMED: bool>(&mut self, request: LineRequest, look: Lookup) -> Newest {
        let requester = Requester::Core(request.hart);
        let data = self.fetch_copy::<TIMED>(&look.peers, request.own, look.done, requester);
        Newest { data, level: Level::Peer, state: look.alone, free: UncoreCycle::ZERO }
    }

    /// Grants write permission for a line that the hart has, once all other copies are gone.
    fn upgrade<const TIMED: bool>(&mut self, request: LineRequest, look: Lookup) -> Newest {
        self.llc.stats.upgrades += u64::from(request.origin == Origin::Demand);
        let state = if self.deallocate_exclusive(request, look) { Flags::MODIFIED } else { Flags::EXCLUSIVE };
        let level = if look.peers.present { Level::Peer } else { Level::Llc };
        let data = self.copies_invalidated::<TIMED>(&look.peers, look.done, Requester::Core(request.hart));
        Newest { data, level, state, free: UncoreCycle::ZERO }
    }

    /// Another hart has modified the line: it gives up its copy, or also leaves the newest copy in the LLC.
    fn fetch_from_writer<const TIMED: bool>(&mut self, request: LineRequest, look: Lookup) -> Newest {
        self.count(request, look.slot.is_some(), look.class);
        let copy = self.fetch_from_peer::<TIMED>(request, look);
        if request.own {
            self.deallocate_exclusive(request, look);
            return Newest { state: Flags::MODIFIED, ..copy };
        }
        let flags = Flags::MODIFIED.with_class(look.class);
        let line = Evicted { line: request.line, flags, level: 0 };
        // A copy is written back to the slice after the line has gone to the requester.
        let copied = match TIMED {
            true => self.carry_behind(copy.data, look.done.stop),
            false => UncoreCycle::ZERO,
        };
        let free = self.evict_into_llc::<TIMED>(line, copied, self.harts[request.hart].llc_ways);
        Newest { state: Flags::SHARED, free, ..copy }
    }

    /// The LLC has the line.
    fn fetch_from_llc<const TIMED: bool>(
        &mut self,
        request: LineRequest,
        look: Lookup,
        slot: Slot,
    ) -> Newest {
        let Arrival { at, level, merged } =
            self.llc.arrival::<TIMED>(slot, request.line, look.done.at, Level::Llc);
        if merged && request.origin == Origin::Demand {
            self.llc.stats.merges += 1;
        } else {
            self.count(request, true, look.class);
        }
        self.llc.tags.touch(slot);
        let flags = self.llc.tags.flags(slot);
        if flags.is_fresh() {
            self.devices.fresh_used_by_core += 1;
            self.llc.tags.set_flags(slot, flags.with_fresh(false));
        }
        let dirty = self.deallocate_exclusive(request, look);
        let state = if dirty { Flags::MODIFIED } else { look.alone };
        Newest { data: Moment { at, ..look.done }, level, state, free: UncoreCycle::ZERO }
    }

    /// The way back to the hart, with the line or an acknowledgement. Lines are sent critical word first.
    #[inline]
    fn answer<const TIMED: bool>(
        &mut self,
        request: LineRequest,
        data: Moment,
        line: bool,
        answer: FromLlc,
    ) -> FromLlc {
        self.traffic.llc_to_core_bytes += if line { 64 } else { 0 };
        if !TIMED {
            return answer;
        }
        let core = self.core_stop(request.hart);
        let leaves = match line {
            true => {
                let there = self.carry(data.stop, core, data.at, LINE_BYTES).first;
                self.harts[request.hart].from.take_many(there, 64, self.llc.now).first
            }
            false => self.ack_arrival(data, core),
        };
        FromLlc { at: leaves + self.latency, ..answer }
    }

    /// Class of a line that the LLC does not have.
    fn class_of(&self, request: LineRequest) -> DataClass {
        match self.classes.get(request.line) {
            DataClass::Other if request.code => DataClass::Code,
            class => class,
        }
    }

    fn count(&mut self, request: LineRequest, hit: bool, class: DataClass) {
        let stats = &mut self.llc.stats;
        if request.origin == Origin::Prefetch {
            stats.prefetch_requests += 1;
            return;
        }
        if hit { stats.hits += 1 } else { stats.missed(class) }
    }

    /// Deallocates a line in an exclusive LLC when one hart has it alone. Returns whether the line was dirty.
    fn deallocate_exclusive(&mut self, request: LineRequest, look: Lookup) -> bool {
        let Some(slot) = look.slot else { return false };
        if self.inclusion != Inclusion::Exclusive || look.alone == Flags::SHARED {
            return false;
        }
        debug_assert!(self.llc.tags.find(request.line) == Some(slot));
        self.drop_from_llc(slot).is_dirty()
    }

    /// Drops a line from the LLC without a write-back.
    pub(crate) fn drop_from_llc(&mut self, slot: Slot) -> Flags {
        let flags = self.llc.take_away(slot);
        self.occupancy[flags.class() as usize] -= 1;
        flags
    }

    /// No cache has the line: it comes from memory, and a copy is kept here unless the LLC is exclusive.
    fn fetch_from_memory<const TIMED: bool>(&mut self, request: LineRequest, look: Lookup) -> Newest {
        // The line may be in flight for a requester that does not allocate it here.
        let MemoryRead { out, data, merged } = self.read_memory::<TIMED>(request.line, look.done.at);
        if merged && request.origin == Origin::Demand {
            self.llc.stats.merges += 1;
        } else {
            self.count(request, false, look.class);
        }
        if request.origin == Origin::Demand {
            self.llc.tags.missed(request.line);
        }
        let mut free = data;
        if self.inclusion != Inclusion::Exclusive {
            let flags = Flags::EXCLUSIVE.with_class(look.class);
            let ways = self.harts[request.hart].llc_ways;
            free = self.llc_insert::<TIMED>(request.line, flags, data, ways, data, false);
        }
        if TIMED && !merged {
            self.llc.hold(request.line, out, data.max(free));
        }
        Newest { data: Moment { at: data, ..look.done }, level: Level::Dram, state: look.alone, free }
    }

    /// A memory read of a request that missed the LLC at `lookup_done`.
    pub(crate) fn read_memory<const TIMED: bool>(
        &mut self,
        line: u32,
        lookup_done: UncoreCycle,
    ) -> MemoryRead {
        if !TIMED {
            self.traffic.memory_reads += 1;
            return MemoryRead { out: lookup_done, data: lookup_done, merged: false };
        }
        if let Some(held) = self.llc.mshrs.find(line, lookup_done) {
            // The other request has a later time only because calls are out of time order: fetch the line
            // now.
            let data =
                if held.from > lookup_done { lookup_done + (held.until - held.from) } else { held.until };
            return MemoryRead { out: lookup_done, data, merged: true };
        }
        let out = self.llc.admit(lookup_done);
        let (home, controller) = (self.home(line), self.memory_stop(line));
        let requested = self.request(home, controller, out);
        let back = self.memory.read(self.clock.edge(requested), self.ram.addr(line));
        self.traffic.memory_reads += 1;
        let back = self.carry(controller, home, self.clock.edge_at_or_after(back), LINE_BYTES).first;
        MemoryRead { out, data: back + self.llc.response, merged: false }
    }

    /// A victim of a private cache reaches the LLC at `t`, where it may use `ways`. Returns when the LLC's
    /// victim has left.
    pub(crate) fn evict_into_llc<const TIMED: bool>(
        &mut self,
        evicted: Evicted,
        t: UncoreCycle,
        ways: u32,
    ) -> UncoreCycle {
        let Some(slot) = self.llc.tags.find(evicted.line) else {
            debug_assert!(
                self.inclusion != Inclusion::Inclusive,
                "an inclusive LLC has every line of the private caches"
            );
            let flags = evicted.flags.with_prefetched(false).with_watched(false);
            // An exclusive LLC deallocated it on its last use.
            let reused = self.inclusion == Inclusion::Exclusive && evicted.level == Level::Llc as u8;
            return self.llc_insert::<TIMED>(evicted.line, flags, t, ways, UncoreCycle::ZERO, reused);
        };
        let flags = self.llc.tags.flags(slot);
        let state = if evicted.flags.is_dirty() { Flags::MODIFIED } else { flags.state() };
        self.llc
            .tags
            .set_flags(slot, flags.with_state(state).with_fresh(flags.is_fresh() | evicted.flags.is_fresh()));
        t
    }

    /// Fills a line into the LLC at `t`. It comes from memory at `ready`, or was
    /// already there if that is cycle 0.
    /// `reused`: it was used here before. Returns when the victim has left.
    pub(crate) fn llc_insert<const TIMED: bool>(
        &mut self,
        line: u32,
        flags: Flags,
        t: UncoreCycle,
        ways: u32,
        ready: UncoreCycle,
        reused: bool,
    ) -> UncoreCycle {
        let level = if ready == UncoreCycle::ZERO { Level::L1 } else { Level::Dram };
        let (_, evicted) = self.llc.insert(line, flags, ways, ready, level, reused);
        self.occupancy[flags.class() as usize] += 1;
        match evicted {
            Some(evicted) => self.llc_victim::<TIMED>(evicted, t),
            None => t,
        }
    }

    /// A victim that leaves the LLC at `t`.
    fn llc_victim<const TIMED: bool>(&mut self, evicted: Evicted, t: UncoreCycle) -> UncoreCycle {
        self.occupancy[evicted.flags.class() as usize] -= 1;
        let mut dirty = evicted.flags.is_dirty();
        let mut fresh = evicted.flags.is_fresh();
        if self.inclusion == Inclusion::Inclusive {
            let above = self.probe(None, evicted.line, Probe::Invalidate);
            dirty |= above.dirty;
            fresh |= above.fresh;
        }
        if fresh {
            self.devices.leaked(evicted.flags.class());
            self.steering.observe(evicted.line, LineEvent::Leaked);
        }
        if !dirty {
            return t;
        }
        self.llc.stats.write_backs += 1;
        self.traffic.llc_write_backs += 1;
        self.traffic.memory_writes += 1;
        if !TIMED {
            return t;
        }
        let free = self.llc.buffer(t);
        let (home, controller) = (self.home(evicted.line), self.memory_stop(evicted.line));
        let there = self.carry(home, controller, free, LINE_BYTES).last;
        let accepted = self.memory.write(self.clock.edge(there), self.ram.addr(evicted.line));
        self.llc.hold_buffer(evicted.line, free, self.clock.edge_at_or_after(accepted));
        free
    }
}
