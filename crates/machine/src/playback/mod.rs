//! Playing traces: each hart's stream feeds a core, devices' DMA goes through the attachments, caches and DRAM that are configured.
//!
//! What may be slower than when it was recorded is waited for: a block that accesses a line which it saw written by a device begins when
//! that write is in memory. Events keep their order, so that a read follows the doorbell before it. A sleep lasts as long as it did.
//!
//! | File | Question it answers |
//! |---|---|
//! | `plan` | what is played, and what paces it |
//! | `source`, `stream` | where a hart's blocks come from |
//! | `lane` | what a trace's devices do, and when |
//! | `pending` | which of their writes a block waits for |
//! | `survey`, `ring` | what its devices do on the whole, and what their rings are like |
//! | `pacing`, `paced`, `port`, `arriving` | how events go where frames come at another pace than they did |
//! | `polls` | which polls are left out then |
//! | `sending` | which descriptors a frame's data wait for |
//! | `pairs` | which frame answers which |
//! | `under_way` | how much devices had been asked for when the trace began |
//! | `doorbells` | how many frames were sent at a time |
//! | `fits` | which configurations are refused |
//! | `requests` | what leaves cores and devices, and when it is done |
//! | `devices` | to which device an access goes |
//! | `pages` | where the pages lie of traces with virtual addresses alone |
//! | `place` | where a trace's memory lies |
//! | `observe` | what can be seen of it |
//! | `order` | which events happen one after the other |
//! | `alone` | how far a single hart goes before anything has to be looked at |
//! | `beside` | programs that are played beside a machine that executes |

mod alone;
#[cfg(test)]
mod alone_tests;
mod arriving;
mod beside;
#[cfg(test)]
mod beside_tests;
#[cfg(test)]
mod damage_tests;
mod devices;
mod doorbells;
mod error;
mod fits;
mod lane;
mod observe;
#[cfg(test)]
mod observe_tests;
mod order;
#[cfg(test)]
mod order_tests;
mod paced;
#[cfg(test)]
mod paced_tests;
mod pacing;
mod pages;
mod pairs;
mod pending;
mod place;
mod plan;
mod polls;
mod port;
mod requests;
mod ring;
mod sending;
#[cfg(test)]
mod sleep_tests;
mod source;
mod stats;
mod stream;
mod survey;
#[cfg(test)]
mod tests;
mod under_way;

use doorbell_attach::Attachment;
use doorbell_sim::{BlockEnd, Op, OpClass, OpSource, Ps, Until};

use crate::config::MachineConfig;
use crate::timed::{Mode, Timing};
use devices::{Attachments, Ports};
use lane::Lane;
use paced::Awake;
use pacing::Pacing;
use pages::Tables;
use pending::Wait;
use place::Place;
pub(crate) use place::memory;
use polls::{Block, BlockId, Polls};
use source::BlockSource;
use stream::{DeviceAccess, HartStream};

pub(crate) use beside::Beside;
pub use beside::BesideStats;
pub use doorbells::Batches;
pub use error::PlaybackError;
pub use pages::{Pages, PagesConfig};
use plan::Input;
pub use plan::{AtEnd, Pace, Plan, PlannedTrace, TraceInput};
pub use ring::Ring;
pub use stats::{Played, PlayedStats, PlayedTrace};
pub use survey::{DeviceSurvey, Survey};

/// Plays traces. See the module.
pub struct Player {
    timing: Timing,
    lanes: Vec<Lane>,
    streams: Vec<HartStream>,
    /// Which trace each hart is of.
    lane_of: Vec<usize>,
    /// Accesses to devices that have left their cores.
    accesses: Vec<Option<Op>>,
    /// Harts that wait for an event whose instruction another hart has not come to.
    blocked: Vec<bool>,
    polls: Vec<Polls>,
    attachments: Attachments,
    pace: Pace,
    #[cfg(test)]
    looks_behind_each_block: bool,
}

