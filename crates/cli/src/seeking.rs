//! How far searches are: trials made, between which rates the answer still is, and what a trial takes. How many trials there will be
//! depends on what they say, so that no time left is told.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use doorbell_sim::Bytes;
use doorbell_study::search::Event;

use crate::screen::Line;
use crate::tally::time;

/// Searches for several frame sizes.
pub struct Seeking {
    sizes: usize,
    precision: f64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    found: usize,
    open: BTreeMap<Bytes, Open>,
}

/// A search that goes on.
struct Open {
    since: Instant,
    trials: usize,
    /// What they took, one after the other.
    took: Duration,
    between: (Option<u64>, Option<u64>),
    /// The rate that was begun last.
    trying: Option<u64>,
}

impl Seeking {
    /// For so many frame sizes, each to be known this exactly.
    pub fn new(sizes: usize, precision: f64) -> Seeking {
        Seeking { sizes, precision, state: Mutex::default() }
    }

    /// What happened in the search for a size.
    pub fn heard(&self, size: Bytes, event: &Event) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Event::Finished(_) = event {
            state.found += 1;
            state.open.remove(&size);
            return;
        }
        let new = || Open {
            since: Instant::now(),
            trials: 0,
            took: Duration::ZERO,
            between: (None, None),
            trying: None,
        };
        let open = state.open.entry(size).or_insert_with(new);
        match event {
            Event::Started(rate) => open.trying = Some(*rate),
            Event::Judged(number, ..) => (open.trials, open.took) = (*number, open.since.elapsed()),
            Event::Interval(low, high) => open.between = (*low, *high),
            Event::Finished(_) => {}
        }
    }
}

impl Line for Seeking {
    fn said(&self) -> String {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.sizes == 1 {
            return state.open.iter().map(|(size, open)| open.said(*size, self.precision)).collect();
        }
        let open = state.open.iter().map(|(size, open)| open.said_in_short(*size));
        let (found, open): (_, Vec<String>) = (state.found, open.collect());
        let wanted = percent(self.precision);
        format!("{found} of {} sizes, {wanted} % wanted; {}", self.sizes, open.join("; "))
    }

    fn of_all(&self) -> Option<(usize, usize)> {
        None
    }
}

impl Open {
    fn trials(&self) -> String {
        match (self.trials, self.took.checked_div(self.trials as u32)) {
            (1, Some(each)) => format!("1 trial in {}", time(each)),
            (count, Some(each)) => format!("{count} trials, {} each", time(each)),
            (_, None) => "first trial".to_owned(),
        }
    }

    fn said(&self, size: Bytes, precision: f64) -> String {
        let mut parts = vec![self.trials()];
        if self.between != (None, None) {
            parts.push(format!("{}, {} % wanted", between(self.between), percent(precision)));
        }
        parts.extend(self.trying.map(|rate| format!("trying {} Mpps", mpps(rate))));
        format!("{size} frames: {}", parts.join(", "))
    }

    /// Beside others.
    fn said_in_short(&self, size: Bytes) -> String {
        match self.between {
            (None, None) => format!("{size}: {}", self.trials()),
            open => format!("{size}: {}, {}", self.trials(), between(open)),
        }
    }
}

/// Between which rates an answer is, in words.
fn between(rates: (Option<u64>, Option<u64>)) -> String {
    match rates {
        (Some(low), Some(high)) => {
            let width = percent((high - low) as f64 / high as f64);
            format!("between {} and {} Mpps ({width} %)", mpps(low), mpps(high))
        }
        (Some(low), None) => format!("above {} Mpps", mpps(low)),
        (None, Some(high)) => format!("below {} Mpps", mpps(high)),
        (None, None) => String::new(),
    }
}

/// A rate, to the frame.
pub fn mpps(rate: u64) -> f64 {
    rate as f64 / 1e6
}

/// A share; two digits are enough of a width.
fn percent(share: f64) -> f64 {
    let percent = share * 100.0;
    if percent < 10.0 { (percent * 10.0).round() / 10.0 } else { percent.round() }
}

#[cfg(test)]
mod tests {
    use doorbell_study::search::{Answer, Ended};

    use super::*;

    #[test]
    fn a_search_tells_its_trials_what_is_open_and_no_time_left() {
        let (seeking, size) = (Seeking::new(1, 0.02), Bytes(64));
        assert_eq!(seeking.said(), "");
        seeking.heard(size, &Event::Started(14_880_952));
        assert_eq!(seeking.said(), "64B frames: first trial, trying 14.880952 Mpps");
        let open = |trials, seconds, between| Open {
            since: Instant::now(),
            trials,
            took: Duration::from_secs(seconds),
            between,
            trying: Some(8_320_000),
        };
        assert_eq!(
            open(3, 36, (Some(8_100_000), Some(9_000_000))).said(size, 0.02),
            "64B frames: 3 trials, 12 s each, between 8.1 and 9 Mpps (10 %), 2 % wanted, trying 8.32 Mpps"
        );
        assert_eq!(
            open(1, 2, (None, Some(9_000_000))).said(size, 0.02),
            "64B frames: 1 trial in 2.0 s, below 9 Mpps, 2 % wanted, trying 8.32 Mpps"
        );
    }

    #[test]
    fn of_several_sizes_each_that_goes_on_is_told_and_how_many_are_found() {
        let seeking = Seeking::new(3, 0.02);
        for (size, rate) in [(64, 3_000_000), (512, 2_000_000)] {
            seeking.heard(Bytes(size), &Event::Interval(Some(rate), None));
        }
        let answer = Answer { low: None, high: None, ended: Ended::AtHighest };
        seeking.heard(Bytes(64), &Event::Finished(&answer));
        assert_eq!(seeking.said(), "1 of 3 sizes, 2 % wanted; 512B: first trial, above 2 Mpps");
    }
}
