//! Progress of searches: trials made, the current interval, and the time per trial. The number of trials
//! depends on their results, so no remaining time is shown.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use doorbell_sim::Bytes;
use doorbell_study::search::Event;

use crate::screen::Line;
use crate::tally::time;

/// Progress of searches for several frame sizes.
pub struct SearchProgress {
    sizes: usize,
    precision: f64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    found: usize,
    open: BTreeMap<Bytes, Open>,
}

/// A running search.
struct Open {
    since: Instant,
    trials: usize,
    /// Their total time.
    took: Duration,
    between: (Option<u64>, Option<u64>),
    /// The rate of the last started trial.
    trying: Option<u64>,
}

impl SearchProgress {
    /// For this number of frame sizes, each with this precision.
    pub fn new(sizes: usize, precision: f64) -> SearchProgress {
        SearchProgress { sizes, precision, state: Mutex::default() }
    }

    /// Updates the state from an event of the search for a size.
    pub fn on_event(&self, size: Bytes, event: &Event) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Event::Finished = event {
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
            Event::Finished => {}
        }
    }
}

impl Line for SearchProgress {
    fn text(&self) -> String {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.sizes == 1 {
            return state.open.iter().map(|(size, open)| open.text(*size, self.precision)).collect();
        }
        let open = state.open.iter().map(|(size, open)| open.short_text(*size));
        let (found, open): (_, Vec<String>) = (state.found, open.collect());
        let precision = percent(self.precision);
        format!("{found} of {} sizes, precision {precision} %; {}", self.sizes, open.join("; "))
    }

    fn position(&self) -> Option<(usize, usize)> {
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

    fn text(&self, size: Bytes, precision: f64) -> String {
        let mut parts = vec![self.trials()];
        if self.between != (None, None) {
            parts.push(format!("{}, precision {} %", between(self.between), percent(precision)));
        }
        parts.extend(self.trying.map(|rate| format!("trying {} Mpps", mpps(rate))));
        format!("{size} frames: {}", parts.join(", "))
    }

    /// Short form, used if there are several sizes.
    fn short_text(&self, size: Bytes) -> String {
        match self.between {
            (None, None) => format!("{size}: {}", self.trials()),
            open => format!("{size}: {}, {}", self.trials(), between(open)),
        }
    }
}

/// A rate interval as text.
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

/// A rate in Mpps, without rounding.
pub fn mpps(rate: u64) -> f64 {
    rate as f64 / 1e6
}

/// A share in percent, rounded to two digits.
fn percent(share: f64) -> f64 {
    let percent = share * 100.0;
    if percent < 10.0 { (percent * 10.0).round() / 10.0 } else { percent.round() }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn progress_shows_trials_and_interval_but_no_remaining_time() {
        let (progress, size) = (SearchProgress::new(1, 0.02), Bytes(64));
        assert_eq!(progress.text(), "");
        progress.on_event(size, &Event::Started(14_880_952));
        assert_eq!(progress.text(), "64B frames: first trial, trying 14.880952 Mpps");
        let open = |trials, seconds, between| Open {
            since: Instant::now(),
            trials,
            took: Duration::from_secs(seconds),
            between,
            trying: Some(8_320_000),
        };
        assert_eq!(
            open(3, 36, (Some(8_100_000), Some(9_000_000))).text(size, 0.02),
            "64B frames: 3 trials, 12 s each, between 8.1 and 9 Mpps (10 %), precision 2 %, trying 8.32 Mpps"
        );
        assert_eq!(
            open(1, 2, (None, Some(9_000_000))).text(size, 0.02),
            "64B frames: 1 trial in 2.0 s, below 9 Mpps, precision 2 %, trying 8.32 Mpps"
        );
    }

    #[test]
    fn progress_of_several_sizes_lists_running_searches_and_finished_count() {
        let progress = SearchProgress::new(3, 0.02);
        for (size, rate) in [(64, 3_000_000), (512, 2_000_000)] {
            progress.on_event(Bytes(size), &Event::Interval(Some(rate), None));
        }
        progress.on_event(Bytes(64), &Event::Finished);
        assert_eq!(progress.text(), "1 of 3 sizes, precision 2 %; 512B: first trial, above 2 Mpps");
    }
}
