//! Replay of one trace: its harts, and its devices' events. The events run as recorded, in order and after
//! their instructions ([`order`](super::order)), or at another rate ([`rate_replay`](super::rate_replay)).

use std::collections::VecDeque;
use std::ops::Range;

use doorbell_sim::ports::DmaPurpose;
use doorbell_sim::{PhysAddr, Ps};
use doorbell_trace::system::{DeviceEvent, Dma, EventKind};

use super::PlaybackError;
use super::devices::{DeviceMap, Ports};
use super::order::EventOrder;
use super::pending::{Pending, WriteId};
use super::plan::{AtEnd, Input, PlannedTrace, TraceInput};
use super::rate_replay::{Next, RateReplay, anchor};
use super::rate_setup::RateSetup;
use super::relocation::Relocation;
use super::stats::PlayedStats;
use super::survey::Survey;
use crate::timed::Progress;

/// A pending event, and its write if it is one.
pub(super) type PendingEvent = (DeviceEvent, Option<WriteId>);

/// A trace being played.
pub(super) struct DeviceReplay {
    pub input: TraceInput,
    pub at_end: AtEnd,
    /// The first of its harts among all harts, and their number.
    pub first: usize,
    pub harts: usize,
    pub relocation: Relocation,
    pub devices: DeviceMap,
    /// Port of each of its devices.
    pub ports: Ports,
    /// Summary of its devices' activity.
    pub survey: Survey,
    /// Progress of each hart: time as a function of instructions, and instructions done.
    progress: Vec<Progress>,
    reached: Vec<u64>,
    /// Event order of each part of a merged trace, and the order that each hart belongs to.
    orders: Vec<EventOrder>,
    order_of: Vec<usize>,
    /// Set if frames arrive at another rate than recorded.
    setup: Option<RateSetup>,
    /// Time of the next event, and index of its order.
    upcoming: Option<(Ps, usize)>,
    pub pending: Pending,
    /// Per hart: instruction counts at which received frames become visible that the hart has not reached.
    unseen: Vec<VecDeque<u64>>,
    /// Per hart that never sleeps: positions of the sleeps recorded in the trace.
    skipped_sleeps: Vec<VecDeque<u64>>,
    /// Frames that arrived, as recorded, and were not written to memory: now, and the minimum since the last
    /// reset.
    pub unreceived: i64,
    pub fewest_unreceived: i64,
    /// Time of the last event.
    pub event_at: Ps,
    pub stats: PlayedStats,
    /// Number of restarts.
    pub rounds: u64,
}

impl DeviceReplay {
    /// Creates the replay of a trace whose harts start at number `first`.
    pub fn new(
        planned: &PlannedTrace,
        first: usize,
        mut relocation: Relocation,
        setup: Option<RateSetup>,
    ) -> Result<DeviceReplay, PlaybackError> {
        let (input, harts) = (planned.trace.clone(), usize::from(planned.trace.harts()));
        let (mut devices, mut survey) = (DeviceMap::default(), Survey::default());
        if let Input::Own(file) = &input.from {
            devices = DeviceMap::new(file.description());
            survey = Survey::gather(file, &mut devices, &mut relocation)?;
        }
        let mut replay = DeviceReplay {
            input,
            at_end: planned.at_end,
            first,
            harts,
            relocation,
            devices,
            ports: Ports::default(),
            survey,
            progress: Vec::new(),
            reached: Vec::new(),
            orders: Vec::new(),
            order_of: Vec::new(),
            setup,
            upcoming: None,
            pending: Pending::new(harts),
            unseen: Vec::new(),
            skipped_sleeps: Vec::new(),
            unreceived: 0,
            fewest_unreceived: 0,
            event_at: Ps::ZERO,
            stats: PlayedStats::default(),
            rounds: 0,
        };
        replay.begin(true)?;
        Ok(replay)
    }

