//! The in-order core: issues up to `issue_width` ops a cycle in program order and stalls when an operand is not there (a
//! scoreboard). Loads and long operations go on in the background; a load or store whose translation is missing, an atomic and
//! a device access hold up what is behind them. Stores leave through a store buffer (`sq` entries), at most `lq` loads are
//! in flight. The front end is that of the out-of-order core.
//!
//! An op commits two cycles after its issue, a load so before its value is there: precise exceptions need no more than its
//! translation.

use doorbell_sim::memory::{AccessKind, CoreAccess, CoreMemory, Level};
use doorbell_sim::op::{Op, OpClass};
use serde::{Deserialize, Serialize};

use crate::accounts::{Accounts, Bubble};
use crate::branch::BranchUnit;
use crate::config::CoreConfig;
use crate::front::{Fetched, Front};
use crate::mmu::{Mmu, Side};
use crate::observe::{Observer, Stages};
use crate::ring::{Limiter, Ring};
use crate::saved::Cycles;
use crate::stats::{Cause, CoreStats, Counts};
use crate::stores::{Span, Stores};
use crate::units::{Units, UnitsState};

/// Cycles from issue to commit.
const TAIL: u64 = 2;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct InOrder {
    units: Units,
    state: State,
}

/// All that is saved as it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct State {
    front: Front,
    branch: BranchUnit,
    mmu: Mmu,
    /// From when on each register's value can be used, and what it comes from.
    registers: Cycles<256>,
    sources: Vec<Cause>,
    loads: Ring,
    stores: Stores,
    /// The cycle of the last issue.
    #[serde(deserialize_with = "crate::saved::cycle")]
    issued: u64,
    commit: Limiter,
    floors: Floors,
    address_cycles: u64,
    forward_cycles: u64,
    trap_cycles: u64,
    accounts: Accounts,
    counts: Counts,
}

/// What holds up what follows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Floors {
    /// Nothing issues before, because of `cause`.
    #[serde(deserialize_with = "crate::saved::cycle")]
    issue: u64,
    cause: Cause,
    /// No load issues before (fences).
    #[serde(deserialize_with = "crate::saved::cycle")]
    load: u64,
    /// When all older loads, and all older ops, are complete.
    #[serde(deserialize_with = "crate::saved::cycle")]
    loads_done: u64,
    #[serde(deserialize_with = "crate::saved::cycle")]
    all_done: u64,
    /// When the last store to a device was accepted.
    #[serde(deserialize_with = "crate::saved::cycle")]
    device_store: u64,
}

/// What is saved.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct InOrderState {
    units: UnitsState,
    state: State,
}

/// An op that has been issued.
#[derive(Clone, Copy, Debug)]
struct Issued {
    at: u64,
    bubble: Bubble,
}

/// An op that has been executed.
#[derive(Clone, Copy, Debug)]
struct Executed {
    complete: u64,
    /// Not before this can it commit.
    commit: u64,
    cause: Cause,
    level: Option<Level>,
}

/// A device access that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceAccess {
    fetched: Fetched,
    issued: Issued,
    begun: u64,
}

/// The latest of several reasons to wait.
#[derive(Clone, Copy)]
struct Wait {
    until: u64,
    cause: Cause,
}

impl Wait {
    #[inline(always)]
    fn also(&mut self, until: u64, cause: Cause) {
        if until > self.until {
            *self = Wait { until, cause };
        }
    }
}

impl InOrder {
    pub(crate) fn new(config: &CoreConfig) -> InOrder {
        let state = State {
            front: Front::new(config),
            branch: BranchUnit::new(&config.branch),
            mmu: Mmu::new(&config.tlb),
            registers: Cycles::default(),
            sources: vec![Cause::Execute; 256],
            loads: Ring::new(config.lq),
            stores: Stores::new(config),
            issued: 0,
            commit: Limiter::new(config.issue_width),
            floors: Floors::default(),
            address_cycles: u64::from(config.address_cycles),
            forward_cycles: u64::from(config.forward_cycles),
            trap_cycles: u64::from(config.trap_cycles),
            accounts: Accounts::new(config.issue_width),
            counts: Counts::default(),
        };
        InOrder { units: Units::new(config), state }
    }

