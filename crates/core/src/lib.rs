//! Core timing models: the cycle cost of each executed op on an in-order or an out-of-order core.
//!
//! A [`Core`] receives [ops](doorbell_sim::op) in program order, from any source, and computes the cycle in
//! which each commits. It never changes what the ops do. Its surroundings are a [`CoreMemory`]: caches that
//! return access times, and page tables. All times are core cycles; the owner of the core converts them to
//! time.
//!
//! | Subject | Module |
//! |---|---|
//! | the two pipelines, and their common parts | `out_of_order`, `in_order`, `common` |
//! | fetch, decode, rename | `front` |
//! | branch prediction | `branch` |
//! | functional units, ports | `units` |
//! | resources released in program order, and in any order | `ring`, `wheel` |
//! | SMT: two threads, shared structures, slot accounting | `threads`, `shared`, `settle` |
//! | store queue, memory dependences | `stores`, `dependence` |
//! | TLBs, page walks | `tlb`, `mmu` |
//! | top-down slots, CPI stack | `accounts`, `stats` |

#![forbid(unsafe_code)]

mod accounts;
mod bookings;
mod branch;
mod common;
mod config;
mod decoded;
mod dependence;
mod front;
mod in_order;
mod long_units;
mod mmu;
mod modulo;
mod observe;
mod occupancy;
mod order;
mod out_of_order;
mod ring;
mod saved;
mod settle;
mod shared;
mod stats;
mod stores;
mod threads;
mod tlb;
mod units;
mod validate;
mod wheel;

use doorbell_sim::memory::{CoreMemory, Walk};
use doorbell_sim::{CoreCycle, Op, OpClass};
use serde::{Deserialize, Serialize};

pub use branch::Prediction;
pub use config::{
    BranchConfig, CoreKind, DecodedConfig, DeviceStores, DirectionPredictor, MemoryDependence,
    PipelineConfig, StoreDrain, TlbConfig, UnitsConfig,
};
pub use observe::{Observer, Stages};
pub use saved::with_cycles_up_to;
pub use stats::{Books, Cause, CoreStats, Counts, TopDown};

use branch::BranchUnit;
use in_order::{InOrder, InOrderState};
use mmu::{Mmu, Side};
use out_of_order::{OutOfOrder, OutOfOrderState};
use shared::SharedState;

/// Functional warming: trains a core's predictors and TLBs without advancing time. `walk` returns the
/// page-table entries that a walk for an address reads.
pub struct Learning<'a> {
    branch: &'a mut BranchUnit,
    mmu: &'a mut Mmu,
}

impl Learning<'_> {
    /// Warms the instruction TLB for a fetch from this page.
    #[inline]
    pub fn fetch(&mut self, virt: u64, walk: impl FnOnce(u64) -> Walk) {
        self.mmu.warm(Side::Instruction, virt, walk);
    }

    /// Warms the data TLB for an access to this page.
    #[inline]
    pub fn data(&mut self, virt: u64, walk: impl FnOnce(u64) -> Walk) {
        self.mmu.warm(Side::Data, virt, walk);
    }

    /// Trains the branch predictors with an executed branch.
    #[inline]
    pub fn branch(&mut self, op: &Op) {
        self.branch.predict(op);
    }
}

/// A core: pipeline, predictors and TLBs. See the crate documentation.
#[derive(Clone, Debug)]
pub struct Core {
    config: PipelineConfig,
    engine: Engine,
    device: Option<DeviceAccess>,
    /// Thread number; none on a core without SMT.
    thread: Option<usize>,
}

#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "one per core, always in use")]
enum Engine {
    OutOfOrder(OutOfOrder),
    InOrder(InOrder),
}

/// A device access that was started and has not completed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum DeviceAccess {
    OutOfOrder(out_of_order::DeviceAccess),
    InOrder(in_order::DeviceAccess),
}

/// Saved state of a core: everything that affects its timing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CoreState {
    engine: Saved,
    device: Option<DeviceAccess>,
    /// Structures shared by SMT threads; present in the active thread only.
    shared: Option<Box<SharedState>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Saved {
    OutOfOrder(Box<OutOfOrderState>),
    InOrder(Box<InOrderState>),
}

