//! Trace playback: each hart's op stream feeds a core; device DMA goes through the configured attachments,
//! caches and DRAM.
//!
//! Anything that may be slower than when recorded is waited for. A block that accessed a line after a device
//! wrote it, when recorded, begins after that write is in memory. Events keep their order, so a DMA read
//! follows the doorbell before it. A sleep lasts as long as recorded.
//!
//! | File | Concern |
//! |---|---|
//! | `plan` | traces to play, and the pace of the first one |
//! | `source`, `stream` | block sources of a hart |
//! | `device_replay` | device events of a trace, and when they run |
//! | `pending` | device writes that a block must wait for |
//! | `survey`, `ring` | summary of device activity, and descriptor rings |
//! | `rate_setup`, `rate_replay`, `port`, `frame_arrivals` | events when frames arrive at another rate than recorded |
//! | `polls` | empty polls that are skipped at such a rate |
//! | `sending` | descriptors that a frame's data reads depend on |
//! | `pairs` | pairing of received frames and answers |
//! | `in_flight_at_start` | fetches and reads in flight when the trace began |
//! | `doorbells` | frames sent per doorbell |
//! | `validate` | configurations that are rejected |
//! | `requests` | register accesses and DMA requests, and when they complete |
//! | `devices` | device that an access goes to |
//! | `pages` | page tables for traces with virtual addresses only |
//! | `relocation` | where a trace's memory is placed |
//! | `observe` | read-only views of a player |
//! | `order` | order of device events |
//! | `single_hart` | fast path of a player with one hart |
//! | `corunners` | traces on extra cores of an executing machine |

mod corunners;
#[cfg(test)]
mod corunners_tests;
#[cfg(test)]
mod damage_tests;
mod device_replay;
mod devices;
mod doorbells;
mod error;
mod frame_arrivals;
mod in_flight_at_start;
mod observe;
#[cfg(test)]
mod observe_tests;
mod order;
#[cfg(test)]
mod order_tests;
mod pages;
mod pairs;
mod pending;
mod plan;
mod polls;
mod port;
mod rate_replay;
#[cfg(test)]
mod rate_replay_tests;
mod rate_setup;
mod relocation;
mod requests;
mod ring;
mod sending;
mod single_hart;
#[cfg(test)]
mod single_hart_tests;
#[cfg(test)]
mod sleep_tests;
mod source;
mod stats;
mod stream;
mod survey;
#[cfg(test)]
mod tests;
mod validate;
#[cfg(test)]
mod virtual_tests;

use doorbell_attach::Attachment;
use doorbell_sim::{BlockEnd, CoreCycle, DomainClock, Op, OpClass, OpSource, Ps, Until};

use crate::config::MachineConfig;
use crate::timed::{Mode, Timing};
use device_replay::DeviceReplay;
use devices::{Attachments, Ports};
use pages::Tables;
use pending::Wait;
use polls::{Block, BlockId, Polls};
use rate_replay::Wakeup;
use rate_setup::RateSetup;
use relocation::Relocation;
pub(crate) use relocation::memory;
use source::BlockSource;
use stream::{DeviceAccess, HartStream};

pub use corunners::CorunnerStats;
pub(crate) use corunners::Corunners;
pub use doorbells::Batches;
pub use error::PlaybackError;
pub use pages::{Pages, PagesConfig};
use plan::Input;
pub use plan::{AtEnd, Pace, Plan, PlannedTrace, TraceInput};
pub use ring::Ring;
pub use stats::{Played, PlayedStats, PlayedTrace};
pub use survey::{DeviceSurvey, Survey};

/// Plays traces on the timing models.
pub struct Player {
    timing: Timing,
    replays: Vec<DeviceReplay>,
    streams: Vec<HartStream>,
    /// Index in `replays` of each hart's trace.
    replay_of: Vec<usize>,
    /// Device access of each hart that has left its core and is not done.
    accesses: Vec<Option<Op>>,
    /// Harts stalled on a device write that has not started: its event waits for another hart.
    blocked: Vec<bool>,
    polls: Vec<Polls>,
    attachments: Attachments,
    pace: Pace,
    #[cfg(test)]
    checks_after_each_block: bool,
}

