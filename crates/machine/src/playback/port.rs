//! One device of a trace that is paced: lines of what it does, and how far each has come.

use std::collections::VecDeque;
use std::ops::Range;

use doorbell_sim::Ps;
use doorbell_sim::ports::DmaKind;
use doorbell_trace::system::{DeviceEvent, Dma, EventKind};
use doorbell_wire::LinkConfig;

use super::arriving::{Arriving, wire_time};
use super::pending::WriteId;
use super::ring::{Ring, Tail, Way};
use super::sending::Sending;
use super::stats::PlayedStats;
use super::survey::DeviceSurvey;

/// What keeps its own order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Line {
    ReceiveFetch,
    Receive,
    TransmitFetch,
    TransmitData,
    Out,
    TransmitReport,
}

impl Line {
    pub const ALL: [Line; 6] = [
        Line::ReceiveFetch,
        Line::Receive,
        Line::TransmitFetch,
        Line::TransmitData,
        Line::Out,
        Line::TransmitReport,
    ];
}

/// An event to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub event: DeviceEvent,
    pub id: Option<WriteId>,
    /// How many descriptors, or requests for data, have to be there.
    pub need: u64,
    /// Which received frame it begins.
    pub frame: Option<u64>,
    /// How long after the event before it in its line it came, if that is told.
    pub gap: Ps,
    /// Of a store of a tail: how many descriptors there are with it.
    pub posted: Option<(Way, u64)>,
    pub wake: Option<u64>,
}

impl Item {
    pub fn of(event: DeviceEvent, id: Option<WriteId>) -> Item {
        Item { event, id, need: 0, frame: None, gap: Ps::ZERO, posted: None, wake: None }
    }
}

/// Up to which number things had come when; numbers and times grow.
#[derive(Default)]
struct Log(VecDeque<(u64, Ps)>);

/// As many are kept: a line is never further behind another.
const LOG: usize = 1 << 16;

impl Log {
    fn reach(&mut self, number: u64, at: Ps) {
        let last = self.0.back().copied().unwrap_or_default();
        self.0.push_back((number.max(last.0), at.max(last.1)));
        if self.0.len() > LOG {
            self.0.pop_front();
        }
    }

    /// When so many were there; none if they are not.
    fn at(&self, number: u64) -> Option<Ps> {
        if number == 0 {
            return Some(Ps::ZERO);
        }
        let place = self.0.partition_point(|(reached, _)| *reached < number);
        self.0.get(place).map(|(_, at)| *at)
    }
}

/// See the module.
pub(super) struct Port {
    pub device: u8,
    link: LinkConfig,
    /// Where its receive descriptors lie.
    pub ring: Range<u64>,
    receive: Ring,
    transmit: Ring,
    lines: [VecDeque<Item>; 6],
    last: [Ps; 6],
    /// The event that was told last in each line, and how it was anchored.
    told: [Option<(u16, u64, Ps)>; 6],
    posted: [Log; 2],
    fetched: [Log; 2],
    /// What the fetch that happened last needed.
    taken: u64,
    data: Log,
    data_done: u64,
    /// Frames to be received in all, told so far, and taken by the wire.
    frames: u64,
    frames_told: u64,
    accepted: u64,
    /// Arrivals that were dropped since.
    refused: u64,
    arrivals: VecDeque<Ps>,
    arrivals_gone: u64,
    pub sizes: VecDeque<u32>,
    pub arriving: Option<Arriving>,
    /// Which descriptors data that are read belong to; requests for data that were told; which of them was each frame's last.
    sending: Sending,
    data_told: u64,
    frames_read: VecDeque<u64>,
    frames_read_gone: u64,
    outs_told: u64,
    outs_before: u64,
    was_receiving: bool,
}

/// Frames that find no descriptor one after the other, at most.
const REFUSED_MAX: u64 = 1 << 16;
const RECEIVE: usize = Way::Receive as usize;
const TRANSMIT: usize = Way::Transmit as usize;

impl Port {
    pub fn new(device: u8, survey: &DeviceSurvey, link: &LinkConfig, arriving: Option<Arriving>) -> Port {
        let mut posted = [Log::default(), Log::default()];
        posted[RECEIVE].reach(survey.receive.at_first(), Ps::ZERO);
        posted[TRANSMIT].reach(survey.transmit.at_first(), Ps::ZERO);
        let mut fetched = [Log::default(), Log::default()];
        fetched[RECEIVE].reach(survey.receive.on_device_at_first(), Ps::ZERO);
        Port {
            device,
            link: link.clone(),
            ring: survey.receive.range(),
            receive: survey.receive.clone(),
            transmit: survey.transmit.clone(),
            lines: Default::default(),
            last: [Ps::ZERO; 6],
            told: [None; 6],
            posted,
            fetched,
            taken: 0,
            data: Log::default(),
            data_done: 0,
            frames: survey.received,
            frames_told: 0,
            accepted: 0,
            refused: 0,
            arrivals: VecDeque::new(),
            arrivals_gone: 0,
            sizes: VecDeque::new(),
            arriving,
            sending: survey.sending(),
            data_told: 0,
            frames_read: VecDeque::new(),
            frames_read_gone: 0,
            outs_told: 0,
            outs_before: survey.read_before(),
            was_receiving: false,
        }
    }

