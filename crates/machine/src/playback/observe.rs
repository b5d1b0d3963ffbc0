//! Read-only views of a player: none of them changes how a trace is played.

use doorbell_core::CoreStats;
use doorbell_loadgen::Latency;
use doorbell_sim::{CoreCycle, OpSource, Ps};

use super::rate_replay::RateReplay;
use super::stream::HartStream;
use super::{Player, Survey};
use crate::config::MachineConfig;
use crate::timed::{WatchReport, WatchRequest};

impl Player {
    /// Instructions of the first trace that were played, or skipped as empty polls.
    pub fn done(&self) -> u64 {
        self.instructions(&self.replays[0]) + self.replays[0].stats.left_out
    }

    /// Number of harts of the first trace.
    pub fn own_harts(&self) -> usize {
        self.replays[0].harts
    }

    /// Whether traces other than the first have devices.
    pub fn neighbours_have_devices(&self) -> bool {
        self.replays[1..].iter().any(|replay| !replay.survey.devices.is_empty())
    }

    /// Number of harts of all traces.
    pub fn harts(&self) -> usize {
        self.streams.len()
    }

    /// Summary of a trace's device activity: batches, rings, pairing of requests and answers.
    pub fn survey(&self, trace: usize) -> &Survey {
        &self.replays[trace].survey
    }

    /// Time from a frame's arrival to its answer, at another rate than recorded. `None` unless frames pair
    /// one to one and the pairs are known.
    pub fn latency(&self) -> Option<&Latency> {
        self.replays[0].rate_replays().find_map(|paced| paced.latency.as_ref())
    }

    /// Time until which frames could arrive, at another rate than recorded. `None` while the first trace has
    /// frames left.
    pub fn arrivals_end(&self) -> Option<Ps> {
        let receiving = self.replays[0].rate_replays().filter(|paced| paced.receives());
        receiving.map(RateReplay::arrivals_end).collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// Frames of the first trace that arrived, as recorded, and were not written to memory: now, and the
    /// minimum since [`begin_unreceived`](Player::begin_unreceived).
    pub fn unreceived(&self) -> [i64; 2] {
        [self.replays[0].unreceived, self.replays[0].fewest_unreceived]
    }

    /// Resets the minimum.
    pub fn begin_unreceived(&mut self) {
        self.replays[0].fewest_unreceived = self.replays[0].unreceived;
    }

    /// Counters of a hart's core up to now. A hart that has ended counts as asleep since.
    pub fn core_stats(&self, hart: usize) -> CoreStats {
        let core = self.timing.core(hart);
        self.asleep_until(hart).map_or_else(|| core.stats(), |cycle| core.stats_until(cycle))
    }

    /// The current cycle of a hart that has ended.
    fn asleep_until(&self, hart: usize) -> Option<CoreCycle> {
        let has_more = self.streams[hart].is_ready() || self.accesses[hart].is_some();
        (!has_more).then(|| self.timing.cycle_at(hart, self.now()).max(self.timing.core(hart).now()))
    }

    /// Starts observing the first trace's harts, on this configuration. Discards earlier observations.
    pub fn watch(&mut self, request: &WatchRequest, config: &MachineConfig) {
        let begins = |(hart, stream): (usize, &HartStream)| {
            (self.asleep_until(hart).unwrap_or(stream.end_cycle()), stream.thread())
        };
        let sources: Vec<_> = self.streams[..self.own_harts()].iter().enumerate().map(begins).collect();
        self.timing.watch_sources(request, sources.into_iter(), config);
    }

    /// Ends the observation and returns it. A hart that has ended counts as asleep since.
    pub fn end_watch(&mut self) -> Option<WatchReport> {
        let asleep: Vec<_> = (0..self.own_harts()).map(|hart| self.asleep_until(hart)).collect();
        self.timing.end_watch_of_sources(&asleep)
    }
}
