//! What a played trace has beside the figures of every run.

use serde::{Deserialize, Serialize};

use crate::latency::LatencySummary;
use crate::number::or_nan;

/// What was played in the measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlayedFigures {
    /// What paced it, in words.
    pub pace: String,
    /// Instructions, of all cores, that caches, TLBs and predictors learnt from before the measurement.
    pub warmup_instructions: u64,
    /// Whether the trace was played to its end; then exactly its frames and bytes of DMA were.
    pub to_the_end: bool,
    /// Core cycles of all cores, asleep or not.
    pub cycles: u64,
    /// Of these, cycles asleep, or waiting for what a device was still to write.
    pub cycles_asleep: u64,
    /// At another pace than recorded, frames that were offered and found no free descriptor.
    #[serde(default)]
    pub ring_drops: u64,
    /// From a frame's arrival to its answer's leaving, in nanoseconds, at another pace than recorded, where frames and answers pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_latency_ns: Option<LatencySummary>,
    /// Frames that were sent behind one doorbell when it was recorded, on the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames_a_batch: Option<f64>,
    /// The most of them.
    #[serde(default)]
    pub largest_batch: u64,
    /// How often so many were sent behind one doorbell: number and count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sent_batches: Vec<(u64, u64)>,
    /// Descriptors of the receive ring, if the trace tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring_descriptors: Option<u64>,
    /// Instructions of polls that found nothing and were left out, as frames were waiting.
    #[serde(default)]
    pub left_out_instructions: u64,
    /// Frames that reached a device, and were not dropped.
    pub frames_in: u64,
    /// Their bytes, FCS included.
    pub frames_in_bytes: u64,
    /// Frames that a device handed to the wire.
    pub frames_out: u64,
    /// Their bytes, FCS included.
    pub frames_out_bytes: u64,
    /// The network's throughput into the machine in 10⁹ bits a second at layer 2, with FCS.
    pub in_gbps: f64,
    /// The same out of it.
    pub out_gbps: f64,
    /// Bytes that devices read.
    pub dma_read_bytes: u64,
    /// Bytes that devices wrote.
    pub dma_written_bytes: u64,
    /// What was played beside it, on cores of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<PlayedNeighbour>,
    /// Blocks that waited for a device's write which they saw when they were recorded.
    pub waits: u64,
    /// How long they waited, in microseconds.
    pub waited_us: f64,
}

/// What a trace did that was played beside the one that was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlayedNeighbour {
    /// Its file's name.
    pub file: String,
    /// Its first core's number.
    pub first_core: usize,
    /// Instructions of all its cores.
    pub instructions: u64,
    /// Instructions a cycle, sleep left out.
    #[serde(deserialize_with = "or_nan")]
    pub ipc: f64,
    /// How often it started over.
    pub rounds: u64,
}

/// A trace that was played, so that two results can be told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlayedTrace {
    /// The file's name.
    pub file: String,
    /// Its bytes.
    pub bytes: u64,
    /// XXH3-128 of its contents, in hexadecimal.
    pub xxh3: String,
    /// What recorded it.
    pub recorder: String,
    /// What was recorded.
    pub recorded: String,
    /// The instruction set.
    pub isa: String,
    /// Harts, each of which had a core.
    pub harts: u16,
    /// Instructions of all of them.
    pub instructions: u64,
}