    /// Whether the frame that arrives next is not known yet.
    pub fn wants_frames(&self) -> bool {
        self.arriving.is_some() && self.accepted < self.frames && self.frames_told <= self.accepted
    }

    /// A store of a tail is told.
    pub fn tail(&mut self, Tail { way, value, .. }: Tail) -> (Way, u64) {
        let ring = if way == Way::Receive { &mut self.receive } else { &mut self.transmit };
        (way, ring.posted(value, way))
    }

    fn push(&mut self, line: Line, item: Item) {
        let DeviceEvent { hart, after, since, .. } = item.event;
        let before = self.told[line as usize].replace((hart, after, since));
        let gap = match before {
            // A frame's first data come when the frame does.
            _ if item.frame.is_some() => Ps::ZERO,
            Some((of, then, at)) if of == hart && then == after => since.saturating_sub(at),
            _ => Ps::ZERO,
        };
        let keeps = matches!(line, Line::Receive | Line::TransmitReport);
        self.lines[line as usize].push_back(Item { gap: if keeps { gap } else { Ps::ZERO }, ..item });
    }

    /// A frame that leaves is told.
    pub fn tell_out(&mut self, event: DeviceEvent) {
        let frame = self.outs_told.checked_sub(self.outs_before);
        self.outs_told += 1;
        self.sending.leave();
        let need = frame.and_then(|frame| {
            while self.frames_read_gone < frame && self.frames_read.len() > 1 {
                self.frames_read.pop_front();
                self.frames_read_gone += 1;
            }
            self.frames_read.front().copied()
        });
        self.push(Line::Out, Item { need: need.unwrap_or(0), ..Item::of(event, None) });
    }

    /// An interrupt is told: of what the device did before it.
    pub fn tell_interrupt(&mut self, event: DeviceEvent, wake: u64) {
        let line = if self.was_receiving { Line::Receive } else { Line::TransmitReport };
        self.push(line, Item { wake: Some(wake), ..Item::of(event, None) });
    }

    /// A request is told; it comes back if it follows its instruction.
    pub fn tell_dma(&mut self, event: DeviceEvent, dma: &Dma, id: Option<WriteId>) -> Option<Item> {
        let item = Item::of(event, id);
        self.was_receiving =
            matches!(dma.kind, DmaKind::RxDescriptorFetch | DmaKind::RxDescriptorWriteback | DmaKind::RxData);
        match dma.kind {
            DmaKind::RxDescriptorFetch => {
                let need = self.receive.fetch(dma, Way::Receive);
                if !self.receive.has_tails() {
                    return Some(Item { posted: Some((Way::Receive, need)), ..item });
                }
                self.push(Line::ReceiveFetch, Item { need, ..item });
            }
            DmaKind::TxDescriptorFetch => {
                self.sending.fetch(self.transmit.fetched());
                let need = self.transmit.fetch(dma, Way::Transmit);
                if !self.transmit.has_tails() {
                    return Some(Item { posted: Some((Way::Transmit, need)), ..item });
                }
                self.push(Line::TransmitFetch, Item { need, ..item });
            }
            DmaKind::RxData => {
                let frame = (dma.offset == 0).then_some(self.frames_told);
                self.frames_told += u64::from(dma.offset == 0);
                // What was on the device when the trace began was fetched before.
                let need = self.frames_told.min(self.receive.fetched());
                self.push(Line::Receive, Item { need, frame, ..item });
            }
            DmaKind::RxDescriptorWriteback => {
                self.receive.write_back(dma);
                self.push(Line::Receive, item);
            }
            DmaKind::TxData => {
                self.data_told += 1;
                if dma.offset == 0 {
                    self.frames_read.push_back(self.data_told);
                } else if let Some(last) = self.frames_read.back_mut() {
                    *last = self.data_told;
                }
                let need = self.sending.data(dma, self.transmit.fetched());
                if !self.transmit.has_tails() && self.transmit.fetched() == 0 {
                    // Nothing tells of descriptors: it was the program that had it read.
                    return Some(item);
                }
                self.push(Line::TransmitData, Item { need, ..item });
            }
            DmaKind::TxDescriptorWriteback => {
                if let Some(up_to) = self.transmit.reported(dma) {
                    self.sending.report(up_to);
                }
                self.push(Line::TransmitReport, Item { need: self.data_told, ..item });
            }
        }
        None
    }

