//! Pairing of sent frames with the received frames that they answer.
//!
//! If a program sends frames from the buffers that it received them into, buffer addresses identify the
//! request. Otherwise answers are taken to be in the order of the requests. This requires the number of
//! requests in flight when the trace began. It is known if the only hart sleeps until an interrupt: all
//! requests for which it was interrupted before are then answered.

use std::collections::{BTreeMap, VecDeque};

use doorbell_sim::Ps;
use doorbell_sim::ports::DmaPurpose;
use doorbell_trace::system::{DeviceEvent, Dma};

use super::survey::{DeviceSurvey, Survey};

/// A hart that executes no instruction for this long is asleep.
pub(super) const ASLEEP: Ps = Ps::from_us(2);

/// Buffers that hold received frames which were not sent yet: frame number by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Buffers {
    unsent: BTreeMap<u64, u64>,
    received: u64,
}

impl Buffers {
    /// Records that the next frame is received at `addr`.
    pub fn receive(&mut self, addr: u64) {
        self.unsent.insert(addr, self.received);
        self.received += 1;
    }

    /// Records that a frame is sent from `addr`. Returns the number of the received frame in that buffer.
    pub fn send(&mut self, addr: u64) -> Option<u64> {
        self.unsent.remove(&addr)
    }
}

/// Pairing during a rate-controlled replay.
#[derive(Default)]
pub(super) struct Answers {
    pairs: bool,
    by_address: bool,
    buffers: Buffers,
    /// Requests answered by the frames read and not sent yet; frames sent whose data were read before the
    /// trace began.
    requests: VecDeque<Option<u64>>,
    read_before: u64,
    /// Frames sent so far and in total; without address pairing, how many of them answer requests from before
    /// the trace.
    sent: u64,
    all: u64,
    before: u64,
    /// Whether an answer to a request of the trace was sent.
    has_begun: bool,
}

impl Answers {
    /// `has_all`: whether the replayed devices receive and send all frames.
    pub fn new(survey: &Survey, has_all: bool) -> Answers {
        Answers {
            pairs: has_all && survey.pairing_problem().is_none(),
            by_address: survey.pairs.are_by_address(),
            read_before: survey.devices.values().map(DeviceSurvey::read_before).sum(),
            all: survey.devices.values().map(|device| device.sent.0).sum(),
            before: survey.in_flight_before,
            ..Answers::default()
        }
    }

    /// Records a DMA request.
    pub fn push(&mut self, dma: &Dma) {
        if !self.by_address || dma.offset != 0 {
            return;
        }
        match dma.purpose {
            DmaPurpose::RxData => self.buffers.receive(dma.addr.0),
            DmaPurpose::TxData => self.requests.push_back(self.buffers.send(dma.addr.0)),
            _ => {}
        }
    }

    /// Whether all frames of the trace have been sent.
    pub fn are_over(&self) -> bool {
        self.sent == self.all
    }

    /// Records a frame sent. Returns whether it counts as an answer, and its request if known. After the
    /// first answer, frames without a known request count as answers too, so that a closed loop does not
    /// stall.
    pub fn frame_sent(&mut self) -> (bool, Option<u64>) {
        let (before, sent) = (if self.by_address { self.read_before } else { self.before }, self.sent);
        self.sent += 1;
        let Some(number) = sent.checked_sub(before).filter(|_| self.pairs) else { return (false, None) };
        let request = if self.by_address { self.requests.pop_front().flatten() } else { Some(number) };
        self.has_begun |= request.is_some();
        (self.has_begun, request)
    }
}

/// Pairing evidence, gathered before playback.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pairs {
    buffers: Buffers,
    /// Frames sent from receive buffers, and other frames since the first of these.
    own: u64,
    other: u64,
    /// Instruction of the last interrupt, and frames received by then.
    interrupted: Option<(u64, u64)>,
    /// Instruction of the last event, and frames received before it.
    received_by: (u64, u64),
    /// Maximum number of answers to requests from before the trace, observed when the hart slept.
    before: Option<u64>,
}

impl Pairs {
    /// Records that a frame is received at `addr`.
    pub fn receive(&mut self, addr: u64, after: u64) {
        self.update_received(after);
        self.buffers.receive(addr);
    }

    /// Records that a frame is sent from `addr`.
    pub fn send(&mut self, addr: u64) {
        match self.buffers.send(addr) {
            Some(_) => self.own += 1,
            None => self.other += u64::from(self.own > 0),
        }
    }

    /// Updates the number of frames received before instruction `after`.
    fn update_received(&mut self, after: u64) {
        if self.received_by.0 != after {
            self.received_by = (after, self.buffers.received);
        }
    }

    /// Records an interrupt of the only hart, after `sent` frames were sent.
    pub fn interrupt(&mut self, event: &DeviceEvent, sent: u64) {
        self.update_received(event.after);
        let received = self.received_by.1;
        // The hart has run since an interrupt that followed the last frame received before this sleep.
        let is_handled =
            self.interrupted.is_some_and(|(after, by_then)| after < event.after && by_then >= received);
        if event.since >= ASLEEP && is_handled {
            self.before = self.before.max(Some(sent.saturating_sub(received)));
        }
        self.interrupted = Some((event.after, self.buffers.received));
    }

    /// Whether frames are sent from their receive buffers, with at most a tenth of exceptions.
    pub fn are_by_address(&self) -> bool {
        self.own > 0 && self.other * 10 <= self.own
    }

    /// Number of answers to requests from before the trace, if known.
    pub fn before(&self) -> Option<u64> {
        self.before
    }
}
