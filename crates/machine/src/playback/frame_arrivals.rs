//! Arrival of frames at a device in a rate-controlled replay: at a load generator's times, or in response to
//! answers.

use std::collections::VecDeque;

use doorbell_loadgen::DueTimes;
use doorbell_sim::{Frame, Ps};
use doorbell_wire::LinkConfig;

/// Arrivals at one device. A frame arrives with its last bit.
pub(super) struct FrameArrivals {
    link: LinkConfig,
    /// Mean length without FCS.
    frame_len: usize,
    source: Source,
}

enum Source {
    /// Send times of the generator, and when its link is free.
    Rate { due: Box<DueTimes>, free: Ps },
    /// Arrival times of requests in flight, and whether the trace has no answers left to wait for.
    Closed { in_flight: VecDeque<Ps>, is_open_loop: bool },
}

fn wire_bytes(link: &LinkConfig, bytes: u32) -> u64 {
    link.wire_bytes((bytes as usize).saturating_sub(Frame::FCS_BYTES))
}

/// Time on the wire of a frame of `bytes` bytes with FCS.
pub(super) fn wire_time(link: &LinkConfig, bytes: u32) -> Ps {
    link.rate.time_for_bits(8 * wire_bytes(link, bytes))
}

impl FrameArrivals {
    /// Arrivals at these send times.
    pub fn at_rate(due: DueTimes, frame_len: usize, link: &LinkConfig) -> FrameArrivals {
        let source = Source::Rate { due: Box::new(due), free: Ps::ZERO };
        FrameArrivals { link: link.clone(), frame_len, source }
    }

    /// A closed loop: `window` frames back to back, then one per answer.
    pub fn closed(window: u32, frame_len: usize, begin: Ps, link: &LinkConfig) -> FrameArrivals {
        let time = wire_time(link, (frame_len + Frame::FCS_BYTES) as u32);
        let first = (1..=u64::from(window)).map(|number| begin + Ps(time.0 * number) + link.latency);
        let source = Source::Closed { in_flight: first.collect(), is_open_loop: false };
        FrameArrivals { link: link.clone(), frame_len, source }
    }

    /// Mean frame size with FCS.
    pub fn frame_bytes(&self) -> u32 {
        (self.frame_len + Frame::FCS_BYTES) as u32
    }

    fn wire_time(&self, bytes: u32) -> Ps {
        wire_time(&self.link, bytes)
    }

    /// Time of the next arrival.
    pub fn next(&self) -> Option<Ps> {
        match &self.source {
            Source::Rate { due, free } => {
                let begins = due.next_due();
                let time = self.wire_time(self.frame_bytes()) + self.link.latency;
                (begins < Ps::MAX).then(|| begins.max(*free).saturating_add(time))
            }
            Source::Closed { in_flight, .. } => in_flight.front().copied(),
        }
    }

    /// Records an arrival. In a closed loop, a dropped request is sent again.
    pub fn arrived(&mut self, now: Ps, bytes: u32, is_accepted: bool) {
        let (wire_bytes, latency) = (wire_bytes(&self.link, bytes), self.link.latency);
        match &mut self.source {
            Source::Rate { due, free } => {
                *free = now.saturating_sub(latency);
                due.advance(wire_bytes);
            }
            Source::Closed { in_flight, is_open_loop } => {
                in_flight.pop_front();
                if !is_accepted {
                    in_flight.push_back(now + latency + latency);
                } else if *is_open_loop {
                    in_flight.push_back(now + self.link.rate.time_for_bits(8 * wire_bytes));
                }
            }
        }
    }

    /// Called after the last answer of the trace, as the last requests are answered after its end. Requests
    /// then come without waiting for answers, so that the program reaches the end.
    pub fn open_loop(&mut self, now: Ps) {
        if let Source::Closed { in_flight, is_open_loop } = &mut self.source {
            *is_open_loop = true;
            if in_flight.is_empty() {
                in_flight.push_back(now);
            }
        }
    }

    /// Records that an answer of `bytes` bytes was sent at `now`.
    pub fn note_answer(&mut self, bytes: u32, now: Ps) {
        let round = self.wire_time(bytes) + self.link.latency + self.link.latency;
        let arrives = now + round + self.wire_time(self.frame_bytes());
        if let Source::Closed { in_flight, .. } = &mut self.source {
            let at = in_flight.back().map_or(arrives, |last| arrives.max(*last));
            in_flight.push_back(at);
        }
    }
}
