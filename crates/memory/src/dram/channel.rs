//! A channel and its controller: finds cycles for the commands of an access.

use doorbell_sim::{DomainClock, Ps};

use super::bank::{Bank, CLOSE_BIAS_MAX, OPEN, Period, Reopening};
use super::bus::{Activations, Bus};
use super::config::{DramConfig, PagePolicy};
use super::mapping::{GROUP_BITS, Place};
use super::slots::CYCLES;
use super::stats::DramStats;
use super::timing::DramTiming;
use super::{Command, DramCycle};

/// State of the bank for an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowState {
    /// The access's row is open.
    Hit,
    /// No row is open.
    Closed,
    /// Another row is open.
    Conflict,
}

/// Activation of a row for an access.
#[derive(Clone, Copy, Debug)]
struct Opening {
    /// Index of its period in the bank's list.
    index: usize,
    /// Precharge of the previous row, if it must be booked.
    precharge: Option<DramCycle>,
    /// Cycle at which the previous row, the period before `index`, is closed.
    closes_before: Option<DramCycle>,
    activate: DramCycle,
    /// Precharge of this row, if a later row follows.
    closed: DramCycle,
    own_precharge: bool, // Whether `closed` must still be booked.
}

/// The commands of an access, before they are booked.
#[derive(Clone, Copy, Debug)]
struct Plan {
    column: DramCycle,
    found: RowState,
    /// Index of the period that is hit.
    hit: Option<usize>,
    opening: Option<Opening>,
}

/// An interval between two refreshes.
#[derive(Clone, Copy, Debug)]
struct Interval {
    from: DramCycle,
    /// The refresh that ends it.
    refresh: DramCycle,
}

/// Booked commands of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Booked {
    /// Its column command.
    pub column: DramCycle,
    /// Total delay, in clocks, that it causes to accesses whose times are already final.
    pub delayed: u64,
}

/// Input of the search for a plan.
struct Query<'a> {
    bank: &'a Bank,
    acts: &'a Activations,
    place: Place,
    write: bool,
    /// First cycle allowed.
    from: DramCycle,
    interval: Interval,
    /// Clocks from the column command to the precharge.
    to_precharge: u64,
    idle: Option<u64>,
}

/// A channel and its controller; see the module.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    pub timing: DramTiming,
    clock: DomainClock<Command>,
    pub bus: Bus,
    pub banks: Vec<Bank>,
    pub ranks: Vec<Activations>,
    pub stats: DramStats,
    /// Clocks between refreshes of a rank, staggered over the ranks by `refresh_share`. Without refresh,
    /// beyond all times.
    refresh_every: u64,
    refresh_share: u64,
    policy: PagePolicy,
    row_idle: u64,
    /// Current time, or 0 if never set; few accesses will come from before `behind`.
    pub now: DramCycle,
    pub behind: DramCycle,
}

impl Channel {
    pub fn new(config: &DramConfig, timing: &DramTiming, row_idle: u64) -> Channel {
        let banks = config.ranks * timing.bank_groups * timing.banks_per_group;
        Channel {
            bus: Bus::new(timing),
            banks: (0..banks).map(|_| Bank::new()).collect(),
            ranks: (0..config.ranks).map(|_| Activations::new(timing)).collect(),
            stats: DramStats::default(),
            refresh_every: if config.refresh { timing.refi } else { u64::MAX / 4 },
            refresh_share: if config.refresh { timing.refi / config.ranks } else { 0 },
            policy: config.page_policy,
            row_idle,
            now: DramCycle::ZERO,
            behind: DramCycle::ZERO,
            clock: DomainClock::new(timing.clock),
            timing: timing.clone(),
        }
    }

    /// Sets the current time. Few accesses will come from before `behind`, so bookings before it may be
    /// dropped.
    pub fn advance_to(&mut self, now: DramCycle, behind: DramCycle) {
        (self.now, self.behind) = (now, behind);
        self.bus.commands.advance_to(behind);
        self.bus.reads.advance_to(behind);
        self.bus.writes.advance_to(behind);
        self.ranks.iter_mut().for_each(|rank| rank.slots.advance_to(behind));
    }

    /// Picoseconds for which the line with column command at `column` occupies the data bus.
    pub fn burst(&self, column: DramCycle) -> u64 {
        (self.clock.edge(column + self.timing.burst) - self.clock.edge(column)).0
    }

    /// Lines read and written from `at` on, and picoseconds of data bus time after `at`. A command booked
    /// before others does not move their column commands, since their times are final, but delays their data:
    /// the bus moves a line at a time. The latency from command to data is ignored.
    pub fn booked_after(&self, at: Ps) -> ([u64; 2], u64) {
        let clock = self.clock.edge_at_or_after(at);
        let [reads, writes] =
            [&self.bus.reads, &self.bus.writes].map(|columns| columns.booked_from(DramCycle::ZERO));
        let mut lines = [0; 2];
        let reads = reads.inspect(|column| lines[0] += u64::from(*column >= clock)).collect::<Vec<_>>();
        let writes = writes.inspect(|column| lines[1] += u64::from(*column >= clock));
        let mut columns: Vec<DramCycle> = reads.into_iter().chain(writes).collect();
        columns.sort_unstable();
        let (mut free, mut busy) = (0, 0);
        for column in columns {
            let begin = self.clock.edge(column).0.max(free);
            free = begin + self.burst(column);
            busy += free.saturating_sub(begin.max(at.0));
        }
        (lines, busy)
    }

