//! A whole run, as in its `summary.json`. Fields added by later versions are ignored. A missing field is an
//! error, unless older versions lacked it, because a table with silent gaps is worse than none.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::point::PointSummary;
use crate::run_identity::RunIdentity;

/// Reasons why a file is not a readable summary.
#[derive(Debug, thiserror::Error)]
pub enum SummaryError {
    /// The file is truncated.
    #[error(
        "the summary is cut off at line {line}, column {column}: the run was interrupted while writing it, or the \
         file was not copied whole; run again, or copy it again"
    )]
    Truncated {
        /// Line where the text ends, from 1.
        line: usize,
        /// Column where the text ends, from 1.
        column: usize,
    },
    /// The file is not JSON.
    #[error("not a summary.json: {0}")]
    NotJson(serde_json::Error),
    /// The file is JSON, but not a summary.
    #[error("JSON, but not the summary of a Doorbell run: {0}; expected the summary.json of a result folder")]
    Foreign(serde_json::Error),
    /// A field has a value that no run can have.
    #[error("point {point} of the summary has {field} = {value}, which no run can have; the file is damaged")]
    Implausible {
        /// The point's number, from 1.
        point: usize,
        /// The field's name.
        field: &'static str,
        /// The value.
        value: f64,
    },
}

impl From<serde_json::Error> for SummaryError {
    fn from(error: serde_json::Error) -> SummaryError {
        match error.classify() {
            serde_json::error::Category::Eof => {
                SummaryError::Truncated { line: error.line(), column: error.column() }
            }
            serde_json::error::Category::Data => SummaryError::Foreign(error),
            serde_json::error::Category::Syntax | serde_json::error::Category::Io => {
                SummaryError::NotJson(error)
            }
        }
    }
}

/// A parameter that differs from the preset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Its path, as `--set` takes it.
    pub key: String,
    /// The preset's value; empty if it has none.
    pub preset: String,
    /// The run's value.
    pub here: String,
}

/// A whole run: one point or a table of several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The benchmark's name.
    pub benchmark: String,
    /// The preset that the configuration started from.
    pub preset: String,
    /// The version of Doorbell.
    pub doorbell_version: String,
    /// The command line of the run.
    pub command: String,
    /// The simulator, images and traces of the run.
    #[serde(default)]
    pub ran: RunIdentity,
    /// Missing parts, if the run ended early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// Parameters that differ from the preset.
    #[serde(default)]
    pub changed: Vec<Change>,
    /// Descriptions of figures: of `ports` by name, of the stages of a round trip, and of `timing` and
    /// `cores` as `group.name`.
    #[serde(default)]
    pub meanings: BTreeMap<String, String>,
    /// The points, in the order of the given rates.
    pub points: Vec<PointSummary>,
}

impl RunSummary {
    /// The text of `summary.json`. A run of one point also has the point's figures at the top level.
    pub fn to_json(&self) -> String {
        let mut value = serde_json::to_value(self).expect("a summary serialises");
        if let ([point], Value::Object(object)) = (self.points.as_slice(), &mut value) {
            let fields = serde_json::to_value(point).expect("a summary serialises");
            if let Value::Object(fields) = fields {
                object.extend(fields);
            }
        }
        let mut text = serde_json::to_string_pretty(&value).expect("a JSON value can be written");
        text.push('\n');
        text
    }

