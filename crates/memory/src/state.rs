//! Saving and restoring tags, bookings, predictors and counters, so that a restored run continues
//! identically.
use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::{CoreCycle, CoreDomain, Ps, UncoreCycle, UncoreDomain};
use serde::{Deserialize, Serialize};

use crate::backing::MainMemory;
use crate::cache::CacheState;
use crate::class::{ClassRuns, DataClass};
use crate::coherence::directory::{Directory, DirectoryState};
use crate::coherence::sharing::SharingState;
use crate::coherence::stats::SharingStats;
use crate::dca::SteeringState;
use crate::fabric::{Fabric, FabricState};
use crate::slots::SlotsState;
use crate::stats::{CoreStats, DeviceAccount, DeviceStats, TrafficStats};
use crate::system::{MemorySystem, Private};

/// Latest time accepted in a saved state: five hours, far beyond any run.
const LATEST: Ps = Ps(1 << 54);

/// State of one hart's private caches and links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PrivateState {
    l1i: CacheState<CoreDomain>,
    l1d: CacheState<CoreDomain>,
    l2: CacheState<CoreDomain>,
    next: [CoreCycle; 2],
    to: SlotsState<UncoreDomain>,
    from: SlotsState<UncoreDomain>,
    stats: CoreStats,
    sharing: SharingStats,
}

/// Saved state of a memory system. `S` is that of main memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryState<S> {
    harts: Vec<PrivateState>,
    sharing: SharingState,
    directory: Option<DirectoryState>,
    fabric: Option<FabricState>,
    llc: CacheState<UncoreDomain>,
    latest: UncoreCycle,
    io_in: SlotsState<UncoreDomain>,
    io_out: SlotsState<UncoreDomain>,
    classes: ClassRuns,
    steering: SteeringState,
    devices: DeviceStats,
    accounts: Vec<DeviceAccount>,
    traffic: TrafficStats,
    occupancy: [u64; DataClass::COUNT],
    memory: S,
}

impl<S> MemoryState<S> {
    /// Version of this layout, included in the version of the checkpoint format.
    pub const VERSION: u32 = 10;
}

impl Private {
    fn save(&self) -> PrivateState {
        PrivateState {
            l1i: self.l1i.save(),
            l1d: self.l1d.save(),
            l2: self.l2.save(),
            next: self.next,
            to: self.to.save(),
            from: self.from.save(),
            stats: self.stats.clone(),
            sharing: self.sharing.clone(),
        }
    }

    fn check_state(&self, state: &PrivateState, lines: u32, shared: UncoreCycle) -> Result<(), String> {
        let latest = self.clock.edge_at_or_before(LATEST);
        self.l1i.check(&state.l1i, lines, latest)?;
        self.l1d.check(&state.l1d, lines, latest)?;
        self.l2.check(&state.l2, lines, latest)?;
        if state.next.iter().any(|next| *next > latest && *next < CoreCycle::MAX) {
            return Err("the time of a hart's next request is out of range".to_owned());
        }
        self.to.check(&state.to, shared)?;
        self.from.check(&state.from, shared)
    }

    fn restore(&mut self, state: PrivateState) {
        self.l1i.restore(state.l1i);
        self.l1d.restore(state.l1d);
        self.l2.restore(state.l2);
        self.next = state.next;
        self.to.restore(state.to);
        self.from.restore(state.from);
        self.stats = state.stats;
        self.sharing = state.sharing;
    }
}

impl<M: MainMemory> MemorySystem<M> {
    /// Returns the state to save.
    pub fn save(&self) -> MemoryState<M::State> {
        MemoryState {
            harts: self.harts.iter().map(Private::save).collect(),
            sharing: self.sharing.save(),
            directory: self.directory.as_ref().map(Directory::save),
            fabric: self.fabric.as_deref().map(Fabric::save),
            llc: self.llc.save(),
            latest: self.latest,
            io_in: self.io_in.save(),
            io_out: self.io_out.save(),
            classes: self.classes.save(),
            steering: self.steering.save(),
            devices: self.devices.clone(),
            accounts: self.accounts.clone(),
            traffic: self.traffic.clone(),
            occupancy: self.occupancy,
            memory: self.memory.save(),
        }
    }

    /// Restores the state of a memory system with the same configuration. An impossible state is rejected and
    /// leaves this system unchanged.
    pub fn restore(&mut self, state: MemoryState<M::State>) -> Result<(), SnapshotError> {
        let fail = |problem| SnapshotError::Inconsistent { name: "memory".to_owned(), problem };
        self.check_state(&state).map_err(fail)?;
        let before = self.save();
        self.memory.restore(state.memory.clone())?;
        self.adopt(state);
        self.check_invariants().map_err(|problem| {
            self.memory.restore(before.memory.clone()).expect("a state that was just saved can be restored");
            self.adopt(before);
            fail(problem)
        })
    }

    /// Checks each part of a saved state separately.
    fn check_state(&self, state: &MemoryState<M::State>) -> Result<(), String> {
        if state.harts.len() != self.harts.len() {
            return Err(format!(
                "the saved state has caches of {} harts, the machine has {}",
                state.harts.len(),
                self.harts.len()
            ));
        }
        let latest = self.clock.edge_at_or_before(LATEST);
        for (hart, saved) in self.harts.iter().zip(&state.harts) {
            hart.check_state(saved, self.ram.lines, latest)?;
        }
        self.sharing.check(&state.sharing, self.ram.lines)?;
        match (&self.directory, &state.directory) {
            (None, None) => {}
            (Some(directory), Some(saved)) => directory.check(saved, self.ram.lines)?,
            _ => return Err("the saved state and the machine differ in having a directory".to_owned()),
        }
        match (&self.fabric, &state.fabric) {
            (None, None) => {}
            (Some(fabric), Some(saved)) => fabric.check(saved, latest)?,
            _ => return Err("the saved state and the machine differ in having a ring or mesh".to_owned()),
        }
        self.llc.check(&state.llc, self.ram.lines, latest)?;
        if state.latest > latest {
            return Err("the current time is out of range".to_owned());
        }
        self.io_in.check(&state.io_in, latest)?;
        self.io_out.check(&state.io_out, latest)?;
        self.classes.check(&state.classes)?;
        if state.accounts.len() != self.accounts.len() {
            return Err(format!(
                "the saved state has accounts of {} devices, the machine has {}",
                state.accounts.len(),
                self.accounts.len()
            ));
        }
        self.steering.check(&state.steering, self.llc_ways, self.harts.len())
    }

    /// Installs a checked state, except main memory's part.
    fn adopt(&mut self, state: MemoryState<M::State>) {
        for (hart, saved) in self.harts.iter_mut().zip(state.harts) {
            hart.restore(saved);
        }
        if let Some(sharers) = &mut self.sharers {
            sharers.rebuild(&self.harts);
        }
        self.sharing.restore(state.sharing);
        if let (Some(directory), Some(saved)) = (&mut self.directory, state.directory) {
            directory.restore(saved);
        }
        if let (Some(fabric), Some(saved)) = (&mut self.fabric, state.fabric) {
            fabric.restore(saved);
        }
        self.llc.restore(state.llc);
        self.latest = state.latest;
        self.io_in.restore(state.io_in);
        self.io_out.restore(state.io_out);
        self.classes.restore(&state.classes);
        self.steering.restore(state.steering);
        self.devices = state.devices;
        self.accounts = state.accounts;
        self.traffic = state.traffic;
        self.occupancy = state.occupancy;
    }
}
