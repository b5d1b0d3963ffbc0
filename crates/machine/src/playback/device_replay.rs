//! One of the traces that are played: its harts' relocation among all, and its devices' events. They run_event as they were recorded, after
//! their instructions and in their order ([`order`](super::order)), unless another pace was asked for ([`rate_replay`](super::rate_replay)).

use std::collections::VecDeque;
use std::ops::Range;

use doorbell_sim::ports::DmaKind;
use doorbell_sim::{PhysAddr, Ps};
use doorbell_trace::system::{DeviceEvent, Dma, EventKind};

use super::PlaybackError;
use super::devices::{DeviceMap, Ports};
use super::order::Order;
use super::pending::{Pending, WriteId};
use super::plan::{AtEnd, Input, PlannedTrace, TraceInput};
use super::rate_replay::{Next, RateReplay, anchor};
use super::rate_setup::RateSetup;
use super::relocation::Relocation;
use super::stats::PlayedStats;
use super::survey::Survey;
use crate::timed::Progress;

/// An event to come, and the write that it is.
pub(super) type PendingEvent = (DeviceEvent, Option<WriteId>);

/// See the module.
pub(super) struct DeviceReplay {
    pub input: TraceInput,
    pub at_end: AtEnd,
    /// The first of its harts among all, and how many.
    pub first: usize,
    pub harts: usize,
    pub relocation: Relocation,
    pub devices: DeviceMap,
    /// Which port each of its devices is at.
    pub ports: Ports,
    /// What its devices do on the whole.
    pub survey: Survey,
    /// How far each hart has come: when, and after how many instructions.
    progress: Vec<Progress>,
    reached: Vec<u64>,
    /// Its events: of each trace that it was merged of, in their order, and which of them each hart's are.
    orders: Vec<Order>,
    order_of: Vec<usize>,
    /// The pace that was asked for, if it is another than the recorded one.
    setup: Option<RateSetup>,
    /// When the next event happens, and in which order.
    upcoming: Option<(Ps, usize)>,
    pub pending: Pending,
    /// Of each hart, behind which instructions it sees received frames that it has not come to.
    unseen: Vec<VecDeque<u64>>,
    /// Of each hart that is to stay awake, behind which instructions it slept when it was recorded.
    skipped_sleeps: Vec<VecDeque<u64>>,
    /// Frames that arrived, as recorded, and no DMA brought to memory: now, and the fewest since somebody looked.
    pub unreceived: i64,
    pub fewest_unreceived: i64,
    /// The moment of the last event.
    pub event_at: Ps,
    pub stats: PlayedStats,
    /// How often it has started over.
    pub rounds: u64,
}

impl DeviceReplay {
    /// Of a trace, whose harts follow `first`.
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
            survey = Survey::of(file, &mut devices, &mut relocation)?;
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

