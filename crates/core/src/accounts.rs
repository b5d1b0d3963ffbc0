//! Cycle accounting: assigns exactly one cause to every dispatch slot and every commit cycle.
//!
//! *Slots* follow the top-down method (Yasin 2014), made exact. An empty slot between two dispatches belongs
//! to bad speculation until the first correct-path op could have been dispatched. It then belongs to the
//! front end until the op arrived, then to the back end. The back-end cause is that of the oldest op in
//! flight in that cycle. Slots of the open cycle, in which ops are still being dispatched, are not yet
//! counted.
//!
//! *The CPI stack* counts a cycle with a commit as base. Every other cycle is charged to the state of the
//! next op to commit: in the front end (with the same causes), or executing.

use doorbell_sim::CoreCycle;
use serde::{Deserialize, Serialize};

use crate::saved::{Cycles, cycle};
use crate::settle::SlotLog;
use crate::stats::{Books, Cause};

/// The causes of an op's dispatch delay: three consecutive periods.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bubble {
    /// The end of the period with cause `bad`.
    pub(crate) bad_until: CoreCycle,
    pub(crate) bad: Cause,
    /// The end of the next period, with cause `front`.
    pub(crate) front_until: CoreCycle,
    pub(crate) front: Cause,
    /// The cause of the rest, or none for that of the oldest op.
    pub(crate) back: Option<Cause>,
}

/// The slot and cycle accounts of a core.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Accounts {
    pub(crate) width: u64,
    pub(crate) slots: Cycles<{ Cause::COUNT }>,
    pub(crate) fetch_bandwidth: u64,
    cpi: Cycles<{ Cause::COUNT }>,
    /// The open cycle, in which ops are being dispatched.
    #[serde(deserialize_with = "cycle")]
    pub(crate) open: CoreCycle,
    /// Ops dispatched in the open cycle, and how many of them were squashed.
    used: u32,
    cleared: u32,
    /// The commit cycle of the last op.
    #[serde(deserialize_with = "cycle")]
    committed: CoreCycle,
    /// SMT only: slots to be settled with the other thread.
    pub(crate) log: Option<Box<SlotLog>>,
}

impl Accounts {
    pub(crate) fn new(width: u32) -> Accounts {
        Accounts { width: u64::from(width), ..Accounts::default() }
    }

    /// Turns them into the accounts of an SMT thread.
    pub(crate) fn of_thread(self) -> Accounts {
        Accounts { log: Some(Box::default()), ..self }
    }

    /// Dispatches an op in cycle `at`. `bubble` returns the causes of its delay, if any. `oldest` returns the
    /// cause of the oldest op in flight in a cycle, and until when it applies.
    #[inline(always)]
    pub(crate) fn dispatch(
        &mut self,
        at: CoreCycle,
        bubble: impl FnOnce() -> Bubble,
        oldest: impl FnMut(CoreCycle) -> (Cause, CoreCycle),
    ) {
        if at > self.open {
            self.close(at, &bubble(), oldest);
        }
        self.used += 1;
    }

    /// Marks the last dispatched op as squashed; it will be dispatched again.
    pub(crate) fn clear(&mut self) {
        self.cleared += 1;
    }

    #[inline]
    fn close(
        &mut self,
        at: CoreCycle,
        bubble: &Bubble,
        mut oldest: impl FnMut(CoreCycle) -> (Cause, CoreCycle),
    ) {
        let mut now = self.open;
        if at > now + 1 || u64::from(self.used) < self.width {
            if bubble.bad_until > now {
                let until = bubble.bad_until.min(at);
                self.empty(bubble.bad, now, until);
                now = until;
            }
            if bubble.front_until > now && now < at {
                let until = bubble.front_until.min(at);
                self.empty(bubble.front, now, until);
                now = until;
            }
            while now < at {
                let (cause, until) = bubble.back.map_or_else(|| oldest(now), |cause| (cause, at));
                let until = until.min(at);
                self.empty(cause, now, until);
                now = until;
            }
        }
        self.begin(at);
    }

    /// Counts the ops of the open cycle, and opens cycle `at`.
    #[inline]
    fn begin(&mut self, at: CoreCycle) {
        if let Some(log) = &mut self.log {
            log.begin(self.open, [self.used, self.cleared]);
            (self.used, self.cleared, self.open) = (0, 0, at);
            return;
        }
        self.slots.0[Cause::Base as usize] += u64::from(self.used - self.cleared);
        self.slots.0[Cause::Clear as usize] += u64::from(self.cleared);
        self.used = 0;
        self.cleared = 0;
        self.open = at;
    }

    /// Counts the empty slots from one cycle to another.
    #[inline]
    fn empty(&mut self, cause: Cause, from: CoreCycle, to: CoreCycle) {
        if let Some(log) = &mut self.log {
            let used = if from == self.open { self.used } else { 0 };
            return log.empty(cause, from, to, [used, self.cleared]);
        }
        let mut slots = self.width * (to - from);
        if from == self.open && self.used > 0 {
            slots -= u64::from(self.used);
            if cause.is_front_end() {
                let partial = self.width - u64::from(self.used);
                self.fetch_bandwidth += partial;
                slots -= partial;
            }
        }
        self.slots.0[cause as usize] += slots;
    }

