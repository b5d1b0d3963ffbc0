//! Timing of cores: what each executed op costs, on an in-order or an out-of-order core.
//!
//! A [`Core`] is handed [ops](doorbell_sim::op) in program order, wherever they come from, and says in which cycle each
//! commits. It never changes what happened. What surrounds it is a [`CoreMemory`]: caches that price accesses, and page
//! tables. Cycles are the core's own; how long one is is the owner's business.
//!
//! | What | Where |
//! |---|---|
//! | the pipelines, and what both have | `out_of_order`, `in_order`, `common` |
//! | fetch, decode, rename | `front` |
//! | branch prediction | `branch` |
//! | functional units, ports | `units` |
//! | entries released in order, and in any | `ring`, `wheel` |
//! | two threads of a core, what they share | `threads`, `shared`, `settle` |
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
use doorbell_sim::op::{Op, OpClass};
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

/// A core's predictors and TLBs, while no time passes. `walk` says which page-table entries a walk for an address reads.
pub struct Learning<'a> {
    branch: &'a mut BranchUnit,
    mmu: &'a mut Mmu,
}

impl Learning<'_> {
    /// An instruction on this page is fetched.
    #[inline]
    pub fn fetch(&mut self, virt: u64, walk: impl FnOnce(u64) -> Walk) {
        self.mmu.warm(Side::Instruction, virt, walk);
    }

    /// Data on this page are accessed.
    #[inline]
    pub fn data(&mut self, virt: u64, walk: impl FnOnce(u64) -> Walk) {
        self.mmu.warm(Side::Data, virt, walk);
    }

    /// A branch has gone its way.
    #[inline]
    pub fn branch(&mut self, op: &Op) {
        self.branch.predict(op);
    }
}

/// A core. See the crate.
#[derive(Clone, Debug)]
pub struct Core {
    config: PipelineConfig,
    engine: Engine,
    device: Option<DeviceAccess>,
    /// Its number, if it is a thread of a core that has two.
    thread: Option<usize>,
}

#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one a core, and it is always in use")]
enum Engine {
    OutOfOrder(OutOfOrder),
    InOrder(InOrder),
}

/// A device access that has begun and not ended.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum DeviceAccess {
    OutOfOrder(out_of_order::DeviceAccess),
    InOrder(in_order::DeviceAccess),
}

/// A core's saved state: everything that its times depend on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CoreState {
    engine: Saved,
    device: Option<DeviceAccess>,
    /// What threads share, where it was this thread's turn.
    shared: Option<Box<SharedState>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Saved {
    OutOfOrder(Box<OutOfOrderState>),
    InOrder(Box<InOrderState>),
}

