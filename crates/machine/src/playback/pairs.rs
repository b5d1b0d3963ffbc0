//! Which received frame a sent one answers.
//!
//! Where a program sends frames from the very buffers that they were received into, addresses tell. Where it writes its answers elsewhere,
//! they are taken to come in the order of the requests, and what has to be known is how many requests were under way when the trace began.
//! That shows where the only hart sleeps until an interrupt: of requests that it was interrupted for before, none is left then.

use std::collections::{BTreeMap, VecDeque};

use doorbell_sim::Ps;
use doorbell_sim::ports::DmaKind;
use doorbell_trace::system::{DeviceEvent, Dma};

use super::survey::{DeviceSurvey, Survey};

/// A hart without an instruction for so long is asleep.
pub(super) const ASLEEP: Ps = Ps::from_us(2);

/// Buffers that frames were received into and not yet sent from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Buffers {
    unsent: BTreeMap<u64, u64>,
    received: u64,
}

impl Buffers {
    /// The next frame is received there.
    pub fn receive(&mut self, addr: u64) {
        self.unsent.insert(addr, self.received);
        self.received += 1;
    }

    /// A frame is read from there to be sent: which one it is, of those received.
    pub fn send(&mut self, addr: u64) -> Option<u64> {
        self.unsent.remove(&addr)
    }
}

/// Of a trace that is paced, which requests its answers are to.
pub(super) struct Answers {
    pairs: bool,
    by_address: bool,
    buffers: Buffers,
    /// Requests of the frames that are read and have not left, and how many leave that were read before the trace began.
    requests: VecDeque<Option<u64>>,
    read_before: u64,
    /// Frames that have left, of all, and where addresses do not tell, how many of them answer what arrived before the trace began.
    sent: u64,
    all: u64,
    before: u64,
    /// An answer to a request of the trace has left.
    has_begun: bool,
}

impl Answers {
    /// Of all frames, if they are its own.
    pub fn new(survey: &Survey, has_all: bool) -> Answers {
        Answers {
            pairs: has_all && survey.pairing_problem().is_none(),
            by_address: survey.pairs.are_by_address(),
            buffers: Buffers::default(),
            requests: VecDeque::new(),
            read_before: survey.devices.values().map(DeviceSurvey::read_before).sum(),
            sent: 0,
            all: survey.devices.values().map(|device| device.sent.0).sum(),
            before: survey.in_flight_before,
            has_begun: false,
        }
    }

    /// A request to memory is told.
    pub fn push(&mut self, dma: &Dma) {
        if !self.by_address || dma.offset != 0 {
            return;
        }
        match dma.kind {
            DmaKind::RxData => self.buffers.receive(dma.addr.0),
            DmaKind::TxData => self.requests.push_back(self.buffers.send(dma.addr.0)),
            _ => {}
        }
    }

    /// Whether the trace has no more frames that leave.
    pub fn are_over(&self) -> bool {
        self.sent == self.all
    }

    /// A frame leaves: whether it is an answer to a request of the trace, and to which, if that is known. Behind the first, frames
    /// that are no known request's are taken for answers, so that a closed loop does not run dry.
    pub fn leave(&mut self) -> (bool, Option<u64>) {
        let (before, sent) = (if self.by_address { self.read_before } else { self.before }, self.sent);
        self.sent += 1;
        let Some(number) = sent.checked_sub(before).filter(|_| self.pairs) else { return (false, None) };
        let request = if self.by_address { self.requests.pop_front().flatten() } else { Some(number) };
        self.has_begun |= request.is_some();
        (self.has_begun, request)
    }
}

/// How answers are told to be whose, gathered before a trace is played.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pairs {
    buffers: Buffers,
    /// Frames that were sent from their own buffers, and others since the first of these.
    own: u64,
    other: u64,
    /// Behind which instruction the last interrupt came, and how many frames had been received by then.
    interrupted: Option<(u64, u64)>,
    /// The last instruction that something happened behind, and how many frames had been received before that.
    received_by: (u64, u64),
    /// The most answers to requests from before the trace, where a hart slept.
    before: Option<u64>,
}

impl Pairs {
    /// A frame is received there.
    pub fn receive(&mut self, addr: u64, after: u64) {
        self.look(after);
        self.buffers.receive(addr);
    }

    /// A frame is read from there to be sent.
    pub fn send(&mut self, addr: u64) {
        match self.buffers.send(addr) {
            Some(_) => self.own += 1,
            None => self.other += u64::from(self.own > 0),
        }
    }

    /// Behind the last instruction, so many frames had been received before it.
    fn look(&mut self, after: u64) {
        if self.received_by.0 != after {
            self.received_by = (after, self.buffers.received);
        }
    }

    /// The only hart is interrupted; so many frames have been sent.
    pub fn interrupt(&mut self, event: &DeviceEvent, sent: u64) {
        self.look(event.after);
        let received = self.received_by.1;
        // It ran since it was interrupted for all that had come before this sleep.
        let is_handled =
            self.interrupted.is_some_and(|(after, by_then)| after < event.after && by_then >= received);
        if event.since >= ASLEEP && is_handled {
            self.before = self.before.max(Some(sent.saturating_sub(received)));
        }
        self.interrupted = Some((event.after, self.buffers.received));
    }

    /// Whether frames are sent from the buffers that they were received into, but for a tenth.
    pub fn are_by_address(&self) -> bool {
        self.own > 0 && self.other * 10 <= self.own
    }

    /// How many answers are to requests from before the trace, if that is known.
    pub fn before(&self) -> Option<u64> {
        self.before
    }
}
