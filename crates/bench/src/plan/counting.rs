//! Programs that count the frames that they have seen: a guest that watches a line gives nothing back, and that a frame is in its memory does
//! not mean that the program has looked at it.
//!
//! Both edges of a window are kept as checkpoints, from which copies of the machine go on without traffic, functionally. In one its program
//! is asked on its console what it has seen by now. In another it is asked when it has seen all that was still to come: the difference of both
//! edges is what became of the window's frames. The machine that is measured is never disturbed. In the copy, frames that are inside at the
//! edge meet a program that has less to do than where traffic goes on, so that of those in the NIC and its rings some may be seen that would
//! be lost: at both edges alike.

use std::ops::RangeInclusive;

use doorbell_results::{Figure, FigureGroup, PortFigures, Throughput, WatchedFigures, WindowSummary};
use doorbell_sim::{Bytes, Frame};

use crate::ratio::per;

/// What a program counts, and how it says it when `now` or `all` is typed on its console: in lines `PROGRAM: COUNTER = VALUE`, and
/// `PROGRAM: counted` behind them.
#[derive(Debug, PartialEq, Eq)]
pub struct Counting {
    /// The program.
    pub program: &'static str,
    /// What it counts, and what that means.
    pub counters: &'static [(&'static str, &'static str)],
    /// Of these, frames that it has seen,
    pub seen: &'static str,
    /// their bytes without FCS,
    pub bytes: &'static str,
    /// and frames that were lost between the NIC's driver and it.
    pub lost: &'static str,
    /// Rules that matched.
    pub alerts: &'static str,
    /// So many frames may be under way to it more at one time than at another although nothing fills: they are handed over block by block.
    pub block: u64,
}

/// What a program had counted when it had seen all that came before an edge of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// By counter, in the order of [`Counting::counters`].
    values: Vec<u64>,
    /// Frames that there were to see.
    had: u64,
    /// Frames that it had seen at the edge itself, or all if that was not asked.
    by_now: u64,
}

/// What it has counted of a window's frames.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    counting: &'static Counting,
    figures: Vec<Figure>,
    seen: u64,
    bytes: u64,
    /// In memory, and not seen.
    unseen: u64,
    /// Seen in the window, whenever they came.
    arrived: u64,
    /// What a frame takes on the wire beside its bytes.
    overhead: Bytes,
}

impl Counting {
    /// What the console's text says of all counters.
    fn values(&self, text: &str) -> Result<Vec<u64>, String> {
        let value = |name: &str| {
            let begin = format!("{}: {name} = ", self.program);
            let mut values = text.lines().filter_map(|line| line.trim().strip_prefix(&begin)?.parse().ok());
            values.next_back().ok_or_else(|| format!("{} does not say {name}", self.program))
        };
        self.counters.iter().map(|(name, _)| value(name)).collect()
    }

    /// What the text of an edge says, if it adds up to what the NIC's books have.
    pub(crate) fn read(&self, text: &str, booked: RangeInclusive<u64>) -> Result<Reading, String> {
        let values = self.values(text)?;
        // Nothing else reaches the NIC, and nothing is left inside: each frame was seen, or lost by name.
        let (seen, lost) = (self.of(&values, self.seen), self.of(&values, self.lost));
        match seen.checked_add(lost) {
            Some(had) if booked.contains(&had) => Ok(Reading { values, had, by_now: seen }),
            _ => {
                let (first, last) = booked.into_inner();
                let more = if last > first { format!(" to {last}") } else { String::new() };
                Err(format!(
                    "{} has seen {seen} frames and lost {lost}, and by the NIC's books there were {first}{more}",
                    self.program
                ))
            }
        }
    }

    /// The same, of which another text says how many had been seen at the edge itself.
    pub(crate) fn read_by(&self, now: &str, all: &str, accepted: u64) -> Result<Reading, String> {
        let (reading, by_now) =
            (self.read(all, accepted..=accepted)?, self.of(&self.values(now)?, self.seen));
        match by_now > reading.by_now {
            true => {
                Err(format!("{} had seen {by_now} frames, and now has seen {}", self.program, reading.by_now))
            }
            false => Ok(Reading { by_now, ..reading }),
        }
    }

    fn of(&self, values: &[u64], name: &str) -> u64 {
        let at = self.counters.iter().position(|(counter, _)| *counter == name);
        values[at.expect("it is one of the counters")]
    }

    /// What was counted between two readings.
    pub(crate) fn between(&'static self, begin: &Reading, end: &Reading, overhead: Bytes) -> Counted {
        let since = |name: &str| self.of(&end.values, name).saturating_sub(self.of(&begin.values, name));
        let figures =
            self.counters.iter().map(|(name, _)| Figure { name: (*name).to_owned(), value: since(name) });
        Counted {
            counting: self,
            figures: figures.collect(),
            seen: since(self.seen),
            bytes: since(self.bytes),
            unseen: end.had.saturating_sub(begin.had).saturating_sub(since(self.seen)),
            arrived: end.by_now.saturating_sub(begin.by_now),
            overhead,
        }
    }
}