impl Player {
    /// What is planned, on a configuration with as many harts as the traces have together. Its caches know nothing yet.
    pub fn new(config: &MachineConfig, plan: &Plan) -> Result<Player, PlaybackError> {
        fits::check(config, plan)?;
        let sharing = plan.traces.iter().map(|planned| planned.trace.sharing()).max().unwrap_or(1);
        let timing = Timing::for_playback(config, memory(), sharing)?;
        let (mut lanes, mut streams, mut lane_of) = (Vec::new(), Vec::new(), Vec::new());
        let first_place = Place::new();
        for (number, planned) in plan.traces.iter().enumerate() {
            let place = if number == 0 { first_place.clone() } else { first_place.beside(number as u16) };
            let tables = || Tables::new(&plan.pages, config.platform.ram, plan.seed);
            let tables = if planned.trace.is_physical() { None } else { tables() };
            for hart in 0..planned.trace.harts() {
                let clock = doorbell_sim::Clock::new(config.hart(streams.len()).core.frequency);
                let source = BlockSource::open(&planned.trace, hart);
                let stream =
                    source.and_then(|source| HartStream::new(source, place.clone(), tables.clone(), clock));
                streams.push(stream.map_err(|error| planned.trace.blamed(error))?);
                lane_of.push(number);
            }
            if number == 0 && !plan.sleeps {
                streams.iter_mut().for_each(HartStream::stay_awake);
            }
            let paced = number == 0 && plan.pace != Pace::Recorded;
            let pacing = paced.then(|| Pacing { config: config.clone(), pace: plan.pace, seed: plan.seed });
            let first = streams.len() - usize::from(planned.trace.harts());
            let lane = Lane::new(planned, first, place, pacing);
            lanes.push(lane.map_err(|error| planned.trace.blamed(error))?);
        }
        devices::check_named(config, &lanes)?;
        fits::check_nics(config, &lanes)?;
        let (accesses, blocked) = (vec![None; streams.len()], vec![false; streams.len()]);
        let polls = streams.iter().map(|_| Polls::default()).collect();
        let (attachments, pace) = (Attachments::new(config), plan.pace);
        lanes.iter_mut().for_each(|lane| lane.ports = Ports::new(&lane.survey.nics, attachments.ports()));
        let mut player = Player {
            timing,
            lanes,
            streams,
            lane_of,
            accesses,
            blocked,
            polls,
            attachments,
            pace,
            #[cfg(test)]
            looks_behind_each_block: false,
        };
        (0..player.streams.len()).for_each(|hart| player.note_awake(hart));
        Ok(player)
    }

    /// Warming learns without saying when; detail says when. Latencies are kept anew.
    pub fn set_mode(&mut self, mode: Mode) {
        let now = self.now();
        let cycles: Vec<u64> = self.streams.iter().map(HartStream::cycle).collect();
        self.timing.change_mode_of_sources(mode, &cycles);
        let timed = mode == Mode::Detailed;
        self.lanes.iter_mut().for_each(Lane::forget_latencies);
        self.attachments.set_timed(timed, now);
    }

    /// Before anything is played: the first trace goes as it was recorded, to be learnt from, until [`begin_again`](Player::begin_again).
    pub fn learn_from_all(&mut self) -> Result<(), PlaybackError> {
        self.lanes[0].go_as_recorded().map_err(|error| self.blamed(0, error))?;
        (0..self.lanes[0].harts).for_each(|hart| self.note_awake(hart));
        self.set_mode(Mode::Warming);
        Ok(())
    }

    /// The first trace begins again, at its own pace: what caches, TLBs and predictors have learnt of it stays.
    pub fn begin_again(&mut self) -> Result<(), PlaybackError> {
        self.start_over(0).map_err(|error| self.blamed(0, error))?;
        self.set_mode(Mode::Detailed);
        Ok(())
    }

    /// The timing models, for what they have counted.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// How the ports' devices are attached, each with the first port of those that share it.
    pub fn attachments(&self) -> &[(usize, Attachment)] {
        &self.attachments.all
    }

    /// What has been counted.
    pub fn played(&self) -> Played {
        let core = |hart: usize| (self.timing.core(hart).now(), self.timing.core(hart).stats());
        let traces = self.lanes.iter().map(|lane| PlayedTrace {
            harts: (lane.first, lane.harts),
            instructions: self.instructions(lane),
            rounds: lane.rounds,
            devices: lane.stats.clone(),
        });
        let traces: Vec<PlayedTrace> = traces.collect();
        Played {
            now: self.now(),
            instructions: traces.iter().map(|trace| trace.instructions).sum(),
            cores: (0..self.streams.len()).map(core).collect(),
            memory: self.timing.memory.stats(),
            devices: self.lanes[0].stats.clone(),
            traces,
        }
    }

    fn instructions(&self, lane: &Lane) -> u64 {
        self.streams[lane.first..][..lane.harts].iter().map(HartStream::instructions).sum()
    }

    /// The time of the hart that has come furthest.
    pub fn now(&self) -> Ps {
        let times = (0..self.streams.len()).map(|hart| self.over(hart));
        let events = self.lanes.iter().map(|lane| lane.event_at);
        times.chain(events).max().unwrap_or(Ps::ZERO)
    }

    /// When the hart's next block begins, or its access to a device has left the core.
    #[inline]
    fn time(&self, hart: usize) -> Ps {
        match self.accesses[hart] {
            Some(_) => self.over(hart),
            None => self.timing.time_of(hart, self.streams[hart].cycle()),
        }
    }

