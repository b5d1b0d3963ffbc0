//! `summary.json` as this room reads it. Fields that a later version adds are ignored; a field that is missing is
//! an error, because a table with silent gaps is worse than none. JSON has no infinity and no NaN: a ratio with
//! nothing to divide by arrives as `null` and is `None` here.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::functions::FunctionFigures;
use crate::ran::Ran;
use crate::stages::StagesNs;
use crate::streams::StreamFigures;
use crate::timing::TimingFigures;

/// No rate, time or ratio of a real run is larger; what is comes from a damaged file.
const LARGEST_PLAUSIBLE: f64 = 1e15;

/// Why a file is not a summary that can be reported.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The file ends in the middle.
    #[error(
        "the summary is cut off at line {line}, column {column}: the run was interrupted while writing it, or the \
         file was not copied whole; run again, or copy it again"
    )]
    Truncated {
        /// Where the text ends, from 1.
        line: usize,
        /// Where the text ends, from 1.
        column: usize,
    },
    /// Not JSON at all.
    #[error("not a summary.json: {0}")]
    NotJson(serde_json::Error),
    /// JSON, but of something else.
    #[error("JSON, but not the summary of a Doorbell run: {0}; expected the summary.json of a result folder")]
    Foreign(serde_json::Error),
    /// The right fields with a value that no run has.
    #[error("point {point} of the summary has {field} = {value}, which no run can have; the file is damaged")]
    Implausible {
        /// Which point, from 1.
        point: usize,
        /// Its field.
        field: &'static str,
        /// What stands there.
        value: f64,
    },
}

impl From<serde_json::Error> for ReportError {
    fn from(error: serde_json::Error) -> ReportError {
        match error.classify() {
            serde_json::error::Category::Eof => {
                ReportError::Truncated { line: error.line(), column: error.column() }
            }
            serde_json::error::Category::Data => ReportError::Foreign(error),
            serde_json::error::Category::Syntax | serde_json::error::Category::Io => {
                ReportError::NotJson(error)
            }
        }
    }
}

/// Round trips in nanoseconds, from the time each frame was due.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct LatencyNs {
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation.
    pub stddev: Option<f64>,
    /// The shortest.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p99_9: f64,
    /// 99.99th percentile; none in older files.
    #[serde(default)]
    pub p99_99: Option<f64>,
    /// The longest.
    pub max: f64,
}

/// A part of a measurement.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct BatchSummary {
    /// When it begins, in nanoseconds from the measurement's beginning.
    pub begin_ns: f64,
    /// Frames sent in it.
    pub offered: u64,
    /// Of these, those that came back.
    pub delivered: u64,
    /// Their mean round trip.
    pub latency_ns_mean: Option<f64>,
    /// Their 99th percentile.
    pub latency_ns_p99: Option<f64>,
}

/// Half the widths of 95 % confidence intervals, by batch means.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Confidence {
    /// From so many batches.
    pub batches: u64,
    /// Whether they depend on each other, so that the intervals are too narrow.
    pub correlated: bool,
    /// Of the delivered rate.
    pub delivered_mpps: f64,
    /// Of the drop rate.
    pub drop_rate: f64,
    /// Of the round trips.
    pub latency_ns: Option<LatencyConfidence>,
}

/// See [`Confidence`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct LatencyConfidence {
    /// Of the mean.
    pub mean: f64,
    /// Of the median; none if batches are too short.
    pub p50: Option<f64>,
    /// Of the 99th percentile.
    pub p99: Option<f64>,
}

/// A parameter that is not as the preset has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Change {
    /// Its path.
    pub key: String,
    /// The preset's value.
    pub preset: String,
    /// The run's.
    pub here: String,
}

/// Where the frames that did not come back were lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Drops {
    /// RX FIFO full because DMA was too slow.
    pub dma: u64,
    /// RX FIFO full because the cores returned descriptors too slowly.
    pub core: u64,
    /// RX FIFO full because transmission was too slow.
    pub tx: u64,
    /// Dropped by the NIC for any other reason.
    pub nic_other: u64,
    /// Lost on the link.
    pub link: u64,
    /// Accepted by the NIC and not sent back.
    pub guest: u64,
}

