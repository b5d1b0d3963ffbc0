//! Warms up and measures a played trace, and compares the played amounts with the totals in the trace file.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use doorbell_loadgen::Latency;
use doorbell_machine::playback::{Pace, Played, PlayedStats, Player};
use doorbell_machine::{ConfigError, Mode, WatchRequest};
use doorbell_results::{Drops, PlayedFigures, PlayedNeighbour, PointSummary, WaitedFor};
use doorbell_sim::Ps;
use doorbell_sim::stats::Stats;
use doorbell_trace::system::Counts;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::RunError;
use crate::figures::counters::{Counters, CountersAt, MeasuredCounters};
use crate::figures::host_cost::HostCost;
use crate::figures::timing::{self, MemorySeries, Models, TimingSnapshot};
use crate::plan::config::RunConfig;
use crate::plan::playback::{PlaybackConfig, Warmup};
use crate::ratio::{per, per_frame};
use crate::testbed::control::Control;
use crate::testbed::traces::{NamedTrace, Traces};
use crate::window::observe::{Delivered, Observe, Observed, digest_played};

/// Instructions between checks for Ctrl-C and updates of the progress display.
const SLICE: u64 = 2_000_000;

/// A measured trace.
pub struct PlayedRun {
    /// Its figures.
    pub summary: PointSummary,
    /// Meanings of the figures.
    pub meanings: BTreeMap<String, String>,
    /// All counters at the end, by hierarchical name.
    pub(crate) counters: Counters,
    /// Counters at both ends of the measurement.
    pub(crate) measured: MeasuredCounters,
    /// Further observations.
    pub observed: Observed,
}

/// A trace and its configuration, validated for playback.
pub struct ReadyTrace<'a> {
    player: Player,
    traces: &'a Traces,
    config: &'a RunConfig,
    observe: &'a Observe,
    watch: Option<WatchRequest>,
    /// Numbers of played instructions at which the measurement begins and ends.
    bounds: (u64, u64),
}

impl<'a> ReadyTrace<'a> {
    /// Validates a trace with a configuration.
    pub fn new(
        traces: &'a Traces,
        config: &'a RunConfig,
        observe: &'a Observe,
    ) -> Result<ReadyTrace<'a>, RunError> {
        let bounds = bounds(config.options::<PlaybackConfig>(), traces.first())?;
        let watch = observe.request_played()?;
        let player = Player::new(&config.machine(), &traces.plan(config))
            .map_err(RunError::playback(&traces.first().path))?;
        Ok(ReadyTrace { player, traces, config, observe, watch, bounds })
    }

    /// Warms up and measures.
    pub fn play(self, control: &mut Control) -> Result<PlayedRun, RunError> {
        let started = Instant::now();
        let ReadyTrace { player, traces, config, observe, watch, bounds: (warmup, end) } = self;
        let mut playing = Playing { player, traces, config, control };
        let failed = || RunError::playback(&traces.first().path);
        if config_of(config).warmup == Warmup::Whole {
            playing.player.begin_warming_pass().map_err(failed())?;
            playing.control.begin_played("warming up", 0, warmup);
            playing.until(warmup)?;
            playing.player.restart().map_err(failed())?;
        } else if warmup > 0 {
            playing.player.set_mode(Mode::Warming);
            playing.control.begin_played("warming up", 0, warmup);
            playing.until(warmup)?;
            playing.player.set_mode(Mode::Detailed);
        }
        let (mut summary, watched, measured) = playing.measure(end, watch.as_ref())?;
        let player = playing.player;
        let played = player.played();
        let host = HostCost::since(started, played.instructions);
        (summary.host_seconds, summary.host_mips) = (host.seconds, host.mips());
        let counters = counters(&player, &played);
        summary.state_hash = hash(&played, &counters);
        let meanings = timing::meanings(&summary).collect();
        let mut observed = digest_played(observe, traces.first(), watched);
        (summary.functions, summary.kinds) = observed.profile(&Delivered::of(&summary));
        Ok(PlayedRun { summary, meanings, counters, measured, observed })
    }
}

