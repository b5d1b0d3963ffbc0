//! When a frame passed the stations of its way through a machine. For observers only: nothing simulated looks at it, it
//! is in no checkpoint, and two states that differ in nothing else are equal.

use crate::time::Ps;

/// Which frame of a tester it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameId {
    /// The generator that sent it.
    pub stream: u32,
    /// Its number among all that this generator sent.
    pub sequence: u64,
}

/// A frame's way in through a NIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxStamps {
    /// Its last bit was there.
    pub arrived: Ps,
    /// The engine began to write it to memory.
    pub dma_begun: Ps,
    /// Its last byte was in memory.
    pub in_memory: Ps,
    /// Its (last) descriptor was written back: software can see it.
    pub visible: Ps,
    /// The queue that it came in by.
    pub queue: u8,
}

/// A frame's way out through a NIC; of one in several buffers, those of its last descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxStamps {
    /// Software's write of the tail register that covers it arrived.
    pub doorbell: Ps,
    /// Its descriptor was on the chip.
    pub fetched: Ps,
    /// The engine began to read it.
    pub dma_begun: Ps,
    /// Its last byte was there.
    pub read: Ps,
    /// Its first bit left.
    pub first_bit: Ps,
    /// The queue that it went out by.
    pub queue: u8,
    /// The hart that wrote the tail register, where that is known.
    pub hart: Option<u8>,
}

/// Who wants to know when frames pass. A component that does not care implements it with an empty body.
pub trait FrameObserver {
    /// Which frame of a tester these bytes are, if they are one and somebody wants to know.
    fn recognise(&self, _frame: &[u8]) -> Option<FrameId> {
        None
    }

    /// A frame is visible to software.
    fn frame_received(&mut self, _id: FrameId, _stamps: RxStamps) {}

    /// A frame is handed to the wire.
    fn frame_sent(&mut self, _id: FrameId, _stamps: TxStamps) {}
}

/// What an observer leaves in a component's state without being part of it: equal to any other, and not to be saved
/// (`#[serde(skip)]`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Observed<T>(pub T);

impl<T> PartialEq for Observed<T> {
    fn eq(&self, _: &Observed<T>) -> bool {
        true
    }
}

impl<T> Eq for Observed<T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct State {
        value: u32,
        #[serde(skip)]
        seen: Observed<Ps>,
    }

    #[test]
    fn what_is_observed_is_neither_compared_nor_saved() {
        let [a, b] = [1, 2].map(|at| State { value: 7, seen: Observed(Ps(at)) });
        assert_eq!(a, b);
        let bytes = postcard::to_stdvec(&a).unwrap();
        assert_eq!(bytes, [7]);
        assert_eq!(postcard::from_bytes::<State>(&bytes).unwrap().seen.0, Ps::ZERO);
    }
}