/// One offered load and what became of it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PointSummary {
    /// The benchmark's name.
    pub benchmark: String,
    /// Hash of the resolved configuration.
    pub config_hash: String,
    /// The rate as it was asked for.
    pub rate: String,
    /// Bytes of each frame with FCS.
    pub frame_size: u64,
    /// Frames whose first bit left in the measurement.
    pub frames_offered: u64,
    /// Of these, those that came back unharmed.
    pub frames_delivered: u64,
    /// Of these, those that came back changed.
    pub frames_corrupt: u64,
    /// 1 − delivered / offered; none if nothing was offered.
    pub drop_rate: Option<f64>,
    /// Where the others were lost.
    pub drops: Drops,
    /// Offered bits a second at layer 2 (with FCS), in units of 10⁹.
    pub offered_gbps: f64,
    /// Delivered bits a second at layer 2.
    pub delivered_gbps: f64,
    /// Offered frames a second, in millions.
    pub offered_mpps: f64,
    /// Delivered frames a second, in millions.
    pub delivered_mpps: f64,
    /// Round trips; none if no frame came back.
    pub latency_ns: Option<LatencyNs>,
    /// By how much neighbours' round trips differ; none in older files.
    #[serde(default)]
    pub delay_variation_ns: Option<LatencyNs>,
    /// Half the widths of 95 % confidence intervals; none if the measurement is too short to say.
    #[serde(default)]
    pub confidence_95: Option<Confidence>,
    /// The measurement in parts of equal length; none in older files.
    #[serde(default)]
    pub batches: Vec<BatchSummary>,
    /// Requests that were given up; among the lost.
    #[serde(default)]
    pub frames_timed_out: u64,
    /// Unharmed frames that arrived after one that was sent later.
    #[serde(default)]
    pub frames_reordered: u64,
    /// Frames that came back though they had before.
    #[serde(default)]
    pub frames_duplicate: u64,
    /// The round trips by where the time was spent; none if it is not known.
    #[serde(default)]
    pub latency_stages_ns: Option<StagesNs>,
    /// The figures of each stream of the traffic; none if it has no streams.
    #[serde(default)]
    pub streams: Vec<StreamFigures>,
    /// Length of the measurement in simulated seconds.
    pub simulated_seconds: f64,
    /// Instructions retired in the measurement.
    pub instructions: u64,
    /// Instructions a core cycle in the measurement, waiting included.
    pub ipc: Option<f64>,
    /// Instructions retired a delivered frame, empty polls included; none if no frame came back.
    pub instructions_per_frame: Option<f64>,
    /// Time the host took, in seconds.
    pub host_seconds: f64,
    /// Million guest instructions a host second in that time.
    pub host_mips: Option<f64>,
    /// Hash of the machine's state at the end.
    pub state_hash: String,
    /// What the timing models say; none if the run was functional.
    #[serde(default)]
    pub timing: Option<TimingFigures>,
    /// The dearest guest functions; none if they were not asked for.
    #[serde(default)]
    pub functions: Vec<FunctionFigures>,
    /// Payload that arrived in bits a second, in units of 10⁹, of benchmarks that transfer something; they have no round trips.
    #[serde(default)]
    pub goodput_gbps: Option<f64>,
    /// What each port counted in the measurement; none in files of the first version.
    #[serde(default)]
    pub ports: Vec<PortFigures>,
}

/// What a port counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct PortFigures {
    /// In the order to show them.
    pub groups: Vec<FigureGroup>,
}

/// Figures that belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct FigureGroup {
    /// What they have in common.
    pub title: String,
    /// The figures.
    pub figures: Vec<Figure>,
}

/// A counter's name and what it counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// How many.
    pub value: u64,
}

