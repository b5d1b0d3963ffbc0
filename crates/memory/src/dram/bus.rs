//! What the banks of a channel share: command bus, data bus, and each rank's limits on activations.
//!
//! All limits on the data bus (bursts, bubbles between ranks and directions) and of a rank's internal data path (tCCD, tWTR) are
//! distances between column commands, so the calendars are of column commands.

use super::mapping::GROUP_BITS;
use super::slots::{Marks, Slots};
use super::timing::{ColumnGaps, DramTiming, Relation};

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Bus {
    pub commands: Marks,
    pub reads: Slots,
    pub writes: Slots,
    gaps: ColumnGaps,
}

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
        Bus { commands: Marks::new(), reads: Slots::new(), writes: Slots::new(), gaps }
    }

    /// The first cycle from `from` on in which a column command to `group` can be given.
    #[inline]
    pub fn find(&self, from: u64, write: bool, group: u8) -> u64 {
        let mut at = from;
        loop {
            let after = self.behind_earlier(at, write, group);
            if after > at {
                at = after;
                continue;
            }
            if let Some(after) = self.behind_later(at, write, group) {
                at = after;
                continue;
            }
            if !self.commands.has(at) {
                return at;
            }
            at += 1;
        }
    }

    /// When the commands before `at` allow one to `group`.
    #[inline]
    fn behind_earlier(&self, at: u64, write: bool, group: u8) -> u64 {
        let mut earliest = at;
        for (first_writes, slots) in [(false, &self.reads), (true, &self.writes)] {
            let reach = self.gaps.reach[usize::from(first_writes)][usize::from(write)];
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

    /// If a command to `group` at `at` would disturb one that is booked after it: when that one allows another.
    #[inline]
    fn behind_later(&self, at: u64, write: bool, group: u8) -> Option<u64> {
        let mut behind = None;
        for (second_writes, slots) in [(false, &self.reads), (true, &self.writes)] {
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
                if gaps[relation] > distance {
                    let next = second + back[relation];
                    behind = Some(behind.map_or(next, |other: u64| other.min(next)));
                    break;
                }
                window &= window - 1;
            }
        }
        behind
    }

    /// Books a column command.
    #[inline]
    pub fn book(&mut self, at: u64, write: bool, group: u8) {
        self.commands.set(at);
        let slots = if write { &mut self.writes } else { &mut self.reads };
        slots.set(at, group);
    }

    /// The first cycle from `from` on with no column command in the `quiet` cycles behind it, at most 128.
    pub fn quiet_from(&self, from: u64, quiet: u64) -> u64 {
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

/// A rank's activations: tRRD between any two, at most four in tFAW.
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

    fn gap(&self, other: u64, group: u8) -> u64 {
        if self.slots.note(other) == group { self.rrd_l } else { self.rrd_s }
    }

    /// The first cycle from `from` on in which a row of `group` can be activated.
    #[inline]
    pub fn find(&self, from: u64, group: u8, commands: &Marks) -> u64 {
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

    /// `at` if an activation can be there, otherwise a later cycle before which none can.
    #[inline]
    fn step(&self, at: u64, group: u8) -> u64 {
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
        // Five in a row may not lie within the window, the new one being any of them.
        let five = |early: Option<u64>, late: Option<u64>| match (early, late) {
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
