//! Frames that come at another pace than they did: at a rate, or behind answers. What devices do is taken apart into stages, each in its
//! own order; what ties them together is not when things happened but what has to be there before.
//!
//! | What | follows |
//! |---|---|
//! | stores to registers | the instructions that made them, by as long as the attachment takes; the instructions executed until they arrived, if that is not told |
//! | a descriptor fetch | the store of the tail that gives the last of its descriptors |
//! | a frame's data in memory | its arrival, and the fetch of its descriptor |
//! | its descriptor's write-back, and the interrupt | what the device did before them on the receive side |
//! | a frame's data read | the fetch of its descriptor |
//! | a frame handed to the wire | its data, and the frame before it on the wire |
//! | a transmit descriptor's write-back | the data that were read before it |
//!
//! Between two that stand behind each other in a frame and were told by the same instruction, the device's own time is kept. A sleep that an interrupt
//! ended ends as long after that interrupt as it did. Each frame takes one receive descriptor; a frame that arrives while none is free is
//! dropped, as there is no FIFO before the ring.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use doorbell_loadgen::Latency;
use doorbell_sim::Ps;
use doorbell_sim::ports::DmaKind;
use doorbell_trace::system::{DeviceEvent, Dma, EventKind, StoreOrigin};
use doorbell_wire::LinkConfig;

use super::device_replay::PendingEvent;
use super::frame_arrivals::FrameArrivals;
use super::pairs::Answers;
use super::port::{Item, Port, Stage};
use super::ring::{self, Direction};
use super::stats::PlayedStats;
use super::survey::Survey;
use crate::timed::Progress;

/// An interrupt that may end a sleep.
struct Wake {
    hart: u16,
    after: u64,
    since: Ps,
    at: Option<Ps>,
}

/// A report of a received frame that its hart has not come to.
struct Report {
    hart: u16,
    visible: u64,
    number: u64,
}

/// When a hart that slept goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wakeup {
    /// After as long as it slept.
    AsRecorded,
    /// Then.
    At(Ps),
    /// When an interrupt has come that is still to come.
    NotYet,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Next {
    Software,
    Stage(usize, Stage),
    Arrival(usize),
}

/// See the module.
pub(super) struct RateReplay {
    ports: Vec<Port>,
    software: VecDeque<Item>,
    software_at: Ps,
    /// Stores to devices that have left their harts, each known by hart and instruction, and when they arrive.
    stores: BTreeMap<(u16, u64), Ps>,
    has_store_origins: bool,
    wakes: VecDeque<Wake>,
    wakes_removed: u64,
    reports: VecDeque<Report>,
    /// Reports that have been told, that harts have come to, and when those on their direction were in memory.
    reports_pushed: u64,
    pub reports_seen: u64,
    reports_done: VecDeque<Ps>,
    reports_done_removed: u64,
    answers: Answers,
    /// None where it is not known which frame a sent one answers.
    pub latency: Option<Latency>,
    /// No more frames arrive: the harts have ended.
    pub stopped: bool,
}

impl RateReplay {
    /// Of these harts and their devices.
    pub fn new(
        survey: &Survey,
        harts: &Range<usize>,
        link: &mut dyn FnMut(u8) -> (LinkConfig, Option<FrameArrivals>),
    ) -> RateReplay {
        let own = survey.devices.iter().filter(|(_, of)| of.is_driven_by(harts));
        let ports = own.map(|(device, of)| {
            let (link, arriving) = link(*device);
            Port::new(*device, of, &link, arriving)
        });
        RateReplay {
            ports: ports.collect(),
            software: VecDeque::new(),
            software_at: Ps::ZERO,
            stores: BTreeMap::new(),
            has_store_origins: survey.has_store_origins,
            wakes: VecDeque::new(),
            wakes_removed: 0,
            reports: VecDeque::new(),
            reports_pushed: 0,
            reports_seen: 0,
            reports_done: VecDeque::new(),
            reports_done_removed: 0,
            answers: Answers::new(survey, survey.has_all_traffic(harts)),
            latency: (survey.has_latency() && survey.has_all_traffic(harts)).then(Latency::default),
            stopped: false,
        }
    }

    /// Whether an address is in a receive ring.
    pub fn in_receive_ring(&self, addr: u64) -> bool {
        self.ports.iter().any(|port| port.ring.contains(&addr))
    }