    /// Prices one op.
    #[inline(always)]
    pub(crate) fn step<M: CoreMemory, O: Observer>(&mut self, op: &Op, memory: &mut M, observer: &mut O) {
        let state = &mut self.state;
        let fetched = state.front.fetch(op, memory, &mut state.mmu, &mut state.counts);
        let prediction = state.branch.predict(op);
        let issued = self.issue(op, &fetched);
        let executed = match op.class {
            OpClass::Load => self.load(op, issued.at, memory),
            OpClass::Store => {
                let at = issued.at + self.state.address_cycles;
                let known = self.translate(op, at, memory);
                let complete = known.max(issued.at + 1);
                Executed { complete, commit: complete + 1, cause: Cause::Dtlb, level: None }
            }
            OpClass::Atomic => self.atomic(op, issued.at, memory),
            OpClass::Fence => self.fence(op, issued.at),
            _ => {
                let complete = self.result(op, issued.at + self.units.latency(op.class), Cause::Execute);
                Executed { complete, commit: 0, cause: Cause::Execute, level: None }
            }
        };
        if op.class == OpClass::Serialising {
            self.state.counts.serialising += 1;
            self.hold(executed.complete, Cause::Serialise);
        }
        let commit = self.retire(op, &issued, &executed);
        let mut written = 0;
        if op.class == OpClass::Store {
            let state = &mut self.state;
            let known = executed.complete;
            written = state.stores.push(op, [known, known, commit], memory, &mut state.counts);
            state.counts.stores += 1;
            state.counts.sq_cycles += state.stores.all_written() - issued.at;
        }
        if op.class.is_branch() {
            let state = &mut self.state;
            state.counts.branch(op, prediction);
            state.front.branch(op, prediction, executed.complete);
        }
        observer.op(op, &Stages { prediction, written, ..stages(&fetched, &issued, &executed, commit) });
    }

    /// Finds the issue cycle.
    #[inline(always)]
    fn issue(&mut self, op: &Op, fetched: &Fetched) -> Issued {
        let state = &mut self.state;
        let mut wait = Wait { until: state.floors.issue, cause: state.floors.cause };
        for register in op.sources.into_iter().chain([op.destination]) {
            let register = usize::from(register);
            wait.also(state.registers.0[register], state.sources[register]);
        }
        match op.class {
            OpClass::Load => {
                wait.also(state.floors.load, Cause::Store);
                wait.also(state.loads.free_from(), Cause::L2);
            }
            OpClass::Store => wait.also(state.stores.free_from(), Cause::Store),
            OpClass::Atomic => {
                let written = state.stores.all_written().max(state.stores.floor).max(state.floors.load);
                wait.also(written.max(state.stores.free_from()), Cause::Store);
            }
            OpClass::Serialising => wait.also(state.floors.all_done, Cause::Serialise),
            OpClass::Device => {
                let fence = if op.flags & Op::WRITES != 0 { state.stores.floor } else { state.floors.load };
                wait.also(fence, Cause::Store);
            }
            _ => {}
        }
        let from = fetched.ready.max(wait.until).max(state.issued);
        let at = self.units.issue(op.class, from, state.issued);
        state.issued = at;
        state.front.dispatched(at);
        let back = Some(if wait.until > fetched.ready { wait.cause } else { Cause::Execute });
        let Fetched { ready: front_until, bad_until, bad, cause: front, .. } = *fetched;
        let bubble = Bubble { bad_until, bad, front_until, front, back };
        state.accounts.dispatch(at, &bubble, |_| (Cause::Execute, u64::MAX));
        Issued { at, bubble }
    }

