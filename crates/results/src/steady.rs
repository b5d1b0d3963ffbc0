//! Whether a measurement began in a steady state and stayed in it, by which criteria, and how long it took to
//! reach it.

use serde::{Deserialize, Serialize};

/// The phases before a measurement, `null` if absent, and the measurement itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    /// Traffic before anything is timed.
    pub warmup: Option<SteadyPhase>,
    /// Traffic with everything timed.
    pub settle: Option<SteadyPhase>,
    /// The measurement, by trend tests over its own parts (docs/results.md); `null` in files of older versions.
    #[serde(default)]
    pub measured: Option<SteadyPhase>,
    /// Earlier measurements that were discarded because they were not steady.
    #[serde(default)]
    pub discarded: u64,
}

/// A phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SteadyPhase {
    /// `auto` if it lasted until its criteria or its time limit were met; otherwise the requested time.
    pub asked: String,
    /// Duration in simulated seconds.
    pub seconds: f64,
    /// The criteria for a steady state, in the order of evaluation.
    pub criteria: Vec<SteadyCriterion>,
}

/// A criterion of a steady state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SteadyCriterion {
    /// `rings`, `buffers`, `caches`, `ticks`, `queues` or `pace`; for a measurement `latency`, `loss`,
    /// `queue`, `goodput` or `rate`.
    pub name: String,
    /// Whether it was met at the phase's end; `null` if the phase was too short to decide.
    pub met: Option<bool>,
    /// Simulated seconds of the phase after which it was permanently met.
    pub seconds: Option<f64>,
    /// The last observation, in a few words.
    pub seen: String,
}

impl SteadyPhase {
    /// The criteria that were not shown to be met.
    pub fn unmet(&self) -> impl Iterator<Item = &SteadyCriterion> {
        self.criteria.iter().filter(|criterion| criterion.met != Some(true))
    }
}

impl Steady {
    /// The phases before the measurement, by name.
    pub fn before(&self) -> impl Iterator<Item = (&'static str, &SteadyPhase)> {
        let phases = [("warm-up", &self.warmup), ("settling", &self.settle)];
        phases.into_iter().filter_map(|(name, phase)| Some((name, phase.as_ref()?)))
    }

    /// The criteria of these phases that were not shown to be met.
    pub fn unmet_before(&self) -> impl Iterator<Item = &SteadyCriterion> {
        self.before().flat_map(|(_, phase)| phase.unmet())
    }

    /// Why the measurement was not shown to be steady; `None` if it was, or if it was not tested.
    pub fn unsteady(&self) -> Option<String> {
        let measured = self.measured.as_ref()?;
        let changes = measured.criteria.iter().filter(|criterion| criterion.met == Some(false));
        let unknown = measured.criteria.iter().filter(|criterion| criterion.met.is_none());
        let seen: Vec<&str> = changes.chain(unknown).map(|criterion| criterion.seen.as_str()).collect();
        (!seen.is_empty()).then(|| seen.join(", "))
    }
}