/// Does the same on either engine.
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
    /// A core in cycle 0 that knows nothing. The configuration must be [valid](PipelineConfig::validate).
    pub fn new(config: &PipelineConfig) -> Core {
        if let Err(problem) = config.validate() {
            panic!("a core was built from a configuration that is not valid: {problem}");
        }
        let engine = match config.kind {
            CoreKind::OutOfOrder => Engine::OutOfOrder(OutOfOrder::new(config)),
            CoreKind::InOrder => Engine::InOrder(InOrder::new(config)),
        };
        Core { config: config.clone(), engine, device: None, thread: None }
    }

    /// Prices ops that were executed, in program order. An access to a device among them is taken to be answered at once;
    /// use [`begin_device`](Core::begin_device) for one that is not.
    pub fn execute<M: CoreMemory>(&mut self, ops: &[Op], memory: &mut M) {
        self.execute_observed(ops, memory, &mut ());
    }

    /// The same, with an observer.
    pub fn execute_observed<M: CoreMemory, O: Observer>(
        &mut self,
        ops: &[Op],
        memory: &mut M,
        observer: &mut O,
    ) {
        assert!(self.device.is_none(), "an access to a device has begun and not ended");
        macro_rules! each {
            ($core:ident, $step:expr) => {
                for op in ops {
                    if op.class == OpClass::Device {
                        let access = $core.begin_device(op, memory);
                        $core.end_device(op, access, [0; 2], observer);
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
    pub fn now(&self) -> u64 {
        on_engine!(ref self, core => core.common().now())
    }

    /// When the next op, or its group, is fetched at the earliest. Memory is not asked for anything before.
    #[inline]
    pub fn next_fetch(&self) -> u64 {
        on_engine!(ref self, core => core.common().front.next())
    }

    /// Nothing happens until `cycle` (WFI): then fetch begins again with an empty pipeline.
    pub fn skip_to(&mut self, cycle: u64) {
        self.skip(cycle, Cause::Idle);
    }

    /// What happens until `cycle` is not timed: the cycles are in no figure.
    pub fn skip_untimed_to(&mut self, cycle: u64) {
        self.skip(cycle, Cause::Untimed);
    }

    fn skip(&mut self, cycle: u64, cause: Cause) {
        let cycle = cycle.max(self.rested_until());
        on_engine!(self, core => core.skip_to(cycle, cause));
    }

    /// An interrupt or exception behind the last op: what has been fetched behind it is thrown away.
    pub fn trap(&mut self) {
        on_engine!(self, core => core.common_mut().trap());
    }

    /// When an access to a device leaves the core: it does so at the head of the window, when it can no longer be undone,
    /// after older accesses to devices, but not after older stores to memory: that order is what fences are for (RISC-V
    /// orders I/O and memory only by `fence` with I/O sets).
    pub fn begin_device<M: CoreMemory>(&mut self, op: &Op, memory: &mut M) -> u64 {
        assert!(self.device.is_none(), "one access to a device at a time");
        let (access, begun) = match &mut self.engine {
            Engine::OutOfOrder(core) => {
                let access = core.begin_device(op, memory);
                (DeviceAccess::OutOfOrder(access), OutOfOrder::begun(&access))
            }
            Engine::InOrder(core) => {
                let access = core.begin_device(op, memory);
                (DeviceAccess::InOrder(access), InOrder::begun(&access))
            }
        };
        self.device = Some(access);
        begun
    }

    /// The access that has begun is over at the first of both times: a load's value is there; a store has been accepted by the root
    /// complex, and at the second the core is told so, which matters if such stores are ordered. Neither stores nor fences wait until the
    /// device has them.
    pub fn end_device(&mut self, op: &Op, done: [u64; 2]) {
        self.end_device_observed(op, done, &mut ());
    }

    /// The same, with an observer.
    pub fn end_device_observed<O: Observer>(&mut self, op: &Op, done: [u64; 2], observer: &mut O) {
        match (&mut self.engine, self.device.take()) {
            (Engine::OutOfOrder(core), Some(DeviceAccess::OutOfOrder(access))) => {
                core.end_device(op, access, done, observer);
            }
            (Engine::InOrder(core), Some(DeviceAccess::InOrder(access))) => {
                core.end_device(op, access, done, observer)
            }
            _ => panic!("no access to a device has begun"),
        }
    }

    /// Drops translations: of one address or all, of one address space or all (SFENCE.VMA).
    pub fn flush_tlb(&mut self, virt: Option<u64>, space: Option<u16>) {
        on_engine!(self, core => core.common_mut().flush_tlb(virt, space));
    }

    /// Addresses are of another space from now on: after a write to `satp` (the space is the ASID) or a change of mode; none
    /// if they are physical. Without the latter a core is right too, but asks its memory for a walk at each access.
    pub fn set_address_space(&mut self, space: Option<u16>) {
        on_engine!(self, core => core.common_mut().set_space(space));
    }

    /// What learns without time passing. Caches are warmed by their owner.
    #[inline]
    pub fn learning(&mut self) -> Learning<'_> {
        let (branch, mmu) = on_engine!(self, core => core.common_mut().learners());
        Learning { branch, mmu }
    }

    /// What was counted since the beginning.
    pub fn stats(&self) -> CoreStats {
        self.with_late(on_engine!(ref self, core => core.common().stats()))
    }

    /// What was counted, and that nothing happens until `cycle` (WFI).
    pub fn stats_until(&self, cycle: u64) -> CoreStats {
        self.with_late(on_engine!(ref self, core => core.common().stats_until(cycle)))
    }

    /// With what units and shared stages have counted themselves.
    fn with_late(&self, mut stats: CoreStats) -> CoreStats {
        stats.counts.late_bookings += on_engine!(ref self, core => core.late());
        stats
    }

    /// The configuration.
    pub fn config(&self) -> &PipelineConfig {
        &self.config
    }

    /// Whether an access to a device has begun and not ended.
    pub fn has_device_access(&self) -> bool {
        self.device.is_some()
    }

    /// The state to save.
    pub fn save(&self) -> CoreState {
        let engine = match &self.engine {
            Engine::OutOfOrder(core) => Saved::OutOfOrder(Box::new(core.save())),
            Engine::InOrder(core) => Saved::InOrder(Box::new(core.save())),
        };
        CoreState { engine, device: self.device, shared: self.save_shared() }
    }

    /// Goes on where the core that was saved stopped. Its configuration must be this one's; what does not fit or
    /// contradicts itself is refused, and the core stays as it was.
    pub fn restore(&mut self, state: CoreState) -> Result<(), String> {
        let fits = match state.device {
            Some(DeviceAccess::OutOfOrder(_)) => self.config.kind == CoreKind::OutOfOrder,
            Some(DeviceAccess::InOrder(_)) => self.config.kind == CoreKind::InOrder,
            None => true,
        };
        if !fits {
            return Err("the access to a device is of another kind of core".into());
        }
        let shared = self.restored_shared(state.shared)?;
        self.engine = match (state.engine, self.config.kind) {
            (Saved::OutOfOrder(saved), CoreKind::OutOfOrder) => {
                Engine::OutOfOrder(OutOfOrder::restore(&self.config, self.thread, *saved)?)
            }
            (Saved::InOrder(saved), CoreKind::InOrder) => {
                Engine::InOrder(InOrder::restore(&self.config, *saved)?)
            }
            _ => return Err("the state is of another kind of core".into()),
        };
        on_engine!(self, core => core.common_mut().shared = shared);
        self.device = state.device;
        Ok(())
    }
}