/// A trace that is being played.
struct Playing<'a, 'c> {
    player: Player,
    traces: &'a Traces,
    config: &'a RunConfig,
    control: &'a mut Control<'c>,
}

/// Numbers of played instructions at which the measurement begins and ends (`u64::MAX`: at the end of the
/// trace).
fn bounds(own: &PlaybackConfig, trace: &NamedTrace) -> Result<(u64, u64), RunError> {
    let all = trace.description.instructions;
    let played = own.instructions.filter(|_| matches!(own.warmup, Warmup::Percent(_)));
    // The percentage refers to all played instructions: those of the warm-up and of the measurement together.
    let warmup = match (own.warmup, played) {
        (Warmup::Percent(share), Some(measured)) => {
            let rest = u128::from(measured) * u128::from(share) / u128::from(100 - share);
            rest as u64
        }
        (warmup, _) => warmup.of(all),
    };
    let wrong = |key, problem| Err(ConfigError::new(key, problem).into());
    if all == 0 {
        return wrong("playback", format!("{}: the trace has no instructions", trace.path.display()));
    }
    if own.warmup == Warmup::Whole {
        return Ok((all, own.instructions.map_or(u64::MAX, |count| all + count.min(all))));
    }
    let (path, left) = (trace.path.display(), all.saturating_sub(warmup));
    match own.instructions {
        Some(measured) if measured > left => {
            let problem = format!(
                "{path} has {all} instructions: fewer than {measured} are left after a warm-up of {}; measure fewer, or shorten \
                 playback.warmup",
                own.warmup
            );
            wrong("playback.instructions", problem)
        }
        None if left == 0 => {
            let problem = format!(
                "nothing is left to measure: {path} has {all} instructions, and the warm-up takes {warmup}; shorten it"
            );
            wrong("playback.warmup", problem)
        }
        Some(measured) => Ok((warmup, warmup + measured)),
        None => Ok((warmup, u64::MAX)),
    }
}

