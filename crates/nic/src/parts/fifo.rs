//! Packet buffer of one direction: a FIFO of frames, and the space that they occupy.

use std::collections::VecDeque;

use doorbell_sim::{Frame, TxStamps};
use serde::{Deserialize, Serialize};

/// An entry of a FIFO.
pub(crate) trait Stored {
    /// Occupied space in bytes.
    fn room(&self) -> u64;
}

/// A complete frame to send, with stamps for observers.
pub(crate) type Outgoing = (Frame, TxStamps);

impl Stored for Outgoing {
    /// Length with FCS, rounded up to 16 bytes.
    fn room(&self) -> u64 {
        (self.0.len_with_fcs() as u64).next_multiple_of(16)
    }
}

/// A FIFO of frames, oldest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "VecDeque<T>", bound(deserialize = "T: Stored + Deserialize<'de>"))]
pub(crate) struct Fifo<T> {
    frames: VecDeque<T>,
    #[serde(skip)]
    used: u64,
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Fifo { frames: VecDeque::new(), used: 0 }
    }
}

impl<T: Stored> Fifo<T> {
    /// Occupied space in bytes.
    pub fn used(&self) -> u64 {
        self.used
    }

    pub fn len(&self) -> usize {
        self.frames.len()
    }

    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub fn push(&mut self, frame: T) {
        self.used += frame.room();
        self.frames.push_back(frame);
    }

    /// Removes the oldest frame.
    pub fn pop(&mut self) -> Option<T> {
        let frame = self.frames.pop_front()?;
        self.used -= frame.room();
        Some(frame)
    }

    /// Removes the frame at `index`, counted from the oldest.
    pub fn remove(&mut self, index: usize) -> Option<T> {
        let frame = self.frames.remove(index)?;
        self.used -= frame.room();
        Some(frame)
    }

    /// The oldest frame.
    pub fn front(&self) -> Option<&T> {
        self.frames.front()
    }

    /// The frame at `index`, counted from the oldest.
    pub fn get(&self, index: usize) -> Option<&T> {
        self.frames.get(index)
    }

    /// The frame at `index`, mutable. Its occupied space must not change.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.frames.get_mut(index)
    }

    /// All frames, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.frames.iter()
    }
}

impl<T: Stored> From<VecDeque<T>> for Fifo<T> {
    fn from(frames: VecDeque<T>) -> Fifo<T> {
        Fifo { used: frames.iter().map(T::room).sum(), frames }
    }
}

/// Saved form of frames to send: without stamps, except the queue.
pub(crate) mod without_stamps {
    use serde::{Deserializer, Serializer};

    use super::*;

    pub fn serialize<S: Serializer>(fifo: &Fifo<Outgoing>, serializer: S) -> Result<S::Ok, S::Error> {
        let frames: Vec<(&Frame, u8)> = fifo.iter().map(|(frame, stamps)| (frame, stamps.queue)).collect();
        frames.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Fifo<Outgoing>, D::Error> {
        let frames = VecDeque::<(Frame, u8)>::deserialize(deserializer)?.into_iter();
        let outgoing = frames.map(|(frame, queue)| (frame, TxStamps { queue, ..TxStamps::default() }));
        Ok(Fifo::from(outgoing.collect::<VecDeque<Outgoing>>()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Stored for u64 {
        fn room(&self) -> u64 {
            *self
        }
    }

    #[test]
    fn frames_occupy_space_until_they_are_removed() {
        let mut fifo: Fifo<u64> = VecDeque::from([64, 128]).into();
        fifo.push(1536);
        assert_eq!((fifo.used(), fifo.len(), fifo.get(1)), (1728, 3, Some(&128)));
        assert_eq!([fifo.pop(), fifo.pop()], [Some(64), Some(128)]);
        assert_eq!((fifo.used(), fifo.front()), (1536, Some(&1536)));
        assert_eq!([fifo.pop(), fifo.pop()], [Some(1536), None]);
        assert!(fifo.is_empty() && fifo.used() == 0);
        fifo = VecDeque::from([64, 128, 256]).into();
        assert_eq!((fifo.remove(1), fifo.remove(2)), (Some(128), None));
        assert_eq!((fifo.used(), fifo.get(1)), (320, Some(&256)));
    }
}
