//! Watching ops pass: for pipeline logs. A core without an observer pays nothing for it.

use doorbell_sim::memory::Level;
use doorbell_sim::op::Op;

use crate::branch::Prediction;

/// The cycles in which an op passed the stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// Fetched.
    pub fetch: u64,
    /// Decoded.
    pub decode: u64,
    /// Renamed (in-order: left decode).
    pub rename: u64,
    /// Dispatched to the window (in-order: issued).
    pub dispatch: u64,
    /// Issued to its unit.
    pub issue: u64,
    /// Executed: its result can be used.
    pub complete: u64,
    /// Committed.
    pub commit: u64,
    /// Of a store: written to the cache.
    pub written: u64,
    /// Where a load or atomic was served.
    pub level: Option<Level>,
    /// How its prediction went.
    pub prediction: Prediction,
    /// Dispatched twice, for it clashed with an older store.
    pub replayed: bool,
}

/// Sees every op that is priced, in program order.
pub trait Observer {
    /// An op and when it passed the stages.
    fn op(&mut self, op: &Op, stages: &Stages);
}

/// Sees nothing.
impl Observer for () {
    #[inline(always)]
    fn op(&mut self, _: &Op, _: &Stages) {}
}

impl<F: FnMut(&Op, &Stages)> Observer for F {
    fn op(&mut self, op: &Op, stages: &Stages) {
        self(op, stages);
    }
}
