//! The out-of-order core.
//!
//! The model does not step cycle by cycle. It assigns each op, in program order, its fetch, dispatch, issue,
//! complete and commit cycles from the resources that the op needs. Resources released in program order
//! (reorder buffer, load and store queue, registers) record when the op N places earlier released its entry.
//! The issue queue is a [`Wheel`](crate::wheel) of release times. Issue ports, units and write-back ports are
//! counted per cycle ([`units`](crate::units)). An entry released in one cycle can be allocated in the next.
//!
//! | Cycle | Not before |
//! |---|---|
//! | dispatch | `front_end_depth` after arrival; entries in ROB, IQ, LQ or SQ and a register are free; dispatch width |
//! | issue | dispatch + 1; operands; a unit and an issue slot |
//! | complete | issue + latency; a write-back slot |
//! | commit | complete + `commit_cycles`; older ops have committed; commit width |
//!
//! Not modelled: wrong-path execution (a misprediction costs time but does not pollute caches), replay of ops
//! issued speculatively on an expected hit, the first execution of a load that violates memory order, bank
//! conflicts.

mod memory;
mod window;

use doorbell_sim::memory::{CoreMemory, Level};
use doorbell_sim::{CoreCycle, Op, OpClass};
use serde::{Deserialize, Serialize};

use crate::common::{Common, Saved};
use crate::config::{MemoryDependence, PipelineConfig};
use crate::dependence::StoreSets;
use crate::front::Fetched;
use crate::observe::{Observer, Stages};
use crate::ring::{Limiter, Ring};
use crate::shared::Stage;
use crate::stats::Cause;
use crate::units::Units;
use crate::wheel::Wheel;
use window::Window;

/// Minimum cycles from dispatch to completion: issue, complete.
const EXECUTION: u64 = 2;
/// Threads of an SMT core.
const THREADS: u32 = 2;

/// The out-of-order pipeline.
#[derive(Clone, Debug)]
pub(crate) struct OutOfOrder {
    units: Units,
    state: State,
}

/// The state that is saved as it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct State {
    common: Common,
    window: Window,
    /// Physical registers: integer, floating-point.
    registers_free: [Ring; 2],
    queue: Wheel,
    sets: StoreSets,
    dispatch: Limiter,
    floors: Floors,
    dependence: MemoryDependence,
    commit_cycles: u64,
    /// SMT: number of partitions of the partitioned resources now, 1 or 2; 0 without SMT.
    parts: u32,
}

/// Earliest cycles for younger ops, imposed by serialising ops and device accesses.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Floors {
    /// The earliest dispatch cycle (serialising ops).
    #[serde(deserialize_with = "crate::saved::cycle")]
    dispatch: CoreCycle,
    /// Completion cycle of the last device access.
    #[serde(deserialize_with = "crate::saved::cycle")]
    device: CoreCycle,
}

/// Saved state.
pub(crate) type OutOfOrderState = Saved<State>;

/// A dispatched op.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Dispatched {
    at: CoreCycle,
    /// Cause of a back-end delay, if other than the oldest op.
    back: Option<Cause>,
}

/// An executed op.
#[derive(Clone, Copy, Debug)]
struct Executed {
    issue: CoreCycle,
    complete: CoreCycle,
    /// The cycle from which its issue-queue entry is free; 0 if it had none.
    leaves: CoreCycle,
    cause: Cause,
    level: Option<Level>,
}

/// A device access that was started and has not completed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct DeviceAccess {
    fetched: Fetched,
    dispatched: Dispatched,
    /// The cycle in which it leaves the core.
    pub(crate) begun: CoreCycle,
}

impl OutOfOrder {
    pub(crate) fn new(config: &PipelineConfig) -> OutOfOrder {
        let renamed = |registers: u32| Ring::new(registers - 32);
        let state = State {
            common: Common::new(config, config.dispatch_width, config.commit_width),
            window: Window::new(config.rob),
            registers_free: [renamed(config.int_registers), renamed(config.float_registers)],
            queue: Wheel::new(config.iq),
            sets: StoreSets::new(config),
            dispatch: Limiter::new(config.dispatch_width),
            floors: Floors::default(),
            dependence: config.memory_dependence,
            commit_cycles: u64::from(config.commit_cycles),
            parts: 0,
        };
        OutOfOrder { units: Units::new(config), state }
    }