/// Runs the same expression on either pipeline.
macro_rules! on_engine {
    ($core:expr, $engine:ident => $do:expr) => {
        match &mut $core.engine {
            Engine::OutOfOrder($engine) => $do,
            Engine::InOrder($engine) => $do,
        }
    };
    (ref $core:expr, $engine:ident => $do:expr) => {
        match &$core.engine {
            Engine::OutOfOrder($engine) => $do,
            Engine::InOrder($engine) => $do,
        }
    };
}

impl Core {
    /// Creates a core in cycle 0 with untrained predictors and empty TLBs. The configuration must be
    /// [valid](PipelineConfig::validate).
    pub fn new(config: &PipelineConfig) -> Core {
        if let Err(problem) = config.validate() {
            panic!("core configuration is invalid: {problem}");
        }
        let engine = match config.kind {
            CoreKind::OutOfOrder => Engine::OutOfOrder(OutOfOrder::new(config)),
            CoreKind::InOrder => Engine::InOrder(InOrder::new(config)),
        };
        Core { config: config.clone(), engine, device: None, thread: None }
    }

    /// Times executed ops, in program order. Device accesses among them complete at once; use
    /// [`begin_device`](Core::begin_device) for real device latency.
    pub fn execute<M: CoreMemory>(&mut self, ops: &[Op], memory: &mut M) {
        self.execute_observed(ops, memory, &mut ());
    }

    /// Like [`execute`](Core::execute), with an observer.
    pub fn execute_observed<M: CoreMemory, O: Observer>(
        &mut self,
        ops: &[Op],
        memory: &mut M,
        observer: &mut O,
    ) {
        assert!(self.device.is_none(), "a device access is still pending");
        macro_rules! each {
            ($core:ident, $step:expr) => {
                for op in ops {
                    if op.class == OpClass::Device {
                        let access = $core.begin_device(op, memory);
                        $core.end_device(op, access, [CoreCycle::ZERO; 2], observer);
                    } else {
                        $step($core, op, memory, observer);
                    }
                }
            };
        }
        match &mut self.engine {
            Engine::OutOfOrder(core) if core.has_turn() => each!(core, OutOfOrder::step::<true, M, O>),
            Engine::OutOfOrder(core) => each!(core, OutOfOrder::step::<false, M, O>),
            Engine::InOrder(core) => each!(core, InOrder::step),
        }
    }

    /// The commit cycle of the last op.
    #[inline]
    pub fn now(&self) -> CoreCycle {
        on_engine!(ref self, core => core.common().now())
    }

    /// The earliest fetch cycle of the next op or its fetch group. Memory gets no request from before this
    /// cycle.
    #[inline]
    pub fn next_fetch(&self) -> CoreCycle {
        on_engine!(ref self, core => core.common().front.next())
    }

    /// Stays idle until `cycle` (WFI); then fetch restarts with an empty pipeline.
    pub fn skip_to(&mut self, cycle: CoreCycle) {
        self.skip(cycle, Cause::Idle);
    }

    /// Skips untimed execution until `cycle`: these cycles enter no statistic.
    pub fn skip_untimed_to(&mut self, cycle: CoreCycle) {
        self.skip(cycle, Cause::Untimed);
    }

    fn skip(&mut self, cycle: CoreCycle, cause: Cause) {
        let cycle = cycle.max(self.slots_given_until());
        on_engine!(self, core => core.skip_to(cycle, cause));
    }

    /// Takes an interrupt or exception after the last op: younger instructions in the front end are flushed.
    pub fn trap(&mut self) {
        on_engine!(self, core => core.common_mut().trap());
    }

    /// Returns when a device access leaves the core. It does so at the head of the window, when it can no
    /// longer be squashed, and after older device accesses. It does not wait for older stores to memory:
    /// RISC-V orders I/O and memory only by `fence` with I/O sets.
    pub fn begin_device<M: CoreMemory>(&mut self, op: &Op, memory: &mut M) -> CoreCycle {
        assert!(self.device.is_none(), "only one device access at a time");
        let (access, sent) = match &mut self.engine {
            Engine::OutOfOrder(core) => {
                let access = core.begin_device(op, memory);
                (DeviceAccess::OutOfOrder(access), access.begun)
            }
            Engine::InOrder(core) => {
                let access = core.begin_device(op, memory);
                (DeviceAccess::InOrder(access), access.begun)
            }
        };
        self.device = Some(access);
        sent
    }