/// A whole run: one point or a table of several.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct RunSummary {
    /// The benchmark's name.
    pub benchmark: String,
    /// The preset that the configuration started from.
    pub preset: String,
    /// The version of Doorbell.
    pub doorbell_version: String,
    /// The command that made this.
    pub command: String,
    /// What ran; unknown in older files.
    #[serde(default)]
    pub ran: Option<Ran>,
    /// What is missing, if the run was ended early.
    #[serde(default)]
    pub incomplete: Option<String>,
    /// Parameters that are not as the preset has them; none in older files.
    #[serde(default)]
    pub changed: Vec<Change>,
    /// What the figures of the points' ports mean, by name.
    #[serde(default)]
    pub meanings: BTreeMap<String, String>,
    /// Every point, in the order in which the rates were given.
    pub points: Vec<PointSummary>,
}

impl RunSummary {
    /// Reads the text of a `summary.json`.
    pub fn from_json(text: &str) -> Result<RunSummary, ReportError> {
        let summary: RunSummary = serde_json::from_str(text)?;
        for (index, point) in summary.points.iter().enumerate() {
            point.check(index + 1)?;
        }
        Ok(summary)
    }

    /// The points with the frame sizes in ascending order, each size with its points by offered load.
    pub(crate) fn by_frame_size(&self) -> Vec<(u64, Vec<&PointSummary>)> {
        let mut sizes: Vec<u64> = self.points.iter().map(|p| p.frame_size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
            .into_iter()
            .map(|size| {
                let mut points: Vec<&PointSummary> =
                    self.points.iter().filter(|p| p.frame_size == size).collect();
                // Stable: repetitions of one load stay in the order in which they were run.
                points.sort_by(|a, b| a.offered_mpps.total_cmp(&b.offered_mpps));
                (size, points)
            })
            .collect()
    }
}

impl PointSummary {
    /// Frames that did not come back unharmed.
    pub(crate) fn lost(&self) -> u64 {
        self.frames_offered.saturating_sub(self.frames_delivered)
    }

    /// Lost frames less those that a cause is named for; negative if more drops were counted than frames were
    /// lost. Zero when the books balance.
    pub(crate) fn imbalance(&self) -> i128 {
        let Drops { dma, core, tx, nic_other, link, guest } = self.drops;
        let named: i128 =
            [dma, core, tx, nic_other, link, guest, self.frames_corrupt].into_iter().map(i128::from).sum();
        i128::from(self.frames_offered) - i128::from(self.frames_delivered) - named
    }

