//! Survey of a trace's device activity before playback: ring layouts, pairing of requests and answers, batch
//! sizes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use doorbell_sim::Ps;
use doorbell_sim::ports::{DmaDirection, DmaPurpose};
use doorbell_trace::system::{DeviceEvent, Dma, EventKind, TraceFile};

use super::PlaybackError;
use super::devices::{DeviceMap, is_of_nic};
use super::doorbells::{Batches, Doorbells};
use super::in_flight_at_start::{InFlightAtStart, InstructionClock};
use super::pairs::Pairs;
use super::relocation::Relocation;
use super::ring::{self, Direction, Ring};
use super::sending::Sending;

/// Maximum number of frames in flight in one machine; rings and FIFOs hold fewer.
const IN_FLIGHT_MAX: u64 = 4096;

/// Calls `note` for each device event of a trace, with its address relocated.
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

/// Activity of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceSurvey {
    /// Harts whose instructions its events follow.
    harts: BTreeSet<u16>,
    /// Frames that arrived, and their bytes with FCS.
    pub arrived: (u64, u64),
    /// Frames written to memory. Other arrivals were dropped or left in the FIFO.
    pub received: u64,
    /// Frames that were handed to the wire, and their bytes with FCS.
    pub sent: (u64, u64),
    /// Descriptors of the data reads.
    sending: Sending,
    /// Transmit descriptor fetches in flight at the start of the trace.
    fetches: InFlightAtStart,
    /// Frames read for transmission, and frames sent.
    read: u64,
    left: u64,
    /// Data reads in flight at the start of the trace.
    reads: InFlightAtStart,
    doorbells: Doorbells,
    /// The receive ring.
    pub receive: Ring,
    /// The transmit ring.
    pub transmit: Ring,
}

impl DeviceSurvey {
    /// Whether some of its events follow instructions of these harts.
    pub(super) fn follows_harts(&self, harts: &Range<usize>) -> bool {
        self.harts.iter().any(|hart| harts.contains(&usize::from(*hart)))
    }

    /// State of its data reads at the start of playback.
    pub(super) fn sending(&self) -> Sending {
        Sending::new(self.fetches.before(), self.read_before())
    }

    /// Frames sent in the trace whose data had been read before it began.
    pub(super) fn read_before(&self) -> u64 {
        self.reads.before()
    }

