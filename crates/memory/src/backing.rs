//! Memory behind the last-level cache, as the caches use it, and a model with fixed latency.

use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::{Calendar, PhysAddr, Ps};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::dram::{Dram, DramState};

/// Margin before the earliest requester within which requests are still expected.
const BEHIND: Ps = Ps::from_us(10);

/// Main memory, accessed by lines. Requests may come in any order of time.
pub trait MainMemory {
    /// State to save.
    type State: Clone + Serialize + DeserializeOwned;
    /// Times a read that reaches the controller at `now`; returns when the data are back at the controller's
    /// port.
    fn read(&mut self, now: Ps, addr: PhysAddr) -> Ps;
    /// Times a write; returns when the controller has accepted it.
    fn write(&mut self, now: Ps, addr: PhysAddr) -> Ps;
    /// Sets the current time. Few requests will come from before `behind`, so bookings before it may be
    /// dropped.
    fn advance_to(&mut self, _now: Ps, _behind: Ps) {}
    /// Number of the channel that holds a line.
    fn channel(&self, _addr: PhysAddr) -> usize {
        0
    }
    /// Returns the state to save.
    fn save(&self) -> Self::State;
    /// Restores a saved state, or rejects it and is unchanged.
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

    fn advance_to(&mut self, now: Ps, behind: Ps) {
        Dram::advance_to(self, now, behind);
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

/// Memory with one latency and one bandwidth, for tests and for studies without memory effects.
#[derive(Clone, Debug)]
pub struct FlatMemory {
    latency: Ps,
    /// Time for which a line occupies the memory.
    line_time: Ps,
    busy: Calendar,
}

impl FlatMemory {
    /// Memory that responds after `latency` and transfers a line in `line_time`.
    pub fn new(latency: Ps, line_time: Ps) -> FlatMemory {
        FlatMemory { latency, line_time, busy: Calendar::default() }
    }

    /// Number of requests for a time before the oldest booking kept.
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

    fn advance_to(&mut self, _now: Ps, behind: Ps) {
        self.busy.forget_before(behind.saturating_sub(BEHIND).0);
    }

    fn save(&self) -> Calendar {
        self.busy.clone()
    }

    fn restore(&mut self, state: Calendar) -> Result<(), SnapshotError> {
        if state.end() > Ps(1 << 60) {
            let problem = "the end of memory's busy time is out of range".to_owned();
            return Err(SnapshotError::Inconsistent { name: "memory".to_owned(), problem });
        }
        self.busy = state;
        Ok(())
    }
}
