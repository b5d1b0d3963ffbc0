//! One direction of the link: a transmitter that never idles while a packet is ready.
//!
//! The link prices a request when it is asked for, so it knows of packets that are not ready yet: a read's request that has to wait
//! for a tag, a completion whose lines memory has not given. A packet that is ready before such a one and finds the
//! direction free begins at once, and the later ones make way: they follow it, in their order, without a gap. So every
//! instant is given to one packet, and none is lost because a packet does not fit in front of another. A packet that makes
//! way has been told its time already, which is then too early, by one packet at most: the next one finds it ready, and older.

use std::collections::VecDeque;

use doorbell_sim::{BitsPerSec, Ps};
use serde::{Deserialize, Serialize};

use super::LATEST;

/// Stretches that are kept although they are over, for packets of cores whose time is behind the device's.
const PAST_STRETCHES: usize = 256;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Direction {
    /// Nothing can begin before.
    floor: Ps,
    /// When it is busy, in order, never touching each other.
    busy: VecDeque<(Ps, Ps)>,
}

impl Direction {
    /// Sends a packet of `bytes`, of which is known from `now` on that it is ready at `ready`: when its first byte leaves, and its last.
    #[inline]
    pub fn send(&mut self, now: Ps, ready: Ps, bytes: u64, rate: BitsPerSec) -> (Ps, Ps) {
        while self.busy.len() > PAST_STRETCHES && self.busy[0].1 <= now {
            self.floor = self.busy[0].1;
            self.busy.pop_front();
        }
        let time = rate.time_for_bits(8 * bytes);
        let begin = self.book(ready.max(self.floor).min(LATEST), time);
        (begin, begin + time)
    }

    #[inline]
    fn book(&mut self, ready: Ps, time: Ps) -> Ps {
        // Most packets come behind everything, or while the last stretch is under way.
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

    /// Books what is ready before the last stretch.
    fn book_before(&mut self, ready: Ps, time: Ps) -> Ps {
        // The first stretch that is not over, or is just over.
        let mut index = self.busy.partition_point(|stretch| stretch.1 < ready);
        let begin = match self.busy.get_mut(index) {
            Some(stretch) if stretch.0 <= ready => {
                let begin = stretch.1;
                stretch.1 = begin + time;
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
        // What would have begun meanwhile makes way.
        while let Some((from, to)) = self.busy.get(index).copied().filter(|next| next.0 <= end) {
            end += to - from;
            index += 1;
        }
        self.busy[grown].1 = end;
        self.busy.drain(grown + 1..index);
        begin
    }

    /// Picoseconds for which it is booked behind a moment.
    pub fn behind(&self, at: Ps) -> u64 {
        let over = self.busy.partition_point(|stretch| stretch.1 <= at);
        self.busy.iter().skip(over).map(|(from, to)| (*to - at.max(*from)).0).sum()
    }

    /// Whether a saved one is possible.
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
    fn a_packet_goes_when_the_direction_is_free_and_later_ones_make_way() {
        let mut link = Direction::default();
        let mut send = |ready, bytes| link.send(Ps::ZERO, ns(ready), bytes, RATE).0;
        assert_eq!(send(100, 24), ns(100));
        assert_eq!(send(200, 24), ns(200));
        assert_eq!(send(90, 280), ns(90), "although only 10 are free: both others follow, until 418");
        assert_eq!(send(95, 24), ns(418), "behind those that had been ready before it could go");
        assert_eq!(send(442, 10), ns(442), "just behind");
        assert_eq!(send(10, 80), ns(10), "up to the first");
        assert_eq!(send(10, 1), ns(452), "all is one stretch");
        assert_eq!(link.busy, [(ns(10), ns(453))]);
        assert_eq!([0, 10, 450, 453].map(|at| link.behind(ns(at))), [443_000, 443_000, 3_000, 0]);
    }

    #[test]
    fn every_instant_is_sold_once_and_none_is_left_over_while_a_packet_waits() {
        let mut rng = Rng::stream(1, "direction");
        let mut link = Direction::default();
        let (mut asked, mut last) = (Vec::new(), Ps::ZERO);
        for step in 0..3_000u64 {
            let now = ns(40 * step);
            let (ready, bytes) = (now + ns(rng.below(2_000)), 1 + rng.below(60));
            let (begin, end) = link.send(now, ready, bytes, RATE);
            assert!(begin >= ready);
            asked.push((ready, ns(bytes)));
            last = last.max(end);
        }
        assert!(link.is_consistent());
        // All packets, in the order in which they were ready, through a transmitter that knows nothing beforehand.
        asked.sort_unstable();
        let (mut end, mut stretches) = (Ps::ZERO, Vec::<(Ps, Ps)>::new());
        for (ready, time) in asked {
            match stretches.last_mut().filter(|last| last.1 >= ready) {
                Some(last) => last.1 += time,
                None => stretches.push((ready, ready + time)),
            }
            end = stretches.last().unwrap().1;
        }
        assert!(end >= last);
        assert_eq!(stretches[stretches.len() - link.busy.len()..], *link.busy.make_contiguous());
    }

    #[test]
    fn what_is_over_is_forgotten_but_not_what_comes() {
        let mut link = Direction::default();
        for step in 0..1_000 {
            link.send(Ps::ZERO, ns(2_000 + 2 * step), 1, RATE);
        }
        assert_eq!(
            (link.busy.len(), link.floor),
            (1_000, Ps::ZERO),
            "a thousand packets that are not ready yet"
        );
        assert_eq!(link.send(ns(10), ns(10), 1, RATE).0, ns(10), "hold back none that is");
        link.send(ns(10_000), ns(10_000), 1, RATE);
        assert_eq!(link.busy.len(), PAST_STRETCHES + 1);
        assert_eq!(link.send(ns(10_000), ns(10), 1, RATE).0, link.floor);
    }

    #[test]
    fn a_damaged_one_is_refused() {
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
