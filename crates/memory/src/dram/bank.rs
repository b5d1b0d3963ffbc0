//! A bank: the rows that were, are and will be open in it.
//!
//! A row that is hit again long after its last command may stay open until then, but it need not: an access to another row that is
//! priced later and comes earlier closes it, and it is activated again in time. So a period ends with the last of its commands, and
//! another, which *continues* it, begins with the hit. A read that is booked far ahead holds up none that is near.

use serde::{Deserialize, Serialize};

/// After this many more rows, those that are past are dropped.
const PERIODS: usize = 12;
/// More rows are not accepted from a saved state.
const SAVED_MAX: usize = 1 << 16;
/// A row that nothing has closed yet.
pub(super) const OPEN: u64 = u64::MAX;

/// A row from its activation to its precharge. Times are clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Period {
    pub row: u64,
    pub activated: u64,
    /// The last column command.
    pub last: u64,
    /// The bank can be precharged from then on.
    pub ready: u64,
    /// The precharge; [`OPEN`] while none is booked.
    pub closed: u64,
    /// The row of the period before it is still open: that one's precharge and this one's activation are not booked, but there is
    /// time for both.
    pub continues: bool,
}

/// Clocks from a precharge to the activation, and from that to a column command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reopening {
    pub rp: u64,
    pub rcd: u64,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bank {
    /// In the order of time, never overlapping; only the last of a refresh interval can be [`OPEN`].
    periods: Vec<Period>,
    /// Whether rows are better closed, from 0 (no) to 3 (yes): for [`PagePolicy::Adaptive`](super::PagePolicy).
    pub tires: u8,
}

/// Greatest [`Bank::tires`].
pub(super) const TIRES_MAX: u8 = 3;

impl Bank {
    pub fn new() -> Bank {
        Bank { periods: Vec::with_capacity(PERIODS + 1), tires: 1 }
    }

    #[inline]
    pub fn periods(&self) -> &[Period] {
        &self.periods
    }

    #[inline]
    pub fn period_mut(&mut self, index: usize) -> &mut Period {
        &mut self.periods[index]
    }

    /// From when on the row of a period may take column commands.
    #[inline]
    pub fn open_from(&self, index: usize, rcd: u64) -> u64 {
        let open = if self.periods[index].continues { index.saturating_sub(1) } else { index };
        self.periods[open].activated + rcd
    }

    /// A column command in the row of a period, which can be precharged from `ready` on. Returns by how much that delays the booked
    /// precharge, and how many periods follow.
    pub fn hit(
        &mut self,
        mut index: usize,
        column: u64,
        ready: u64,
        clocks: Reopening,
        past: u64,
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
                return (ready.saturating_sub(closed), behind);
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
        (ready.saturating_sub(period.closed), self.periods.len() - 1 - index)
    }

    /// Whether the next period continues this one.
    pub fn continued(&self, index: usize) -> bool {
        self.periods.get(index + 1).is_some_and(|next| next.continues)
    }

    /// The next period, which continues this one, becomes a part of it.
    fn join(&mut self, index: usize) {
        let next = self.periods.remove(index + 1);
        let period = &mut self.periods[index];
        (period.last, period.ready, period.closed) =
            (period.last.max(next.last), period.ready.max(next.ready), next.closed);
    }

    /// The last row cannot be closed before `clocks` later than it could.
    pub fn delay_last(&mut self, clocks: u64) {
        if let Some(last) = self.periods.last_mut() {
            last.ready = (last.ready + clocks).min(last.closed);
        }
    }

    /// Puts a period at `index`. Of those that another had followed by `past` the oldest may be given up: a device's rows, which are
    /// booked far ahead, take away none that is near.
    pub fn insert(&mut self, index: usize, period: Period, past: u64) {
        self.periods.insert(index, period);
        if self.periods.len().is_multiple_of(PERIODS) {
            let begun = self.periods.partition_point(|period| period.activated <= past);
            let over = begun.saturating_sub(1).min(self.periods.len() - PERIODS);
            self.periods.drain(..over);
        }
    }

    /// Says what is wrong with a state that was read back.
    pub fn validate(&self) -> Result<(), String> {
        let sound = |p: &Period| {
            p.activated < p.last && p.last < p.ready && p.ready <= p.closed && p.ready <= super::CYCLE_MAX
        };
        let follows = |pair: &[Period]| {
            pair[0].activated < pair[1].activated && (!pair[1].continues || pair[0].row == pair[1].row)
        };
        let in_order = self.periods.windows(2).all(follows);
        let many = self.periods.len() > SAVED_MAX || self.tires > TIRES_MAX;
        if many || !in_order || !self.periods.iter().all(sound) {
            return Err("a bank's rows are out of order".to_owned());
        }
        Ok(())
    }
}
