//! A device's access: direct cache access, and the rules of on-die devices.
//!
//! Rules of the root complex; `device_tests.rs` has a test for each. A write of a whole line updates it in
//! place if the LLC has it, in whatever way; otherwise it is allocated in the DCA ways. Copies in private
//! caches are invalidated in both cases. A partial write merges with the newest copy, which is read from
//! memory if no cache has the line. A read is served from the newest copy, changes no other cache's state,
//! and allocates only if the policy says so. A policy may drop a line of a transmitted frame afterwards. With
//! direct cache access off, writes go to memory and invalidate copies; reads still hit them.
//!
//! A device that enters at the last-level cache ([`DmaEntryPoint::Llc`]) takes one of its ports and no root
//! complex link. Its writes go where the policy says. With direct cache access off they are allocated in the
//! cores' ways: that policy governs the root complex, and a memory-side cache keeps what is written to it.
//! [`DmaEntryPoint::LlcHeaders`] is the same, except that payload always goes to memory.
//! [`DmaEntryPoint::MemoryBus`] has its own rules, in `memory_bus.rs`.
//!
//! A written line is usable as soon as the write is visible. Writes are timed ahead, so a core may request
//! the line at an earlier time than the write; it then does not wait for the write.

use doorbell_sim::memory::{DmaAccess, DmaEntryPoint, HostMemory, LINE_BYTES, Level};
use doorbell_sim::ports::{DmaPurpose, PhysAddr};
use doorbell_sim::{CoreCycle, Ps, UncoreCycle};

use crate::backing::MainMemory;
use crate::class::{Access, DataClass};
use crate::coherence::snoops::Requester;
use crate::coherence::{Probe, ProbeResult};
use crate::config::Inclusion;
use crate::dca::{DEVICES_MAX, Inbound, LineEvent, Part, Placement};
use crate::fabric::{Moment, Stop};
use crate::llc::MemoryRead;
use crate::system::MemorySystem;
use crate::tags::{Flags, Slot};
use crate::ways::WayMask;

impl<M: MainMemory> HostMemory for MemorySystem<M> {
    fn device_read(&mut self, now: Ps, addr: PhysAddr, bytes: u32, access: DmaAccess) -> Ps {
        let done = self.read_line::<true>(now, addr, bytes, access);
        self.devices.read_ps += done.saturating_sub(now).0;
        done
    }

    fn device_write(&mut self, now: Ps, addr: PhysAddr, bytes: u32, access: DmaAccess) -> Ps {
        let done = self.write_line::<true>(now, addr, bytes, access);
        self.devices.write_ps += done.saturating_sub(now).0;
        done
    }

    fn advance_to(&mut self, now: Ps) {
        self.advance_cycle(self.clock.edge_at_or_before(now));
    }
}

impl<M: MainMemory> MemorySystem<M> {
    /// A device's read that changes state and counters but takes no time.
    pub fn warm_device_read(&mut self, addr: PhysAddr, bytes: u32, access: DmaAccess) {
        self.read_line::<false>(Ps::ZERO, addr, bytes, access);
    }

    /// A device's write that changes state and counters but takes no time.
    pub fn warm_device_write(&mut self, addr: PhysAddr, bytes: u32, access: DmaAccess) {
        self.write_line::<false>(Ps::ZERO, addr, bytes, access);
    }

    /// Software has returned a receive buffer to the device, so its old contents will not be read again.
    pub fn buffer_returned(&mut self, device: u8, addr: PhysAddr, bytes: u64) {
        if !self.steering.policy(device).invalidate.drops_returned() {
            return;
        }
        let end = addr.0.saturating_add(bytes) / LINE_BYTES;
        for line in addr.0.div_ceil(LINE_BYTES)..end {
            if let Some(line) = self.ram.line(PhysAddr(line * LINE_BYTES)) {
                self.drop_consumed(line);
            }
        }
    }