    /// When its last one was over.
    fn over(&self, hart: usize) -> Ps {
        self.timing.time_of(hart, self.streams[hart].over())
    }

    /// Goes on until so many instructions of the first trace have been played (or left out) since the beginning, or there is no more of
    /// it: whether there is.
    pub fn run(&mut self, instructions: u64) -> Result<bool, PlaybackError> {
        loop {
            if self.done() >= instructions {
                return Ok(true);
            }
            if self.end_lanes()? {
                return Ok(false);
            }
            let can_go = |hart: &usize| {
                (self.streams[*hart].is_ready() || self.accesses[*hart].is_some()) && !self.blocked[*hart]
            };
            let hart = (0..self.streams.len()).filter(can_go).map(|hart| (self.time(hart), hart)).min();
            let events = self.lanes.iter().enumerate();
            let event = events.filter_map(|(lane, of)| Some((of.next_event()?, lane))).min();
            match (hart, event) {
                (Some((time, hart)), due) if due.is_none_or(|((due, _), _)| time < due) => {
                    let stepped = self.step(hart).and_then(|()| self.go_on_alone(instructions));
                    stepped.map_err(|error| self.blamed(self.lane_of[hart], error))?;
                }
                (_, Some((event, lane))) => {
                    self.happen(lane, event).map_err(|error| self.blamed(lane, error))?;
                }
                _ if self.lanes.iter_mut().any(Lane::relax) => {}
                _ => return Err(self.stuck()),
            }
        }
    }

    /// Traces that are over start over, if they are to. Whether the first one is over.
    fn end_lanes(&mut self) -> Result<bool, PlaybackError> {
        for number in 0..self.lanes.len() {
            let lane = &mut self.lanes[number];
            let (first, count) = (lane.first, lane.harts);
            let goes_on =
                |own: usize| self.streams[first + own].is_ready() || self.accesses[first + own].is_some();
            if (0..count).any(goes_on) {
                // One of the traces that it was merged of may be over.
                lane.stop(goes_on);
                continue;
            }
            if !lane.is_over() {
                continue;
            }
            let lane = &self.lanes[number];
            if number == 0 && lane.at_end == AtEnd::Ends {
                self.was_whole(number).map_err(|error| self.blamed(number, error))?;
                return Ok(true);
            }
            if lane.at_end == AtEnd::StartsOver && self.instructions(lane) > 0 {
                self.start_over(number).map_err(|error| self.blamed(number, error))?;
            }
        }
        Ok(false)
    }

    /// A trace that was read to its end held what its index says.
    fn was_whole(&self, number: usize) -> Result<(), PlaybackError> {
        let lane = &self.lanes[number];
        let Input::Own(file) = &lane.input.from else { return Ok(()) };
        let ops = self.streams[lane.first..lane.first + lane.harts].iter().map(HartStream::ops).sum();
        Ok(file.compare_ops(ops)?)
    }

    fn start_over(&mut self, number: usize) -> Result<(), PlaybackError> {
        self.was_whole(number)?;
        let lane = &mut self.lanes[number];
        let harts = lane.first..lane.first + lane.harts;
        let over = harts.clone().map(|hart| self.timing.time_of(hart, self.streams[hart].over()));
        let now = over.max().unwrap_or(Ps::ZERO).max(lane.event_at);
        lane.start_over(now)?;
        for (hart, own) in harts.zip(0..) {
            self.accesses[hart] = None;
            (self.blocked[hart], self.polls[hart]) = (false, Polls::default());
            self.streams[hart].start_over(BlockSource::open(&self.lanes[number].input, own)?)?;
            self.streams[hart].begin_at(self.timing.cycle_at(hart, now));
            self.note_awake(hart);
        }
        Ok(())
    }

    /// An error names the trace that it is about.
    fn blamed(&self, number: usize, error: PlaybackError) -> PlaybackError {
        self.lanes[number].input.blamed(error)
    }

    /// Why nothing goes on.
    fn stuck(&self) -> PlaybackError {
        let blocked = self.blocked.iter().position(|blocked| *blocked);
        let circle = blocked.map(|hart| {
            let (lane, after) = (&self.lanes[self.lane_of[hart]], self.streams[hart].position());
            match self.pace {
                Pace::Closed { window } if lane.is_paced() => {
                    PlaybackError::Window { window, after, under_way: lane.survey.inside }
                }
                _ => lane.input.blamed(PlaybackError::Circle { hart: hart - lane.first, after }),
            }
        });
        let contradicted = |lane: &Lane| Some(lane.input.blamed(lane.contradiction()?));
        let contradiction = || self.lanes.iter().find_map(contradicted);
        circle.or_else(contradiction).expect("a trace that is not over has events left")
    }

