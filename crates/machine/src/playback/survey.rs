//! What a trace's devices do on the whole, gathered before it is played: what their rings are like, whether requests and answers pair, how
//! large the program's batches were.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use doorbell_sim::Ps;
use doorbell_sim::ports::DmaKind;
use doorbell_trace::system::{DeviceEvent, Dma, EventKind, TraceFile};

use super::PlaybackError;
use super::devices::{DeviceMap, is_of_nic};
use super::doorbells::{Batches, Doorbells};
use super::in_flight_at_start::{InFlightAtStart, InstructionClock};
use super::pairs::Pairs;
use super::relocation::Relocation;
use super::ring::{self, Direction, Ring};
use super::sending::Sending;

/// More frames than this are never on their direction in one machine: rings and FIFOs hold fewer.
const IN_FLIGHT_MAX: u64 = 4096;

/// Goes through a trace's events, moved to where its memory is.
fn each(
    file: &TraceFile,
    relocation: &mut Relocation,
    mut note: impl FnMut(&DeviceEvent),
) -> Result<(), PlaybackError> {
    let mut events = file.devices()?;
    while let Some(mut event) = events.next()? {
        if let EventKind::Dma(dma) = &mut event.what {
            dma.addr = relocation.relocate(dma.addr);
        }
        note(&event);
    }
    Ok(())
}

/// What one device does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceSurvey {
    /// By whose instructions it is told what it does.
    harts: BTreeSet<u16>,
    /// Frames that arrived, and their bytes with FCS.
    pub arrived: (u64, u64),
    /// Frames that were written to memory. Others that arrived were dropped, or stayed behind.
    pub received: u64,
    /// Frames that were handed to the wire, and their bytes with FCS.
    pub sent: (u64, u64),
    /// Which descriptors data that are read belong to.
    sending: Sending,
    /// Fetches of descriptors that are used, and frames that are read and leave.
    fetches: InFlightAtStart,
    read: u64,
    left: u64,
    reads: InFlightAtStart,
    doorbells: Doorbells,
    /// The receive ring.
    pub receive: Ring,
    /// The transmit ring.
    pub transmit: Ring,
}

impl DeviceSurvey {
    /// Whether it is told by some of these harts.
    pub(super) fn is_driven_by(&self, harts: &Range<usize>) -> bool {
        self.harts.iter().any(|hart| harts.contains(&usize::from(*hart)))
    }

    /// How its reads of data begin, when the trace is played.
    pub(super) fn sending(&self) -> Sending {
        Sending::new(self.fetches.before(), self.read_before())
    }

    /// Frames that were handed to the wire and had been read before the trace began.
    pub(super) fn read_before(&self) -> u64 {
        self.reads.before()
    }

    /// Frames that are read to be sent, and leave.
    fn note_sent(&mut self, what: &EventKind, time: Option<Ps>) {
        match what {
            EventKind::Dma(dma) if dma.kind == DmaKind::TxData => {
                self.read += u64::from(dma.offset == 0);
                self.reads.request(self.read, time, dma.took);
            }
            EventKind::FrameOut { .. } => {
                self.left += 1;
                self.reads.note_use(self.left, time);
            }
            _ => {}
        }
    }

    /// Data are read to be sent.
    fn send(&mut self, dma: &Dma, time: Option<Ps>) {
        self.sending.survey_data(dma, self.transmit.fetched());
        self.fetches.note_use(self.sending.used(), time);
    }

    /// Descriptors of frames to be sent are fetched.
    fn fetch(&mut self, dma: &Dma, time: Option<Ps>) {
        self.sending.fetch(self.transmit.fetched());
        let need = self.transmit.fetch(dma, Direction::Transmit);
        self.transmit.note_initial_need(need);
        self.fetches.request(self.transmit.fetched(), time, dma.took);
    }

    /// The mean of its received frames, without FCS.
    pub(super) fn mean_frame_len(&self) -> usize {
        (self.arrived.1 / self.arrived.0.max(1)).saturating_sub(4).max(60) as usize
    }
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// By their numbers.
    pub devices: BTreeMap<u8, DeviceSurvey>,
    /// Which of them are NICs, and have done something.
    pub nics: BTreeSet<u8>,
    /// Of all devices.
    pub batches: Batches,
    /// Frames that were sent for others than the trace has: they had arrived before it began.
    pub in_flight_before: u64,
    received: u64,
    sent: u64,
    /// The most that were in_flight_max.
    pub(super) in_flight_max: u64,
    /// Whether it is told which instructions stored to registers.
    pub(super) has_store_origins: bool,
    /// Which answers are to which requests; its interrupts say something where there is one hart.
    pub(super) pairs: Pairs,
    clock: InstructionClock,
    harts: u16,
    /// How many events are told by each hart's instructions.
    pub(super) events_of_hart: Vec<u64>,
}

