//! The out-of-order core.
//!
//! No cycle is stepped through. Each op, in program order, gets the cycles in which it is fetched, dispatched, issued,
//! complete and committed from the resources that it needs: those released in program order (reorder buffer, load and
//! store queue, registers) remember when the op so many places ahead gave its entry back; the issue queue is a
//! [`Wheel`](crate::wheel) of releases; issue ports, units and write-back ports are counted per cycle
//! ([`units`](crate::units)). An entry given back in one cycle can be taken in the next.
//!
//! | Cycle | Not before |
//! |---|---|
//! | dispatch | `front_end_depth` after arrival; entries in ROB, IQ, LQ or SQ and a register are free; dispatch width |
//! | issue | dispatch + 1; operands; a unit and an issue slot |
//! | complete | issue + latency; a write-back slot |
//! | commit | complete + 1; older ops have committed; commit width |
//!
//! Not modelled: wrong paths (a mispredicted branch costs time, not pollution), replays of ops that were issued in the hope of
//! a hit, the first of the two executions of a load that clashes, bank conflicts.

mod check;
mod memory;
mod window;

use doorbell_sim::memory::{CoreMemory, Level};
use doorbell_sim::op::{Op, OpClass};
use serde::{Deserialize, Serialize};

use crate::accounts::Accounts;
use crate::branch::BranchUnit;
use crate::config::{CoreConfig, MemoryDependence};
use crate::dependence::StoreSets;
use crate::front::{Fetched, Front};
use crate::mmu::Mmu;
use crate::observe::{Observer, Stages};
use crate::ring::{Limiter, Ring};
use crate::saved::Cycles;
use crate::stats::{Cause, CoreStats, Counts};
use crate::stores::Stores;
use crate::units::{Units, UnitsState};
use crate::wheel::Wheel;
use window::Window;

/// Cycles from dispatch to commit at least: issue, complete, commit.
const TAIL: u64 = 3;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct OutOfOrder {
    units: Units,
    state: State,
}

/// All that is saved as it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct State {
    front: Front,
    branch: BranchUnit,
    mmu: Mmu,
    /// From when on each register's value can be used.
    registers: Cycles<256>,
    window: Window,
    loads: Ring,
    stores: Stores,
    /// Physical registers: integer, floating-point.
    registers_free: [Ring; 2],
    queue: Wheel,
    sets: StoreSets,
    dispatch: Limiter,
    commit: Limiter,
    floors: Floors,
    dependence: MemoryDependence,
    address_cycles: u64,
    forward_cycles: u64,
    trap_cycles: u64,
    accounts: Accounts,
    counts: Counts,
}

/// What fences, serialising ops and devices impose on what follows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Floors {
    /// Nothing is dispatched before (serialising ops).
    #[serde(deserialize_with = "crate::saved::cycle")]
    dispatch: u64,
    /// No load issues before (fences).
    #[serde(deserialize_with = "crate::saved::cycle")]
    load: u64,
    /// When all older loads are complete.
    #[serde(deserialize_with = "crate::saved::cycle")]
    loads_done: u64,
    /// When the last access to a device is complete, and the last store to one accepted.
    #[serde(deserialize_with = "crate::saved::cycle")]
    device: u64,
    #[serde(deserialize_with = "crate::saved::cycle")]
    device_store: u64,
}

/// What is saved.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OutOfOrderState {
    units: UnitsState,
    state: State,
}

/// An op that has been dispatched.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Dispatched {
    at: u64,
    /// What is to blame for a delay behind the front end, if not the oldest op.
    back: Option<Cause>,
}

/// An op that has been executed.
#[derive(Clone, Copy, Debug)]
struct Executed {
    issue: u64,
    complete: u64,
    /// From when on its entry in the issue queue is free; 0 if it had none.
    leaves: u64,
    cause: Cause,
    level: Option<Level>,
}

/// A device access that has begun.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct DeviceAccess {
    fetched: Fetched,
    dispatched: Dispatched,
    begun: u64,
}

