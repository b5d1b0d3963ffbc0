//! Cost of a simulation on its host.

use std::time::Instant;

use crate::ratio::per;

/// Host time and executed instructions of a boot or a measurement.
#[derive(Clone, Copy, Debug)]
pub struct HostCost {
    /// Host time in seconds.
    pub seconds: f64,
    /// Executed guest instructions.
    pub instructions: u64,
}

impl HostCost {
    /// The cost of these instructions, executed since `started`.
    pub fn since(started: Instant, instructions: u64) -> HostCost {
        HostCost { seconds: started.elapsed().as_secs_f64(), instructions }
    }

    /// Millions of instructions per second of host time.
    pub fn mips(self) -> f64 {
        per(self.instructions as f64 / 1e6, self.seconds)
    }
}