impl Player {
    /// Creates a player for a plan, with cold caches. The configuration has as many harts as all traces
    /// together.
    pub fn new(config: &MachineConfig, plan: &Plan) -> Result<Player, PlaybackError> {
        validate::check(config, plan)?;
        let sharing = plan.traces.iter().map(|planned| planned.trace.sharing()).max().unwrap_or(1);
        let timing = Timing::for_playback(config, memory(), sharing)?;
        let (mut replays, mut streams, mut replay_of) = (Vec::new(), Vec::new(), Vec::new());
        let first_relocation = Relocation::new();
        for (number, planned) in plan.traces.iter().enumerate() {
            let relocation = if number == 0 {
                first_relocation.clone()
            } else {
                first_relocation.for_trace(number as u16)
            };
            let tables = || Tables::new(&plan.pages, config.platform.ram, plan.seed);
            let tables = if planned.trace.is_physical() { None } else { tables() };
            for hart in 0..planned.trace.harts() {
                let clock = DomainClock::new(config.hart(streams.len()).core.frequency);
                let source = BlockSource::open(&planned.trace, hart);
                let stream = source
                    .and_then(|source| HartStream::new(source, relocation.clone(), tables.clone(), clock));
                streams.push(stream.map_err(|error| planned.trace.with_trace_name(error))?);
                replay_of.push(number);
            }
            if number == 0 && !plan.sleeps {
                streams.iter_mut().for_each(HartStream::disable_sleep);
            }
            let at_pace = number == 0 && plan.pace != Pace::Recorded;
            let setup =
                at_pace.then(|| RateSetup { config: config.clone(), pace: plan.pace, seed: plan.seed });
            let first = streams.len() - usize::from(planned.trace.harts());
            let replay = DeviceReplay::new(planned, first, relocation, setup);
            replays.push(replay.map_err(|error| planned.trace.with_trace_name(error))?);
        }
        devices::check_named(config, &replays)?;
        validate::check_nics(config, &replays)?;
        let (accesses, blocked) = (vec![None; streams.len()], vec![false; streams.len()]);
        let polls = streams.iter().map(|_| Polls::default()).collect();
        let (attachments, pace) = (Attachments::new(config), plan.pace);
        replays
            .iter_mut()
            .for_each(|replay| replay.ports = Ports::new(&replay.survey.nics, attachments.ports()));
        let mut player = Player {
            timing,
            replays,
            streams,
            replay_of,
            accesses,
            blocked,
            polls,
            attachments,
            pace,
            #[cfg(test)]
            checks_after_each_block: false,
        };
        (0..player.streams.len()).for_each(|hart| player.note_skipped_sleep(hart));
        Ok(player)
    }

    /// Switches between warming, which trains caches and predictors without timing, and detailed timing.
    /// Clears the latency histograms.
    pub fn set_mode(&mut self, mode: Mode) {
        let now = self.now();
        let cycles: Vec<CoreCycle> = self.streams.iter().map(HartStream::cycle).collect();
        self.timing.change_mode_of_sources(mode, &cycles);
        let timed = mode == Mode::Detailed;
        self.replays.iter_mut().for_each(DeviceReplay::clear_latencies);
        self.attachments.set_timed(timed, now);
    }

    /// Plays the first trace as recorded in warming mode, to train caches and predictors, until
    /// [`restart`](Player::restart). To be called before anything is played.
    pub fn begin_warming_pass(&mut self) -> Result<(), PlaybackError> {
        self.replays[0].begin(false).map_err(|error| self.with_trace_name(0, error))?;
        (0..self.replays[0].harts).for_each(|hart| self.note_skipped_sleep(hart));
        self.set_mode(Mode::Warming);
        Ok(())
    }

    /// Restarts the first trace at the planned pace, in detailed mode. Caches, TLBs and predictors stay warm.
    pub fn restart(&mut self) -> Result<(), PlaybackError> {
        self.start_over(0).map_err(|error| self.with_trace_name(0, error))?;
        self.set_mode(Mode::Detailed);
        Ok(())
    }

