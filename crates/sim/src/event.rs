//! The event queue, one per machine. An event's key is (time, phase, sequence), so the order of events
//! depends on the simulation alone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use crate::time::Ps;

/// Phases order the events of one picosecond. Each phase states its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// Posted writes reach their device first, so that a driver's write is in effect before anything else
    /// runs.
    Mmio,
    /// DMA completes: data is in RAM before any completion is signalled.
    Dma,
    /// Frames arrive, after descriptors that completed at the same time made room for them.
    Wire,
    /// Device and hart timers fire after the moment's accesses and frames have been applied.
    Timer,
    /// The load generator and other stimuli decide what to send next.
    Stimulus,
    /// Run control (end of warm-up, time-out) comes last, when all other events of the moment are done.
    Control,
}

/// An event in a saved queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry<E> {
    at: Ps,
    phase: Phase,
    sequence: u64,
    event: E,
}

/// Bits of a sequence number in a key; the phase occupies the bits above.
const SEQUENCE_BITS: u32 = 56;

/// Time, phase and sequence number packed into one number that sorts in event order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u128);

impl Key {
    fn new(at: Ps, phase: Phase, sequence: u64) -> Key {
        Key(u128::from(at.0) << 64 | u128::from((phase as u64) << SEQUENCE_BITS | sequence))
    }

    fn at(self) -> Ps {
        Ps((self.0 >> 64) as u64)
    }

    fn sequence(self) -> u64 {
        self.0 as u64 & ((1 << SEQUENCE_BITS) - 1)
    }
}

/// Events in time order. Events cannot be cancelled: a component ignores a wake-up that its state no longer
/// needs.
///
/// A heap moves its items, and thousands of frames may be in flight on a long link. The heap therefore holds
/// only keys and indices into `events`.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Reverse<(Key, u32)>>,
    /// Each event with its phase, because keys are not decoded back to phases.
    events: Vec<Option<(Phase, E)>>,
    free: Vec<u32>,
    now: Ps,
    next_sequence: u64,
}

/// Saved state of a queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QueueState<E> {
    now: Ps,
    next_sequence: u64,
    entries: Vec<Entry<E>>,
}

impl<E> QueueState<E> {
    /// Whether the state is valid: no event is in the past, and every sequence number was already issued.
    pub fn is_sound(&self) -> bool {
        let latest = (1 << SEQUENCE_BITS) / 4;
        let sound = |entry: &Entry<E>| entry.at >= self.now && entry.sequence < self.next_sequence;
        self.now.0 <= u64::MAX / 4 && self.next_sequence <= latest && self.entries.iter().all(sound)
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        let (heap, events, free) = (BinaryHeap::new(), Vec::new(), Vec::new());
        EventQueue { heap, events, free, now: Ps::ZERO, next_sequence: 0 }
    }
}

impl<E> EventQueue<E> {
    /// An empty queue at time zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// The time of the event popped last.
    pub fn now(&self) -> Ps {
        self.now
    }

    /// Adds an event. Scheduling before the event popped last is a bug and panics.
    pub fn schedule(&mut self, at: Ps, phase: Phase, event: E) {
        assert!(at >= self.now, "event scheduled at {at}, before the present ({})", self.now);
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.put(Key::new(at, phase, sequence), phase, event);
    }

    fn put(&mut self, key: Key, phase: Phase, event: E) {
        let place = match self.free.pop() {
            Some(place) => {
                self.events[place as usize] = Some((phase, event));
                place
            }
            None => {
                self.events.push(Some((phase, event)));
                self.events.len() as u32 - 1
            }
        };
        self.heap.push(Reverse((key, place)));
    }

    /// Time of the next event; [`Ps::MAX`] if there is none.
    pub fn next_time(&self) -> Ps {
        self.heap.peek().map_or(Ps::MAX, |Reverse((key, _))| key.at())
    }

    /// Removes the next event and advances the present to its time.
    pub fn pop(&mut self) -> Option<(Ps, E)> {
        let Reverse((key, place)) = self.heap.pop()?;
        let (_, event) = self.events[place as usize].take().expect("a key's index holds its event");
        self.free.push(place);
        self.now = key.at();
        Some((self.now, event))
    }

    /// Number of pending events.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// The pending events, in no particular order.
    pub fn events(&self) -> impl Iterator<Item = &E> {
        self.events.iter().flatten().map(|(_, event)| event)
    }

    /// Whether no event is pending.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

impl<E: Clone> EventQueue<E> {
    /// Saves the pending events in the order in which they will happen.
    pub fn save(&self) -> QueueState<E> {
        let mut order: Vec<(Key, u32)> = self.heap.iter().map(|Reverse(item)| *item).collect();
        order.sort_unstable();
        let entry = |(key, place): (Key, u32)| {
            let (phase, event) = self.events[place as usize].clone().expect("a key's index holds its event");
            Entry { at: key.at(), phase, sequence: key.sequence(), event }
        };
        let entries = order.into_iter().map(entry).collect();
        QueueState { now: self.now, next_sequence: self.next_sequence, entries }
    }

    /// Restores a saved queue.
    pub fn restore(state: QueueState<E>) -> Self {
        let mut queue =
            EventQueue { now: state.now, next_sequence: state.next_sequence, ..EventQueue::default() };
        for Entry { at, phase, sequence, event } in state.entries {
            queue.put(Key::new(at, phase, sequence), phase, event);
        }
        queue
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn events_at_one_time_run_by_phase_then_in_scheduling_order() {
        let mut queue = EventQueue::new();
        for (phase, name) in [
            (Phase::Wire, "frame 1"),
            (Phase::Dma, "data"),
            (Phase::Wire, "frame 2"),
            (Phase::Mmio, "doorbell"),
        ] {
            queue.schedule(Ps(5), phase, name);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, name)| name).collect();
        assert_eq!(order, ["doorbell", "data", "frame 1", "frame 2"]);
    }

    #[test]
    #[should_panic(expected = "before the present")]
    fn scheduling_in_the_past_panics() {
        let mut queue = EventQueue::new();
        queue.schedule(Ps(5), Phase::Dma, ());
        queue.pop();
        queue.schedule(Ps(4), Phase::Dma, ());
    }

    proptest! {
        #[test]
        fn a_saved_queue_continues_as_the_original(times in prop::collection::vec(0u64..50, 1..60), taken in 0usize..60) {
            let mut queue = EventQueue::new();
            for (i, t) in times.iter().enumerate() {
                queue.schedule(Ps(*t), if i % 2 == 0 { Phase::Dma } else { Phase::Wire }, i);
            }
            for _ in 0..taken {
                queue.pop();
            }
            let bytes = postcard::to_stdvec(&queue.save()).unwrap();
            let mut copy = EventQueue::restore(postcard::from_bytes::<QueueState<usize>>(&bytes).unwrap());
            loop {
                let (a, b) = (queue.pop(), copy.pop());
                prop_assert_eq!(a, b);
                if a.is_none() { break }
            }
        }
    }
}
