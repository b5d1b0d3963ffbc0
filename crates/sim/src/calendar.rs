//! Bookings of a resource that serves one request at a time: a bus, a port, a bank, a direction of a link.
//!
//! An out-of-order core asks for resources at times that do not grow steadily. A calendar therefore keeps the gaps
//! between bookings, and a request takes the first gap that is long enough, so that an early request that is asked for
//! late is not queued behind later ones.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::time::Ps;

/// Stretches kept apart. When there are more, the oldest gap is given up.
const STRETCHES_MAX: usize = 64;

/// See the module. Its times are of whatever unit the owner chooses: [`Ps`] by these functions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calendar {
    /// Nothing can be booked before.
    floor: u64,
    /// Booked stretches after the floor, in order, never touching each other.
    busy: VecDeque<(u64, u64)>,
    /// The sum of all bookings ever made.
    booked: u64,
}

impl Calendar {
    /// Books `length` at `from`, or in the first gap after. Returns when it begins.
    pub fn book(&mut self, from: Ps, length: Ps) -> Ps {
        Ps(self.book_raw(from.0, length.0))
    }

    /// When a booking of `length` from `from` would begin.
    pub fn first_gap(&self, from: Ps, length: Ps) -> Ps {
        Ps(self.find(from.0, length.0).0)
    }

    /// The sum of all bookings.
    pub fn booked(&self) -> Ps {
        Ps(self.booked)
    }

    /// When the last booking ends.
    pub fn end(&self) -> Ps {
        Ps(self.busy.back().map_or(self.floor, |last| last.1))
    }

    /// The same in the owner's own unit of time.
    #[inline]
    pub fn book_raw(&mut self, from: u64, length: u64) -> u64 {
        self.booked += length;
        match self.busy.back() {
            // Most come behind all others, where there is room.
            Some(last) if last.1 < from && length > 0 => {
                self.busy.push_back((from, from.saturating_add(length)));
                self.give_up_oldest();
                from
            }
            _ => self.book_between(from, length),
        }
    }

    /// Gives the oldest gap up if there are too many.
    #[inline]
    fn give_up_oldest(&mut self) {
        if self.busy.len() > STRETCHES_MAX
            && let Some((_, end)) = self.busy.pop_front()
        {
            self.floor = end;
        }
    }

    fn book_between(&mut self, from: u64, length: u64) -> u64 {
        let (start, index) = self.find(from, length);
        let end = start.saturating_add(length);
        // What touches its neighbours grows them.
        let joins_before = index > 0 && self.busy[index - 1].1 == start;
        let joins_after = self.busy.get(index).is_some_and(|next| next.0 == end);
        match (joins_before, joins_after) {
            (true, true) => {
                self.busy[index - 1].1 = self.busy[index].1;
                self.busy.remove(index);
            }
            (true, false) => self.busy[index - 1].1 = end,
            (false, true) => self.busy[index].0 = start,
            (false, false) if length > 0 => self.busy.insert(index, (start, end)),
            (false, false) => {}
        }
        self.give_up_oldest();
        start
    }

    /// Where a booking begins, and before which stretch it comes.
    fn find(&self, from: u64, length: u64) -> (u64, usize) {
        let from = from.max(self.floor);
        // Most requests come behind everything, or nearly so.
        let mut index = self.busy.len();
        while index > 0 && self.busy[index - 1].1 > from {
            index -= 1;
        }
        let mut start = from;
        while let Some((busy_from, busy_to)) = self.busy.get(index) {
            if busy_from.saturating_sub(start) >= length && *busy_from >= start {
                break;
            }
            start = *busy_to;
            index += 1;
        }
        (start, index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn an_early_request_takes_the_first_gap_that_is_long_enough() {
        let mut calendar = Calendar::default();
        assert_eq!(calendar.book_raw(100, 10), 100);
        assert_eq!(calendar.book_raw(100, 10), 110, "behind the first");
        assert_eq!(calendar.book_raw(50, 20), 50, "before both");
        assert_eq!(calendar.book_raw(60, 31), 120, "the gap from 70 to 100 is one too short");
        assert_eq!(calendar.book_raw(60, 30), 70, "and just long enough");
        assert_eq!(calendar.book_raw(0, 1), 0);
        assert_eq!(calendar.end(), Ps(151));
        assert_eq!(calendar.booked(), Ps(102));
    }

    #[test]
    fn no_two_bookings_overlap_and_none_is_later_than_need_be() {
        let mut rng = Rng::stream(1, "calendar");
        let mut calendar = Calendar::default();
        let mut taken = vec![false; 40_000];
        for step in 0..1_000u64 {
            let (from, length) = (step * 20 + rng.below(400), 1 + rng.below(20));
            let free = |start: u64| (start..start + length).all(|at| !taken[at as usize]);
            let expected = (from.max(calendar.floor)..).find(|start| free(*start)).expect("there is room");
            let start = calendar.book_raw(from, length);
            assert_eq!(start, expected, "step {step}");
            taken[start as usize..(start + length) as usize].fill(true);
        }
    }
}
