//! Progress of concurrently measured points: how many are finished, the time per point, the running points
//! and the estimated remaining time. Several workers update it, and a single progress line is made from it,
//! so that they do not overwrite each other's output.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::screen::Line;

/// Counts of the points of a sweep, of a study's figures, or of a cluster's tasks.
pub struct Tally {
    counts: Mutex<Counts>,
}

struct Counts {
    start: Instant,
    at_once: usize,
    all: usize,
    /// Number of points that were finished before or cannot be measured.
    left_out: usize,
    done: usize,
    failed: usize,
    /// Total time of the finished points whose start was observed.
    spent: Duration,
    timed: u32,
    /// Running points: start time and progress text, by name.
    running: BTreeMap<String, (Instant, String)>,
    note: String,
}

impl Tally {
    /// For this number of points, as far as known.
    pub fn new(all: usize, at_once: usize) -> Tally {
        let counts = Counts {
            start: Instant::now(),
            at_once: at_once.max(1),
            all,
            left_out: 0,
            done: 0,
            failed: 0,
            spent: Duration::ZERO,
            timed: 0,
            running: BTreeMap::new(),
            note: String::new(),
        };
        Tally { counts: Mutex::new(counts) }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Excludes points that need not or cannot be measured.
    pub fn leave_out(&self, count: usize) {
        self.counts().left_out += count;
    }

    /// Records the start of a point.
    pub fn started(&self, name: &str) {
        self.counts().running.insert(name.to_owned(), (Instant::now(), String::new()));
    }

    /// Updates the progress text of a running point.
    pub fn at(&self, name: &str, text: String) {
        if let Some((_, at)) = self.counts().running.get_mut(name) {
            *at = text;
        }
    }

    /// Records that a point is finished or has failed.
    pub fn ended(&self, name: &str, is_done: bool) {
        self.counts().ended(name, is_done, Instant::now());
    }

    /// Sets an additional note, which replaces the previous one.
    pub fn note(&self, note: String) {
        self.counts().note = note;
    }
}

impl Line for Tally {
    fn text(&self) -> String {
        self.counts().text(Instant::now())
    }

    fn position(&self) -> Option<(usize, usize)> {
        let counts = self.counts();
        Some((counts.finished(), counts.all))
    }
}

impl Counts {
    fn ended(&mut self, name: &str, is_done: bool, now: Instant) {
        let since = self.running.remove(name).map(|(since, _)| since);
        if !is_done {
            // Failures are quick and do not indicate the duration of a point.
            self.failed += 1;
            return;
        }
        self.done += 1;
        if let Some(since) = since {
            self.spent += now.saturating_duration_since(since);
            self.timed += 1;
        }
    }

    /// Number of points that need no more work.
    fn finished(&self) -> usize {
        self.left_out + self.done + self.failed
    }

    /// Mean time per point, if one is finished.
    fn time_per_point(&self) -> Option<Duration> {
        self.spent.checked_div(self.timed)
    }

    /// Remaining time, assuming the mean duration of the finished points. Unknown while none is finished.
    fn left(&self, now: Instant) -> Option<Duration> {
        let open = self.all.saturating_sub(self.finished());
        let Some(each) = self.time_per_point() else {
            let each = now.saturating_duration_since(self.start).checked_div(self.done as u32)?;
            return Some(each * open as u32);
        };
        let start = self.running.values();
        let rest =
            |(since, _): &(Instant, String)| each.saturating_sub(now.saturating_duration_since(*since));
        let waiting = open.saturating_sub(self.running.len());
        let work = start.map(rest).sum::<Duration>() + each * waiting as u32;
        work.checked_div(self.at_once.min(open).max(1) as u32)
    }

    fn text(&self, now: Instant) -> String {
        let mut parts = vec![format!("{} of {} points", self.finished(), self.all)];
        if self.failed > 0 {
            parts.push(format!("{} failed", self.failed));
        }
        parts.extend(self.time_per_point().map(|each| format!("{} per point", time(each))));
        let left = self.left(now).filter(|left| *left >= Duration::from_secs(1));
        parts.extend(left.map(|left| format!("about {} left", time(left))));
        if !self.note.is_empty() {
            parts.push(self.note.clone());
        }
        let point = |(name, (_, at)): (&String, &(Instant, String))| match at.as_str() {
            "" => name.clone(),
            at => format!("{name} ({at})"),
        };
        let points: Vec<String> = self.running.iter().map(point).collect();
        let head = parts.join(", ");
        if points.is_empty() { head } else { format!("{head}; {}", points.join(", ")) }
    }
}

/// Formats a time for quick reading.
pub fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..10.0 => format!("{seconds:.1} s"),
        ..120.0 => format!("{seconds:.0} s"),
        ..7200.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tally of ten points, two at once, of which three are finished; and its start time.
    fn tally() -> (Counts, Instant) {
        let tally = Tally::new(10, 2);
        tally.leave_out(3);
        let counts = tally.counts.into_inner().unwrap();
        let start = counts.start;
        (counts, start)
    }

    fn begin(counts: &mut Counts, name: &str, now: Instant) {
        counts.running.insert(name.to_owned(), (now, String::new()));
    }

    #[test]
    fn remaining_time_covers_waiting_and_running_points() {
        let (mut counts, start) = tally();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(counts.text(after(1)), "3 of 10 points");
        begin(&mut counts, "point 3", start);
        begin(&mut counts, "point 4", after(10));
        assert_eq!(counts.text(after(20)), "3 of 10 points; point 3, point 4", "no point is finished");
        counts.ended("point 3", true, after(40));
        counts.running.get_mut("point 4").unwrap().1 = "measuring, 40 %".to_owned();
        // Five waiting points, and 10 s of the running one, on two workers.
        assert_eq!(
            counts.text(after(40)),
            "4 of 10 points, 40 s per point, about 105 s left; point 4 (measuring, 40 %)"
        );
        // It takes longer than the earlier points, so its remaining time is unknown and counts as zero.
        assert_eq!(counts.left(after(400)), Some(Duration::from_secs(100)));
    }

    #[test]
    fn failures_are_counted_but_do_not_affect_the_time_per_point() {
        let (mut counts, start) = tally();
        begin(&mut counts, "point 3", start);
        counts.ended("point 3", false, start + Duration::from_secs(1));
        assert_eq!(counts.text(start + Duration::from_secs(2)), "4 of 10 points, 1 failed");
    }

    #[test]
    fn without_start_times_the_rate_of_completion_is_used() {
        let (mut counts, start) = tally();
        counts.note = "queue: 4 tasks running, 2 pending".to_owned();
        for _ in 0..2 {
            counts.ended("a task", true, start + Duration::from_secs(60));
        }
        assert_eq!(
            counts.text(start + Duration::from_secs(60)),
            "5 of 10 points, about 2 min left, queue: 4 tasks running, 2 pending"
        );
    }

    #[test]
    fn times_have_readable_units() {
        let of = |seconds| time(Duration::from_secs_f64(seconds));
        assert_eq!([of(0.25), of(42.4), of(150.0), of(9000.0)], ["0.2 s", "42 s", "2 min", "2.5 h"]);
    }
}
