//! Resources that the banks of a channel share: command bus, data bus, and each rank's limits on activations.
//!
//! All limits of the data bus (bursts, turnaround bubbles) and of a rank's internal data path (tCCD, tWTR)
//! are distances between column commands, so the calendars hold column commands.

use super::DramCycle;
use super::mapping::GROUP_BITS;
use super::slots::{Marks, Slots};
use super::timing::{ColumnGaps, DramTiming, Relation};
use serde::{Deserialize, Serialize};

/// Shared buses of a channel; see the module.
#[derive(Clone, Debug)]
pub(super) struct Bus {
    pub commands: Marks,
    pub reads: Slots,
    pub writes: Slots,
    /// Delay owed, in clocks: commands were placed in gaps too short for them while later commands already
    /// have final times. The next command pays.
    pub debt: u64,
    /// Recent intervals spent on paying debts.
    pub paid: Paid,
    gaps: ColumnGaps,
}

/// Intervals in which nothing more can be booked, ordered by end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Paid(Vec<(DramCycle, DramCycle)>);

/// Past intervals are dropped each time the number of intervals reaches a multiple of this.
const TRIM_EVERY: usize = 16;

impl Paid {
    #[inline]
    fn end(&self, at: DramCycle) -> Option<DramCycle> {
        let later = self.0.iter().rev().take_while(|(_, to)| *to > at);
        later.filter(|(from, _)| *from <= at).last().map(|interval| interval.1)
    }

    fn add(&mut self, from: DramCycle, to: DramCycle, past: DramCycle) {
        let later = self.0.iter().rev().take_while(|interval| interval.1 > to).count();
        self.0.insert(self.0.len() - later, (from, to));
        if self.0.len().is_multiple_of(TRIM_EVERY) {
            self.0.drain(..self.0.partition_point(|interval| interval.1 <= past));
        }
    }

    /// Checks a restored state.
    pub fn validate(&self) -> Result<(), String> {
        let sound = self.0.iter().all(|(from, to)| from <= to && *to <= super::CYCLE_MAX);
        if !sound || !self.0.is_sorted_by_key(|interval| interval.1) {
            return Err("a data bus has invalid debt intervals in the saved state".to_owned());
        }
        Ok(())
    }
}

/// A command followed by this many clocks without bookings is the last of its run and pays the run's debt.
const RUN_GAP: u32 = 64;
/// Windows of 128 clocks over which delays in a run are followed.
const RUN_WINDOWS: u64 = 4;
/// Limit of the debt: a longer run would have ended before.
pub(super) const DEBT_MAX: u64 = 1000;

#[inline]
fn relation(a: u8, b: u8) -> usize {
    let relation = match a {
        _ if a == b => Relation::SameGroup,
        _ if a >> GROUP_BITS == b >> GROUP_BITS => Relation::SameRank,
        _ => Relation::OtherRank,
    };
    relation as usize
}

impl Bus {
    pub fn new(timing: &DramTiming) -> Bus {
        let gaps = timing.column_gaps();
        Bus {
            commands: Marks::new(),
            reads: Slots::new(),
            writes: Slots::new(),
            debt: 0,
            paid: Paid::default(),
            gaps,
        }
    }

    /// First cycle from `from` on in which a column command to `group` can be issued.
    #[inline]
    pub fn find(&self, from: DramCycle, write: bool, group: u8) -> DramCycle {
        let mut at = from;
        loop {
            let after = self.after_earlier(at, write, group);
            if after > at {
                at = after;
                continue;
            }
            if let Some(after) = self.after_later(at, write, group) {
                at = after;
                continue;
            }
            if self.commands.has(at) {
                at += 1;
                continue;
            }
            if let Some(after) = self.paid.end(at) {
                at = after;
                continue;
            }
            return if self.debt == 0 || !self.is_last(at) {
                at
            } else {
                self.commands.first_free(at + self.owed(at, (write, group)))
            };
        }
    }

    /// Debt left when a command is issued at `at`.
    fn owed(&self, at: DramCycle, command: (bool, u8)) -> u64 {
        self.debt.saturating_sub(self.idle_before(at, command))
    }

    fn is_last(&self, at: DramCycle) -> bool {
        (self.reads.after(at) | self.writes.after(at)).trailing_zeros() >= RUN_GAP
    }

    /// The command booked at a cycle: whether it is a write, and its rank and bank group.
    fn booked(&self, at: DramCycle) -> (bool, u8) {
        let write = self.writes.has(at);
        (write, if write { self.writes.note(at) } else { self.reads.note(at) })
    }

