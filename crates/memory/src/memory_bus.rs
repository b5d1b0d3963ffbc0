//! A device on the memory bus: its requests bypass the caches, which snoop them. Its writes go to memory and
//! invalidate cached copies. Its reads come from memory unless a cache has the line modified. They take no
//! cache line and no miss register.
//!
//! This is the on-die NIC "OCM" of Binkert et al., "Analyzing NIC Overheads in Network-Intensive Workloads"
//! (2005). Not modelled: contention on this bus between the device and the caches' misses; they contend at
//! the memory controllers.

use doorbell_sim::UncoreCycle;
use doorbell_sim::memory::Level;

use crate::backing::MainMemory;
use crate::coherence::ProbeResult;
use crate::fabric::Moment;
use crate::system::MemorySystem;
use crate::tags::Slot;

impl<M: MainMemory> MemorySystem<M> {
    /// A read on the memory bus: a cache that has the line modified supplies it, otherwise memory does.
    pub(crate) fn read_past_caches<const TIMED: bool>(
        &mut self,
        line: u32,
        slot: Option<Slot>,
        private: &ProbeResult,
        seen: UncoreCycle,
    ) -> UncoreCycle {
        let modified = slot.filter(|slot| self.llc.tags.flags(*slot).is_dirty());
        let mut used = private.fresh;
        if let Some(slot) = modified {
            let flags = self.llc.tags.flags(slot);
            used |= flags.is_fresh();
            self.llc.tags.set_flags(slot, flags.with_fresh(false));
        }
        self.devices.fresh_used_by_device += u64::from(used);
        match modified {
            _ if self.is_newer_in_private(private) => {
                let seen = Moment { at: seen, stop: self.home(line) };
                self.fetch_private_copy::<TIMED>(private, seen)
            }
            Some(slot) if TIMED => {
                let lookup_done = self.llc_port(line, seen) + self.llc.latency;
                self.llc.arrival::<true>(slot, line, lookup_done, Level::Llc).at
            }
            Some(_) => UncoreCycle::ZERO,
            None => self.read_from_bus::<TIMED>(line, seen),
        }
    }

    /// A memory read from the memory bus, without an LLC miss register.
    pub(crate) fn read_from_bus<const TIMED: bool>(&mut self, line: u32, t: UncoreCycle) -> UncoreCycle {
        self.traffic.memory_reads += 1;
        if !TIMED {
            return UncoreCycle::ZERO;
        }
        let back = self.memory.read(self.clock.edge(t), self.ram.addr(line));
        self.clock.edge_at_or_after(back)
    }
}