impl Survey {
    /// Of a trace that is not played yet.
    pub fn of_trace(file: &TraceFile) -> Result<Survey, PlaybackError> {
        Survey::of(file, &mut DeviceMap::new(file.description()), &mut Relocation::new())
    }

    /// Goes through a trace's events some times: what rings are like, how long instructions take, and what was under direction at first shows only
    /// at their end.
    pub(super) fn of(
        file: &TraceFile,
        map: &mut DeviceMap,
        relocation: &mut Relocation,
    ) -> Result<Survey, PlaybackError> {
        let mut survey = Survey { harts: file.description().harts, ..Survey::default() };
        each(file, relocation, |event| {
            map.note(event);
            survey.note(event);
        })?;
        let batches = &mut survey.batches;
        survey.devices.values_mut().for_each(|device| device.doorbells.end(batches));
        survey.in_flight_before = survey.in_flight_before.max(survey.pairs.before().unwrap_or(0));
        each(file, relocation, |event| {
            let time = survey.clock.time(event);
            survey.devices.entry(event.device).or_default().note_sent(&event.what, time);
        })?;
        survey.begin();
        each(file, relocation, |event| survey.note_posted(event))?;
        survey.begin();
        Ok(survey)
    }

    fn begin(&mut self) {
        for device in self.devices.values_mut() {
            device.receive.begin();
            device.transmit.begin();
            device.sending = Sending::new(0, device.read_before());
        }
    }

    fn note(&mut self, event: &DeviceEvent) {
        let hart = usize::from(event.hart);
        self.events_of_hart.resize(self.events_of_hart.len().max(hart + 1), 0);
        self.events_of_hart[hart] += 1;
        if self.harts == 1 {
            self.clock.note(event);
        }
        if is_of_nic(event) {
            self.nics.insert(event.device);
        }
        let device = self.devices.entry(event.device).or_default();
        device.harts.insert(event.hart);
        match event.what {
            EventKind::FrameIn { bytes } => {
                device.arrived.0 += 1;
                device.arrived.1 += u64::from(bytes);
            }
            EventKind::FrameOut { bytes } => {
                device.sent.0 += 1;
                device.sent.1 += u64::from(bytes);
                self.sent += 1;
                self.in_flight_before = self.in_flight_before.max(self.sent.saturating_sub(self.received));
            }
            EventKind::Register { stored, .. } => {
                self.has_store_origins |= stored.is_some();
                match ring::tail(&event.what) {
                    Some(tail) if tail.direction == Direction::Receive => device.receive.survey_tail(tail),
                    Some(tail) => {
                        device.transmit.survey_tail(tail);
                        device.doorbells.ring(tail);
                    }
                    None => {}
                }
            }
            EventKind::Dma(dma) => self.note_dma(event, &dma),
            EventKind::Interrupt { raised: true } if self.harts == 1 => {
                self.pairs.interrupt(event, self.sent)
            }
            EventKind::Interrupt { .. } => {}
        }
    }

    fn note_dma(&mut self, event: &DeviceEvent, dma: &Dma) {
        if dma.write && self.harts == 1 {
            self.clock.note_write(event, dma);
        }
        let device = self.devices.entry(event.device).or_default();
        match dma.kind {
            DmaKind::RxData if dma.offset == 0 => {
                device.received += 1;
                self.received += 1;
                self.in_flight_max =
                    self.in_flight_max.max((self.received + self.in_flight_before).saturating_sub(self.sent));
                self.pairs.receive(dma.addr.0, event.after);
            }
            DmaKind::TxData if dma.offset == 0 => {
                device.doorbells.read();
                self.pairs.send(dma.addr.0);
            }
            DmaKind::RxData | DmaKind::TxData => {}
            DmaKind::RxDescriptorFetch | DmaKind::RxDescriptorWriteback => {
                device.receive.survey(dma, Direction::Receive);
            }
            DmaKind::TxDescriptorFetch => device.transmit.survey(dma, Direction::Transmit),
            DmaKind::TxDescriptorWriteback => {}
        }
    }

