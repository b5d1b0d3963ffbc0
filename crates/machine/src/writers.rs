//! Last hart that stored to each device register. It gives frame observers the core of a NIC queue, the one
//! that writes the queue's tail register. An observer: no state depends on it. It is empty after a restore.

use doorbell_sim::PhysAddr;

/// Maximum number of registers tracked: the tails of 8 ports with 16 queues in each direction.
const REGISTERS_MAX: usize = 256;

/// Hart of the last store to each register, in no particular order.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    /// Whether there is more than one hart.
    several: bool,
    of: Vec<(u64, u8)>,
}

impl Writers {
    /// Creates an empty table for a machine with `harts` harts.
    pub fn new(harts: usize) -> Writers {
        Writers { several: harts > 1, of: Vec::new() }
    }

    /// Records a store of a hart to a register.
    pub fn stored(&mut self, addr: PhysAddr, hart: u32) {
        if !self.several {
            return;
        }
        if let Some((_, last)) = self.of.iter_mut().find(|(at, _)| *at == addr.0) {
            *last = hart as u8;
        } else if self.of.len() < REGISTERS_MAX {
            self.of.push((addr.0, hart as u8));
        }
    }

    /// The hart that last stored to a register.
    pub fn of(&self, addr: PhysAddr) -> Option<u8> {
        if !self.several {
            return Some(0);
        }
        self.of.iter().find(|(at, _)| *at == addr.0).map(|(_, hart)| *hart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_hart_to_store_to_each_register_is_tracked() {
        let mut writers = Writers::new(2);
        assert_eq!(writers.of(PhysAddr(8)), None);
        for (addr, hart) in [(8, 1), (16, 0), (8, 0), (16, 1)] {
            writers.stored(PhysAddr(addr), hart);
        }
        assert_eq!([8, 16, 24].map(|addr| writers.of(PhysAddr(addr))), [Some(0), Some(1), None]);
        assert_eq!(Writers::new(1).of(PhysAddr(8)), Some(0));
    }
}
