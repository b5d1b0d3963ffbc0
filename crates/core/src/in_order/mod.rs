//! The in-order core: issues up to `issue_width` ops per cycle in program order and stalls when an operand is
//! not ready (scoreboard). Loads and long-latency ops complete in the background. A load or store that waits
//! for a page walk, an atomic and a device access block younger ops. Stores leave through a store buffer
//! (`sq` entries); at most `lq` loads are in flight. The front end is that of the out-of-order core.
//!
//! An op commits two cycles after issue. A load therefore commits before its data arrives: precise exceptions
//! need only its translation. With an `in_order_window` of n ops, the nth op after an incomplete one does not
//! issue. This models cores that keep ops in their pipelines, in order, until they complete.

mod memory;

use doorbell_sim::memory::{CoreMemory, Level};
use doorbell_sim::{CoreCycle, Op, OpClass};
use serde::{Deserialize, Serialize};

use crate::accounts::Bubble;
use crate::common::{Common, Saved};
use crate::config::PipelineConfig;
use crate::front::Fetched;
use crate::observe::{Observer, Stages};
use crate::ring::Ring;
use crate::stats::Cause;
use crate::units::Units;

/// Cycles from issue to commit.
const TAIL: u64 = 2;

/// The in-order pipeline.
#[derive(Clone, Debug)]
pub(crate) struct InOrder {
    units: Units,
    state: State,
}

/// The state that is saved as it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct State {
    /// Registers are [`Wait`]s here.
    common: Common,
    /// The cycle of the last issue.
    #[serde(deserialize_with = "crate::saved::cycle")]
    issued: CoreCycle,
    floors: Floors,
    /// Ops in program order whose values are not all available; none without a window limit.
    window: Option<Ring<Wait>>,
    /// The latest completion so far and its cause.
    #[serde(deserialize_with = "crate::saved::cycle")]
    complete: Wait,
}

/// Earliest cycles for younger ops, imposed by older ones.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Floors {
    /// The earliest issue cycle and its cause.
    #[serde(deserialize_with = "crate::saved::cycle")]
    issue: Wait,
    /// The cycle by which all older ops are complete.
    #[serde(deserialize_with = "crate::saved::cycle")]
    all_done: CoreCycle,
}

/// Saved state.
pub(crate) type InOrderState = Saved<State>;

/// An issued op.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Issued {
    at: CoreCycle,
    /// Its back-end wait.
    wait: Wait,
}

/// An executed op.
#[derive(Clone, Copy, Debug)]
struct Executed {
    complete: CoreCycle,
    /// The earliest commit cycle.
    commit: CoreCycle,
    cause: Cause,
    level: Option<Level>,
}

/// A device access that was started and has not completed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct DeviceAccess {
    fetched: Fetched,
    issued: Issued,
    /// The cycle in which it leaves the core.
    pub(crate) begun: CoreCycle,
}

/// A cycle to wait for and the cause, packed in one number, so that the maximum of two waits is the later
/// one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Wait(u64);

impl From<Wait> for u64 {
    fn from(wait: Wait) -> u64 {
        wait.0
    }
}

impl Wait {
    const CAUSE_BITS: u32 = 5;

    #[inline(always)]
    fn new(until: CoreCycle, cause: Cause) -> Wait {
        Wait(until.number() << Self::CAUSE_BITS | cause as u64)
    }

    #[inline(always)]
    fn extend(&mut self, until: CoreCycle, cause: Cause) {
        *self = (*self).max(Wait::new(until, cause));
    }

    #[inline(always)]
    fn until(self) -> CoreCycle {
        CoreCycle::new(self.0 >> Self::CAUSE_BITS)
    }

    #[inline(always)]
    fn cause(self) -> Cause {
        Cause::ALL[(self.0 & ((1 << Self::CAUSE_BITS) - 1)) as usize % Cause::COUNT]
    }

