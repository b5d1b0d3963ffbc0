//! Send times of the frames in flight: a bounded ring of the most recently sent frames, indexed by sequence
//! number.

use doorbell_sim::Ps;
use serde::{Deserialize, Serialize};

use crate::streams::Origin;

/// When a frame was due and when its first bit left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SendTimes {
    pub(crate) intended: Ps,
    pub(crate) actual: Ps,
}

impl SendTimes {
    /// Marks a returned frame; no frame leaves at this time.
    const RETURNED: SendTimes = SendTimes { intended: Ps::MAX, actual: Ps::MAX };
    /// Marks a frame that was given up.
    const GIVEN_UP: SendTimes = SendTimes { intended: Ps::MAX, actual: Ps::ZERO };

    fn is_awaited(self) -> bool {
        self != Self::RETURNED && self != Self::GIVEN_UP
    }
}

/// State of a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// In flight.
    Outstanding(SendTimes),
    /// Returned before.
    Returned,
    /// Sent in this run, but no longer tracked or given up.
    Forgotten,
    /// Sent in an earlier run.
    EarlierRun,
    /// Never sent.
    NeverSent,
}

#[derive(Clone, Debug)]
pub(crate) struct InFlight {
    /// Frame n is in slot n modulo the number of slots, a power of two.
    slots: Vec<SendTimes>,
    /// Stream of the frame in each slot; empty if there is only one stream.
    origins: Vec<u64>,
    /// The first sequence number of this run, and the next to be sent.
    run_first: u64,
    next: u64,
    outstanding: u64,
    /// All frames below this number have returned or were given up; the search for the oldest starts here.
    settled_below: u64,
}

/// A tracked frame in a saved state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Saved {
    Returned,
    GivenUp,
    /// Due time minus that of the previous outstanding frame, and send delay after the due time.
    Outstanding(u64, u64),
}

/// Saved state of the ring: the tracked frames in sequence order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InFlightState {
    slots: u64,
    run_first: u64,
    next: u64,
    frames: Vec<Saved>,
    /// Streams of the outstanding frames; empty if there is only one stream.
    origins: Vec<u64>,
}

impl InFlight {
    pub(crate) fn new(tracked_frames: u32) -> InFlight {
        let slots = (tracked_frames as usize).next_power_of_two();
        let slots = vec![SendTimes::RETURNED; slots];
        InFlight { slots, origins: Vec::new(), run_first: 0, next: 0, outstanding: 0, settled_below: 0 }
    }

    /// The sequence number of the next frame.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The sequence number of this run's first frame.
    pub(crate) fn run_first(&self) -> u64 {
        self.run_first
    }

    /// Number of frames in flight.
    pub(crate) fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Number of outstanding frames whose sequence number satisfies `wanted`.
    pub(crate) fn count(&self, wanted: impl Fn(u64) -> bool) -> u64 {
        self.outstanding_frames().filter(|sequence| wanted(*sequence)).count() as u64
    }

    fn oldest(&self) -> u64 {
        self.run_first.max(self.next.saturating_sub(self.slots.len() as u64))
    }

    fn slot(&self, sequence: u64) -> usize {
        // The length is a power of two, so truncating the sequence number first is safe.
        sequence as usize & (self.slots.len() - 1)
    }

    /// Adds the next frame. Returns the sequence number of the frame given up for its slot, if any.
    pub(crate) fn push(&mut self, times: SendTimes, origin: Origin) -> Option<u64> {
        let (slot, count) = (self.slot(self.next), self.slots.len() as u64);
        let full = self.next - self.run_first >= count;
        let given_up = (full && self.slots[slot].is_awaited()).then(|| self.next - count);
        self.slots[slot] = times;
        if let Some(packed) = self.origins.get_mut(slot) {
            *packed = origin.packed();
        }
        self.next += 1;
        self.outstanding += u64::from(given_up.is_none());
        given_up
    }

    /// Stream and index of a tracked frame of this run.
    pub(crate) fn origin(&self, sequence: u64) -> Origin {
        match self.origins.get(self.slot(sequence)) {
            Some(packed) => Origin::unpacked(*packed),
            None => Origin { stream: 0, index: sequence - self.run_first },
        }
    }

    /// Whether the frame with this number is in flight.
    pub(crate) fn is_awaited(&self, sequence: u64) -> bool {
        matches!(self.look_up(sequence), Lookup::Outstanding(_))
    }

    /// The streams of all outstanding frames.
    pub(crate) fn streams(&self) -> impl Iterator<Item = usize> {
        self.outstanding_frames().map(|sequence| self.origin(sequence).stream)
    }