    /// Starts at the trace's first event, at the planned pace if `at_pace`, else as recorded.
    pub fn begin(&mut self, at_pace: bool) -> Result<(), PlaybackError> {
        self.pending = Pending::new(self.harts);
        self.unseen = vec![VecDeque::new(); self.harts];
        self.skipped_sleeps = vec![VecDeque::new(); self.harts];
        self.progress = (0..self.harts).map(|_| Progress::default()).collect();
        self.reached = vec![0; self.harts];
        let file = self.input.file();
        let parts = EventOrder::harts(file, self.harts);
        let event_counts = &self.survey.events_of_hart;
        self.order_of =
            parts.iter().enumerate().flat_map(|(of, harts)| harts.clone().map(move |_| of)).collect();
        let order = |harts: Range<usize>| -> Result<EventOrder, PlaybackError> {
            let setup = self.setup.as_ref().filter(|_| at_pace);
            let rate_replay =
                setup.map(|setup| setup.create(&self.survey, self.at_end, self.event_at, &harts));
            let mut order = EventOrder::new(file, harts, event_counts)?;
            order.rate_replay = rate_replay.transpose()?.map(Box::new);
            Ok(order)
        };
        self.orders = parts.into_iter().map(order).collect::<Result<_, _>>()?;
        for of in 0..self.orders.len() {
            self.orders[of].event_at = self.event_at;
            self.look_ahead(of)?;
            self.refresh(of);
        }
        Ok(())
    }

    /// Restarts the trace at `now`.
    pub fn start_over(&mut self, now: Ps) -> Result<(), PlaybackError> {
        self.rounds += 1;
        self.event_at = now;
        self.begin(true)?;
        self.progress.iter_mut().for_each(|progress| progress.reached(0, now));
        (0..self.orders.len()).for_each(|of| self.refresh(of));
        Ok(())
    }

    /// Whether no event is left. Called when the harts have ended; stops frame arrivals.
    pub fn is_over(&mut self) -> bool {
        self.stop(|_| false);
        let is_over = !self.is_paced() || self.upcoming.is_none();
        is_over && self.first_pending().is_none()
    }

    /// Stops frame arrivals at the devices of harts that have all ended (rate-controlled replay).
    pub fn stop(&mut self, is_active: impl Fn(usize) -> bool) {
        for of in 0..self.orders.len() {
            if self.orders[of].stop(&is_active) {
                self.refresh(of);
            }
        }
    }

    /// Whether events run at another rate than recorded.
    #[inline]
    pub fn is_paced(&self) -> bool {
        self.orders.iter().any(|order| order.rate_replay.is_some())
    }

    /// The rate-controlled replay that a hart belongs to.
    #[inline]
    pub fn rate_replay(&mut self, hart: usize) -> Option<&mut RateReplay> {
        self.orders[self.order_of[hart]].rate_replay.as_deref_mut()
    }

    /// The rate-controlled replays of all parts of a merged trace.
    pub fn rate_replays(&self) -> impl Iterator<Item = &RateReplay> {
        self.orders.iter().filter_map(|order| order.rate_replay.as_deref())
    }

    /// Clears the latency histograms.
    pub fn clear_latencies(&mut self) {
        self.orders
            .iter_mut()
            .filter_map(|order| order.rate_replay.as_mut())
            .for_each(|rate_replay| rate_replay.clear_latencies());
    }

    /// The first event that waits for its instruction to be played.
    fn first_pending(&self) -> Option<&DeviceEvent> {
        self.orders.iter().find_map(EventOrder::first_pending)
    }

    /// Determines the next event of one order.
    fn refresh(&mut self, of: usize) {
        let (progress, reached) = (&self.progress, &self.reached);
        let anchor = |event: &DeviceEvent| anchor(progress, reached, event);
        let order = &mut self.orders[of];
        let as_recorded = |(event, _): &PendingEvent| {
            let skipped_sleeps = &mut self.skipped_sleeps[usize::from(event.hart)];
            while skipped_sleeps.front().is_some_and(|position| *position < event.after) {
                skipped_sleeps.pop_front();
            }
            let in_sleep = skipped_sleeps.front() == Some(&event.after);
            Some((anchor(event)? + if in_sleep { Ps::ZERO } else { event.since }, Next::Software))
        };
        let upcoming = match &order.rate_replay {
            Some(rate_replay) => rate_replay.next(anchor),
            None => order.ahead.front().and_then(as_recorded),
        };
        order.upcoming = upcoming.map(|(due, next)| (due.max(order.event_at), next));
        let orders = self.orders.iter().enumerate();
        self.upcoming = orders.filter_map(|(of, order)| order.upcoming.map(|(due, _)| (due, of))).min();
    }

