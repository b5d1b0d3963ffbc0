//! Playing a trace as it was recorded: each hart's stream feeds a core, devices' DMA goes through the attachments, caches and DRAM that are
//! configured, and events happen as long after their instructions as they did.
//!
//! What may be slower than when it was recorded is waited for: a block that accesses a line which it saw written by a device begins when
//! that write is in memory. Events keep their order, so that a read follows the doorbell before it. A sleep lasts as long as it did.
//! Only the hart by whose instructions an event is told waits for it, and accesses to device registers go by the first port's attachment.

mod stream;

use std::collections::VecDeque;

use doorbell_attach::Attachment;
use doorbell_core::CoreStats;
use doorbell_memory::MemoryStats;
use doorbell_platform::map::{self, RegionId};
use doorbell_sim::memory::{DmaAccess, LINE_BYTES};
use doorbell_sim::ports::DmaRequest;
use doorbell_sim::{BlockEnd, Op, OpSource, Ps, Until};
use doorbell_trace::system::{DeviceEvent, DeviceReader, Dma, Happening, TraceError, TraceFile};

use crate::config::{ConfigError, MachineConfig};
use crate::timed::{Mode, Progress, Timing};
use stream::{DeviceAccess, HartStream};

/// Events that are looked at ahead of their time.
const AHEAD: usize = 256;

/// Why a trace cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum PlaybackError {
    /// The configuration does not fit.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The file cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
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
}

doorbell_sim::stats! {
    /// What was played of devices.
    pub struct PlayedStats {
        /// Frames that reached a device.
        frames_in,
        /// Their bytes, FCS included.
        frames_in_bytes,
        /// Frames that a device handed to the wire.
        frames_out,
        /// Their bytes, FCS included.
        frames_out_bytes,
        /// Bytes that devices read.
        dma_read_bytes,
        /// Bytes that devices wrote.
        dma_written_bytes,
        /// Blocks that waited for a device's write.
        waits,
        /// Picoseconds that they waited.
        waited_ps,
    }
}

/// A write of a device's that hart `hart` saw from instruction `visible` on.
struct Written {
    hart: u16,
    visible: u64,
    lines: (u64, u64),
    done: Ps,
}

/// What has been counted up to a moment.
#[derive(Clone, Debug)]
pub struct Played {
    /// The moment.
    pub now: Ps,
    /// Instructions of all harts.
    pub instructions: u64,
    /// Each core's cycles, asleep or not, and what it counted.
    pub cores: Vec<(u64, CoreStats)>,
    /// Caches and memory.
    pub memory: MemoryStats,
    /// Devices.
    pub devices: PlayedStats,
}

/// Plays a trace. See the module.
pub struct Player {
    timing: Timing,
    streams: Vec<HartStream>,
    progress: Vec<Progress>,
    /// Accesses to devices that have left their cores.
    accesses: Vec<Option<Op>>,
    events: DeviceReader,
    ahead: VecDeque<DeviceEvent>,
    /// The moment of the last event.
    event_at: Ps,
    written: VecDeque<Written>,
    attachments: Vec<Attachment>,
    stats: PlayedStats,
}

impl Player {
    /// A trace on a configuration with as many harts. Its caches know nothing yet.
    pub fn new(config: &MachineConfig, file: &TraceFile) -> Result<Player, PlaybackError> {
        let harts = file.description().harts;
        if config.platform.harts != u32::from(harts) {
            let problem = format!("the trace has {harts} harts; play it with platform.harts={harts}");
            return Err(ConfigError::new("platform.harts", problem).into());
        }
        let timing = Timing::for_sources(config)?;
        let stream = |hart: u16| {
            let clock = doorbell_sim::Clock::new(config.hart(hart.into()).core.frequency);
            Ok::<_, TraceError>(HartStream::new(file.hart(hart, 0)?, clock))
        };
        let mut attachments: Vec<Attachment> = (0..config.platform.nics as usize)
            .map(|port| config.port(port))
            .map(|port| Attachment::new(&port.attach, &port.pcie, 0))
            .collect();
        if attachments.is_empty() {
            attachments.push(Attachment::new(&config.attach, &config.pcie, 0));
        }
        attachments.iter_mut().for_each(|attachment| attachment.set_timed(true, Ps::ZERO));
        let mut player = Player {
            timing,
            streams: (0..harts).map(stream).collect::<Result<_, _>>()?,
            progress: (0..harts).map(|_| Progress::default()).collect(),
            accesses: vec![None; harts.into()],
            events: file.devices()?,
            ahead: VecDeque::new(),
            event_at: Ps::ZERO,
            written: VecDeque::new(),
            attachments,
            stats: PlayedStats::default(),
        };
        player.look_ahead()?;
        Ok(player)
    }