    /// Returns when the LLC look-up of a device's request is done. The request enters at `now` and carries
    /// `bytes`. On the memory bus the caches snoop it at once.
    fn llc_lookup<const TIMED: bool>(&mut self, now: Ps, bytes: u64, line: u32, device: u8) -> UncoreCycle {
        if !TIMED {
            return UncoreCycle::ZERO;
        }
        let entered = self.clock.edge_at_or_after(now);
        let leaves = match self.entry(device) {
            DmaEntryPoint::RootComplex => {
                let last =
                    if bytes > 0 { self.io_in.take_many(entered, bytes, self.llc.now).last } else { entered };
                last + self.io_latency
            }
            DmaEntryPoint::Llc | DmaEntryPoint::LlcHeaders => entered,
            DmaEntryPoint::MemoryBus => return entered,
        };
        let (stop, home) = (self.device_stop(device), self.home(line));
        let there = match bytes {
            0 => self.request(stop, home, leaves),
            bytes => self.carry(stop, home, leaves, bytes).last,
        };
        self.llc_port(line, there) + self.llc.latency
    }

    /// Returns when the line that a device reads arrives from a private cache.
    pub(crate) fn fetch_private_copy<const TIMED: bool>(
        &mut self,
        private: &ProbeResult,
        lookup_done: Moment,
    ) -> UncoreCycle {
        self.traffic.snoops += 1;
        self.fetch_copy::<TIMED>(private, false, lookup_done, Requester::Home).at
    }

    /// An access to an address that is not RAM: a round trip on the interconnect.
    fn access_outside_ram(&mut self, now: Ps) -> Ps {
        self.devices.outside_ram += 1;
        let there = self.clock.edge_at_or_after(now) + 2 * self.io_latency;
        self.clock.edge(there)
    }

    /// Sets the line's class to that of the device's access, in RAM's table and in the LLC.
    fn reclass(&mut self, slot: Option<Slot>, line: u32, class: DataClass, access: Access) {
        self.classes.set(line, class, access);
        if let Some(slot) = slot {
            let flags = self.llc.tags.flags(slot);
            self.occupancy[flags.class() as usize] -= 1;
            self.occupancy[class as usize] += 1;
            self.llc.tags.set_flags(slot, flags.with_class(class));
        }
    }

    fn read_line<const TIMED: bool>(&mut self, now: Ps, addr: PhysAddr, bytes: u32, access: DmaAccess) -> Ps {
        let Some(line) = self.ram.line(addr) else { return self.access_outside_ram(now) };
        let bytes = u64::from(bytes).min(LINE_BYTES - addr.0 % LINE_BYTES);
        let class = DataClass::of(&access, self.header_bytes);
        let entry = self.entry(access.device);
        let lookup_done = self.llc_lookup::<TIMED>(now, 0, line, access.device);
        let private = self.probe(None, line, Probe::Read(class));
        let slot = self.llc.tags.find(line);
        self.reclass(slot, line, class, Access::Read);
        *match slot {
            Some(_) => &mut self.devices.pcierdcur_hits,
            None => &mut self.devices.pcierdcur_misses,
        } += 1;
        let account = &mut self.accounts[usize::from(access.device) % DEVICES_MAX];
        account.lines_read += 1;
        account.lines_read_from_llc += u64::from(slot.is_some());
        let data = match entry {
            DmaEntryPoint::MemoryBus => self.read_past_caches::<TIMED>(line, slot, &private, lookup_done),
            _ => self.read_through_llc::<TIMED>(line, slot, &private, lookup_done, class, &access),
        };
        self.traffic.device_out_bytes += bytes;
        let is_sent = access.purpose == DmaPurpose::TxData && addr.0.is_multiple_of(LINE_BYTES);
        if is_sent && self.steering.policy(access.device).invalidate.drops_sent() {
            self.drop_consumed(line);
        }
        if !TIMED {
            return Ps::ZERO;
        }
        if entry == DmaEntryPoint::MemoryBus {
            return self.clock.edge(data);
        }
        let (home, stop) = (self.home(line), self.device_stop(access.device));
        let sent = self.carry(home, stop, data, bytes.max(1));
        match entry {
            DmaEntryPoint::RootComplex => {
                let out = self.io_out.take_many(sent.first, bytes.max(1), self.llc.now);
                self.clock.edge(out.last.max(sent.last) + self.io_latency)
            }
            _ => self.clock.edge(sent.last),
        }
    }