    /// Instruction count up to which no block of the hart waits for a write, and none triggers a read or an
    /// event.
    pub fn unchecked_until(&self, hart: usize) -> u64 {
        match self.orders[self.order_of[hart]].unchecked_until(hart) {
            Some(end) => end.min(self.pending.first_visible(hart)),
            None => 0,
        }
    }

    /// Records the end of a block that triggers nothing.
    #[inline]
    pub fn end_block(&mut self, hart: usize, done: u64, end: Ps) {
        self.progress[hart].reached(done, end);
    }

    /// Records that a hart has done `done` instructions, and updates the events.
    #[inline]
    pub fn reached(&mut self, hart: usize, done: u64, end: Ps) -> Result<(), PlaybackError> {
        self.progress[hart].reached(done, end);
        self.reached[hart] = done;
        self.take_frames(hart);
        let of = self.order_of[hart];
        if self.orders[of].may_reach_unread(hart, done) {
            self.look_ahead(of)?;
        }
        if self.orders[of].waits_for(hart, done) {
            self.refresh(of);
        }
        Ok(())
    }

    /// Records a sleep at instruction `done` that is not replayed. Events recorded during it follow their
    /// instructions without delay.
    pub fn skip_sleep(&mut self, hart: usize, done: u64) {
        self.skipped_sleeps[hart].push_back(done);
        self.refresh(self.order_of[hart]);
    }

    /// Counts the received frames whose visible position the hart has reached.
    #[inline]
    fn take_frames(&mut self, hart: usize) {
        while self.unseen[hart].front().is_some_and(|visible| *visible <= self.reached[hart]) {
            self.unseen[hart].pop_front();
            self.stats.frames_taken += 1;
        }
    }

    /// Reads events of an order ahead, as far as needed.
    fn look_ahead(&mut self, of: usize) -> Result<(), PlaybackError> {
        while !self.orders[of].has_read_enough(&self.reached) {
            let Some(event) = self.read(of)? else { return Ok(()) };
            self.orders[of].push(event);
        }
        Ok(())
    }

    /// Reads the next event of an order and relocates its address.
    fn read(&mut self, of: usize) -> Result<Option<PendingEvent>, PlaybackError> {
        let executed = self.input.file().map_or(&[][..], |file| &file.counts().instructions);
        let is_sound = |event: &DeviceEvent| match find_contradiction(event, executed) {
            Some((hart, after, has)) => Err(PlaybackError::Contradiction { hart, after, has }),
            None => Ok(()),
        };
        let Some(mut event) = self.orders[of].read(is_sound)? else { return Ok(None) };
        let EventKind::Dma(dma) = &mut event.what else { return Ok(Some((event, None))) };
        dma.addr = self.relocation.relocate(dma.addr);
        if self.relocation.is_full() {
            return Err(PlaybackError::Memory);
        }
        let Dma { visible, addr, len, .. } = *dma;
        if dma.purpose == DmaPurpose::RxData && dma.offset == 0 {
            self.unseen[usize::from(event.hart)].push_back(visible);
            self.take_frames(event.hart.into());
        }
        let id = dma.is_write().then(|| self.pending.expect_write(event.hart, visible, addr, len));
        Ok(Some((event, id)))
    }

    /// Time of the next event and the order that it belongs to, if known.
    #[inline]
    pub fn next_event(&self) -> Option<(Ps, usize)> {
        self.upcoming
    }

    /// The next event of the order that a hart belongs to.
    pub fn next_event_of(&self, hart: usize) -> Option<(Ps, usize)> {
        let of = self.order_of[hart];
        self.orders[of].upcoming.map(|(due, _)| (due, of))
    }

