//! Replay of device events when frames arrive at another rate than recorded, or in a closed loop. The events
//! of each device are split into stages, each in its recorded order. Dependencies connect the stages, not
//! recorded times.
//!
//! | Event | Follows |
//! |---|---|
//! | store to a register | the instruction that made it, plus the attachment's latency; if the trace lacks that instruction, those executed until the store arrived |
//! | descriptor fetch | the tail store that posts the last of its descriptors |
//! | frame data written to memory | the frame's arrival, and the fetch of its descriptor |
//! | the frame's descriptor write-back, and the interrupt | the previous receive events of the device |
//! | frame data read | the fetch of its descriptor |
//! | frame handed to the wire | its data, and the previous frame on the wire |
//! | transmit descriptor write-back | the data read before it |
//!
//! Between consecutive events of a frame recorded after the same instruction, the device's own time is kept.
//! A sleep ended by an interrupt ends the same time after that interrupt as recorded. Each frame takes one
//! receive descriptor. A frame that finds none free is dropped: there is no FIFO before the ring.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use doorbell_loadgen::Latency;
use doorbell_sim::Ps;
use doorbell_sim::ports::DmaPurpose;
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

/// A receive descriptor write-back that its hart has not seen.
struct Report {
    hart: u16,
    visible: u64,
    number: u64,
}

/// When a sleeping hart wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wakeup {
    /// After as long as it slept when recorded.
    AsRecorded,
    /// At this time.
    At(Ps),
    /// After an interrupt that has not been raised yet.
    NotYet,
}

/// Kind of the next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Next {
    Software,
    Stage(usize, Stage),
    Arrival(usize),
}

/// The rate-controlled replay of harts recorded together and of their devices.
#[derive(Default)]
pub(super) struct RateReplay {
    ports: Vec<Port>,
    /// Events that follow instructions, and time of the last one.
    software: VecDeque<Item>,
    software_at: Ps,
    /// Arrival times of stores to devices, by hart and instruction.
    stores: BTreeMap<(u16, u64), Ps>,
    has_store_origins: bool,
    wakes: VecDeque<Wake>,
    wakes_removed: u64,
    reports: VecDeque<Report>,
    /// Write-backs queued, write-backs seen by the harts, and completion times of those not seen yet.
    reports_pushed: u64,
    pub reports_seen: u64,
    reports_done: VecDeque<Ps>,
    reports_done_removed: u64,
    answers: Answers,
    /// `None` if answers cannot be paired with requests.
    pub latency: Option<Latency>,
    /// No more frames arrive, as the harts have ended.
    pub stopped: bool,
}

