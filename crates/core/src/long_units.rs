//! Units that are not pipelined: each is busy for an interval after each start.
//!
//! Starts are kept unit by unit until they can matter no more, however far ahead they lie: as many as the window holds may wait
//! for one divider. An op may start between two that were booked before it, if it fits.

use serde::{Deserialize, Serialize};

use crate::saved::cycles;

/// The units of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LongUnits(Vec<LongUnit>);

/// The starts on one unit, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct LongUnit {
    #[serde(deserialize_with = "cycles")]
    starts: Vec<u64>,
}

impl LongUnit {
    /// The first cycle from `from` on in which the unit is free for so long.
    fn first_free(&self, from: u64, interval: u64) -> u64 {
        let mut at = from;
        let first = self.starts.partition_point(|start| start + interval <= from);
        for start in &self.starts[first..] {
            if *start >= at + interval {
                break;
            }
            at = start + interval;
        }
        at
    }
}

impl LongUnits {
    pub(crate) fn new(units: u32) -> LongUnits {
        LongUnits(vec![LongUnit::default(); units as usize])
    }

    /// Which unit is the first to be free from `from` on, and when.
    pub(crate) fn first_free(&self, from: u64, interval: u64) -> (usize, u64) {
        let free = self.0.iter().map(|unit| unit.first_free(from, interval)).enumerate();
        free.min_by_key(|(unit, at)| (*at, *unit)).expect("there is a unit of each kind")
    }

    /// Starts an op. Later ones will not ask for anything before `floor`.
    pub(crate) fn start(&mut self, unit: usize, at: u64, interval: u64, floor: u64) {
        let starts = &mut self.0[unit].starts;
        let over = starts.partition_point(|start| start + interval <= floor);
        starts.drain(..over);
        let place = starts.partition_point(|start| *start < at);
        starts.insert(place, at);
    }

    /// Says what is impossible about saved ones that are to be like these.
    pub(crate) fn check(&self, saved: &LongUnits, interval: u64) -> Result<(), String> {
        let apart = |unit: &LongUnit| unit.starts.windows(2).all(|pair| pair[0] + interval <= pair[1]);
        if saved.0.len() != self.0.len() || !saved.0.iter().all(apart) {
            return Err("more units are busy than there are".into());
        }
        Ok(())
    }
}
