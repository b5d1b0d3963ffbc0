//! What can be seen of a player from outside. None of it changes how a trace is played.

use doorbell_core::CoreStats;
use doorbell_loadgen::Latency;
use doorbell_sim::{OpSource, Ps};

use super::rate_replay::RateReplay;
use super::stream::HartStream;
use super::{Player, Survey};
use crate::config::MachineConfig;
use crate::timed::{WatchReport, WatchRequest};

impl Player {
    /// Instructions of the first trace that have been played, or left out as polls that found nothing.
    pub fn done(&self) -> u64 {
        self.instructions(&self.replays[0]) + self.replays[0].stats.left_out
    }

    /// How many harts the first trace has.
    pub fn own_harts(&self) -> usize {
        self.replays[0].harts
    }

    /// Whether traces beside the first have devices, too.
    pub fn neighbours_have_devices(&self) -> bool {
        self.replays[1..].iter().any(|replay| !replay.survey.devices.is_empty())
    }

    /// How many harts there are.
    pub fn harts(&self) -> usize {
        self.streams.len()
    }

    /// What a trace's devices do on the whole: batches, rings, whether requests and answers pair.
    pub fn survey(&self, trace: usize) -> &Survey {
        &self.replays[trace].survey
    }

    /// From a frame's arrival to its answer's leaving, at another pace than recorded: where they pair one to one, and it is known which
    /// answer is to which.
    pub fn latency(&self) -> Option<&Latency> {
        self.replays[0].rate_replays().find_map(|paced| paced.latency.as_ref())
    }

    /// Until when frames could arrive, at another pace than recorded, where the first trace has no frames left.
    pub fn arrivals_end(&self) -> Option<Ps> {
        let receiving = self.replays[0].rate_replays().filter(|paced| paced.receives());
        receiving.map(RateReplay::arrivals_end).collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// Frames of the first trace that arrived, as recorded, and were not brought to memory: now, and the fewest since
    /// [`begin_unreceived`](Player::begin_unreceived).
    pub fn unreceived(&self) -> [i64; 2] {
        [self.replays[0].unreceived, self.replays[0].fewest_unreceived]
    }

    /// The fewest are looked for from now on.
    pub fn begin_unreceived(&mut self) {
        self.replays[0].fewest_unreceived = self.replays[0].unreceived;
    }

    /// What a hart's core has counted up to the present: one that has no more to do has slept since.
    pub fn core_stats(&self, hart: usize) -> CoreStats {
        let core = self.timing.core(hart);
        self.asleep_until(hart).map_or_else(|| core.stats(), |cycle| core.stats_until(cycle))
    }

    /// The present, of a hart that has no more to do.
    fn asleep_until(&self, hart: usize) -> Option<u64> {
        let has_more = self.streams[hart].is_ready() || self.accesses[hart].is_some();
        (!has_more).then(|| self.timing.cycle_at(hart, self.now()).max(self.timing.core(hart).now()))
    }

    /// Watches the first trace's harts from now on, on this configuration; what was being watched is forgotten.
    pub fn watch(&mut self, request: &WatchRequest, config: &MachineConfig) {
        let begins = |(hart, stream): (usize, &HartStream)| {
            (self.asleep_until(hart).unwrap_or(stream.over()), stream.thread())
        };
        let sources: Vec<_> = self.streams[..self.own_harts()].iter().enumerate().map(begins).collect();
        self.timing.watch_sources(request, sources.into_iter(), config);
    }

    /// Watches no more, and tells what was seen; a hart that has no more to do has slept since.
    pub fn end_watch(&mut self) -> Option<WatchReport> {
        let asleep: Vec<_> = (0..self.own_harts()).map(|hart| self.asleep_until(hart)).collect();
        self.timing.end_watch_of_sources(&asleep)
    }
}