    /// Bookings before this cycle may be dropped.
    pub fn past(&self) -> DramCycle {
        self.behind.saturating_sub(CYCLES / 2)
    }

    /// Number of commands booked for a time before the calendars.
    pub fn late(&self) -> u64 {
        let ranks = self.ranks.iter().map(|rank| rank.slots.late()).sum::<u64>();
        self.bus.commands.late() + self.bus.reads.late() + self.bus.writes.late() + ranks
    }

    /// The interval without refresh that contains `at`, or the next one.
    fn interval(&self, rank: usize, at: DramCycle) -> Interval {
        let every = self.refresh_every;
        // The first refresh of rank r is at (r + 1) shares.
        let first = DramCycle::new(self.refresh_share * (rank as u64 + 1));
        if self.refresh_share == 0 {
            return Interval { from: DramCycle::ZERO, refresh: DramCycle::new(every) };
        }
        if at < first {
            return Interval { from: DramCycle::ZERO, refresh: first };
        }
        let last = first + (at - first) / every * every;
        Interval { from: last + self.timing.rp + self.timing.rfc, refresh: last + every }
    }

    fn idle(&self, bank: &Bank) -> Option<u64> {
        match self.policy {
            PagePolicy::Open => None,
            PagePolicy::Closed => Some(0),
            PagePolicy::Adaptive => (bank.close_bias > CLOSE_BIAS_MAX / 2).then_some(self.row_idle),
        }
    }

    /// Books an access that may start at cycle `from`.
    pub fn access(&mut self, from: DramCycle, place: Place, write: bool) -> Booked {
        let bank = &self.banks[usize::from(place.bank)];
        let mut query = Query {
            bank,
            acts: &self.ranks[place.rank()],
            place,
            write,
            from,
            interval: self.interval(place.rank(), from),
            to_precharge: self.timing.to_precharge(write),
            idle: self.idle(bank),
        };
        loop {
            query.from = query.from.max(query.interval.from);
            if let Some(plan) = self.plan(&query) {
                let from = query.from;
                return Booked { column: plan.column, delayed: self.book(place, write, plan, from) };
            }
            query.from = query.interval.refresh;
            query.interval = self.interval(place.rank(), query.from);
        }
    }

    /// When the row of a period was or will be closed, by present bookings.
    fn closes(query: &Query, period: &Period) -> DramCycle {
        match query.idle {
            Some(idle) if period.closed == OPEN => period.ready.max(period.last + idle),
            _ => period.closed,
        }
    }

    /// Finds the first position in the bank's list of periods where the access fits.
    fn plan(&self, query: &Query) -> Option<Plan> {
        let periods = query.bank.periods();
        let Interval { from: open_from, refresh: due } = query.interval;
        let end = periods.partition_point(|period| period.activated < due);
        // The access may precede periods activated after `from`; of the earlier periods only the last
        // matters.
        let later = periods[..end].iter().rev().take_while(|period| period.activated > query.from).count();
        let mut index = end - later;
        let last_before = index.checked_sub(1).filter(|before| periods[*before].activated >= open_from);
        match last_before {
            Some(before) => index = before,
            None => {
                if let Some(plan) = self.open_before(query, index, end) {
                    return Some(plan);
                }
                if index == end {
                    return None;
                }
            }
        }
        while index < end {
            if let Some(plan) = self.hit(query, index, end) {
                return Some(plan);
            }
            if let Some(plan) = self.open_after(query, index, end) {
                return Some(plan);
            }
            index += 1;
        }
        None
    }

    /// Plan of a hit in the row of a period that is or will be open.
    fn hit(&self, query: &Query, index: usize, end: usize) -> Option<Plan> {
        let period = &query.bank.periods()[index];
        if period.row != query.place.row || query.from > Self::closes(query, period) {
            return None;
        }
        let from = query.from.max(query.bank.open_from(index, self.timing.rcd));
        let column = self.bus.find(from, query.write, query.place.group);
        let in_time = if index + 1 < end || period.closed != OPEN {
            // Issued before the precharge, it only delays the precharge: FR-FCFS serves hits first.
            column < period.closed
        } else {
            column < query.interval.refresh
        };
        in_time.then_some(Plan { column, found: RowState::Hit, hit: Some(index), opening: None })
    }

    /// Plan of the first row after a refresh: the bank is precharged.
    fn open_before(&self, query: &Query, index: usize, end: usize) -> Option<Plan> {
        let opening = Opening {
            index,
            precharge: None,
            closes_before: None,
            activate: query.from,
            closed: OPEN,
            own_precharge: index < end,
        };
        self.open(query, opening, RowState::Closed)
    }