    /// Sequence numbers of the outstanding frames, in order.
    pub(crate) fn outstanding_frames(&self) -> impl Iterator<Item = u64> {
        (self.oldest()..self.next).filter(|sequence| self.is_awaited(*sequence))
    }

    pub(crate) fn look_up(&self, sequence: u64) -> Lookup {
        if sequence >= self.next {
            Lookup::NeverSent
        } else if sequence < self.run_first {
            Lookup::EarlierRun
        } else if sequence < self.oldest() {
            Lookup::Forgotten
        } else {
            match self.slots[self.slot(sequence)] {
                SendTimes::RETURNED => Lookup::Returned,
                SendTimes::GIVEN_UP => Lookup::Forgotten,
                times => Lookup::Outstanding(times),
            }
        }
    }

    /// Marks an outstanding frame as returned.
    pub(crate) fn returned(&mut self, sequence: u64) {
        let slot = self.slot(sequence);
        debug_assert!(self.slots[slot].is_awaited());
        self.slots[slot] = SendTimes::RETURNED;
        self.outstanding -= 1;
    }

    /// Gives up an outstanding frame. If it returns later, it counts as late.
    pub(crate) fn give_up(&mut self, sequence: u64) {
        let slot = self.slot(sequence);
        debug_assert!(self.slots[slot].is_awaited());
        self.slots[slot] = SendTimes::GIVEN_UP;
        self.outstanding -= 1;
    }

    /// The outstanding frame that was sent first.
    pub(crate) fn oldest_outstanding(&mut self) -> Option<(u64, SendTimes)> {
        self.settled_below = self.settled_below.max(self.oldest());
        while self.settled_below < self.next {
            let times = self.slots[self.slot(self.settled_below)];
            if times.is_awaited() {
                return Some((self.settled_below, times));
            }
            self.settled_below += 1;
        }
        None
    }

    /// Begins a new run with several streams or one; frames of the previous run are given up.
    pub(crate) fn begin_run(&mut self, several: bool) {
        self.origins = if several { vec![0; self.slots.len()] } else { Vec::new() };
        self.run_first = self.next;
        self.outstanding = 0;
    }

    pub(crate) fn save(&self) -> InFlightState {
        let mut before = 0;
        let mut frames = Vec::with_capacity((self.next - self.oldest()) as usize);
        for sequence in self.oldest()..self.next {
            let times = self.slots[self.slot(sequence)];
            frames.push(match times {
                SendTimes::RETURNED => Saved::Returned,
                SendTimes::GIVEN_UP => Saved::GivenUp,
                SendTimes { intended, actual } => {
                    let saved = Saved::Outstanding(intended.0 - before, actual.0 - intended.0);
                    before = intended.0;
                    saved
                }
            });
        }
        let packed = |sequence: u64| self.origin(sequence).packed();
        let origins = if self.origins.is_empty() {
            Vec::new()
        } else {
            self.outstanding_frames().map(packed).collect()
        };
        InFlightState {
            slots: self.slots.len() as u64,
            run_first: self.run_first,
            next: self.next,
            frames,
            origins,
        }
    }

    /// Resizes a saved ring that never held a frame to the size of this one: the size is configuration until
    /// traffic starts.
    pub(crate) fn sized(&self, state: InFlightState) -> InFlightState {
        if state.next == 0 { InFlightState { slots: self.slots.len() as u64, ..state } } else { state }
    }