    /// The hart's next block, or its access to a device.
    fn step(&mut self, hart: usize) -> Result<(), PlaybackError> {
        if let Some(op) = self.accesses[hart].take() {
            self.access(hart, &op);
            return Ok(());
        }
        // The hart is the earliest.
        let (now, number) = (self.time(hart), self.lane_of[hart]);
        if self.lanes[number].is_paced() && !self.goes_on_paced(hart, now)? {
            return Ok(());
        }
        let (lane, stream) = (&mut self.lanes[number], &mut self.streams[hart]);
        lane.pending.settle(now);
        match lane.pending.wait(hart - lane.first, stream.position(), now, stream.next_ops()) {
            Wait::No => {}
            // The write has not even begun: what is to come before it comes first.
            Wait::ToCome => match lane.next_event_of(hart - lane.first) {
                Some(event) if !lane.is_paced() => return self.happen(number, event),
                _ => {
                    self.blocked[hart] = true;
                    self.timing.rests(hart);
                    return Ok(());
                }
            },
            Wait::Until(visible) => {
                lane.stats.waits += 1;
                lane.stats.waited_ps += (visible - now).0;
                let cycle = self.timing.cycle_at(hart, visible);
                stream.begin_at(cycle);
                return Ok(());
            }
        }
        self.block(hart)?;
        self.reached(hart)
    }

    /// Plays the hart's next block, or as far as its access to a device: whether it goes on.
    #[inline]
    fn block(&mut self, hart: usize) -> Result<bool, PlaybackError> {
        let stream = &mut self.streams[hart];
        let until = Until { cycle: 0, instructions: 0 };
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

    /// Whether the hart slept before its first block, and does not now.
    fn note_awake(&mut self, hart: usize) {
        let (lane, stream) = (&mut self.lanes[self.lane_of[hart]], &self.streams[hart]);
        if stream.stays_awake() {
            lane.stays_awake(hart - lane.first, stream.position());
        }
    }

    /// A block of the hart is over.
    fn reached(&mut self, hart: usize) -> Result<(), PlaybackError> {
        let (lane, stream) = (&mut self.lanes[self.lane_of[hart]], &mut self.streams[hart]);
        let (done, over) = (stream.position(), self.timing.time_of(hart, stream.over()));
        let own = hart - lane.first;
        if stream.stays_awake() {
            lane.stays_awake(own, done);
        }
        lane.reached(own, done, over)?;
        if let Some(paced) = lane.paced(own)
            && stream.sleeps() > Ps::ZERO
            && paced.awake(own as u16, done, stream.sleeps()) != Awake::AsRecorded
        {
            stream.fall_asleep();
        }
        let (first, count) = (lane.first, lane.harts);
        self.unblock(first, count);
        Ok(())
    }

    /// Harts look again whether what they wait for has happened.
    #[inline]
    fn unblock(&mut self, first: usize, count: usize) {
        for blocked in &mut self.blocked[first..first + count] {
            if *blocked {
                *blocked = false;
            }
        }
    }

    /// At another pace than recorded: whether the hart's next block is played now. It may still sleep, or the block may be left out.
    fn goes_on_paced(&mut self, hart: usize, now: Ps) -> Result<bool, PlaybackError> {
        let (lane, stream) = (&mut self.lanes[self.lane_of[hart]], &mut self.streams[hart]);
        let own = (hart - lane.first) as u16;
        let paced = lane.paced(own.into()).expect("it is paced");
        if let Some(slept) = stream.asleep() {
            match paced.awake(own, stream.position(), slept) {
                Awake::ToCome => self.blocked[hart] = true,
                Awake::At(at) => stream.begin_at(self.timing.cycle_at(hart, at.max(now))),
                Awake::AsRecorded => stream.begin_at(self.timing.cycle_at(hart, now + slept)),
            }
            return Ok(false);
        }
        let waiting = paced.see(own, stream.position(), now);
        let ops = stream.next_ops();
        let poll = ops.iter().find(|op| op.class == OpClass::Load && paced.is_ring(op.phys.0));
        let id = BlockId { pc: ops.first().map_or(0, |op| op.pc), ops: ops.len() };
        let poll = poll.map(|op| (op.pc, op.phys.0));
        let block = Block { id, is_plain: stream.is_plain(), poll };
        if !self.polls[hart].leaves_out(&block, paced.reports_seen, waiting) {
            return Ok(true);
        }
        lane.stats.left_out += stream.leave_out();
        if let Some(error) = stream.failure() {
            return Err(error);
        }
        self.reached(hart).map(|()| false)
    }
}