    fn gap(&self, first: (bool, u8), second: (bool, u8)) -> u64 {
        self.gaps.gaps[usize::from(first.0)][usize::from(second.0)][relation(first.1, second.1)]
    }

    /// Clocks before `at` for which the bus could already have taken the command.
    fn idle_before(&self, at: DramCycle, command: (bool, u8)) -> u64 {
        let distance = u64::from((self.reads.before(at) | self.writes.before(at)).leading_zeros());
        if distance >= super::slots::REACH || distance > at.number() {
            return super::slots::REACH;
        }
        distance.saturating_sub(self.gap(self.booked(at - distance), command))
    }

    /// First cycle at which the commands before `at` allow one to `group`.
    #[inline]
    fn after_earlier(&self, at: DramCycle, write: bool, group: u8) -> DramCycle {
        let mut earliest = at;
        for (first_writes, slots) in [(false, &self.reads), (true, &self.writes)] {
            let reach = self.gaps.reach[usize::from(first_writes)][usize::from(write)];
            if at >= slots.last() + reach {
                continue;
            }
            let gaps = &self.gaps.gaps[usize::from(first_writes)][usize::from(write)];
            let mut window = slots.before(at);
            while window != 0 {
                let distance = u64::from(window.leading_zeros());
                if distance >= reach {
                    break;
                }
                let first = at - distance;
                earliest = earliest.max(first + gaps[relation(slots.note(first), group)]);
                window &= !(1 << (127 - distance));
            }
        }
        earliest
    }

    /// If a command to `group` at `at` would be too close to a later booking: the first cycle allowed after
    /// that booking.
    #[inline]
    fn after_later(&self, at: DramCycle, write: bool, group: u8) -> Option<DramCycle> {
        let mut behind = None;
        for (second_writes, slots) in [(false, &self.reads), (true, &self.writes)] {
            if at >= slots.last() {
                continue;
            }
            let reach = self.gaps.reach[usize::from(write)][usize::from(second_writes)];
            let gaps = &self.gaps.gaps[usize::from(write)][usize::from(second_writes)];
            let back = &self.gaps.gaps[usize::from(second_writes)][usize::from(write)];
            let mut window = slots.after(at);
            while window != 0 {
                let distance = u64::from(window.trailing_zeros()) + 1;
                if distance >= reach {
                    break;
                }
                let second = at + distance;
                let relation = relation(slots.note(second), group);
                if gaps[relation] > distance && !self.squeezes(write, second_writes, relation) {
                    let next = second + back[relation];
                    behind = Some(behind.map_or(next, |other: DramCycle| other.min(next)));
                    break;
                }
                window &= window - 1;
            }
        }
        behind
    }

    /// Whether a command may use a gap before another one that is too short for it. FR-FCFS gives the bus to
    /// a ready command while the other still waits for its bank group; the other is delayed.
    #[inline]
    fn squeezes(&self, write: bool, second_writes: bool, relation: usize) -> bool {
        write == second_writes && relation != Relation::SameGroup as usize
    }

    /// Books a column command. Returns the total delay it causes to later commands.
    #[inline]
    pub fn book(&mut self, at: DramCycle, write: bool, group: u8, past: DramCycle) -> u64 {
        if self.debt > 0 && self.is_last(at) {
            let from = at.saturating_sub(self.debt);
            self.paid.add(from.max(at.saturating_sub(self.idle_before(at, (write, group)))), at, past);
            self.debt = 0;
        }
        let mut delayed = 0;
        let same = if write { &self.writes } else { &self.reads };
        let distance = u64::from(same.after(at).trailing_zeros()) + 1;
        if distance < self.gaps.reach[usize::from(write)][usize::from(write)] {
            let relation = relation(same.note(at + distance), group);
            let gap = self.gaps.gaps[usize::from(write)][usize::from(write)][relation];
            let late = gap.saturating_sub(distance);
            if late > 0 {
                self.debt = (self.debt + late).min(DEBT_MAX);
                delayed = self.total_delay(at, late);
            }
        }
        self.commands.set(at);
        let slots = if write { &mut self.writes } else { &mut self.reads };
        slots.set(at, group);
        delayed
    }

