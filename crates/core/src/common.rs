//! What both pipelines have: front end, branch predictors, TLBs, registers, queues of loads and stores, commit, books; and
//! what happens to a core from outside, which is the same in both.

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

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Common {
    pub front: Front,
    pub branch: BranchUnit,
    pub mmu: Mmu,
    /// From when on each register's value can be used, in the pipeline's own form.
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
    /// Of a core with threads: what they share of its stages, where it is this thread's turn.
    #[serde(skip)]
    pub shared: Option<Box<Shared>>,
}

impl Common {
    /// Of a core that takes in `width` ops a cycle and commits at most `commit_width`.
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

    /// That of one of a core's threads.
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
    pub fn now(&self) -> u64 {
        self.commit.last()
    }

    /// Nothing happens until `cycle`, for this reason. Says whether that is later than now.
    pub fn skip_to(&mut self, cycle: u64, cause: Cause) -> bool {
        let later = cycle > self.commit.last();
        if later {
            self.accounts.pass(cycle, cause);
            self.commit.skip_to(cycle);
            self.front.redirect(cycle, Cause::Fetch);
        }
        later
    }

    /// What has been fetched is thrown away.
    pub fn trap(&mut self) {
        self.counts.traps += 1;
        self.front.redirect(self.commit.last() + self.trap_cycles, Cause::Clear);
    }

    /// Sends a software prefetch, its address translated at `asked`, to the first-level cache.
    pub fn prefetch<M: CoreMemory>(&mut self, op: &Op, asked: u64, memory: &mut M) -> Prefetched {
        let prefetched = memory.prefetch(asked, CoreAccess::of_prefetch(op));
        self.counts.prefetches += 1;
        self.counts.prefetches_dropped += u64::from(prefetched.level.is_none());
        Prefetched { at: prefetched.at.max(asked + 1), ..prefetched }
    }

    pub fn flush_tlb(&mut self, virt: Option<u64>, space: Option<u16>) {
        self.mmu.flush(virt, space);
        self.front.forget_page();
    }

    pub fn set_space(&mut self, space: Option<u16>) {
        self.mmu.set_space(space);
        self.front.forget_page();
    }

    /// What learns without time passing.
    pub fn learners(&mut self) -> (&mut BranchUnit, &mut Mmu) {
        (&mut self.branch, &mut self.mmu)
    }

    pub fn stats(&self) -> CoreStats {
        CoreStats { counts: self.counts.clone(), books: self.accounts.books() }
    }

    /// The same, if nothing happens until `cycle`.
    pub fn stats_until(&self, cycle: u64) -> CoreStats {
        let mut accounts = self.accounts.clone();
        accounts.pass(cycle, Cause::Idle);
        CoreStats { counts: self.counts.clone(), books: accounts.books() }
    }

    /// What threads share goes to the other's side, and the other way.
    pub fn exchange(&mut self, other: &mut Common) {
        std::mem::swap(&mut self.shared, &mut other.shared);
        self.front.exchange(&mut other.front);
        self.branch.exchange(&mut other.branch);
        self.mmu.exchange(&mut other.mmu);
    }

    /// By name, whether each part belongs to a core like `fresh` and agrees with itself.
    fn parts(&self, fresh: &Common) -> [(&'static str, bool); 8] {
        let latencies = |common: &Common| (common.address_cycles, common.forward_cycles, common.trap_cycles);
        [
            ("front end", self.front.fits(&fresh.front)),
            ("branch predictors", self.branch.fits(&fresh.branch)),
            ("TLBs", self.mmu.fits(&fresh.mmu)),
            ("load queue", self.loads.fits(&fresh.loads)),
            ("store queue", self.stores.fits(&fresh.stores)),
            ("widths", self.commit.fits(&fresh.commit)),
            ("books", self.accounts.fits(&fresh.accounts)),
            ("latencies", latencies(self) == latencies(fresh)),
        ]
    }
}

/// The state of a pipeline.
pub(crate) trait State: Clone {
    /// Its common part.
    fn common(&self) -> &Common;
    /// By name, whether each of the other parts belongs to a core like `fresh` and agrees with itself.
    fn parts(&self, fresh: &Self) -> Vec<(&'static str, bool)>;
}

/// What is saved of a pipeline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Saved<S> {
    units: UnitsState,
    pub state: S,
}

impl<S: State> Saved<S> {
    pub fn new(units: &Units, state: &S) -> Saved<S> {
        Saved { units: units.save(), state: state.clone() }
    }

    /// Puts the saved state in place of a new core's, if it belongs to such a core.
    pub fn restore(self, units: &mut Units, state: &mut S) -> Result<(), String> {
        units.restore(self.units)?;
        let common = self.state.common().parts(state.common());
        match self.state.parts(state).into_iter().chain(common).find(|part| !part.1) {
            Some((name, _)) => Err(format!("the {name} are of another core or damaged")),
            None => {
                *state = self.state;
                Ok(())
            }
        }
    }
}