    /// Returns an error if an event waits for an instruction that the trace does not have.
    pub fn contradiction(&self) -> Option<PlaybackError> {
        let event = self.first_pending()?;
        let has = self.reached[usize::from(event.hart)];
        Some(PlaybackError::Contradiction { hart: event.hart, after: event.after, has })
    }

    /// Takes the next event of an order at `now`. Returns `None` for a frame arrival.
    pub fn take(&mut self, of: usize, now: Ps) -> Result<Option<PendingEvent>, PlaybackError> {
        let order = &mut self.orders[of];
        self.event_at = self.event_at.max(now);
        order.event_at = now;
        let event = match &mut order.rate_replay {
            Some(rate_replay) => {
                let (_, next) = order.upcoming.expect("an event is due");
                rate_replay.take(next, now, &mut self.stats)
            }
            None => order.ahead.pop_front(),
        };
        self.look_ahead(of)?;
        self.refresh(of);
        Ok(event)
    }

    /// Records that a request completes at `done`.
    pub fn done(&mut self, (event, id): &PendingEvent, dma: &Dma, done: Ps) {
        let of = self.order_of[usize::from(event.hart)];
        let order = &mut self.orders[of];
        if let Some(id) = id {
            let as_recorded = Ps(order.event_at.0.saturating_add(dma.took.0));
            self.pending.start(*id, done, as_recorded);
        }
        if let Some(rate_replay) = &mut order.rate_replay {
            rate_replay.done(event, dma, done);
            self.refresh(of);
        }
    }

    /// Records that a hart's store to a device, instruction number `position`, arrives at `arrives`.
    pub fn stored(&mut self, hart: usize, position: u64, arrives: Ps) {
        if let Some(rate_replay) = self.rate_replay(hart) {
            rate_replay.store(hart as u16, position, arrives);
            self.refresh(self.order_of[hart]);
        }
    }

    /// Tries to break a deadlock. Returns whether an event can run now.
    pub fn force_progress(&mut self) -> bool {
        let reached = &self.reached;
        let is_behind = |event: &DeviceEvent| event.after <= reached[usize::from(event.hart)];
        let relaxed = self.orders.iter_mut().position(|order| {
            let at = order.event_at;
            order.rate_replay.as_mut().is_some_and(|rate_replay| rate_replay.force_progress(at, &is_behind))
        });
        relaxed.inspect(|of| self.refresh(*of)).is_some() && self.upcoming.is_some()
    }

    /// Counts an event.
    pub fn count(&mut self, event: &DeviceEvent) {
        let stats = &mut self.stats;
        match event.what {
            EventKind::FrameIn { bytes } => {
                stats.frames_offered += 1;
                stats.frames_in += 1;
                stats.frames_in_bytes += u64::from(bytes);
                self.unreceived += 1;
            }
            EventKind::FrameOut { bytes } => {
                stats.frames_out += 1;
                stats.frames_out_bytes += u64::from(bytes);
            }
            EventKind::Dma(dma) if dma.is_write() => {
                stats.dma_written_bytes += u64::from(dma.len);
                self.unreceived -= i64::from(dma.purpose == DmaPurpose::RxData && dma.offset == 0);
                self.fewest_unreceived = self.fewest_unreceived.min(self.unreceived);
            }
            EventKind::Dma(dma) => stats.dma_read_bytes += u64::from(dma.len),
            EventKind::Register { .. } | EventKind::Interrupt { .. } => {}
        }
    }

    /// The target of a device access. Its address is not relocated, as it is not in memory.
    pub fn target(&self, hart: usize, addr: PhysAddr) -> super::devices::Target {
        self.devices.target(hart, addr.0)
    }
}

/// Finds the first anchor of an event beyond the executed instructions: hart, instruction, and the hart's
/// total.
fn find_contradiction(event: &DeviceEvent, executed: &[u64]) -> Option<(u16, u64, u64)> {
    let has = |hart: u16| executed.get(usize::from(hart)).copied();
    let moment = event.anchors().find(|(hart, after)| has(*hart).is_none_or(|has| *after > has));
    moment.map(|(hart, after)| (hart, after, has(hart).unwrap_or(0)))
}
