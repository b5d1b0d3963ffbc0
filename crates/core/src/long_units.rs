//! Non-pipelined units: each is busy for an interval after each start.
//!
//! Starts are kept per unit until they are in the past, however far ahead they are: a whole window of ops may
//! wait for one divider. An op may start between two earlier bookings if the gap is long enough.

use doorbell_sim::CoreCycle;
use serde::{Deserialize, Serialize};

use crate::saved::cycles;

/// The units of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LongUnits(Vec<LongUnit>);

/// The starts on one unit, in time order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct LongUnit {
    #[serde(deserialize_with = "cycles")]
    starts: Vec<CoreCycle>,
}

impl LongUnit {
    /// The first cycle at or after `from` in which the unit is free for `interval` cycles.
    fn first_free(&self, from: CoreCycle, interval: u64) -> CoreCycle {
        let mut at = from;
        let first = self.starts.partition_point(|start| *start + interval <= from);
        for start in &self.starts[first..] {
            if *start >= at + interval {
                break;
            }
            at = *start + interval;
        }
        at
    }
}

impl LongUnits {
    pub(crate) fn new(units: u32) -> LongUnits {
        LongUnits(vec![LongUnit::default(); units as usize])
    }

    /// The unit that is free first at or after `from`, and the cycle.
    pub(crate) fn first_free(&self, from: CoreCycle, interval: u64) -> (usize, CoreCycle) {
        let free = self.0.iter().map(|unit| unit.first_free(from, interval)).enumerate();
        free.min_by_key(|(unit, at)| (*at, *unit)).expect("there is a unit of each kind")
    }

    /// Starts an op. Later requests do not come from before `floor`.
    pub(crate) fn start(&mut self, unit: usize, at: CoreCycle, interval: u64, floor: CoreCycle) {
        let starts = &mut self.0[unit].starts;
        let over = starts.partition_point(|start| *start + interval <= floor);
        starts.drain(..over);
        let place = starts.partition_point(|start| *start < at);
        starts.insert(place, at);
    }

    /// Checks saved units against this configuration.
    pub(crate) fn check(&self, saved: &LongUnits, interval: u64) -> Result<(), String> {
        let apart = |unit: &LongUnit| unit.starts.windows(2).all(|pair| pair[0] + interval <= pair[1]);
        if saved.0.len() != self.0.len() || !saved.0.iter().all(apart) {
            return Err("the saved state has more busy units than exist".into());
        }
        Ok(())
    }
}
