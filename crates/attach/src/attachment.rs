//! A device's way to memory and the cores' way to its registers: the fixed-latency path while the machine runs functionally, the
//! kind's own model while it is timed. Both have the same parameters; where the machine changes from one to the other, nothing
//! overtakes what is under way.

use doorbell_pcie::link::{LinkState, LinkStats, RegisterWrite};
use doorbell_pcie::path::PathStats;
use doorbell_pcie::{LinkConfig, Path, PathConfig, PcieLink, Sent};
use doorbell_sim::memory::{DmaAccess, HostMemory};
use doorbell_sim::ports::DmaKind;
use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::stats::{Counter, Stats};
use doorbell_sim::{PhysAddr, Ps};
use serde::{Deserialize, Serialize};

use crate::bus::{Bus, BusState};
use crate::config::AttachConfig;

/// See the module.
pub struct Attachment {
    path: Path,
    timed: bool,
    model: Model,
    /// Register accesses that the timed model has sent are at the device: later ones of the path do not overtake them.
    registers_at: Ps,
}

/// The timed model.
enum Model {
    Link(Box<PcieLink>),
    Bus(Box<Bus>),
}

/// What a snapshot keeps of the timed model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentState(ModelState);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum ModelState {
    Link(Box<LinkState>),
    Bus(Box<BusState>),
}

impl AttachmentState {
    /// The version of this layout.
    pub const VERSION: u32 = 4;
}

impl Attachment {
    /// An idle one, of a configuration that was validated. `link` describes it if it is by PCI Express, behind so many PCI bridges.
    pub fn new(config: &AttachConfig, link: &LinkConfig, bridges: u32) -> Attachment {
        let (path, model) = match config.chain() {
            None => {
                (PathConfig::of_link(link, bridges), Model::Link(Box::new(PcieLink::behind(link, bridges))))
            }
            Some(chain) => (chain.path(), Model::Bus(Box::new(Bus::new(&chain)))),
        };
        Attachment { path: Path::new(path), timed: false, model, registers_at: Ps::ZERO }
    }

    /// Takes the one model or the other from `now` on.
    pub fn set_timed(&mut self, timed: bool, now: Ps) {
        if timed == self.timed {
            return;
        }
        self.timed = timed;
        if timed {
            // A register access that the functional model has sent is at the device before any later one.
            let registers_at = self.registers_at.max(now + self.path.config().mmio_latency);
            let sent = Sent { registers_at, ..self.path.sent() };
            match &mut self.model {
                Model::Link(link) => link.follow(sent),
                Model::Bus(bus) => bus.follow(sent),
            }
        } else {
            let sent = match &self.model {
                Model::Link(link) => link.sent(),
                Model::Bus(bus) => bus.sent(),
            };
            self.path.follow(sent);
            self.registers_at = sent.registers_at;
        }
    }

    /// Goes on with the model that a checkpoint was made with.
    pub fn resume_timed(&mut self, timed: bool) {
        self.timed = timed;
    }

    /// The machine has come to this moment: what is over may be forgotten, but for what cores still ask for.
    pub fn come_to(&mut self, present: Ps) {
        match &mut self.model {
            Model::Link(link) => link.come_to(present),
            Model::Bus(bus) => bus.come_to(present),
        }
    }

    /// Prices a read by the device: when the last byte is there.
    pub fn read(
        &mut self,
        now: Ps,
        addr: PhysAddr,
        len: u32,
        access: DmaAccess,
        memory: Option<&mut impl HostMemory>,
    ) -> Ps {
        match (memory, &mut self.model) {
            (Some(memory), Model::Link(link)) if self.timed => link.read(now, addr, len, access, memory),
            (Some(memory), Model::Bus(bus)) if self.timed => bus.read(now, addr, len, access, memory),
            _ => self.path.read(now, len, access.kind),
        }
    }

    /// Prices a posted write by the device: when all of it is visible.
    pub fn write(
        &mut self,
        now: Ps,
        addr: PhysAddr,
        len: u32,
        access: DmaAccess,
        memory: Option<&mut impl HostMemory>,
    ) -> Ps {
        match (memory, &mut self.model) {
            (Some(memory), Model::Link(link)) if self.timed => link.write(now, addr, len, access, memory),
            (Some(memory), Model::Bus(bus)) if self.timed => bus.write(now, addr, len, access, memory),
            _ => self.path.write(now, len, access.kind),
        }
    }

