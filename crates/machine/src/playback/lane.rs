//! One of the traces that are played: its harts' place among all, and its devices' events, which happen as they were recorded, after
//! their instructions and in their order.

use std::collections::VecDeque;

use doorbell_sim::{PhysAddr, Ps};
use doorbell_trace::system::{DeviceEvent, DeviceReader, Dma, Happening};

use super::PlaybackError;
use super::devices::DeviceMap;
use super::pending::{Pending, WriteId};
use super::place::{ACCESS_MAX, Place};
use super::plan::{AtEnd, Input, PlannedTrace, TraceInput};
use super::stats::PlayedStats;
use crate::timed::Progress;

/// An event to come, and the write that it is.
pub(super) type ToCome = (DeviceEvent, Option<WriteId>);

/// See the module.
pub(super) struct Lane {
    pub input: TraceInput,
    pub at_end: AtEnd,
    /// The first of its harts among all, and how many.
    pub first: usize,
    pub harts: usize,
    pub place: Place,
    pub devices: DeviceMap,
    /// How far each hart has come: when, and after how many instructions.
    progress: Vec<Progress>,
    reached: Vec<u64>,
    events: Option<DeviceReader>,
    /// Events whose instructions have been played, and the first whose have not.
    ahead: VecDeque<ToCome>,
    pub pending: Pending,
    /// The moment of the last event.
    pub event_at: Ps,
    pub stats: PlayedStats,
    /// How often it has started over.
    pub rounds: u64,
}

impl Lane {
    /// Of a trace, whose harts follow `first`.
    pub fn new(planned: &PlannedTrace, first: usize, place: Place) -> Result<Lane, PlaybackError> {
        let (input, harts) = (planned.trace.clone(), usize::from(planned.trace.harts()));
        let mut devices = DeviceMap::default();
        if let Input::Own(file) = &input.0 {
            devices = DeviceMap::new(&file.description().isa);
            let mut events = file.devices()?;
            while let Some(event) = events.next()? {
                devices.note(&event);
            }
        }
        let mut lane = Lane {
            input,
            at_end: planned.at_end,
            first,
            harts,
            place,
            devices,
            progress: Vec::new(),
            reached: Vec::new(),
            events: None,
            ahead: VecDeque::new(),
            pending: Pending::new(harts),
            event_at: Ps::ZERO,
            stats: PlayedStats::default(),
            rounds: 0,
        };
        lane.begin()?;
        Ok(lane)
    }

    /// From the trace's first event on.
    fn begin(&mut self) -> Result<(), PlaybackError> {
        self.progress = (0..self.harts).map(|_| Progress::default()).collect();
        self.reached = vec![0; self.harts];
        self.events = match &self.input.0 {
            Input::Own(file) => Some(file.devices()?),
            Input::ChampSim(_) => None,
        };
        self.look_ahead()
    }

    /// The trace starts over at `now`.
    pub fn start_over(&mut self, now: Ps) -> Result<(), PlaybackError> {
        self.rounds += 1;
        self.event_at = now;
        self.begin()?;
        self.progress.iter_mut().for_each(|progress| progress.reached(0, now));
        Ok(())
    }

    /// Whether no event is left.
    pub fn is_over(&self) -> bool {
        self.ahead.is_empty()
    }

    /// Its hart has come behind so many instructions.
    #[inline]
    pub fn reached(&mut self, hart: usize, done: u64, over: Ps) -> Result<(), PlaybackError> {
        self.progress[hart].reached(done, over);
        self.reached[hart] = done;
        match self.ahead.back() {
            Some((event, _)) if !self.is_behind(event) => Ok(()),
            None => Ok(()),
            Some(_) => self.look_ahead(),
        }
    }

    /// Whether an event's instruction has been played.
    #[inline]
    fn is_behind(&self, event: &DeviceEvent) -> bool {
        event.after <= self.reached[usize::from(event.hart)]
    }

    /// Reads events up to the first whose instruction has not been played.
    fn look_ahead(&mut self) -> Result<(), PlaybackError> {
        while self.ahead.back().is_none_or(|(event, _)| self.is_behind(event)) {
            let Some(event) = self.read()? else { break };
            self.ahead.push_back(event);
        }
        Ok(())
    }

    /// The next event, moved to where the trace's memory is.
    fn read(&mut self) -> Result<Option<ToCome>, PlaybackError> {
        let Some(reader) = &mut self.events else { return Ok(None) };
        let Some(mut event) = reader.next()? else { return Ok(None) };
        if usize::from(event.hart) >= self.harts {
            return Err(PlaybackError::Contradiction { hart: event.hart, after: event.after, has: 0 });
        }
        let Happening::Dma(dma) = &mut event.what else { return Ok(Some((event, None))) };
        if u64::from(dma.len) > ACCESS_MAX {
            return Err(PlaybackError::Request { device: event.device, bytes: dma.len });
        }
        dma.addr = self.place.of(dma.addr);
        if self.place.is_full() {
            return Err(PlaybackError::Memory);
        }
        let Dma { write, visible, addr, len, .. } = *dma;
        let id = write.then(|| self.pending.expect_write(event.hart, visible, addr, len));
        Ok(Some((event, id)))
    }

    /// When the next event happens, if its instruction has been played.
    #[inline]
    pub fn next_event(&self) -> Option<Ps> {
        let (event, _) = self.ahead.front()?;
        if !self.is_behind(event) {
            return None;
        }
        let anchor = self.progress[usize::from(event.hart)].end_of(event.after)?;
        Some((anchor + event.since).max(self.event_at))
    }

    /// What no instruction that is played comes to, if there is anything: an event that waits for one that there is not.
    pub fn contradiction(&self) -> Option<PlaybackError> {
        let (event, _) = self.ahead.front()?;
        let has = self.reached[usize::from(event.hart)];
        Some(PlaybackError::Contradiction { hart: event.hart, after: event.after, has })
    }

    /// The next event happens.
    pub fn take(&mut self, now: Ps) -> Result<ToCome, PlaybackError> {
        self.event_at = now;
        let event = self.ahead.pop_front().expect("there is an event");
        self.look_ahead()?;
        Ok(event)
    }

    /// Counts what happens.
    pub fn count(&mut self, event: &DeviceEvent) {
        let stats = &mut self.stats;
        match event.what {
            Happening::FrameIn { bytes } => {
                stats.frames_in += 1;
                stats.frames_in_bytes += u64::from(bytes);
            }
            Happening::FrameOut { bytes } => {
                stats.frames_out += 1;
                stats.frames_out_bytes += u64::from(bytes);
            }
            Happening::Dma(Dma { write: true, len, .. }) => stats.dma_written_bytes += u64::from(len),
            Happening::Dma(Dma { len, .. }) => stats.dma_read_bytes += u64::from(len),
            Happening::Register { .. } | Happening::Interrupt { .. } => {}
        }
    }

    /// Where an address of the trace's lies: of its devices' accesses, which are no memory's, nowhere else.
    pub fn target(&self, addr: PhysAddr) -> super::devices::Target {
        self.devices.target(addr.0)
    }
}