    /// Whether this is the active thread of an SMT core. Its ops are timed by code compiled for `THREADS`;
    /// without SMT that code is absent.
    pub(crate) fn has_turn(&self) -> bool {
        self.state.common.shared.is_some()
    }

    /// Times one op. Dispatches on the op class once, because the host's branch predictor handles repeated
    /// class tests poorly.
    #[inline(always)]
    pub(crate) fn step<const THREADS: bool, M: CoreMemory, O: Observer>(
        &mut self,
        op: &Op,
        memory: &mut M,
        observer: &mut O,
    ) {
        let state = &mut self.state;
        let fetched = state.common.fetch::<THREADS, M>(op, memory);
        match op.class {
            OpClass::Load => self.load::<THREADS, M, O>(op, fetched, memory, observer),
            OpClass::Store => self.store::<THREADS, M, O>(op, &fetched, memory, observer),
            OpClass::Prefetch => self.prefetch::<THREADS, M, O>(op, fetched, memory, observer),
            OpClass::Branch
            | OpClass::Jump
            | OpClass::IndirectJump
            | OpClass::Call
            | OpClass::IndirectCall
            | OpClass::Return => {
                let prediction = self.state.common.branch.predict(op);
                let dispatched = self.dispatch::<THREADS>(op, &fetched, CoreCycle::ZERO, None);
                let executed = self.execute::<THREADS>(op, dispatched.at);
                let commit = self.retire::<THREADS>(op, &fetched, &dispatched, &executed);
                self.state.common.counts.branch(op, prediction);
                self.state.common.front.branch(op, prediction, executed.complete);
                let stages = stages(&fetched, dispatched.at, &executed, commit);
                observer.op(op, &Stages { prediction, ..stages });
            }
            OpClass::Atomic | OpClass::Fence | OpClass::Serialising => {
                self.special::<THREADS, M, O>(op, fetched, memory, observer)
            }
            _ => {
                let dispatched = self.dispatch::<THREADS>(op, &fetched, CoreCycle::ZERO, None);
                let executed = self.execute::<THREADS>(op, dispatched.at);
                let commit = self.retire::<THREADS>(op, &fetched, &dispatched, &executed);
                observer.op(op, &stages(&fetched, dispatched.at, &executed, commit));
            }
        }
    }

    /// Times an atomic, a fence or a serialising op.
    #[inline(never)]
    fn special<const THREADS: bool, M: CoreMemory, O: Observer>(
        &mut self,
        op: &Op,
        fetched: Fetched,
        memory: &mut M,
        observer: &mut O,
    ) {
        let state = &self.state;
        let (room, back) = match op.class {
            OpClass::Atomic => (state.common.stores.free_from(), Some(Cause::Store)),
            OpClass::Serialising => (state.common.commit.last() + 1, Some(Cause::Serialise)),
            _ => (CoreCycle::ZERO, None),
        };
        let dispatched = self.dispatch::<THREADS>(op, &fetched, room, back);
        let executed = match op.class {
            OpClass::Atomic => self.atomic::<THREADS, M>(op, dispatched.at, memory),
            OpClass::Fence => self.fence(op, dispatched.at),
            _ => Executed { cause: Cause::Serialise, ..self.execute::<THREADS>(op, dispatched.at) },
        };
        let commit = self.retire::<THREADS>(op, &fetched, &dispatched, &executed);
        if op.class == OpClass::Serialising {
            self.state.common.counts.serialising += 1;
            self.state.floors.dispatch = commit + 1;
        }
        observer.op(op, &stages(&fetched, dispatched.at, &executed, commit));
    }

    /// Finds the dispatch cycle. Other resources of the op are free from `room` on; a delay by them is
    /// charged to `back`, or to the oldest op if none.
    #[inline(always)]
    fn dispatch<const THREADS: bool>(
        &mut self,
        op: &Op,
        fetched: &Fetched,
        room: CoreCycle,
        back: Option<Cause>,
    ) -> Dispatched {
        let state = &mut self.state;
        let own = state.window.free_from();
        let (mut room, mut back) = if room > own { (room, back) } else { (own, None) };
        if op.destination != 0
            && let registers = &state.registers_free[file(op.destination)]
            && (THREADS || state.window.is_larger_than(registers))
        {
            room = room.max(registers.free_from());
        }
        if state.floors.dispatch > room {
            (room, back) = (state.floors.dispatch, Some(Cause::Serialise));
        }
        let earliest = state.dispatch.peek(fetched.ready.max(room));
        let at = match &mut state.common.shared {
            Some(shared) if THREADS => shared.dispatch(earliest),
            _ => state.queue.admit(earliest),
        };
        state.dispatch.take_at(at);
        state.common.front.dispatched(at);
        // If the issue queue was the bottleneck, the delay is charged to the oldest op.
        let back = if at > room { None } else { back };
        state.common.accounts.dispatch(at, || fetched.bubble(back), |cycle| state.window.oldest_cause(cycle));
        Dispatched { at, back }
    }

