//! Functional units, issue and write-back ports: how many of each are busy in each cycle.
//!
//! An op issues in the first cycle in which its unit and an issue slot are free. Ops arrive in program order,
//! so that an older op always precedes a younger one that is ready in the same cycle: oldest-first
//! scheduling. There is one difference to a cycle-by-cycle scheduler. A non-pipelined unit is reserved ahead
//! for an older op that is not ready yet, where hardware would start a ready younger one.
//!
//! Ports are counted in [`bookings`](crate::bookings), non-pipelined units in
//! [`long_units`](crate::long_units).

use doorbell_sim::{CoreCycle, OpClass};
use serde::{Deserialize, Serialize};

use crate::bookings::{Bookings, BookingsState, guard, one};
use crate::config::PipelineConfig;
use crate::long_units::LongUnits;
use crate::saved::{Cycles, cycle};

/// Counted resources. The first two are ports, the others unit types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Pool {
    Issue,
    Writeback,
    Alu,
    Branch,
    Multiply,
    Divide,
    FloatAdd,
    FloatMultiply,
    FloatDivide,
    Load,
    Store,
}

const POOLS: usize = Pool::Store as usize + 1;

/// Unit, latency and interval of an op class. Kept small, because each op reads it.
#[derive(Clone, Copy, Debug)]
struct Need {
    pool: Pool,
    latency: u16,
    interval: u16,
}

/// The units and ports of a core.
#[derive(Clone, Debug)]
pub(crate) struct Units {
    needs: [Need; OpClass::COUNT],
    taken: Bookings,
    /// No later op issues before this cycle.
    floor: CoreCycle,
    /// Per pool: no unit is free before this cycle.
    hints: [CoreCycle; POOLS],
    /// The non-pipelined units of each pool.
    long: [LongUnits; POOLS],
}

/// Saved state of [`Units`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct UnitsState {
    taken: BookingsState,
    #[serde(deserialize_with = "cycle")]
    floor: CoreCycle,
    hints: Cycles<POOLS, CoreCycle>,
    long: [LongUnits; POOLS],
}

impl Units {
    pub(crate) fn new(config: &PipelineConfig) -> Units {
        let units = &config.units;
        let limits: [u32; POOLS] = [
            config.issue_width,
            config.writeback_width,
            units.alus,
            units.branch_units.max(1),
            units.multipliers,
            units.dividers,
            units.float_adders,
            units.float_multipliers,
            units.float_dividers,
            units.load_ports,
            units.store_ports.max(1),
        ];
        let needs = OpClass::ALL.map(|class| {
            let (pool, latency, interval) = need(class, config);
            let small = |cycles: u32| u16::try_from(cycles).expect("validate() accepts up to 1000");
            Need { pool, latency: small(latency), interval: small(interval) }
        });
        let (taken, long) = (Bookings::new(&limits), limits.map(LongUnits::new));
        Units { needs, taken, floor: CoreCycle::ZERO, hints: [CoreCycle::ZERO; POOLS], long }
    }

    /// Cycles from issue to result.
    #[inline(always)]
    pub(crate) fn latency(&self, class: OpClass) -> u64 {
        u64::from(self.needs[class as usize].latency)
    }

    /// Issues an op of `class` in the first cycle from `from` on. No later op will issue before `floor`.
    #[inline(always)]
    pub(crate) fn issue(&mut self, class: OpClass, from: CoreCycle, floor: CoreCycle) -> CoreCycle {
        let Need { pool, interval, .. } = self.needs[class as usize];
        self.floor = floor;
        if interval > 1 {
            return self.issue_long(class, from, floor);
        }
        let hint = &mut self.hints[pool as usize];
        *hint = (*hint).max(floor);
        let mut at = from.max(*hint);
        let guards = guard(pool as u32) | guard(Pool::Issue as u32);
        let take = one(pool as u32) | one(Pool::Issue as u32);
        while !self.taken.try_take(at, guards, take, floor) {
            *hint += u64::from(*hint == at);
            at += 1;
        }
        at
    }

    /// Like [`issue`](Units::issue), for a unit that is busy for several cycles.
    fn issue_long(&mut self, class: OpClass, from: CoreCycle, floor: CoreCycle) -> CoreCycle {
        const GUARD: u64 = guard(Pool::Issue as u32);
        let need = self.needs[class as usize];
        let interval = u64::from(need.interval);
        let mut at = from;
        loop {
            let (unit, free) = self.long[need.pool as usize].first_free(at, interval);
            if self.taken.counts(free) & GUARD == 0 {
                self.taken.take(free, one(Pool::Issue as u32), floor);
                self.long[need.pool as usize].start(unit, free, interval, floor);
                return free;
            }
            at = free + 1;
        }
    }

    /// Writes a result in the first cycle from `from` on.
    #[inline(always)]
    pub(crate) fn write_back(&mut self, from: CoreCycle) -> CoreCycle {
        const GUARD: u64 = guard(Pool::Writeback as u32);
        let mut at = from;
        while !self.taken.try_take(at, GUARD, one(Pool::Writeback as u32), self.floor) {
            at += 1;
        }
        at
    }

    /// Bookings before the range of the table ([`Bookings::late`]).
    pub(crate) fn late(&self) -> u64 {
        self.taken.late()
    }

    /// Returns [`late`](Units::late) and resets it.
    pub(crate) fn take_late(&mut self) -> u64 {
        self.taken.take_late()
    }