    /// The timing models, for their counters.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Attachments of the ports' devices, each with the first port that shares it.
    pub fn attachments(&self) -> &[(usize, Attachment)] {
        &self.attachments.all
    }

    /// Returns all counts up to now.
    pub fn played(&self) -> Played {
        let core = |hart: usize| (self.timing.core(hart).now(), self.timing.core(hart).stats());
        let traces = self.replays.iter().map(|replay| PlayedTrace {
            harts: (replay.first, replay.harts),
            instructions: self.instructions(replay),
            rounds: replay.rounds,
            devices: replay.stats.clone(),
        });
        let traces: Vec<PlayedTrace> = traces.collect();
        Played {
            now: self.now(),
            instructions: traces.iter().map(|trace| trace.instructions).sum(),
            cores: (0..self.streams.len()).map(core).collect(),
            memory: self.timing.memory.stats(),
            devices: self.replays[0].stats.clone(),
            traces,
        }
    }

    fn instructions(&self, replay: &DeviceReplay) -> u64 {
        self.streams[replay.first..][..replay.harts].iter().map(HartStream::instructions).sum()
    }

    /// The latest time that a hart or a device event has reached.
    pub fn now(&self) -> Ps {
        let times = (0..self.streams.len()).map(|hart| self.end_time(hart));
        let events = self.replays.iter().map(|replay| replay.event_at);
        times.chain(events).max().unwrap_or(Ps::ZERO)
    }

    /// Time at which the hart's next block begins, or at which its device access left the core.
    #[inline]
    fn time(&self, hart: usize) -> Ps {
        match self.accesses[hart] {
            Some(_) => self.end_time(hart),
            None => self.timing.time_of(hart, self.streams[hart].cycle()),
        }
    }

    /// Time at which the hart's last block ended.
    fn end_time(&self, hart: usize) -> Ps {
        self.timing.time_of(hart, self.streams[hart].end_cycle())
    }

    /// Runs until `instructions` instructions of the first trace have been played or skipped since the start,
    /// or the trace ends. Returns false if it ended.
    pub fn run(&mut self, instructions: u64) -> Result<bool, PlaybackError> {
        loop {
            if self.done() >= instructions {
                return Ok(true);
            }
            if self.end_replays()? {
                return Ok(false);
            }
            let can_run = |hart: &usize| {
                (self.streams[*hart].is_ready() || self.accesses[*hart].is_some()) && !self.blocked[*hart]
            };
            let hart = (0..self.streams.len()).filter(can_run).map(|hart| (self.time(hart), hart)).min();
            let events = self.replays.iter().enumerate();
            let event = events.filter_map(|(replay, of)| Some((of.next_event()?, replay))).min();
            match (hart, event) {
                (Some((time, hart)), due) if due.is_none_or(|((due, _), _)| time < due) => {
                    let stepped = self.step(hart).and_then(|()| self.run_single_hart(instructions));
                    stepped.map_err(|error| self.with_trace_name(self.replay_of[hart], error))?;
                }
                (_, Some(((at, order), replay))) => {
                    self.run_event(replay, at, order).map_err(|error| self.with_trace_name(replay, error))?;
                }
                _ if self.replays.iter_mut().any(DeviceReplay::force_progress) => {}
                _ => return Err(self.deadlock_error()),
            }
        }
    }

    /// Restarts traces that have ended and are to repeat. Returns whether the first trace has ended.
    fn end_replays(&mut self) -> Result<bool, PlaybackError> {
        for number in 0..self.replays.len() {
            let replay = &mut self.replays[number];
            let (first, count) = (replay.first, replay.harts);
            let is_active =
                |own: usize| self.streams[first + own].is_ready() || self.accesses[first + own].is_some();
            if (0..count).any(is_active) {
                // In a merged trace, one of the parts may have ended.
                replay.stop(is_active);
                continue;
            }
            if !replay.is_over() {
                continue;
            }
            let replay = &self.replays[number];
            if number == 0 && replay.at_end == AtEnd::Ends {
                self.check_op_count(number).map_err(|error| self.with_trace_name(number, error))?;
                return Ok(true);
            }
            if replay.at_end == AtEnd::StartsOver && self.instructions(replay) > 0 {
                self.start_over(number).map_err(|error| self.with_trace_name(number, error))?;
            }
        }
        Ok(false)
    }

