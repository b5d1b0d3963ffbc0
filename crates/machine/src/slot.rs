//! A NIC's way to memory and the cores' way to its registers: the fixed-latency path while the machine runs functionally,
//! the link's transactions while it is timed. Both have the same parameters; where the machine changes from one to the
//! other, nothing overtakes what is under way.

use doorbell_pcie::link::LinkStats;
use doorbell_pcie::path::PathStats;
use doorbell_pcie::{Link, LinkConfig, Path, PathConfig};
use doorbell_sim::memory::{DmaAccess, HostMemory};
use doorbell_sim::ports::DmaKind;
use doorbell_sim::stats::Stats;
use doorbell_sim::{PhysAddr, Ps};

/// See the module.
pub struct PcieSlot {
    path: Path,
    link: Link,
    timed: bool,
}

impl PcieSlot {
    pub(crate) fn new(config: &LinkConfig) -> PcieSlot {
        PcieSlot { path: Path::new(PathConfig::from(config)), link: Link::new(config), timed: false }
    }

    /// Takes the one model or the other from `now` on.
    pub(crate) fn set_timed(&mut self, timed: bool, now: Ps) {
        if timed == self.timed {
            return;
        }
        self.timed = timed;
        match timed {
            // A register access that the functional model has sent is at the device before any later one.
            true => {
                let registers_at = now + self.path.config().mmio_latency;
                self.link.follow(doorbell_pcie::Sent { registers_at, ..self.path.sent() });
            }
            false => self.path.follow(self.link.sent()),
        }
    }

    /// Goes on with the model that a checkpoint was made with.
    pub(crate) fn resume_timed(&mut self, timed: bool) {
        self.timed = timed;
    }

    /// Prices a read by the device: when the last byte is there.
    pub(crate) fn read(
        &mut self,
        now: Ps,
        addr: PhysAddr,
        len: u32,
        access: DmaAccess,
        memory: Option<&mut impl HostMemory>,
    ) -> Ps {
        match memory {
            Some(memory) if self.timed => self.link.read(now, addr, len, access, memory),
            _ => self.path.read(now, len, access.kind),
        }
    }

    /// Prices a posted write by the device: when all of it is visible.
    pub(crate) fn write(
        &mut self,
        now: Ps,
        addr: PhysAddr,
        len: u32,
        access: DmaAccess,
        memory: Option<&mut impl HostMemory>,
    ) -> Ps {
        match memory {
            Some(memory) if self.timed => self.link.write(now, addr, len, access, memory),
            _ => self.path.write(now, len, access.kind),
        }
    }

    /// A core's posted write of a register that leaves the core at `now`: when the core is rid of it, and when it arrives.
    pub(crate) fn register_write(&mut self, now: Ps, bytes: u64) -> (Ps, Ps) {
        if !self.timed {
            return (now, self.path.mmio_arrival(now));
        }
        let write = self.link.register_write(now, bytes);
        (write.accepted, write.arrives)
    }

    /// When a core's read of a register that leaves the core at `now` is at the device.
    pub(crate) fn register_read(&mut self, now: Ps) -> Ps {
        if self.timed { self.link.register_read(now) } else { self.path.mmio_arrival(now) }
    }

    /// When the answer to a register read that is at the device now is back at the core.
    pub(crate) fn register_answer(&mut self, now: Ps, bytes: u64) -> Ps {
        if self.timed { self.link.register_answer(now, bytes) } else { self.path.mmio_answer(now) }
    }

    /// One way to configuration space, which the root complex answers for functions that are not there too.
    pub(crate) fn config_latency(&self) -> Ps {
        self.path.config().mmio_latency
    }

    /// What has been moved for one kind of DMA.
    pub fn stats(&self, kind: DmaKind) -> PathStats {
        self.path.stats(kind).plus(self.link.kind_stats(kind))
    }

    /// What the link has done while it was timed.
    pub fn link_stats(&self) -> LinkStats {
        self.link.stats()
    }

    /// The functional model, which every checkpoint keeps.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn path_mut(&mut self) -> &mut Path {
        &mut self.path
    }

    /// The timed model.
    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    pub(crate) fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }
}