impl Counted {
    /// A window's figures, of which a frame was delivered only if the program has seen it.
    pub fn of_seen(&self, window: WindowSummary) -> WindowSummary {
        let delivered = window.frames_delivered.saturating_sub(self.unseen);
        // That another block is half full at one edge than at the other is no trend.
        let pace =
            if delivered.abs_diff(self.arrived) <= self.counting.block { delivered } else { self.arrived };
        let bytes_l2 = self.bytes + self.seen * Frame::FCS_BYTES as u64;
        let length = per(bytes_l2 as f64, self.seen as f64);
        let rate = |frames: u64| {
            let giga = |bytes: f64| frames as f64 * bytes * 8.0 / window.seconds / 1e9;
            let mpps = frames as f64 / window.seconds / 1e6;
            Throughput { mpps, gbps_l2: giga(length), gbps_l1: giga(length + self.overhead.0 as f64) }
        };
        WindowSummary {
            delivered: rate(delivered),
            arrived: rate(pace),
            drop_rate: 1.0 - per(delivered as f64, window.frames_offered as f64),
            frames_lost: window.frames_lost + (window.frames_delivered - delivered),
            frames_delivered: delivered,
            frames_arrived: self.arrived,
            // In which part of the window each was seen is not known.
            confidence_95: None,
            batches: Vec::new(),
            ..window
        }
    }

    /// The same in a few words, of a port that something else uses.
    pub fn watched(&self) -> WatchedFigures {
        let Counted { counting, figures, seen, unseen, .. } = self;
        let alerts = figures.iter().find(|figure| figure.name == counting.alerts);
        WatchedFigures {
            program: counting.program.to_owned(),
            frames: seen + unseen,
            seen: *seen,
            dropped: *unseen,
            alerts: alerts.map_or(0, |figure| figure.value),
        }
    }

    /// Adds what was counted to the figures of the port that the program watches.
    pub fn tell(self, ports: &mut [PortFigures]) {
        let title = format!("What {} has counted", self.counting.program);
        if let Some(first) = ports.first_mut() {
            first.groups.insert(0, FigureGroup { title, figures: self.figures });
        }
    }
}

impl Counting {
    /// What its figures mean, by name.
    pub(crate) fn meanings(&self) -> impl Iterator<Item = (String, String)> {
        self.counters.iter().map(|(name, meaning)| ((*name).to_owned(), (*meaning).to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: Counting = Counting {
        program: "ids",
        counters: &[
            ("seen", "frames"),
            ("bytes", "their bytes"),
            ("lost", "frames"),
            ("alerts", "rules that matched"),
        ],
        seen: "seen",
        bytes: "bytes",
        lost: "lost",
        alerts: "alerts",
        block: 89,
    };

    static BLOCKS: Counting = IDS;

    fn said(seen: u64, lost: u64, alerts: u64) -> String {
        let bytes = seen * 60;
        format!("all\nids: seen = {seen}\nids: bytes = {bytes}\nids: lost = {lost}\nids: alerts = {alerts}\n")
    }

    #[test]
    fn what_is_said_has_every_counter_and_every_frame() {
        let now = said(80, 9, 7);
        let reading = IDS.read_by(&now, &said(90, 10, 7), 100).unwrap();
        assert_eq!(reading, Reading { values: vec![90, 5400, 10, 7], had: 100, by_now: 80 });
        // Of a port that goes on sending while it is asked.
        let unasked = Reading { by_now: 90, ..reading };
        assert_eq!(IDS.read(&said(90, 10, 7), 98..=105).unwrap(), unasked);
        let error = IDS.read(&said(90, 10, 7), 101..=105).unwrap_err();
        assert!(error.ends_with("by the NIC's books there were 101 to 105"), "{error}");
        for (all, accepted, says) in [
            (
                said(90, 10, 7),
                101,
                "ids has seen 90 frames and lost 10, and by the NIC's books there were 101",
            ),
            (said(70, 30, 7), 100, "ids had seen 80 frames, and now has seen 70"),
            (said(90, 10, 7).replace("alerts", "alarms"), 100, "ids does not say alerts"),
            (said(90, 10, 7).replace("= 10", "= 18446744073709551615"), 100, "lost 18446744073709551615"),
        ] {
            let error = IDS.read_by(&now, &all, accepted).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn a_frame_of_the_window_is_delivered_when_it_was_seen() {
        let read = |(by_now, seen, lost, alerts)| {
            IDS.read_by(&said(by_now, 0, 0), &said(seen, lost, alerts), seen + lost).unwrap()
        };
        let (begin, end) = (read((990, 1000, 0, 3)), read((1500, 1600, 200, 5)));
        let counted = BLOCKS.between(&begin, &end, Bytes(20));
        let alerts = counted.figures.iter().find(|figure| figure.name == "alerts");
        assert_eq!((counted.seen, counted.unseen, alerts.map(|figure| figure.value)), (600, 200, Some(2)));
        let watched = counted.watched();
        assert_eq!((watched.frames, watched.seen, watched.dropped, watched.alerts), (800, 600, 200, 2));
        assert_eq!(watched.seen_share(), Some(0.75));
        // 1000 frames of 64 B with FCS are offered in a millisecond, of which the NIC drops 200.
        let window = WindowSummary {
            seconds: 1e-3,
            frames_offered: 1000,
            frames_delivered: 800,
            frames_arrived: 810,
            frames_lost: 200,
            drop_rate: 0.2,
            ..WindowSummary::default()
        };
        let seen = counted.of_seen(window.clone());
        assert_eq!((seen.frames_delivered, seen.frames_lost, seen.frames_arrived), (600, 400, 510));
        static LONGER: Counting = Counting { block: 90, ..IDS };
        let counted = Counted { counting: &LONGER, ..counted };
        assert_eq!(counted.of_seen(window).arrived.mpps, 0.6, "of which a block is half full");
        for (one, other) in [
            (seen.drop_rate, 0.4),
            (seen.delivered.mpps, 0.6),
            (seen.delivered.gbps_l2, 0.3072),
            (seen.delivered.gbps_l1, 0.4032),
            (seen.arrived.mpps, 0.51),
            (seen.arrived.gbps_l2, 0.26112),
        ] {
            assert!((one - other).abs() < 1e-9, "{one} is not {other}");
        }
    }
}