    /// Commits at `at` an op dispatched at `dispatched`; there are at least `tail` cycles between the two.
    #[inline(always)]
    pub(crate) fn commit(
        &mut self,
        at: CoreCycle,
        dispatched: CoreCycle,
        tail: u64,
        bubble: impl FnOnce() -> Bubble,
        own: Cause,
    ) {
        if at > self.committed {
            self.cpi.0[Cause::Base as usize] += 1;
            if at > self.committed + 1 {
                self.stall(at, dispatched + tail, tail, &bubble(), own);
            }
            self.committed = at;
        }
    }

    /// Charges the cycles between two commits; the second was not possible before `earliest`.
    fn stall(&mut self, at: CoreCycle, earliest: CoreCycle, tail: u64, bubble: &Bubble, own: Cause) {
        let mut now = self.committed + 1;
        let back = bubble.back.unwrap_or(Cause::Execute);
        let stretches = [
            (bubble.bad, bubble.bad_until + tail),
            (bubble.front, bubble.front_until + tail),
            (back, earliest),
        ];
        for (cause, until) in stretches {
            let until = until.min(at).min(earliest);
            if until > now {
                self.cpi.0[cause as usize] += until - now;
                now = until;
            }
        }
        self.cpi.0[own as usize] += at - now;
    }

    /// Passes the cycles until `cycle` without an op. Up to the last commit older ops drain; the rest has
    /// cause `then` (idle or untimed).
    pub(crate) fn pass(&mut self, cycle: CoreCycle, then: Cause) {
        if cycle <= self.committed {
            return;
        }
        self.pass_slots(cycle, then);
        self.cpi.0[then as usize] += cycle - self.committed;
        self.committed = cycle;
    }

    /// Passes the dispatch slots until `cycle`, like [`pass`](Accounts::pass).
    pub(crate) fn pass_slots(&mut self, cycle: CoreCycle, then: Cause) {
        // A cycle in which ops were dispatched was timed.
        let dispatched = u64::from(self.used > 0 && then == Cause::Untimed);
        let drained = self.committed.max(self.open + dispatched).min(cycle);
        for (cause, until) in [(Cause::Serialise, drained), (then, cycle)] {
            if until > self.open {
                self.empty(cause, self.open, until);
                self.begin(until);
            }
        }
    }

    pub(crate) fn books(&self) -> Books {
        let slots = |cause: Cause| self.slots.0[cause as usize];
        let cpi = |cause: Cause| self.cpi.0[cause as usize];
        let untimed = slots(Cause::Untimed) / self.width;
        Books {
            cycles: self.committed.number() - cpi(Cause::Untimed),
            slot_cycles: self.log.as_ref().map_or(self.open.number() - untimed, |log| log.timed()),
            slots_retiring: slots(Cause::Base),
            slots_branch: slots(Cause::Branch),
            slots_clear: slots(Cause::Clear),
            slots_misfetch: slots(Cause::Misfetch),
            slots_icache: slots(Cause::Icache),
            slots_itlb: slots(Cause::Itlb),
            slots_fetch: slots(Cause::Fetch),
            slots_fetch_bandwidth: self.fetch_bandwidth,
            slots_execute: slots(Cause::Execute),
            slots_divider: slots(Cause::Divider),
            slots_ports: slots(Cause::Ports),
            slots_l1: slots(Cause::L1),
            slots_l2: slots(Cause::L2),
            slots_llc: slots(Cause::Llc),
            slots_peer: slots(Cause::Peer),
            slots_dram: slots(Cause::Dram),
            slots_dtlb: slots(Cause::Dtlb),
            slots_store: slots(Cause::Store),
            slots_serialise: slots(Cause::Serialise),
            slots_device: slots(Cause::Device),
            slots_idle: slots(Cause::Idle),
            cpi_base: cpi(Cause::Base),
            cpi_branch: cpi(Cause::Branch),
            cpi_clear: cpi(Cause::Clear),
            cpi_misfetch: cpi(Cause::Misfetch),
            cpi_icache: cpi(Cause::Icache),
            cpi_itlb: cpi(Cause::Itlb),
            cpi_fetch: cpi(Cause::Fetch),
            cpi_execute: cpi(Cause::Execute),
            cpi_divider: cpi(Cause::Divider),
            cpi_ports: cpi(Cause::Ports),
            cpi_l1: cpi(Cause::L1),
            cpi_l2: cpi(Cause::L2),
            cpi_llc: cpi(Cause::Llc),
            cpi_peer: cpi(Cause::Peer),
            cpi_dram: cpi(Cause::Dram),
            cpi_dtlb: cpi(Cause::Dtlb),
            cpi_store: cpi(Cause::Store),
            cpi_serialise: cpi(Cause::Serialise),
            cpi_device: cpi(Cause::Device),
            cpi_idle: cpi(Cause::Idle),
        }
    }

    /// Whether saved accounts are consistent and match this configuration.
    pub(crate) fn is_compatible(&self, fresh: &Accounts) -> bool {
        let slots =
            self.slots.0.iter().copied().map(u128::from).sum::<u128>() + u128::from(self.fetch_bandwidth);
        let slots_are_sound = match (&self.log, &fresh.log) {
            (None, None) => slots == u128::from(self.width) * u128::from(self.open.number()),
            (Some(log), Some(_)) => log.ends_before(self.open),
            _ => false,
        };
        self.width == fresh.width
            && slots_are_sound
            && self.cpi.0.iter().copied().map(u128::from).sum::<u128>() == u128::from(self.committed.number())
            && u64::from(self.used) <= self.width
            && self.cleared <= self.used
    }
}
