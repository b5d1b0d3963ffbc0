//! The books: every dispatch slot and every cycle of commit has exactly one cause.
//!
//! *Slots* follow the top-down method (Yasin 2014), made exact: between two dispatches an empty slot belongs to bad
//! speculation until the first op of the right path could have been dispatched, then to the front end until the op was there,
//! then to the back end; what the oldest op in flight waits for in that cycle names the back end's cause. Slots of the
//! cycle in which ops are still being dispatched are not in the books yet.
//!
//! *The CPI stack* takes a cycle with a commit as base and gives each other cycle to what the next op to commit was
//! doing: on its way through the front end (for the same causes), or executing.

use serde::{Deserialize, Serialize};

use crate::saved::{Cycles, cycle};
use crate::settle::SlotLog;
use crate::stats::{Books, Cause};

/// What delayed an op's dispatch: three stretches, each ending where the next begins.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bubble {
    /// Until this cycle because of `bad`.
    pub(crate) bad_until: u64,
    pub(crate) bad: Cause,
    /// Then until this cycle because of `front`.
    pub(crate) front_until: u64,
    pub(crate) front: Cause,
    /// Then because of this, or of what the oldest op waits for.
    pub(crate) back: Option<Cause>,
}

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Accounts {
    pub(crate) width: u64,
    pub(crate) slots: Cycles<{ Cause::COUNT }>,
    pub(crate) fetch_bandwidth: u64,
    cpi: Cycles<{ Cause::COUNT }>,
    /// The cycle in which ops are being dispatched.
    #[serde(deserialize_with = "cycle")]
    pub(crate) open: u64,
    /// Ops dispatched in it, and of them those that were thrown away.
    used: u32,
    cleared: u32,
    /// The commit cycle of the last op.
    #[serde(deserialize_with = "cycle")]
    committed: u64,
    /// Of a thread: what became of the core's slots is settled with the other one.
    pub(crate) log: Option<Box<SlotLog>>,
}

impl Accounts {
    pub(crate) fn new(width: u32) -> Accounts {
        Accounts {
            width: u64::from(width),
            slots: Cycles::default(),
            fetch_bandwidth: 0,
            cpi: Cycles::default(),
            open: 0,
            used: 0,
            cleared: 0,
            committed: 0,
            log: None,
        }
    }

    /// Those of one of two threads.
    pub(crate) fn of_thread(self) -> Accounts {
        Accounts { log: Some(Box::default()), ..self }
    }

    /// An op is dispatched in cycle `at`; `bubble` says what delayed it, if anything did. `oldest` says what the
    /// oldest op in flight waits for in a cycle, and until when.
    #[inline(always)]
    pub(crate) fn dispatch(
        &mut self,
        at: u64,
        bubble: impl FnOnce() -> Bubble,
        oldest: impl FnMut(u64) -> (Cause, u64),
    ) {
        if at > self.open {
            self.close(at, &bubble(), oldest);
        }
        self.used += 1;
    }

    /// The op dispatched last will be dispatched again.
    pub(crate) fn clear(&mut self) {
        self.cleared += 1;
    }

    #[inline]
    fn close(&mut self, at: u64, bubble: &Bubble, mut oldest: impl FnMut(u64) -> (Cause, u64)) {
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

    /// The open cycle's ops enter the books, and cycle `at` is open.
    #[inline]
    fn begin(&mut self, at: u64) {
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

    /// The empty slots from one cycle to another.
    #[inline]
    fn empty(&mut self, cause: Cause, from: u64, to: u64) {
        if let Some(log) = &mut self.log {
            let used = if from == self.open { self.used } else { 0 };
            return log.empty(cause, (from, to), [used, self.cleared]);
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

    /// An op, dispatched at `dispatched`, commits at `at`; `tail` cycles lie between the two at least.
    #[inline(always)]
    pub(crate) fn commit(
        &mut self,
        at: u64,
        dispatched: u64,
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

    /// The cycles between two commits, the second not possible before `earliest`.
    fn stall(&mut self, at: u64, earliest: u64, tail: u64, bubble: &Bubble, own: Cause) {
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

    /// Nothing happens until `cycle`: up to the last commit because older ops drain, then there is nothing to do, or nobody says when it is
    /// done.
    pub(crate) fn pass(&mut self, cycle: u64, then: Cause) {
        if cycle <= self.committed {
            return;
        }
        self.rest(cycle, then);
        self.cpi.0[then as usize] += cycle - self.committed;
        self.committed = cycle;
    }

    /// No op is dispatched until `cycle`: of the slots the same.
    pub(crate) fn rest(&mut self, cycle: u64, then: Cause) {
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
            cycles: self.committed - cpi(Cause::Untimed),
            slot_cycles: self.log.as_ref().map_or(self.open - untimed, |log| log.timed()),
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

    /// Whether saved books are of this kind and agree with themselves.
    pub(crate) fn fits(&self, fresh: &Accounts) -> bool {
        let slots =
            self.slots.0.iter().copied().map(u128::from).sum::<u128>() + u128::from(self.fetch_bandwidth);
        let slots_are_sound = match (&self.log, &fresh.log) {
            (None, None) => slots == u128::from(self.width) * u128::from(self.open),
            (Some(log), Some(_)) => log.ends_before(self.open),
            _ => false,
        };
        self.width == fresh.width
            && slots_are_sound
            && self.cpi.0.iter().copied().map(u128::from).sum::<u128>() == u128::from(self.committed)
            && u64::from(self.used) <= self.width
            && self.cleared <= self.used
    }
}