    /// When the first of a line happens, if what it follows has happened.
    pub fn due(&self, line: Line) -> Option<Ps> {
        let item = self.lines[line as usize].front()?;
        let last = self.last[line as usize] + item.gap;
        let follows = match line {
            Line::ReceiveFetch => self.posted[RECEIVE].at(item.need)?,
            Line::TransmitFetch => self.posted[TRANSMIT].at(item.need)?,
            Line::Receive => match item.frame {
                Some(frame) => self.arrived(frame)?.max(self.fetched[RECEIVE].at(item.need)?),
                None => Ps::ZERO,
            },
            Line::TransmitData => self.fetched[TRANSMIT].at(item.need)?,
            Line::Out | Line::TransmitReport => self.data.at(item.need)?,
        };
        Some(last.max(follows))
    }

    /// The first of a line happens.
    pub fn take(&mut self, line: Line, now: Ps) -> Item {
        let item = self.lines[line as usize].pop_front().expect("it is due");
        self.last[line as usize] = now;
        self.taken = item.need;
        if let EventKind::FrameOut { bytes } = item.event.what {
            // The next one begins behind it.
            self.last[line as usize] = now + wire_time(&self.link, bytes);
        }
        item
    }

    /// So many descriptors have been there.
    pub fn post(&mut self, way: Way, posted: u64, now: Ps) {
        self.posted[way as usize].reach(posted, now);
        self.taken = posted;
    }

    /// A request is done then.
    pub fn done(&mut self, dma: &Dma, done: Ps) {
        match dma.kind {
            DmaKind::RxDescriptorFetch => self.fetched[RECEIVE].reach(self.taken, done),
            DmaKind::TxDescriptorFetch => self.fetched[TRANSMIT].reach(self.taken, done),
            DmaKind::TxData => {
                self.data_done += 1;
                self.data.reach(self.data_done, done);
            }
            _ => {}
        }
    }

    /// When a frame of the trace arrived, if it has.
    pub fn arrived(&self, frame: u64) -> Option<Ps> {
        if self.arriving.is_none() {
            return Some(Ps::ZERO);
        }
        self.arrivals.get(usize::try_from(frame.checked_sub(self.arrivals_gone)?).ok()?).copied()
    }

    /// When the next frame arrives, if one does.
    pub fn next_arrival(&self) -> Option<Ps> {
        let arriving = self.arriving.as_ref().filter(|_| self.accepted < self.frames)?;
        arriving.next()
    }

    /// When the one would have come that would be next, if the trace has no more to take; in a closed loop, when the last one came.
    pub fn arrivals_end(&self) -> Option<Ps> {
        let arriving = self.arriving.as_ref().filter(|_| self.accepted == self.frames)?;
        arriving.next().or(self.arrivals.back().copied())
    }

    /// A frame arrives: the next one of the trace, if a descriptor is free.
    pub fn arrive(&mut self, now: Ps, stats: &mut PlayedStats) {
        let bytes = self.sizes.front().copied();
        let arriving = self.arriving.as_mut().expect("frames arrive here");
        let bytes = bytes.unwrap_or(arriving.frame_bytes());
        stats.frames_offered += 1;
        // So many in vain show that what was concluded of the ring is wrong, for the trace has frames to come.
        let is_accepted = self.posted[RECEIVE].at(self.accepted + 1).is_some() || self.refused == REFUSED_MAX;
        self.refused = if is_accepted { 0 } else { self.refused + 1 };
        arriving.arrived(now, bytes, is_accepted);
        if !is_accepted {
            stats.frames_dropped += 1;
            return;
        }
        self.sizes.pop_front();
        stats.frames_in += 1;
        stats.frames_in_bytes += u64::from(bytes);
        self.accepted += 1;
        self.arrivals.push_back(now);
        if self.arrivals.len() > LOG {
            self.arrivals.pop_front();
            self.arrivals_gone += 1;
        }
    }

    /// A fetch that waits for a tail goes on without it, if it is behind its instruction.
    pub fn relax(&mut self, way: Way, now: Ps, is_behind: &dyn Fn(&DeviceEvent) -> bool) -> bool {
        let line = if way == Way::Receive { Line::ReceiveFetch } else { Line::TransmitFetch };
        let waits = |item: &&Item| self.due(line).is_none() && is_behind(&item.event);
        let waits = self.lines[line as usize].front().filter(waits);
        let need = waits.map(|item| item.need);
        if let Some(need) = need {
            self.post(way, need, now);
        }
        need.is_some()
    }
}