    /// Attributes the delay of an op that left the front end as `fetched` and then waited.
    #[inline(always)]
    fn bubble(self, fetched: &Fetched) -> Bubble {
        fetched.bubble(Some(if self.until() > fetched.ready { self.cause() } else { Cause::Execute }))
    }
}

impl InOrder {
    pub(crate) fn new(config: &PipelineConfig) -> InOrder {
        let state = State {
            common: Common::new(config, config.issue_width, config.issue_width),
            issued: CoreCycle::ZERO,
            floors: Floors::default(),
            window: (config.in_order_window > 0).then(|| Ring::new(config.in_order_window)),
            complete: Wait::default(),
        };
        InOrder { units: Units::new(config), state }
    }

    /// Times one op. Dispatches on the op class once, because the host's branch predictor handles repeated
    /// class tests poorly.
    #[inline(always)]
    pub(crate) fn step<M: CoreMemory, O: Observer>(&mut self, op: &Op, memory: &mut M, observer: &mut O) {
        let state = &mut self.state;
        let fetched = state.common.fetch::<false, M>(op, memory);
        match op.class {
            OpClass::Load => {
                let mut wait = Wait::new(state.common.order.load, Cause::Store);
                wait.extend(state.common.loads.free_from(), Cause::L2);
                let issued = self.issue(op, &fetched, wait);
                let executed = self.load(op, issued.at, memory);
                let commit = self.retire(op, &fetched, &issued, &executed);
                observer.op(op, &stages(&fetched, &issued, &executed, commit));
            }
            OpClass::Store => self.store(op, &fetched, memory, observer),
            OpClass::Prefetch => self.prefetch(op, &fetched, memory, observer),
            OpClass::Branch
            | OpClass::Jump
            | OpClass::IndirectJump
            | OpClass::Call
            | OpClass::IndirectCall
            | OpClass::Return => {
                let prediction = state.common.branch.predict(op);
                let issued = self.issue(op, &fetched, Wait::default());
                let executed = self.execute(op, issued.at);
                let commit = self.retire(op, &fetched, &issued, &executed);
                let state = &mut self.state;
                state.common.counts.branch(op, prediction);
                state.common.front.branch(op, prediction, executed.complete);
                observer.op(op, &Stages { prediction, ..stages(&fetched, &issued, &executed, commit) });
            }
            OpClass::Atomic | OpClass::Fence | OpClass::Serialising => {
                self.special(op, &fetched, memory, observer)
            }
            _ => {
                let issued = self.issue(op, &fetched, Wait::default());
                let executed = self.execute(op, issued.at);
                let commit = self.retire(op, &fetched, &issued, &executed);
                observer.op(op, &stages(&fetched, &issued, &executed, commit));
            }
        }
    }

    /// Times an atomic, a fence or a serialising op.
    fn special<M: CoreMemory, O: Observer>(
        &mut self,
        op: &Op,
        fetched: &Fetched,
        memory: &mut M,
        observer: &mut O,
    ) {
        let common = &self.state.common;
        let wait = match op.class {
            OpClass::Atomic => Wait::new(common.atomic_floor().max(common.stores.free_from()), Cause::Store),
            OpClass::Serialising => Wait::new(self.state.floors.all_done, Cause::Serialise),
            _ => Wait::default(),
        };
        let issued = self.issue(op, fetched, wait);
        let executed = match op.class {
            OpClass::Atomic => self.atomic(op, issued.at, memory),
            OpClass::Fence => self.fence(op, issued.at),
            _ => self.execute(op, issued.at),
        };
        if op.class == OpClass::Serialising {
            self.state.common.counts.serialising += 1;
            self.hold(executed.complete, Cause::Serialise);
        }
        let commit = self.retire(op, fetched, &issued, &executed);
        observer.op(op, &stages(fetched, &issued, &executed, commit));
    }