    /// Whether a frame that has arrived, or is about to, has not been read from the file.
    pub fn needs_frames(&self) -> bool {
        !self.stopped && self.ports.iter().any(Port::needs_frames)
    }

    /// Takes an event that was read from the file.
    pub fn push(&mut self, (event, id): PendingEvent) {
        let place = self.ports.iter().position(|port| port.device == event.device).expect("it was surveyed");
        let port = &mut self.ports[place];
        match event.what {
            EventKind::Register { .. } => {
                let posted = ring::tail(&event.what).map(|tail| port.tail(tail));
                self.software.push_back(Item { posted, ..Item::of(event, id) });
            }
            EventKind::FrameIn { bytes } => port.sizes.push_back(bytes),
            EventKind::FrameOut { .. } => port.push_frame_out(event),
            EventKind::Interrupt { raised: true } => {
                let DeviceEvent { hart, after, since, .. } = event;
                let wake = self.wakes_removed + self.wakes.len() as u64;
                self.wakes.push_back(Wake { hart, after, since, at: None });
                port.push_interrupt(event, wake);
            }
            EventKind::Interrupt { raised: false } => {}
            EventKind::Dma(dma) => {
                self.answers.push(&dma);
                if dma.kind == DmaKind::RxDescriptorWriteback {
                    let (hart, visible, number) = (event.hart, dma.visible, self.reports_pushed);
                    self.reports.push_back(Report { hart, visible, number });
                    self.reports_pushed += 1;
                }
                if let Some(item) = port.push_dma(event, &dma, id) {
                    self.software.push_back(item);
                }
            }
        }
    }

    /// What happens next, and when. `anchor` says when an instruction was over.
    pub fn next(&self, anchor: impl Fn(&DeviceEvent) -> Option<Ps>) -> Option<(Ps, Next)> {
        let software = self.software.front().and_then(|item| {
            let at = match item.event.what.stored() {
                None => anchor(&item.event)? + item.event.since,
                Some(StoreOrigin { hart, after }) => match self.stores.get(&(hart, after)) {
                    Some(arrives) => *arrives,
                    // It may be another instruction than a store to a device: then when that is over.
                    None if self.stopped => anchor(&item.event)? + item.event.since,
                    None => anchor(&DeviceEvent { hart, after: after.saturating_add(1), ..item.event })?,
                },
            };
            Some((at.max(self.software_at), Next::Software))
        });
        let ports = self.ports.iter().enumerate().flat_map(|(place, port)| {
            let stages = Stage::ALL
                .into_iter()
                .filter_map(move |stage| Some((port.due(stage)?, Next::Stage(place, stage))));
            let arrival = port.next_arrival().filter(|_| !self.stopped);
            stages.chain(arrival.map(|at| (at, Next::Arrival(place))))
        });
        ports.chain(software).min()
    }

    /// The first of what follows instructions, if there is any.
    pub fn first_software_event(&self) -> Option<&DeviceEvent> {
        self.software.front().map(|item| &item.event)
    }

    /// It happens. Of a request, [`done`](RateReplay::done) is to be told when it is.
    pub fn take(&mut self, next: Next, now: Ps, stats: &mut PlayedStats) -> Option<PendingEvent> {
        let (place, stage) = match next {
            Next::Arrival(place) => {
                self.ports[place].arrive(now, stats);
                return None;
            }
            Next::Software => {
                self.software_at = now;
                let item = self.software.pop_front().expect("it is next");
                item.event.what.stored().and_then(|by| self.stores.remove(&(by.hart, by.after)));
                let port = self.ports.iter_mut().find(|port| port.device == item.event.device);
                let port = port.expect("it was surveyed");
                if let Some((direction, posted)) = item.posted {
                    port.post(direction, posted, now);
                }
                return Some((item.event, item.id));
            }
            Next::Stage(place, stage) => (place, stage),
        };
        let item = self.ports[place].take(stage, now);
        if let Some(wake) = item.wake
            && let Some(wake) = self.wakes.get_mut((wake - self.wakes_removed) as usize)
        {
            wake.at = Some(now);
        }
        if let EventKind::FrameOut { bytes } = item.event.what {
            self.leave(bytes, now);
        }
        Some((item.event, item.id))
    }