    /// Issues an op in the first cycle from `ready` on in which all its resources are free.
    #[inline(always)]
    fn issue<const THREADS: bool>(
        &mut self,
        class: OpClass,
        ready: CoreCycle,
        dispatched: CoreCycle,
    ) -> CoreCycle {
        let floor = match &self.state.common.shared {
            Some(shared) if THREADS => shared.floor,
            _ => dispatched + 1,
        };
        self.units.issue(class, ready, floor)
    }

    /// The cycle in which an op's operands are available.
    #[inline(always)]
    fn operands(&self, op: &Op) -> CoreCycle {
        let registers = &self.state.common.registers.0;
        let [a, b, c] = op.sources.map(|source| registers[usize::from(source)]);
        CoreCycle::new(a.max(b).max(c))
    }

    /// Executes an op that does not access memory.
    #[inline(always)]
    fn execute<const THREADS: bool>(&mut self, op: &Op, dispatched: CoreCycle) -> Executed {
        let ready = (dispatched + 1).max(self.operands(op));
        let issue = self.issue::<THREADS>(op.class, ready, dispatched);
        let complete = self.result(op, issue + self.units.latency(op.class));
        let cause = Cause::of_unit(op.class, issue - ready, complete - issue);
        Executed { issue, complete, leaves: issue + 1, cause, level: None }
    }

    /// Writes an op's result, if it has one.
    #[inline(always)]
    fn result(&mut self, op: &Op, at: CoreCycle) -> CoreCycle {
        if op.destination == 0 {
            return at;
        }
        let at = self.units.write_back(at);
        self.state.common.registers.0[usize::from(op.destination)] = at.number();
        at
    }

    /// Commits an op and releases its entries.
    #[inline(always)]
    fn retire<const THREADS: bool>(
        &mut self,
        op: &Op,
        fetched: &Fetched,
        dispatched: &Dispatched,
        executed: &Executed,
    ) -> CoreCycle {
        let state = &mut self.state;
        let before = state.common.commit.last();
        let Common { commit, shared, .. } = &mut state.common;
        let earliest = executed.complete + state.commit_cycles;
        let commit = commit.take_of::<THREADS>(Stage::Commit, shared.as_deref_mut(), earliest);
        // An op that completed before the last commit was only waiting for commit bandwidth.
        let cause = if executed.complete >= before { executed.cause } else { Cause::Execute };
        let tail = EXECUTION + state.commit_cycles;
        state.common.accounts.commit(commit, dispatched.at, tail, || fetched.bubble(dispatched.back), cause);
        state.window.push(commit, cause);
        if executed.leaves != CoreCycle::ZERO {
            match &mut state.common.shared {
                Some(shared) if THREADS => shared.queue.take(dispatched.at, executed.leaves),
                _ => state.queue.push(executed.leaves),
            }
            state.common.counts.iq_cycles += executed.leaves - dispatched.at;
        }
        if op.destination != 0
            && let registers = &mut state.registers_free[file(op.destination)]
            && (THREADS || state.window.is_larger_than(registers))
        {
            registers.push(commit + 1);
        }
        state.common.counts.rob_cycles += commit - dispatched.at;
        state.common.counts.ops += 1;
        state.common.counts.instructions += u64::from(op.ends_instruction());
        commit
    }

    pub(crate) fn common(&self) -> &Common {
        &self.state.common
    }

    pub(crate) fn common_mut(&mut self) -> &mut Common {
        &mut self.state.common
    }

    pub(crate) fn skip_to(&mut self, cycle: CoreCycle, cause: Cause) {
        if self.state.common.skip_to(cycle, cause) {
            self.state.dispatch.skip_to(cycle);
        }
    }

