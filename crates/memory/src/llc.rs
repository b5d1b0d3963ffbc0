//! A request at the last-level cache: finding the newest copy, the time to fetch it, and the victims it
//! evicts.

use doorbell_sim::memory::{LINE_BYTES, Level};

use crate::backing::MainMemory;
use crate::class::DataClass;
use crate::coherence::sharing::SharingRequest;
use crate::coherence::snoops::Requester;
use crate::coherence::{Probe, ProbeResult};
use crate::config::Inclusion;
use crate::core_side::{LineRequest, Origin};
use crate::dca::LineEvent;
use crate::fabric::{Moment, Stop};
use crate::system::MemorySystem;
use crate::tags::{Evicted, Flags, Slot};

/// Response of the LLC, in interconnect cycles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FromLlc {
    pub at: u64,
    pub level: Level,
    /// State granted to the hart, and class of the line.
    pub flags: Flags,
    /// When all victims have left.
    pub free: u64,
}

/// Result of an LLC look-up of a line.
#[derive(Clone, Copy, Debug)]
struct Lookup {
    /// Time of the look-up.
    at: u64,
    /// Stop of the line's slice.
    home: Stop,
    slot: Option<Slot>,
    /// Copies in other harts' caches.
    peers: ProbeResult,
    class: DataClass,
    /// State granted to the hart if the copy in the LLC or memory is the newest.
    alone: Flags,
}

impl Lookup {
    /// Time and place of the look-up.
    fn moment(&self) -> Moment {
        Moment { at: self.at, stop: self.home }
    }
}

/// The newest copy: time and place, level it comes from, state granted, and when the victims have left.
type Newest = (Moment, Level, Flags, u64);

impl<M: MainMemory> MemorySystem<M> {
    /// A hart's request, which leaves the hart in cycle `t`. `upgrade`: the hart has the line, but read-only.
    pub(crate) fn request_llc<const TIMED: bool>(
        &mut self,
        request: LineRequest,
        t: u64,
        upgrade: bool,
    ) -> FromLlc {
        let (core, home) = (self.core_stop(request.hart), self.home(request.line));
        let mut at = 0;
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
        let look = Lookup { at, home, slot, peers, class, alone };
        let (data, level, state, free) = match slot {
            _ if upgrade => self.upgrade::<TIMED>(request, look),
            _ if peers.dirty => self.fetch_from_writer::<TIMED>(request, look),
            // The owner may have modified the line silently, so it is snooped.
            Some(slot) if self.is_newer_in_private(&peers) => {
                self.count(request, true, class);
                self.llc.tags.touch(slot);
                self.deallocate_exclusive(request, look);
                (self.fetch_from_peer::<TIMED>(request, look), Level::Peer, alone, 0)
            }
            Some(slot) => self.fetch_from_llc::<TIMED>(request, look, slot),
            None if peers.present => {
                self.count(request, false, class);
                (self.fetch_from_peer::<TIMED>(request, look), Level::Peer, alone, 0)
            }
            None => self.fetch_from_memory::<TIMED>(request, look),
        };
        let transfer = level == Level::Peer && !upgrade;
        self.traffic.peer_transfers += u64::from(transfer);
        if transfer && !prefetch {
            let stats = &mut self.harts[request.hart].sharing;
            if peers.dirty { stats.hitm(class) } else { stats.hit(class) }
        }
        let (data, free) = match (&self.directory, upgrade) {
            (None, _) | (_, true) => (data, free),
            _ => self.apply_directory::<TIMED>(request, look, (data, level, free)),
        };
        let flags = state.with_class(class).with_watched(self.sharing.watches(request.line));
        self.answer::<TIMED>(request, data, !upgrade, FromLlc { at: 0, level, flags, free })
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
        (mut data, level, free): (Moment, Level, u64),
    ) -> (Moment, u64) {
        if request.own && level != Level::Peer && look.peers.present {
            let gone =
                self.copies_invalidated::<TIMED>(&look.peers, look.moment(), Requester::Core(request.hart));
            data = self.later(data, gone, self.core_stop(request.hart));
        }
        let room = self.track::<TIMED>(request.line, look.at);
        (data, free.max(room))
    }

    /// Returns when the copy of another hart's cache is at hand.
    fn fetch_from_peer<const TIMED: bool>(&mut self, request: LineRequest, look: Lookup) -> Moment {
        self.fetch_copy::<TIMED>(&look.peers, request.own, look.moment(), Requester::Core(request.hart))
    }

    /// Grants write permission for a line that the hart has, once all other copies are gone.
    fn upgrade<const TIMED: bool>(&mut self, request: LineRequest, look: Lookup) -> Newest {
        self.llc.stats.upgrades += u64::from(request.origin == Origin::Demand);
        let state = if self.deallocate_exclusive(request, look) { Flags::MODIFIED } else { Flags::EXCLUSIVE };
        let level = if look.peers.present { Level::Peer } else { Level::Llc };
        (
            self.copies_invalidated::<TIMED>(&look.peers, look.moment(), Requester::Core(request.hart)),
            level,
            state,
            0,
        )
    }

