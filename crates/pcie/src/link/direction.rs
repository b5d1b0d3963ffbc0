//! One direction of the link: a transmitter that never idles while a packet is ready.
//!
//! The link times a request when it is issued, so it has packets that are not ready yet: a read request that
//! waits for a tag, or a completion whose lines are still in memory. A packet that is ready earlier and finds
//! the direction free starts at once, and the later packets follow it in their order, without a gap. Every
//! instant thus carries one packet, and no time is lost because a packet does not fit before another one. The
//! time already returned for a delayed packet is then too early, by at most one packet: the next packet is
//! queued after it.

use std::collections::VecDeque;

use doorbell_sim::{BitsPerSec, Ps};
use serde::{Deserialize, Serialize};

use super::LATEST;

/// Past intervals kept for packets of cores that are behind the device's time.
const PAST_INTERVALS: usize = 256;

/// One direction; see the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Direction {
    /// Earliest possible start of a packet.
    floor: Ps,
    /// Busy intervals, in order, with gaps between them.
    busy: VecDeque<(Ps, Ps)>,
}

impl Direction {
    /// Sends a packet of `bytes` that was issued at `now` and is ready at `ready`. Returns the times of its
    /// first and last byte.
    #[inline]
    pub fn send(&mut self, now: Ps, ready: Ps, bytes: u64, rate: BitsPerSec) -> (Ps, Ps) {
        while self.busy.len() > PAST_INTERVALS && self.busy[0].1 <= now {
            self.floor = self.busy[0].1;
            self.busy.pop_front();
        }
        let time = rate.time_for_bits(8 * bytes);
        let begin = self.book(ready.max(self.floor).min(LATEST), time);
        (begin, begin + time)
    }

    #[inline]
    fn book(&mut self, ready: Ps, time: Ps) -> Ps {
        // Most packets start after all others, or during the last interval.
        match self.busy.back_mut() {
            Some(last) if ready < last.0 => self.book_before(ready, time),
            Some(last) if ready <= last.1 => {
                let begin = last.1;
                last.1 = begin + time;
                begin
            }
            _ => {
                self.busy.push_back((ready, ready + time));
                ready
            }
        }
    }

    /// Books a packet that is ready before the last interval.
    fn book_before(&mut self, ready: Ps, time: Ps) -> Ps {
        // The first interval that ends at or after `ready`.
        let mut index = self.busy.partition_point(|interval| interval.1 < ready);
        let begin = match self.busy.get_mut(index) {
            Some(interval) if interval.0 <= ready => {
                let begin = interval.1;
                interval.1 = begin + time;
                begin
            }
            _ => {
                self.busy.insert(index, (ready, ready + time));
                ready
            }
        };
        let mut end = begin + time;
        let grown = index;
        index += 1;
        // Later intervals that would overlap are delayed.
        while let Some((from, to)) = self.busy.get(index).copied().filter(|next| next.0 <= end) {
            end += to - from;
            index += 1;
        }
        self.busy[grown].1 = end;
        self.busy.drain(grown + 1..index);
        begin
    }

    /// Picoseconds booked after `at`.
    pub fn booked_after(&self, at: Ps) -> u64 {
        let over = self.busy.partition_point(|interval| interval.1 <= at);
        self.busy.iter().skip(over).map(|(from, to)| (*to - at.max(*from)).0).sum()
    }

    /// Whether a saved state is valid.
    pub fn is_consistent(&self) -> bool {
        let mut last = self.floor;
        self.busy.iter().enumerate().all(|(index, (from, to))| {
            let follows = *from > last || index == 0 && *from == last;
            last = *to;
            follows && from < to && *to <= LATEST
        }) && self.floor <= LATEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_sim::rng::Rng;

    /// A byte takes a nanosecond.
    const RATE: BitsPerSec = BitsPerSec(8_000_000_000);

    fn ns(ns: u64) -> Ps {
        Ps::from_ns(ns)
    }

    #[test]
    fn a_packet_starts_when_the_direction_is_free_and_delays_later_ones() {
        let mut link = Direction::default();
        let mut send = |ready, bytes| link.send(Ps::ZERO, ns(ready), bytes, RATE).0;
        assert_eq!(send(100, 24), ns(100));
        assert_eq!(send(200, 24), ns(200));
        assert_eq!(send(90, 280), ns(90), "only 10 ns are free: both others follow it, until 418");
        assert_eq!(send(95, 24), ns(418), "after the packets that became ready before it could start");
        assert_eq!(send(442, 10), ns(442), "immediately after");
        assert_eq!(send(10, 80), ns(10), "ends where the first starts");
        assert_eq!(send(10, 1), ns(452), "all is one interval");
        assert_eq!(link.busy, [(ns(10), ns(453))]);
        assert_eq!([0, 10, 450, 453].map(|at| link.booked_after(ns(at))), [443_000, 443_000, 3_000, 0]);
    }

    #[test]
    fn every_instant_carries_one_packet_and_none_is_idle_while_a_packet_waits() {
        let mut rng = Rng::stream(1, "direction");
        let mut link = Direction::default();
        let (mut packets, mut last) = (Vec::new(), Ps::ZERO);
        for step in 0..3_000u64 {
            let now = ns(40 * step);
            let (ready, bytes) = (now + ns(rng.below(2_000)), 1 + rng.below(60));
            let (begin, end) = link.send(now, ready, bytes, RATE);
            assert!(begin >= ready);
            packets.push((ready, ns(bytes)));
            last = last.max(end);
        }
        assert!(link.is_consistent());
        // Reference: all packets in the order in which they become ready, through a transmitter without
        // advance information.
        packets.sort_unstable();
        let (mut end, mut intervals) = (Ps::ZERO, Vec::<(Ps, Ps)>::new());
        for (ready, time) in packets {
            match intervals.last_mut().filter(|last| last.1 >= ready) {
                Some(last) => last.1 += time,
                None => intervals.push((ready, ready + time)),
            }
            end = intervals.last().unwrap().1;
        }
        assert!(end >= last);
        assert_eq!(intervals[intervals.len() - link.busy.len()..], *link.busy.make_contiguous());
    }

    #[test]
    fn past_intervals_are_dropped_but_not_future_ones() {
        let mut link = Direction::default();
        for step in 0..1_000 {
            link.send(Ps::ZERO, ns(2_000 + 2 * step), 1, RATE);
        }
        assert_eq!((link.busy.len(), link.floor), (1_000, Ps::ZERO), "a thousand packets are not ready yet");
        assert_eq!(link.send(ns(10), ns(10), 1, RATE).0, ns(10), "they do not delay a packet that is ready");
        link.send(ns(10_000), ns(10_000), 1, RATE);
        assert_eq!(link.busy.len(), PAST_INTERVALS + 1);
        assert_eq!(link.send(ns(10_000), ns(10), 1, RATE).0, link.floor);
    }

    #[test]
    fn an_invalid_state_is_rejected() {
        let with = |floor, busy: &[(u64, u64)]| Direction {
            floor: ns(floor),
            busy: busy.iter().map(|(from, to)| (ns(*from), ns(*to))).collect(),
        };
        for good in [with(0, &[]), with(5, &[(5, 6), (7, 9)])] {
            assert!(good.is_consistent());
        }
        let late = LATEST.0 / 1000 + 1;
        for bad in [
            with(6, &[(5, 6)]),
            with(0, &[(5, 5)]),
            with(0, &[(5, 6), (6, 7)]),
            with(0, &[(5, 6), (4, 7)]),
            with(0, &[(5, late)]),
            with(late, &[]),
        ] {
            assert!(!bad.is_consistent(), "{bad:?}");
        }
    }
}
