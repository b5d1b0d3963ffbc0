//! Observers of ops, for pipeline logs. A core without an observer pays nothing for them.

use doorbell_sim::memory::Level;
use doorbell_sim::{CoreCycle, Op};

use crate::branch::Prediction;

/// The cycle in which an op passed each stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// Fetched.
    pub fetch: CoreCycle,
    /// Decoded.
    pub decode: CoreCycle,
    /// Renamed (in-order: left decode).
    pub rename: CoreCycle,
    /// Dispatched to the window (in-order: issued).
    pub dispatch: CoreCycle,
    /// Issued to its unit.
    pub issue: CoreCycle,
    /// Executed: its result can be used.
    pub complete: CoreCycle,
    /// Committed.
    pub commit: CoreCycle,
    /// For stores: written to the cache.
    pub written: CoreCycle,
    /// The level that served a load or atomic.
    pub level: Option<Level>,
    /// The outcome of its branch prediction.
    pub prediction: Prediction,
    /// Dispatched again after a memory-order violation with an older store.
    pub replayed: bool,
}

/// Receives every timed op, in program order.
pub trait Observer {
    /// Called with an op and the cycles of its stages.
    fn op(&mut self, op: &Op, stages: &Stages);
}

/// An observer that does nothing.
impl Observer for () {
    #[inline(always)]
    fn op(&mut self, _: &Op, _: &Stages) {}
}

impl<F: FnMut(&Op, &Stages)> Observer for F {
    fn op(&mut self, op: &Op, stages: &Stages) {
        self(op, stages);
    }
}