    /// A frame leaves: of what arrived here, it may be the answer.
    fn leave(&mut self, bytes: u32, now: Ps) {
        let (is_answer, request) = self.answers.leave();
        if self.answers.are_over() {
            self.ports
                .iter_mut()
                .filter_map(|port| port.arriving.as_mut())
                .for_each(|all| all.open_loop(now));
        }
        if !is_answer {
            return;
        }
        let receiver = self.ports.iter_mut().find(|port| port.arriving.is_some());
        let receiver = receiver.expect("frames pair where one device receives them");
        if let (Some(request), Some(latency)) = (request, &mut self.latency) {
            match receiver.arrived(request).filter(|arrived| *arrived <= now) {
                Some(arrived) => latency.record(now - arrived),
                // An answer before its request: they are not paired as they were, and none of the latencies can be believed.
                None => self.latency = None,
            }
        }
        if let Some(arriving) = &mut receiver.arriving {
            arriving.note_answer(bytes, now);
        }
    }

    /// Whether frames arrive here.
    pub fn receives(&self) -> bool {
        self.ports.iter().any(|port| port.arriving.is_some())
    }

    /// Until when frames could arrive, where no more do as the trace has none left.
    pub fn arrivals_end(&self) -> Option<Ps> {
        let receiving = self.ports.iter().filter(|port| port.arriving.is_some());
        receiving.map(Port::arrivals_end).collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// Latencies are kept anew.
    pub fn clear_latencies(&mut self) {
        if let Some(latency) = &mut self.latency {
            *latency = Latency::default();
        }
    }

    /// A hart's store to a device, its instruction of that number, arrives then.
    pub fn store(&mut self, hart: u16, position: u64, arrives: Ps) {
        if self.has_store_origins {
            self.stores.insert((hart, position), arrives);
        }
    }

    /// A request that happened is done then.
    pub fn done(&mut self, event: &DeviceEvent, dma: &Dma, done: Ps) {
        let port = self.ports.iter_mut().find(|port| port.device == event.device).expect("it was surveyed");
        port.done(dma, done);
        if dma.kind == DmaKind::RxDescriptorWriteback {
            self.reports_done.push_back(done);
        }
    }

    /// A hart has come behind so many instructions. Whether reports that it has not come to are in memory.
    pub fn update_reports(&mut self, hart: u16, position: u64, now: Ps) -> bool {
        let seen = |report: &Report| report.hart == hart && report.visible <= position;
        while self.reports.front().is_some_and(seen) {
            self.reports.pop_front();
            self.reports_seen += 1;
        }
        while let Some(first) = self.reports.front().map(|report| report.number)
            && self.reports_done_removed < first
            && self.reports_done.pop_front().is_some()
        {
            self.reports_done_removed += 1;
        }
        let waiting = self.reports.front().filter(|report| report.hart == hart);
        waiting.is_some() && self.reports_done.front().is_some_and(|done| *done <= now)
    }

    /// When a hart goes on that slept so long behind `position`.
    pub fn wake_time(&mut self, hart: u16, position: u64, slept: Ps) -> Wakeup {
        while self
            .wakes
            .front()
            .is_some_and(|wake| wake.hart == hart && wake.after < position && wake.at.is_some())
        {
            self.wakes.pop_front();
            self.wakes_removed += 1;
        }
        let ends = |wake: &&Wake| wake.hart == hart && wake.after == position && wake.since <= slept;
        match self.wakes.iter().rev().find(ends) {
            None => Wakeup::AsRecorded,
            Some(Wake { at: None, .. }) => Wakeup::NotYet,
            Some(Wake { at: Some(at), since, .. }) => Wakeup::At(*at + (slept - *since)),
        }
    }

    /// Nothing goes on: what was concluded of rings may be wrong. A fetch that waits for a tail goes on without, if the instruction behind
    /// which it was recorded has been played.
    pub fn force_progress(&mut self, now: Ps, is_behind: &dyn Fn(&DeviceEvent) -> bool) -> bool {
        let mut force_progress =
            |direction| self.ports.iter_mut().any(|port| port.force_progress(direction, now, is_behind));
        force_progress(Direction::Receive) || force_progress(Direction::Transmit)
    }
}

/// When an event's instruction was over, if it has been played.
pub(super) fn anchor(progress: &[Progress], reached: &[u64], event: &DeviceEvent) -> Option<Ps> {
    let hart = usize::from(event.hart);
    if event.after > reached[hart] { None } else { progress[hart].end_of(event.after) }
}
