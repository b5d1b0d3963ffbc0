//! Booking calendar of a resource that serves one request at a time: a bus, a port, a bank, a link direction.
//!
//! An out-of-order core requests resources at times that are not monotonic. A calendar therefore keeps the
//! gaps between bookings, and a request takes the first gap that is long enough. An early request made late
//! is thus not queued behind later ones.
//!
//! Device requests are booked when issued, so bookings may be tens of microseconds in the future. A calendar
//! keeps all of them until its owner declares them past ([`Calendar::forget_before`]). A request earlier than
//! the kept bookings may start too early, never too late; [`Calendar::late`] counts these.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::time::Ps;

/// Number of past intervals that are kept.
const INTERVALS_KEPT: usize = 64;

/// See the module. The owner chooses the unit of time; it is [`Ps`] in [`book`](Calendar::book) and
/// [`end`](Calendar::end).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calendar {
    /// The end of the last interval that was dropped.
    floor: u64,
    /// Booked intervals, sorted, never adjacent.
    busy: VecDeque<(u64, u64)>,
    /// The sum of all bookings ever made.
    booked: u64,
    late: u64,
}

impl Calendar {
    /// Books `length` at `from` or in the first sufficient gap after it. Returns the start time.
    pub fn book(&mut self, from: Ps, length: Ps) -> Ps {
        Ps(self.book_raw(from.0, length.0))
    }

    /// Start time that a booking of `length` from `from` would get.
    pub fn first_gap(&self, from: u64, length: u64) -> u64 {
        self.find(from, length).0
    }

    /// Total length of all bookings.
    pub fn booked(&self) -> u64 {
        self.booked
    }

    /// End of the last booking.
    pub fn end(&self) -> Ps {
        Ps(self.busy.back().map_or(self.floor, |last| last.1))
    }

    /// Like [`book`](Calendar::book), in the owner's unit of time.
    #[inline]
    pub fn book_raw(&mut self, from: u64, length: u64) -> u64 {
        self.booked += length;
        match self.busy.back() {
            // Most bookings are later than all others.
            Some(last) if last.1 < from && length > 0 => {
                self.busy.push_back((from, from.saturating_add(length)));
                from
            }
            _ => self.book_between(from, length),
        }
    }

    /// Whether past intervals may be dropped.
    #[inline]
    pub fn is_long(&self) -> bool {
        self.busy.len() > INTERVALS_KEPT
    }

    /// Drops intervals that ended by `past`; few later requests are for an earlier time.
    #[inline]
    pub fn forget_before(&mut self, past: u64) {
        while self.is_long() && self.busy[0].1 <= past {
            self.floor = self.busy[0].1;
            self.busy.pop_front();
        }
    }

    /// Requests earlier than the kept bookings, which may have started too early.
    pub fn late(&self) -> u64 {
        self.late
    }

    fn book_between(&mut self, from: u64, length: u64) -> u64 {
        self.late += u64::from(from < self.floor);
        let (start, index) = self.find(from, length);
        let end = start.saturating_add(length);
        // Merges with adjacent intervals.
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
        start
    }

    /// Start of a booking and the index of the interval after it.
    fn find(&self, from: u64, length: u64) -> (u64, usize) {
        // Most requests are later than all or nearly all bookings.
        let mut index = self.busy.len();
        while index > 0 && self.busy[index - 1].1 > from {
            index -= 1;
            if index + INTERVALS_KEPT / 4 < self.busy.len() {
                index = self.busy.partition_point(|interval| interval.1 <= from);
            }
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
        assert_eq!(calendar.book_raw(100, 10), 110, "after the first");
        assert_eq!(calendar.book_raw(50, 20), 50, "before both");
        assert_eq!(calendar.book_raw(60, 31), 120, "the gap from 70 to 100 is too short by one");
        assert_eq!(calendar.book_raw(60, 30), 70, "exactly long enough");
        assert_eq!(calendar.book_raw(0, 1), 0);
        assert_eq!(calendar.end(), Ps(151));
        assert_eq!(calendar.booked(), 102);
    }

    #[test]
    fn bookings_do_not_overlap_and_start_as_early_as_possible() {
        let mut rng = Rng::stream(1, "calendar");
        let mut calendar = Calendar::default();
        let mut taken = vec![false; 40_000];
        for step in 0..1_000u64 {
            let (from, length) = (step * 20 + rng.below(400), 1 + rng.below(20));
            let free = |start: u64| (start..start + length).all(|at| !taken[at as usize]);
            let expected = (from..).find(|start| free(*start)).expect("there is room");
            let start = calendar.book_raw(from, length);
            assert_eq!(start, expected, "step {step}");
            taken[start as usize..(start + length) as usize].fill(true);
            calendar.forget_before(step * 20);
        }
        assert!(calendar.floor > 0 && calendar.late() == 0);
    }

    #[test]
    fn far_future_bookings_do_not_delay_near_requests() {
        let mut rng = Rng::stream(2, "calendar");
        let mut calendar = Calendar::default();
        let mut taken = vec![false; 400_000];
        let mut far = 0;
        for step in 0..3_000u64 {
            let now = step * 20;
            far = far.max(now) + rng.below(100);
            let from = if rng.below(3) == 0 { now + rng.below(50) } else { far };
            let length = 1 + rng.below(20);
            let free = |start: u64| (start..start + length).all(|at| !taken[at as usize]);
            let expected = (from..).find(|start| free(*start)).expect("there is room");
            assert_eq!(calendar.first_gap(from, length), expected, "step {step}");
            assert_eq!(calendar.book_raw(from, length), expected, "step {step}");
            taken[expected as usize..(expected + length) as usize].fill(true);
            calendar.forget_before(now);
        }
        assert!(far > 80_000 && calendar.busy.len() > INTERVALS_KEPT && calendar.late() == 0);
    }

    #[test]
    fn request_before_kept_bookings_is_counted_and_not_delayed() {
        let mut calendar = Calendar::default();
        for step in 0..100 {
            calendar.book_raw(20 * step, 10);
        }
        calendar.forget_before(10_000);
        assert_eq!((calendar.busy.len(), calendar.floor), (INTERVALS_KEPT, 710));
        assert_eq!((calendar.book_raw(5, 10), calendar.late()), (5, 1));
        assert_eq!(
            (calendar.book_raw(720, 10), calendar.late()),
            (730, 1),
            "kept bookings still delay requests"
        );
    }
}