    /// Writes an op's result, if it has one.
    #[inline(always)]
    fn result(&mut self, op: &Op, at: u64, cause: Cause) -> u64 {
        let mut at = at;
        if op.destination != 0 {
            at = self.units.write_back(at);
            self.state.registers.0[usize::from(op.destination)] = at;
            self.state.sources[usize::from(op.destination)] = cause;
        }
        self.state.floors.all_done = self.state.floors.all_done.max(at);
        at
    }

    /// Nothing issues before `until`.
    fn hold(&mut self, until: u64, cause: Cause) {
        let floors = &mut self.state.floors;
        if until > floors.issue {
            (floors.issue, floors.cause) = (until, cause);
        }
    }

    fn translate<M: CoreMemory>(&mut self, op: &Op, at: u64, memory: &mut M) -> u64 {
        let state = &mut self.state;
        let translated = state.mmu.translate(Side::Data, op.virt, at, memory, &mut state.counts);
        if translated > at {
            self.hold(translated, Cause::Dtlb);
        }
        translated
    }

    #[inline(always)]
    fn load<M: CoreMemory>(&mut self, op: &Op, issued: u64, memory: &mut M) -> Executed {
        let span = Span::of(op);
        let asked = self.translate(op, issued + self.state.address_cycles, memory);
        let state = &mut self.state;
        let access = CoreAccess { kind: AccessKind::Load, addr: op.phys, pc: op.pc };
        let (data, level) = match state.stores.youngest(span, asked) {
            Some(store) if store.covers(span) => {
                state.counts.forwards += 1;
                (asked.max(store.data) + state.forward_cycles, Level::L1)
            }
            blocked => {
                let written = blocked.map(|store| store.drained);
                state.counts.forwards_blocked += u64::from(written.is_some());
                let served = memory.access(written.unwrap_or(asked), access);
                (served.at, served.level)
            }
        };
        let data = data.max(asked + 1);
        state.counts.load(level, data - asked);
        let complete = self.result(op, data, Cause::of(level));
        let state = &mut self.state;
        state.loads.push(complete);
        state.counts.lq_cycles += complete - issued;
        state.floors.loads_done = state.floors.loads_done.max(complete);
        Executed { complete, commit: asked + 1, cause: Cause::Dtlb, level: Some(level) }
    }

    fn atomic<M: CoreMemory>(&mut self, op: &Op, issued: u64, memory: &mut M) -> Executed {
        let asked = self.translate(op, issued + self.state.address_cycles, memory);
        let kind = if op.flags & Op::WRITES != 0 { AccessKind::Store } else { AccessKind::Load };
        let served = memory.access(asked, CoreAccess { kind, addr: op.phys, pc: op.pc });
        let cause = Cause::of(served.level);
        let complete = self.result(op, served.at.max(asked + 1), cause);
        self.hold(complete, cause);
        let state = &mut self.state;
        state.stores.push_written(op, asked, complete);
        state.counts.atomics += 1;
        state.counts.sq_cycles += state.stores.all_written() - issued;
        state.floors.loads_done = state.floors.loads_done.max(complete);
        let [_, _, loads, stores] = op.fence();
        if loads {
            state.floors.load = state.floors.load.max(complete);
        }
        if stores {
            state.stores.floor = state.stores.floor.max(complete);
        }
        Executed { complete, commit: complete + 1, cause, level: Some(served.level) }
    }

    fn fence(&mut self, op: &Op, issued: u64) -> Executed {
        let state = &mut self.state;
        state.counts.fences += 1;
        let [loads_before, stores_before, loads_after, stores_after] = op.fence();
        let mut done = 0;
        if loads_before {
            done = state.floors.loads_done;
        }
        if stores_before {
            done = done.max(state.stores.all_written()).max(state.floors.device_store);
        }
        if loads_after {
            state.floors.load = state.floors.load.max(done);
        }
        if stores_after {
            state.stores.floor = state.stores.floor.max(done);
        }
        Executed { complete: issued + 1, commit: 0, cause: Cause::Execute, level: None }
    }

