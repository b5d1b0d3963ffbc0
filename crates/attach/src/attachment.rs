//! A device's path to memory and the cores' path to its registers: a fixed-latency path while the machine
//! runs functionally, the kind's own model while it is timed. Both have the same parameters. When the machine
//! switches between them, accesses in flight are not overtaken.

use doorbell_pcie::link::{LinkStats, RegisterWrite};
use doorbell_pcie::path::PathStats;
use doorbell_pcie::{LinkConfig, Path, PathConfig, PcieLink, Sent};
use doorbell_sim::memory::{DmaAccess, HostMemory};
use doorbell_sim::ports::{DmaDirection, DmaPurpose};
use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::stats::{Counter, Stats};
use doorbell_sim::{PhysAddr, Ps};
use serde::{Deserialize, Serialize};

use crate::bus::Bus;
use crate::config::AttachConfig;

/// A device's attachment; see the module.
pub struct Attachment {
    path: Path,
    timed: bool,
    model: Model,
    /// Time at which all register accesses sent by the timed model have arrived; later ones on the functional
    /// path arrive no earlier.
    registers_at: Ps,
}

/// The timed model.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Model {
    Link(Box<PcieLink>),
    Bus(Box<Bus>),
}

/// Evaluates the same expression for a model of either kind.
macro_rules! with_model {
    ($model:expr, $bound:ident => $value:expr) => {
        match $model {
            Model::Link($bound) => $value,
            Model::Bus($bound) => $value,
        }
    };
}

/// Saved state of the timed model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AttachmentState(Model);

impl AttachmentState {
    /// Version of this layout.
    pub const VERSION: u32 = 5;
}

impl Attachment {
    /// An idle attachment with a validated configuration. `link` is the PCI Express link, behind `bridges`
    /// PCI bridges; other kinds ignore both.
    pub fn new(config: &AttachConfig, link: &LinkConfig, bridges: u32) -> Attachment {
        let (path, model) = match config.chain() {
            None => (
                PathConfig::of_link(link, bridges),
                Model::Link(Box::new(PcieLink::behind_bridges(link, bridges))),
            ),
            Some(chain) => (chain.path(), Model::Bus(Box::new(Bus::new(&chain)))),
        };
        Attachment { path: Path::new(path), timed: false, model, registers_at: Ps::ZERO }
    }

    /// Switches to the timed or the functional model at `now`.
    pub fn set_timed(&mut self, timed: bool, now: Ps) {
        if timed == self.timed {
            return;
        }
        self.timed = timed;
        if timed {
            // A register access sent by the functional model arrives at the device before any later one.
            let registers_at = self.registers_at.max(now + self.path.config().mmio_latency);
            let sent = Sent { registers_at, ..self.path.sent() };
            with_model!(&mut self.model, model => model.follow(sent));
        } else {
            let sent = with_model!(&self.model, model => model.sent());
            self.path.follow(sent);
            self.registers_at = sent.registers_at;
        }
    }

    /// Selects the model that was in use when a checkpoint was made.
    pub fn resume_timed(&mut self, timed: bool) {
        self.timed = timed;
    }

    /// Sets the machine's current time. Past bookings may be dropped, except those that cores may still need.
    pub fn advance_to(&mut self, present: Ps) {
        with_model!(&mut self.model, model => model.advance_to(present));
    }

    /// Times a read by the device; returns when the last byte is there.
    pub fn read(
        &mut self,
        now: Ps,
        addr: PhysAddr,
        len: u32,
        access: DmaAccess,
        memory: Option<&mut impl HostMemory>,
    ) -> Ps {
        match memory.filter(|_| self.timed) {
            Some(memory) => with_model!(&mut self.model, model => model.read(now, addr, len, access, memory)),
            None => self.path.read(now, len, access.purpose),
        }
    }

    /// Times a posted write by the device; returns when all of it is visible.
    pub fn write(
        &mut self,
        now: Ps,
        addr: PhysAddr,
        len: u32,
        access: DmaAccess,
        memory: Option<&mut impl HostMemory>,
    ) -> Ps {
        match memory.filter(|_| self.timed) {
            Some(memory) => {
                with_model!(&mut self.model, model => model.write(now, addr, len, access, memory))
            }
            None => self.path.write(now, len, access.purpose),
        }
    }