    fn check(&self, point: usize) -> Result<(), ReportError> {
        let latency = self.latency_ns.as_ref();
        let fields = [
            ("drop_rate", self.drop_rate),
            ("offered_gbps", Some(self.offered_gbps)),
            ("delivered_gbps", Some(self.delivered_gbps)),
            ("offered_mpps", Some(self.offered_mpps)),
            ("delivered_mpps", Some(self.delivered_mpps)),
            ("goodput_gbps", self.goodput_gbps),
            ("simulated_seconds", Some(self.simulated_seconds)),
            ("ipc", self.ipc),
            ("instructions_per_frame", self.instructions_per_frame),
            ("host_seconds", Some(self.host_seconds)),
            ("host_mips", self.host_mips),
            ("latency_ns.mean", latency.map(|l| l.mean)),
            ("latency_ns.stddev", latency.and_then(|l| l.stddev)),
            ("latency_ns.min", latency.map(|l| l.min)),
            ("latency_ns.p50", latency.map(|l| l.p50)),
            ("latency_ns.p90", latency.map(|l| l.p90)),
            ("latency_ns.p99", latency.map(|l| l.p99)),
            ("latency_ns.p99_9", latency.map(|l| l.p99_9)),
            ("latency_ns.p99_99", latency.and_then(|l| l.p99_99)),
            ("latency_ns.max", latency.map(|l| l.max)),
        ];
        let streams = self.streams.iter().flat_map(StreamFigures::figures);
        for (field, value) in fields.into_iter().chain(streams) {
            if let Some(value) = value.filter(|v| !(0.0..=LARGEST_PLAUSIBLE).contains(v)) {
                return Err(ReportError::Implausible { point, field, value });
            }
        }
        Ok(())
    }
}

/// The point that delivered the most; of equals, the one that needed the least load.
pub(crate) fn most_delivered<'a>(points: &[&'a PointSummary]) -> Option<&'a PointSummary> {
    points.iter().copied().reduce(|best, point| match point.delivered_mpps > best.delivered_mpps {
        true => point,
        false => best,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_file_cut_off_anywhere_is_an_error_that_says_so() {
        let text = sample::LOADS_JSON.trim_end();
        for end in (1..text.len()).filter(|&end| text.is_char_boundary(end)) {
            let error = RunSummary::from_json(&text[..end]).expect_err("half a summary");
            assert!(matches!(error, ReportError::Truncated { .. }), "at {end}: {error}");
        }
        assert!(RunSummary::from_json(text).is_ok());
    }

    #[test]
    fn a_foreign_file_is_told_apart_from_a_truncated_one() {
        let error = RunSummary::from_json("{\"traceEvents\": []}").expect_err("foreign");
        assert!(matches!(error, ReportError::Foreign(_)));
        assert!(error.to_string().contains("missing field `benchmark`"), "{error}");
        let error = RunSummary::from_json("[1, 2]").expect_err("foreign");
        assert!(matches!(error, ReportError::Foreign(_)), "{error}");
        let error = RunSummary::from_json("<html></html>").expect_err("not JSON");
        assert!(matches!(error, ReportError::NotJson(_)), "{error}");
        let error = RunSummary::from_json("").expect_err("empty");
        assert!(matches!(error, ReportError::Truncated { .. }), "{error}");
    }

    #[test]
    fn a_missing_drop_cause_is_an_error_and_an_unknown_one_is_not() {
        let without = sample::LOADS_JSON.replacen("\"core\": 0,", "", 1);
        let error = RunSummary::from_json(&without).expect_err("no core drops");
        assert!(error.to_string().contains("missing field `core`"), "{error}");
        let with = sample::LOADS_JSON.replacen("\"core\": 0,", "\"core\": 0, \"pcie\": 0,", 1);
        assert!(RunSummary::from_json(&with).is_ok());
    }

    #[test]
    fn a_negative_rate_is_damage() {
        let text = sample::LOADS_JSON.replacen("\"offered_mpps\": 4.0", "\"offered_mpps\": -4.0", 1);
        let error = RunSummary::from_json(&text).expect_err("negative");
        assert_eq!(
            error.to_string(),
            "point 2 of the summary has offered_mpps = -4, which no run can have; the file is damaged"
        );
    }

    #[test]
    fn a_ratio_that_json_could_not_hold_is_none() {
        let text = sample::SILENT_JSON;
        let summary = RunSummary::from_json(text).expect("silent");
        assert_eq!(summary.points[0].instructions_per_frame, None);
        assert_eq!(summary.points[0].latency_ns, None);
    }

    #[test]
    fn points_are_grouped_by_size_and_ordered_by_load() {
        let mut summary = sample::loads();
        summary.points.reverse();
        summary.points[0].frame_size = 1518;
        let groups = summary.by_frame_size();
        assert_eq!(
            groups.iter().map(|(size, points)| (*size, points.len())).collect::<Vec<_>>(),
            [(64, 5), (1518, 1)]
        );
        assert!(groups[0].1.is_sorted_by(|a, b| a.offered_mpps <= b.offered_mpps));
    }

    #[test]
    fn of_equal_deliveries_the_least_load_counts() {
        let mut summary = sample::loads();
        summary.points[5].delivered_mpps = summary.points[4].delivered_mpps;
        let points: Vec<&PointSummary> = summary.points.iter().collect();
        assert_eq!(most_delivered(&points).map(|p| p.offered_mpps), Some(10.0));
        assert_eq!(most_delivered(&[]), None);
    }

    #[test]
    fn the_books_balance_or_say_by_how_much_they_do_not() {
        let mut point = sample::loads().points.remove(4);
        assert_eq!(point.imbalance(), 0);
        point.drops.core += 3;
        assert_eq!(point.imbalance(), -3);
        point.drops.core -= 10;
        assert_eq!(point.imbalance(), 7);
    }
}