    /// Counts frames read for transmission and frames sent.
    fn note_sent(&mut self, what: &EventKind, time: Option<Ps>) {
        match what {
            EventKind::Dma(dma) if dma.purpose == DmaPurpose::TxData => {
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

    /// Records a data read for transmission.
    fn send(&mut self, dma: &Dma, time: Option<Ps>) {
        self.sending.survey_data(dma, self.transmit.fetched());
        self.fetches.note_use(self.sending.used(), time);
    }

    /// Records a fetch of transmit descriptors.
    fn fetch(&mut self, dma: &Dma, time: Option<Ps>) {
        self.sending.fetch(self.transmit.fetched());
        let need = self.transmit.fetch(dma, Direction::Transmit);
        self.transmit.note_initial_need(need);
        self.fetches.request(self.transmit.fetched(), time, dma.took);
    }

    /// Mean length of the frames that arrived, without FCS.
    pub(super) fn mean_frame_len(&self) -> usize {
        (self.arrived.1 / self.arrived.0.max(1)).saturating_sub(4).max(60) as usize
    }
}

/// Activity of all devices of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Devices by number.
    pub devices: BTreeMap<u8, DeviceSurvey>,
    /// NICs that are active in the trace.
    pub nics: BTreeSet<u8>,
    /// Batches of all devices.
    pub batches: Batches,
    /// Requests received before the trace began and answered in it.
    pub in_flight_before: u64,
    received: u64,
    sent: u64,
    /// Most requests in flight at once.
    pub(super) in_flight_max: u64,
    /// Whether the trace records which instruction stored to a register.
    pub(super) has_store_origins: bool,
    /// Pairing of answers and requests. Interrupts are used only if there is one hart.
    pub(super) pairs: Pairs,
    clock: InstructionClock,
    harts: u16,
    /// Number of events that follow each hart's instructions.
    pub(super) events_of_hart: Vec<u64>,
}

impl Survey {
    /// Surveys a trace that is not played yet.
    pub fn of_trace(file: &TraceFile) -> Result<Survey, PlaybackError> {
        Survey::gather(file, &mut DeviceMap::new(file.description()), &mut Relocation::new())
    }

    /// Surveys a trace in several passes: ring layouts, time per instruction and in-flight counts are known
    /// only at the end of a pass.
    pub(super) fn gather(
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
        if dma.is_write() && self.harts == 1 {
            self.clock.note_write(event, dma);
        }
        let device = self.devices.entry(event.device).or_default();
        match (dma.purpose, dma.direction) {
            (DmaPurpose::RxData, _) if dma.offset == 0 => {
                device.received += 1;
                self.received += 1;
                self.in_flight_max =
                    self.in_flight_max.max((self.received + self.in_flight_before).saturating_sub(self.sent));
                self.pairs.receive(dma.addr.0, event.after);
            }
            (DmaPurpose::TxData, _) if dma.offset == 0 => {
                device.doorbells.read();
                self.pairs.send(dma.addr.0);
            }
            (DmaPurpose::RxDescriptor, _) => device.receive.survey(dma, Direction::Receive),
            (DmaPurpose::TxDescriptor, DmaDirection::Read) => {
                device.transmit.survey(dma, Direction::Transmit);
            }
            _ => {}
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
            EventKind::FrameOut { .. } => return device.sending.frame_sent(),
            EventKind::Dma(dma) => dma,
            _ => return,
        };
        match (dma.purpose, dma.direction) {
            (DmaPurpose::RxDescriptor, DmaDirection::Read) => {
                let need = device.receive.fetch(&dma, Direction::Receive);
                device.receive.note_initial_need(need);
            }
            (DmaPurpose::RxDescriptor, DmaDirection::Write) => device.receive.write_back(&dma),
            (DmaPurpose::TxDescriptor, DmaDirection::Read) => device.fetch(&dma, time),
            (DmaPurpose::TxData, _) => device.send(&dma, time),
            (DmaPurpose::TxDescriptor, DmaDirection::Write) => {
                if let Some(up_to) = device.transmit.reported(&dma) {
                    device.sending.report(up_to);
                }
            }
            _ => {}
        }
    }

    /// Length of the receive ring in descriptors, if it is known and there is one ring.
    pub fn ring_descriptors(&self) -> Option<u64> {
        let rings = self.devices.values().map(|device| &device.receive);
        rings.filter(|ring| !ring.is_multiple_rings()).find_map(Ring::descriptors)
    }

    /// Why requests and answers do not pair one to one, if so.
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
            return Some(format!(
                "{received} frames were received but {sent} sent: not one answer per request"
            ));
        }
        None
    }

    /// Whether at least 90 % as many frames were sent as received: sent frames are then the program's output.
    pub fn answers(&self) -> bool {
        self.sent > 0 && self.sent * 10 >= self.received * 9
    }

    /// Why latencies at another rate are unknown although requests and answers pair, if so.
    pub fn latency_problem(&self) -> Option<String> {
        if self.pairs.are_by_address() || self.pairs.before().is_some() {
            return None;
        }
        let why = "answers leave from other buffers than their requests, and the trace never shows that no request is in flight";
        Some(why.to_owned())
    }

    /// Returns a device whose events follow instructions of these harts and of others.
    pub(super) fn split_device(&self, harts: &Range<usize>) -> Option<u8> {
        let is_own = |hart: &u16| harts.contains(&usize::from(*hart));
        let split_device = |of: &DeviceSurvey| of.follows_harts(harts) && !of.harts.iter().all(is_own);
        self.devices.iter().find(|(_, of)| split_device(of)).map(|(device, _)| *device)
    }

    /// Whether devices of these harts receive and send all frames.
    pub(super) fn has_all_traffic(&self, harts: &Range<usize>) -> bool {
        let mut with_traffic = self.devices.values().filter(|of| of.received + of.sent.0 > 0);
        with_traffic.all(|of| of.follows_harts(harts))
    }

    /// Whether latencies at another rate are known.
    pub(super) fn has_latency(&self) -> bool {
        self.pairing_problem().is_none() && self.latency_problem().is_none()
    }

    /// Why frames cannot arrive at another rate than recorded, if so.
    pub fn pace_problem(&self) -> Option<String> {
        if self.received == 0 {
            return Some("no device received a frame in it".to_owned());
        }
        let rings =
            |device: &DeviceSurvey| device.receive.is_multiple_rings() || device.transmit.is_multiple_rings();
        let several = self.devices.iter().find(|(_, device)| rings(device));
        several.map(|(number, _)| {
            format!("device {number} has several rings per direction, and the trace does not record the ring of a frame")
        })
    }
}
