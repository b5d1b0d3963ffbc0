//! Packet buffers used by devices since warming began. While many of them are new, software has not yet
//! reused its first buffers, and each new buffer causes cache misses that later packets do not have. The
//! number of buffers is not visible to devices, because programs allocate them from their own pools.
//! Observer: it does not affect the simulation.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use doorbell_sim::ports::{DmaPurpose, DmaRequest};

/// Counts of frames by their first packet buffer, received and sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferUse {
    /// Frames.
    pub used: u64,
    /// Frames whose buffer was not used before in the same direction.
    pub new: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// Start addresses of receive buffers and of transmit buffers.
    seen: [HashSet<u64, BuildHasherDefault<Spread>>; 2],
    uses: BufferUse,
}

/// Fast address hash, because each frame needs two lookups. Colliding addresses only cost host time.
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, value: u64) {
        // Multiplicative hashing with the golden ratio (Knuth, The Art of Computer Programming, volume 3,
        // section 6.4).
        self.0 = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0.rotate_left(32)
    }
}

impl Buffers {
    /// Starts a new warm-up, in which all buffers are new.
    pub fn reset(&mut self) {
        *self = Buffers::default();
    }

    pub fn uses(&self) -> BufferUse {
        self.uses
    }

    /// Counts the buffer of a DMA request, if it is the first request of a frame.
    pub fn count(&mut self, request: &DmaRequest) {
        let direction = match request.purpose {
            DmaPurpose::RxData if request.offset == 0 => 0,
            DmaPurpose::TxData if request.offset == 0 => 1,
            _ => return,
        };
        self.uses.used += 1;
        self.uses.new += u64::from(self.seen[direction].insert(request.addr.0));
    }
}

#[cfg(test)]
mod tests {
    use doorbell_sim::PhysAddr;

    use super::*;

    #[test]
    fn a_buffer_is_new_once_per_direction_and_each_frame_counts_once() {
        let mut buffers = Buffers::default();
        let mut count = |addr: u64, kind, offset| {
            buffers.count(&DmaRequest::plain(PhysAddr(addr), 64, kind, offset));
            (buffers.uses().used, buffers.uses().new)
        };
        assert_eq!(count(0x1000, DmaPurpose::RxData, 0), (1, 1));
        assert_eq!(count(0x1040, DmaPurpose::RxData, 64), (1, 1));
        assert_eq!(count(0x1000, DmaPurpose::RxData, 0), (2, 1));
        assert_eq!(count(0x1000, DmaPurpose::TxData, 0), (3, 2));
        assert_eq!(count(0x2000, DmaPurpose::RxDescriptor, 0), (3, 2));
        buffers.reset();
        assert_eq!(buffers.uses(), BufferUse::default());
    }
}