    /// Plan of a new row after the period at `index`.
    fn open_after(&self, query: &Query, index: usize, end: usize) -> Option<Plan> {
        let period = &query.bank.periods()[index];
        let follows = index + 1 < end;
        let closes = Self::closes(query, period);
        let precharged = closes <= query.from;
        let mut opening = Opening {
            index: index + 1,
            precharge: None,
            closes_before: Some(closes),
            activate: query.from.max(DramCycle::new(closes.number().saturating_add(self.timing.rp))),
            closed: OPEN,
            own_precharge: follows,
        };
        if !precharged {
            let earliest = query.from.max(period.ready);
            if follows && earliest + self.timing.rp + self.timing.rcd > period.closed {
                return None;
            }
            let precharge = self.bus.commands.first_free(earliest);
            // The new row takes over a precharge that was booked for the row after it.
            opening.closed = period.closed;
            opening.own_precharge = follows && period.closed == OPEN;
            opening.precharge = Some(precharge);
            opening.closes_before = Some(precharge);
            opening.activate = precharge + self.timing.rp;
        }
        self.open(query, opening, if precharged { RowState::Closed } else { RowState::Conflict })
    }

    /// Finds the cycles of an activation's commands and checks that they end before the next period.
    fn open(&self, query: &Query, mut opening: Opening, found: RowState) -> Option<Plan> {
        let commands = &self.bus.commands;
        opening.activate = query.acts.find(opening.activate, query.place.group, commands);
        let column = self.bus.find(opening.activate + self.timing.rcd, query.write, query.place.group);
        let ready = (opening.activate + self.timing.ras).max(column + query.to_precharge);
        if opening.own_precharge {
            let next = query.bank.periods()[opening.index].activated;
            opening.closed = commands.first_free(ready);
            if opening.closed + self.timing.rp > next {
                return None;
            }
        } else if ready > opening.closed {
            return None;
        }
        (column < query.interval.refresh).then_some(Plan { column, found, hit: None, opening: Some(opening) })
    }

    fn book(&mut self, place: Place, write: bool, plan: Plan, from: DramCycle) -> u64 {
        let past = self.past();
        let bank = &mut self.banks[usize::from(place.bank)];
        let ready = plan.column + self.timing.to_precharge(write);
        let delayed = self.bus.book(plan.column, write, place.group, past);
        match plan.found {
            RowState::Hit => self.stats.row_hits += 1,
            RowState::Closed => self.stats.row_closed += 1,
            RowState::Conflict => self.stats.row_conflicts += 1,
        }
        if let Some(index) = plan.hit {
            let clocks = Reopening { rp: self.timing.rp, rcd: self.timing.rcd };
            let (late, behind) = bank.hit(index, plan.column, ready, clocks, past);
            if late > 0 {
                // The time of the next row is final; the next access to this bank waits instead.
                bank.delay_last(late);
            }
            return delayed + late * behind as u64;
        }
        let Some(opening) = plan.opening else { return delayed };
        if self.policy == PagePolicy::Adaptive && opening.index > 0 {
            // A closed row that is needed again should have stayed open; an idle row that conflicts should
            // have been closed.
            let again = bank.periods()[opening.index - 1].row == place.row;
            match plan.found {
                RowState::Closed if again => bank.close_bias = bank.close_bias.saturating_sub(1),
                RowState::Conflict => {
                    let before = &bank.periods()[opening.index - 1];
                    let idle = from.since(before.last) > self.row_idle;
                    bank.close_bias = (bank.close_bias + u8::from(idle)).min(CLOSE_BIAS_MAX);
                }
                _ => {}
            }
        }
        if let Some(closed) = opening.closes_before {
            bank.period_mut(opening.index - 1).closed = closed;
        }
        if let Some(precharge) = opening.precharge {
            self.bus.commands.set(precharge);
        }
        if opening.own_precharge {
            self.bus.commands.set(opening.closed);
        }
        self.bus.commands.set(opening.activate);
        self.ranks[place.rank()].slots.set(opening.activate, place.group);
        let period = Period {
            row: place.row,
            activated: opening.activate,
            last: plan.column,
            ready: ready.max(opening.activate + self.timing.ras),
            closed: opening.closed,
            continues: false,
        };
        if opening.index > 0 && bank.continued(opening.index - 1) {
            // The row that would have stayed open is closed, and activated again for the booked hit.
            let next = bank.period_mut(opening.index);
            next.continues = false;
            self.bus.commands.set(opening.closed);
            self.bus.commands.set(next.activated);
            self.ranks[place.rank()].slots.set(next.activated, place.group);
        }
        bank.insert(opening.index, period, past);
        delayed
    }

    /// Largest tag in a calendar of this channel.
    pub fn notes_max(&self) -> u8 {
        ((self.ranks.len() - 1) << GROUP_BITS) as u8 | (self.timing.bank_groups - 1) as u8
    }
}
