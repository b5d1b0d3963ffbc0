//! Programs that count the frames that they process. A guest that monitors a link sends nothing back, and a
//! frame in its memory is not necessarily processed.
//!
//! A checkpoint is taken at each edge of a window. Copies of the machine restored from it run in functional
//! mode without traffic. In one copy the program prints its counts at once, in another after the frames in
//! flight have drained. The difference between the edges gives the fate of the window's frames, and the
//! measured machine is never disturbed. In a copy, frames in flight meet an otherwise idle program, so some
//! frames in the NIC and its rings may be processed that would be lost under load. This affects both edges
//! alike.

use std::ops::RangeInclusive;

use doorbell_results::{Figure, FigureGroup, PortFigures, Throughput, WatchedFigures, WindowSummary};
use doorbell_sim::{Bytes, Frame};

use crate::ratio::per;

/// The counters of a program. When `now` or `all` is typed on its console it prints lines `PROGRAM: COUNTER =
/// VALUE`, and then `PROGRAM: counted`.
#[derive(Debug, PartialEq, Eq)]
pub struct Counting {
    /// The program.
    pub program: &'static str,
    /// Names and meanings of all counters.
    pub counters: &'static [(&'static str, &'static str)],
    /// The counter of frames that it processed.
    pub seen: &'static str,
    /// The counter of these frames' bytes, without FCS.
    pub bytes: &'static str,
    /// The counter of frames lost between the NIC's driver and the program.
    pub lost: &'static str,
    /// The counter of rules that matched.
    pub alerts: &'static str,
    /// Frames per block that the driver hands over. The number of frames in flight may vary by this much in a
    /// steady state.
    pub block: u64,
}

/// A program's counters after it has processed all frames that arrived before an edge of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Counter values, in the order of [`Counting::counters`].
    values: Vec<u64>,
    /// Frames delivered to the program: processed or lost.
    had: u64,
    /// Frames processed by the edge itself, or all processed frames if only a drained copy was read.
    by_now: u64,
}

/// A program's counts for the frames of one window.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    counting: &'static Counting,
    figures: Vec<Figure>,
    seen: u64,
    bytes: u64,
    /// Frames in memory that the program did not process.
    unseen: u64,
    /// Frames processed during the window, including frames that arrived before it.
    arrived: u64,
    /// Bytes per frame on the wire in addition to the frame.
    overhead: Bytes,
}

impl Counting {
    /// Parses the values of all counters from the console's text.
    fn values(&self, text: &str) -> Result<Vec<u64>, String> {
        let value = |name: &str| {
            let begin = format!("{}: {name} = ", self.program);
            let mut values = text.lines().filter_map(|line| line.trim().strip_prefix(&begin)?.parse().ok());
            values.next_back().ok_or_else(|| format!("{} does not print {name}", self.program))
        };
        self.counters.iter().map(|(name, _)| value(name)).collect()
    }

    /// Parses the counters of an edge, and checks that they sum to a number of frames in `booked`, the NIC's
    /// count.
    pub(crate) fn read(&self, text: &str, booked: RangeInclusive<u64>) -> Result<Reading, String> {
        let values = self.values(text)?;
        // No other traffic reaches the NIC, and no frame is in flight: each frame was processed or counted as
        // lost.
        let (seen, lost) = (self.of(&values, self.seen), self.of(&values, self.lost));
        match seen.checked_add(lost) {
            Some(had) if booked.contains(&had) => Ok(Reading { values, had, by_now: seen }),
            _ => {
                let (first, last) = booked.into_inner();
                let more = if last > first { format!(" to {last}") } else { String::new() };
                Err(format!(
                    "{} processed {seen} frames and lost {lost}, but the NIC counted {first}{more}",
                    self.program
                ))
            }
        }
    }

    /// As [`Counting::read`], with the text `now` for the frames processed by the edge itself.
    pub(crate) fn read_by(&self, now: &str, all: &str, accepted: u64) -> Result<Reading, String> {
        let (reading, by_now) =
            (self.read(all, accepted..=accepted)?, self.of(&self.values(now)?, self.seen));
        match by_now > reading.by_now {
            true => Err(format!(
                "{} first counted {by_now} processed frames, and later only {}",
                self.program, reading.by_now
            )),
            false => Ok(Reading { by_now, ..reading }),
        }
    }

    fn of(&self, values: &[u64], name: &str) -> u64 {
        let at = self.counters.iter().position(|(counter, _)| *counter == name);
        values[at.expect("it is one of the counters")]
    }