    pub(crate) fn save(&self) -> UnitsState {
        UnitsState {
            taken: self.taken.save(),
            floor: self.floor,
            hints: Cycles(self.hints),
            long: self.long.clone(),
        }
    }

    pub(crate) fn restore(&mut self, state: UnitsState) -> Result<(), String> {
        let taken = self.taken.restored(state.taken)?;
        for need in &self.needs {
            let pool = need.pool as usize;
            self.long[pool].check(&state.long[pool], u64::from(need.interval))?;
        }
        self.long = state.long;
        self.taken = taken;
        self.floor = state.floor;
        self.hints = state.hints.0;
        Ok(())
    }
}

/// Unit, latency and interval of a class. The latency of loads, stores and atomics excludes the cache access.
fn need(class: OpClass, config: &PipelineConfig) -> (Pool, u32, u32) {
    let units = &config.units;
    match class {
        OpClass::Int | OpClass::Fence => (Pool::Alu, units.alu_cycles, 1),
        OpClass::Serialising => (Pool::Alu, config.serialising_cycles, 1),
        OpClass::IntMul => (Pool::Multiply, units.multiply_cycles, units.multiply_interval),
        OpClass::IntDiv => (Pool::Divide, units.divide_cycles, units.divide_interval),
        OpClass::FloatAdd => (Pool::FloatAdd, units.float_add_cycles, units.float_add_interval),
        OpClass::FloatMul => {
            (Pool::FloatMultiply, units.float_multiply_cycles, units.float_multiply_interval)
        }
        OpClass::FloatFma => (Pool::FloatMultiply, units.float_fma_cycles, units.float_multiply_interval),
        OpClass::FloatDiv => (Pool::FloatDivide, units.float_divide_cycles, units.float_divide_interval),
        OpClass::Load | OpClass::Prefetch => (Pool::Load, config.address_cycles, 1),
        OpClass::Store | OpClass::Atomic | OpClass::Device => {
            (if units.store_ports == 0 { Pool::Load } else { Pool::Store }, config.address_cycles, 1)
        }
        OpClass::Branch
        | OpClass::Jump
        | OpClass::IndirectJump
        | OpClass::Call
        | OpClass::IndirectCall
        | OpClass::Return => {
            (if units.branch_units == 0 { Pool::Alu } else { Pool::Branch }, units.branch_cycles, 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn units() -> Units {
        let mut config = PipelineConfig { issue_width: 3, writeback_width: 2, ..PipelineConfig::default() };
        config.units.alus = 2;
        config.units.divide_interval = 10;
        Units::new(&config)
    }

    fn issue(units: &mut Units, class: OpClass, from: u64, floor: u64) -> u64 {
        units.issue(class, CoreCycle::new(from), CoreCycle::new(floor)).number()
    }

    #[test]
    fn a_pipelined_unit_is_free_in_the_next_cycle() {
        let mut units = units();
        assert_eq!([0; 3].map(|_| issue(&mut units, OpClass::Int, 7, 1)), [7, 7, 8]);
        assert_eq!([0; 2].map(|_| issue(&mut units, OpClass::Load, 7, 1)), [7, 8], "three issues per cycle");
        assert_eq!([9; 3].map(|from| units.write_back(CoreCycle::new(from)).number()), [9, 9, 10]);
    }

    #[test]
    fn a_divider_is_busy_for_exactly_its_interval() {
        let mut units = units();
        assert_eq!(issue(&mut units, OpClass::IntDiv, 30, 1), 30);
        assert_eq!(
            issue(&mut units, OpClass::IntDiv, 21, 1),
            40,
            "a gap of nine cycles before the first is too short"
        );
        assert_eq!(issue(&mut units, OpClass::IntDiv, 20, 1), 20, "a gap of ten suffices");
        assert_eq!(issue(&mut units, OpClass::IntDiv, 31, 1), 50);
    }

    #[test]
    fn a_divider_sustains_its_rate_with_a_long_queue() {
        let mut units = units();
        let starts = [0; 1000].map(|_| issue(&mut units, OpClass::IntDiv, 5, 1));
        assert!(starts.iter().enumerate().all(|(n, start)| *start == 5 + 10 * n as u64));
        assert_eq!(
            issue(&mut units, OpClass::IntDiv, 5_000, 4_000),
            5 + 10_000,
            "only starts before the floor are dropped"
        );
        assert_eq!(units.save().long[Pool::Divide as usize], units.long[Pool::Divide as usize]);
    }

    proptest! {
        #[test]
        fn every_op_issues_in_the_first_cycle_that_is_free(ops in proptest::collection::vec((0u64..3, 0u64..30, 0usize..4), 1..400)) {
            let mut units = units();
            let (mut alu, mut load, mut mul, mut all) = ([0; 4000], [0; 4000], [0; 4000], [0; 4000]);
            let mut floor = 1;
            for (later, wait, class) in ops {
                floor += later;
                let (class, table, limit) = match class {
                    0 | 1 => (OpClass::Int, &mut alu, 2),
                    2 => (OpClass::Load, &mut load, 2),
                    _ => (OpClass::IntMul, &mut mul, 1),
                };
                let at = issue(&mut units, class, floor + wait, floor);
                let expected = (floor + wait..).find(|at| table[*at as usize] < limit && all[*at as usize] < 3);
                prop_assert_eq!(Some(at), expected);
                table[at as usize] += 1;
                all[at as usize] += 1;
            }
        }
    }
}