    /// Another hart has modified the line: it gives up its copy, or also leaves the newest copy in the LLC.
    fn fetch_from_writer<const TIMED: bool>(&mut self, request: LineRequest, look: Lookup) -> Newest {
        self.count(request, look.slot.is_some(), look.class);
        let data = self.fetch_from_peer::<TIMED>(request, look);
        if request.own {
            self.deallocate_exclusive(request, look);
            return (data, Level::Peer, Flags::MODIFIED, 0);
        }
        let flags = Flags::MODIFIED.with_class(look.class);
        let line = Evicted { line: request.line, flags, level: 0 };
        // A copy is written back to the slice after the line has gone to the requester.
        let copied = match TIMED {
            true => self.carry_behind(data, look.home),
            false => 0,
        };
        let free = self.evict_into_llc::<TIMED>(line, copied, self.harts[request.hart].llc_ways);
        (data, Level::Peer, Flags::SHARED, free)
    }

    /// The LLC has the line.
    fn fetch_from_llc<const TIMED: bool>(
        &mut self,
        request: LineRequest,
        look: Lookup,
        slot: Slot,
    ) -> Newest {
        let (data, level, merged) = match TIMED {
            true => self.llc.arrival(slot, request.line, look.at, Level::Llc),
            false => (0, Level::Llc, false),
        };
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
        (Moment { at: data, stop: look.home }, level, if dirty { Flags::MODIFIED } else { look.alone }, 0)
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
                let there = self.carry(data.stop, core, data.at, LINE_BYTES).0;
                self.harts[request.hart].from.take_many(there, 64, self.llc.now).0
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
        let (mut out, mut data, mut merged) = (look.at, look.at, false);
        if TIMED {
            // The line may be in flight for a requester that does not allocate it here.
            (out, data, merged) = self.read_memory(request.line, look.at);
        } else {
            self.traffic.memory_reads += 1;
        }
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
        (Moment { at: data, stop: look.home }, Level::Dram, look.alone, free)
    }

    /// Times a memory read of a request that missed the LLC at `lookup_done`. Returns when it has a miss
    /// register, when the data are at the LLC, and whether the line was already in flight. If it was not, the
    /// caller must hold the register.
    pub(crate) fn read_memory(&mut self, line: u32, lookup_done: u64) -> (u64, u64, bool) {
        if let Some(held) = self.llc.mshrs.find(line, lookup_done) {
            // The other request has a later time only because calls are out of time order: fetch the line
            // now.
            let data =
                if held.from > lookup_done { lookup_done + (held.until - held.from) } else { held.until };
            return (lookup_done, data, true);
        }
        let out = self.llc.admit(lookup_done);
        let (home, controller) = (self.home(line), self.memory_stop(line));
        let requested = self.request(home, controller, out);
        let back = self.memory.read(self.clock.edge(requested), self.ram.addr(line));
        self.traffic.memory_reads += 1;
        let back = self.carry(controller, home, self.clock.edge_at_or_after(back), LINE_BYTES).0;
        (out, back + self.llc.response, false)
    }

    /// A victim of a private cache reaches the LLC at `t`, where it may use `ways`. Returns when the LLC's
    /// victim has left.
    pub(crate) fn evict_into_llc<const TIMED: bool>(&mut self, evicted: Evicted, t: u64, ways: u32) -> u64 {
        let Some(slot) = self.llc.tags.find(evicted.line) else {
            debug_assert!(
                self.inclusion != Inclusion::Inclusive,
                "an inclusive LLC has every line of the private caches"
            );
            let flags = evicted.flags.with_prefetched(false).with_watched(false);
            // An exclusive LLC deallocated it on its last use.
            let reused = self.inclusion == Inclusion::Exclusive && evicted.level == Level::Llc as u8;
            return self.llc_insert::<TIMED>(evicted.line, flags, t, ways, 0, reused);
        };
        let flags = self.llc.tags.flags(slot);
        let state = if evicted.flags.is_dirty() { Flags::MODIFIED } else { flags.state() };
        self.llc
            .tags
            .set_flags(slot, flags.with_state(state).with_fresh(flags.is_fresh() | evicted.flags.is_fresh()));
        t
    }

    /// Fills a line into the LLC at `t`. It comes from memory at `ready`, or is already there if that is 0.
    /// `reused`: it was used here before. Returns when the victim has left.
    pub(crate) fn llc_insert<const TIMED: bool>(
        &mut self,
        line: u32,
        flags: Flags,
        t: u64,
        ways: u32,
        ready: u64,
        reused: bool,
    ) -> u64 {
        let level = if ready == 0 { Level::L1 } else { Level::Dram };
        let (_, evicted) = self.llc.insert(line, flags, ways, (ready, level), reused);
        self.occupancy[flags.class() as usize] += 1;
        match evicted {
            Some(evicted) => self.llc_victim::<TIMED>(evicted, t),
            None => t,
        }
    }

    /// A victim that leaves the LLC at `t`.
    fn llc_victim<const TIMED: bool>(&mut self, evicted: Evicted, t: u64) -> u64 {
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
        let there = self.carry(home, controller, free, LINE_BYTES).1;
        let accepted = self.memory.write(self.clock.edge(there), self.ram.addr(evicted.line));
        self.llc.hold_buffer(evicted.line, free, self.clock.edge_at_or_after(accepted));
        free
    }
}
