//! One device in a rate-controlled replay: its events by stage, and the progress of each stage.

use std::collections::VecDeque;
use std::ops::Range;

use doorbell_sim::Ps;
use doorbell_sim::ports::{DmaDirection, DmaPurpose};
use doorbell_trace::system::{DeviceEvent, Dma, EventKind};
use doorbell_wire::LinkConfig;

use super::frame_arrivals::{FrameArrivals, wire_time};
use super::pending::WriteId;
use super::ring::{Direction, Ring, Tail};
use super::sending::Sending;
use super::stats::PlayedStats;
use super::survey::DeviceSurvey;

/// Groups of a device's events. Each group keeps its recorded order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    ReceiveFetch,
    Receive,
    TransmitFetch,
    TransmitData,
    Out,
    TransmitReport,
}

impl Stage {
    pub const ALL: [Stage; 6] = [
        Stage::ReceiveFetch,
        Stage::Receive,
        Stage::TransmitFetch,
        Stage::TransmitData,
        Stage::Out,
        Stage::TransmitReport,
    ];
}

/// An event waiting in a stage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub event: DeviceEvent,
    pub id: Option<WriteId>,
    /// Number of descriptors, or of data requests, that must be available.
    pub need: u64,
    /// Received frame that the event begins.
    pub frame: Option<u64>,
    /// Recorded time since the previous event of the stage, if both follow the same instruction.
    pub gap: Ps,
    /// For a tail store: the direction, and the descriptors posted in total.
    pub posted: Option<(Direction, u64)>,
    pub wake: Option<u64>,
}

impl Item {
    pub fn new(event: DeviceEvent, id: Option<WriteId>) -> Item {
        Item { event, id, need: 0, frame: None, gap: Ps::ZERO, posted: None, wake: None }
    }
}

/// Times at which a count was reached; counts and times do not decrease.
#[derive(Default)]
struct ProgressLog(VecDeque<(u64, Ps)>);

/// Entries kept: no stage is further behind another.
const LOG_MAX: usize = 1 << 16;

impl ProgressLog {
    fn reach(&mut self, number: u64, at: Ps) {
        let last = self.0.back().copied().unwrap_or_default();
        self.0.push_back((number.max(last.0), at.max(last.1)));
        if self.0.len() > LOG_MAX {
            self.0.pop_front();
        }
    }

    /// Returns when the count reached `number`, or `None` if it has not.
    fn at(&self, number: u64) -> Option<Ps> {
        if number == 0 {
            return Some(Ps::ZERO);
        }
        let place = self.0.partition_point(|(reached, _)| *reached < number);
        self.0.get(place).map(|(_, at)| *at)
    }
}

/// A device and its stages.
#[derive(Default)]
pub(super) struct Port {
    pub device: u8,
    link: LinkConfig,
    /// Address range of the receive ring.
    pub ring: Range<u64>,
    receive: Ring,
    transmit: Ring,
    stages: [VecDeque<Item>; 6],
    last: [Ps; 6],
    /// Last event queued in each stage: hart, instruction, and time since that instruction.
    last_pushed: [Option<(u16, u64, Ps)>; 6],
    posted: [ProgressLog; 2],
    fetched: [ProgressLog; 2],
    /// Descriptor count of the last event taken or posted.
    taken: u64,
    data: ProgressLog,
    data_done: u64,
    /// Received frames: in the whole trace, read so far, and accepted from the wire.
    frames: u64,
    frames_pushed: u64,
    accepted: u64,
    /// Frames dropped since the last accepted one.
    refused: u64,
    arrivals: VecDeque<Ps>,
    arrivals_removed: u64,
    pub sizes: VecDeque<u32>,
    pub arriving: Option<FrameArrivals>,
    /// Descriptors of the data reads; data requests queued; number of each frame's last data request.
    sending: Sending,
    data_pushed: u64,
    frames_read: VecDeque<u64>,
    frames_read_removed: u64,
    outs_pushed: u64,
    outs_before: u64,
    was_receiving: bool,
}

/// Maximum number of consecutive frames dropped for lack of a descriptor.
const REFUSED_MAX: u64 = 1 << 16;
const RECEIVE: usize = Direction::Receive as usize;
const TRANSMIT: usize = Direction::Transmit as usize;

impl Port {
    pub fn new(
        device: u8,
        survey: &DeviceSurvey,
        link: &LinkConfig,
        arriving: Option<FrameArrivals>,
    ) -> Port {
        let mut posted = [ProgressLog::default(), ProgressLog::default()];
        posted[RECEIVE].reach(survey.receive.initially_posted(), Ps::ZERO);
        posted[TRANSMIT].reach(survey.transmit.initially_posted(), Ps::ZERO);
        let mut fetched = [ProgressLog::default(), ProgressLog::default()];
        fetched[RECEIVE].reach(survey.receive.initially_fetched(), Ps::ZERO);
        Port {
            device,
            link: link.clone(),
            ring: survey.receive.range(),
            receive: survey.receive.clone(),
            transmit: survey.transmit.clone(),
            posted,
            fetched,
            frames: survey.received,
            arriving,
            sending: survey.sending(),
            outs_before: survey.read_before(),
            ..Port::default()
        }
    }

