//! What a trace's devices do on the whole, gathered before it is played: what their rings are like, whether requests and answers pair, how
//! large the program's batches were.

use std::collections::BTreeMap;

use doorbell_sim::ports::DmaKind;
use doorbell_trace::system::{DeviceEvent, Dma, Happening, TraceFile};

use super::PlaybackError;
use super::devices::DeviceMap;
use super::place::Place;
use super::ring::{self, Ring, Way};

/// More frames than this are never on their way in one machine: rings and FIFOs hold fewer.
const INSIDE_MAX: u64 = 4096;

/// How many frames the program sent at a time: behind one doorbell of the transmit ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batches {
    /// How often so many were sent at once.
    pub counts: BTreeMap<u64, u64>,
}

impl Batches {
    /// Frames a batch.
    pub fn mean(&self) -> Option<f64> {
        let batches: u64 = self.counts.values().sum();
        let frames: u64 = self.counts.iter().map(|(size, count)| size * count).sum();
        (batches > 0).then(|| frames as f64 / batches as f64)
    }

    /// The largest.
    pub fn largest(&self) -> u64 {
        self.counts.keys().next_back().copied().unwrap_or(0)
    }
}

/// Where the trace's memory is.
fn move_to(event: &mut DeviceEvent, place: &mut Place) {
    if let Happening::Dma(dma) = &mut event.what {
        dma.addr = place.of(dma.addr);
    }
}

/// What one device does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceSurvey {
    /// Frames that arrived, and their bytes with FCS.
    pub arrived: (u64, u64),
    /// Frames that were written to memory. Others that arrived were dropped, or stayed behind.
    pub received: u64,
    /// Frames that were handed to the wire, and their bytes with FCS.
    pub sent: (u64, u64),
    /// Frames that were read from memory.
    pub(super) read: u64,
    /// Frames that were handed to the wire and had been read before the trace began.
    pub(super) read_before: u64,
    /// Descriptors whose data were read, and those of them that had been fetched before the trace began.
    consumed: u64,
    data_end: Option<u64>,
    pub(super) descriptors_before: u64,
    /// The receive ring.
    pub receive: Ring,
    /// The transmit ring.
    pub transmit: Ring,
}

impl DeviceSurvey {
    /// A descriptor's data are read, or go on.
    fn consume(&mut self, dma: &Dma) {
        let goes_on = dma.offset != 0 && self.data_end == Some(dma.addr.0);
        self.data_end = Some(dma.addr.0 + u64::from(dma.len));
        self.consumed += u64::from(!goes_on);
        self.descriptors_before =
            self.descriptors_before.max(self.consumed.saturating_sub(self.transmit.fetched()));
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
    /// Of all devices.
    pub batches: Batches,
    /// Frames that were sent for others than the trace has: they had arrived before it began.
    pub begun_before: u64,
    received: u64,
    sent: u64,
    /// The most that were inside.
    inside: u64,
    /// Frames received by some batch's end.
    batch: u64,
}

impl Survey {
    /// Of a trace that is not played yet.
    pub fn of_trace(file: &TraceFile) -> Result<Survey, PlaybackError> {
        Survey::of(file, &mut DeviceMap::new(&file.description().isa), &mut Place::new())
    }

    /// Goes through a trace's events twice: what rings are like shows only at their end.
    pub(super) fn of(
        file: &TraceFile,
        map: &mut DeviceMap,
        place: &mut Place,
    ) -> Result<Survey, PlaybackError> {
        let mut survey = Survey::default();
        let mut events = file.devices()?;
        while let Some(mut event) = events.next()? {
            map.note(&event);
            move_to(&mut event, place);
            survey.note(&event);
        }
        survey.end_batch();
        survey.begin();
        let mut events = file.devices()?;
        while let Some(mut event) = events.next()? {
            move_to(&mut event, place);
            survey.note_posted(&event);
        }
        survey.begin();
        Ok(survey)
    }

    fn begin(&mut self) {
        for device in self.devices.values_mut() {
            device.receive.begin();
            device.transmit.begin();
        }
    }

