//! What can be seen of a player from outside. None of it changes how a trace is played.

use doorbell_core::CoreStats;
use doorbell_sim::OpSource;

use super::Player;
use crate::config::MachineConfig;
use crate::timed::{WatchRequest, Watched};

impl Player {
    /// Instructions of the first trace that have been played, or left out as polls that found nothing.
    pub fn done(&self) -> u64 {
        self.instructions(&self.lanes[0]) + self.lanes[0].stats.left_out
    }

    /// How many harts the first trace has.
    pub fn own_harts(&self) -> usize {
        self.lanes[0].harts
    }

    /// How many harts there are.
    pub fn harts(&self) -> usize {
        self.streams.len()
    }

    /// What a hart's core has counted up to the present: one that has no more to do has slept since.
    pub fn core_stats(&self, hart: usize) -> CoreStats {
        let core = self.timing.core(hart);
        match self.streams[hart].is_ready() || self.accesses[hart].is_some() {
            true => core.stats(),
            false => core.stats_until(self.timing.cycle_at(hart, self.now()).max(core.now())),
        }
    }

    /// Watches from now on, on this configuration; what was being watched is forgotten.
    pub fn watch(&mut self, request: &WatchRequest, config: &MachineConfig) {
        let sources: Vec<_> = self.streams.iter().map(|stream| (stream.over(), stream.thread())).collect();
        self.timing.watch_sources(request, sources.into_iter(), config);
    }

    /// Watches no more, and tells what was seen.
    pub fn end_watch(&mut self) -> Option<Watched> {
        self.timing.end_watch_of_sources()
    }
}
