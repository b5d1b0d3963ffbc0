//! Hardware performance counters (privileged manual, "Hardware Performance Monitor"; extension Zihpm): sixteen, each of which counts
//! the event that its `mhpmevent` names, or nothing.
//!
//! A hart knows of no events but what its owner tells it of: how often each has happened up to the instruction that asks, for
//! which it stops ([`Stop::Events`](crate::Stop::Events)). With an owner that tells of none the counters keep what is written to them.

use serde::{Deserialize, Serialize};

use crate::hart::Hart;

/// How many counters there are: `mhpmcounter3` and those after it.
pub const EVENT_COUNTERS: usize = 16;
/// The first one's bit in `mcounteren` and `mcountinhibit`.
const FIRST: u16 = 3;
/// The bits of all in `mcounteren` and `mcountinhibit`.
pub(crate) const INHIBITABLE: u64 = ((1 << EVENT_COUNTERS) - 1) << FIRST;

const MCOUNTINHIBIT: u16 = 0x320;
const MHPMEVENT: u16 = 0x320;
const MHPMCOUNTER: u16 = 0xb00;
const HPMCOUNTER: u16 = 0xc00;

/// An event and how often it has happened.
pub type EventCount = (u64, u64);

/// See the module. This is what a snapshot keeps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct EventCounters {
    /// The event of each counter; 0 is none.
    selected: [u64; EVENT_COUNTERS],
    /// Each counter's value less the count of its event; where none is counted, its value.
    offsets: [u64; EVENT_COUNTERS],
    /// The events in ascending order with how often each has happened in this guest's life, which may go on in another machine than
    /// it began in.
    counts: Vec<EventCount>,
    /// The same as the owner told it last.
    #[serde(skip)]
    told: Vec<u64>,
    /// Instructions retired when the owner told it last.
    #[serde(skip)]
    told_at: Option<u64>,
}

/// Which counter a CSR belongs to, and whether it is the counter itself and not its event.
fn counter_of(number: u16) -> Option<(usize, bool)> {
    let last = FIRST + EVENT_COUNTERS as u16;
    let within = |base: u16| (base + FIRST..base + last).contains(&number);
    [(MHPMEVENT, false), (MHPMCOUNTER, true), (HPMCOUNTER, true)]
        .into_iter()
        .find(|(base, _)| within(*base))
        .map(|(base, value)| (usize::from(number - base - FIRST), value))
}

impl EventCounters {
    /// How often a counter's event has happened while the counter was not inhibited.
    fn base(&self, counter: usize, inhibit: u64) -> u64 {
        let (event, inhibited) = (self.selected[counter], inhibit >> FIRST >> counter & 1 == 1);
        let known = self.counts.binary_search_by_key(&event, |(event, _)| *event);
        known.ok().filter(|_| event != 0 && !inhibited).map_or(0, |at| self.counts[at].1)
    }

    fn value(&self, counter: usize, inhibit: u64) -> u64 {
        self.base(counter, inhibit).wrapping_add(self.offsets[counter])
    }

    /// Changes what counts, and no counter's value.
    pub(crate) fn inhibit(&mut self, old: u64, new: u64) {
        for counter in 0..EVENT_COUNTERS {
            let value = self.value(counter, old);
            self.offsets[counter] = value.wrapping_sub(self.base(counter, new));
        }
    }

    /// What has happened since the owner told it last.
    pub(crate) fn add(&mut self, now: &[EventCount]) {
        for ((event, count), told) in now.iter().zip(&mut self.told) {
            let since = count.saturating_sub(*told);
            *told = *count;
            if let Ok(at) = self.counts.binary_search_by_key(event, |(event, _)| *event) {
                self.counts[at].1 += since;
            }
        }
    }

    /// From now on these events are told of, in ascending order.
    fn follow(&mut self, now: &[EventCount]) {
        // Those that another owner told of stand still: counters may have counted them.
        self.counts.sort_unstable_by_key(|(event, _)| *event);
        for (event, _) in now {
            if let Err(at) = self.counts.binary_search_by_key(event, |(event, _)| *event) {
                self.counts.insert(at, (*event, 0));
            }
        }
        self.told = now.iter().map(|(_, count)| *count).collect();
        self.told_at = None;
    }
}

impl Hart {
    /// From now on the owner tells of these events, in ascending order, when the hart stops for it; so often has each happened
    /// for the owner. What counters hold does not change.
    pub fn follow_events(&mut self, now: &[EventCount]) {
        self.events.follow(now);
    }

    /// How often each event has happened for the owner up to the instruction that the hart has stopped at.
    pub fn tell_events(&mut self, now: &[EventCount]) {
        self.events.add(now);
        self.events.told_at = Some(self.instret);
    }

    /// Whether the running instruction needs to know of events that the owner has not told of yet.
    #[inline]
    pub(crate) fn needs_events(&self, number: u16) -> bool {
        let concerned = number == MCOUNTINHIBIT || counter_of(number).is_some();
        concerned && !self.events.told.is_empty() && self.events.told_at != Some(self.retired_before())
    }

    /// The value of a counter or of its event's register; of those that are not there, zero.
    pub(crate) fn event_csr(&self, number: u16) -> u64 {
        match counter_of(number) {
            Some((counter, true)) => self.events.value(counter, self.csr.mcountinhibit),
            Some((counter, false)) => self.events.selected[counter],
            None => 0,
        }
    }

    /// Writes a counter, or its event's register, which leaves the counter's value.
    pub(crate) fn write_event_csr(&mut self, number: u16, value: u64) {
        let (Some((counter, itself)), inhibit) = (counter_of(number), self.csr.mcountinhibit) else { return };
        let events = &mut self.events;
        let kept = if itself { value } else { events.value(counter, inhibit) };
        if !itself {
            events.selected[counter] = value;
        }
        events.offsets[counter] = kept.wrapping_sub(events.base(counter, inhibit));
    }
}
