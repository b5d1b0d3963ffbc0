//! Timestamps of a frame's path through a machine. For observers only: nothing simulated depends on them,
//! they are not in checkpoints, and states that differ only in them are equal.

use crate::time::Ps;

/// Identifies a load generator's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameId {
    /// The generator that sent it.
    pub stream: u32,
    /// Sequence number among the frames of this generator.
    pub sequence: u64,
}

/// Receive path of a frame through a NIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxStamps {
    /// Arrival of its last bit.
    pub arrived: Ps,
    /// Start of its DMA write.
    pub dma_started: Ps,
    /// Its last byte was in memory.
    pub in_memory: Ps,
    /// Write-back of its (last) descriptor: visible to software.
    pub visible: Ps,
    /// Receive queue.
    pub queue: u8,
}

/// Transmit path of a frame through a NIC; for several buffers, the times of its last descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxStamps {
    /// Arrival of the tail-register write that covers it.
    pub doorbell: Ps,
    /// Its descriptor was fetched.
    pub fetched: Ps,
    /// Start of its DMA read.
    pub dma_started: Ps,
    /// Arrival of its last byte.
    pub read: Ps,
    /// Transmission of its first bit.
    pub first_bit: Ps,
    /// Transmit queue.
    pub queue: u8,
    /// Hart that wrote the tail register, if known.
    pub hart: Option<u8>,
}

/// Observer of frames. The default implementation ignores them.
pub trait FrameObserver {
    /// The ID of a load generator's frame; none for other frames or if nothing observes them.
    fn recognise(&self, _frame: &[u8]) -> Option<FrameId> {
        None
    }

    /// A frame became visible to software.
    fn frame_received(&mut self, _id: FrameId, _stamps: RxStamps) {}

    /// A frame was handed to the wire.
    fn frame_sent(&mut self, _id: FrameId, _stamps: TxStamps) {}
}

/// An observer's data in a component's state. It equals any other value and is not saved (`#[serde(skip)]`).
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
        observed: Observed<Ps>,
    }

    #[test]
    fn observed_data_is_neither_compared_nor_saved() {
        let [a, b] = [1, 2].map(|at| State { value: 7, observed: Observed(Ps(at)) });
        assert_eq!(a, b);
        let bytes = postcard::to_stdvec(&a).unwrap();
        assert_eq!(bytes, [7]);
        assert_eq!(postcard::from_bytes::<State>(&bytes).unwrap().observed.0, Ps::ZERO);
    }
}
