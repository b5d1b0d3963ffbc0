//! A bank: the rows that were, are and will be open in it.

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
        let in_order = self.periods.windows(2).all(|pair| pair[0].activated < pair[1].activated);
        let many = self.periods.len() > SAVED_MAX || self.tires > TIRES_MAX;
        if many || !in_order || !self.periods.iter().all(sound) {
            return Err("a bank's rows are out of order".to_owned());
        }
        Ok(())
    }
}
