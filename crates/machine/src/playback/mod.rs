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
//! | `devices` | to which device an access goes |
//! | `place` | where a trace's memory lies |
//! | `observe` | what can be seen of it |

mod devices;
mod lane;
mod observe;
mod pending;
mod place;
mod plan;
mod source;
mod stats;
mod stream;

use doorbell_attach::Attachment;
use doorbell_sim::memory::DmaAccess;
use doorbell_sim::ports::DmaRequest;
use doorbell_sim::{BlockEnd, Op, OpSource, Ps, Until};
use doorbell_trace::champsim;
use doorbell_trace::system::{Dma, Happening, TraceError};

use crate::config::{ConfigError, MachineConfig};
use crate::timed::{Mode, Timing};
use devices::Target;
use lane::Lane;
use pending::Wait;
use place::Place;
use source::BlockSource;
use stream::{DeviceAccess, HartStream};

pub use plan::{AtEnd, Pace, Plan, PlannedTrace, TraceInput};
pub use stats::{Played, PlayedStats, PlayedTrace};

/// Why a trace cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum PlaybackError {
    /// The configuration does not fit.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The file cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The file cannot be read as ChampSim's.
    #[error(transparent)]
    ChampSim(#[from] champsim::Error),
    /// Events wait for instructions that never come.
    #[error(
        "the trace's streams contradict each other: a device's event comes after instruction {after} of hart {hart}, which has {has}; record it again"
    )]
    Contradiction {
        /// The event's hart.
        hart: u16,
        /// Its instruction.
        after: u64,
        /// The instructions that there are.
        has: u64,
    },
    /// A hart waits for a write that never comes.
    #[error(
        "the trace's streams contradict each other: hart {hart} saw a device's write before its instruction {after} that waits for a later one; record it again"
    )]
    Circle {
        /// The hart.
        hart: usize,
        /// How far it has come.
        after: u64,
    },
    /// A request that no device makes.
    #[error("the trace makes no sense: device {device} moves {bytes} bytes at once; record it again")]
    Request {
        /// The device.
        device: u8,
        /// What it asks for.
        bytes: u32,
    },
    /// The traces touch more memory than can be told apart.
    #[error(
        "the traces touch more than 110 GiB of memory in pieces of 64 MiB; play fewer of them, or give virtual addresses pages \
         (playback.pages=kernel)"
    )]
    Memory,
}

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
    attachments: Vec<Attachment>,
}

impl Player {
    /// What is planned, on a configuration with as many harts as the traces have together. Its caches know nothing yet.
    pub fn new(config: &MachineConfig, plan: &Plan) -> Result<Player, PlaybackError> {
        let harts = plan.harts();
        if config.platform.harts != harts {
            let problem = format!("the traces have {harts} harts; play them with platform.harts={harts}");
            return Err(ConfigError::new("platform.harts", problem).into());
        }
        let timing = Timing::for_playback(config, place::memory())?;
        let (mut lanes, mut streams, mut lane_of) = (Vec::new(), Vec::new(), Vec::new());
        let first_place = Place::new();
        for (number, planned) in plan.traces.iter().enumerate() {
            let place = if number == 0 { first_place.clone() } else { first_place.beside(number as u16) };
            for hart in 0..planned.trace.harts() {
                let clock = doorbell_sim::Clock::new(config.hart(streams.len()).core.frequency);
                streams.push(HartStream::new(BlockSource::open(&planned.trace, hart)?, place.clone(), clock));
                lane_of.push(number);
            }
            lanes.push(Lane::new(planned, streams.len() - usize::from(planned.trace.harts()), place)?);
        }
        let (accesses, blocked) = (vec![None; streams.len()], vec![false; streams.len()]);
        let attachments = attachments(config);
        Ok(Player { timing, lanes, streams, lane_of, accesses, blocked, attachments })
    }

    /// Warming learns without saying when; detail says when.
    pub fn set_mode(&mut self, mode: Mode) {
        let now = self.now();
        let cycles: Vec<u64> = self.streams.iter().map(HartStream::cycle).collect();
        self.timing.change_mode_of_sources(mode, &cycles);
        let timed = mode == Mode::Detailed;
        self.attachments.iter_mut().for_each(|attachment| attachment.set_timed(timed, now));
    }