    /// Whether the next frame to arrive has not been read from the file.
    pub fn needs_frames(&self) -> bool {
        self.arriving.is_some() && self.accepted < self.frames && self.frames_pushed <= self.accepted
    }

    /// Records a tail store. Returns the direction and the descriptors posted in total.
    pub fn tail(&mut self, Tail { direction, value, .. }: Tail) -> (Direction, u64) {
        let ring = if direction == Direction::Receive { &mut self.receive } else { &mut self.transmit };
        (direction, ring.posted(value, direction))
    }

    fn push(&mut self, stage: Stage, item: Item) {
        let DeviceEvent { hart, after, since, .. } = item.event;
        let before = self.last_pushed[stage as usize].replace((hart, after, since));
        let gap = match before {
            // The first data of a frame follow its arrival.
            _ if item.frame.is_some() => Ps::ZERO,
            Some((of, then, at)) if of == hart && then == after => since.saturating_sub(at),
            _ => Ps::ZERO,
        };
        let keeps = matches!(stage, Stage::Receive | Stage::TransmitReport);
        self.stages[stage as usize].push_back(Item { gap: if keeps { gap } else { Ps::ZERO }, ..item });
    }

    /// Queues a frame to be sent.
    pub fn push_frame_out(&mut self, event: DeviceEvent) {
        let frame = self.outs_pushed.checked_sub(self.outs_before);
        self.outs_pushed += 1;
        self.sending.frame_sent();
        let need = frame.and_then(|frame| {
            while self.frames_read_removed < frame && self.frames_read.len() > 1 {
                self.frames_read.pop_front();
                self.frames_read_removed += 1;
            }
            self.frames_read.front().copied()
        });
        self.push(Stage::Out, Item { need: need.unwrap_or(0), ..Item::new(event, None) });
    }

    /// Queues an interrupt in the stage of the device's previous event.
    pub fn push_interrupt(&mut self, event: DeviceEvent, wake: u64) {
        self.push(self.interrupt_stage(), Item { wake: Some(wake), ..Item::new(event, None) });
    }

    fn interrupt_stage(&self) -> Stage {
        if self.was_receiving { Stage::Receive } else { Stage::TransmitReport }
    }

    /// Queues a request. Returns it if it follows an instruction instead.
    pub fn push_dma(&mut self, event: DeviceEvent, dma: &Dma, id: Option<WriteId>) -> Option<Item> {
        let item = Item::new(event, id);
        self.was_receiving = match dma.purpose {
            // A message belongs to the request before it, as its interrupt does.
            DmaPurpose::Interrupt => self.was_receiving,
            purpose => matches!(purpose, DmaPurpose::RxDescriptor | DmaPurpose::RxData),
        };
        match (dma.purpose, dma.direction) {
            (DmaPurpose::RxDescriptor, DmaDirection::Read) => {
                let need = self.receive.fetch(dma, Direction::Receive);
                if !self.receive.has_tails() {
                    return Some(Item { posted: Some((Direction::Receive, need)), ..item });
                }
                self.push(Stage::ReceiveFetch, Item { need, ..item });
            }
            (DmaPurpose::TxDescriptor, DmaDirection::Read) => {
                self.sending.fetch(self.transmit.fetched());
                let need = self.transmit.fetch(dma, Direction::Transmit);
                if !self.transmit.has_tails() {
                    return Some(Item { posted: Some((Direction::Transmit, need)), ..item });
                }
                self.push(Stage::TransmitFetch, Item { need, ..item });
            }
            (DmaPurpose::RxData, _) => {
                let frame = (dma.offset == 0).then_some(self.frames_pushed);
                self.frames_pushed += u64::from(dma.offset == 0);
                // Descriptors on the device at the start of the trace were fetched before.
                let need = self.frames_pushed.min(self.receive.fetched());
                self.push(Stage::Receive, Item { need, frame, ..item });
            }
            (DmaPurpose::RxDescriptor, DmaDirection::Write) => {
                self.receive.write_back(dma);
                self.push(Stage::Receive, item);
            }
            (DmaPurpose::TxData, _) => {
                self.data_pushed += 1;
                if dma.offset == 0 {
                    self.frames_read.push_back(self.data_pushed);
                } else if let Some(last) = self.frames_read.back_mut() {
                    *last = self.data_pushed;
                }
                let need = self.sending.data(dma, self.transmit.fetched());
                if !self.transmit.has_tails() && self.transmit.fetched() == 0 {
                    // The trace has no descriptor events: the read follows an instruction of the program.
                    return Some(item);
                }
                self.push(Stage::TransmitData, Item { need, ..item });
            }
            (DmaPurpose::TxDescriptor, DmaDirection::Write) => {
                if let Some(up_to) = self.transmit.reported(dma) {
                    self.sending.report(up_to);
                }
                self.push(Stage::TransmitReport, Item { need: self.data_pushed, ..item });
            }
            (DmaPurpose::Interrupt, _) => self.push(self.interrupt_stage(), item),
            (DmaPurpose::Ring | DmaPurpose::Data, _) => return Some(item),
        }
        None
    }

