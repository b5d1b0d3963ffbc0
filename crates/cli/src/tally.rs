//! How far points are that are measured side by side: how many are done, how long one takes, what is under way and about how long
//! it will go on. Several workers write into it and one line is made of it, so that none of them overwrites what another one said.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::screen::Line;

/// Points of a sweep, of a study's figures, or of a cluster's tasks.
pub struct Tally {
    counts: Mutex<Counts>,
}

struct Counts {
    begun: Instant,
    at_once: usize,
    all: usize,
    /// Those of them that were done before, or cannot be measured.
    left_out: usize,
    done: usize,
    failed: usize,
    /// What points took that were seen to begin and are done.
    spent: Duration,
    timed: u32,
    /// By name: since when, and how far it is.
    under_way: BTreeMap<String, (Instant, String)>,
    note: String,
}

impl Tally {
    /// Of so many points, as far as is known now.
    pub fn new(all: usize, at_once: usize) -> Tally {
        let counts = Counts {
            begun: Instant::now(),
            at_once: at_once.max(1),
            all,
            left_out: 0,
            done: 0,
            failed: 0,
            spent: Duration::ZERO,
            timed: 0,
            under_way: BTreeMap::new(),
            note: String::new(),
        };
        Tally { counts: Mutex::new(counts) }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many of them need not be measured, or cannot be.
    pub fn leave_out(&self, count: usize) {
        self.counts().left_out += count;
    }

    /// A point was begun.
    pub fn began(&self, name: &str) {
        self.counts().under_way.insert(name.to_owned(), (Instant::now(), String::new()));
    }

    /// How far a point is that was begun.
    pub fn at(&self, name: &str, said: String) {
        if let Some((_, at)) = self.counts().under_way.get_mut(name) {
            *at = said;
        }
    }

    /// A point is done, or has failed.
    pub fn ended(&self, name: &str, is_done: bool) {
        self.counts().ended(name, is_done, Instant::now());
    }

    /// What else there is to say, until there is something else.
    pub fn note(&self, note: String) {
        self.counts().note = note;
    }
}

impl Line for Tally {
    fn said(&self) -> String {
        self.counts().said(Instant::now())
    }

    fn of_all(&self) -> Option<(usize, usize)> {
        let counts = self.counts();
        Some((counts.behind(), counts.all))
    }
}

impl Counts {
    fn ended(&mut self, name: &str, is_done: bool, now: Instant) {
        let since = self.under_way.remove(name).map(|(since, _)| since);
        if !is_done {
            // What fails soon says nothing of what others take.
            self.failed += 1;
            return;
        }
        self.done += 1;
        if let Some(since) = since {
            self.spent += now.saturating_duration_since(since);
            self.timed += 1;
        }
    }

    /// Those that are waited for no more.
    fn behind(&self) -> usize {
        self.left_out + self.done + self.failed
    }

    /// What a point takes, if one has shown it.
    fn of_one(&self) -> Option<Duration> {
        self.spent.checked_div(self.timed)
    }

    /// What is left, if others take as long as those that are done did; unknown while none is, and when one takes longer.
    fn left(&self, now: Instant) -> Option<Duration> {
        let open = self.all.saturating_sub(self.behind());
        let Some(each) = self.of_one() else {
            let each = now.saturating_duration_since(self.begun).checked_div(self.done as u32)?;
            return Some(each * open as u32);
        };
        let begun = self.under_way.values();
        let rest =
            |(since, _): &(Instant, String)| each.saturating_sub(now.saturating_duration_since(*since));
        let waiting = open.saturating_sub(self.under_way.len());
        let work = begun.map(rest).sum::<Duration>() + each * waiting as u32;
        work.checked_div(self.at_once.min(open).max(1) as u32)
    }

    fn said(&self, now: Instant) -> String {
        let mut parts = vec![format!("{} of {} points", self.behind(), self.all)];
        if self.failed > 0 {
            parts.push(format!("{} failed", self.failed));
        }
        parts.extend(self.of_one().map(|each| format!("{} a point", time(each))));
        let left = self.left(now).filter(|left| *left >= Duration::from_secs(1));
        parts.extend(left.map(|left| format!("about {} left", time(left))));
        if !self.note.is_empty() {
            parts.push(self.note.clone());
        }
        let point = |(name, (_, at)): (&String, &(Instant, String))| match at.as_str() {
            "" => name.clone(),
            at => format!("{name} ({at})"),
        };
        let points: Vec<String> = self.under_way.iter().map(point).collect();
        let head = parts.join(", ");
        if points.is_empty() { head } else { format!("{head}; {}", points.join(", ")) }
    }
}

/// A time as a person reads it at a glance.
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

    /// A tally of ten points, two at once, of which three are known; and the time then.
    fn tally() -> (Counts, Instant) {
        let tally = Tally::new(10, 2);
        tally.leave_out(3);
        let counts = tally.counts.into_inner().unwrap();
        let begun = counts.begun;
        (counts, begun)
    }

    fn begin(counts: &mut Counts, name: &str, now: Instant) {
        counts.under_way.insert(name.to_owned(), (now, String::new()));
    }

    #[test]
    fn the_time_left_is_what_points_took_for_those_that_wait_and_the_rest_of_those_under_way() {
        let (mut counts, begun) = tally();
        let after = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(counts.said(after(1)), "3 of 10 points");
        begin(&mut counts, "point 3", begun);
        begin(&mut counts, "point 4", after(10));
        assert_eq!(
            counts.said(after(20)),
            "3 of 10 points; point 3, point 4",
            "none has shown what it takes"
        );
        counts.ended("point 3", true, after(40));
        counts.under_way.get_mut("point 4").unwrap().1 = "measuring, 40 %".to_owned();
        // Five that wait, and 10 s of the one under way, by two at once.
        assert_eq!(
            counts.said(after(40)),
            "4 of 10 points, 40 s a point, about 105 s left; point 4 (measuring, 40 %)"
        );
        // It takes longer than those before it: that is not known to end at any time.
        assert_eq!(counts.left(after(400)), Some(Duration::from_secs(100)));
    }

    #[test]
    fn what_fails_is_told_and_does_not_say_how_long_a_point_takes() {
        let (mut counts, begun) = tally();
        begin(&mut counts, "point 3", begun);
        counts.ended("point 3", false, begun + Duration::from_secs(1));
        assert_eq!(counts.said(begun + Duration::from_secs(2)), "4 of 10 points, 1 failed");
    }

    #[test]
    fn of_tasks_that_were_not_seen_to_begin_the_pace_is_what_became_of_them() {
        let (mut counts, begun) = tally();
        counts.note = "queue: 4 tasks run, 2 wait".to_owned();
        for _ in 0..2 {
            counts.ended("a task", true, begun + Duration::from_secs(60));
        }
        assert_eq!(
            counts.said(begun + Duration::from_secs(60)),
            "5 of 10 points, about 2 min left, queue: 4 tasks run, 2 wait"
        );
    }

    #[test]
    fn times_are_read_at_a_glance() {
        let of = |seconds| time(Duration::from_secs_f64(seconds));
        assert_eq!([of(0.25), of(42.4), of(150.0), of(9000.0)], ["0.2 s", "42 s", "2 min", "2.5 h"]);
    }
}
