//! Which packet buffers devices have used since caches began to warm up: while ever more of them are new, programs and drivers have not
//! come round to those that they gave away first, and each new one is a miss in caches that no packet later on sees. How
//! many there are no device knows: a program takes them from pools of its own. An observer: nothing simulated depends on it.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use doorbell_sim::ports::{DmaKind, DmaRequest};

/// Packet buffers that frames came to and left from, each frame's first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferUse {
    /// Frames.
    pub used: u64,
    /// Of these, frames whose buffer no frame had used in its direction.
    pub new: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// Where they begin: those that frames come to, and those that they leave from.
    seen: [HashSet<u64, BuildHasherDefault<Spread>>; 2],
    uses: BufferUse,
}

/// Spreads addresses over a table: each frame looks into it twice. Whoever chooses addresses that fall together only waits longer.
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, value: u64) {
        // The golden ratio, as Knuth has it (The Art of Computer Programming, volume 3, section 6.4).
        self.0 = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0.rotate_left(32)
    }
}

impl Buffers {
    /// From now on all are new.
    pub fn forget(&mut self) {
        *self = Buffers::default();
    }

    pub fn uses(&self) -> BufferUse {
        self.uses
    }

    /// A device moves this.
    pub fn note(&mut self, request: &DmaRequest) {
        let direction = match request.kind {
            DmaKind::RxData if request.offset == 0 => 0,
            DmaKind::TxData if request.offset == 0 => 1,
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
    fn a_buffer_is_new_once_in_each_direction_and_a_frame_counts_where_it_begins() {
        let mut buffers = Buffers::default();
        let mut note = |addr: u64, kind, offset| {
            buffers.note(&DmaRequest::plain(PhysAddr(addr), 64, kind, offset));
            (buffers.uses().used, buffers.uses().new)
        };
        assert_eq!(note(0x1000, DmaKind::RxData, 0), (1, 1));
        assert_eq!(note(0x1040, DmaKind::RxData, 64), (1, 1));
        assert_eq!(note(0x1000, DmaKind::RxData, 0), (2, 1));
        assert_eq!(note(0x1000, DmaKind::TxData, 0), (3, 2));
        assert_eq!(note(0x2000, DmaKind::RxDescriptorFetch, 0), (3, 2));
        buffers.forget();
        assert_eq!(buffers.uses(), BufferUse::default());
    }
}