    /// Compares the op count of a trace that was read to its end with the trace's index.
    fn check_op_count(&self, number: usize) -> Result<(), PlaybackError> {
        let replay = &self.replays[number];
        let Input::Own(file) = &replay.input.from else { return Ok(()) };
        let ops = self.streams[replay.first..replay.first + replay.harts].iter().map(HartStream::ops).sum();
        Ok(file.compare_ops(ops)?)
    }

    fn start_over(&mut self, number: usize) -> Result<(), PlaybackError> {
        self.check_op_count(number)?;
        let replay = &mut self.replays[number];
        let harts = replay.first..replay.first + replay.harts;
        let ends = harts.clone().map(|hart| self.timing.time_of(hart, self.streams[hart].end_cycle()));
        let now = ends.max().unwrap_or(Ps::ZERO).max(replay.event_at);
        replay.start_over(now)?;
        for (hart, own) in harts.zip(0..) {
            self.accesses[hart] = None;
            (self.blocked[hart], self.polls[hart]) = (false, Polls::default());
            self.streams[hart].start_over(BlockSource::open(&self.replays[number].input, own)?)?;
            self.streams[hart].begin_at(self.timing.cycle_at(hart, now));
            self.note_skipped_sleep(hart);
        }
        Ok(())
    }

    /// Adds the name of the trace to an error.
    fn with_trace_name(&self, number: usize, error: PlaybackError) -> PlaybackError {
        self.replays[number].input.with_trace_name(error)
    }

    /// Returns why neither a hart nor an event can proceed.
    fn deadlock_error(&self) -> PlaybackError {
        let blocked = self.blocked.iter().position(|blocked| *blocked);
        let circle = blocked.map(|hart| {
            let (replay, after) = (&self.replays[self.replay_of[hart]], self.streams[hart].position());
            match self.pace {
                Pace::Closed { window } if replay.is_paced() => {
                    PlaybackError::Window { window, after, in_flight: replay.survey.in_flight_max }
                }
                _ => replay
                    .input
                    .with_trace_name(PlaybackError::CircularWait { hart: hart - replay.first, after }),
            }
        });
        let contradicted =
            |replay: &DeviceReplay| Some(replay.input.with_trace_name(replay.contradiction()?));
        let contradiction = || self.replays.iter().find_map(contradicted);
        circle.or_else(contradiction).expect("an unfinished trace has events left")
    }

    /// Plays the hart's next block, or does its pending device access.
    fn step(&mut self, hart: usize) -> Result<(), PlaybackError> {
        if let Some(op) = self.accesses[hart].take() {
            self.access(hart, &op);
            return Ok(());
        }
        // No other hart is earlier.
        let (now, number) = (self.time(hart), self.replay_of[hart]);
        if self.replays[number].is_paced() && !self.plays_block_now(hart, now)? {
            return Ok(());
        }
        let (replay, stream) = (&mut self.replays[number], &mut self.streams[hart]);
        replay.pending.settle(now);
        match replay.pending.wait(hart - replay.first, stream.position(), now, stream.next_ops()) {
            Wait::No => {}
            // The write has not started: earlier events run first.
            Wait::NotStarted => match replay.next_event_of(hart - replay.first) {
                Some((at, order)) if !replay.is_paced() => return self.run_event(number, at, order),
                _ => {
                    self.blocked[hart] = true;
                    self.timing.source_sleeps(hart);
                    return Ok(());
                }
            },
            Wait::Until(visible) => {
                replay.stats.waits += 1;
                replay.stats.waited_ps += (visible - now).0;
                let cycle = self.timing.cycle_at(hart, visible);
                stream.begin_at(cycle);
                return Ok(());
            }
        }
        self.block(hart)?;
        self.reached(hart)
    }