    /// Drops a line whose contents will not be used again from all caches, without a write-back. This takes
    /// no time, as nothing waits for it, and no port: it shares the read's look-up.
    fn drop_consumed(&mut self, line: u32) {
        let private = self.probe(None, line, Probe::Invalidate);
        let slot = self.llc.tags.find(line);
        let shared = slot.map(|slot| self.drop_from_llc(slot));
        let is_dirty = private.dirty || shared.is_some_and(Flags::is_dirty);
        let is_unused = private.fresh || shared.is_some_and(Flags::is_fresh);
        self.devices.fresh_dropped += u64::from(is_unused);
        self.devices.dropped += u64::from(private.present || shared.is_some());
        self.devices.dropped_dirty += u64::from(is_dirty);
    }

    /// A read after its LLC look-up; returns when the newest copy is there.
    fn read_through_llc<const TIMED: bool>(
        &mut self,
        line: u32,
        slot: Option<Slot>,
        private: &ProbeResult,
        lookup_done: UncoreCycle,
        class: DataClass,
        access: &DmaAccess,
    ) -> UncoreCycle {
        let mut used = private.fresh;
        let mut data = lookup_done;
        if let Some(slot) = slot {
            if self.steering.policy(access.device).read_promotes {
                self.llc.tags.touch(slot);
            }
            let flags = self.llc.tags.flags(slot);
            used |= flags.is_fresh();
            self.llc.tags.set_flags(slot, flags.with_fresh(false));
            if TIMED && !private.dirty {
                let arrival = self.llc.arrival::<true>(slot, line, lookup_done, Level::Llc);
                data = arrival.at;
                self.devices.merges += u64::from(arrival.merged);
            }
        }
        self.devices.fresh_used_by_device += u64::from(used);
        if self.is_newer_in_private(private) || (private.present && slot.is_none()) {
            data =
                self.fetch_private_copy::<TIMED>(private, Moment { at: lookup_done, stop: self.home(line) });
        } else if slot.is_none() {
            data = self.read_for_device::<TIMED>(line, lookup_done, class, access);
        }
        data
    }

    /// Reads a line that no cache has from memory, for a device.
    fn read_for_device<const TIMED: bool>(
        &mut self,
        line: u32,
        lookup_done: UncoreCycle,
        class: DataClass,
        access: &DmaAccess,
    ) -> UncoreCycle {
        let MemoryRead { out, data, merged } = self.read_memory::<TIMED>(line, lookup_done);
        self.devices.merges += u64::from(merged);
        let mut free = data;
        if let Some(ways) = self.steering.read_ways(access) {
            let flags = Flags::EXCLUSIVE.with_class(class);
            self.llc.tags.missed(line);
            free = self.llc_insert::<TIMED>(line, flags, data, ways.0, data, false);
        }
        if TIMED && !merged {
            self.llc.hold(line, out, free);
        }
        data
    }