    /// A core's posted register write, which leaves the core at `now`.
    pub fn register_write(&mut self, now: Ps, bytes: u64) -> RegisterWrite {
        match &mut self.model {
            _ if !self.timed => {
                RegisterWrite { accepted: now, acknowledged: now, arrives: self.functional_arrival(now) }
            }
            Model::Link(link) => link.register_write(now, bytes),
            Model::Bus(bus) => bus.register_write(now, bytes),
        }
    }

    /// Returns when a core's register read of `bytes`, which leaves the core at `now`, is at the device.
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

    /// Returns when the response to a register read that is at the device at `now` is back at the core.
    pub fn register_answer(&mut self, now: Ps, bytes: u64) -> Ps {
        match &mut self.model {
            _ if !self.timed => self.path.mmio_answer(now),
            Model::Link(link) => link.register_answer(now, bytes),
            Model::Bus(bus) => bus.register_answer(now, bytes),
        }
    }

    /// One-way latency to configuration space; the root complex also responds for absent functions.
    pub fn config_latency(&self) -> Ps {
        self.path.config().mmio_latency
    }

    /// Counters of one kind of DMA. Only PCI Express has packets.
    pub fn stats(&self, purpose: DmaPurpose, direction: DmaDirection) -> PathStats {
        let functional = self.path.stats(purpose, direction);
        match &self.model {
            Model::Link(link) => functional.plus(link.kind_stats(purpose, direction)),
            Model::Bus(bus) => {
                let &PathStats { requests, payload_bytes, .. } = functional;
                let timed = bus.kind_stats(purpose, direction);
                timed.plus(&PathStats { requests, payload_bytes, ..PathStats::default() })
            }
        }
    }

    /// The same as a list, without packet counters if there are no packets.
    pub fn counters(&self, purpose: DmaPurpose, direction: DmaDirection) -> Vec<Counter> {
        let mut counters = self.stats(purpose, direction).counters();
        if self.bus().is_some() {
            counters.retain(|counter| ["requests", "payload_bytes"].contains(&counter.name));
        }
        counters
    }

    /// Counters of the PCI Express link up to `at`, from timed phases only; see [`PcieLink::stats_until`].
    /// `None` for other kinds.
    pub fn link_stats(&self, at: Ps) -> Option<LinkStats> {
        match &self.model {
            Model::Link(link) => Some(link.stats_until(at)),
            Model::Bus(_) => None,
        }
    }

    /// The chain of buses; `None` for PCI Express.
    pub fn bus(&self) -> Option<&Bus> {
        match &self.model {
            Model::Link(_) => None,
            Model::Bus(bus) => Some(bus),
        }
    }

    /// The functional model, which is part of every checkpoint.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The functional model, mutable for a restore.
    pub fn path_mut(&mut self) -> &mut Path {
        &mut self.path
    }

    /// Arrival time of the last register access sent by the timed model, if it is still in flight at `now`. A
    /// checkpoint of a functionally running machine includes it.
    pub fn registers_in_flight(&self, now: Ps) -> Option<Ps> {
        Some(self.registers_at).filter(|at| *at > now)
    }

    /// Restores that time.
    pub fn restore_registers(&mut self, at: Ps) -> Result<(), SnapshotError> {
        if at.0 > u64::MAX / 4 {
            let problem = "a time is out of range".to_owned();
            return Err(SnapshotError::Inconsistent { name: "registers".to_owned(), problem });
        }
        self.registers_at = at;
        Ok(())
    }

    /// Returns the timed model's state.
    pub fn save(&self) -> AttachmentState {
        AttachmentState(self.model.clone())
    }

    /// Restores the timed model's state. One of another kind, or an invalid one, is rejected and changes
    /// nothing.
    pub fn restore(&mut self, state: &AttachmentState) -> Result<(), SnapshotError> {
        match (&mut self.model, &state.0) {
            (Model::Link(link), Model::Link(state)) => link.restore((**state).clone()),
            (Model::Bus(bus), Model::Bus(state)) => bus.restore((**state).clone()),
            _ => {
                let problem = "the saved state is of a different kind of attachment".to_owned();
                Err(SnapshotError::Inconsistent { name: "attachment".to_owned(), problem })
            }
        }
    }
}

#[cfg(test)]
#[path = "attachment_tests.rs"]
mod tests;