    /// Plays the hart's next block, or its part before a device access. Returns false if it stopped at such
    /// an access.
    #[inline]
    fn block(&mut self, hart: usize) -> Result<bool, PlaybackError> {
        let stream = &mut self.streams[hart];
        let until = Until { cycle: CoreCycle::ZERO, instructions: 0 };
        let end = self.timing.block(hart, stream, &mut (), until);
        if let Some(error) = stream.failure() {
            return Err(error);
        }
        if let BlockEnd::Stopped(DeviceAccess(op)) = end {
            if self.timing.mode() == Mode::Detailed {
                self.timing.begin_device(hart, stream, &(), op);
            }
            self.accesses[hart] = Some(op);
            return Ok(false);
        }
        Ok(true)
    }

    /// Records that the sleep before the hart's first block is not replayed, if there is one.
    fn note_skipped_sleep(&mut self, hart: usize) {
        let (replay, stream) = (&mut self.replays[self.replay_of[hart]], &self.streams[hart]);
        if stream.skips_sleep() {
            replay.skip_sleep(hart - replay.first, stream.position());
        }
    }

    /// Updates the trace's events after a block of the hart.
    fn reached(&mut self, hart: usize) -> Result<(), PlaybackError> {
        let (replay, stream) = (&mut self.replays[self.replay_of[hart]], &mut self.streams[hart]);
        let (done, end) = (stream.position(), self.timing.time_of(hart, stream.end_cycle()));
        let own = hart - replay.first;
        if stream.skips_sleep() {
            replay.skip_sleep(own, done);
        }
        replay.reached(own, done, end)?;
        if let Some(rate_replay) = replay.rate_replay(own)
            && stream.sleeps() > Ps::ZERO
            && rate_replay.wake_time(own as u16, done, stream.sleeps()) != Wakeup::AsRecorded
        {
            stream.defer_sleep();
        }
        let (first, count) = (replay.first, replay.harts);
        self.unblock(first, count);
        Ok(())
    }

    /// Lets stalled harts check again.
    #[inline]
    fn unblock(&mut self, first: usize, count: usize) {
        for blocked in &mut self.blocked[first..first + count] {
            if *blocked {
                *blocked = false;
            }
        }
    }

    /// Rate-controlled replay: whether the hart plays its next block now. It may still sleep, or the block
    /// may be a skipped poll.
    fn plays_block_now(&mut self, hart: usize, now: Ps) -> Result<bool, PlaybackError> {
        let (replay, stream) = (&mut self.replays[self.replay_of[hart]], &mut self.streams[hart]);
        let own = (hart - replay.first) as u16;
        let rate_replay = replay.rate_replay(own.into()).expect("the replay is rate-controlled");
        if let Some(slept) = stream.recorded_sleep() {
            match rate_replay.wake_time(own, stream.position(), slept) {
                Wakeup::NotYet => self.blocked[hart] = true,
                Wakeup::At(at) => stream.begin_at(self.timing.cycle_at(hart, at.max(now))),
                Wakeup::AsRecorded => stream.begin_at(self.timing.cycle_at(hart, now + slept)),
            }
            return Ok(false);
        }
        let waiting = rate_replay.update_reports(own, stream.position(), now);
        let ops = stream.next_ops();
        let poll = ops.iter().find(|op| op.class == OpClass::Load && rate_replay.in_receive_ring(op.phys.0));
        let id = BlockId { pc: ops.first().map_or(0, |op| op.pc), ops: ops.len() };
        let poll = poll.map(|op| (op.pc, op.phys.0));
        let block = Block { id, is_plain: stream.is_plain(), poll };
        if !self.polls[hart].skips(&block, rate_replay.reports_seen, waiting) {
            return Ok(true);
        }
        replay.stats.left_out += stream.skip();
        if let Some(error) = stream.failure() {
            return Err(error);
        }
        self.reached(hart).map(|()| false)
    }
}