    /// Warming learns without saying when; detail says when.
    pub fn set_mode(&mut self, mode: Mode) {
        let now = self.now();
        let cycles: Vec<u64> = self.streams.iter().map(HartStream::cycle).collect();
        self.timing.change_mode_of_sources(mode, &cycles);
        let timed = mode == Mode::Detailed;
        self.attachments.iter_mut().for_each(|attachment| attachment.set_timed(timed, now));
    }

    /// What has been counted.
    pub fn played(&self) -> Played {
        let core = |hart: usize| (self.timing.core(hart).now(), self.timing.core(hart).stats());
        Played {
            now: self.now(),
            instructions: self.streams.iter().map(HartStream::instructions).sum(),
            cores: (0..self.streams.len()).map(core).collect(),
            memory: self.timing.memory.stats(),
            devices: self.stats.clone(),
        }
    }

    /// The time of the hart that has come furthest.
    fn now(&self) -> Ps {
        let times = (0..self.streams.len()).map(|hart| self.over(hart));
        times.max().unwrap_or(Ps::ZERO).max(self.event_at)
    }

    /// When the hart's next block begins.
    fn time(&self, hart: usize) -> Ps {
        self.timing.time_of(hart, self.streams[hart].cycle())
    }

    /// When its last one was over.
    fn over(&self, hart: usize) -> Ps {
        self.timing.time_of(hart, self.streams[hart].over())
    }

    /// Goes on until so many instructions of all harts have been played since the beginning, or there is no more: whether there is.
    pub fn run(&mut self, instructions: u64) -> Result<bool, PlaybackError> {
        loop {
            if self.streams.iter().map(HartStream::instructions).sum::<u64>() >= instructions {
                return Ok(true);
            }
            let ready = (0..self.streams.len())
                .filter(|hart| self.streams[*hart].is_ready() || self.accesses[*hart].is_some());
            let at =
                |hart: usize| if self.accesses[hart].is_some() { self.over(hart) } else { self.time(hart) };
            let first = ready.map(|hart| (at(hart), hart)).min();
            match (first, self.next_event()) {
                (Some((time, hart)), due) if due.is_none_or(|due| time < due) => self.step(hart)?,
                (_, Some(due)) => self.happen(due)?,
                _ => break,
            }
        }
        if let Some(event) = self.ahead.front() {
            let has = self.streams[usize::from(event.hart)].instructions();
            return Err(PlaybackError::Contradiction { hart: event.hart, after: event.after, has });
        }
        Ok(false)
    }

    /// When the next event happens, if its instruction has been played.
    fn next_event(&self) -> Option<Ps> {
        let event = self.ahead.front()?;
        let progress = self.progress.get(usize::from(event.hart))?;
        let anchor = progress.end_of(event.after)?;
        Some((anchor + event.since).max(self.event_at))
    }

    fn look_ahead(&mut self) -> Result<(), PlaybackError> {
        while self.ahead.len() < AHEAD {
            let Some(event) = self.events.next()? else { break };
            if usize::from(event.hart) >= self.streams.len() {
                return Err(PlaybackError::Contradiction { hart: event.hart, after: event.after, has: 0 });
            }
            self.ahead.push_back(event);
        }
        Ok(())
    }

    /// The hart's next block, or its access to a device.
    fn step(&mut self, hart: usize) -> Result<(), PlaybackError> {
        if let Some(op) = self.accesses[hart].take() {
            self.access(hart, &op);
            return Ok(());
        }
        // The hart is the earliest.
        let now = self.time(hart);
        while self.written.front().is_some_and(|write| write.done <= now) {
            self.written.pop_front();
        }
        if let Some(visible) = self.waits_for(hart, now) {
            if visible <= now {
                // The write has not even begun: its event comes first.
                let due = self.next_event().expect("what is waited for is an event to come");
                self.happen(due)?;
                return Ok(());
            }
            self.stats.waits += 1;
            self.stats.waited_ps += (visible - now).0;
            let cycle = self.timing.cycle_at(hart, visible);
            self.streams[hart].begin_at(cycle);
            return Ok(());
        }
        let until = Until { cycle: 0, instructions: 0 };
        let end = self.timing.block(hart, &mut self.streams[hart], &mut (), until);
        if let Some(error) = self.streams[hart].failure() {
            return Err(error.into());
        }
        if let BlockEnd::Stopped(DeviceAccess(op)) = end {
            if self.timing.mode() == Mode::Detailed {
                self.timing.begin_device(hart, &mut self.streams[hart], &(), op);
            }
            self.accesses[hart] = Some(op);
        }
        let (done, over) = (self.streams[hart].instructions(), self.over(hart));
        self.progress[hart].reached(done, over);
        Ok(())
    }