    /// Reads the text of a `summary.json`.
    pub fn from_json(text: &str) -> Result<RunSummary, SummaryError> {
        let summary: RunSummary = serde_json::from_str(text)?;
        for (number, point) in (1..).zip(&summary.points) {
            point.check(number)?;
        }
        Ok(summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::*;

    fn latency(mean: f64) -> LatencySummary {
        let (min, p50, p90, p99) = (mean / 2.0, mean, mean + 1.0, mean + 2.0);
        LatencySummary {
            frames: 9,
            mean,
            stddev: 1.5,
            min,
            p50,
            p90,
            p99,
            p99_9: p99,
            p99_99: p99,
            max: 2.0 * mean,
        }
    }

    fn stream() -> StreamSummary {
        let load = |mpps| Throughput { mpps, gbps_l2: mpps * 0.512, gbps_l1: mpps * 0.672 };
        StreamSummary {
            name: "voice".into(),
            frames_offered: 10,
            frames_delivered: 9,
            frames_corrupt: 0,
            frames_lost: 1,
            frames_reordered: 2,
            drop_rate: 0.1,
            offered: load(1.0),
            delivered: load(0.9),
            latency_ns: Some(latency(900.0)),
            confidence_95: None,
            batches: Vec::new(),
            flows: Some(FlowSummary {
                count: 4,
                offered: 3,
                with_loss: 1,
                with_corruption: 0,
                with_reordering: 1,
                frames_reordered: 2,
                frames_offered_max: 5,
                frames_lost_max: 1,
            }),
            replay: Some(ReplayStats { packets: 7, ..ReplayStats::default() }),
        }
    }

    fn figures(group: &str, value: f64) -> TimingFigures {
        let figure = |name: &str, value| TimingFigure { name: name.into(), meaning: None, value };
        // Not in alphabetical order: the file keeps the display order.
        let figures = vec![figure("retiring", Some(value)), figure("bad", None)];
        TimingFigures(vec![TimingGroup { name: group.into(), figures }])
    }

    fn point() -> PointSummary {
        let stage = |place| StageSummary { place, mean: 1.0, p50: 1.0, p99: 2.0, max: 3.0 };
        let core = |hart| CoreFigures {
            hart,
            core: Some(hart / 2),
            thread: Some(hart % 2),
            kind: "in-order".into(),
            frequency_ghz: 1.5,
            figures: figures("pace", 0.25),
        };
        let counted = |name: &str| Figure { name: name.into(), value: 3 };
        let totals = TransferTotals { bytes_sent: 9, nic_drops: [1, 2], ..TransferTotals::default() };
        let iperf = IperfFigures { goodput_gbps: 8.5, totals, ..IperfFigures::default() };
        PointSummary {
            benchmark: "testpmd".into(),
            config_hash: "feed".into(),
            rate: "1Mpps".into(),
            frame_size: 64,
            frames_offered: 10,
            frames_delivered: 9,
            frames_corrupt: 0,
            frames_timed_out: 1,
            frames_late: 0,
            frames_reordered: 2,
            frames_duplicate: 3,
            drop_rate: 0.1,
            drops: Drops { core: 1, ..Drops::default() },
            offered_gbps: 0.512,
            delivered_gbps: 0.46,
            offered_mpps: 1.0,
            delivered_mpps: 0.9,
            arrived_mpps: 0.9,
            arrived_gbps: 0.46,
            wire_share: Some(0.67),
            drive_behind: Some(3),
            outstanding: Some(64),
            latency_ns: Some(latency(1000.0)),
            latency_from_actual_ns: Some(latency(999.0)),
            delay_variation_ns: Some(latency(3.0)),
            confidence_95: Some(Confidence {
                batches: 40,
                batch_ns: 25.0,
                correlated: true,
                delivered_mpps: 0.01,
                drop_rate: 0.001,
                latency_ns: Some(LatencyConfidence {
                    mean: 1.0,
                    p50: Some(1.0),
                    p90: None,
                    p99: None,
                    p99_9: None,
                }),
            }),
            steady: Some(Steady {
                warmup: Some(SteadyPhase {
                    asked: "auto".into(),
                    seconds: 0.01,
                    criteria: vec![SteadyCriterion {
                        name: "rings".into(),
                        met: Some(true),
                        seconds: Some(0.002),
                        seen: "4.9 rounds".into(),
                    }],
                }),
                settle: None,
                measured: Some(SteadyPhase {
                    asked: "10ms".into(),
                    seconds: 0.01,
                    criteria: vec![SteadyCriterion {
                        name: "latency".into(),
                        met: Some(false),
                        seconds: None,
                        seen: "latency rises 7.11 \u{2192} 36.1 µs".into(),
                    }],
                }),
                discarded: 1,
            }),
            not_steady: Some("latency rises 7.11 \u{2192} 36.1 µs".into()),
            limit: Some(crate::Limit {
                part: "core".into(),
                evidence: [("share_of_lost".to_owned(), 1.0)].into(),
                text: "the core".into(),
            }),
            batches: vec![BatchSummary {
                begin_ns: 0.0,
                offered: 5,
                delivered: 3,
                latency_ns_mean: Some(7.0),
                latency_ns_p99: None,
            }],
            memory_over_time: vec![crate::MemoryPart {
                begin_ns: 0.0,
                length_ns: 1e3,
                channel: 1,
                read_gbps: 2.5,
                write_gbps: 0.0,
                read_latency_ns: Some(61.0),
            }],
            latency_stages_ns: Some(StageSummaries(vec![
                ("wire".into(), stage(1)),
                ("core".into(), stage(2)),
            ])),
            latency_stages_by_queue: vec![QueueStages {
                queue: 3,
                stages_ns: vec![QueueStage { name: "core".into(), mean: 1.5, max: 9.0 }],
                ..QueueStages::default()
            }],
            streams: vec![stream()],
            simulated_seconds: 1e-5,
            instructions: 1000,
            ipc: 0.5,
            instructions_per_frame: 111.0,
            timer_ticks: Some(3),
            interrupts_per_second: Some(25.0),
            host_seconds: 0.1,
            host_mips: 0.01,
            state_hash: "beef".into(),
            timing: Some(figures("top-down", 0.7)),
            cores: vec![core(0), core(1)],
            beside: vec![PlayedNeighbour {
                file: "mcf.xz".into(),
                first_core: 1,
                instructions: 9,
                ipc: 0.5,
                rounds: 1,
            }],
            functions: Some(vec![FunctionCost {
                program: "kernel".into(),
                object: "vmlinux".into(),
                function: "memcpy".into(),
                cycles: 10,
                share: 0.5,
                instructions: 9,
                l1i_misses: 1,
                l1d_misses: 2,
                l2_misses: 3,
                llc_misses: 4,
            }]),
            kinds: Some(KindFigures {
                kinds: vec![KindCost {
                    kind: "copy".into(),
                    meaning: "copies".into(),
                    cycles: 10,
                    share: 0.5,
                    misses_per_kb: Some(0.25),
                    ..KindCost::default()
                }],
                cycles: 20,
                misses_per_kb: Some(0.25),
                frames_per_interrupt: Some(2.0),
                harts: vec![HartKinds { hart: 1, cycles: 10, kinds: Vec::new() }],
                ..KindFigures::default()
            }),
            ports: vec![PortFigures {
                groups: vec![FigureGroup { title: "Registers".into(), figures: vec![counted("GPRC")] }],
                queues: vec![QueueFigures { queue: 0, rss: false, figures: vec![counted("rx_fetches")] }],
                asked_in_vain: vec!["MRQC = 0x3 selects pools".into()],
            }],
            exit_status: Some(0),
            iperf: Some(iperf),
            transfer: Some(TransferFigures {
                load: "TCP_RR".into(),
                transactions_per_second: Some(20_000.0),
                drive_idle: 0.5,
                test_least_idle: Some(0.0),
                drive_least_idle: Some(0.25),
                over_time: vec![TransferPart {
                    phase: "measured".into(),
                    gbps: 1.0,
                    ..TransferPart::default()
                }],
                watched: Some(WatchedFigures {
                    program: "suricata".into(),
                    frames: 5,
                    seen: 3,
                    dropped: 2,
                    alerts: 1,
                }),
                samples: Samples::of("Gbps", 0.01, vec![1.0, 2.0]),
                ..TransferFigures::default()
            }),
            played: Some(PlayedFigures {
                pace: "as recorded".into(),
                waited_us: 0.5,
                ..PlayedFigures::default()
            }),
            network: None,
        }
    }

    fn run() -> RunSummary {
        let points = vec![point(), point()];
        let meanings = [("GPRC".into(), "Good frames received".into())].into();
        let package = PackageVersion { name: "dpdk".into(), version: "24.11".into(), sha256: "0".into() };
        let image = Provenance { image: "dpdk".into(), packages: vec![package], ..Provenance::default() };
        RunSummary {
            benchmark: "testpmd".into(),
            preset: "fast".into(),
            doorbell_version: "0".into(),
            command: "doorbell run testpmd".into(),
            ran: RunIdentity {
                doorbell_commit: "0123abcd".into(),
                images: vec![image],
                boot: "feed".into(),
                traces: vec![PlayedTrace { file: "t.dbt".into(), ..PlayedTrace::default() }],
            },
            incomplete: Some("1 of 3 loads was not measured".into()),
            changed: vec![Change { key: "nic.rx_fifo".into(), preset: "64KiB".into(), here: "4MiB".into() }],
            meanings,
            points,
        }
    }

    #[test]
    fn a_written_summary_reads_back_equal() {
        let written = run();
        let read = RunSummary::from_json(&written.to_json()).unwrap();
        assert_eq!(read, written);
        assert_eq!(read.to_json(), written.to_json());
        let one = RunSummary { points: vec![point()], ..written };
        assert_eq!(RunSummary::from_json(&one.to_json()).unwrap(), one);
    }

    #[test]
    fn optional_fields_are_listed_by_name() {
        let keys = |value: Value| match value {
            Value::Object(fields) => fields.into_iter().map(|(name, _)| name).collect::<Vec<_>>(),
            other => panic!("{other}"),
        };
        let always = keys(serde_json::to_value(PointSummary::default()).unwrap());
        let PointSummary { iperf, played, .. } = point();
        let in_one = [serde_json::to_value(iperf).unwrap(), serde_json::to_value(played).unwrap()];
        let in_one: Vec<String> = in_one.into_iter().flat_map(keys).collect();
        let mut sometimes = keys(serde_json::to_value(point()).unwrap());
        sometimes.retain(|name| !always.contains(name) && !in_one.contains(name));
        sometimes.push("network".into());
        sometimes.sort();
        assert_eq!(sometimes, PointSummary::OPTIONAL_FIELDS);
    }

    #[test]
    fn a_transfer_without_a_required_figure_is_not_read() {
        let written = run().to_json();
        for field in ["bytes_sent", "seconds", "wire_to_client", "node_instructions"] {
            let mut damaged: Value = serde_json::from_str(&written).unwrap();
            damaged["points"][1]["transfer"].as_object_mut().unwrap().remove(field).unwrap();
            let error = RunSummary::from_json(&damaged.to_string()).unwrap_err().to_string();
            assert!(error.contains(&format!("missing field `{field}`")), "{error}");
        }
        // The figures of iperf are among those of the point: without one of them, the point has none.
        let mut damaged: Value = serde_json::from_str(&written).unwrap();
        damaged["points"][1].as_object_mut().unwrap().remove("bytes_received").unwrap();
        assert_eq!(RunSummary::from_json(&damaged.to_string()).unwrap().points[1].iperf, None);
    }

    #[test]
    fn a_ratio_with_a_zero_denominator_is_null_and_read_as_unknown() {
        let mut written = run();
        (written.points[0].ipc, written.points[0].instructions_per_frame) = (f64::NAN, f64::INFINITY);
        let read = RunSummary::from_json(&written.to_json()).unwrap();
        let point = &read.points[0];
        assert_eq!(
            [finite(point.ipc), finite(point.instructions_per_frame), finite(point.drop_rate)],
            [None, None, Some(0.1)]
        );
    }

    #[test]
    fn an_implausible_stream_figure_is_reported_as_damage() {
        let mut damaged = run();
        damaged.points[1].streams[0].offered.mpps = -1.0;
        let error = RunSummary::from_json(&damaged.to_json()).unwrap_err().to_string();
        assert!(error.starts_with("point 2 of the summary has streams.offered.mpps = -1"), "{error}");
    }

    /// The fields that every version of the file has had.
    const FIRST: &str = r#"{"benchmark": "testpmd", "preset": "fast", "doorbell_version": "0", "command": "doorbell",
        "points": [{"benchmark": "testpmd", "config_hash": "", "rate": "1Mpps", "frame_size": 64, "frames_offered": 0,
        "frames_delivered": 0, "frames_corrupt": 0, "drop_rate": null, "drops": {"dma": 0, "core": 0, "tx": 0,
        "nic_other": 0, "link": 0, "guest": 0}, "offered_gbps": 0, "delivered_gbps": 0, "offered_mpps": 0,
        "delivered_mpps": 0, "latency_ns": null, "simulated_seconds": 1, "instructions": 0, "ipc": null,
        "instructions_per_frame": null, "host_seconds": 1, "host_mips": null, "state_hash": ""}]}"#;

    #[test]
    fn a_file_of_the_first_version_is_read_with_missing_figures_unknown() {
        let read = RunSummary::from_json(FIRST).unwrap();
        let point = &read.points[0];
        assert!(!read.ran.is_known() && read.meanings.is_empty() && read.changed.is_empty());
        assert_eq!((point.goodput_gbps(), finite(point.arrived_mpps), &point.timing), (None, None, &None));
        assert!(point.functions().is_empty() && point.ports.is_empty() && point.cores.is_empty());
        // A transfer's figures in that version: only the goodput.
        let transfer = FIRST.replacen("\"points\": [{", "\"points\": [{\"goodput_gbps\": 8.5, ", 1);
        let read = RunSummary::from_json(&transfer).unwrap();
        assert_eq!(read.points[0].goodput_gbps(), Some(8.5));
        assert_eq!(read.points[0].iperf.as_ref().unwrap().totals, TransferTotals::default());
        for field in ["state_hash", "drops", "host_mips", "latency_ns"] {
            let without = FIRST.replacen(&format!("\"{field}\""), "\"other\"", 1);
            let is_read = RunSummary::from_json(&without).is_ok();
            assert_eq!(is_read, field == "latency_ns", "{field}");
        }
    }
}
