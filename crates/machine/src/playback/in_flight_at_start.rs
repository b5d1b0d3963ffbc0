//! Number of operations in flight when a trace began: descriptor fetches, or data reads, requested before it
//! and used in it.
//!
//! If all requests complete at some time, event order is enough: the number is the largest excess of uses
//! over requests in the trace. With a polling program this may never happen, as it issues the next request
//! before the last one completes. But its instructions serve as a clock: the program never sleeps, and each
//! device write records its duration and the instructions executed meanwhile. So a request completes its
//! recorded duration after it was issued.

use std::collections::{BTreeMap, VecDeque};

use doorbell_sim::Ps;
use doorbell_trace::system::{DeviceEvent, Dma};

use super::pairs::ASLEEP;

/// Mean time per instruction of a hart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InstructionClock {
    took: Ps,
    instructions: u64,
    sleeps: bool,
}

impl InstructionClock {
    /// Records an event of the only hart.
    pub fn note(&mut self, event: &DeviceEvent) {
        self.sleeps |= event.since >= ASLEEP;
    }

    /// Records a device write.
    pub fn note_write(&mut self, event: &DeviceEvent, dma: &Dma) {
        if dma.visible > event.after {
            // Saturates, as the values of a trace are not trusted.
            self.took = Ps(self.took.0.saturating_add(dma.took.0));
            self.instructions = self.instructions.saturating_add(dma.visible - event.after);
        }
    }

    /// Time of an event, if the hart's instructions serve as a clock.
    pub fn time(&self, event: &DeviceEvent) -> Option<Ps> {
        if self.sleeps || self.took == Ps::ZERO {
            return None;
        }
        let passed = u128::from(event.after) * u128::from(self.took.0) / u128::from(self.instructions);
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        Some(Ps(passed.saturating_add(event.since.0)))
    }
}

/// Estimate of the number of operations in flight at the start of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InFlightAtStart {
    /// Requests: number of the last operation, and completion time.
    requested: VecDeque<(u64, Option<Ps>)>,
    arrived: u64,
    /// Number of votes per estimate. Each interval between completions casts one vote: for the maximum excess
    /// of uses over completions in it, as operations complete in batches and are used one by one. `most` is
    /// the maximum of the present interval; `by_clock` is set if times are known.
    votes: BTreeMap<u64, u64>,
    max_excess: Option<u64>,
    by_clock: bool,
}

impl InFlightAtStart {
    /// Records that the operations up to number `up_to` are requested at `time` and take `took`.
    pub fn request(&mut self, up_to: u64, time: Option<Ps>, took: Ps) {
        // The clock is not exact: while handling frames, a program executes fewer instructions per second
        // than while polling.
        let there = time.map(|time| Ps(time.0.saturating_add(took.0 - took.0 / 8)));
        match self.requested.back_mut() {
            Some(last) if last.0 == up_to => last.1 = last.1.max(there),
            _ => self.requested.push_back((up_to, there)),
        }
    }

    /// Records that `used` operations have been used at `time`.
    pub fn note_use(&mut self, used: u64, time: Option<Ps>) {
        while let Some((up_to, there)) = self.requested.front()
            && *there <= time
        {
            self.arrived = *up_to;
            self.requested.pop_front();
            if let Some(max_excess) = self.max_excess.take() {
                *self.votes.entry(max_excess).or_default() += 1;
            }
        }
        self.by_clock = time.is_some();
        self.max_excess = self.max_excess.max(Some(used.saturating_sub(self.arrived)));
    }

    /// Number in flight before the trace. With a clock, the largest estimate with an eighth of the votes, as
    /// single estimates may be wrong.
    pub fn before(&self) -> u64 {
        let mut votes = self.votes.clone();
        self.max_excess.iter().for_each(|max_excess| *votes.entry(*max_excess).or_default() += 1);
        let all: u64 = votes.values().sum();
        let is_valid = |(_, count): &(&u64, &u64)| !self.by_clock || **count * 8 >= all;
        votes.iter().rev().find(is_valid).map_or(0, |(before, _)| *before)
    }
}