    /// Total delay of the commands after `at` if the first is `late`; slack between commands absorbs some.
    fn total_delay(&self, at: DramCycle, mut late: u64) -> u64 {
        let (mut sum, mut window_at, mut before) = (0, at, None::<DramCycle>);
        for _ in 0..RUN_WINDOWS {
            let mut window = self.reads.after(window_at) | self.writes.after(window_at);
            while window != 0 {
                let next = window_at + u64::from(window.trailing_zeros()) + 1;
                if let Some(before) = before {
                    let gap = self.gap(self.booked(before), self.booked(next));
                    late = late.saturating_sub((next - before).saturating_sub(gap));
                }
                if late == 0 {
                    return sum;
                }
                sum += late;
                before = Some(next);
                window &= window - 1;
            }
            window_at += super::slots::REACH;
        }
        sum
    }

    /// First cycle from `from` on that is followed by `quiet` cycles (at most 128) without column commands.
    pub fn quiet_from(&self, from: DramCycle, quiet: u64) -> DramCycle {
        let mut at = from;
        loop {
            let window = self.reads.after(at) | self.writes.after(at);
            if window == 0 || u64::from(window.trailing_zeros()) >= quiet {
                return at;
            }
            at += u64::from(window.trailing_zeros()) + 1;
        }
    }
}

/// Activations of a rank: tRRD between any two, at most four in tFAW.
#[derive(Clone, Debug)]
pub(super) struct Activations {
    pub slots: Slots,
    rrd_s: u64,
    rrd_l: u64,
    faw: u64,
}

impl Activations {
    pub fn new(timing: &DramTiming) -> Activations {
        Activations { slots: Slots::new(), rrd_s: timing.rrd_s, rrd_l: timing.rrd_l, faw: timing.faw }
    }

    fn gap(&self, other: DramCycle, group: u8) -> u64 {
        if self.slots.note(other) == group { self.rrd_l } else { self.rrd_s }
    }

    /// First cycle from `from` on in which a row of `group` can be activated.
    #[inline]
    pub fn find(&self, from: DramCycle, group: u8, commands: &Marks) -> DramCycle {
        let mut at = from;
        loop {
            let after = self.step(at, group);
            if after > at {
                at = after;
            } else if commands.has(at) {
                at += 1;
            } else {
                return at;
            }
        }
    }

    /// `at` if an activation is possible there, otherwise a later cycle before which none is.
    #[inline]
    fn step(&self, at: DramCycle, group: u8) -> DramCycle {
        if at >= self.slots.last() + self.faw {
            return at;
        }
        // The four activations before and after, nearest first.
        let (mut before, mut after) = ([None; 4], [None; 4]);
        let mut window = self.slots.before(at);
        let mut allowed = at;
        for slot in &mut before {
            let distance = u64::from(window.leading_zeros());
            if distance >= self.faw {
                break;
            }
            let other = at - distance;
            *slot = Some(other);
            allowed = allowed.max(other + self.gap(other, group));
            window &= !(1 << (127 - distance));
        }
        if let Some(fourth) = before[3] {
            allowed = allowed.max(fourth + self.faw);
        }
        if allowed > at {
            return allowed;
        }
        let mut window = self.slots.after(at);
        for slot in &mut after {
            let distance = u64::from(window.trailing_zeros()) + 1;
            if distance >= self.faw {
                break;
            }
            let other = at + distance;
            *slot = Some(other);
            if distance < self.gap(other, group) {
                return other + self.gap(other, group);
            }
            window &= window - 1;
        }
        // No five activations, including the new one, may lie within the window.
        let five = |early: Option<DramCycle>, late: Option<DramCycle>| match (early, late) {
            (Some(early), Some(late)) => late - early < self.faw,
            _ => false,
        };
        let too_many = five(before[2], after[0])
            || five(before[1], after[1])
            || five(before[0], after[2])
            || five(Some(at), after[3]);
        match (too_many, after[0]) {
            (true, Some(next)) => next + self.gap(next, group),
            _ => at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn debt_intervals_are_found_as_in_an_unbounded_list(
            ops in proptest::collection::vec((0u64..200, 0u64..400, 1u64..60, 0u64..600), 1..300),
        ) {
            let (mut paid, mut all, mut past) = (Paid::default(), Vec::<(u64, u64)>::new(), 0);
            for (later, ahead, length, look) in ops {
                past += later / 8;
                let far = if later % 8 == 0 { 10 * ahead } else { ahead };
                let interval = (past + far, past + far + length);
                let [from, to] = [interval.0, interval.1].map(DramCycle::new);
                paid.add(from, to, DramCycle::new(past));
                all.push(interval);
                let at = past + look;
                let expected = all.iter().filter(|(from, to)| (*from..*to).contains(&at)).map(|paid| paid.1).min();
                prop_assert_eq!(paid.end(DramCycle::new(at)), expected.map(DramCycle::new));
            }
        }
    }
}