    /// Executes an op that does not access memory.
    #[inline(always)]
    fn execute(&mut self, op: &Op, issued: CoreCycle) -> Executed {
        let takes = self.units.latency(op.class);
        let cause = Cause::of_unit(op.class, 0, takes);
        let complete = self.result(op, issued + takes, cause);
        Executed { complete, commit: CoreCycle::ZERO, cause, level: None }
    }

    /// Finds the issue cycle; `wait` is a wait specific to the op's class.
    #[inline(always)]
    fn issue(&mut self, op: &Op, fetched: &Fetched, wait: Wait) -> Issued {
        let state = &mut self.state;
        let registers = &state.common.registers.0;
        let [a, b, c] = op.sources.map(|source| registers[usize::from(source)]);
        let operands = Wait(a.max(b).max(c).max(registers[usize::from(op.destination)]));
        let room = state.window.as_ref().map_or(Wait::default(), Ring::free_from);
        let mut wait = wait.max(operands).max(state.floors.issue).max(room);
        let from = fetched.ready.max(wait.until()).max(state.issued);
        let at = self.units.issue(op.class, from, state.issued);
        // A unit that stays busy longer than any other wait is the cause of the empty slots.
        if at - from > wait.until().since(fetched.ready.max(state.issued)) {
            wait.extend(at, Cause::of_unit(op.class, 1, 0));
        }
        state.issued = at;
        state.common.front.dispatched(at);
        state.common.accounts.dispatch(at, || wait.bubble(fetched), |_| (Cause::Execute, CoreCycle::MAX));
        Issued { at, wait }
    }

    /// Writes an op's result, if it has one.
    #[inline(always)]
    fn result(&mut self, op: &Op, at: CoreCycle, cause: Cause) -> CoreCycle {
        let mut at = at;
        if op.destination != 0 {
            at = self.units.write_back(at);
            self.state.common.registers.0[usize::from(op.destination)] = Wait::new(at, cause).0;
        }
        self.state.floors.all_done = self.state.floors.all_done.max(at);
        at
    }

    /// Blocks issue until `until`.
    fn hold(&mut self, until: CoreCycle, cause: Cause) {
        self.state.floors.issue.extend(until, cause);
    }

    #[inline(always)]
    fn retire(&mut self, op: &Op, fetched: &Fetched, issued: &Issued, executed: &Executed) -> CoreCycle {
        let state = &mut self.state;
        let commit = state.common.commit.take((issued.at + TAIL).max(executed.commit));
        if let Some(window) = &mut state.window {
            state.complete.extend(executed.complete, executed.cause);
            window.push(state.complete);
        }
        let bubble = || issued.wait.bubble(fetched);
        state.common.accounts.commit(commit, issued.at, TAIL, bubble, executed.cause);
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
            self.state.issued = self.state.issued.max(cycle);
        }
    }

    /// Requests for cycles that the booking tables have dropped.
    pub(crate) fn late(&self) -> u64 {
        self.units.late()
    }

    pub(crate) fn save(&self) -> InOrderState {
        InOrderState::new(&self.units, &self.state)
    }

    pub(crate) fn restore(config: &PipelineConfig, saved: InOrderState) -> Result<InOrder, String> {
        let mut core = InOrder::new(config);
        saved.restore(&mut core.units, &mut core.state)?;
        Ok(core)
    }
}

impl crate::common::State for State {
    fn common(&self) -> &Common {
        &self.common
    }

    fn part_checks(&self, fresh: &State) -> Vec<(&'static str, bool)> {
        let is_compatible = match (&self.window, &fresh.window) {
            (Some(window), Some(fresh)) => window.is_compatible(fresh),
            (window, fresh) => window.is_none() && fresh.is_none(),
        };
        vec![("window", is_compatible)]
    }
}

#[inline(always)]
fn stages(fetched: &Fetched, issued: &Issued, executed: &Executed, commit: CoreCycle) -> Stages {
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
