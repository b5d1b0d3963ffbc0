//! CPU time by kind: what the cores' cycles were for.

use serde::{Deserialize, Serialize};

/// The cycles of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KindCost {
    /// Its name in the rules.
    pub kind: String,
    /// What it is, as the rules say.
    pub meaning: String,
    /// Core cycles.
    pub cycles: u64,
    /// Of all cycles.
    pub share: f64,
    /// Instructions retired.
    pub instructions: u64,
    /// Accesses that missed the last-level cache.
    pub llc_misses: u64,
    /// These for each 1024 delivered bytes; `null` if nothing was delivered, or nobody knows how much.
    pub misses_per_kb: Option<f64>,
    /// Of the cycles, those of functions without a name that no rule names: their kind follows from their file, program or
    /// callers alone.
    pub unnamed_cycles: u64,
}

/// The cycles of one hart by kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HartKinds {
    /// Its number.
    pub hart: u32,
    /// All its cycles, asleep or not.
    pub cycles: u64,
    /// The kinds that have cycles, in the order of the rules; shares are of this hart's cycles. They sum to `cycles`, exactly.
    pub kinds: Vec<KindCost>,
}

/// A machine's cycles by kind, and its NICs' interrupts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KindFigures {
    /// The kinds that have cycles, in the order of the rules. They sum to `cycles`, exactly.
    pub kinds: Vec<KindCost>,
    /// All cycles of the harts that were timed, asleep or not.
    pub cycles: u64,
    /// Accesses of all kinds that missed the last-level cache, for each 1024 delivered bytes.
    #[serde(default)]
    pub misses_per_kb: Option<f64>,
    /// What is in the denominator of `misses_per_kb`: of transfers the payload that arrived, of others the delivered frames at layer
    /// 2, with FCS.
    pub delivered_bytes: u64,
    /// Good frames that the NICs received.
    pub frames_received: u64,
    /// Good frames that they sent.
    pub frames_sent: u64,
    /// Interrupts that they raised.
    pub interrupts: u64,
    /// Received frames an interrupt; `null` without interrupts.
    pub frames_per_interrupt: Option<f64>,
    /// Interrupts a simulated second.
    pub interrupts_per_second: f64,
    /// The same of each hart that was timed, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub harts: Vec<HartKinds>,
}

impl KindFigures {
    /// A kind's share of all cycles; 0 of one that has none.
    pub fn share(&self, kind: &str) -> f64 {
        self.kinds.iter().find(|cost| cost.kind == kind).map_or(0.0, |cost| cost.share)
    }

    /// The share of all cycles that are of functions without a name that no rule names.
    pub fn unnamed_share(&self) -> f64 {
        let unnamed: u64 = self.kinds.iter().map(|cost| cost.unnamed_cycles).sum();
        unnamed as f64 / self.cycles.max(1) as f64
    }
}
