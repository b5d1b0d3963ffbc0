//! What lies behind the last-level cache, as the caches see it; and the simplest such thing.

use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::{Calendar, PhysAddr, Ps};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::dram::{Dram, DramState};

/// Margin before the earliest requester: requests from within it are still expected.
const BEHIND: Ps = Ps::from_us(10);

/// Main memory, a line at a time. Requests may come in any order of time.
pub trait MainMemory {
    /// What a snapshot keeps.
    type State: Clone + Serialize + DeserializeOwned;
    /// Prices a read that reaches the controller at `now`; returns when the data are back at its port.
    fn read(&mut self, now: Ps, addr: PhysAddr) -> Ps;
    /// Prices a write; returns when the controller has accepted it.
    fn write(&mut self, now: Ps, addr: PhysAddr) -> Ps;
    /// The present is `now`, and few requests are from before `behind` any more: what is over by then may be forgotten.
    fn come_to(&mut self, _now: Ps, _behind: Ps) {}
    /// The number of the channel that has a line.
    fn channel(&self, _addr: PhysAddr) -> usize {
        0
    }
    /// The state to keep.
    fn save(&self) -> Self::State;
    /// Takes a saved state over, or refuses it and stays as it is.
    fn restore(&mut self, state: Self::State) -> Result<(), SnapshotError>;
}

impl MainMemory for Dram {
    type State = DramState;

    fn read(&mut self, now: Ps, addr: PhysAddr) -> Ps {
        Dram::read(self, now, addr)
    }

    fn write(&mut self, now: Ps, addr: PhysAddr) -> Ps {
        Dram::write(self, now, addr)
    }

    fn come_to(&mut self, now: Ps, behind: Ps) {
        Dram::come_to(self, now, behind);
    }

    fn channel(&self, addr: PhysAddr) -> usize {
        Dram::channel(self, addr)
    }

    fn save(&self) -> DramState {
        Dram::save(self)
    }

    fn restore(&mut self, state: DramState) -> Result<(), SnapshotError> {
        Dram::restore(self, &state)
    }
}

/// Memory with one latency and one bandwidth, for tests and for studies in which memory shall not matter.
#[derive(Clone, Debug)]
pub struct FlatMemory {
    latency: Ps,
    /// For which a line occupies the memory.
    line_time: Ps,
    busy: Calendar,
}

impl FlatMemory {
    /// Memory that answers after `latency` and moves a line in `line_time`.
    pub fn new(latency: Ps, line_time: Ps) -> FlatMemory {
        FlatMemory { latency, line_time, busy: Calendar::default() }
    }

    /// Requests from before what is remembered.
    pub fn late(&self) -> u64 {
        self.busy.late()
    }
}

impl MainMemory for FlatMemory {
    type State = Calendar;

    fn read(&mut self, now: Ps, _addr: PhysAddr) -> Ps {
        self.busy.book(now, self.line_time).saturating_add(self.latency)
    }

    fn write(&mut self, now: Ps, _addr: PhysAddr) -> Ps {
        self.busy.book(now, self.line_time).saturating_add(self.line_time)
    }

    fn come_to(&mut self, _now: Ps, behind: Ps) {
        self.busy.forget_before(behind.saturating_sub(BEHIND).0);
    }

    fn save(&self) -> Calendar {
        self.busy.clone()
    }

    fn restore(&mut self, state: Calendar) -> Result<(), SnapshotError> {
        if state.end() > Ps(1 << 60) {
            let problem = "memory is busy for too long".to_owned();
            return Err(SnapshotError::Inconsistent { name: "memory".to_owned(), problem });
        }
        self.busy = state;
        Ok(())
    }
}