    fn note_posted(&mut self, event: &DeviceEvent) {
        let device = self.devices.entry(event.device).or_default();
        if let Some(tail) = ring::tail(&event.what) {
            let ring =
                if tail.direction == Direction::Receive { &mut device.receive } else { &mut device.transmit };
            ring.posted(tail.value, tail.direction);
            ring.note_tail();
        }
        let time = self.clock.time(event);
        let dma = match event.what {
            EventKind::FrameOut { .. } => return device.sending.leave(),
            EventKind::Dma(dma) => dma,
            _ => return,
        };
        match dma.kind {
            DmaKind::RxDescriptorFetch => {
                let need = device.receive.fetch(&dma, Direction::Receive);
                device.receive.note_initial_need(need);
            }
            DmaKind::TxDescriptorFetch => device.fetch(&dma, time),
            DmaKind::RxDescriptorWriteback => device.receive.write_back(&dma),
            DmaKind::TxData => device.send(&dma, time),
            DmaKind::TxDescriptorWriteback => {
                if let Some(up_to) = device.transmit.reported(&dma) {
                    device.sending.report(up_to);
                }
            }
            DmaKind::RxData => {}
        }
    }

    /// How many descriptors its receive ring has, if that is known and it is one.
    pub fn ring_descriptors(&self) -> Option<u64> {
        let rings = self.devices.values().map(|device| &device.receive);
        rings.filter(|ring| !ring.is_multiple_rings()).find_map(Ring::descriptors)
    }

    /// Why requests and answers do not pair, if they do not.
    pub fn pairing_problem(&self) -> Option<String> {
        let (received, sent) = (self.received, self.sent);
        let receiving = self.devices.values().filter(|device| device.received > 0).count();
        if received == 0 || sent == 0 {
            return Some(format!("{received} frames were received and {sent} sent"));
        }
        if receiving > 1 {
            return Some(format!("frames are received by {receiving} devices"));
        }
        if received.abs_diff(sent) * 10 > received || self.in_flight_max > IN_FLIGHT_MAX {
            return Some(format!("{received} frames were received, and {sent} sent: no answer for each"));
        }
        None
    }

    /// Whether at least nine of ten received frames were answered, or more were sent: what leaves is then what the program delivers.
    pub fn answers(&self) -> bool {
        self.sent > 0 && self.sent * 10 >= self.received * 9
    }

    /// Why it is not known from when to when an answer takes at another pace, where requests and answers pair.
    pub fn latency_problem(&self) -> Option<String> {
        if self.pairs.are_by_address() || self.pairs.before().is_some() {
            return None;
        }
        let why = "answers leave from other buffers than requests came into, and at no time is it told that none was under direction";
        Some(why.to_owned())
    }

    /// A device that is told by some of these harts, and by others.
    pub(super) fn split_device(&self, harts: &Range<usize>) -> Option<u8> {
        let is_own = |hart: &u16| harts.contains(&usize::from(*hart));
        let split_device = |of: &DeviceSurvey| of.is_driven_by(harts) && !of.harts.iter().all(is_own);
        self.devices.iter().find(|(_, of)| split_device(of)).map(|(device, _)| *device)
    }

    /// Whether all frames are received and sent by devices of these harts.
    pub(super) fn has_all_traffic(&self, harts: &Range<usize>) -> bool {
        let mut with_traffic = self.devices.values().filter(|of| of.received + of.sent.0 > 0);
        with_traffic.all(|of| of.is_driven_by(harts))
    }

    /// Whether it is known how long an answer takes at another pace.
    pub(super) fn has_latency(&self) -> bool {
        self.pairing_problem().is_none() && self.latency_problem().is_none()
    }

    /// Why frames cannot come at another pace than they did, if they cannot.
    pub fn pace_problem(&self) -> Option<String> {
        if self.received == 0 {
            return Some("it has no frames that a device received".to_owned());
        }
        let rings =
            |device: &DeviceSurvey| device.receive.is_multiple_rings() || device.transmit.is_multiple_rings();
        let several = self.devices.iter().find(|(_, device)| rings(device));
        several.map(|(number, _)| {
            format!("device {number} has several rings of a kind, and which frame is of which is not told")
        })
    }
}