    fn note(&mut self, event: &DeviceEvent) {
        let device = self.devices.entry(event.device).or_default();
        match event.what {
            Happening::FrameIn { bytes } => {
                device.arrived.0 += 1;
                device.arrived.1 += u64::from(bytes);
            }
            Happening::FrameOut { bytes } => {
                device.sent.0 += 1;
                device.sent.1 += u64::from(bytes);
                device.read_before = device.read_before.max(device.sent.0.saturating_sub(device.read));
                self.sent += 1;
                self.begun_before = self.begun_before.max(self.sent.saturating_sub(self.received));
            }
            Happening::Register { .. } => match ring::tail(&event.what) {
                Some((Way::Receive, tail)) => device.receive.survey_tail(tail),
                Some((Way::Transmit, tail)) => {
                    device.transmit.survey_tail(tail);
                    self.end_batch();
                }
                None => {}
            },
            Happening::Dma(dma) => self.note_dma(event.device, &dma),
            Happening::Interrupt { .. } => {}
        }
    }

    fn note_dma(&mut self, device: u8, dma: &Dma) {
        let device = self.devices.entry(device).or_default();
        match dma.kind {
            DmaKind::RxData => {
                let first = u64::from(dma.offset == 0);
                device.received += first;
                self.received += first;
                self.inside = self.inside.max((self.received + self.begun_before).saturating_sub(self.sent));
            }
            DmaKind::TxData => {
                device.read += u64::from(dma.offset == 0);
                self.batch += u64::from(dma.offset == 0);
            }
            DmaKind::RxDescriptorFetch | DmaKind::RxDescriptorWriteback => {
                device.receive.survey(dma, Way::Receive);
            }
            DmaKind::TxDescriptorFetch => device.transmit.survey(dma, Way::Transmit),
            DmaKind::TxDescriptorWriteback => {}
        }
    }

    /// Frames that are read behind a doorbell were rung for by it, or by one before it that came while others were still to be read.
    fn end_batch(&mut self) {
        if self.batch > 0 {
            *self.batches.counts.entry(self.batch).or_default() += 1;
        }
        self.batch = 0;
    }

    fn note_posted(&mut self, event: &DeviceEvent) {
        let device = self.devices.entry(event.device).or_default();
        if let Some((way, tail)) = ring::tail(&event.what) {
            let ring = if way == Way::Receive { &mut device.receive } else { &mut device.transmit };
            ring.posted(tail, way);
            ring.note_tail();
        }
        let Happening::Dma(dma) = event.what else { return };
        let (ring, way) = match dma.kind {
            DmaKind::RxDescriptorFetch => (&mut device.receive, Way::Receive),
            DmaKind::TxDescriptorFetch => (&mut device.transmit, Way::Transmit),
            DmaKind::RxDescriptorWriteback => return device.receive.write_back(&dma),
            DmaKind::TxData => return device.consume(&dma),
            _ => return,
        };
        let need = ring.fetch(&dma, way);
        ring.there_at_first(need);
    }

    /// Why requests and answers do not pair, if they do not.
    pub fn unpaired(&self) -> Option<String> {
        let (received, sent) = (self.received, self.sent);
        let receiving = self.devices.values().filter(|device| device.received > 0).count();
        if received == 0 || sent == 0 {
            return Some(format!("{received} frames were received and {sent} sent"));
        }
        if receiving > 1 {
            return Some(format!("frames are received by {receiving} devices"));
        }
        if received.abs_diff(sent) * 10 > received || self.inside > INSIDE_MAX {
            return Some(format!("{received} frames were received, and {sent} sent: no answer for each"));
        }
        None
    }

    /// Why frames cannot come at another pace than they did, if they cannot.
    pub fn unpaceable(&self) -> Option<String> {
        if self.received == 0 {
            return Some("it has no frames that a device received".to_owned());
        }
        let rings = |device: &DeviceSurvey| device.receive.is_several() || device.transmit.is_several();
        let several = self.devices.iter().find(|(_, device)| rings(device));
        several.map(|(number, _)| {
            format!("device {number} has several rings of a kind, and which frame is of which is not told")
        })
    }
}
