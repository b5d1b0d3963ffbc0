//! The event queue: one for a machine. An event's key is (time, phase, sequence), so the order of
//! events is a function of the simulation alone.

use std::cmp::Ordering;
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

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry<E> {
    at: Ps,
    phase: Phase,
    sequence: u64,
    event: E,
}

impl<E> Entry<E> {
    fn key(&self) -> (Ps, Phase, u64) {
        (self.at, self.phase, self.sequence)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl<E> Eq for Entry<E> {}
impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Entry<E> {
    /// Reversed, because `BinaryHeap` gives the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// Events in time order. There is no cancelling: a component that has changed its mind ignores a
/// wake-up that no longer fits its state.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Entry<E>>,
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
        let latest = u64::MAX / 4;
        let sound = |entry: &Entry<E>| entry.at >= self.now && entry.sequence < self.next_sequence;
        self.now.0 <= latest && self.next_sequence <= latest && self.entries.iter().all(sound)
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        EventQueue { heap: BinaryHeap::new(), now: Ps::ZERO, next_sequence: 0 }
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
        self.heap.push(Entry { at, phase, sequence, event });
    }

    /// When the next event happens; [`Ps::MAX`] if there is none.
    pub fn next_time(&self) -> Ps {
        self.heap.peek().map_or(Ps::MAX, |entry| entry.at)
    }

    /// Takes the next event and moves the present to it.
    pub fn pop(&mut self) -> Option<(Ps, E)> {
        let entry = self.heap.pop()?;
        self.now = entry.at;
        Some((entry.at, entry.event))
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// The events that wait, in no particular order.
    pub fn events(&self) -> impl Iterator<Item = &E> {
        self.heap.iter().map(|entry| &entry.event)
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

impl<E: Clone> EventQueue<E> {
    /// The queue's contents in the order in which they will happen.
    pub fn save(&self) -> QueueState<E> {
        let mut entries: Vec<Entry<E>> = self.heap.iter().cloned().collect();
        entries.sort_by_key(Entry::key);
        QueueState { now: self.now, next_sequence: self.next_sequence, entries }
    }

    /// A queue as it was saved.
    pub fn restore(state: QueueState<E>) -> Self {
        EventQueue { heap: state.entries.into(), now: state.now, next_sequence: state.next_sequence }
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