    /// The counts between two readings.
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
    /// Adjusts a window's figures: a frame counts as delivered only if the program processed it.
    pub fn adjust(&self, window: WindowSummary) -> WindowSummary {
        let delivered = window.frames_delivered.saturating_sub(self.unseen);
        // A difference of at most one block between the edges is not a trend.
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
            // The times at which frames were processed are unknown.
            confidence_95: None,
            batches: Vec::new(),
            ..window
        }
    }

    /// A short form, for a port whose figures are those of another program.
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

    /// Adds the counters to the figures of the port that the program monitors.
    pub fn add_to(self, ports: &mut [PortFigures]) {
        let title = format!("Counters of {}", self.counting.program);
        if let Some(first) = ports.first_mut() {
            first.groups.insert(0, FigureGroup { title, figures: self.figures });
        }
    }
}

impl Counting {
    /// Meanings of the counters, by name.
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

    fn console(seen: u64, lost: u64, alerts: u64) -> String {
        let bytes = seen * 60;
        format!("all\nids: seen = {seen}\nids: bytes = {bytes}\nids: lost = {lost}\nids: alerts = {alerts}\n")
    }

    #[test]
    fn reading_needs_every_counter_and_accounts_for_every_frame() {
        let now = console(80, 9, 7);
        let reading = IDS.read_by(&now, &console(90, 10, 7), 100).unwrap();
        assert_eq!(reading, Reading { values: vec![90, 5400, 10, 7], had: 100, by_now: 80 });
        // The port still receives frames during the reading, so the NIC's count is a range.
        let drained_only = Reading { by_now: 90, ..reading };
        assert_eq!(IDS.read(&console(90, 10, 7), 98..=105).unwrap(), drained_only);
        let error = IDS.read(&console(90, 10, 7), 101..=105).unwrap_err();
        assert!(error.ends_with("but the NIC counted 101 to 105"), "{error}");
        for (all, accepted, message) in [
            (console(90, 10, 7), 101, "ids processed 90 frames and lost 10, but the NIC counted 101"),
            (console(70, 30, 7), 100, "ids first counted 80 processed frames, and later only 70"),
            (console(90, 10, 7).replace("alerts", "alarms"), 100, "ids does not print alerts"),
            (console(90, 10, 7).replace("= 10", "= 18446744073709551615"), 100, "lost 18446744073709551615"),
        ] {
            let error = IDS.read_by(&now, &all, accepted).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn a_frame_counts_as_delivered_when_the_program_processed_it() {
        let read = |(by_now, seen, lost, alerts)| {
            IDS.read_by(&console(by_now, 0, 0), &console(seen, lost, alerts), seen + lost).unwrap()
        };
        let (begin, end) = (read((990, 1000, 0, 3)), read((1500, 1600, 200, 5)));
        let counted = BLOCKS.between(&begin, &end, Bytes(20));
        let alerts = counted.figures.iter().find(|figure| figure.name == "alerts");
        assert_eq!((counted.seen, counted.unseen, alerts.map(|figure| figure.value)), (600, 200, Some(2)));
        let watched = counted.watched();
        assert_eq!((watched.frames, watched.seen, watched.dropped, watched.alerts), (800, 600, 200, 2));
        assert_eq!(watched.seen_share(), Some(0.75));
        // 1000 frames of 64 B with FCS are offered in 1 ms, and the NIC drops 200 of them.
        let window = WindowSummary {
            seconds: 1e-3,
            frames_offered: 1000,
            frames_delivered: 800,
            frames_arrived: 810,
            frames_lost: 200,
            drop_rate: 0.2,
            ..WindowSummary::default()
        };
        let adjusted = counted.adjust(window.clone());
        assert_eq!(
            (adjusted.frames_delivered, adjusted.frames_lost, adjusted.frames_arrived),
            (600, 400, 510)
        );
        static LONGER: Counting = Counting { block: 90, ..IDS };
        let counted = Counted { counting: &LONGER, ..counted };
        assert_eq!(counted.adjust(window).arrived.mpps, 0.6, "the difference is within one block");
        for (one, other) in [
            (adjusted.drop_rate, 0.4),
            (adjusted.delivered.mpps, 0.6),
            (adjusted.delivered.gbps_l2, 0.3072),
            (adjusted.delivered.gbps_l1, 0.4032),
            (adjusted.arrived.mpps, 0.51),
            (adjusted.arrived.gbps_l2, 0.26112),
        ] {
            assert!((one - other).abs() < 1e-9, "{one} is not {other}");
        }
    }
}
