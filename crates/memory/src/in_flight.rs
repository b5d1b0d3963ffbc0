//! A file of entries that are each held for a stretch of time: miss-status holding registers, write-back buffers.
//!
//! Requests may come in any order of time, so the file keeps the stretches and counts, for the time asked about, those
//! that cover it. One reservation: how long a request will hold its entry is not known when it is admitted, so one that
//! is asked for late, for an early time, may overlap with later ones that have been admitted already.

use serde::{Deserialize, Serialize};

/// A held entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    /// From when.
    pub from: u64,
    /// Until when; from then on another may have it.
    pub until: u64,
    /// For which line.
    pub line: u32,
}

/// See the module. Its times are of whatever unit the owner chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InFlight {
    entries: usize,
    /// Stretches by their ends, in a ring whose length is a power of two.
    ring: Vec<Held>,
    first: usize,
    count: usize,
    state: InFlightState,
}

/// What a snapshot keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InFlightState {
    /// Filled in when a snapshot is taken.
    held: Vec<Held>,
    /// Nothing is admitted before: of earlier times not all stretches are known any more.
    floor: u64,
    /// A stretch in which the file is known to be full, so that a long queue is not walked again and again.
    full: (u64, u64),
    /// The sum of all stretches.
    busy: u64,
}

impl InFlight {
    /// A file of `entries` entries, at least one.
    pub fn new(entries: u32) -> InFlight {
        let entries = entries as usize;
        assert!(entries > 0, "a file of miss registers or buffers has entries");
        let length = (4 * entries).next_power_of_two().clamp(64, 1024);
        InFlight {
            entries,
            ring: vec![Held::default(); length],
            first: 0,
            count: 0,
            state: Default::default(),
        }
    }

    fn at(&self, index: usize) -> &Held {
        &self.ring[(self.first + index) & (self.ring.len() - 1)]
    }

    /// When a request of time `t` gets an entry.
    #[inline]
    pub fn admit(&mut self, t: u64) -> u64 {
        let t = t.max(self.state.floor);
        if self.count == 0 || self.at(self.count - 1).until <= t { t } else { self.first_free(t) }
    }

    fn first_free(&mut self, mut t: u64) -> u64 {
        loop {
            if self.state.full.0 <= t && t < self.state.full.1 {
                t = self.state.full.1;
            }
            let (mut held, mut first_end) = (0, t);
            for index in (0..self.count).rev() {
                let entry = self.at(index);
                if entry.until <= t {
                    break;
                }
                if entry.from <= t {
                    held += 1;
                    first_end = entry.until;
                }
            }
            if held < self.entries {
                return t;
            }
            match self.state.full.1 == t {
                true => self.state.full.1 = first_end,
                false => self.state.full = (t, first_end),
            }
            t = first_end;
        }
    }

    /// Holds an entry for `line` from `from`, when it has been admitted, until `until`.
    pub fn hold(&mut self, line: u32, from: u64, until: u64) {
        if until <= from {
            return;
        }
        self.state.busy += until - from;
        let mask = self.ring.len() - 1;
        if self.count == self.ring.len() {
            self.state.floor = self.state.floor.max(self.ring[self.first].until);
            self.first = (self.first + 1) & mask;
            self.count -= 1;
        }
        let mut index = self.count;
        while index > 0 && self.at(index - 1).until > until {
            self.ring[(self.first + index) & mask] = *self.at(index - 1);
            index -= 1;
        }
        self.ring[(self.first + index) & mask] = Held { from, until, line };
        self.count += 1;
    }

    /// The stretch that ends after `t` and is held for `line`.
    pub fn find(&self, line: u32, t: u64) -> Option<Held> {
        let live = (0..self.count).rev().map(|index| self.at(index)).take_while(|entry| entry.until > t);
        live.copied().find(|entry| entry.line == line)
    }

    /// The sum of all stretches: over a time, the average number of entries held.
    pub fn busy(&self) -> u64 {
        self.state.busy
    }

    pub fn save(&self) -> InFlightState {
        let held = (0..self.count).map(|index| *self.at(index)).collect();
        InFlightState { held, ..self.state.clone() }
    }

    /// Says what is impossible about a saved state with nothing after `latest`.
    pub fn check(&self, state: &InFlightState, latest: u64) -> Result<(), String> {
        if state.held.len() > self.ring.len() {
            return Err(format!("{} held entries where {} are kept", state.held.len(), self.ring.len()));
        }
        let last = state.held.last().map_or(0, |entry| entry.until);
        let sorted = state.held.windows(2).all(|pair| pair[0].until <= pair[1].until);
        if !sorted || state.held.iter().any(|entry| entry.from >= entry.until) {
            return Err("held entries out of order".to_owned());
        }
        if [last, state.floor, state.full.0, state.full.1].iter().any(|time| *time > latest) {
            return Err("a held entry is impossibly late".to_owned());
        }
        Ok(())
    }

    pub fn restore(&mut self, mut state: InFlightState) {
        let held = std::mem::take(&mut state.held);
        self.ring[..held.len()].copy_from_slice(&held);
        (self.first, self.count, self.state) = (0, held.len(), state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_sim::rng::Rng;

    #[test]
    fn a_full_file_admits_the_next_when_the_first_entry_is_free_and_not_before() {
        let mut file = InFlight::new(2);
        file.hold(1, 100, 200);
        assert_eq!(file.admit(100), 100, "one of two is held");
        file.hold(2, 100, 230);
        assert_eq!(file.admit(199), 200, "full until 199");
        assert_eq!(file.admit(200), 200, "free at 200");
        assert_eq!(file.admit(99), 99, "free before");
        file.hold(3, 200, 300);
        assert_eq!(file.admit(150), 230);
    }

    #[test]
    fn a_line_on_its_way_is_found_until_it_is_there() {
        let mut file = InFlight::new(4);
        file.hold(7, 10, 50);
        file.hold(8, 10, 20);
        assert_eq!(file.find(7, 49).map(|held| held.from), Some(10));
        assert_eq!(file.find(7, 50), None);
        assert_eq!(file.find(9, 0), None);
    }

    /// With all requests in order of time this is a queue with several servers.
    #[test]
    fn requests_in_order_are_served_as_by_a_queue_with_so_many_servers() {
        let mut rng = Rng::stream(9, "in flight");
        for entries in [1u32, 2, 6, 20] {
            let (mut file, mut servers) = (InFlight::new(entries), vec![0u64; entries as usize]);
            let mut now = 0;
            for line in 0..3_000u32 {
                now += rng.below(20);
                let hold = 1 + rng.below(20 * u64::from(entries));
                let server = servers.iter_mut().min().unwrap();
                let expected = now.max(*server);
                *server = expected + hold;
                assert_eq!(file.admit(now), expected, "{entries} entries, request {line}");
                file.hold(line, expected, expected + hold);
            }
        }
    }

    #[test]
    fn a_hostile_state_is_refused_and_a_good_one_goes_on() {
        let mut file = InFlight::new(2);
        file.hold(1, 100, 200);
        file.hold(2, 100, 230);
        let good = file.save();
        let mut other = InFlight::new(2);
        other.check(&good, 1_000).unwrap();
        other.restore(good.clone());
        assert_eq!((other.admit(150), other.busy()), (200, 230));
        let mut bad = good.clone();
        bad.held.swap(0, 1);
        assert!(file.check(&bad, 1_000).is_err());
        bad.held = vec![Held::default(); 1000];
        assert!(file.check(&bad, 1_000).is_err());
    }
}
