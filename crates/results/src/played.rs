//! Additional figures of a played trace.

use serde::{Deserialize, Serialize};

use crate::latency::LatencySummary;
use crate::number::or_nan;

/// Figures of the playback in the measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlayedFigures {
    /// The pacing, in words.
    pub pace: String,
    /// Instructions of all cores with which caches, TLBs and predictors were warmed up before the
    /// measurement.
    pub warmup_instructions: u64,
    /// Whether the trace was played to its end; then the frames and DMA bytes are exactly the trace's.
    pub to_the_end: bool,
    /// Cycles of all cores, including sleep.
    pub cycles: u64,
    /// Cycles asleep, or waiting for a device's write.
    pub cycles_asleep: u64,
    /// Frames offered without a free descriptor, if the trace is not played at the recorded pace.
    #[serde(default)]
    pub ring_drops: u64,
    /// Time from a frame's arrival to its answer's transmission, in nanoseconds, if the trace is not played
    /// at the recorded pace and frames and answers pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_latency_ns: Option<LatencySummary>,
    /// Mean number of frames sent per doorbell when the trace was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames_a_batch: Option<f64>,
    /// The largest number of frames sent per doorbell.
    #[serde(default)]
    pub largest_batch: u64,
    /// Distribution of frames sent per doorbell: number of frames, and how often.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sent_batches: Vec<(u64, u64)>,
    /// Descriptors of the receive ring, if the trace has their number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring_descriptors: Option<u64>,
    /// Instructions of empty polls that were skipped because frames were waiting.
    #[serde(default)]
    pub left_out_instructions: u64,
    /// Frames that reached a device and were not dropped.
    pub frames_in: u64,
    /// Their bytes, FCS included.
    pub frames_in_bytes: u64,
    /// Frames that a device sent.
    pub frames_out: u64,
    /// Their bytes, FCS included.
    pub frames_out_bytes: u64,
    /// Network throughput into the machine in 10⁹ bits per second at layer 2, with FCS.
    pub in_gbps: f64,
    /// Network throughput out of the machine, in the same unit.
    pub out_gbps: f64,
    /// Bytes read by devices.
    pub dma_read_bytes: u64,
    /// Bytes written by devices.
    pub dma_written_bytes: u64,
    /// Traces played on separate cores at the same time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<PlayedNeighbour>,
    /// Blocks that waited for a device's write, because they read its data when recorded.
    pub waits: u64,
    /// Total time of these waits, in microseconds.
    pub waited_us: f64,
}

/// Figures of a trace played on separate cores during the measured one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlayedNeighbour {
    /// Its file's name.
    pub file: String,
    /// Its first core's number.
    pub first_core: usize,
    /// Instructions of all its cores.
    pub instructions: u64,
    /// Instructions per cycle, without sleep.
    #[serde(deserialize_with = "or_nan")]
    pub ipc: f64,
    /// How often it restarted from the beginning.
    pub rounds: u64,
}

/// Identity of a played trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlayedTrace {
    /// The file's name.
    pub file: String,
    /// The file's size in bytes.
    pub bytes: u64,
    /// XXH3-128 of its contents, in hexadecimal.
    pub xxh3: String,
    /// The recorder.
    pub recorder: String,
    /// The recorded workload.
    pub recorded: String,
    /// The instruction set.
    pub isa: String,
    /// Number of harts, each of which had a core.
    pub harts: u16,
    /// Instructions of all harts.
    pub instructions: u64,
}