impl OutOfOrder {
    pub(crate) fn new(config: &CoreConfig) -> OutOfOrder {
        let renamed = |registers: u32| Ring::new(registers - 32);
        let state = State {
            front: Front::new(config),
            branch: BranchUnit::new(&config.branch),
            mmu: Mmu::new(&config.tlb),
            registers: Cycles::default(),
            window: Window::new(config.rob),
            loads: Ring::new(config.lq),
            stores: Stores::new(config),
            registers_free: [renamed(config.int_registers), renamed(config.float_registers)],
            queue: Wheel::new(config.iq),
            sets: StoreSets::new(config),
            dispatch: Limiter::new(config.dispatch_width),
            commit: Limiter::new(config.commit_width),
            floors: Floors::default(),
            dependence: config.memory_dependence,
            address_cycles: u64::from(config.address_cycles),
            forward_cycles: u64::from(config.forward_cycles),
            trap_cycles: u64::from(config.trap_cycles),
            accounts: Accounts::new(config.dispatch_width),
            counts: Counts::default(),
        };
        OutOfOrder { units: Units::new(config), state }
    }

    /// Prices one op. What differs between classes is decided once: the host's own branch predictor has little to go by.
    #[inline(always)]
    pub(crate) fn step<M: CoreMemory, O: Observer>(&mut self, op: &Op, memory: &mut M, observer: &mut O) {
        let state = &mut self.state;
        let fetched = state.front.fetch(op, memory, &mut state.mmu, &mut state.counts);
        match op.class {
            OpClass::Load => self.load(op, fetched, memory, observer),
            OpClass::Store => self.store(op, &fetched, memory, observer),
            OpClass::Branch
            | OpClass::Jump
            | OpClass::IndirectJump
            | OpClass::Call
            | OpClass::IndirectCall
            | OpClass::Return => {
                let prediction = self.state.branch.predict(op);
                let dispatched = self.dispatch(op, &fetched, 0, None);
                let executed = self.execute(op, dispatched.at);
                let commit = self.retire(op, &fetched, &dispatched, &executed);
                self.state.counts.branch(op, prediction);
                self.state.front.branch(op, prediction, executed.complete);
                let stages = stages(&fetched, dispatched.at, &executed, commit);
                observer.op(op, &Stages { prediction, ..stages });
            }
            OpClass::Atomic | OpClass::Fence | OpClass::Serialising => {
                self.special(op, &fetched, memory, observer)
            }
            _ => {
                let dispatched = self.dispatch(op, &fetched, 0, None);
                let executed = self.execute(op, dispatched.at);
                let commit = self.retire(op, &fetched, &dispatched, &executed);
                observer.op(op, &stages(&fetched, dispatched.at, &executed, commit));
            }
        }
    }

    /// Prices an atomic, a fence or a serialising op.
    fn special<M: CoreMemory, O: Observer>(
        &mut self,
        op: &Op,
        fetched: &Fetched,
        memory: &mut M,
        observer: &mut O,
    ) {
        let state = &self.state;
        let (room, back) = match op.class {
            OpClass::Atomic => (state.stores.free_from(), Some(Cause::Store)),
            OpClass::Serialising => (state.commit.last() + 1, Some(Cause::Serialise)),
            _ => (0, None),
        };
        let dispatched = self.dispatch(op, fetched, room, back);
        let executed = match op.class {
            OpClass::Atomic => self.atomic(op, dispatched.at, memory),
            OpClass::Fence => self.fence(op, dispatched.at),
            _ => Executed { cause: Cause::Serialise, ..self.execute(op, dispatched.at) },
        };
        let commit = self.retire(op, fetched, &dispatched, &executed);
        if op.class == OpClass::Serialising {
            self.state.counts.serialising += 1;
            self.state.floors.dispatch = commit + 1;
        }
        observer.op(op, &stages(fetched, dispatched.at, &executed, commit));
    }

    /// Finds the dispatch cycle. What else the op needs is free from `room` on; if not, `back` is to blame, or the oldest op.
    #[inline(always)]
    fn dispatch(&mut self, op: &Op, fetched: &Fetched, room: u64, back: Option<Cause>) -> Dispatched {
        let state = &mut self.state;
        let own = state.window.free_from();
        let (mut room, mut back) = if room > own { (room, back) } else { (own, None) };
        if op.destination != 0 {
            room = room.max(state.registers_free[file(op.destination)].free_from());
        }
        if state.floors.dispatch > room {
            (room, back) = (state.floors.dispatch, Some(Cause::Serialise));
        }
        let earliest = state.dispatch.peek(fetched.ready.max(room));
        let at = state.dispatch.take(state.queue.admit(earliest));
        state.front.dispatched(at);
        // The issue queue may be what is full after all; then the oldest op tells why.
        let back = if at > room { None } else { back };
        state.accounts.dispatch(at, || fetched.bubble(back), |cycle| state.window.waiting(cycle));
        Dispatched { at, back }
    }