    /// The timing models, for what they have counted.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// How the ports' devices are attached.
    pub fn attachments(&self) -> &[Attachment] {
        &self.attachments
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

    /// Goes on until so many instructions of the first trace have been played since the beginning, or there is no more of it: whether
    /// there is.
    pub fn run(&mut self, instructions: u64) -> Result<bool, PlaybackError> {
        loop {
            if self.instructions(&self.lanes[0]) >= instructions {
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
                (Some((time, hart)), due) if due.is_none_or(|(due, _)| time < due) => self.step(hart)?,
                (_, Some((due, lane))) => self.happen(lane, due)?,
                _ => return Err(self.stuck()),
            }
        }
    }

    /// Traces that are over start over, if they are to. Whether the first one is over.
    fn end_lanes(&mut self) -> Result<bool, PlaybackError> {
        for number in 0..self.lanes.len() {
            let lane = &self.lanes[number];
            let mut harts = lane.first..lane.first + lane.harts;
            let goes_on = harts.any(|hart| self.streams[hart].is_ready() || self.accesses[hart].is_some());
            if goes_on || !lane.is_over() {
                continue;
            }
            if number == 0 && lane.at_end == AtEnd::Ends {
                return Ok(true);
            }
            if lane.at_end == AtEnd::StartsOver && self.instructions(lane) > 0 {
                self.start_over(number)?;
            }
        }
        Ok(false)
    }

    fn start_over(&mut self, number: usize) -> Result<(), PlaybackError> {
        let lane = &mut self.lanes[number];
        let harts = lane.first..lane.first + lane.harts;
        let over = harts.clone().map(|hart| self.timing.time_of(hart, self.streams[hart].over()));
        let now = over.max().unwrap_or(Ps::ZERO).max(lane.event_at);
        lane.start_over(now)?;
        for (hart, own) in harts.zip(0..) {
            self.streams[hart].start_over(BlockSource::open(&self.lanes[number].input, own)?);
            self.streams[hart].begin_at(self.timing.cycle_at(hart, now));
        }
        Ok(())
    }

    /// Why nothing goes on.
    fn stuck(&self) -> PlaybackError {
        let blocked = self.blocked.iter().position(|blocked| *blocked);
        let circle = blocked.map(|hart| PlaybackError::Circle {
            hart: hart - self.lanes[self.lane_of[hart]].first,
            after: self.streams[hart].position(),
        });
        let contradiction = || self.lanes.iter().find_map(Lane::contradiction);
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
        let (lane, stream) = (&mut self.lanes[number], &mut self.streams[hart]);
        lane.pending.settle(now);
        match lane.pending.wait(hart - lane.first, stream.position(), now, stream.next_ops()) {
            Wait::No => {}
            // The write has not even begun: what is to come before it comes first.
            Wait::ToCome => match lane.next_event() {
                Some(due) => return self.happen(number, due),
                None => {
                    self.blocked[hart] = true;
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
        }
        let (done, over) = (stream.position(), self.timing.time_of(hart, stream.over()));
        lane.reached(hart - lane.first, done, over)?;
        let (first, count) = (lane.first, lane.harts);
        self.blocked[first..first + count].fill(false);
        Ok(())
    }

    /// An access leaves the core and comes back.
    fn access(&mut self, hart: usize, op: &Op) {
        let (now, bytes) = (self.over(hart), u64::from(op.size));
        let last = self.attachments.len() - 1;
        let over = match self.lanes[self.lane_of[hart]].target(op.phys) {
            Target::Device(device) => {
                let attachment = &mut self.attachments[usize::from(device).min(last)];
                if op.flags & Op::WRITES != 0 {
                    attachment.register_write(now, bytes).0
                } else {
                    let arrives = attachment.register_read(now, bytes);
                    attachment.register_answer(arrives, bytes)
                }
            }
            Target::Configuration => {
                now + self.attachments[0].config_latency() + self.attachments[0].config_latency()
            }
            Target::Beside => now,
        };
        let cycle = self.timing.cycle_at(hart, over);
        match self.timing.mode() {
            Mode::Detailed => self.timing.end_device(hart, &mut self.streams[hart], cycle),
            _ => self.streams[hart].set_cycle(cycle),
        }
    }

    /// The next event of a trace happens.
    fn happen(&mut self, number: usize, now: Ps) -> Result<(), PlaybackError> {
        let lane = &mut self.lanes[number];
        let (event, id) = lane.take(now)?;
        lane.count(&event);
        if let Happening::Dma(dma) = event.what {
            let done = self.dma(event.device, &dma, now);
            if let Some(id) = id {
                self.lanes[number].pending.begun(id, done);
            }
        }
        let lane = &self.lanes[number];
        self.blocked[lane.first..lane.first + lane.harts].fill(false);
        Ok(())
    }

    /// A request to memory: when it is done.
    fn dma(&mut self, device: u8, dma: &Dma, now: Ps) -> Ps {
        let Dma { kind, write, addr, len, offset, .. } = *dma;
        let access = DmaAccess { device, kind, offset };
        if self.timing.mode() == Mode::Warming {
            self.timing.warm_dma(&DmaRequest { addr, len, kind, offset, token: 0 }, access, write);
        }
        let of = usize::from(device).min(self.attachments.len() - 1);
        let (attachment, memory) = (&mut self.attachments[of], Some(&mut self.timing.memory));
        match write {
            true => attachment.write(now, addr, len, access, memory),
            false => attachment.read(now, addr, len, access, memory),
        }
    }
}

/// Each port's, one at least.
fn attachments(config: &MachineConfig) -> Vec<Attachment> {
    let ports = (0..config.platform.nics as usize).map(|port| config.port(port));
    let mut all: Vec<Attachment> = ports.map(|port| Attachment::new(&port.attach, &port.pcie, 0)).collect();
    if all.is_empty() {
        all.push(Attachment::new(&config.attach, &config.pcie, 0));
    }
    all.iter_mut().for_each(|attachment| attachment.set_timed(true, Ps::ZERO));
    all
}