    /// Time at which the first event of a stage is due, if its dependencies are met.
    pub fn due(&self, stage: Stage) -> Option<Ps> {
        let item = self.stages[stage as usize].front()?;
        let last = self.last[stage as usize] + item.gap;
        let follows = match stage {
            Stage::ReceiveFetch => self.posted[RECEIVE].at(item.need)?,
            Stage::TransmitFetch => self.posted[TRANSMIT].at(item.need)?,
            Stage::Receive => match item.frame {
                Some(frame) => self.arrived(frame)?.max(self.fetched[RECEIVE].at(item.need)?),
                None => Ps::ZERO,
            },
            Stage::TransmitData => self.fetched[TRANSMIT].at(item.need)?,
            Stage::Out | Stage::TransmitReport => self.data.at(item.need)?,
        };
        Some(last.max(follows))
    }

    /// Takes the first event of a stage.
    pub fn take(&mut self, stage: Stage, now: Ps) -> Item {
        let item = self.stages[stage as usize].pop_front().expect("the event is due");
        self.last[stage as usize] = now;
        self.taken = item.need;
        if let EventKind::FrameOut { bytes } = item.event.what {
            // The next frame starts when this one is on the wire.
            self.last[stage as usize] = now + wire_time(&self.link, bytes);
        }
        item
    }

    /// Records that `posted` descriptors have been posted in total.
    pub fn post(&mut self, direction: Direction, posted: u64, now: Ps) {
        self.posted[direction as usize].reach(posted, now);
        self.taken = posted;
    }

    /// Records that a request completes at `done`.
    pub fn done(&mut self, dma: &Dma, done: Ps) {
        match (dma.purpose, dma.direction) {
            (DmaPurpose::RxDescriptor, DmaDirection::Read) => self.fetched[RECEIVE].reach(self.taken, done),
            (DmaPurpose::TxDescriptor, DmaDirection::Read) => self.fetched[TRANSMIT].reach(self.taken, done),
            (DmaPurpose::TxData, _) => {
                self.data_done += 1;
                self.data.reach(self.data_done, done);
            }
            _ => {}
        }
    }

    /// Arrival time of a frame of the trace, if it has arrived.
    pub fn arrived(&self, frame: u64) -> Option<Ps> {
        if self.arriving.is_none() {
            return Some(Ps::ZERO);
        }
        self.arrivals.get(usize::try_from(frame.checked_sub(self.arrivals_removed)?).ok()?).copied()
    }

    /// Arrival time of the next frame, if there is one.
    pub fn next_arrival(&self) -> Option<Ps> {
        let arriving = self.arriving.as_ref().filter(|_| self.accepted < self.frames)?;
        arriving.next()
    }

    /// Arrival time of the frame after the trace's last one; in a closed loop, of the last one. `None` while
    /// frames are left.
    pub fn arrivals_end(&self) -> Option<Ps> {
        let arriving = self.arriving.as_ref().filter(|_| self.accepted == self.frames)?;
        arriving.next().or(self.arrivals.back().copied())
    }

    /// Receives the next frame of the trace, or drops a frame if no descriptor is free.
    pub fn arrive(&mut self, now: Ps, stats: &mut PlayedStats) {
        let bytes = self.sizes.front().copied();
        let arriving = self.arriving.as_mut().expect("frames arrive here");
        let bytes = bytes.unwrap_or(arriving.frame_bytes());
        stats.frames_offered += 1;
        // This many consecutive drops show that the ring was inferred wrongly, as the trace has frames left.
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
        if self.arrivals.len() > LOG_MAX {
            self.arrivals.pop_front();
            self.arrivals_removed += 1;
        }
    }

    /// Lets a fetch proceed without its tail store if its instruction has been played. Returns whether one
    /// does.
    pub fn force_progress(
        &mut self,
        direction: Direction,
        now: Ps,
        is_behind: &dyn Fn(&DeviceEvent) -> bool,
    ) -> bool {
        let stage = if direction == Direction::Receive { Stage::ReceiveFetch } else { Stage::TransmitFetch };
        let waits = |item: &&Item| self.due(stage).is_none() && is_behind(&item.event);
        let waits = self.stages[stage as usize].front().filter(waits);
        let need = waits.map(|item| item.need);
        if let Some(need) = need {
            self.post(direction, need, now);
        }
        need.is_some()
    }
}