    /// From the trace's first event on; at the pace that was asked for, or as recorded.
    fn begin(&mut self, at_pace: bool) -> Result<(), PlaybackError> {
        self.pending = Pending::new(self.harts);
        self.unseen = vec![VecDeque::new(); self.harts];
        self.skipped_sleeps = vec![VecDeque::new(); self.harts];
        self.progress = (0..self.harts).map(|_| Progress::default()).collect();
        self.reached = vec![0; self.harts];
        let file = self.input.file();
        let parts = Order::harts(file, self.harts);
        let event_counts = &self.survey.events_of_hart;
        self.order_of =
            parts.iter().enumerate().flat_map(|(of, harts)| harts.clone().map(move |_| of)).collect();
        let order = |harts: Range<usize>| -> Result<Order, PlaybackError> {
            let setup = self.setup.as_ref().filter(|_| at_pace);
            let rate_replay = setup.map(|setup| setup.of(&self.survey, self.at_end, self.event_at, &harts));
            let mut order = Order::new(file, harts, event_counts)?;
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

    /// Until it starts over, the trace goes as it was recorded.
    pub fn replay_as_recorded(&mut self) -> Result<(), PlaybackError> {
        self.begin(false)
    }

    /// The trace starts over at `now`.
    pub fn start_over(&mut self, now: Ps) -> Result<(), PlaybackError> {
        self.rounds += 1;
        self.event_at = now;
        self.begin(true)?;
        self.progress.iter_mut().for_each(|progress| progress.reached(0, now));
        (0..self.orders.len()).for_each(|of| self.refresh(of));
        Ok(())
    }

    /// Whether no event is left, now that the harts have ended: no more frames arrive.
    pub fn is_over(&mut self) -> bool {
        self.stop(|_| false);
        let is_over = !self.is_paced() || self.upcoming.is_none();
        is_over && self.first_pending().is_none()
    }

    /// At another pace, no more frames arrive at devices of harts of which none goes on.
    pub fn stop(&mut self, goes_on: impl Fn(usize) -> bool) {
        for of in 0..self.orders.len() {
            if self.orders[of].stop(&goes_on) {
                self.refresh(of);
            }
        }
    }

    /// Whether events go at another pace than they did.
    #[inline]
    pub fn is_paced(&self) -> bool {
        self.orders.iter().any(|order| order.rate_replay.is_some())
    }

    /// How a hart's events go at another pace.
    #[inline]
    pub fn rate_replay(&mut self, hart: usize) -> Option<&mut RateReplay> {
        self.orders[self.order_of[hart]].rate_replay.as_deref_mut()
    }

    /// The same of each trace that it was merged of.
    pub fn rate_replays(&self) -> impl Iterator<Item = &RateReplay> {
        self.orders.iter().filter_map(|order| order.rate_replay.as_deref())
    }

    /// Latencies are kept anew.
    pub fn clear_latencies(&mut self) {
        self.orders
            .iter_mut()
            .filter_map(|order| order.rate_replay.as_mut())
            .for_each(|rate_replay| rate_replay.clear_latencies());
    }

    /// The first event that its instruction has to be played for.
    fn first_pending(&self) -> Option<&DeviceEvent> {
        self.orders.iter().find_map(Order::first_pending)
    }

    /// Finds out what happens next in one of its orders.
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

    /// Before its hart has so many instructions behind it, none of its blocks waits for a write, and nothing is read or follows from them.
    pub fn unchecked_until(&self, hart: usize) -> u64 {
        match self.orders[self.order_of[hart]].unchecked_until(hart) {
            Some(end) => end.min(self.pending.first_visible(hart)),
            None => 0,
        }
    }

    /// A block of its hart is over, which nothing follows from.
    #[inline]
    pub fn end_block(&mut self, hart: usize, done: u64, over: Ps) {
        self.progress[hart].reached(done, over);
    }

    /// Its hart has come behind so many instructions.
    #[inline]
    pub fn reached(&mut self, hart: usize, done: u64, over: Ps) -> Result<(), PlaybackError> {
        self.progress[hart].reached(done, over);
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

    /// Behind so many instructions its hart slept, and does not sleep now: what happened meanwhile comes when they are done.
    pub fn skip_sleep(&mut self, hart: usize, done: u64) {
        self.skipped_sleeps[hart].push_back(done);
        self.refresh(self.order_of[hart]);
    }

    /// Its hart takes the received frames that it has come to.
    #[inline]
    fn take_frames(&mut self, hart: usize) {
        while self.unseen[hart].front().is_some_and(|visible| *visible <= self.reached[hart]) {
            self.unseen[hart].pop_front();
            self.stats.frames_taken += 1;
        }
    }

    /// Reads as many of an order's events as have to be known.
    fn look_ahead(&mut self, of: usize) -> Result<(), PlaybackError> {
        while !self.orders[of].has_read_enough(&self.reached) {
            let Some(event) = self.read(of)? else { return Ok(()) };
            self.orders[of].push(event);
        }
        Ok(())
    }

    /// An order's next event, moved to where the trace's memory is.
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
        let Dma { write, visible, addr, len, .. } = *dma;
        if dma.kind == DmaKind::RxData && dma.offset == 0 {
            self.unseen[usize::from(event.hart)].push_back(visible);
            self.take_frames(event.hart.into());
        }
        let id = write.then(|| self.pending.expect_write(event.hart, visible, addr, len));
        Ok(Some((event, id)))
    }

    /// When the next event happens, if it is known, and in which of its orders.
    #[inline]
    pub fn next_event(&self) -> Option<(Ps, usize)> {
        self.upcoming
    }

    /// The same of the order that a hart's events are in.
    pub fn next_event_of(&self, hart: usize) -> Option<(Ps, usize)> {
        let of = self.order_of[hart];
        self.orders[of].upcoming.map(|(due, _)| (due, of))
    }

    /// What no instruction that is played comes to, if there is anything: an event that waits for one that there is not.
    pub fn contradiction(&self) -> Option<PlaybackError> {
        let event = self.first_pending()?;
        let has = self.reached[usize::from(event.hart)];
        Some(PlaybackError::Contradiction { hart: event.hart, after: event.after, has })
    }

    /// The next event of an order happens. None, if it is a frame that arrives.
    pub fn take(&mut self, of: usize, now: Ps) -> Result<Option<PendingEvent>, PlaybackError> {
        let order = &mut self.orders[of];
        self.event_at = self.event_at.max(now);
        order.event_at = now;
        let event = match &mut order.rate_replay {
            Some(rate_replay) => {
                let (_, next) = order.upcoming.expect("there is an event");
                rate_replay.take(next, now, &mut self.stats)
            }
            None => order.ahead.pop_front(),
        };
        self.look_ahead(of)?;
        self.refresh(of);
        Ok(event)
    }

    /// A request that happened is done then.
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

    /// A hart's store to a device, its instruction of that number, arrives then.
    pub fn stored(&mut self, hart: usize, position: u64, arrives: Ps) {
        if let Some(rate_replay) = self.rate_replay(hart) {
            rate_replay.store(hart as u16, position, arrives);
            self.refresh(self.order_of[hart]);
        }
    }

    /// Nothing goes on: whether it does now.
    pub fn force_progress(&mut self) -> bool {
        let reached = &self.reached;
        let is_behind = |event: &DeviceEvent| event.after <= reached[usize::from(event.hart)];
        let relaxed = self.orders.iter_mut().position(|order| {
            let at = order.event_at;
            order.rate_replay.as_mut().is_some_and(|rate_replay| rate_replay.force_progress(at, &is_behind))
        });
        relaxed.inspect(|of| self.refresh(*of)).is_some() && self.upcoming.is_some()
    }

    /// Counts what happens.
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
            EventKind::Dma(Dma { write: true, len, kind, offset, .. }) => {
                stats.dma_written_bytes += u64::from(len);
                self.unreceived -= i64::from(kind == DmaKind::RxData && offset == 0);
                self.fewest_unreceived = self.fewest_unreceived.min(self.unreceived);
            }
            EventKind::Dma(Dma { len, .. }) => stats.dma_read_bytes += u64::from(len),
            EventKind::Register { .. } | EventKind::Interrupt { .. } => {}
        }
    }

    /// Where an address of the trace's lies: of its devices' accesses, which are no memory's, nowhere else.
    pub fn target(&self, hart: usize, addr: PhysAddr) -> super::devices::Target {
        self.devices.target(hart, addr.0)
    }
}

/// The first instruction that an event names and no hart executed: whose, which, and how many there are.
fn find_contradiction(event: &DeviceEvent, executed: &[u64]) -> Option<(u16, u64, u64)> {
    let has = |hart: u16| executed.get(usize::from(hart)).copied();
    let moment = event.anchors().find(|(hart, after)| has(*hart).is_none_or(|has| *after > has));
    moment.map(|(hart, after)| (hart, after, has(hart).unwrap_or(0)))
}
