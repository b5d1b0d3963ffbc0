//! Round trips split into stages.

use std::collections::BTreeMap;

use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Deserializer, Serialize};

/// A stage's figures in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageSummary {
    /// Position on a packet's path, from 1, because JSON tools may sort the names.
    pub place: u32,
    /// The mean. The means of all stages sum to the mean round trip of the frames whose stages are known.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// 99 % are at or below.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

/// Figures of a stage for the frames of one queue, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueStage {
    /// Its name.
    pub name: String,
    /// The mean.
    pub mean: f64,
    /// The largest.
    pub max: f64,
}

/// The stages of the frames received by one queue and sent by one core.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueStages {
    /// The receiving port.
    pub port: u32,
    /// The receive queue.
    pub queue: u32,
    /// The hart that rang the transmit doorbell; `null` if the NIC model does not record it.
    pub hart: Option<u32>,
    /// Number of frames.
    pub frames: u64,
    /// The stages, in the order of a frame's path.
    pub stages_ns: Vec<QueueStage>,
}

/// Name and figures of each stage, in the order of a frame's path. In JSON a map, whose names other tools may
/// sort.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageSummaries(pub Vec<(String, StageSummary)>);

impl StageSummaries {
    /// A stage by its name.
    pub fn get(&self, name: &str) -> Option<StageSummary> {
        self.0.iter().find(|(of, _)| of == name).map(|(_, stage)| *stage)
    }

    /// The mean round trip of the frames whose stages are known.
    pub fn mean(&self) -> f64 {
        self.0.iter().map(|(_, stage)| stage.mean).sum()
    }
}

impl Serialize for StageSummaries {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, figures) in &self.0 {
            map.serialize_entry(name, figures)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for StageSummaries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut stages: Vec<_> =
            BTreeMap::<String, StageSummary>::deserialize(deserializer)?.into_iter().collect();
        stages.sort_by_key(|(_, stage)| stage.place);
        Ok(StageSummaries(stages))
    }
}