    fn write_line<const TIMED: bool>(
        &mut self,
        now: Ps,
        addr: PhysAddr,
        bytes: u32,
        access: DmaAccess,
    ) -> Ps {
        let Some(line) = self.ram.line(addr) else { return self.access_outside_ram(now) };
        let within = addr.0 % LINE_BYTES;
        let bytes = u64::from(bytes).min(LINE_BYTES - within);
        let full = bytes == LINE_BYTES;
        let class = DataClass::of(&access, self.header_bytes);
        let entry = self.entry(access.device);
        let lookup_done = self.llc_lookup::<TIMED>(now, bytes.max(1), line, access.device);
        let home = match entry {
            DmaEntryPoint::MemoryBus => self.memory_stop(line),
            _ => self.home(line),
        };
        self.traffic.device_in_bytes += bytes;
        let private = self.probe(None, line, Probe::Invalidate);
        let slot = self.llc.tags.find(line);
        self.count_write(full, slot.is_some(), &private);
        let account = &mut self.accounts[usize::from(access.device) % DEVICES_MAX];
        account.lines_written += 1;
        account.lines_written_in_llc += u64::from(slot.is_some());
        self.sharing.record_device_write(line);
        self.traffic.snoops += u64::from(private.present);
        let seen = Moment { at: lookup_done, stop: home };
        let mut done = self.copies_invalidated::<TIMED>(&private, seen, Requester::Home).at;
        if !full {
            done = self.newest::<TIMED>(line, slot, &private, done, entry);
        }
        self.overwrite(slot, &private);
        self.reclass(slot, line, class, Access::Write);
        let part = Part::of(access.purpose, access.offset, self.header_bytes);
        let inbound = Inbound { access, part, full, in_llc: slot.is_some() };
        let placement = match entry {
            DmaEntryPoint::MemoryBus => Placement::Memory,
            DmaEntryPoint::LlcHeaders if part == Part::Payload => Placement::Memory,
            DmaEntryPoint::Llc | DmaEntryPoint::LlcHeaders
                if !self.steering.policy(access.device).enabled =>
            {
                Placement::Llc(WayMask(self.core_ways))
            }
            _ => self.steering.place(&inbound),
        };
        let goes_to_cache = matches!(placement, Placement::Llc(_) | Placement::L2(..));
        if slot.is_none() && !private.present && goes_to_cache {
            self.llc.tags.missed(line);
        }
        done = self.put::<TIMED>(line, slot, access, placement, Moment { at: done, stop: home });
        self.clock.edge(done)
    }

    fn count_write(&mut self, full: bool, hit: bool, private: &ProbeResult) {
        *match (full, hit) {
            (true, true) => &mut self.devices.itom_hits,
            (true, false) => &mut self.devices.itom_misses,
            (false, true) => &mut self.devices.rfo_hits,
            (false, false) => &mut self.devices.rfo_misses,
        } += 1;
        self.devices.private_invalidations += u64::from(private.present);
    }

    /// Counts a device-written line that is overwritten before its first use.
    fn overwrite(&mut self, slot: Option<Slot>, private: &ProbeResult) {
        let in_llc = slot.is_some_and(|slot| self.llc.tags.flags(slot).is_fresh());
        self.devices.fresh_overwritten += u64::from(in_llc || private.fresh);
        if let Some(slot) = slot {
            self.llc.tags.set_flags(slot, self.llc.tags.flags(slot).with_fresh(false));
        }
    }

    /// Returns when the newest copy of a partially written line is at hand.
    fn newest<const TIMED: bool>(
        &mut self,
        line: u32,
        slot: Option<Slot>,
        private: &ProbeResult,
        lookup_done: UncoreCycle,
        entry: DmaEntryPoint,
    ) -> UncoreCycle {
        if private.dirty || (private.present && slot.is_none()) {
            let ready = if TIMED { self.clock.edge_at_or_after(private.ready) } else { UncoreCycle::ZERO };
            return lookup_done.max(ready);
        }
        match slot {
            Some(slot) => self.llc.arrival::<TIMED>(slot, line, lookup_done, Level::Llc).at,
            None if entry == DmaEntryPoint::MemoryBus => self.read_from_bus::<TIMED>(line, lookup_done),
            None => {
                let MemoryRead { out, data, merged } = self.read_memory::<TIMED>(line, lookup_done);
                if merged {
                    self.devices.merges += 1;
                } else if TIMED {
                    self.llc.hold(line, out, data);
                }
                data
            }
        }
    }

