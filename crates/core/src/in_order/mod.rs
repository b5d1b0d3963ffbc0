//! The in-order core: issues up to `issue_width` ops a cycle in program order and stalls when an operand is not there (a
//! scoreboard). Loads and long operations go on in the background; a load or store whose translation is missing, an atomic and
//! a device access hold up what is behind them. Stores leave through a store buffer (`sq` entries), at most `lq` loads are
//! in flight. The front end is that of the out-of-order core.
//!
//! An op commits two cycles after its issue, a load so before its value is there: precise exceptions need no more than its
//! translation.

mod memory;

use doorbell_sim::memory::{CoreMemory, Level};
use doorbell_sim::op::{Op, OpClass};
use serde::{Deserialize, Serialize};

use crate::accounts::{Accounts, Bubble};
use crate::branch::BranchUnit;
use crate::config::CoreConfig;
use crate::front::{Fetched, Front};
use crate::mmu::Mmu;
use crate::observe::{Observer, Stages};
use crate::ring::{Limiter, Ring};
use crate::saved::Cycles;
use crate::stats::{Cause, CoreStats, Counts};
use crate::stores::Stores;
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
    /// From when on each register's value can be used, and what it comes from: [`Wait`]s.
    registers: Cycles<256>,
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
    /// Nothing issues before: a [`Wait`].
    #[serde(deserialize_with = "crate::saved::cycle")]
    issue: u64,
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
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Issued {
    at: u64,
    /// What it waited for behind the front end.
    wait: Wait,
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
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct DeviceAccess {
    fetched: Fetched,
    issued: Issued,
    begun: u64,
}

/// A cycle and why to wait for it, in one number, so that the later of two reasons is the larger number.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Wait(u64);

impl Wait {
    const CAUSE_BITS: u32 = 5;

    #[inline(always)]
    fn new(until: u64, cause: Cause) -> Wait {
        Wait(until << Self::CAUSE_BITS | cause as u64)
    }

    #[inline(always)]
    fn also(&mut self, until: u64, cause: Cause) {
        self.0 = self.0.max(Wait::new(until, cause).0);
    }

    #[inline(always)]
    fn until(self) -> u64 {
        self.0 >> Self::CAUSE_BITS
    }

    #[inline(always)]
    fn cause(self) -> Cause {
        Cause::ALL[(self.0 & ((1 << Self::CAUSE_BITS) - 1)) as usize % Cause::COUNT]
    }

    /// What delayed an op that came like this and then waited.
    #[inline(always)]
    fn bubble(self, fetched: &Fetched) -> Bubble {
        fetched.bubble(Some(if self.until() > fetched.ready { self.cause() } else { Cause::Execute }))
    }
}

impl InOrder {
    pub(crate) fn new(config: &CoreConfig) -> InOrder {
        let state = State {
            front: Front::new(config),
            branch: BranchUnit::new(&config.branch),
            mmu: Mmu::new(&config.tlb),
            registers: Cycles::default(),
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

    /// Prices one op. What differs between classes is decided once: the host's own branch predictor has little to go by.
    #[inline(always)]
    pub(crate) fn step<M: CoreMemory, O: Observer>(&mut self, op: &Op, memory: &mut M, observer: &mut O) {
        let state = &mut self.state;
        let fetched = state.front.fetch(op, memory, &mut state.mmu, &mut state.counts);
        match op.class {
            OpClass::Load => {
                let mut wait = Wait::new(state.floors.load, Cause::Store);
                wait.also(state.loads.free_from(), Cause::L2);
                let issued = self.issue(op, &fetched, wait);
                let executed = self.load(op, issued.at, memory);
                let commit = self.retire(op, &fetched, &issued, &executed);
                observer.op(op, &stages(&fetched, &issued, &executed, commit));
            }
            OpClass::Store => self.store(op, &fetched, memory, observer),
            OpClass::Branch
            | OpClass::Jump
            | OpClass::IndirectJump
            | OpClass::Call
            | OpClass::IndirectCall
            | OpClass::Return => {
                let prediction = state.branch.predict(op);
                let issued = self.issue(op, &fetched, Wait(0));
                let executed = self.execute(op, issued.at);
                let commit = self.retire(op, &fetched, &issued, &executed);
                let state = &mut self.state;
                state.counts.branch(op, prediction);
                state.front.branch(op, prediction, executed.complete);
                observer.op(op, &Stages { prediction, ..stages(&fetched, &issued, &executed, commit) });
            }
            OpClass::Atomic | OpClass::Fence | OpClass::Serialising => {
                self.special(op, &fetched, memory, observer)
            }
            _ => {
                let issued = self.issue(op, &fetched, Wait(0));
                let executed = self.execute(op, issued.at);
                let commit = self.retire(op, &fetched, &issued, &executed);
                observer.op(op, &stages(&fetched, &issued, &executed, commit));
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
        let (floors, stores) = (&self.state.floors, &self.state.stores);
        let wait = match op.class {
            OpClass::Atomic => {
                let written = stores.all_written().max(stores.floor).max(floors.load);
                Wait::new(written.max(stores.free_from()), Cause::Store)
            }
            OpClass::Serialising => Wait::new(floors.all_done, Cause::Serialise),
            _ => Wait(0),
        };
        let issued = self.issue(op, fetched, wait);
        let executed = match op.class {
            OpClass::Atomic => self.atomic(op, issued.at, memory),
            OpClass::Fence => self.fence(op, issued.at),
            _ => self.execute(op, issued.at),
        };
        if op.class == OpClass::Serialising {
            self.state.counts.serialising += 1;
            self.hold(executed.complete, Cause::Serialise);
        }
        let commit = self.retire(op, fetched, &issued, &executed);
        observer.op(op, &stages(fetched, &issued, &executed, commit));
    }

    /// Executes what does not access memory.
    #[inline(always)]
    fn execute(&mut self, op: &Op, issued: u64) -> Executed {
        let complete = self.result(op, issued + self.units.latency(op.class), Cause::Execute);
        Executed { complete, commit: 0, cause: Cause::Execute, level: None }
    }

    /// Finds the issue cycle; `wait` is what only this class waits for.
    #[inline(always)]
    fn issue(&mut self, op: &Op, fetched: &Fetched, wait: Wait) -> Issued {
        let state = &mut self.state;
        let registers = &state.registers.0;
        let [a, b, c] = op.sources.map(|source| registers[usize::from(source)]);
        let operands = a.max(b).max(c).max(registers[usize::from(op.destination)]);
        let wait = Wait(operands.max(state.floors.issue).max(wait.0));
        let from = fetched.ready.max(wait.until()).max(state.issued);
        let at = self.units.issue(op.class, from, state.issued);
        state.issued = at;
        state.front.dispatched(at);
        state.accounts.dispatch(at, || wait.bubble(fetched), |_| (Cause::Execute, u64::MAX));
        Issued { at, wait }
    }

    /// Writes an op's result, if it has one.
    #[inline(always)]
    fn result(&mut self, op: &Op, at: u64, cause: Cause) -> u64 {
        let mut at = at;
        if op.destination != 0 {
            at = self.units.write_back(at);
            self.state.registers.0[usize::from(op.destination)] = Wait::new(at, cause).0;
        }
        self.state.floors.all_done = self.state.floors.all_done.max(at);
        at
    }

    /// Nothing issues before `until`.
    fn hold(&mut self, until: u64, cause: Cause) {
        let floors = &mut self.state.floors;
        floors.issue = floors.issue.max(Wait::new(until, cause).0);
    }

    #[inline(always)]
    fn retire(&mut self, op: &Op, fetched: &Fetched, issued: &Issued, executed: &Executed) -> u64 {
        let state = &mut self.state;
        let commit = state.commit.take((issued.at + TAIL).max(executed.commit));
        let bubble = || issued.wait.bubble(fetched);
        state.accounts.commit(commit, issued.at, TAIL, bubble, executed.cause);
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
