//! Whether a measurement began in a steady state, by which criteria, and how long it took to get there.

use serde::{Deserialize, Serialize};

/// The phases before a measurement; `null` where there was none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    /// Traffic before anything is timed.
    pub warmup: Option<SteadyPhase>,
    /// Traffic with everything timed.
    pub settle: Option<SteadyPhase>,
}

/// A phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SteadyPhase {
    /// `auto` if it lasted until its criteria were met, or its limit was; otherwise the time that was asked for.
    pub asked: String,
    /// Simulated seconds that it took.
    pub seconds: f64,
    /// What makes a state steady, in the order in which it is looked at.
    pub criteria: Vec<SteadyCriterion>,
}

/// A criterion of a steady state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SteadyCriterion {
    /// `rings`, `buffers`, `caches`, `queues` or `pace`.
    pub name: String,
    /// Whether it was met at the phase's end; `null` if the phase was too short to tell.
    pub met: Option<bool>,
    /// After how many simulated seconds of the phase it was met for good.
    pub seconds: Option<f64>,
    /// What was seen last, in a few words.
    pub seen: String,
}

impl SteadyPhase {
    /// The criteria that are not known to be met.
    pub fn unmet(&self) -> impl Iterator<Item = &SteadyCriterion> {
        self.criteria.iter().filter(|criterion| criterion.met != Some(true))
    }
}

impl Steady {
    /// The phases there were, by name.
    pub fn phases(&self) -> impl Iterator<Item = (&'static str, &SteadyPhase)> {
        let phases = [("warm-up", &self.warmup), ("settling", &self.settle)];
        phases.into_iter().filter_map(|(name, phase)| Some((name, phase.as_ref()?)))
    }

    /// The criteria of all phases that are not known to be met.
    pub fn unmet(&self) -> impl Iterator<Item = &SteadyCriterion> {
        self.phases().flat_map(|(_, phase)| phase.unmet())
    }
}
