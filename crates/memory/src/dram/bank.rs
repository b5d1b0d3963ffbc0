//! A bank: its past, current and future open rows.
//!
//! A row that is hit again long after its last command may stay open until then, but need not: an access to
//! another row that is timed later and comes earlier closes it, and the row is reactivated in time for the
//! hit. So a period ends with its last command, and the late hit starts another period, which *continues* the
//! first. A read booked far ahead thus delays no earlier access.

use serde::{Deserialize, Serialize};

use super::DramCycle;

/// Past rows are dropped each time the number of rows reaches a multiple of this.
const PERIODS: usize = 12;
/// Limit of rows accepted from a saved state.
const SAVED_MAX: usize = 1 << 16;
/// No precharge is booked.
pub(super) const OPEN: DramCycle = DramCycle::MAX;

/// A row from its activation to its precharge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Period {
    pub row: u64,
    pub activated: DramCycle,
    /// Last column command.
    pub last: DramCycle,
    /// Earliest precharge.
    pub ready: DramCycle,
    /// Booked precharge, or [`OPEN`].
    pub closed: DramCycle,
    /// The row of the previous period is still open: its precharge and this activation are not booked, but
    /// there is time for both.
    pub continues: bool,
}

/// Clocks from a precharge to the activation, and from the activation to a column command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reopening {
    pub rp: u64,
    pub rcd: u64,
}

/// A bank; see the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bank {
    /// In time order, without overlap; only the last one of a refresh interval can be [`OPEN`].
    periods: Vec<Period>,
    /// Saturating counter for [`PagePolicy::Adaptive`](super::PagePolicy): idle rows are closed early if it
    /// exceeds half its maximum.
    #[serde(rename = "tires")]
    pub close_bias: u8,
}

/// Maximum of [`Bank::close_bias`].
pub(super) const CLOSE_BIAS_MAX: u8 = 3;

impl Bank {
    pub fn new() -> Bank {
        Bank { periods: Vec::with_capacity(PERIODS + 1), close_bias: 1 }
    }

    #[inline]
    pub fn periods(&self) -> &[Period] {
        &self.periods
    }

    #[inline]
    pub fn period_mut(&mut self, index: usize) -> &mut Period {
        &mut self.periods[index]
    }

    /// First cycle at which the row of a period can take column commands.
    #[inline]
    pub fn open_from(&self, index: usize, rcd: u64) -> DramCycle {
        let open = if self.periods[index].continues { index.saturating_sub(1) } else { index };
        self.periods[open].activated + rcd
    }

    /// Books a column command in the row of a period, after which the bank can be precharged from `ready` on.
    /// Returns the delay of the booked precharge, and the number of later periods.
    pub fn hit(
        &mut self,
        mut index: usize,
        column: DramCycle,
        ready: DramCycle,
        clocks: Reopening,
        past: DramCycle,
    ) -> (u64, usize) {
        let Reopening { rp, rcd } = clocks;
        let Period { row, ready: could_close, closed, .. } = self.periods[index];
        if column >= could_close + rp + rcd {
            if !self.continued(index) || ready <= closed {
                let activated = column - rcd;
                self.periods[index].closed = activated - rp;
                let behind = self.periods.len() - 1 - index;
                let next = Period {
                    row,
                    activated,
                    last: column,
                    ready: ready.min(closed),
                    closed,
                    continues: true,
                };
                self.insert(index + 1, next, past);
                return (ready.since(closed), behind);
            }
            index += 1;
        }
        let period = &mut self.periods[index];
        if period.continues && index > 0 && column < period.activated + rcd {
            period.activated = column - rcd;
            let closed = period.activated.saturating_sub(rp);
            let before = &mut self.periods[index - 1];
            before.closed = closed;
            if closed < before.ready {
                index -= 1;
                self.join(index);
            }
        }
        if self.continued(index) && ready > self.periods[index].closed {
            self.join(index);
        }
        let period = &mut self.periods[index];
        period.last = period.last.max(column);
        period.ready = period.ready.max(ready).min(period.closed);
        (ready.since(period.closed), self.periods.len() - 1 - index)
    }

    /// Whether the next period continues this one.
    pub fn continued(&self, index: usize) -> bool {
        self.periods.get(index + 1).is_some_and(|next| next.continues)
    }

    /// Merges the next period, which continues this one, into it.
    fn join(&mut self, index: usize) {
        let next = self.periods.remove(index + 1);
        let period = &mut self.periods[index];
        (period.last, period.ready, period.closed) =
            (period.last.max(next.last), period.ready.max(next.ready), next.closed);
    }

    /// Delays the earliest precharge of the last row by `clocks`.
    pub fn delay_last(&mut self, clocks: u64) {
        if let Some(last) = self.periods.last_mut() {
            last.ready = (last.ready + clocks).min(last.closed);
        }
    }

    /// Inserts a period at `index`. Old periods that were followed by another one before `past` may be
    /// dropped. A device's rows, booked far ahead, never displace near ones.
    pub fn insert(&mut self, index: usize, period: Period, past: DramCycle) {
        self.periods.insert(index, period);
        if self.periods.len().is_multiple_of(PERIODS) {
            let begun = self.periods.partition_point(|period| period.activated <= past);
            let over = begun.saturating_sub(1).min(self.periods.len() - PERIODS);
            self.periods.drain(..over);
        }
    }

    /// Checks a restored state.
    pub fn validate(&self) -> Result<(), String> {
        let sound = |p: &Period| {
            p.activated < p.last && p.last < p.ready && p.ready <= p.closed && p.ready <= super::CYCLE_MAX
        };
        let follows = |pair: &[Period]| {
            pair[0].activated < pair[1].activated && (!pair[1].continues || pair[0].row == pair[1].row)
        };
        let in_order = self.periods.windows(2).all(follows);
        let many = self.periods.len() > SAVED_MAX || self.close_bias > CLOSE_BIAS_MAX;
        if many || !in_order || !self.periods.iter().all(sound) {
            return Err("a bank's rows are out of order".to_owned());
        }
        Ok(())
    }
}