    /// Puts a written line at its placement and returns when it is visible. The line is at its slice or on
    /// the memory bus, and no private cache has it any more.
    fn put<const TIMED: bool>(
        &mut self,
        line: u32,
        slot: Option<Slot>,
        access: DmaAccess,
        placement: Placement,
        Moment { at: t, stop }: Moment,
    ) -> UncoreCycle {
        let class = DataClass::of(&access, self.header_bytes);
        let written = Flags::MODIFIED.with_class(class).with_fresh(true);
        match (placement, slot) {
            (Placement::Memory, slot) => {
                slot.map(|slot| self.drop_from_llc(slot));
                self.write_memory::<TIMED>(line, t, stop)
            }
            (Placement::Update, None) => self.write_memory::<TIMED>(line, t, stop),
            (Placement::Update | Placement::Llc(_), Some(slot)) => {
                self.llc.tags.set_flags(slot, written);
                self.llc.tags.set_ready(slot, UncoreCycle::ZERO, 0);
                self.llc.tags.touch(slot);
                self.devices.updates += 1;
                self.placed(line, access);
                t
            }
            (Placement::Llc(ways), None) => {
                self.devices.allocations += 1;
                self.placed(line, access);
                self.llc_insert::<TIMED>(line, written, t, ways.0, UncoreCycle::ZERO, false)
            }
            (Placement::L2(hart, ways), slot) => {
                self.devices.private_placements += 1;
                self.placed(line, access);
                self.put_into_l2::<TIMED>(hart, line, slot, written, ways.0, t)
            }
        }
    }

    fn placed(&mut self, line: u32, access: DmaAccess) {
        self.devices.fresh_lines += 1;
        self.steering.observe(line, LineEvent::Placed(access));
    }

    fn write_memory<const TIMED: bool>(&mut self, line: u32, t: UncoreCycle, from: Stop) -> UncoreCycle {
        self.devices.to_memory += 1;
        self.traffic.memory_writes += 1;
        if !TIMED {
            return UncoreCycle::ZERO;
        }
        let controller = self.memory_stop(line);
        let there = self.carry(from, controller, t, LINE_BYTES).last;
        let accepted = self.memory.write(self.clock.edge(there), self.ram.addr(line));
        self.clock.edge_at_or_after(accepted)
    }

    /// Puts a written line into a hart's L2. An inclusive LLC also gets a copy; other kinds drop theirs.
    fn put_into_l2<const TIMED: bool>(
        &mut self,
        hart: usize,
        line: u32,
        slot: Option<Slot>,
        written: Flags,
        ways: u32,
        t: UncoreCycle,
    ) -> UncoreCycle {
        let mut free = t;
        match (self.inclusion, slot) {
            (Inclusion::Inclusive, Some(_)) => {}
            (Inclusion::Inclusive, None) => {
                let copy = Flags::EXCLUSIVE.with_class(written.class());
                free = self.llc_insert::<TIMED>(line, copy, t, ways, UncoreCycle::ZERO, false);
            }
            (_, Some(slot)) => {
                self.drop_from_llc(slot);
            }
            (_, None) => {}
        }
        free = free.max(self.track::<TIMED>(line, t));
        self.traffic.llc_to_core_bytes += 64;
        if !TIMED {
            self.fill_l2::<false>(hart, line, written, CoreCycle::ZERO, Level::L1);
            return UncoreCycle::ZERO;
        }
        let (home, core) = (self.home(line), self.core_stop(hart));
        let sent = self.carry(home, core, free, LINE_BYTES);
        let arrived = self.harts[hart].from.take_many(sent.first, 64, self.llc.now).last.max(sent.last);
        let there = arrived + self.latency;
        let room = self.to_core(hart, there);
        let room = self.fill_l2::<true>(hart, line, written, room, Level::Llc);
        // As elsewhere, a reader with an earlier time does not wait for the write.
        let slot = self.harts[hart].l2.tags.find(line).expect("the line was put in");
        self.harts[hart].l2.tags.set_ready(slot, CoreCycle::ZERO, 0);
        self.to_shared(hart, room)
    }
}