    /// Restores a saved ring with several streams or one; none if the state is invalid.
    pub(crate) fn restore(state: InFlightState, several: bool) -> Option<InFlight> {
        let count = u32::try_from(state.slots).ok().filter(|n| n.is_power_of_two() && *n <= 1 << 24)?;
        let mut ring = InFlight { run_first: state.run_first, next: state.next, ..InFlight::new(count) };
        if state.next > 1 << 62
            || state.run_first > state.next
            || state.frames.len() as u64 != state.next - ring.oldest()
        {
            return None;
        }
        if several {
            ring.origins = vec![0; ring.slots.len()];
        }
        let (oldest, mut before, mut origins) = (ring.oldest(), 0u64, state.origins.into_iter());
        for (sequence, frame) in (oldest..).zip(state.frames) {
            let slot = ring.slot(sequence);
            ring.slots[slot] = match frame {
                Saved::Returned => SendTimes::RETURNED,
                Saved::GivenUp => SendTimes::GIVEN_UP,
                Saved::Outstanding(step, late) => {
                    let intended = before.checked_add(step)?;
                    let actual = intended.checked_add(late).filter(|actual| *actual != u64::MAX)?;
                    ring.outstanding += 1;
                    before = intended;
                    if several {
                        ring.origins[slot] = origins.next()?;
                    }
                    SendTimes { intended: Ps(intended), actual: Ps(actual) }
                }
            };
        }
        origins.next().is_none().then_some(ring)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn saved_ring_is_resized_only_if_it_never_held_a_frame() {
        let (mut other, own) = (InFlight::new(4096), InFlight::new(1024));
        assert_eq!(InFlight::restore(own.sized(other.save()), false).unwrap().slots.len(), 1024);
        other.push(times(1), Origin::default());
        assert_eq!(InFlight::restore(own.sized(other.save()), false).unwrap().slots.len(), 4096);
    }

    fn times(n: u64) -> SendTimes {
        SendTimes { intended: Ps(10 * n), actual: Ps(10 * n + n % 3) }
    }

    #[test]
    fn frame_is_given_up_exactly_when_its_slot_is_reused() {
        let mut ring = InFlight::new(1024);
        for n in 0..1024 {
            assert_eq!(ring.push(times(n), Origin::default()), None);
        }
        assert_eq!(ring.look_up(0), Lookup::Outstanding(times(0)));
        ring.returned(1);
        assert_eq!(ring.push(times(1024), Origin::default()), Some(0), "frame 0 is given up");
        assert_eq!((ring.look_up(0), ring.look_up(1)), (Lookup::Forgotten, Lookup::Returned));
        assert_eq!(ring.push(times(1025), Origin::default()), None, "frame 1 had returned");
        assert_eq!(ring.look_up(1026), Lookup::NeverSent);
        ring.begin_run(false);
        assert_eq!((ring.look_up(1025), ring.outstanding()), (Lookup::EarlierRun, 0));
        assert_eq!(
            ring.push(times(2000), Origin::default()),
            None,
            "frames of an earlier run are not given up again"
        );
    }

    #[test]
    fn invalid_state_is_refused() {
        let good = InFlight::new(1024).save();
        assert!(InFlight::restore(good.clone(), false).is_some());
        for wrong in [
            InFlightState { slots: 0, ..good.clone() },
            InFlightState { slots: 1000, ..good.clone() },
            InFlightState { slots: 1 << 40, ..good.clone() },
            InFlightState { run_first: 1, ..good.clone() },
            InFlightState { run_first: u64::MAX, next: u64::MAX, ..good.clone() },
            InFlightState { frames: vec![Saved::Returned], ..good.clone() },
            InFlightState { origins: vec![1], ..good.clone() },
            InFlightState { next: 1, frames: vec![Saved::Outstanding(u64::MAX, 0)], ..good.clone() },
        ] {
            assert!(InFlight::restore(wrong, false).is_none());
        }
    }

    proptest! {
        #[test]
        fn ring_matches_a_map_of_all_frames(
            steps in prop::collection::vec((0u8..8, 0u64..3000), 1..6000),
            save_at in 0usize..6000,
        ) {
            let mut ring = InFlight::new(1024);
            let (mut map, mut run_first, mut next) = (BTreeMap::new(), 0u64, 0u64);
            let mut given_up = std::collections::BTreeSet::new();
            for (i, (kind, back)) in steps.into_iter().enumerate() {
                if i == save_at {
                    let bytes = postcard::to_stdvec(&ring.save()).unwrap();
                    ring = InFlight::restore(postcard::from_bytes(&bytes).unwrap(), false).unwrap();
                }
                match (kind, back) {
                    (0, 0) => {
                        ring.begin_run(false);
                        map.clear();
                        run_first = next;
                    }
                    (0..5, _) => {
                        let forgotten = next.checked_sub(1024).filter(|old| map.remove(old).is_some());
                        prop_assert_eq!(ring.push(times(next), Origin::default()), forgotten);
                        map.insert(next, times(next));
                        next += 1;
                    }
                    (7, 0..2000) => {
                        let oldest = map.first_key_value().map(|(sequence, times)| (*sequence, *times));
                        prop_assert_eq!(ring.oldest_outstanding(), oldest);
                        if let Some((sequence, _)) = oldest {
                            ring.give_up(sequence);
                            map.remove(&sequence);
                            given_up.insert(sequence);
                        }
                    }
                    _ => {
                        let sequence = (next + 2).saturating_sub(back);
                        let expected = if sequence >= next {
                            Lookup::NeverSent
                        } else if sequence < run_first {
                            Lookup::EarlierRun
                        } else if sequence + 1024 < next || given_up.contains(&sequence) {
                            Lookup::Forgotten
                        } else if let Some(times) = map.remove(&sequence) {
                            Lookup::Outstanding(times)
                        } else {
                            Lookup::Returned
                        };
                        prop_assert_eq!(ring.look_up(sequence), expected);
                        if matches!(expected, Lookup::Outstanding(_)) {
                            ring.returned(sequence);
                        }
                    }
                }
                prop_assert_eq!(ring.outstanding(), map.len() as u64);
            }
        }
    }
}