    /// Completes the pending device access. `done[0]` is the completion: load data arrived, or the root
    /// complex accepted the store. `done[1]` is when the acknowledgement of a store reaches the core; it
    /// matters for ordered device stores. Neither stores nor fences wait until the device itself has received
    /// the data.
    pub fn end_device(&mut self, op: &Op, done: [CoreCycle; 2]) {
        self.end_device_observed(op, done, &mut ());
    }

    /// Like [`end_device`](Core::end_device), with an observer.
    pub fn end_device_observed<O: Observer>(&mut self, op: &Op, done: [CoreCycle; 2], observer: &mut O) {
        match (&mut self.engine, self.device.take()) {
            (Engine::OutOfOrder(core), Some(DeviceAccess::OutOfOrder(access))) => {
                core.end_device(op, access, done, observer);
            }
            (Engine::InOrder(core), Some(DeviceAccess::InOrder(access))) => {
                core.end_device(op, access, done, observer)
            }
            _ => panic!("no device access is pending"),
        }
    }

    /// Drops translations of one address or all, in one address space or all (SFENCE.VMA).
    pub fn flush_tlb(&mut self, virt: Option<u64>, space: Option<u16>) {
        on_engine!(self, core => core.common_mut().flush_tlb(virt, space));
    }

    /// Sets the address space of subsequent accesses, after a write to `satp` (space = ASID) or a mode
    /// change; none for physical addresses. With a space set although addresses are physical, timing stays
    /// correct, but every access requests a walk.
    pub fn set_address_space(&mut self, space: Option<u16>) {
        on_engine!(self, core => core.common_mut().set_space(space));
    }

    /// Returns the predictors and TLBs for functional warming. The owner warms the caches.
    #[inline]
    pub fn learning(&mut self) -> Learning<'_> {
        let (branch, mmu) = on_engine!(self, core => core.common_mut().learners());
        Learning { branch, mmu }
    }

    /// Statistics since cycle 0.
    pub fn stats(&self) -> CoreStats {
        self.with_late(on_engine!(ref self, core => core.common().stats()))
    }

    /// Statistics as if the core stayed idle until `cycle` (WFI).
    pub fn stats_until(&self, cycle: CoreCycle) -> CoreStats {
        self.with_late(on_engine!(ref self, core => core.common().stats_until(cycle)))
    }

    /// Adds the late bookings counted in the units and shared stages.
    fn with_late(&self, mut stats: CoreStats) -> CoreStats {
        stats.counts.late_bookings += on_engine!(ref self, core => core.late());
        stats
    }

    /// The configuration.
    pub fn config(&self) -> &PipelineConfig {
        &self.config
    }

    /// Whether a device access is pending.
    pub fn has_device_access(&self) -> bool {
        self.device.is_some()
    }

    /// Returns the state to save.
    pub fn save(&self) -> CoreState {
        let engine = match &self.engine {
            Engine::OutOfOrder(core) => Saved::OutOfOrder(Box::new(core.save())),
            Engine::InOrder(core) => Saved::InOrder(Box::new(core.save())),
        };
        CoreState { engine, device: self.device, shared: self.save_shared() }
    }

    /// Restores saved state. It must come from the same configuration; incompatible or inconsistent state is
    /// rejected, and the core keeps its current state.
    pub fn restore(&mut self, state: CoreState) -> Result<(), String> {
        let matches = match state.device {
            Some(DeviceAccess::OutOfOrder(_)) => self.config.kind == CoreKind::OutOfOrder,
            Some(DeviceAccess::InOrder(_)) => self.config.kind == CoreKind::InOrder,
            None => true,
        };
        if !matches {
            return Err(
                "the saved device access belongs to another core kind; restore with the same `kind`".into()
            );
        }
        let shared = self.restored_shared(state.shared)?;
        self.engine = match (state.engine, self.config.kind) {
            (Saved::OutOfOrder(saved), CoreKind::OutOfOrder) => {
                Engine::OutOfOrder(OutOfOrder::restore(&self.config, self.thread, *saved)?)
            }
            (Saved::InOrder(saved), CoreKind::InOrder) => {
                Engine::InOrder(InOrder::restore(&self.config, *saved)?)
            }
            _ => {
                return Err(
                    "the saved state belongs to another core kind; restore with the same `kind`".into()
                );
            }
        };
        on_engine!(self, core => core.common_mut().shared = shared);
        self.device = state.device;
        Ok(())
    }
}
