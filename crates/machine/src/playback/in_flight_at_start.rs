//! How much was under way when a trace began: fetches of descriptors, or reads of data, that had been requested for before and are used within it.
//!
//! Where all that was requested for is there at some time, the order of events tells: the most that was used beyond what was requested for within the
//! trace. A program that polls may never come to that, as the next request leaves before the one before is there. Its instructions are a
//! clock, though: it never sleeps, and of each write of a device it is told how long it took and how many instructions that were. So a request
//! is there as long after it was made as it took.

use std::collections::{BTreeMap, VecDeque};

use doorbell_sim::Ps;
use doorbell_trace::system::{DeviceEvent, Dma};

use super::pairs::ASLEEP;

/// The time that a hart's instructions take, on the mean.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InstructionClock {
    took: Ps,
    instructions: u64,
    sleeps: bool,
}

impl InstructionClock {
    /// Looks at an event of the only hart.
    pub fn note(&mut self, event: &DeviceEvent) {
        self.sleeps |= event.since >= ASLEEP;
    }

    /// Looks at a write of a device.
    pub fn note_write(&mut self, event: &DeviceEvent, dma: &Dma) {
        if dma.visible > event.after {
            // A trace may say anything.
            self.took = Ps(self.took.0.saturating_add(dma.took.0));
            self.instructions = self.instructions.saturating_add(dma.visible - event.after);
        }
    }

    /// When an event happened, if the hart's instructions are a clock.
    pub fn time(&self, event: &DeviceEvent) -> Option<Ps> {
        if self.sleeps || self.took == Ps::ZERO {
            return None;
        }
        let passed = u128::from(event.after) * u128::from(self.took.0) / u128::from(self.instructions);
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        Some(Ps(passed.saturating_add(event.since.0)))
    }
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InFlightAtStart {
    /// Up to which number things have been requested for, and when they are there.
    requested: VecDeque<(u64, Option<Ps>)>,
    arrived: u64,
    /// How often so much had been requested for before the trace, as uses of it say: the most of those between which nothing more is there, for
    /// what is requested for at once is used one by one. Whether by the clock.
    votes: BTreeMap<u64, u64>,
    most: Option<u64>,
    by_clock: bool,
}

impl InFlightAtStart {
    /// At `time`, what goes up to this number is requested for, and takes so long.
    pub fn request(&mut self, up_to: u64, time: Option<Ps>, took: Ps) {
        // The clock is not exact: where a program handles frames it goes through fewer instructions a time than where it polls.
        let there = time.map(|time| Ps(time.0.saturating_add(took.0 - took.0 / 8)));
        match self.requested.back_mut() {
            Some(last) if last.0 == up_to => last.1 = last.1.max(there),
            _ => self.requested.push_back((up_to, there)),
        }
    }

    /// At `time`, as much as this has been used.
    pub fn note_use(&mut self, used: u64, time: Option<Ps>) {
        while let Some((up_to, there)) = self.requested.front()
            && *there <= time
        {
            self.arrived = *up_to;
            self.requested.pop_front();
            if let Some(most) = self.most.take() {
                *self.votes.entry(most).or_default() += 1;
            }
        }
        self.by_clock = time.is_some();
        self.most = self.most.max(Some(used.saturating_sub(self.arrived)));
    }

    /// What had been requested for before the trace. By the clock it is what an eighth of them say, as single ones may be wrong.
    pub fn before(&self) -> u64 {
        let mut votes = self.votes.clone();
        self.most.iter().for_each(|most| *votes.entry(*most).or_default() += 1);
        let all: u64 = votes.values().sum();
        let is_valid = |(_, count): &(&u64, &u64)| !self.by_clock || **count * 8 >= all;
        votes.iter().rev().find(is_valid).map_or(0, |(before, _)| *before)
    }
}

#[cfg(test)]
mod tests {
    use doorbell_sim::ports::{DmaKind, PhysAddr};
    use doorbell_trace::system::EventKind;

    use super::*;

    fn event(after: u64, since: Ps) -> DeviceEvent {
        DeviceEvent { device: 0, hart: 0, after, since, what: EventKind::FrameOut { bytes: 64 } }
    }

    /// A device's write that took so long, and is seen by that instruction.
    fn write(took: Ps, visible: u64) -> Dma {
        let (kind, addr) = (DmaKind::RxData, PhysAddr(0));
        Dma { kind, write: true, addr, len: 64, frame: 0, offset: 0, took, visible }
    }

    /// Things that are requested for each 100 ns, take 450 ns and are used when they are there; the first four had been requested for before.
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
    fn what_never_drains_is_told_by_the_clock_and_by_the_order_alone_is_not() {
        assert_eq!((before(true), before(false)), (4, 0));
    }

    /// Bursts of 32 are requested for each 1,000 ns and take as long; each is used, one by one, while the next is on its way.
    #[test]
    fn of_bursts_the_whole_is_told_that_had_been_asked_for() {
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
    fn times_that_cannot_be_end_with_the_last_there_is() {
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
    fn what_drains_is_told_by_the_order() {
        let mut in_flight = InFlightAtStart::default();
        in_flight.request(1, None, Ps::from_ns(450));
        (1..=3).for_each(|used| in_flight.note_use(used, None));
        (3..10).for_each(|number| in_flight.request(number - 1, None, Ps::ZERO));
        in_flight.note_use(4, None);
        assert_eq!(in_flight.before(), 2);
    }

    #[test]
    fn instructions_are_a_clock_where_the_hart_never_sleeps() {
        let dma = write(Ps::from_ns(300), 3100);
        let mut clock = InstructionClock::default();
        assert_eq!(clock.time(&event(1000, Ps::ZERO)), None);
        clock.note_write(&event(100, Ps::ZERO), &dma);
        assert_eq!(clock.time(&event(1000, Ps(7))), Some(Ps(100_007)));
        clock.note(&event(1000, ASLEEP));
        assert_eq!(clock.time(&event(1000, Ps(7))), None);
    }
}
