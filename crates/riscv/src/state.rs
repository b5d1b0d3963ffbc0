//! A hart's saved state.
//!
//! The software TLB's data entries are part of it: a guest that changes a page table without SFENCE.VMA could
//! otherwise distinguish a restored run from an uninterrupted one. Decoded blocks are not: they follow from
//! the contents of RAM.

use doorbell_sim::Ram;
use doorbell_sim::snapshot::SnapshotError;
use serde::{Deserialize, Serialize};

use crate::event_counters::{EventCount, EventCounters};
use crate::hart::{Csrs, Hart, HartStats, MmioRequest, Privilege};
use crate::pmp::PmpEntry;
use crate::tlb::SavedTlb;

/// Version of [`HartState`].
pub const HART_STATE_VERSION: u32 = 3;

/// The complete saved state of a hart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HartState {
    x: [u64; 32],
    f: [u64; 32],
    pc: u64,
    fflags: u8,
    frm: u8,
    privilege: Privilege,
    slots: u64,
    instret: u64,
    csr: Csrs,
    events: EventCounters,
    pmp: [PmpEntry; 16],
    irq_inputs: u64,
    mtime_offset: u64,
    pending_mmio: Option<MmioRequest>,
    waiting: bool,
    tlb: SavedTlb,
    stats: HartStats,
}

impl HartState {
    /// Like [`Hart::update_events`], for a hart that is saved between two updates.
    pub fn update_events(&mut self, now: &[EventCount]) {
        self.events.add(now);
    }
}

impl Hart {
    /// Returns the state to save.
    pub fn save(&self, ram: &Ram) -> HartState {
        let mut registers = [0; 32];
        registers.copy_from_slice(&self.x[..32]);
        HartState {
            x: registers,
            f: self.f,
            pc: self.pc,
            fflags: self.fflags,
            frm: self.frm,
            privilege: self.privilege,
            slots: self.slots,
            instret: self.instret,
            csr: self.csr.clone(),
            events: self.events.clone(),
            pmp: self.pmp,
            irq_inputs: self.irq_inputs,
            mtime_offset: self.mtime_offset,
            pending_mmio: self.pending_mmio,
            waiting: self.waiting,
            tlb: self.tlb.save(ram),
            // Counters of the simulator's own caches depend on which blocks are decoded and are not saved.
            stats: HartStats {
                page_walks: 0,
                blocks_decoded: 0,
                code_pages_invalidated: 0,
                ..self.counters.clone()
            },
        }
    }

    /// Restores a saved state. RAM must be restored before.
    pub fn restore(&mut self, state: HartState, ram: &Ram) -> Result<(), SnapshotError> {
        let bad =
            |problem: &str| SnapshotError::Inconsistent { name: "hart".into(), problem: problem.into() };
        if state.x[0] != 0 || state.pc & 1 != 0 || state.frm > 7 || state.fflags > 31 {
            return Err(bad("a register has an invalid value"));
        }
        let tlb = state.tlb.rebuild(ram).ok_or_else(|| bad("a TLB entry points outside RAM"))?;
        self.x[..32].copy_from_slice(&state.x);
        self.f = state.f;
        self.pc = state.pc;
        (self.fflags, self.frm) = (state.fflags, state.frm);
        self.privilege = state.privilege;
        (self.slots, self.instret) = (state.slots, state.instret);
        self.csr = state.csr;
        self.events = state.events;
        self.pmp = state.pmp;
        self.irq_inputs = state.irq_inputs;
        self.mtime_offset = state.mtime_offset;
        self.pending_mmio = state.pending_mmio;
        self.waiting = state.waiting;
        self.counters = state.stats;
        self.paths.as_mut().expect("a hart's paths are absent only while it runs").reset();
        self.pmp_changed();
        self.context_changed();
        *self.tlb = tlb;
        self.memory = Some(ram.id());
        Ok(())
    }
}