    #[inline(always)]
    fn retire(&mut self, op: &Op, issued: &Issued, executed: &Executed) -> u64 {
        let state = &mut self.state;
        let commit = state.commit.take((issued.at + TAIL).max(executed.commit));
        state.accounts.commit(commit, issued.at, TAIL, &issued.bubble, executed.cause);
        state.counts.ops += 1;
        state.counts.instructions += u64::from(op.ends_instruction());
        commit
    }

    pub(crate) fn begin_device<M: CoreMemory>(&mut self, op: &Op, memory: &mut M) -> DeviceAccess {
        let state = &mut self.state;
        let fetched = state.front.fetch(op, memory, &mut state.mmu, &mut state.counts);
        let issued = self.issue(op, &fetched);
        // What is before it can no longer be undone.
        let at = (issued.at + self.state.address_cycles).max(self.state.commit.last() + 1);
        let begun = self.translate(op, at, memory);
        DeviceAccess { fetched, issued, begun }
    }

    pub(crate) fn begun(access: &DeviceAccess) -> u64 {
        access.begun
    }

    pub(crate) fn end_device<O: Observer>(&mut self, op: &Op, access: DeviceAccess, done: u64, observer: &mut O) {
        let complete = self.result(op, done.max(access.begun), Cause::Device);
        self.hold(complete, Cause::Device);
        let floors = &mut self.state.floors;
        if op.flags & Op::WRITES != 0 {
            floors.device_store = complete;
        } else {
            floors.loads_done = floors.loads_done.max(complete);
        }
        self.state.counts.device_accesses += 1;
        let executed = Executed { complete, commit: complete + 1, cause: Cause::Device, level: None };
        let commit = self.retire(op, &access.issued, &executed);
        observer.op(op, &stages(&access.fetched, &access.issued, &executed, commit));
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
        state.issued = state.issued.max(cycle);
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

    pub(crate) fn set_space(&mut self, space: u16) {
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

    pub(crate) fn save(&self) -> InOrderState {
        InOrderState { units: self.units.save(), state: self.state.clone() }
    }

    pub(crate) fn restore(config: &CoreConfig, saved: InOrderState) -> Result<InOrder, String> {
        let mut core = InOrder::new(config);
        core.units.restore(saved.units)?;
        saved.state.check(&core.state)?;
        core.state = saved.state;
        Ok(core)
    }
}

impl State {
    /// Whether a saved state belongs to a core like `fresh` and agrees with itself.
    fn check(&self, fresh: &State) -> Result<(), String> {
        let parts = [
            ("front end", self.front.fits(&fresh.front)),
            ("branch predictors", self.branch.fits(&fresh.branch)),
            ("TLBs", self.mmu.fits(&fresh.mmu)),
            ("registers", self.sources.len() == fresh.sources.len()),
            ("loads", self.loads.fits(&fresh.loads)),
            ("store buffer", self.stores.fits(&fresh.stores)),
            ("widths", self.commit.fits(&fresh.commit)),
            ("books", self.accounts.fits(&fresh.accounts)),
            (
                "latencies",
                self.address_cycles == fresh.address_cycles
                    && self.forward_cycles == fresh.forward_cycles
                    && self.trap_cycles == fresh.trap_cycles,
            ),
        ];
        match parts.iter().find(|part| !part.1) {
            Some((name, _)) => Err(format!("the {name} are of another core or damaged")),
            None => Ok(()),
        }
    }
}

#[inline(always)]
fn stages(fetched: &Fetched, issued: &Issued, executed: &Executed, commit: u64) -> Stages {
    Stages {
        fetch: fetched.fetch,
        decode: fetched.decode,
        rename: fetched.rename,
        dispatch: issued.at,
        issue: issued.at,
        complete: executed.complete,
        commit,
        level: executed.level,
        ..Stages::default()
    }
}
