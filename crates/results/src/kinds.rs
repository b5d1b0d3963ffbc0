//! CPU time by kind of work.

use serde::{Deserialize, Serialize};

/// The cycles of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KindCost {
    /// Its name in the classification rules.
    pub kind: String,
    /// Its description in the classification rules.
    pub meaning: String,
    /// Core cycles.
    pub cycles: u64,
    /// Share of all cycles.
    pub share: f64,
    /// Instructions retired.
    pub instructions: u64,
    /// Accesses that missed the last-level cache.
    pub llc_misses: u64,
    /// Last-level cache misses per 1024 delivered bytes; `null` if nothing was delivered, or the amount is
    /// unknown.
    pub misses_per_kb: Option<f64>,
    /// Cycles of unnamed functions that no rule covers: their kind is derived only from their
    /// file, program or callers.
    pub unnamed_cycles: u64,
}

/// The cycles of one hart by kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HartKinds {
    /// Its number.
    pub hart: u32,
    /// All its cycles, including sleep.
    pub cycles: u64,
    /// The kinds with cycles, in the order of the rules; shares are of this hart's cycles. They sum exactly
    /// to `cycles`.
    pub kinds: Vec<KindCost>,
}

/// A machine's cycles by kind, and its NICs' interrupts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KindFigures {
    /// The kinds with cycles, in the order of the rules. They sum exactly to `cycles`.
    pub kinds: Vec<KindCost>,
    /// All cycles of the timed harts, including sleep.
    pub cycles: u64,
    /// Last-level cache misses of all kinds per 1024 delivered bytes.
    #[serde(default)]
    pub misses_per_kb: Option<f64>,
    /// Denominator of `misses_per_kb`: for transfers the payload that arrived, otherwise the delivered frames
    /// at layer 2, with FCS.
    pub delivered_bytes: u64,
    /// Good frames received by the NICs.
    pub frames_received: u64,
    /// Good frames sent by the NICs.
    pub frames_sent: u64,
    /// Interrupts raised by the NICs.
    pub interrupts: u64,
    /// Received frames per interrupt; `null` without interrupts.
    pub frames_per_interrupt: Option<f64>,
    /// Interrupts per simulated second.
    pub interrupts_per_second: f64,
    /// Figures of each timed hart, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub harts: Vec<HartKinds>,
}

impl KindFigures {
    /// A kind's share of all cycles; 0 for a kind without cycles.
    pub fn share(&self, kind: &str) -> f64 {
        self.kinds.iter().find(|cost| cost.kind == kind).map_or(0.0, |cost| cost.share)
    }

    /// Share of all cycles in unnamed functions that no rule covers.
    pub fn unnamed_share(&self) -> f64 {
        let unnamed: u64 = self.kinds.iter().map(|cost| cost.unnamed_cycles).sum();
        unnamed as f64 / self.cycles.max(1) as f64
    }
}
