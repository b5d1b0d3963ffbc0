//! The event queue: one for a machine. An event's key is (time, phase, sequence), so the order of
//! events is a function of the simulation alone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use crate::time::Ps;

/// The order of events that share a picosecond, each with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// Posted writes reach their device first: what a driver wrote is in force when anything else looks.
    Mmio,
    /// Memory accesses of devices complete: data is in RAM before anyone is told of it.
    Dma,
    /// Frames arrive, after descriptors that completed at the same time made room for them.
    Wire,
    /// Device and hart timers run on the state that the moment brought.
    Timer,
    /// The load generator and other stimuli decide what to send next.
    Stimulus,
    /// Phases of a run (warm-up over, time-out) come last, so that they see the moment whole.
    Control,
}

/// An event as a snapshot has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry<E> {
    at: Ps,
    phase: Phase,
    sequence: u64,
    event: E,
}

/// Bits of a sequence number; the phase stands above them.
const SEQUENCE_BITS: u32 = 56;

/// Time, phase and sequence number as one number in the order in which events happen.
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

/// Events in time order. There is no cancelling: a component that has changed its mind ignores a
/// wake-up that no longer fits its state.
///
/// A heap moves its items about, and thousands of frames may be on a long link: so the heap has keys only, and where each
/// event is kept.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Reverse<(Key, u32)>>,
    /// With the phase, which is not read back from a key.
    events: Vec<Option<(Phase, E)>>,
    free: Vec<u32>,
    now: Ps,
    next_sequence: u64,
}

/// What a snapshot keeps of a queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QueueState<E> {
    now: Ps,
    next_sequence: u64,
    entries: Vec<Entry<E>>,
}

impl<E> QueueState<E> {
    /// Whether a queue can be in this state: no event lies in the past, and none was added after the last.
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

    /// Adds an event. One that lies before the event popped last is this program's bug.
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

    /// When the next event happens; [`Ps::MAX`] if there is none.
    pub fn next_time(&self) -> Ps {
        self.heap.peek().map_or(Ps::MAX, |Reverse((key, _))| key.at())
    }

    /// Takes the next event and moves the present to it.
    pub fn pop(&mut self) -> Option<(Ps, E)> {
        let Reverse((key, place)) = self.heap.pop()?;
        let (_, event) = self.events[place as usize].take().expect("an event is where its key says");
        self.free.push(place);
        self.now = key.at();
        Some((self.now, event))
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// The events that wait, in no particular order.
    pub fn events(&self) -> impl Iterator<Item = &E> {
        self.events.iter().flatten().map(|(_, event)| event)
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

impl<E: Clone> EventQueue<E> {
    /// The queue's contents in the order in which they will happen.
    pub fn save(&self) -> QueueState<E> {
        let mut order: Vec<(Key, u32)> = self.heap.iter().map(|Reverse(item)| *item).collect();
        order.sort_unstable();
        let entry = |(key, place): (Key, u32)| {
            let (phase, event) = self.events[place as usize].clone().expect("an event is where its key says");
            Entry { at: key.at(), phase, sequence: key.sequence(), event }
        };
        let entries = order.into_iter().map(entry).collect();
        QueueState { now: self.now, next_sequence: self.next_sequence, entries }
    }

    /// A queue as it was saved.
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
    fn events_of_one_moment_run_by_phase_then_in_the_order_scheduled() {
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
    fn the_past_is_closed() {
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