impl Playing<'_, '_> {
    /// Plays to a number of instructions in slices. Returns `false` if the trace has ended.
    fn until(&mut self, instructions: u64) -> Result<bool, RunError> {
        let mut done = self.player.done();
        while done < instructions {
            let more = self
                .player
                .run(done.saturating_add(SLICE).min(instructions))
                .map_err(RunError::playback(&self.traces.first().path))?;
            self.control.check()?;
            done = self.player.done();
            self.control.show_at(done, done, self.player.now());
            if !more {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn measure(
        &mut self,
        end: u64,
        watch: Option<&WatchRequest>,
    ) -> Result<(PointSummary, Option<doorbell_machine::WatchReport>, MeasuredCounters), RunError> {
        let before = self.player.played();
        let counted = CountersAt::new(before.now, counters(&self.player, &before));
        let begin = TimingSnapshot::new(&Models::of_player(&self.player));
        if let Some(request) = watch {
            self.player.watch(request, &self.config.machine());
        }
        let mut series = MemorySeries::default();
        series.sample_timing(self.player.timing(), before.now);
        let start = self.player.done();
        let all = self.traces.first().description.instructions;
        let own = if config_of(self.config).warmup == Warmup::Whole { start + all } else { all };
        let length = end.min(own).saturating_sub(start);
        self.control.begin_played("measuring", start, start.saturating_add(length));
        let mut more = true;
        self.player.begin_unreceived();
        let [unreceived, _] = self.player.unreceived();
        for part in 1..timing::PARTS {
            if part == timing::PARTS / 2 {
                self.player.begin_unreceived();
            }
            let until = start + (u128::from(length) * u128::from(part) / u128::from(timing::PARTS)) as u64;
            more = self.until(until)?;
            series.sample_timing(self.player.timing(), self.player.now());
        }
        if more {
            more = self.until(end)?;
        }
        series.sample_timing(self.player.timing(), self.player.now());
        let watched = self.player.end_watch();
        let after = self.player.played();
        let counted = counted.until(CountersAt::new(after.now, counters(&self.player, &after)));
        // At another rate the trace may end before its last frames arrive.
        if !more && config_of(self.config).pace() == Pace::Recorded {
            self.check_complete(&before, &after)?;
        }
        let devices = self.devices(&before, &after, unreceived);
        let mut summary = self.summary(begin, &before, &after, devices, !more);
        summary.memory_over_time = series.parts(&self.config.memory);
        Ok((summary, watched, counted))
    }

    /// Checks that the first trace, which has ended, was played completely.
    fn check_complete(&self, before: &Played, after: &Played) -> Result<(), RunError> {
        let first = self.traces.first();
        let [start, ended] = [before, after].map(|played| played.traces[0].instructions);
        let is_second = config_of(self.config).warmup == Warmup::Whole;
        let (instructions, devices) = match is_second {
            true => (ended - start, after.devices.since(&before.devices)),
            false => (ended, after.devices.clone()),
        };
        let counts = first.trace.file().map_or_else(Counts::default, |own| own.counts().clone());
        check_totals(instructions, &devices, first.trace.instructions(), &counts)
            .map_err(|problem| RunError::Unplayed { path: first.path.clone(), problem })
    }

    /// Device counts between two times. At the recorded rate, frames that the NIC dropped during the
    /// recording count as dropped. The trace contains only their arrivals, so they show as a persistent
    /// increase of arrived frames not yet written to memory. Frames that a NIC only buffers reach memory at
    /// some time in the second half of the measurement.
    fn devices(&self, before: &Played, after: &Played, unreceived: i64) -> PlayedStats {
        let devices = after.devices.since(&before.devices);
        let [now, fewest] = self.player.unreceived();
        if config_of(self.config).pace() != Pace::Recorded || fewest <= unreceived {
            return devices;
        }
        without_dropped(devices, (now - unreceived) as u64)
    }

    /// Seconds of the measurement in which frames could arrive. After the trace's last frame nothing is
    /// offered, but queued frames are still processed.
    fn offered_seconds(&self, begin: Ps, end: Ps) -> f64 {
        let until = self.player.arrivals_end().map_or(end, |at| at.clamp(begin, end));
        (until - begin).as_secs_f64()
    }

    fn summary(
        &self,
        begin: TimingSnapshot,
        before: &Played,
        after: &Played,
        devices: PlayedStats,
        to_the_end: bool,
    ) -> PointSummary {
        let (config, models) = (self.config, Models::of_player(&self.player));
        let seconds = (after.now - before.now).as_secs_f64();
        let instructions = after.traces[0].instructions - before.traces[0].instructions;
        let end = TimingSnapshot::new(&models);
        let books = |harts: Range<usize>| {
            let own = harts.map(|hart| end.harts[hart].core.books.since(&begin.harts[hart].core.books));
            own.fold((0, 0), |(cycles, asleep), own| (cycles + own.cycles, asleep + own.cpi_idle))
        };
        let (cycles, cycles_asleep) = books(0..models.own);
        let neighbours =
            self.traces.neighbours().iter().zip(before.traces[1..].iter().zip(&after.traces[1..]));
        let neighbours = neighbours.map(|(trace, (before, after))| {
            let (instructions, (first, harts)) = (after.instructions - before.instructions, after.harts);
            let (cycles, asleep) = books(first..first + harts);
            PlayedNeighbour {
                file: trace.description.file.clone(),
                first_core: first,
                instructions,
                ipc: per(instructions as f64, (cycles - asleep) as f64),
                rounds: after.rounds - before.rounds,
            }
        });
        let neighbours = neighbours.collect();
        let (frames, bytes) = main_direction(&devices);
        let span = timing::Span { begin, end, frames, instructions, config };
        let rate = |amount: u64, unit: f64| per(amount as f64 * unit, seconds);
        let offered_seconds = self.offered_seconds(before.now, after.now);
        let offered = |amount: u64, unit: f64| per(amount as f64 * unit, offered_seconds);
        let pace = config_of(config).pace_in_words();
        let survey = self.player.survey(0);
        let (delivered, delivered_bytes) = delivered(&devices, survey.answers());
        let as_recorded = config_of(config).pace() == Pace::Recorded;
        let (drops, drop_rate) = lost(&devices, as_recorded);
        PointSummary {
            benchmark: super::TRACE.to_owned(),
            config_hash: config.hash(),
            rate: pace.clone(),
            frame_size: per(bytes as f64, frames as f64).round() as u64,
            frames_offered: devices.frames_offered,
            frames_delivered: delivered,
            drop_rate,
            drops,
            offered_gbps: offered(devices.frames_in_bytes, 8e-9)
                * per(devices.frames_offered as f64, devices.frames_in as f64),
            delivered_gbps: per(delivered_bytes * 8e-9, seconds),
            arrived_gbps: per(delivered_bytes * 8e-9, seconds),
            offered_mpps: offered(devices.frames_offered, 1e-6),
            delivered_mpps: rate(delivered, 1e-6),
            arrived_mpps: rate(delivered, 1e-6),
            simulated_seconds: seconds,
            instructions,
            ipc: per(instructions as f64, (cycles - cycles_asleep) as f64),
            instructions_per_frame: per_frame(instructions, frames),
            timing: Some(timing::figures_of(&span, &models)),
            cores: timing::cores(&span),
            played: Some(PlayedFigures {
                pace,
                warmup_instructions: before.traces[0].instructions,
                to_the_end,
                cycles,
                cycles_asleep,
                ring_drops: if as_recorded { 0 } else { devices.frames_dropped },
                answer_latency_ns: self.player.latency().and_then(Latency::summary),
                frames_a_batch: survey.batches.mean(),
                largest_batch: survey.batches.largest(),
                sent_batches: survey.batches.counts.iter().map(|(size, count)| (*size, *count)).collect(),
                ring_descriptors: survey.ring_descriptors(),
                left_out_instructions: devices.left_out,
                frames_in: devices.frames_in,
                frames_in_bytes: devices.frames_in_bytes,
                frames_out: devices.frames_out,
                frames_out_bytes: devices.frames_out_bytes,
                in_gbps: rate(devices.frames_in_bytes, 8e-9),
                out_gbps: rate(devices.frames_out_bytes, 8e-9),
                dma_read_bytes: devices.dma_read_bytes,
                dma_written_bytes: devices.dma_written_bytes,
                neighbours,
                waits: devices.waits,
                waited_us: Ps(devices.waited_ps).as_secs_f64() * 1e6,
            }),
            ..PointSummary::default()
        }
    }
}

fn config_of(config: &RunConfig) -> &PlaybackConfig {
    config.options::<PlaybackConfig>()
}

/// Frames and bytes of the direction with more frames, which costs per frame refer to. If frames are
/// answered, both directions have frames.
fn main_direction(devices: &PlayedStats) -> (u64, u64) {
    match devices.frames_in >= devices.frames_out {
        true => (devices.frames_in, devices.frames_in_bytes),
        false => (devices.frames_out, devices.frames_out_bytes),
    }
}

/// Delivered frames and bytes: those sent, if the program answers or sends; otherwise the received frames
/// that the program has processed, regardless of when they arrived.
fn delivered(devices: &PlayedStats, answers: bool) -> (u64, f64) {
    match answers {
        true => (devices.frames_out, devices.frames_out_bytes as f64),
        false => {
            let bytes = per(devices.frames_in_bytes as f64, devices.frames_in as f64);
            (devices.frames_taken, devices.frames_taken as f64 * bytes)
        }
    }
}

/// Counts at the recorded rate, corrected for `dropped` of the arrived frames; the others count as received.
fn without_dropped(devices: PlayedStats, dropped: u64) -> PlayedStats {
    let all = devices.frames_in.max(1);
    let frames_in = devices.frames_in.saturating_sub(dropped);
    let frames_in_bytes =
        (u128::from(devices.frames_in_bytes) * u128::from(frames_in) / u128::from(all)) as u64;
    PlayedStats { frames_dropped: devices.frames_in - frames_in, frames_in, frames_in_bytes, ..devices }
}

/// Dropped frames by cause, and their share. Frames without a free descriptor were dropped because the core
/// was too slow to return descriptors. The cause of drops during the recording is unknown; they count as
/// other drops of the NIC.
fn lost(devices: &PlayedStats, as_recorded: bool) -> (Drops, f64) {
    let dropped = devices.frames_dropped;
    let core = if as_recorded { 0 } else { dropped };
    let waited_for = WaitedFor { core, ..WaitedFor::default() };
    let drops = Drops { core, nic_other: dropped - core, waited_for, ..Drops::default() };
    (drops, if dropped == 0 { 0.0 } else { dropped as f64 / devices.frames_offered as f64 })
}

/// Checks that the played instructions, frames and bytes equal the totals in the trace file.
fn check_totals(instructions: u64, played: &PlayedStats, all: u64, recorded: &Counts) -> Result<(), String> {
    for (what, played, recorded) in [
        ("instructions", instructions, all),
        ("frames in", played.frames_in, recorded.frames_in),
        ("frames out", played.frames_out, recorded.frames_out),
        ("bytes written by DMA", played.dma_written_bytes, recorded.dma_written_bytes),
        ("bytes read by DMA", played.dma_read_bytes, recorded.dma_read_bytes),
    ] {
        if played != recorded {
            return Err(format!("{played} {what} were played, but the trace has {recorded}"));
        }
    }
    Ok(())
}

fn counters(player: &Player, played: &Played) -> Counters {
    let own =
        played.devices.counters().into_iter().map(|counter| (format!("played.{}", counter.name), counter));
    own.chain(TimingSnapshot::new(&Models::of_player(player)).counters()).collect()
}

/// Hash of the final state: equal for repeated runs of a trace on one configuration.
fn hash(played: &Played, counters: &Counters) -> String {
    let mut text = format!("{} {}\n", played.now.0, played.instructions);
    for trace in &played.traces {
        text += &format!("{} {}\n", trace.instructions, trace.rounds);
    }
    for (name, counter) in counters {
        text += &format!("{name} {}\n", counter.value);
    }
    format!("{:016x}", xxh3_64(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_without_a_descriptor_are_drops_caused_by_the_core() {
        let devices =
            PlayedStats { frames_offered: 8, frames_dropped: 2, frames_in: 6, ..PlayedStats::default() };
        let (drops, rate) = lost(&devices, false);
        assert_eq!((drops.core, drops.waited_for.core, drops.waited_for.total(), rate), (2, 2, 2, 0.25));
        assert_eq!(lost(&PlayedStats::default(), false), (Drops::default(), 0.0));
    }

    #[test]
    fn drops_during_the_recording_are_not_received_and_count_as_other_nic_drops() {
        let all = PlayedStats {
            frames_offered: 8,
            frames_in: 8,
            frames_in_bytes: 800,
            frames_out: 6,
            ..PlayedStats::default()
        };
        let devices = without_dropped(all, 2);
        assert_eq!((devices.frames_offered, devices.frames_in, devices.frames_in_bytes), (8, 6, 600));
        let (drops, rate) = lost(&devices, true);
        assert_eq!((drops, rate), (Drops { nic_other: 2, ..Drops::default() }, 0.25));
    }

    #[test]
    fn delivered_frames_are_sent_ones_or_processed_ones_if_nothing_is_sent() {
        let devices = PlayedStats {
            frames_in: 4,
            frames_in_bytes: 400,
            frames_taken: 6,
            frames_out: 7,
            frames_out_bytes: 1400,
            ..PlayedStats::default()
        };
        assert_eq!(delivered(&devices, true), (7, 1400.0));
        assert_eq!(delivered(&devices, false), (6, 600.0));
    }

    #[test]
    fn incomplete_playback_is_reported() {
        let played = PlayedStats { frames_in: 3, frames_out: 2, ..PlayedStats::default() };
        let recorded = Counts { frames_in: 3, frames_out: 2, ..Counts::default() };
        assert_eq!(check_totals(9, &played, 9, &recorded), Ok(()));
        let fewer = check_totals(8, &played, 9, &recorded).unwrap_err();
        assert_eq!(fewer, "8 instructions were played, but the trace has 9");
        let recorded = Counts { frames_out: 4, ..recorded };
        let fewer = check_totals(9, &played, 9, &recorded).unwrap_err();
        assert_eq!(fewer, "2 frames out were played, but the trace has 4");
    }
}