#[cfg(test)]
mod tests {
    use doorbell_sim::ports::{DmaDirection, DmaPurpose, PhysAddr};
    use doorbell_trace::system::EventKind;

    use super::*;

    fn event(after: u64, since: Ps) -> DeviceEvent {
        DeviceEvent { device: 0, hart: 0, after, since, what: EventKind::FrameOut { bytes: 64 } }
    }

    /// A device write of duration `took`, visible at instruction `visible`.
    fn write(took: Ps, visible: u64) -> Dma {
        let (purpose, direction) = (DmaPurpose::RxData, DmaDirection::Write);
        Dma { purpose, direction, addr: PhysAddr(0), len: 64, frame: 0, offset: 0, took, visible }
    }

    /// Operations requested every 100 ns that take 450 ns and are used on completion; the first four were
    /// requested before the trace.
    fn before(clock: bool) -> u64 {
        let mut in_flight = InFlightAtStart::default();
        let time = |ns: u64| clock.then(|| Ps::from_ns(ns));
        for number in 0..100 {
            in_flight.request(number + 1, time(1000 + 100 * number), Ps::from_ns(450));
            in_flight.note_use(number + 1, time(1050 + 100 * number));
        }
        in_flight.before()
    }

    #[test]
    fn clock_finds_requests_in_flight_of_a_pipeline_that_never_drains() {
        assert_eq!((before(true), before(false)), (4, 0));
    }

    /// Bursts of 32 requested every 1,000 ns, each in flight for about as long. A burst is used one by one while
    /// the next is in flight.
    #[test]
    fn whole_burst_in_flight_is_found() {
        let mut in_flight = InFlightAtStart::default();
        for burst in 0..20 {
            let begun = 1_000_000 + 1_000 * burst;
            in_flight.request(32 * (burst + 1), Some(Ps::from_ns(begun)), Ps::from_ns(1_100));
            for one in 1..=32 {
                in_flight.note_use(32 * burst + one, Some(Ps::from_ns(begun + 20 * one)));
            }
        }
        assert_eq!(in_flight.before(), 32);
    }

    #[test]
    fn impossible_times_saturate() {
        let dma = write(Ps(u64::MAX), u64::MAX);
        let mut clock = InstructionClock::default();
        (0..2).for_each(|_| clock.note_write(&event(1, Ps::ZERO), &dma));
        let late = event(u64::MAX, Ps(1_000_000));
        assert_eq!(clock.time(&late), Some(Ps(u64::MAX)));
        let mut in_flight = InFlightAtStart::default();
        in_flight.request(1, clock.time(&late), dma.took);
        in_flight.note_use(1, clock.time(&late));
        assert_eq!(in_flight.before(), 0);
    }

    #[test]
    fn event_order_finds_requests_in_flight_of_a_pipeline_that_drains() {
        let mut in_flight = InFlightAtStart::default();
        in_flight.request(1, None, Ps::from_ns(450));
        (1..=3).for_each(|used| in_flight.note_use(used, None));
        (3..10).for_each(|number| in_flight.request(number - 1, None, Ps::ZERO));
        in_flight.note_use(4, None);
        assert_eq!(in_flight.before(), 2);
    }

    #[test]
    fn instructions_are_a_clock_unless_the_hart_sleeps() {
        let dma = write(Ps::from_ns(300), 3100);
        let mut clock = InstructionClock::default();
        assert_eq!(clock.time(&event(1000, Ps::ZERO)), None);
        clock.note_write(&event(100, Ps::ZERO), &dma);
        assert_eq!(clock.time(&event(1000, Ps(7))), Some(Ps(100_007)));
        clock.note(&event(1000, ASLEEP));
        assert_eq!(clock.time(&event(1000, Ps(7))), None);
    }
}