    /// Late bookings that are not yet in the counters.
    pub(crate) fn late(&self) -> u64 {
        self.units.late() + self.state.common.shared.as_ref().map_or(0, |shared| shared.late())
    }

    /// Swaps the shared structures with the other thread. Counts of the other thread stay with it.
    pub(crate) fn exchange(&mut self, other: &mut OutOfOrder) {
        let Common { counts, shared, .. } = &mut other.state.common;
        counts.late_bookings +=
            other.units.take_late() + shared.as_mut().map_or(0, |shared| shared.take_late());
        std::mem::swap(&mut self.units, &mut other.units);
        self.state.common.exchange(&mut other.state.common);
    }

    /// One SMT thread, initially owning all partitioned resources.
    pub(crate) fn of_thread(config: &PipelineConfig, thread: usize) -> OutOfOrder {
        let OutOfOrder { units, mut state, .. } = OutOfOrder::new(config);
        state.common = state.common.of_thread(thread);
        state.partition(config, 1);
        OutOfOrder { units, state }
    }

    /// Gives the thread all of the partitioned resources (1) or half of them (2).
    pub(crate) fn partition(&mut self, config: &PipelineConfig, parts: u32) {
        if parts != self.state.parts {
            self.state.partition(config, parts);
        }
    }

    /// Blocks dispatch until after the slots that were given to the sibling while this thread slept.
    pub(crate) fn wake(&mut self) {
        let open = self.state.common.accounts.open;
        if open > self.state.dispatch.last() {
            self.state.common.front.not_before(open);
        }
    }

    pub(crate) fn save(&self) -> OutOfOrderState {
        OutOfOrderState::new(&self.units, &self.state)
    }

    pub(crate) fn restore(
        config: &PipelineConfig,
        thread: Option<usize>,
        mut saved: OutOfOrderState,
    ) -> Result<OutOfOrder, String> {
        let mut core =
            thread.map_or_else(|| OutOfOrder::new(config), |thread| OutOfOrder::of_thread(config, thread));
        let parts = saved.state.parts;
        if thread.is_some() != (1..=THREADS).contains(&parts) {
            return Err("the saved SMT partitioning belongs to another core configuration".into());
        }
        if parts > 1 {
            saved.state.partition(config, 1);
        }
        saved.restore(&mut core.units, &mut core.state)?;
        if parts > 1 {
            core.state.partition(config, parts);
        }
        Ok(core)
    }
}

impl State {
    /// Gives the thread all of the partitioned resources (1) or half of them (2).
    fn partition(&mut self, config: &PipelineConfig, parts: u32) {
        self.parts = parts;
        self.window.resize(config.rob / parts);
        self.common.front.partition(parts);
        self.common.loads.resize(config.lq / parts);
        self.common.stores.resize(config.sq / parts, config.drains_in_flight.div_ceil(parts));
        for (ring, registers) in
            self.registers_free.iter_mut().zip([config.int_registers, config.float_registers])
        {
            ring.resize((registers - THREADS * 32) / parts);
        }
    }
}

impl crate::common::State for State {
    fn common(&self) -> &Common {
        &self.common
    }

    fn part_checks(&self, fresh: &State) -> Vec<(&'static str, bool)> {
        vec![
            ("reorder buffer", self.window.is_compatible(&fresh.window)),
            (
                "registers",
                (0..2).all(|file| self.registers_free[file].is_compatible(&fresh.registers_free[file])),
            ),
            ("issue queue", self.queue.is_compatible(&fresh.queue)),
            ("store sets", self.sets.is_compatible(&fresh.sets)),
            ("dispatch widths", self.dispatch.is_compatible(&fresh.dispatch)),
            ("memory-dependence policy", self.dependence == fresh.dependence),
            ("cycles to commit", self.commit_cycles == fresh.commit_cycles),
        ]
    }
}

/// The register file of a register: 0 integer (and flags), 1 floating-point.
#[inline(always)]
fn file(register: u8) -> usize {
    usize::from((32..64).contains(&register))
}

#[inline(always)]
fn stages(fetched: &Fetched, dispatch: CoreCycle, executed: &Executed, commit: CoreCycle) -> Stages {
    Stages {
        fetch: fetched.fetch,
        decode: fetched.decode,
        rename: fetched.rename,
        dispatch,
        issue: executed.issue,
        complete: executed.complete,
        commit,
        level: executed.level,
        ..Stages::default()
    }
}
