//! Polls of a function's rings: loads by which software looks for completed work. The function decides which
//! loads are polls, and what they find. For observers only.

use std::fmt::Debug;
use std::ops::Range;

use doorbell_sim::PhysAddr;

/// Result of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// No further packet: the poll ends.
    Empty,
    /// Packets that the device has completed.
    Found {
        /// Position in the ring up to which they are complete, such as an address or an index. A load that
        /// finds the position of the load before it finds the same packets again.
        position: u64,
        /// Number of packets, at least 1.
        packets: u64,
    },
}

/// A ring that software polls.
pub trait PolledRing: Debug + Send {
    /// Memory of the ring.
    fn range(&self) -> Range<u64>;

    /// A load of `bytes` bytes from `addr`, which is in the ring. Returns what it found, or `None` if it is
    /// not a poll. `byte` reads memory, or returns `None` outside RAM.
    fn poll(&mut self, addr: PhysAddr, bytes: u8, byte: &dyn Fn(PhysAddr) -> Option<u8>) -> Option<Poll>;
}

/// A ring of descriptors that each have a status byte. A load of that byte is a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusRing {
    /// Base address.
    pub base: PhysAddr,
    /// Bytes of the ring.
    pub bytes: u64,
    /// Bytes per descriptor, at least 1.
    pub descriptor_bytes: u64,
    /// Offset of the status byte in a descriptor.
    pub status_at: u64,
    /// Status bits; at least one of them is set when the device is done.
    pub done: u8,
}

impl PolledRing for StatusRing {
    fn range(&self) -> Range<u64> {
        self.base.0..self.base.0.saturating_add(self.bytes)
    }

    fn poll(&mut self, addr: PhysAddr, bytes: u8, byte: &dyn Fn(PhysAddr) -> Option<u8>) -> Option<Poll> {
        let offset = (addr.0 - self.base.0) % self.descriptor_bytes;
        if !(offset..offset + u64::from(bytes)).contains(&self.status_at) {
            return None;
        }
        let position = addr.0 - offset;
        let status = byte(PhysAddr(position + self.status_at))?;
        Some(if status & self.done != 0 { Poll::Found { position, packets: 1 } } else { Poll::Empty })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x8000_1000;

    /// The result of a load while the status bytes of the first descriptors are `status`.
    fn load(ring: StatusRing, at: u64, bytes: u8, status: &[u8]) -> Option<Poll> {
        let byte = |addr: PhysAddr| {
            let (index, offset) =
                ((addr.0 - BASE) / ring.descriptor_bytes, (addr.0 - BASE) % ring.descriptor_bytes);
            Some(if offset == ring.status_at {
                status.get(index as usize).copied().unwrap_or(0)
            } else {
                0xff
            })
        };
        ring.clone().poll(PhysAddr(BASE + at), bytes, &byte)
    }

    #[test]
    fn a_load_of_a_status_byte_is_a_poll() {
        // Receive ring of an 82540EM (manual, section 3.2.3.2).
        let ring =
            StatusRing { base: PhysAddr(BASE), bytes: 4096, descriptor_bytes: 16, status_at: 12, done: 1 };
        assert_eq!(ring.range(), BASE..BASE + 4096);
        assert_eq!([(0, 8), (13, 1), (16, 8)].map(|(at, bytes)| load(ring, at, bytes, &[])), [None; 3]);
        let found = |index: u64| Some(Poll::Found { position: BASE + 16 * index, packets: 1 });
        assert_eq!(load(ring, 12, 1, &[3]), found(0));
        assert_eq!(load(ring, 12, 1, &[2]), Some(Poll::Empty));
        assert_eq!(load(ring, 24, 8, &[0, 1]), found(1), "a wide load that covers the status byte");
        let wide = StatusRing { descriptor_bytes: 64, status_at: 63, done: 0x82, ..ring };
        assert_eq!([12, 28, 62].map(|at| load(wide, at, 1, &[])), [None; 3]);
        assert_eq!(
            [127, 191].map(|at| load(wide, at, 1, &[0, 0x80])),
            [Some(Poll::Found { position: BASE + 64, packets: 1 }), Some(Poll::Empty)]
        );
    }
}