    /// An access leaves the core and comes back.
    fn access(&mut self, hart: usize, op: &Op) {
        let now = self.over(hart);
        let (bytes, attachment) = (u64::from(op.size), &mut self.attachments[0]);
        let region = map::lookup(op.phys.0).map(|(region, _)| region.id);
        let over = match region {
            Some(RegionId::PciIo | RegionId::PciMmio32 | RegionId::PciMmio64)
                if op.flags & Op::WRITES != 0 =>
            {
                attachment.register_write(now, bytes).0
            }
            Some(RegionId::PciIo | RegionId::PciMmio32 | RegionId::PciMmio64) => {
                let arrives = attachment.register_read(now, bytes);
                attachment.register_answer(arrives, bytes)
            }
            Some(RegionId::PciEcam) => now + attachment.config_latency() + attachment.config_latency(),
            _ => now,
        };
        let cycle = self.timing.cycle_at(hart, over);
        match self.timing.mode() {
            Mode::Detailed => self.timing.end_device(hart, &mut self.streams[hart], cycle),
            _ => self.streams[hart].set_cycle(cycle),
        }
    }

    /// Until when the hart's next block has to wait for a device's write that it saw: the present, if that is not known yet.
    fn waits_for(&self, hart: usize, now: Ps) -> Option<Ps> {
        let done = self.streams[hart].instructions();
        let seen = |of: u16, visible: u64| usize::from(of) == hart && visible <= done;
        let late = |write: &&Written| seen(write.hart, write.visible) && write.done > now;
        let mut waits = None;
        for write in self.written.iter().filter(late) {
            if self.touches(hart, write.lines) {
                waits = waits.max(Some(write.done));
            }
        }
        let begun = self.ahead.iter().take_while(|event| event.after <= done);
        let to_come = begun.filter_map(|event| match event.what {
            Happening::Dma(dma) if dma.write && seen(event.hart, dma.visible) => Some(lines(&dma)),
            _ => None,
        });
        let mut to_come = to_come.filter(|lines| self.touches(hart, *lines));
        if to_come.next().is_some() { Some(now) } else { waits }
    }

    fn touches(&self, hart: usize, (first, last): (u64, u64)) -> bool {
        let in_lines = |op: &Op| op.class.is_memory() && (first..=last).contains(&(op.phys.0 / LINE_BYTES));
        self.streams[hart].next_ops().iter().any(in_lines)
    }

    /// The next event happens.
    fn happen(&mut self, now: Ps) -> Result<(), PlaybackError> {
        self.event_at = now;
        let event = self.ahead.pop_front().expect("there is an event");
        match event.what {
            Happening::FrameIn { bytes } => {
                self.stats.frames_in += 1;
                self.stats.frames_in_bytes += u64::from(bytes);
            }
            Happening::FrameOut { bytes } => {
                self.stats.frames_out += 1;
                self.stats.frames_out_bytes += u64::from(bytes);
            }
            Happening::Dma(dma) => self.dma(&event, &dma, now),
            Happening::Register { .. } | Happening::Interrupt { .. } => {}
        }
        self.look_ahead()
    }

    fn dma(&mut self, event: &DeviceEvent, dma: &Dma, now: Ps) {
        let Dma { kind, write, addr, len, offset, .. } = *dma;
        let access = DmaAccess { device: event.device, kind, offset };
        if self.timing.mode() == Mode::Warming {
            self.timing.warm_dma(&DmaRequest { addr, len, kind, offset, token: 0 }, access, write);
        }
        let of = usize::from(event.device).min(self.attachments.len() - 1);
        let (attachment, memory) = (&mut self.attachments[of], Some(&mut self.timing.memory));
        if !write {
            self.stats.dma_read_bytes += u64::from(len);
            attachment.read(now, addr, len, access, memory);
            return;
        }
        self.stats.dma_written_bytes += u64::from(len);
        let done = attachment.write(now, addr, len, access, memory);
        self.written.push_back(Written { hart: event.hart, visible: dma.visible, lines: lines(dma), done });
    }
}

/// The first and the last line of a request.
fn lines(dma: &Dma) -> (u64, u64) {
    (dma.addr.0 / LINE_BYTES, (dma.addr.0 + u64::from(dma.len.max(1)) - 1) / LINE_BYTES)
}
