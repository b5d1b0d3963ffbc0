//! Parts common to both pipelines: front end, branch predictors, TLBs, registers, load and store queues,
//! commit and cycle accounting; and the external events that affect both alike.

use doorbell_sim::CoreCycle;
use doorbell_sim::memory::{CoreAccess, CoreMemory, Prefetched};
use doorbell_sim::op::{Op, REGISTERS};
use serde::{Deserialize, Serialize};

use crate::accounts::Accounts;
use crate::branch::BranchUnit;
use crate::config::{DeviceStores, PipelineConfig};
use crate::front::{Fetched, Front};
use crate::mmu::Mmu;
use crate::order::MemoryOrder;
use crate::ring::{Limiter, Ring};
use crate::saved::Cycles;
use crate::shared::Shared;
use crate::stats::{Cause, CoreStats, Counts};
use crate::stores::Stores;
use crate::units::{Units, UnitsState};

/// The common state of a pipeline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Common {
    pub front: Front,
    pub branch: BranchUnit,
    pub mmu: Mmu,
    /// The number of the cycle from which each register's value can be used; a `Wait` in the in-order core.
    pub registers: Cycles<REGISTERS>,
    pub loads: Ring,
    pub stores: Stores,
    pub order: MemoryOrder,
    pub commit: Limiter,
    pub address_cycles: u64,
    pub forward_cycles: u64,
    trap_cycles: u64,
    pub device_stores: DeviceStores,
    pub accounts: Accounts,
    pub counts: Counts,
    /// Stage widths shared by SMT threads; present in the active thread only.
    #[serde(skip)]
    pub shared: Option<Box<Shared>>,
}

impl Common {
    /// Creates the common state of a core that accepts `width` ops per cycle and commits at most
    /// `commit_width`.
    pub fn new(config: &PipelineConfig, width: u32, commit_width: u32) -> Common {
        Common {
            front: Front::new(config),
            branch: BranchUnit::new(&config.branch),
            mmu: Mmu::new(&config.tlb),
            registers: Cycles::default(),
            loads: Ring::new(config.lq),
            stores: Stores::new(config),
            order: MemoryOrder::default(),
            commit: Limiter::new(commit_width),
            address_cycles: u64::from(config.address_cycles),
            forward_cycles: u64::from(config.forward_cycles),
            trap_cycles: u64::from(config.trap_cycles),
            device_stores: config.device_stores,
            accounts: Accounts::new(width),
            counts: Counts::default(),
            shared: None,
        }
    }

    /// Turns it into the state of one SMT thread.
    pub fn of_thread(self, thread: usize) -> Common {
        let Common { mmu, accounts, .. } = self;
        Common { mmu: mmu.of_thread(thread as u16), accounts: accounts.of_thread(), ..self }
    }

    /// Fetches an op.
    #[inline(always)]
    pub fn fetch<const THREADS: bool, M: CoreMemory>(&mut self, op: &Op, memory: &mut M) -> Fetched {
        let Common { front, mmu, counts, shared, .. } = self;
        front.fetch::<THREADS, M>(op, memory, mmu, counts, shared.as_deref_mut())
    }

    /// The commit cycle of the last op.
    pub fn now(&self) -> CoreCycle {
        self.commit.last()
    }

    /// Stays idle until `cycle`, for this cause. Returns whether that is later than now.
    pub fn skip_to(&mut self, cycle: CoreCycle, cause: Cause) -> bool {
        let later = cycle > self.commit.last();
        if later {
            self.accounts.pass(cycle, cause);
            self.commit.skip_to(cycle);
            self.front.redirect(cycle, Cause::Fetch);
        }
        later
    }

    /// Flushes the fetched instructions.
    pub fn trap(&mut self) {
        self.counts.traps += 1;
        self.front.redirect(self.commit.last() + self.trap_cycles, Cause::Clear);
    }

    /// Sends a software prefetch, its address translated at `translated`, to the first-level cache.
    pub fn prefetch<M: CoreMemory>(&mut self, op: &Op, translated: CoreCycle, memory: &mut M) -> Prefetched {
        let prefetched = memory.prefetch(translated, CoreAccess::of_prefetch(op));
        self.counts.prefetches += 1;
        self.counts.prefetches_dropped += u64::from(prefetched.level.is_none());
        Prefetched { at: prefetched.at.max(translated + 1), ..prefetched }
    }

    pub fn flush_tlb(&mut self, virt: Option<u64>, space: Option<u16>) {
        self.mmu.flush(virt, space);
        self.front.drop_page();
    }

    pub fn set_space(&mut self, space: Option<u16>) {
        self.mmu.set_space(space);
        self.front.drop_page();
    }

    /// The predictors and TLBs, for functional warming.
    pub fn learners(&mut self) -> (&mut BranchUnit, &mut Mmu) {
        (&mut self.branch, &mut self.mmu)
    }

    pub fn stats(&self) -> CoreStats {
        CoreStats { counts: self.counts.clone(), books: self.accounts.books() }
    }

    /// Statistics as if the core stayed idle until `cycle`.
    pub fn stats_until(&self, cycle: CoreCycle) -> CoreStats {
        let mut accounts = self.accounts.clone();
        accounts.pass(cycle, Cause::Idle);
        CoreStats { counts: self.counts.clone(), books: accounts.books() }
    }

    /// Swaps the structures shared by SMT threads with the other thread.
    pub fn exchange(&mut self, other: &mut Common) {
        std::mem::swap(&mut self.shared, &mut other.shared);
        self.front.exchange(&mut other.front);
        self.branch.exchange(&mut other.branch);
        self.mmu.exchange(&mut other.mmu);
    }

    /// For each part by name: whether it is consistent and matches the configuration of `fresh`.
    fn part_checks(&self, fresh: &Common) -> [(&'static str, bool); 8] {
        let latencies = |common: &Common| (common.address_cycles, common.forward_cycles, common.trap_cycles);
        [
            ("front end", self.front.is_compatible(&fresh.front)),
            ("branch predictors", self.branch.is_compatible(&fresh.branch)),
            ("TLBs", self.mmu.is_compatible(&fresh.mmu)),
            ("load queue", self.loads.is_compatible(&fresh.loads)),
            ("store queue", self.stores.is_compatible(&fresh.stores)),
            ("widths", self.commit.is_compatible(&fresh.commit)),
            ("cycle accounting", self.accounts.is_compatible(&fresh.accounts)),
            ("latencies", latencies(self) == latencies(fresh)),
        ]
    }
}

/// The saved-as-is state of a pipeline.
pub(crate) trait State: Clone {
    /// Returns the common part.
    fn common(&self) -> &Common;
    /// For each other part by name: whether it is consistent and matches the configuration of `fresh`.
    fn part_checks(&self, fresh: &Self) -> Vec<(&'static str, bool)>;
}

/// Saved state of a pipeline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Saved<S> {
    units: UnitsState,
    pub state: S,
}

impl<S: State> Saved<S> {
    pub fn new(units: &Units, state: &S) -> Saved<S> {
        Saved { units: units.save(), state: state.clone() }
    }

    /// Restores the saved state into a new core if it matches the core's configuration.
    pub fn restore(self, units: &mut Units, state: &mut S) -> Result<(), String> {
        units.restore(self.units)?;
        let common = self.state.common().part_checks(state.common());
        match self.state.part_checks(state).into_iter().chain(common).find(|part| !part.1) {
            Some((name, _)) => {
                Err(format!("the saved state ({name}) belongs to another core configuration or is corrupt"))
            }
            None => {
                *state = self.state;
                Ok(())
            }
        }
    }
}