impl RateReplay {
    /// Creates the replay of these harts and their devices.
    pub fn new(
        survey: &Survey,
        harts: &Range<usize>,
        link: &mut dyn FnMut(u8) -> (LinkConfig, Option<FrameArrivals>),
    ) -> RateReplay {
        let own = survey.devices.iter().filter(|(_, of)| of.follows_harts(harts));
        let ports = own.map(|(device, of)| {
            let (link, arriving) = link(*device);
            Port::new(*device, of, &link, arriving)
        });
        RateReplay {
            ports: ports.collect(),
            has_store_origins: survey.has_store_origins,
            answers: Answers::new(survey, survey.has_all_traffic(harts)),
            latency: (survey.has_latency() && survey.has_all_traffic(harts)).then(Latency::default),
            ..RateReplay::default()
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

    /// Queues an event read from the file.
    pub fn push(&mut self, (event, id): PendingEvent) {
        let port = port_of(&mut self.ports, event.device);
        match event.what {
            EventKind::Register { .. } => {
                let posted = ring::tail(&event.what).map(|tail| port.tail(tail));
                self.software.push_back(Item { posted, ..Item::new(event, id) });
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
                if dma.purpose == DmaPurpose::RxDescriptor && dma.is_write() {
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

    /// Returns the next event and its time. `anchor` returns when an event's instruction completed.
    pub fn next(&self, anchor: impl Fn(&DeviceEvent) -> Option<Ps>) -> Option<(Ps, Next)> {
        let software = self.software.front().and_then(|item| {
            let at = match item.event.what.stored() {
                None => anchor(&item.event)? + item.event.since,
                Some(StoreOrigin { hart, after }) => match self.stores.get(&(hart, after)) {
                    Some(arrives) => *arrives,
                    // The instruction may not be a store to a device: the next one has completed without a
                    // store.
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

    /// The first event that follows an instruction.
    pub fn first_software_event(&self) -> Option<&DeviceEvent> {
        self.software.front().map(|item| &item.event)
    }

    /// Runs an event. For a DMA request, the caller reports the completion with [`done`](RateReplay::done).
    pub fn take(&mut self, next: Next, now: Ps, stats: &mut PlayedStats) -> Option<PendingEvent> {
        let (place, stage) = match next {
            Next::Arrival(place) => {
                self.ports[place].arrive(now, stats);
                return None;
            }
            Next::Software => {
                self.software_at = now;
                let item = self.software.pop_front().expect("there is a software event");
                item.event.what.stored().and_then(|by| self.stores.remove(&(by.hart, by.after)));
                if let Some((direction, posted)) = item.posted {
                    port_of(&mut self.ports, item.event.device).post(direction, posted, now);
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
            self.frame_sent(bytes, now);
        }
        Some((item.event, item.id))
    }

    /// Records that a frame was sent, which may answer a request that arrived here.
    fn frame_sent(&mut self, bytes: u32, now: Ps) {
        let (is_answer, request) = self.answers.frame_sent();
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
                // The answer precedes its request: the pairing differs from the recorded one, so no latency
                // is reliable.
                None => self.latency = None,
            }
        }
        if let Some(arriving) = &mut receiver.arriving {
            arriving.note_answer(bytes, now);
        }
    }

    /// Whether any device receives frames.
    pub fn receives(&self) -> bool {
        self.ports.iter().any(|port| port.arriving.is_some())
    }

    /// Time until which frames could arrive, if the trace has none left.
    pub fn arrivals_end(&self) -> Option<Ps> {
        let receiving = self.ports.iter().filter(|port| port.arriving.is_some());
        receiving.map(Port::arrivals_end).collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// Clears the latency histogram.
    pub fn clear_latencies(&mut self) {
        if let Some(latency) = &mut self.latency {
            *latency = Latency::default();
        }
    }

    /// Records that a hart's store to a device, instruction number `position`, arrives at `arrives`.
    pub fn store(&mut self, hart: u16, position: u64, arrives: Ps) {
        if self.has_store_origins {
            self.stores.insert((hart, position), arrives);
        }
    }

    /// Records that a request completes at `done`.
    pub fn done(&mut self, event: &DeviceEvent, dma: &Dma, done: Ps) {
        port_of(&mut self.ports, event.device).done(dma, done);
        if dma.purpose == DmaPurpose::RxDescriptor && dma.is_write() {
            self.reports_done.push_back(done);
        }
    }

    /// Removes the write-backs that a hart sees at `position`. Returns whether its next one is in memory.
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

    /// Returns when a hart wakes that slept for `slept` at instruction `position`.
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

    /// Breaks a deadlock, which means that a ring was inferred wrongly: a fetch proceeds without its tail
    /// store, if the instruction after which it was recorded has been played.
    pub fn force_progress(&mut self, now: Ps, is_behind: &dyn Fn(&DeviceEvent) -> bool) -> bool {
        let mut force_progress =
            |direction| self.ports.iter_mut().any(|port| port.force_progress(direction, now, is_behind));
        force_progress(Direction::Receive) || force_progress(Direction::Transmit)
    }
}

fn port_of(ports: &mut [Port], device: u8) -> &mut Port {
    ports.iter_mut().find(|port| port.device == device).expect("every device is surveyed")
}

/// Time at which an event's instruction completed, if it has been played.
pub(super) fn anchor(progress: &[Progress], reached: &[u64], event: &DeviceEvent) -> Option<Ps> {
    let hart = usize::from(event.hart);
    if event.after > reached[hart] { None } else { progress[hart].end_of(event.after) }
}
