//! Hardware performance counters (privileged manual, "Hardware Performance Monitor"; extension Zihpm):
//! sixteen counters, each for the event selected by its `mhpmevent`, or for none.
//!
//! The hart's owner supplies the event counts up to the instruction that accesses a counter; the hart stops
//! for that ([`Stop::Events`](crate::Stop::Events)). Without such an owner the counters keep the written
//! values.

use serde::{Deserialize, Serialize};

use crate::hart::Hart;

/// Number of counters: `mhpmcounter3` and up.
pub const EVENT_COUNTERS: usize = 16;
/// Bit of the first counter in `mcounteren` and `mcountinhibit`.
const FIRST: u16 = 3;
/// Bits of all event counters in `mcounteren` and `mcountinhibit`.
pub(crate) const INHIBITABLE: u64 = ((1 << EVENT_COUNTERS) - 1) << FIRST;

const MCOUNTINHIBIT: u16 = 0x320;
const MHPMEVENT: u16 = 0x320;
const MHPMCOUNTER: u16 = 0xb00;
const HPMCOUNTER: u16 = 0xc00;

/// An event and its count.
pub type EventCount = (u64, u64);

/// The event counters, which are also their saved form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct EventCounters {
    /// The event of each counter; 0 is none.
    selected: [u64; EVENT_COUNTERS],
    /// Each counter's value minus its event's count; its value if no event is counted.
    offsets: [u64; EVENT_COUNTERS],
    /// Counts of each event since the guest started, in ascending order of events; the guest may move to
    /// another machine.
    counts: Vec<EventCount>,
    /// The owner's last reported counts.
    #[serde(skip)]
    reported: Vec<u64>,
    /// Instruction count at the last report.
    #[serde(skip)]
    reported_at: Option<u64>,
}

/// The counter of a CSR, and whether the CSR is the counter itself or its event selector.
fn counter_of(number: u16) -> Option<(usize, bool)> {
    let last = FIRST + EVENT_COUNTERS as u16;
    let within = |base: u16| (base + FIRST..base + last).contains(&number);
    [(MHPMEVENT, false), (MHPMCOUNTER, true), (HPMCOUNTER, true)]
        .into_iter()
        .find(|(base, _)| within(*base))
        .map(|(base, value)| (usize::from(number - base - FIRST), value))
}

impl EventCounters {
    /// The count of a counter's event; 0 while the counter is inhibited.
    fn base(&self, counter: usize, inhibit: u64) -> u64 {
        let (event, inhibited) = (self.selected[counter], inhibit >> FIRST >> counter & 1 == 1);
        let found = self.counts.binary_search_by_key(&event, |(event, _)| *event);
        found.ok().filter(|_| event != 0 && !inhibited).map_or(0, |at| self.counts[at].1)
    }

    fn value(&self, counter: usize, inhibit: u64) -> u64 {
        self.base(counter, inhibit).wrapping_add(self.offsets[counter])
    }

    /// Changes the inhibit bits; the counters' values stay.
    pub(crate) fn inhibit(&mut self, old: u64, new: u64) {
        for counter in 0..EVENT_COUNTERS {
            let value = self.value(counter, old);
            self.offsets[counter] = value.wrapping_sub(self.base(counter, new));
        }
    }

    /// Adds the events since the owner's last report.
    pub(crate) fn add(&mut self, now: &[EventCount]) {
        for ((event, count), reported) in now.iter().zip(&mut self.reported) {
            let since = count.saturating_sub(*reported);
            *reported = *count;
            if let Ok(at) = self.counts.binary_search_by_key(event, |(event, _)| *event) {
                self.counts[at].1 += since;
            }
        }
    }

    /// Sets the events that the owner reports, in ascending order.
    fn follow(&mut self, now: &[EventCount]) {
        // Events of a previous owner keep their count, because counters may have counted them.
        self.counts.sort_unstable_by_key(|(event, _)| *event);
        for (event, _) in now {
            if let Err(at) = self.counts.binary_search_by_key(event, |(event, _)| *event) {
                self.counts.insert(at, (*event, 0));
            }
        }
        self.reported = now.iter().map(|(_, count)| *count).collect();
        self.reported_at = None;
    }
}

impl Hart {
    /// Sets the events that the owner reports when the hart stops for them, in ascending order, with the
    /// owner's present counts. Counter values do not change.
    pub fn follow_events(&mut self, now: &[EventCount]) {
        self.events.follow(now);
    }

    /// Reports the owner's event counts up to the instruction at which the hart has stopped.
    pub fn update_events(&mut self, now: &[EventCount]) {
        self.events.add(now);
        self.events.reported_at = Some(self.instret);
    }

    /// Whether the running instruction needs event counts that the owner has not reported yet.
    #[inline]
    pub(crate) fn needs_events(&self, number: u16) -> bool {
        let is_event_csr = number == MCOUNTINHIBIT || counter_of(number).is_some();
        is_event_csr
            && !self.events.reported.is_empty()
            && self.events.reported_at != Some(self.retired_before())
    }

    /// The value of a counter or an event selector; 0 if it does not exist.
    pub(crate) fn event_csr(&self, number: u16) -> u64 {
        match counter_of(number) {
            Some((counter, true)) => self.events.value(counter, self.csr.mcountinhibit),
            Some((counter, false)) => self.events.selected[counter],
            None => 0,
        }
    }

    /// Writes a counter or an event selector; the latter keeps the counter's value.
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