    /// A core's posted write of a register that leaves the core at `now`.
    pub fn register_write(&mut self, now: Ps, bytes: u64) -> RegisterWrite {
        match &mut self.model {
            _ if !self.timed => {
                RegisterWrite { accepted: now, acknowledged: now, arrives: self.functional_arrival(now) }
            }
            Model::Link(link) => link.register_write(now, bytes),
            Model::Bus(bus) => bus.register_write(now, bytes),
        }
    }

    /// When a core's read of `bytes` of a register that leaves the core at `now` is at the device.
    pub fn register_read(&mut self, now: Ps, bytes: u64) -> Ps {
        match &mut self.model {
            _ if !self.timed => self.functional_arrival(now),
            Model::Link(link) => link.register_read(now),
            Model::Bus(bus) => bus.register_read(now, bytes),
        }
    }

    fn functional_arrival(&self, now: Ps) -> Ps {
        self.path.mmio_arrival(now).max(self.registers_at)
    }

    /// When the answer to a register read that is at the device now is back at the core.
    pub fn register_answer(&mut self, now: Ps, bytes: u64) -> Ps {
        match &mut self.model {
            _ if !self.timed => self.path.mmio_answer(now),
            Model::Link(link) => link.register_answer(now, bytes),
            Model::Bus(bus) => bus.register_answer(now, bytes),
        }
    }

    /// One way to configuration space, which the root complex answers for functions that are not there too.
    pub fn config_latency(&self) -> Ps {
        self.path.config().mmio_latency
    }

    /// What has been moved for one kind of DMA. Only PCI Express has packets.
    pub fn stats(&self, kind: DmaKind) -> PathStats {
        let functional = self.path.stats(kind);
        match &self.model {
            Model::Link(link) => functional.plus(link.kind_stats(kind)),
            Model::Bus(bus) => {
                let &PathStats { requests, payload_bytes, .. } = functional;
                bus.kind_stats(kind).plus(&PathStats { requests, payload_bytes, ..PathStats::default() })
            }
        }
    }

    /// The same as counters, those of packets where there are any.
    pub fn counters(&self, kind: DmaKind) -> Vec<Counter> {
        let mut counters = self.stats(kind).counters();
        if self.bus().is_some() {
            counters.retain(|counter| ["requests", "payload_bytes"].contains(&counter.name));
        }
        counters
    }

    /// What the link has done until a moment while it was timed, if it is one of PCI Express; see [`PcieLink::stats_until`].
    pub fn link_stats(&self, at: Ps) -> Option<LinkStats> {
        match &self.model {
            Model::Link(link) => Some(link.stats_until(at)),
            Model::Bus(_) => None,
        }
    }

    /// The chain of buses, if it is one.
    pub fn bus(&self) -> Option<&Bus> {
        match &self.model {
            Model::Link(_) => None,
            Model::Bus(bus) => Some(bus),
        }
    }

    /// The functional model, which every checkpoint keeps.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The functional model, to restore it.
    pub fn path_mut(&mut self) -> &mut Path {
        &mut self.path
    }

    /// Until when register accesses are under way that the timed model has sent, if any are `now`. A checkpoint of a
    /// machine that runs functionally keeps it.
    pub fn registers_under_way(&self, now: Ps) -> Option<Ps> {
        Some(self.registers_at).filter(|at| *at > now)
    }

    /// Takes that over.
    pub fn restore_registers(&mut self, at: Ps) -> Result<(), SnapshotError> {
        if at.0 > u64::MAX / 4 {
            let problem = "a time is impossibly late".to_owned();
            return Err(SnapshotError::Inconsistent { name: "registers".to_owned(), problem });
        }
        self.registers_at = at;
        Ok(())
    }

    /// The timed model's state.
    pub fn save(&self) -> AttachmentState {
        AttachmentState(match &self.model {
            Model::Link(link) => ModelState::Link(Box::new(link.save())),
            Model::Bus(bus) => ModelState::Bus(Box::new(bus.save())),
        })
    }

    /// Takes the timed model's state over, if it is of the same kind and possible; otherwise nothing changes.
    pub fn restore(&mut self, state: &AttachmentState) -> Result<(), SnapshotError> {
        match (&mut self.model, &state.0) {
            (Model::Link(link), ModelState::Link(state)) => link.restore(state),
            (Model::Bus(bus), ModelState::Bus(state)) => bus.restore(state),
            _ => {
                let problem = "it is of another kind of attachment".to_owned();
                Err(SnapshotError::Inconsistent { name: "attachment".to_owned(), problem })
            }
        }
    }
}

#[cfg(test)]
#[path = "attachment_tests.rs"]
mod tests;