    /// When an op's operands are there.
    #[inline(always)]
    fn operands(&self, op: &Op) -> u64 {
        let registers = &self.state.registers.0;
        let [a, b, c] = op.sources.map(|source| registers[usize::from(source)]);
        a.max(b).max(c)
    }

    /// Executes what does not access memory.
    #[inline(always)]
    fn execute(&mut self, op: &Op, dispatched: u64) -> Executed {
        let ready = (dispatched + 1).max(self.operands(op));
        let issue = self.units.issue(op.class, ready, dispatched + 1);
        let complete = self.result(op, issue + self.units.latency(op.class));
        Executed { issue, complete, leaves: issue + 1, cause: Cause::Execute, level: None }
    }

    /// Writes an op's result, if it has one.
    #[inline(always)]
    fn result(&mut self, op: &Op, at: u64) -> u64 {
        if op.destination == 0 {
            return at;
        }
        let at = self.units.write_back(at);
        self.state.registers.0[usize::from(op.destination)] = at;
        at
    }

    /// Commits an op and gives its entries back.
    #[inline(always)]
    fn retire(&mut self, op: &Op, fetched: &Fetched, dispatched: &Dispatched, executed: &Executed) -> u64 {
        let state = &mut self.state;
        let before = state.commit.last();
        let commit = state.commit.take(executed.complete + 1);
        // What has been complete for long only waits for its turn.
        let cause = if executed.complete >= before { executed.cause } else { Cause::Execute };
        state.accounts.commit(commit, dispatched.at, TAIL, || fetched.bubble(dispatched.back), cause);
        state.window.push(commit, cause);
        if executed.leaves != 0 {
            state.queue.push(executed.leaves);
            state.counts.iq_cycles += executed.leaves - dispatched.at;
        }
        if op.destination != 0 {
            state.registers_free[file(op.destination)].push(commit + 1);
        }
        state.counts.rob_cycles += commit - dispatched.at;
        state.counts.ops += 1;
        state.counts.instructions += u64::from(op.ends_instruction());
        commit
    }

    pub(crate) fn now(&self) -> u64 {
        self.state.commit.last()
    }

    pub(crate) fn skip_to(&mut self, cycle: u64) {
        let state = &mut self.state;
        if cycle <= state.commit.last() {
            return;
        }
        state.accounts.idle(cycle, Cause::Serialise);
        state.commit.skip_to(cycle);
        state.dispatch.skip_to(cycle);
        state.front.redirect(cycle, Cause::Fetch);
    }

    pub(crate) fn trap(&mut self) {
        let state = &mut self.state;
        state.counts.traps += 1;
        state.front.redirect(state.commit.last() + state.trap_cycles, Cause::Clear);
    }

    pub(crate) fn flush_tlb(&mut self, virt: Option<u64>, space: Option<u16>) {
        self.state.mmu.flush(virt, space);
        self.state.front.forget_page();
    }

    pub(crate) fn set_space(&mut self, space: Option<u16>) {
        self.state.mmu.space = space;
        self.state.front.forget_page();
    }

    /// What learns without time passing.
    pub(crate) fn learners(&mut self) -> (&mut BranchUnit, &mut Mmu) {
        (&mut self.state.branch, &mut self.state.mmu)
    }

    pub(crate) fn stats(&self) -> CoreStats {
        CoreStats { counts: self.state.counts.clone(), books: self.state.accounts.books() }
    }

    pub(crate) fn save(&self) -> OutOfOrderState {
        OutOfOrderState { units: self.units.save(), state: self.state.clone() }
    }

    pub(crate) fn restore(config: &CoreConfig, saved: OutOfOrderState) -> Result<OutOfOrder, String> {
        let mut core = OutOfOrder::new(config);
        core.units.restore(saved.units)?;
        saved.state.check(&core.state)?;
        core.state = saved.state;
        Ok(core)
    }
}

/// Which file a register is of: 0 integer (and flags), 1 floating-point.
#[inline(always)]
fn file(register: u8) -> usize {
    usize::from((32..64).contains(&register))
}

#[inline(always)]
fn stages(fetched: &Fetched, dispatch: u64, executed: &Executed, commit: u64) -> Stages {
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
